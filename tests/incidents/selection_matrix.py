"""The selection matrix: every bundled skill's `when` on every fault of the drills' first split, and
on machines where nothing is wrong.

    python -m tests.incidents.selection_matrix [--seeds 3] [--category C] [--mechanism M] [--jobs 2]
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.command_results import CommandOutcome
from hermes_agent.core.skills import Runbook
from hermes_agent.incidents.backend import SkillOption
from hermes_agent.incidents.response.candidates import (
    RunbookCandidate,
    dependency_chain,
    try_skills,
)
from hermes_agent.incidents.response.facts import service_facts
from hermes_agent.learning.skills.file import parse
from hermes_agent.learning.skills.runbook import load
from hermes_drills.box.box import TooLong
from hermes_drills.compose import Case, cases
from hermes_drills.episode import Episode
from hermes_drills.errors import DrillError
from hermes_drills.types import Split
from hermes_drills.worlds.checks import answers

SKILLS = Path(__file__).parents[2] / "src/hermes_agent/skills"
POLL_SECONDS = 30.0
PATIENCE_SECONDS = 45.0
"""How long a box may take to boot and to break on a busy machine."""
OWN, FALSE = 0.95, 0.05
"""The bars: faults recognised by the skill of their cause, and skills of other causes that fit."""


class Result(Struct, frozen=True):
    """Which skills said that a machine is their case."""

    machine: str
    causes: tuple[str, ...] = ()
    """Any of them is right; empty where nothing is wrong."""
    fitting: tuple[RunbookCandidate, ...] = ()
    others: tuple[RunbookCandidate, ...] = ()
    discarded: str = ""
    """Why the machine could not be tried."""

    @property
    def own(self) -> bool:
        return any(one.skill.incident in self.causes for one in self.fitting)

    @property
    def false(self) -> list[str]:
        return sorted({one.skill.name for one in self.fitting} - set(self.causes))

    @property
    def good(self) -> bool:
        return (self.own or not self.causes) and not self.false

    @property
    def line(self) -> str:
        fits = ", ".join(f"{one.skill.name}({one.service})" for one in self.fitting) or "nothing"
        mark = "?" if self.discarded else "." if self.good else "!"
        missed = [one for one in self.others if one.skill.incident in self.causes and not self.own]
        more = [f"    {one.skill.name}({one.service}): {one.failed[-300:]}" for one in missed]
        return "\n".join([f"{mark} {self.machine}: {self.discarded or fits}", *more])


class Figures(Struct, frozen=True):
    own: float
    """The share of faults that the skill of their cause recognises."""
    false: float
    """The share of skills of other causes that fit on broken machines."""
    healthy: int
    """How many skills fit where nothing is wrong."""
    tried: int
    discarded: int


async def find_candidates(episode: Episode, service: str) -> tuple[RunbookCandidate, ...]:
    """The bundled skills, tried for a service of the box."""

    async def run(command: str, timeout: float | None) -> CommandOutcome:  # noqa: ASYNC109 the box has it
        try:
            ran = await asyncio.to_thread(
                episode.box.run, command, check=False, seconds=timeout or POLL_SECONDS
            )
        except TooLong as error:
            return CommandOutcome(None, error.message)
        return CommandOutcome(ran.code, ran.stdout + ran.stderr)

    parsed = {
        path.parent.name: parse(path.read_text(encoding="utf-8"), path.parent.name).facts
        for path in sorted(SKILLS.glob("*/SKILL.md"))
    }
    known = [
        SkillOption(name, "given", one.description, incident=one.incident)
        for name, one in parsed.items()
        if one.incident and (SKILLS / name / "runbook.yaml").is_file()
    ]

    async def open(name: str, service: str, values: Mapping[str, str]) -> Runbook | None:
        text = (SKILLS / name / "runbook.yaml").read_text(encoding="utf-8")
        return load(text, {"service": service}, values).with_define()

    facts = await service_facts([service], run)
    chain = dependency_chain([service], [], facts)
    return await try_skills(known, chain, facts, open, run)


def try_machine(case: Case, folder: Path, *, healthy: bool = False) -> Result:
    """Boots a machine, breaks it unless it is to stay healthy, and tries all skills on it."""
    name = f"healthy {case.world.stack}/{case.world.style.init}" if healthy else case.name
    causes: tuple[str, ...] = ()
    try:
        with Episode(case, folder, PATIENCE_SECONDS) as episode:
            episode.boot()
            service = answers(case.world).service
            if not healthy:
                episode.inject()
                service = episode.check.service
                causes = () if case.split == "no-fault" else episode.truth.category
            found = asyncio.run(find_candidates(episode, service))
    except DrillError as error:
        return Result(name, discarded=error.message)
    fitting = tuple(one for one in found if one.fits)
    return Result(name, causes, fitting, tuple(one for one in found if not one.fits))


def machines(split: Split, seeds: range, category: str = "") -> Iterator[tuple[Case, bool]]:
    """A split's cases, a healthy machine of each stack and init system, and the no-fault cases."""
    seen = set[tuple[str, str]]()
    for case in cases(split, seeds, category):
        yield case, False
        kind = (case.world.stack, case.world.style.init)
        if kind not in seen and not category:
            seen.add(kind)
            yield case, True
    if not category:
        yield from ((case, False) for case in cases("no-fault", seeds))


def try_machines(found: Sequence[tuple[Case, bool]], jobs: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as top, ThreadPoolExecutor(jobs) as pool:

        def run(pair: tuple[int, tuple[Case, bool]]) -> Result:
            number, (case, healthy) = pair
            result = try_machine(case, Path(top, str(number)), healthy=healthy)
            print(result.line, flush=True)
            return result

        return list(pool.map(run, enumerate(found)))


def figures(results: Sequence[Result]) -> Figures:
    tried = [one for one in results if not one.discarded]
    broken = [one for one in tried if one.causes]
    skills = {each.skill.name for one in tried for each in (*one.fitting, *one.others)}
    return Figures(
        sum(one.own for one in broken) / max(1, len(broken)),
        sum(len(one.false) for one in broken) / max(1, len(broken) * (len(skills) - 1)),
        sum(len(one.fitting) for one in tried if not one.causes),
        len(tried),
        len(results) - len(tried),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--split", default="first", choices=("first", "held", "foreign"))
    parser.add_argument("--category", default="")
    parser.add_argument("--mechanism", default="")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    found = [
        (case, healthy) for case, healthy in machines(options.split, seeds, options.category)
        if options.mechanism in ("", case.fault.mechanism)
    ]  # fmt: skip
    results = try_machines(found, options.jobs)
    came = figures(results)
    wrong = Counter((one.machine.split(" ")[0], name) for one in results for name in one.false)
    for (fault, name), count in sorted(wrong.items()):
        print(f"false fit: {name} on {fault}: {count}")
    print(
        f"own {came.own:.1%}, false fits {came.false:.2%}, fits on healthy machines {came.healthy};"
        f" {came.tried} machines, {came.discarded} discarded"
    )
    return 0 if came.own >= OWN and came.false <= FALSE and not came.healthy else 1


if __name__ == "__main__":
    sys.exit(main())
