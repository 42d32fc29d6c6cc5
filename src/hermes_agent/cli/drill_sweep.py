"""Many runs of drills in one go. Each is a process of its own, so that one that breaks takes none
with it; what became of it is read from what the home keeps."""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from hermes_agent.cli.words import print_json, span, table
from hermes_agent.core.errors import UsageError
from hermes_agent.incidents.drills import results
from hermes_agent.incidents.drills.format import Drill, Tier
from hermes_agent.incidents.drills.results import Result

LOOK_SECONDS = 0.2
ENDING_SECONDS = 30.0
"""How long a run may take to clear up when the sweep is ended."""


class Planned(NamedTuple):
    drill: str
    variant: str
    seed: int

    def __str__(self) -> str:
        return f"{self.drill}, {self.variant}, seed {self.seed}"


class Going(NamedTuple):
    """A run that is at work."""

    planned: Planned
    process: "subprocess.Popen[bytes]"
    said: IO[bytes]
    since: float


def planned(todo: Sequence[tuple[Drill, int]], variant: str, tier: Tier) -> list[Planned]:
    """Those that can run here, with the variant that each seed says."""
    found, lacking = [], {}
    for drill, seed in todo:
        if not variant and not drill.among(tier):
            continue
        chosen = drill.choose(seed, variant, tier)
        missing = drill.lacking(chosen)
        if missing:
            lacking[drill.name] = missing
        else:
            found.append(Planned(drill.name, chosen, seed))
    for name, missing in lacking.items():
        print(f"left out: {name}, which needs {', '.join(missing)}", file=sys.stderr)
    if not found:
        raise UsageError("no drill can run here", "`hermes drill list` says what is missing")
    return found


class Sweep:
    def __init__(self, home: str, todo: list[Planned], options: argparse.Namespace) -> None:
        self._folder = Path(home) / "drills"
        self._options = options
        self._learning = not options.no_learning
        self._results: list[Result] = []
        self._failed: list[str] = []
        self._going: list[Going] = []
        self._began = time.monotonic()
        self._known: list[Planned] = []
        if options.resume:
            kept = {(one.drill, one.variant, one.seed): one for one in self._kept()}
            self._known = [one for one in todo if one in kept]
            self._results = [kept[one] for one in self._known]
        self._todo = [one for one in todo if one not in self._known]
        self._total = len(self._todo)

    def through(self) -> int:
        if self._known:
            self._say(f"{len(self._known)} runs are known already")
        try:
            while self._todo or self._going:
                self._start()
                time.sleep(LOOK_SECONDS)
                for one in [one for one in self._going if one.process.poll() is not None]:
                    self._going.remove(one)
                    self._ended(one)
        finally:
            self._stop()
        if self._options.json:
            from msgspec import to_builtins

            print_json([to_builtins(one) for one in self._results])
        else:
            print(outcomes(self._results))
        for line in self._failed:
            print(f"failed: {line}", file=sys.stderr)
        good = self._results and all(one.resolved for one in self._results)
        return 0 if good and not self._failed else 1

    def _start(self) -> None:
        """As many as may be at work; never two of one drill, since the second is to learn of the
        first."""
        while len(self._going) < self._options.at_once:
            busy = {one.planned.drill for one in self._going}
            following = next((one for one in self._todo if one.drill not in busy), None)
            if following is None:
                return
            self._todo.remove(following)
            said = tempfile.TemporaryFile()  # noqa: SIM115 - until the run has ended
            alone = self._options.at_once == 1 and not (self._options.quiet or self._options.json)
            process = subprocess.Popen(
                self._command(following), stdin=subprocess.DEVNULL, stderr=said,
                stdout=None if alone else subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            self._going.append(Going(following, process, said, time.time()))

    def _command(self, one: Planned) -> list[str]:
        words = [sys.executable, "-m", "hermes_agent", "drill", "run", one.drill, "--seed",
                 str(one.seed), "--variant", one.variant]  # fmt: skip
        if self._options.no_learning:
            words.append("--no-learning")
        if self._options.model:
            words += ["--model", self._options.model]
        return words

    def _ended(self, one: Going) -> None:
        one.said.seek(0)
        said = one.said.read().decode(errors="replace").strip()
        one.said.close()
        found = [
            result
            for result in self._kept()
            if (result.drill, result.variant, result.seed) == one.planned
            and result.time >= one.since
        ]
        if found:
            self._results.append(found[-1])
            self._say(f"{one.planned}: {outcome(found[-1])}")
        else:
            why = said.splitlines()[0] if said else f"it ended with {one.process.returncode}"
            self._failed.append(f"{one.planned}: {why}")
            self._say(f"{one.planned}: FAILED, {why}")

    def _kept(self) -> list[Result]:
        model = self._options.model
        return [
            one
            for one in results.load(self._folder)
            if one.learning == self._learning and (not model or model in one.model)
        ]

    def _say(self, text: str) -> None:
        """How far it is, and how long it will take at this pace."""
        done = self._total - len(self._todo) - len(self._going)
        left = ""
        if done and done < self._total:
            pace = (time.monotonic() - self._began) / done
            left = f"; about {span(pace * (self._total - done))} left"
        print(f"[{done}/{self._total}] {text}{left}", file=sys.stderr, flush=True)

    def _stop(self) -> None:
        """End what is still at work; each removes its box."""
        for one in self._going:
            one.process.terminate()
        for one in self._going:
            try:
                one.process.wait(ENDING_SECONDS)
            except subprocess.TimeoutExpired:
                one.process.kill()
            one.said.close()


def outcome(result: Result) -> str:
    """What a run came to, in a line."""
    good = "resolved" if result.resolved else f"not healed ({'; '.join(result.wrong)[:120]})"
    cause = "cause right" if result.cause else f"cause not ({result.said[:120]})"
    harm = f", harm: {'; '.join(result.harm)[:120]}" if result.harm else ""
    return f"{good}, {cause}{harm}, {result.steps} steps, {result.seconds:.0f} s"


def outcomes(found: Sequence[Any]) -> str:
    rows = [
        (one.drill, one.variant, str(one.seed), "yes" if one.resolved else "NO",
         "yes" if one.cause else "no", str(one.steps), str(one.calls), f"{one.seconds:.0f} s",
         one.skill or "-")
        for one in found
    ]  # fmt: skip
    heads = ("DRILL", "VARIANT", "SEED", "RESOLVED", "CAUSE", "STEPS", "CALLS", "TIME", "BY SKILL")
    return table(heads, rows)
