"""Runs checks to see whether an incident is over, and whether anything got worse."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hermes_agent.core.command_results import CommandOutcome, difference
from hermes_agent.core.incidents import Incident, TimelineEntry, WatchedCheck

APART_SECONDS = 2.0
"""Pause between the two runs that must both hold."""
BESIDE_SECONDS = 5.0
"""Time limit of a check that is not the incident's own."""
SHOWN_CHARS = 300
NEIGHBOURS = 20
"""How many other checks are run to detect harm."""
START = "start"
"""Key of the timeline's note with the state of the checks when the work began."""

RunCommand = Callable[[str, float | None], Awaitable[CommandOutcome]]
"""Runs a command on the incident's terminal, through the gate; without an exit code if it was
refused or could not be run."""


class CheckResult(Struct, frozen=True):
    """The result of a check."""

    name: str
    ok: bool
    exit: int | None
    output: str
    detail: str = ""
    """How it differs from what was expected."""
    service: str = ""

    @property
    def line(self) -> str:
        return f"{self.name}: OK" if self.ok else f"{self.name}: FAILS: {self.detail}"


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
    """Run checks at once, each within its own limit or `most` seconds."""
    return tuple(await asyncio.gather(*(check_once(check, run, most) for check in checks)))


async def check_twice(
    checks: Sequence[WatchedCheck], run: RunCommand, sleep: Callable[[float], Awaitable[None]]
) -> tuple[CheckResult, ...]:
    """Run checks twice; what fails either time fails."""
    first = await check_all(checks, run)
    if not all(held.ok for held in first):
        return first
    await sleep(APART_SECONDS)
    return await check_all(checks, run)


def neighbours(incident: Incident, watched: Sequence[WatchedCheck]) -> tuple[WatchedCheck, ...]:
    """Other checks on the same terminal, which the work must not break."""
    own = {check.name for check in incident.checks}
    near = [one for one in watched if one.name not in own and one.terminal == incident.terminal]
    return tuple(near[:NEIGHBOURS])


class Baseline(Struct, frozen=True):
    """The state of all checks when the work began."""

    own: Mapping[str, bool] = {}
    beside: Mapping[str, bool] = {}

    def worse(self, now: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
        """What held then and fails now."""
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
