"""People write on several channels while the runtime is killed, connections are cut, the platform
is busy, breaks, and loses answers. Afterwards every message was answered, in order, once."""

import asyncio
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.core.errors import HermesError
from tests.gateway.fork_server import CHANNELS, FORGETFUL
from tests.support.loop_platform import LoopPlatform
from tests.support.terminals import lives

TOKEN = re.compile(r"<\w+-\d+-\d+>")
ECHO = {"turns": [{"when": "", "replies": [{"echo": True}]}]}


class Chaos:
    def __init__(
        self, folder: Path, platform: LoopPlatform, messages: int, chats: int, seed: int
    ) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.platform = platform
        self.chance = random.Random(seed)
        self.messages = messages
        self.chats = chats
        self.said: dict[tuple[str, str], list[str]] = {}
        self.kills = 0
        self.pid = 0
        self.api = RuntimeClient(str(self.home))
        script = folder / "echo.json"
        script.write_text(json.dumps(ECHO))
        accounts = {
            name: platform.settings(name, allow=[f"p{n}" for n in range(chats)])
            for name in CHANNELS
        }
        settings = {
            "model": f"scripted/{script}",
            "policy": "sandbox",
            "gateway": {"probe_seconds": 2.0, "restarts": 1_000_000},
            "channels": accounts,
        }
        (self.home / "config.yaml").write_text(json.dumps(settings))
        platform.forgetful.add(FORGETFUL)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[2],
        )

    def start(self) -> None:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write(f"{self.home}\n")
        self._nursery.stdin.flush()
        self.pid = int(self._nursery.stdout.readline())

    async def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.kills += 1
        while lives(self.pid):
            await asyncio.sleep(0.005)

    def close(self) -> None:
        if self.pid and lives(self.pid):
            os.kill(self.pid, signal.SIGKILL)
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.close()
        self._nursery.stdout.close()
        self._nursery.wait()

    async def talk(self, pause: float) -> None:
        """Say everything, in bursts over all chats."""
        for number in range(self.messages):
            channel = self.chance.choice(CHANNELS)
            chat = f"c{self.chance.randrange(self.chats)}"
            told = self.said.setdefault((channel, chat), [])
            token = f"<{channel}{chat}-{len(told)}-{number}>"
            told.append(token)
            self.platform.say(channel, chat, f"say {token}", person=f"p{chat[1:]}")
            if number % 20 == 0:
                await asyncio.sleep(pause * self.chance.random() * 2)

    async def rage(self, kills: int, between: float) -> None:
        """Kill and start again, and cut every connection now and then."""
        self.start()
        for _ in range(kills):
            await asyncio.sleep(between * (0.3 + 1.4 * self.chance.random()))
            if self.chance.random() < 0.5:
                self.platform.cut_all()
            await self.kill()
            self.start()

    def answered(self, channel: str, chat: str) -> list[str]:
        texts = self.platform.texts(channel, chat)
        return [token for text in texts for token in TOKEN.findall(text)]

    def missing(self) -> int:
        return sum(len(set(told) - set(self.answered(*place))) for place, told in self.said.items())

    async def settle(self, seconds: float) -> None:
        """Until everything is answered and the ledgers are empty."""
        deadline = time.monotonic() + seconds
        while (left := self.missing()) or await asyncio.to_thread(self.left):
            assert time.monotonic() < deadline, f"{left} unanswered, {self.left()}"
            await asyncio.sleep(0.1)

    def left(self) -> dict[str, Any]:
        try:
            channels = self.api.get("/v1/gateway")["channels"]
        except HermesError:
            return {"runtime": "down"}
        wanted = ("new", "waiting", "set_aside", "dead")
        counts = {name: {key: shown[key] for key in wanted} for name, shown in channels.items()}
        return {name: found for name, found in counts.items() if any(found.values())}

    def check(self) -> Counter[str]:
        """Raises when something was lost, out of order, or said twice where that can be known;
        counts what was doubtful."""
        told: Counter[str] = Counter()
        for (channel, chat), said in self.said.items():
            answers = self.answered(channel, chat)
            if channel == FORGETFUL:
                firsts = list(dict.fromkeys(answers))
                told["doubled"] += len(answers) - len(firsts)
                answers = firsts
            assert answers == said, (channel, chat, _difference(said, answers))
            told["answers"] += len(answers)
        doubtful = self.doubtful()
        told["doubtful"] = len(doubtful)
        keys = Counter(row["key"] for row in self.platform.sent.get(FORGETFUL, []))
        assert {key for key, count in keys.items() if count > 1} <= doubtful
        return told

    def doubtful(self) -> set[str]:
        with closing(sqlite3.connect(self.home / "state.db")) as db:
            return {key for (key,) in db.execute("select key from gateway_outbox where doubtful")}


def _difference(said: list[str], answers: list[str]) -> dict[str, Any]:
    counts = Counter(answers)
    return {
        "lost": [one for one in said if one not in counts],
        "twice": [one for one, count in counts.items() if count > 1],
        "out of order": [
            (a, b) for a, b in zip(said, answers, strict=False) if a != b
        ][:5],
    }  # fmt: skip


async def storm(
    folder: Path, *, messages: int, chats: int, kills: int, between: float, pause: float,
    seed: int, patience: float,
) -> dict[str, Any]:  # fmt: skip
    """One storm, checked; the figures of it."""
    async with LoopPlatform(seed=seed) as platform:
        platform.cut, platform.lost, platform.busy = 0.02, 0.02, 0.03
        platform.broken, platform.twice = 0.03, 0.05
        one = Chaos(folder, platform, messages, chats, seed)
        try:
            began = time.monotonic()
            await asyncio.gather(one.talk(pause), one.rage(kills, between))
            await one.settle(patience)
            seconds = time.monotonic() - began
            told = one.check()
        finally:
            one.close()
        return {
            "messages": messages, "seconds": round(seconds, 1), "kills": one.kills,
            "sends": platform.attempts, **platform.troubles, **told,
        }  # fmt: skip
