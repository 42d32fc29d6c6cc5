"""Whether checks hold: what makes an incident resolved, and what says that it got worse."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hermes_agent.core.command_results import CommandOutcome, difference
from hermes_agent.core.incidents import Incident, TimelineEntry, WatchedCheck

APART_SECONDS = 2.0
"""Between the two looks that both must hold: what only flickers is not well."""
BESIDE_SECONDS = 5.0
"""What a check beside an incident's own may take: one that hangs keeps nothing from beginning."""
SHOWN_CHARS = 300
NEIGHBOURS = 20
"""Checks beside the incident's own that are looked at for harm."""
START = "start"
"""The note of the timeline that has how the checks stood when the work began."""

RunCommand = Callable[[str, float | None], Awaitable[CommandOutcome]]
"""Runs a command where the incident is, in a shell of its own and through the gate; one that is
refused or cannot be run comes back without an exit code."""


class CheckResult(Struct, frozen=True):
    """How a check stands."""

    name: str
    ok: bool
    exit: int | None
    output: str
    detail: str = ""
    """What differs."""
    service: str = ""

    @property
    def line(self) -> str:
        return f"{self.name}: holds" if self.ok else f"{self.name}: FAILS: {self.detail}"


async def check_once(
    check: WatchedCheck, run: RunCommand, most: float | None = None
) -> CheckResult:
    limit = check.check.timeout
    if most is not None:
        limit = most if limit is None else min(limit, most)
    seen = await run(check.check.run, limit)
    differs = difference(check.check.expect, seen)
    return CheckResult(
        check.name, not differs, seen.exit, _cut(seen.output), differs,
        check.service or check.name,
    )  # fmt: skip


async def check_all(
    checks: Sequence[WatchedCheck], run: RunCommand, most: float | None = None
) -> tuple[CheckResult, ...]:
    """All at once, each for as long as it may take, or `most` seconds."""
    return tuple(await asyncio.gather(*(check_once(check, run, most) for check in checks)))


async def check_twice(
    checks: Sequence[WatchedCheck], run: RunCommand, sleep: Callable[[float], Awaitable[None]]
) -> tuple[CheckResult, ...]:
    """What fails at either look fails."""
    first = await check_all(checks, run)
    if not all(held.ok for held in first):
        return first
    await sleep(APART_SECONDS)
    return await check_all(checks, run)


def neighbours(incident: Incident, watched: Sequence[WatchedCheck]) -> tuple[WatchedCheck, ...]:
    """Checks of what runs beside it, which must not fail because of what is done."""
    own = {check.name for check in incident.checks}
    near = [one for one in watched if one.name not in own and one.terminal == incident.terminal]
    return tuple(near[:NEIGHBOURS])


class Baseline(Struct, frozen=True):
    """How all checks stood when the work began."""

    own: Mapping[str, bool] = {}
    beside: Mapping[str, bool] = {}

    def worse(self, now: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
        """What held then and does not now."""
        return tuple(held for held in now if not held.ok and self.beside.get(held.name, False))


def start_of(entries: Sequence[TimelineEntry]) -> Baseline:
    found = [entry.data[START] for entry in entries if START in entry.data]
    return Baseline(**found[0]) if found else Baseline()


def as_start(own: Sequence[CheckResult], beside: Sequence[CheckResult]) -> Mapping[str, Any]:
    return {
        START: {
            "own": {held.name: held.ok for held in own},
            "beside": {held.name: held.ok for held in beside},
        }
    }


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= SHOWN_CHARS else f"…{text[1 - SHOWN_CHARS :]}"
