"""One run of a drill: the box is made and proven well, broken and proven broken, then somebody
heals it, and it is judged from outside."""

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import Diagnosis
from hermes_agent.incidents.drills.box import Box, Ran, TooLong
from hermes_agent.incidents.drills.format import Case
from hermes_agent.incidents.drills.probe import Probe

AGAIN_SECONDS = 2.0
"""Between two looks: what is well only for a moment is not."""
SETTLE_SECONDS = 10.0
"""How long a fault may take to show, and health to come back."""
POLL_SECONDS = 0.1


class Discarded(HermesError):
    """An episode that did not prove itself: it counts for nothing."""


@contextlib.contextmanager
def _or_discarded(what: str) -> Iterator[None]:
    try:
        yield
    except (HermesError, OSError, subprocess.SubprocessError) as error:
        said = error.message if isinstance(error, HermesError) else str(error)
        raise Discarded(f"{what}: {said}") from error


class Verdict(Struct, frozen=True):
    resolved: bool
    """Well from outside, twice, and nothing harmed."""
    wrong: tuple[str, ...] = ()
    """What is still not well."""
    harm: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    """What was changed though nothing was to be done."""


class Grade(Struct, frozen=True):
    """How a diagnosis compares with the truth."""

    component: bool = False
    category: bool = False
    locus: bool = False
    evidence: bool = False

    @property
    def cause(self) -> bool:
        """The right answer, and not by guessing: it is grounded in where or in what was seen."""
        return self.component and self.category and (self.locus or self.evidence)


class Episode:
    def __init__(self, case: Case, folder: Path, patience: float = SETTLE_SECONDS) -> None:
        """`patience`: how long health and the fault may take to show before it begins."""
        self._patience = patience
        self.case = case
        self.box = Box(folder)
        self.world = case.world
        self._probe: Probe | None = None
        self._before: dict[str, str] = {}
        self._state: dict[str, str] = {}
        self._fault: list[str] = []
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

    def prepare(self) -> None:
        """Boot, prove that it is well, break it, prove that it is broken. Raises `Discarded`."""
        self.boot()
        self.inject()

    def boot(self) -> None:
        with _or_discarded("the box did not come up"):
            self.box.boot(self.world)
        self._probe = Probe(self.box, [node.name for node in self.world.nodes])
        if wrong := self._until(lambda: self.case.healthy(self.probe)):
            raise Discarded(f"the box is not well before anything was done: {'; '.join(wrong)}")
        if not self._until(lambda: [] if self.holds() else ["check"]) == []:
            raise Discarded(f"the check fails in a healthy box: {self.look().stdout}")
        self._before = self.case.before(self.probe)
        self._state = self._snapshot()

    def inject(self) -> None:
        with _or_discarded("it could not be broken"):
            self.case.inject(self.box)
        if not self.case.drill.about.fault:
            if wrong := self._until(lambda: self.case.healthy(self.probe)):
                raise Discarded(f"nothing was to be wrong, but is: {'; '.join(wrong)}")
            self._state = self._snapshot()
            return
        if self._until(lambda: [] if self.case.healthy(self.probe) else ["well"]):
            raise Discarded("the fault did not show")
        if self._until(lambda: ["holds"] if self.holds() else []):
            raise Discarded("the fault is there, but the check does not see it")
        self.broken = self.case.healthy(self.probe)
        self._fault = self._harm()

    def look(self) -> Ran:
        """What the operator's own check prints."""
        check = self.case.check.check
        try:
            return self.box.run(check.run, check=False, seconds=(check.timeout or 10.0) + 5.0)
        except TooLong as error:
            return Ran(124, stderr=error.message)

    def holds(self) -> bool:
        expect, ran = self.case.check.check.expect, self.look()
        text = ran.stdout + ran.stderr
        return (
            ran.code == (expect.exit or 0)
            and (not expect.output or re.search(expect.output, text) is not None)
            and (not expect.no_output or re.search(expect.no_output, text) is None)
        )

    def heal(self, commands: Sequence[str]) -> None:
        """What an operator would type, line by line."""
        for command in commands:
            self.box.run(command, check=False)

    def judge(self, *, settle: float | None = None, again: float = AGAIN_SECONDS) -> Verdict:
        """Looked at from outside, twice, and what else was done to the box."""
        if not self.box.alive:
            return Verdict(False, ("the whole machine is gone",))
        if settle is None:
            settle = self.case.drill.about.settle
        wrong = self._until(lambda: self.case.healthy(self.probe), settle, again=False)
        if not wrong:
            time.sleep(again)
            wrong = self.case.healthy(self.probe)
        harm = self._harm()
        if wrong:  # what the fault does as long as it lasts is not the healer's harm
            harm = [one for one in harm if one not in self._fault]
        touched = [] if self.case.drill.about.fault else self._touched()
        resolved = not wrong and not harm and not touched
        return Verdict(resolved, tuple(wrong), tuple(harm), tuple(touched))

    def grade(self, diagnosis: Diagnosis | None) -> Grade:
        if diagnosis is None:
            return Grade()
        truth = self.case.truth
        quotes = [quote.quote for quote in diagnosis.evidence]
        return Grade(
            component=diagnosis.component in truth.component,
            category=diagnosis.category in truth.category,
            locus=bool(truth.locus) and re.search(truth.locus, diagnosis.locus) is not None,
            evidence=any(truth.evidence and re.search(truth.evidence, quote) for quote in quotes),
        )

    def remove(self) -> None:
        if self._probe is not None:
            self._probe.close()
        self.box.remove()

    def _until(
        self, look: Callable[[], list[str]], seconds: float | None = None, *, again: bool = True
    ) -> list[str]:
        """What is wrong at the end of the patience; empty as soon as nothing is. `again`: it is
        looked once more after the end, since the machine may have stood still until then."""
        deadline = time.monotonic() + (self._patience if seconds is None else seconds)
        while wrong := look():
            if time.monotonic() >= deadline:
                if not again:
                    break
                again = False
            time.sleep(POLL_SECONDS)
        return wrong

    def _harm(self) -> list[str]:
        return [*self.case.harm(self.probe, self._before), *self._collateral()]

    def _collateral(self) -> list[str]:
        """What is true of every drill: what listened listens, and nothing is open to all."""
        found = []
        for program in self.world.programs:
            kind, _, port = program.ready.partition(":")
            if program.autostart and kind == "tcp":
                node = program.node
                if not self.probe.tcp(int(port), node=node):
                    found.append(f"{program.name} does not listen at port {port}")
        for path, file in self.world.files.items():
            facts = self.probe.stat(path)
            if facts and facts.kind == "file" and facts.mode & 0o002 and not file.mode & 0o002:
                found.append(f"everybody may write {path}")
        return found

    def _snapshot(self) -> dict[str, str]:
        """Configuration, code and who runs: what a false alarm must leave alone."""
        state = {
            path: self.probe.sha256(path)
            for path, file in self.world.files.items()
            if not file.link and not path.startswith(("/var/", "/tmp/", "/run/"))  # noqa: S108 in a box
        }
        for process in self.probe.processes():
            if process.parent == self.box.pid and process.name not in PASSING:
                state[f"process {process.inner}"] = f"{process.command} {process.started}"
        return state

    def _touched(self) -> list[str]:
        now = self._snapshot()
        return [f"{name} was changed" for name, was in self._state.items() if now.get(name) != was]


PASSING = frozenset({"bash", "sleep", "sh"})
"""Programs of whoever looks; no service is called so."""
