"""Tools: what a call costs over the bare function, diagnostics at once, and what is never used."""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.table import Figure, scaled
from hermes_agent.core import events as ev
from hermes_agent.core.records import SessionMessage
from hermes_agent.core.settings.root import LoopSettings, Settings
from hermes_agent.core.tools import Tool
from hermes_agent.runtime.runtime import Runtime

CALLS = scaled(300, 10)
SOURCES = 8
SLOW = 0.5
"""Seconds that each of the diagnostics takes."""
DIAGNOSE = f"""
import hermes
for said in hermes.parallel([(terminal, {{"command": "sleep {SLOW}; uptime"}})] * {SOURCES}):
    print(said)
"""
UNUSED = """
import sys, time
began = time.perf_counter()
from hermes_agent.runtime.tools import builtin
from hermes_agent.agent.prompt import PromptContext, build_prompt
build_prompt(PromptContext("/w", "Linux", "2026-01-01"), builtin.specs(builtin.TABLE))
taken = time.perf_counter() - began
tools = {row.module for row in builtin.TABLE.values()}
heavy = {"mcp", "trafilatura", "pypdf", "websockets", "httpx", "lxml", "pydantic", "docx"}
print(len((tools | heavy) & set(sys.modules)), taken)
"""


def figures() -> Iterator[Figure]:
    yield from dispatch()
    yield from diagnostics()
    yield from unused()


def _look(what: str) -> str:
    return f"saw {what}"


def dispatch() -> Iterator[Figure]:
    """Judged, written before and after, run, told to the model: over calling the function."""
    began = time.perf_counter()
    for number in range(10_000):
        _look(str(number))
    floor = (time.perf_counter() - began) / 10_000
    tool = Tool("look", _look, "Look", repeatable=True)
    calls = [_call("look", what=str(number)) for number in range(CALLS)]
    taken = statistics.median(_times(calls, [tool], "look"))
    yield Figure(
        f"a tool call over a bare function call, median of {CALLS}",
        (taken - floor) * 1000, "ms", floor * 1e6, "µs the bare call", 5, "ms",
    )  # fmt: skip


def diagnostics() -> Iterator[Figure]:
    (taken,) = _times([_call("execute_code", code=DIAGNOSE)], None, "execute_code")
    yield Figure(
        "eight diagnostics by execute_code, times the slowest",
        taken / SLOW, "x", SLOW * SOURCES / SLOW, "x one after the other", 3.0, "x",
    )  # fmt: skip


def unused() -> Iterator[Figure]:
    done = subprocess.run([sys.executable, "-c", UNUSED], capture_output=True, text=True)
    count, taken = done.stdout.split()
    yield Figure("modules imported for tools that are not used", float(count), "", 0, "", 0, "")
    yield Figure("the prompt with all tools, imports included", float(taken) * 1000, "ms")


def _call(tool: str, **given: str) -> dict[str, Any]:
    return {"calls": [{"tool": tool, "with": given}]}


def _times(replies: list[dict[str, Any]], tools: Sequence[Tool] | None, name: str) -> list[float]:
    """Seconds from each reply to the end of the call that it asks for."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.json")
        script.write_text(json.dumps({"turns": [{"replies": [*replies, {"say": "done"}]}]}))
        return asyncio.run(_turn(Path(folder), f"scripted/{script}", tools, name))


async def _turn(folder: Path, model: str, tools: Sequence[Tool] | None, name: str) -> list[float]:
    settings = Settings(loop=LoopSettings(max_steps=CALLS + 2))
    runtime = Runtime(folder / "home", {"PATH": "/usr/bin:/bin"}, settings=settings, tools=tools)
    taken: list[float] = []
    asked = 0.0
    with runtime.context.bus.listen() as listener:
        await runtime.start()
        session = await runtime.sessions.open_session(
            workspace=str(folder), model=model, policy="sandbox"
        )
        await runtime.sessions.submit(session, SessionMessage("1", "go"))
        while (heard := await listener.next()) is not None:
            match heard.event:
                case ev.Replied():
                    asked = time.perf_counter()
                case ev.CallFinished(tool=ended, ok=ok) if ended == name:
                    assert ok
                    taken.append(time.perf_counter() - asked)
                case ev.TurnFinished(reason=reason):
                    assert reason == "done"
                    break
    await runtime.stop()
    return taken
