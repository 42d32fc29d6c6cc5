"""The gateway: messages through ledger, router, journal and a scripted model, and chats that are
idle."""

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.table import Figure, scaled
from hermes_agent.core.gateway import Chat, ChatBinding, InboundMessage, OutboundMessage, Person
from hermes_agent.core.records import NewSession, SessionMessage
from hermes_agent.gateway.channel import ChannelContext, Manifest, Settings
from hermes_agent.gateway.gateway import Gateway
from hermes_agent.gateway.registry import ChannelRegistry
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.runtime.services import Domains

NAME = "bench"
MESSAGES = scaled(2_000, 40)
BUSY_CHATS = scaled(50, 4)
IDLE_CHATS = scaled(10_000, 50)
NEW_CHATS = scaled(2_000, 20)
AT_ONCE = scaled(200, 10)
MANIFEST = Manifest(NAME, "Bench", "Says and hears in this process.", __name__, knows_twice=True)
ECHO = {"turns": [{"when": "", "replies": [{"echo": True}]}]}


class Wire:
    """A platform without a network."""

    def __init__(self, surroundings: ChannelContext) -> None:
        self._around = surroundings
        self.sent = 0

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def say(self, number: int, chat: int) -> None:
        place = Chat(NAME, f"c{chat}")
        await self._around.receive(
            InboundMessage(f"m{number}", place, Person("p"), f"hi {number}"), ""
        )

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        self.sent += outgoing.text.count("hi ")  # one answer may be to several messages
        return key

    async def typing(self, chat: Chat) -> None: ...
    async def probe(self) -> None: ...
    async def close(self) -> None: ...


def make(settings: Settings, surroundings: ChannelContext) -> Wire:  # noqa: ARG001 - needs none
    return Wire(surroundings)


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        home = _home(Path(folder))
        direct = _child(home, "direct")
        talk = _child(home, "talk")
        yield Figure(
            f"a message in and its answer out, {MESSAGES:,} over {BUSY_CHATS} chats",
            talk["each"] * 1000, "ms", direct["each"] * 1000, "ms the same turns without a gateway",
            15, "ms",
        )  # fmt: skip
        yield Figure(
            "messages a second", talk["rate"], "/s", direct["rate"], "/s without a gateway"
        )
    with tempfile.TemporaryDirectory() as folder:
        home = _home(Path(folder))
        none = _child(home, "idle")["kb"]
        wrote = _child(home, "wrote")["kb"] - none
        _child(home, "bind")
        idle = _child(home, "idle")["kb"] - none
        floor = "MB a runtime with none of them"
        yield Figure(
            f"memory of a chat that wrote once, of {NEW_CHATS:,} since the start",
            wrote / NEW_CHATS, "kB", none / 1000, floor, 20, "kB",
        )  # fmt: skip
        yield Figure(
            f"memory of an idle chat, of {IDLE_CHATS:,}",
            idle / IDLE_CHATS, "kB", none / 1000, floor, 1, "kB",
        )  # fmt: skip


def _home(folder: Path) -> Path:
    home = folder / "home"
    home.mkdir()
    script = folder / "echo.json"
    script.write_text(json.dumps(ECHO))
    settings = {
        "model": f"scripted/{script}",
        "policy": "sandbox",
        "gateway": {"workspace": str(folder)},
        "channels": {NAME: {"allow": ["p"]}},
    }
    (home / "config.yaml").write_text(json.dumps(settings))
    return home


def _child(home: Path, what: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.gateway", str(home), what],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(json.loads(done.stdout.splitlines()[-1]))


async def _run(home: Path, what: str) -> dict[str, float]:
    services: list[Gateway] = []

    def face(domains: Domains) -> Gateway:
        services.append(Gateway(domains, registry=ChannelRegistry({NAME: MANIFEST})))
        return services[0]

    runtime = Runtime(home, {}, services=(face,))
    await runtime.start()
    try:
        match what:
            case "direct":
                return _rate(await _directly(runtime, home), MESSAGES)
            case "talk":
                wire = await _wire(services[0])
                return _rate(await _talk(wire, MESSAGES, BUSY_CHATS), MESSAGES)
            case "wrote":
                wire = await _wire(services[0])
                await _talk(wire, NEW_CHATS, NEW_CHATS)
            case "bind":
                await _bind(runtime, home)
            case _:
                await _wire(services[0])
        await asyncio.sleep(1.0)
        gc.collect()
        return {"kb": _resident_kb()}
    finally:
        await runtime.stop()


def _rate(seconds: float, count: int) -> dict[str, float]:
    return {"each": seconds / count, "rate": count / seconds}


async def _wire(gateway: Gateway) -> Wire:
    while (wire := gateway.channel(NAME)) is None:
        await asyncio.sleep(0.01)
    assert isinstance(wire, Wire)
    return wire


async def _talk(wire: Wire, count: int, chats: int) -> float:
    """Seconds until each message has its answer, with so many under way at a time."""
    before = wire.sent
    began = time.perf_counter()
    for first in range(0, count, AT_ONCE):
        last = min(first + AT_ONCE, count)
        await asyncio.gather(*(wire.say(number, number % chats) for number in range(first, last)))
        while wire.sent - before < last - AT_ONCE:
            await asyncio.sleep(0.002)
    while wire.sent - before < count:
        await asyncio.sleep(0.002)
    return time.perf_counter() - began


async def _bind(runtime: Runtime, home: Path) -> None:
    """Chats as they are when they have been talked in before."""
    session = await runtime.sessions.open_session(workspace=str(home.parent))
    prompt = await runtime.context.store.prompt(session.prompt)

    async def one(number: int) -> None:
        new = NewSession(str(home.parent), "sandbox", session.model, NAME)
        opened = await runtime.context.store.open_session(new, prompt)
        told = await runtime.context.store.last_number(opened.id)
        bond = ChatBinding(f"{number:020x}", opened.id, Chat(NAME, f"c{number}"), told)
        await runtime.context.store.gateway.save_binding(bond)

    for first in range(0, IDLE_CHATS, AT_ONCE):
        await asyncio.gather(*(one(number) for number in range(first, first + AT_ONCE)))


async def _directly(runtime: Runtime, home: Path) -> float:
    sessions = [
        await runtime.sessions.open_session(workspace=str(home.parent)) for _ in range(BUSY_CHATS)
    ]

    async def chat(number: int) -> None:
        for message in range(MESSAGES // BUSY_CHATS):
            await runtime.sessions.submit(
                sessions[number], SessionMessage(f"m{message}", f"hi {message}")
            )
            await runtime.sessions.wait_idle(sessions[number].id)

    began = time.perf_counter()
    await asyncio.gather(*(chat(number) for number in range(BUSY_CHATS)))
    return time.perf_counter() - began


def _resident_kb() -> float:
    status = Path("/proc/self/status").read_text()
    return float(next(line for line in status.splitlines() if "VmRSS" in line).split()[1])


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_run(Path(sys.argv[1]), sys.argv[2]))))
