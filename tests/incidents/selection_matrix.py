"""The selection matrix: the `when` of every skill that ships, against every fault of the first
split and against machines where nothing is wrong.

    python -m tests.incidents.selection_matrix [--seeds 3] [--category C] [--mechanism M] [--jobs 2]
                                               [--split first]
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.command_results import Seen
from hermes_agent.incidents.candidates import Candidate, candidates_in
from hermes_drills.box.box import TooLong
from hermes_drills.compose import Case, cases
from hermes_drills.episode import Episode
from hermes_drills.errors import DrillError
from hermes_drills.worlds.checks import answers

SKILLS = Path(__file__).parents[2] / "src/hermes_agent/skills"
HEALTHY = "healthy"
LOOK_SECONDS = 30.0


class Tried(Struct, frozen=True):
    """What came of one machine: who said that it is their case."""

    case: str
    accepted: tuple[str, ...]
    """Causes of which any is right; empty where nothing is wrong."""
    fitting: tuple[Candidate, ...] = ()
    others: tuple[Candidate, ...] = ()
    trouble: str = ""
    """Why it could not be tried."""

    @property
    def own(self) -> bool:
        return any(one.skill.incident in self.accepted for one in self.fitting)

    @property
    def false(self) -> list[str]:
        names = {one.skill.name for one in self.fitting if one.skill.incident not in self.accepted}
        return sorted(names)


async def fitting(episode: Episode, service: str) -> tuple[Candidate, ...]:
    async def look(command: str, timeout: float | None) -> Seen:  # noqa: ASYNC109 the box has it
        try:
            ran = await asyncio.to_thread(
                episode.box.run, command, check=False, seconds=timeout or LOOK_SECONDS
            )
        except TooLong as error:
            return Seen(None, error.message)
        return Seen(ran.code, ran.stdout + ran.stderr)

    return await candidates_in(SKILLS, [service], look)


def tried(case: Case, folder: Path, *, healthy: bool = False) -> Tried:
    """One machine, broken or, where it is to be healthy, not."""
    name = f"{HEALTHY} {case.world.stack}/{case.world.style.init}" if healthy else case.name
    try:
        with Episode(case, folder) as episode:
            episode.boot()
            service, accepted = answers(case.world).service, ()
            if not healthy:
                episode.inject()
                service = episode.check.service
                accepted = () if case.split == "no-fault" else episode.truth.category
            found = asyncio.run(fitting(episode, service))
    except DrillError as error:
        return Tried(name, (), trouble=error.message)
    return Tried(
        name, accepted, tuple(one for one in found if one.fits),
        tuple(one for one in found if not one.fits),
    )  # fmt: skip


def machines(
    split: str, seeds: range, category: str = "", mechanism: str = ""
) -> Iterator[tuple[Case, bool]]:
    """Every mechanism with every seed, all no-fault ones, a healthy one of each stack and init."""
    seen = set[tuple[str, str]]()
    for case in cases(split, seeds, category):  # type: ignore[arg-type] argparse has checked it
        if mechanism in ("", case.fault.mechanism):
            yield case, False
        kind = (case.world.stack, case.world.style.init)
        if kind not in seen and not category:
            seen.add(kind)
            yield case, True
    if not category or category == "no-fault":
        yield from ((case, False) for case in cases("no-fault", seeds))


def try_all(
    found: Sequence[tuple[Case, bool]], at_once: int = 2, *, tell: bool = False
) -> list[Tried]:
    with tempfile.TemporaryDirectory() as top, ThreadPoolExecutor(at_once) as pool:

        def one(pair: tuple[int, tuple[Case, bool]]) -> Tried:
            number, (case, healthy) = pair
            done = tried(case, Path(top, str(number)), healthy=healthy)
            if tell:
                print(line(done), flush=True)
            return done

        return list(pool.map(one, enumerate(found)))


def line(done: Tried) -> str:
    fits = ", ".join(f"{one.skill.name}({one.service})" for one in done.fitting) or "nothing"
    mark = (
        "?" if done.trouble else "." if (done.own or not done.accepted) and not done.false else "!"
    )
    text = f"{mark} {done.case}: {done.trouble or fits}"
    if done.accepted and not done.own:
        for one in done.others:
            if one.skill.incident in done.accepted:
                held = f"{one.held}/{one.checks}: {one.failed[-300:]}"
                text += f"\n    {one.skill.name}({one.service}) {held}"
    return text


class Figures(Struct, frozen=True):
    own: float
    """The share of faults that their own skill recognises."""
    false: float
    """The share of skills of another cause that fit, of all tried on broken machines."""
    healthy: int
    """How many skills fit where nothing is wrong."""
    tried: int
    discarded: int


def figures(done: Sequence[Tried]) -> Figures:
    ran = [one for one in done if not one.trouble]
    broken = [one for one in ran if one.accepted]
    names = {each.skill.name for one in ran for each in (*one.fitting, *one.others)}
    cells = max(1, len(broken) * (len(names) - 1))
    return Figures(
        sum(one.own for one in broken) / max(1, len(broken)),
        sum(len(one.false) for one in broken) / cells,
        sum(len(one.fitting) for one in ran if not one.accepted),
        len(ran),
        len(done) - len(ran),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--category", default="")
    parser.add_argument("--mechanism", default="")
    parser.add_argument(
        "--split", default="first", choices=("first", "held", "foreign", "no-fault")
    )
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    found = list(machines(options.split, seeds, options.category, options.mechanism))
    done = try_all(found, options.jobs, tell=True)
    came = figures(done)
    wrong = Counter((one.case.split(" ")[0], name) for one in done for name in one.false)
    for (fault, name), count in sorted(wrong.items()):
        print(f"false fit: {name} on {fault}: {count}")
    print(
        f"own {came.own:.1%}, false fits {came.false:.2%}, fits on healthy ones {came.healthy}; "
        f"{came.tried} machines, {came.discarded} discarded"
    )
    return 0 if came.own >= 0.95 and came.false <= 0.05 and not came.healthy else 1


if __name__ == "__main__":
    sys.exit(main())
