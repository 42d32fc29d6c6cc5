"""Everything at once: messages, steering, consent, interrupts, and deaths of the runtime, its
shells and their daemons, in random order. Afterwards the journal and the files must agree."""

import json
import os
import random
import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hermes_agent.cli.client.api import RuntimeGone
from hermes_agent.core.errors import HermesError
from tests.faults.harness import PATIENCE, Case, ForkServer

TURNS = 5
STEPS = 50
LINE = re.compile(r"t\d+-\w+")

Event = dict[str, Any]


def script(work: Path) -> dict[str, Any]:
    def command(line: str, **more: object) -> Event:
        return {"tool": "terminal", "with": {"command": f"echo {line} >> effects.log", **more}}

    def append(line: str) -> Event:
        return {"tool": "append_line", "with": {"path": str(work / "effects.log"), "line": line}}

    turns: list[Event] = [
        {
            "when": rf"\bm{turn}\b",
            "replies": [
                {"calls": [command(f"t{turn}-one"), append(f"t{turn}-two")]},
                {"calls": [command(f"t{turn}-job", background=True), append(f"t{turn}-three")]},
                {"calls": [{"tool": "ask_user", "with": {"question": "go on?"}}]},
                {"calls": [command(f"t{turn}-four")]},
                {"say": "done"},
            ],
        }
        for turn in range(TURNS)
    ]
    return {"turns": [*turns, {"replies": [{"say": "noted"}] * 3}]}


class Storm(Case):
    """A home on which things go wrong, and what the user was told meanwhile."""

    def __init__(self, folder: Path, fork_server: ForkServer, chance: random.Random) -> None:
        super().__init__(folder, fork_server, 1)
        self.script.write_text(json.dumps(script(self.work)))
        self.chance = chance
        self.policy = chance.choice(["careful", "sandbox"])
        self.answers: dict[str, str] = {}
        self.done: Counter[str] = Counter()
        self.keys = [f"m{turn}" for turn in range(TURNS)]

    def rage(self) -> None:
        self.start()
        actions = {
            self.bring: 20, self.steer: 6, self.reply: 35, self.settle: 10,
            self.interrupt: 6, self.kill_shell: 6, self.die: 10, self.stop: 6,
        }  # fmt: skip
        for _ in range(STEPS):
            action = self.chance.choices(list(actions), list(actions.values()))[0]
            self.attempt(action)
            time.sleep(self.chance.choice((0.0, 0.01, 0.05)))

    def attempt(self, action: Any) -> None:
        try:
            if action():
                self.done[action.__name__] += 1
        except RuntimeGone:
            self.revive()
        except HermesError:
            self.done["refused"] += 1  # answered elsewhere, ended meanwhile, nothing to do

    def bring(self) -> bool:
        if not self.keys:
            return False
        self.post(self.keys[0], f"do {self.keys[0]}")
        self.keys.pop(0)
        return True

    def steer(self) -> bool:
        if self.session:
            self.post(f"s{self.done['steer']}-{time.time_ns()}", "mind this too")
        return bool(self.session)

    def post(self, key: str, text: str) -> None:
        message: dict[str, object] = {
            "text": text, "key": key, "session": self.session, "workspace": str(self.work),
            "model": f"scripted/{self.script}", "policy": self.policy, "interactive": True,
        }  # fmt: skip
        self.session = self.api.post("/v1/messages", message)["session"]
        self.acknowledged.append(key)

    def reply(self) -> bool:
        for question in self.api.get("/v1/questions"):
            answer = self.chance.choice(["yes", "yes", "yes", "no"])
            self.api.post(f"/v1/questions/{question['id']}", {"answer": answer})
            self.answers[question["id"]] = answer
        return True

    def settle(self) -> bool:
        for parked in self.api.get("/v1/parked"):
            line = LINE.search(parked["input"])
            happened = line is not None and line[0] in self.lines()
            decision = "it-happened" if happened else "retry"
            self.api.post(f"/v1/parked/{parked['effect']}", {"decision": decision})
        return True

    def interrupt(self) -> bool:
        if not self.session:
            return False
        told = self.api.post(f"/v1/sessions/{self.session}/interrupt")
        return bool(told["interrupted"])

    def kill_shell(self) -> bool:
        spool = self.home / "terminals" / self.session / "local"
        notes = [*spool.glob("daemon.*"), spool / "spine"] if self.session else []
        for note in self.chance.sample(notes, self.chance.randint(0, len(notes))):
            try:
                pid = int(note.read_text().split()[0])
                if str(spool).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError, IndexError):
                continue
        return bool(notes)

    def die(self) -> bool:
        self.kill()
        self.start()
        return True

    def stop(self) -> bool:
        os.kill(self.pid, signal.SIGTERM)
        self.has_died()
        self.start()
        return True

    def revive(self) -> None:
        if self.died:
            self.start()

    def calm(self) -> None:
        """Answer and decide until every turn has ended."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for action in (self.bring, self.reply, self.settle):
                self.attempt(action)
            if not self.keys and self.is_done():
                time.sleep(0.3)  # background commands end
                return
            time.sleep(0.01)
        raise AssertionError(f"it did not finish: {self.api.get('/v1/status')}")

    def check(self) -> None:
        journal = self.journal()
        events = [one["event"] for one in journal]

        def count(kind: str, key: str) -> Counter[str]:
            return Counter(event[key] for event in events if event["kind"] == kind)

        taken, ended = count("message_taken", "key"), count("call_finished", "effect")
        intended = count("call_intended", "effect")
        assert [key for key in self.acknowledged if taken[key] != 1] == []
        assert [effect for effect, times in ended.items() if times != 1] == []
        assert [effect for effect in intended if effect not in ended] == []
        assert count("turn_started", "kind").total() == count("turn_finished", "kind").total()
        told = {e["id"]: e["answer"] for e in events if e["kind"] == "question_answered"}
        assert {id: told.get(id) for id in self.answers} == self.answers
        self.check_lines(journal, events, told)
        assert self.api.get("/v1/check") == []

    def check_lines(self, journal: list[Event], events: list[Event], told: Event) -> None:
        """What ran was wanted, was allowed, was written down before, and ran once."""
        effects: dict[str, list[str]] = {}
        for one in journal:
            for index, call in enumerate(one["event"].get("calls", ())):
                if line := LINE.search(call["arguments"]):
                    effect = f"{self.session}-{one['number']}-{index}"
                    effects.setdefault(line[0], []).append(effect)
        judged = {e["effect"]: e["action"] for e in events if e["kind"] == "call_judged"}
        intended = {e["effect"] for e in events if e["kind"] == "call_intended"}
        for line, times in Counter(self.lines()).items():
            began = [effect for effect in effects[line] if effect in intended]
            assert times <= len(began), f"{line} ran {times} times for {began}"
            for effect in began:
                assert judged[effect] == "allow" or told[f"{effect}-ok"] == "yes", line
        for event in events:
            if event["kind"] == "call_finished" and event["text"].startswith("not run: "):
                line = next((name for name, ids in effects.items() if event["effect"] in ids), "")
                others = len(effects.get(line, [])) - 1
                ran = self.lines().count(line) if line else 0
                assert ran <= max(0, others), f"{line} was said not to have run"


def storm(folder: Path, fork_server: ForkServer, chance: random.Random) -> Counter[str]:
    """One storm and what it did; raises when the journal and the files do not agree."""
    one = Storm(folder, fork_server, chance)
    try:
        one.rage()
        one.calm()
        one.check()
    finally:
        one.close()
    return one.done
