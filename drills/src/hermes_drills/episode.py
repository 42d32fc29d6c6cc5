"""One episode: a box is made and proven well, broken and proven broken, then somebody heals it, and
it is judged from outside."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path

from hermes_drills.box.box import Box, Ran, TooLong
from hermes_drills.compose import Case
from hermes_drills.errors import Discarded, DrillError
from hermes_drills.judge import Judge, Snapshot
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Check, Diagnosis, Grade, Truth, Verdict
from hermes_drills.worlds import checks

RETRY_SECONDS = 0.5
"""Between two looks: what is well only for a moment is not."""
SETTLE_SECONDS = 10.0
"""How long a fault may take to show, and health to come back."""
POLL_SECONDS = 0.05


@contextlib.contextmanager
def _or_discarded(what: str) -> Iterator[None]:
    try:
        yield
    except (DrillError, OSError, subprocess.SubprocessError) as error:
        said = error.message if isinstance(error, DrillError) else str(error)
        raise Discarded(f"{what}: {said}") from error


class Episode:
    def __init__(self, case: Case, folder: Path, patience: float = SETTLE_SECONDS) -> None:
        self.case = case
        self.world = case.world
        self.box = Box(folder)
        self._patience = patience
        self._judge = Judge(case.world)
        self._probe: Probe | None = None
        self._before: Snapshot | None = None
        self._fault: list[str] = []
        self._ran: Mapping[str, str] = {}
        """What still ran when the healer began."""
        self._truth: Truth | None = None
        self.broken: list[str] = []
        """What was not well after the injection."""

    def __enter__(self) -> "Episode":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def probe(self) -> Probe:
        assert self._probe is not None
        return self._probe

    @property
    def truth(self) -> Truth:
        assert self._truth is not None, "nothing was injected yet"
        return self._truth

    @property
    def before(self) -> Snapshot:
        assert self._before is not None
        return self._before

    @property
    def check(self) -> Check:
        """What the operator watches that shows this fault."""
        return checks.check(self.world, self.truth)

    def prepare(self) -> None:
        """Boot, prove that it is well, break it, prove that it is broken. Raises `Discarded`."""
        self.boot()
        self.inject()

    def boot(self) -> None:
        with _or_discarded("the box did not start"):
            self.box.boot(self.world)
            self._probe = Probe(self.box)
            if wrong := self._until(self._unwell):
                raise Discarded(f"the box is unhealthy before the fault: {_list(wrong)}")
            self._before = self._judge.snapshot(self.probe)

    def inject(self) -> None:
        case = self.case
        with _or_discarded("the fault could not be injected"):
            pick = deepcopy(case.pick)  # each episode of a case is broken in the same way
            self._truth = case.fault.inject(self.box, self.world, case.target, pick)
            if case.split == "no-fault":
                self._before = self._judge.snapshot(self.probe)
                if wrong := self._until(self._unwell):
                    raise Discarded(f"the box is unhealthy without a fault: {_list(wrong)}")
                return
            if self._until(lambda: [] if self._wrong() else ["well"]):
                raise Discarded("the fault had no effect")
            if self._until(lambda: ["holds"] if self.holds() else []):
                raise Discarded("the check does not detect the fault")
            self.broken = self._wrong()
            self._fault = self._judge.harm(self.probe, self.before, self.truth)
            self._fault += self._judge.restless(self.probe, self.before)
            self._ran = self._judge.running(self.probe)

    def look(self) -> Ran:
        """What the operator's own check prints."""
        try:
            return self.box.run(self.check.run, check=False, seconds=self.check.timeout)
        except TooLong as error:
            return Ran(124, stderr=error.message)

    def holds(self) -> bool:
        return not self.look().code

    def heal(self, commands: Sequence[str]) -> None:
        """What an operator would type, line by line."""
        for command in commands:
            with contextlib.suppress(TooLong):
                self.box.run(command, check=False)

    def judge(self, *, settle: float = SETTLE_SECONDS, again: float = RETRY_SECONDS) -> Verdict:
        """Looked at from outside, twice, and what else was done to the box."""
        if not self.box.alive:
            return Verdict(False, ("the whole machine is gone",))
        wrong = self._until(self._wrong, settle)
        if not wrong:
            time.sleep(again)
            wrong = self._wrong()
        if self.case.split == "no-fault":
            harm = self._judge.touched(self.probe, self.before)
        else:
            harm = self._judge.harm(self.probe, self.before, self.truth)
            harm += self._judge.restarted(self.probe, self._ran)
        if wrong:  # what the fault does as long as it lasts is not the healer's harm
            harm = [one for one in harm if one not in self._fault]
        return Verdict(not wrong and not harm, tuple(wrong), tuple(harm))

    def grade(self, diagnosis: Diagnosis | None) -> Grade:
        return self._judge.grade(diagnosis, self.truth)

    def remove(self) -> None:
        if self._probe is not None:
            self._probe.close()
        self.box.remove()

    def _unwell(self) -> list[str]:
        return self._judge.healthy(self.probe, time.time())

    def _wrong(self) -> list[str]:
        """What is not well, and what of the cause is left."""
        return self._unwell() or self.case.fault.gone(self.probe, self.world, self.truth)

    def _until(self, look: Callable[[], list[str]], seconds: float | None = None) -> list[str]:
        """What is wrong at the end of the patience; empty as soon as nothing is."""
        deadline = time.monotonic() + (self._patience if seconds is None else seconds)
        while (wrong := look()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return wrong


def _list(wrong: Sequence[str]) -> str:
    return "; ".join(wrong)
