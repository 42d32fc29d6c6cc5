"""Runs checks when they are due, and raises a signal when they fail."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.incidents import CheckState, IngestResult, Signal, WatchedCheck
from hermes_agent.core.protocols import Clock
from hermes_agent.core.supervise import every, supervise
from hermes_agent.incidents.monitoring.config import MORNING, CheckFiles, LoadedChecks, Watched
from hermes_agent.store.incidents.store import IncidentStore

log = logging.getLogger("hermes.incidents")

POLL_SECONDS = 1.0
"""How often the files are read."""
RETRY_SECONDS = 15.0
"""How soon a failed check is run again."""
REMIND_SECONDS = 60.0
"""How often a check that keeps failing raises its signal."""
AT_ONCE = 8
"""Checks that run at once on one terminal."""
DETAIL = 2_000
DAY = 86_400.0


class CheckOutcome(Struct, frozen=True, omit_defaults=True):
    """The outcome of running a check."""

    ok: bool
    detail: str = ""
    """Why it failed, with its output."""
    code: int | None = None
    output: str = ""
    seconds: float = 0.0
    refused: bool = False
    """It could not be run: the gate refused, or the terminal is not available."""


RunCheck = Callable[[WatchedCheck, str], Awaitable[CheckOutcome]]
"""Runs a check under a policy profile; never raises."""


class CheckStatus(Struct, frozen=True, omit_defaults=True):
    """A check as `hermes watch list` shows it."""

    name: str
    service: str
    run: str
    every: float
    daily: bool
    severity: str
    source: str
    terminal: str
    owner: str
    file: str
    state: CheckState
    due: float
    after: int


def next_due(watched: Watched, state: CheckState, now: float) -> float:
    """When a check is due: now, if it never ran or the clock was set back."""
    if not state.last or state.last > now:
        return now
    if state.failures:
        return state.last + min(watched.every, RETRY_SECONDS)
    return morning_after(state.last) if watched.daily else state.last + watched.every


def runs_by_itself(watched: Watched, state: CheckState) -> bool:
    """Whether it runs without its level's job: at first, while it fails, and if it has its own
    interval."""
    return not watched.level or not state.last or bool(state.failures)


def morning_after(moment: float) -> float:
    """The next 08:00 local time."""
    day = time.localtime(moment)
    for ahead in (0, 1):
        at = time.mktime((day.tm_year, day.tm_mon, day.tm_mday + ahead, MORNING, 0, 0, 0, 0, -1))
        if at > moment:
            return at
    return moment + DAY


class CheckScheduler:
    def __init__(
        self,
        files: CheckFiles,
        store: IncidentStore,
        *,
        run: RunCheck,
        raise_signal: Callable[[Signal], Awaitable[IngestResult]],
        redact: Callable[[str], str],
        clock: Clock,
    ) -> None:
        self._files = files
        self._store = store
        self._run = run
        self._raise = raise_signal
        self._redact = redact
        self._clock = clock
        self._states: dict[str, CheckState] | None = None
        self._reported: dict[str, float] = {}
        self._running: dict[str, asyncio.Task[CheckOutcome]] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        """By terminal, so that checks that hang on one do not delay another."""
        self._problems: tuple[object, ...] = ()
        self.loaded = LoadedChecks()

    async def reload(self) -> LoadedChecks:
        """Read the files again."""
        self.loaded = await asyncio.to_thread(self._files.load)
        if self.loaded.problems != self._problems:
            self._problems = self.loaded.problems
            for problem in self.loaded.problems:
                log.warning("checks/%s: %s", problem, problem.hint)
        return self.loaded

    async def run(self) -> None:
        """Run what is due, until cancelled."""
        try:
            await supervise("watching", self.start_due, every(POLL_SECONDS))
        finally:
            for task in self._running.values():
                task.cancel()

    async def start_due(self) -> None:
        loaded = await self.reload()
        states = await self._known()
        now = self._clock()
        for watched in loaded.checks:
            state = states.get(watched.name, CheckState(watched.name))
            if watched.name in self._running or not runs_by_itself(watched, state):
                continue
            if next_due(watched, state, now) <= now:
                self._begin(watched)
        for name in states.keys() - {watched.name for watched in loaded.checks}:
            del states[name]
            self._reported.pop(name, None)
            await self._store.drop_check(name)

    def _begin(self, watched: Watched, by_hand: bool = False) -> "asyncio.Task[CheckOutcome]":
        task = asyncio.create_task(self._once(watched, by_hand))
        self._running[watched.name] = task

        def ended(task: asyncio.Task[CheckOutcome]) -> None:
            self._running.pop(watched.name, None)
            if task.cancelled() or (error := task.exception()) is None:
                return
            if isinstance(error, HermesError):
                log.warning("the result of check %s was not saved: %s", watched.name, error)
            else:
                log.error("check %s: %s", watched.name, error, exc_info=error)

        task.add_done_callback(ended)
        return task

    async def _known(self) -> dict[str, CheckState]:
        if self._states is None:
            self._states = {state.name: state for state in await self._store.check_states()}
        return self._states

    async def run_check(self, name: str) -> CheckOutcome:
        """Run one now, by hand. A success counts; a failure is only shown, and left to the
        schedule to confirm."""
        for watched in (await self.reload()).checks:
            if watched.name == name:
                return await asyncio.shield(self._running.get(name) or self._begin(watched, True))
        raise NotFound(f"no check called {name!r}", "`hermes watch list` shows them")

    async def run_level(self, level: str) -> str:
        """Run all checks of a level; returns a summary."""
        mine = [one for one in (await self.reload()).checks if one.level == level]
        running = [self._running.get(one.name) or self._begin(one) for one in mine]
        outcomes = await asyncio.shield(asyncio.gather(*running))
        failing = [one.name for one, came in zip(mine, outcomes, strict=True) if not came.ok]
        if not mine:
            return ""
        if failing:
            return f"{len(failing)} of {len(mine)} {level} checks fail: {', '.join(failing)}"
        return f"{len(mine)} {level} checks pass" if len(mine) > 1 else f"the {level} check passes"

    async def _once(self, watched: Watched, by_hand: bool) -> CheckOutcome:
        async with self._slots.setdefault(watched.check.terminal, asyncio.Semaphore(AT_ONCE)):
            began = self._clock()
            outcome = await self._run(watched.check, watched.policy)
        states = await self._known()
        before = states.get(watched.name, CheckState(watched.name))
        failures = 0 if outcome.ok else before.failures + 1
        state = CheckState(
            watched.name,
            outcome.ok,
            before.since if before.ok is outcome.ok else began,
            self._clock(),
            failures,
            "" if outcome.ok else self._redact(outcome.detail)[:DETAIL],
            outcome.seconds,
        )
        if by_hand and not outcome.ok:
            states[watched.name] = replace(state, last=before.last, failures=before.failures)
            return outcome
        # Reported before it is saved: a runtime that dies in between reports it again, which is
        # the same signal. If the report fails, the next run finds the failure new.
        states[watched.name] = replace(before, last=state.last)
        await self._report(watched, before, state, began, outcome.refused)
        states[watched.name] = state
        await self._store.save_check(state)
        return outcome

    async def _report(
        self, watched: Watched, before: CheckState, state: CheckState, began: float, refused: bool
    ) -> None:
        if state.ok:
            self._reported.pop(watched.name, None)
            if before.failures >= watched.after:
                await self._raise(self._signal(watched, state, began, firing=False))
            return
        last = self._reported.get(watched.name)
        certain = state.failures >= watched.after
        if certain and (last is None or abs(state.last - last) >= REMIND_SECONDS):
            await self._raise(self._signal(watched, state, began, refused=refused))
            self._reported[watched.name] = state.last

    def _signal(
        self,
        watched: Watched,
        state: CheckState,
        began: float,
        *,
        firing: bool = True,
        refused: bool = False,
    ) -> Signal:
        check = watched.check
        what = "cannot be run" if refused else "fails"
        return Signal(
            watched.source,
            f"check:{check.name}",
            f"{watched.service}: the check {check.name} {what}",
            watched.service,
            check.severity,
            firing,
            f"$ {check.check.run}\n{state.detail}",
            began,
            check.owner,
            watched.labels,
            check,
            check.terminal,
            watched.policy,
        )

    async def statuses(self) -> list[CheckStatus]:
        """Every check with its state and when it is due."""
        now = self._clock()
        states = await self._known()
        found = []
        for watched in (await self.reload()).checks:
            check = watched.check
            state = states.get(watched.name, CheckState(watched.name))
            due = next_due(watched, state, now)
            found.append(
                CheckStatus(
                    watched.name, watched.service, check.check.run, watched.every, watched.daily,
                    check.severity, watched.source, check.terminal, check.owner, watched.file,
                    state, due, watched.after,
                )
            )  # fmt: skip
        return found
