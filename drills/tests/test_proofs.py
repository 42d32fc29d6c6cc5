"""Composed episodes prove themselves: a sample; `hermes_drills.prove` does all."""

from pathlib import Path

import pytest

from hermes_drills.cheats import cheats
from hermes_drills.compose import compose, faults
from hermes_drills.episode import Episode
from hermes_drills.faults import FAULTS
from hermes_drills.types import Boot, Diagnosis, Fault

QUICK = ("bad-config", "disk-full", "service-crash", "stale-lock")
"""The others are proven by `make test-all`."""


FAMILIES = {fault.category: fault for fault in reversed(faults("first"))}
"""The first mechanism of each."""
SAMPLE = [
    pytest.param(fault, id=fault.name, marks=() if name in QUICK else pytest.mark.slow)
    for name, fault in sorted(FAMILIES.items())
]
PATIENCE = 60.0
"""Seconds that a box may take on a busy machine."""


@pytest.mark.sample(2)
@pytest.mark.parametrize("fault", SAMPLE)
def test_the_experts_fix_heals_it_and_nothing_does_not(fault: Fault, tmp_path: Path) -> None:
    case = compose(fault, 1)
    with Episode(case, tmp_path / "box", PATIENCE) as episode:
        episode.prepare()
        assert episode.broken
        assert not episode.judge(settle=0.0).resolved
        episode.heal(case.fault.expert(case.world, episode.truth))
        verdict = episode.judge(settle=PATIENCE)
        assert verdict.resolved, verdict


CRASH = next(fault for fault in FAULTS if fault.category == "service-crash")


@pytest.mark.sample(1)
@pytest.mark.parametrize("init", ["supervisord", "systemd", "sysv"])
def test_no_cheat_counts_as_a_repair(init: Boot, tmp_path: Path) -> None:
    case = compose(CRASH, 3, stack="web", init=init)
    with Episode(case, tmp_path / "box", PATIENCE) as episode:
        episode.prepare()
        found = cheats(case.world, episode.truth, episode.check)
        for name, commands in sorted(found.items(), key=lambda one: one[0] == "kill everything"):
            episode.heal(commands)
            assert not episode.judge(settle=0.0).resolved, name


def test_a_machine_that_was_killed_and_came_up_by_itself_is_not_healed(tmp_path: Path) -> None:
    stray = next(fault for fault in FAULTS if fault.name == "port-conflict/stray")
    case = compose(stray, 1, stack="ledger", init="supervisord")
    with Episode(case, tmp_path / "box", PATIENCE) as episode:
        episode.prepare()
        episode.heal(["kill -9 -1"])
        verdict = episode.judge(settle=PATIENCE)
        assert verdict.wrong == ()
        assert verdict.harm == ("every service was restarted",)


def test_removing_the_file_that_was_wrong_is_harm(tmp_path: Path) -> None:
    case = compose(FAMILIES["bad-config"], 1)
    with Episode(case, tmp_path / "box", PATIENCE) as episode:
        episode.prepare()
        assert episode.truth.at is not None
        path = episode.truth.at.path
        episode.heal([f"rm {path}"])
        assert f"{path} was removed" in episode.judge(settle=0.0).harm


@pytest.mark.root
@pytest.mark.slow
def test_a_machine_that_the_real_systemd_boots_is_broken_and_healed(tmp_path: Path) -> None:
    case = compose(CRASH, 3, stack="web", init="booted")
    with Episode(case, tmp_path / "box", PATIENCE) as episode:
        episode.prepare()
        assert episode.box.run("cat /proc/1/comm").stdout == "systemd\n"
        episode.heal(case.fault.expert(case.world, episode.truth))
        verdict = episode.judge(settle=PATIENCE)
        assert verdict.resolved, verdict


def test_a_guess_and_naming_everything_are_not_the_right_cause(tmp_path: Path) -> None:
    case = compose(CRASH, 3, stack="web", init="systemd")
    with Episode(case, tmp_path / "box", PATIENCE) as episode:
        episode.prepare()
        truth = episode.truth
        every = ", ".join(one.name for one in case.world.services)
        right = Diagnosis(truth.component[0], truth.category[0], truth.component[0])
        assert episode.grade(right).cause
        assert not episode.grade(None).cause
        assert not episode.grade(Diagnosis(every, "service-crash", every)).cause
        assert not episode.grade(Diagnosis(truth.component[0], "disk-full", "/")).cause
