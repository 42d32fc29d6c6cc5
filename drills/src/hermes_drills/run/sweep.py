"""Many runs in one go, side by side. One that fails is named at the end, and the others go on."""

import sys
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from hermes_drills.compose import Case
from hermes_drills.errors import DrillError
from hermes_drills.run import results
from hermes_drills.run.client import Runtime
from hermes_drills.run.results import Result
from hermes_drills.run.runner import Mode, run_drill
from hermes_drills.run.view import View, table

_Key = tuple[str, str, str, str, int, str]


class Sweep:
    def __init__(
        self, runtime: Runtime, cases: Sequence[Case], mode: Mode, *, at_once: int = 1,
        resume: bool = False, view: View | None = None,
    ) -> None:  # fmt: skip
        self._runtime, self._mode, self._at_once = runtime, mode, at_once
        self._view = view if at_once == 1 else None
        known = {_key_of(one): one for one in self._kept()} if resume else {}
        self.results: list[Result] = [known[_key(one)] for one in cases if _key(one) in known]
        self.failed: list[str] = []
        self._todo = [one for one in cases if _key(one) not in known]
        self._total, self._before = len(self._todo), len(self.results)
        self._stop = threading.Event()
        self._began = time.monotonic()

    def run(self) -> None:
        if self.results:
            _say(f"already done: {len(self.results)} of {self._total + self._before}")
        going: dict[Future[Result], Case] = {}
        with ThreadPoolExecutor(self._at_once) as pool:
            try:
                while self._todo or going:
                    while len(going) < self._at_once and (case := self._next(going.values())):
                        going[pool.submit(self._one, case)] = case
                    for done in wait(going, return_when=FIRST_COMPLETED).done:
                        self._ended(going.pop(done), done)
            finally:
                self._stop.set()  # each run that is under way removes its box

    @property
    def good(self) -> bool:
        return bool(self.results) and not self.failed and all(one.resolved for one in self.results)

    def _next(self, going: Collection[Case]) -> Case | None:
        """Never two of one family at once: the second is to use what the first has learned."""
        busy = {one.fault.category for one in going}
        found = next((one for one in self._todo if one.fault.category not in busy), None)
        if found is not None:
            self._todo.remove(found)
        return found

    def _one(self, case: Case) -> Result:
        return run_drill(self._runtime, case, self._mode, self._view, self._stop)

    def _ended(self, case: Case, done: "Future[Result]") -> None:
        error = done.exception()
        if error is None:
            self.results.append(done.result())
            said = describe(done.result())
        elif isinstance(error, BrokenPipeError) or not isinstance(error, Exception):
            raise error
        else:
            why = (
                error.message
                if isinstance(error, DrillError)
                else f"{type(error).__name__}: {error}"
            )
            self.failed.append(f"{case.name}: {why}")
            said = f"{case.name}: FAILED, {why}"
        done_now = len(self.failed) + len(self.results) - self._before
        pace = (time.monotonic() - self._began) / done_now
        rest = self._total - done_now
        _say(
            f"[{done_now}/{self._total}] {said}"
            + (f"; about {pace * rest / 60:.0f} min left" if rest else "")
        )

    def _kept(self) -> list[Result]:
        model = self._mode.model
        return [
            one for one in results.load(self._runtime.home / "drills")
            if one.learning == self._mode.learning and (not model or model in one.model)
        ]  # fmt: skip


def _key(case: Case) -> _Key:
    world = case.world
    return (case.fault.category, case.fault.mechanism, world.stack, world.boot, case.seed,
            case.split)  # fmt: skip


def _key_of(result: Result) -> _Key:
    return (result.family, result.mechanism, result.stack, result.init, result.seed, result.split)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def describe(result: Result) -> str:
    """What a run came to, in a line."""
    why = "; ".join((*result.harm, *result.wrong))[:120]
    outcome = result.outcome if result.resolved or not why else f"{result.outcome} ({why})"
    cause = "correct cause" if result.cause else f"wrong cause ({result.said[:120]})"
    figures = f"{result.steps} replies, {result.calls} calls, {result.seconds:.0f} s"
    return f"{result.name}: {outcome}, {cause}, {figures}"


def listing(found: Sequence[Result]) -> str:
    heads = (
        "FAMILY",
        "MECHANISM",
        "STACK",
        "INIT",
        "SEED",
        "OUTCOME",
        "CAUSE",
        "REPLIES",
        "CALLS",
        "TIME",
    )
    rows = [
        (one.family, one.mechanism, one.stack, one.init, str(one.seed), one.outcome,
         "right" if one.cause else "-", str(one.steps), str(one.calls), f"{one.seconds:.0f} s")
        for one in found
    ]  # fmt: skip
    return table(heads, rows)
