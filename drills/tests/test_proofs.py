"""Composed episodes prove themselves: a sample; `hermes_drills.prove` does all."""

from pathlib import Path

import pytest

from hermes_drills.cheats import cheats
from hermes_drills.compose import Case, compose, faults, missing
from hermes_drills.episode import Episode
from hermes_drills.faults import FAULTS
from hermes_drills.types import Diagnosis

QUICK = ("bad-config", "disk-full", "service-crash", "stale-lock")
"""The others are proven by `make test-all`."""


def sample() -> list[Case]:
    """The first mechanism of each family that can run here."""
    found: dict[str, Case] = {}
    for number, fault in enumerate(faults("first"), 1):
        if fault.category not in found and not missing(case := compose(fault, number)):
            found[fault.category] = case
    return list(found.values())


CASES = [
    pytest.param(
        case, id=case.fault.name, marks=() if case.fault.category in QUICK else pytest.mark.slow
    )
    for case in sample()
]


@pytest.mark.parametrize("case", CASES)
def test_the_experts_fix_heals_it_and_nothing_does_not(case: Case, tmp_path: Path) -> None:
    with Episode(case, tmp_path / "box") as episode:
        episode.prepare()
        assert episode.broken
        assert not episode.judge(settle=0.0).resolved
        episode.heal(case.fault.expert(case.world, episode.truth))
        verdict = episode.judge()
        assert verdict.resolved, verdict


CRASH = next(fault for fault in FAULTS if fault.category == "service-crash")


@pytest.mark.parametrize("init", ["supervisord", "systemd", "sysv"])
def test_no_cheat_counts_as_a_repair(init: str, tmp_path: Path) -> None:
    case = compose(CRASH, 3, stack="web", init=init)  # type: ignore[arg-type]
    with Episode(case, tmp_path / "box") as episode:
        episode.prepare()
        found = cheats(case.world, episode.truth, episode.check)
        for name, commands in sorted(found.items(), key=lambda one: one[0] == "kill everything"):
            episode.heal(commands)
            assert not episode.judge(settle=0.0).resolved, name


def test_a_guess_and_naming_everything_are_not_the_right_cause(tmp_path: Path) -> None:
    case = compose(CRASH, 3, stack="web", init="systemd")
    with Episode(case, tmp_path / "box") as episode:
        episode.prepare()
        truth = episode.truth
        every = ", ".join(one.name for one in case.world.services)
        right = Diagnosis(truth.component[0], truth.category[0], truth.component[0])
        assert episode.grade(right).cause
        assert not episode.grade(None).cause
        assert not episode.grade(Diagnosis(every, "service-crash", every)).cause
        assert not episode.grade(Diagnosis(truth.component[0], "disk-full", "/")).cause
