"""Drills of several services: each variant is broken for real, not healed by what comes to mind
first, and healed by the expert's fix; what heals by doing harm does not count."""

from pathlib import Path

import pytest

from hermes_agent.incidents.drills.format import find
from tests.incidents.drills.proving import (
    SOON,
    broken,
    check_proven,
    check_refuted,
    every_variant,
    every_wrong,
    quick_first,
)

NAMES = (
    "bad_config", "bad_deploy", "cascading_failure", "clock_jump", "database_lock", "dns_failure",
    "expired_certificate", "network_partition", "permission_change", "pool_exhaustion",
    "slow_dependency",
)  # fmt: skip
HARMFUL = [
    (name, variant, list(find(name).case(1, variant).wrong)[1])
    for name, variant in every_variant(*NAMES)
    if variant == find(name).variants[0]
]


@pytest.mark.parametrize(("name", "variant"), quick_first(*NAMES))
def test_neither_nothing_nor_a_restart_heals_it_but_the_experts_fix_does(
    name: str, variant: str, tmp_path: Path
) -> None:
    with broken(name, variant, 1, tmp_path) as episode:
        nothing_done = episode.judge(settle=0.0, again=SOON)
        assert not nothing_done.resolved
        assert not nothing_done.harm
        episode.heal(next(iter(episode.case.wrong.values())))
        assert not episode.judge(settle=0.5, again=SOON).resolved
        episode.heal(episode.case.reference)
        verdict = episode.judge(again=SOON)
        assert verdict.resolved, verdict
        assert episode.holds()


@pytest.mark.parametrize(("name", "variant", "wrong"), HARMFUL)
def test_what_heals_by_doing_harm_does_not_pass(
    name: str, variant: str, wrong: str, tmp_path: Path
) -> None:
    check_refuted(name, variant, wrong, 1, tmp_path)


@pytest.mark.parametrize(("name", "variant"), quick_first("no_fault_flap"))
def test_what_is_well_again_is_left_alone(name: str, variant: str, tmp_path: Path) -> None:
    check_proven(name, variant, 1, tmp_path)


@pytest.mark.parametrize(("name", "variant", "wrong"), every_wrong("no_fault_flap")[:2])
def test_what_is_well_again_must_not_be_touched(
    name: str, variant: str, wrong: str, tmp_path: Path
) -> None:
    check_refuted(name, variant, wrong, 1, tmp_path)


@pytest.mark.parametrize("name", [*NAMES, "no_fault_flap"])
def test_seeds_differ_and_what_is_held_out_has_names_of_its_own(name: str) -> None:
    drill = find(name)
    train, held = (
        {
            program.name
            for variant in among
            for seed in range(4)
            for program in drill.case(seed, variant).world.programs
        }
        for among in (drill.about.variants.practised, drill.about.variants.held)
    )
    assert len(train) > 3
    assert len(held) > 3
    assert not train & held - {"nginx", "postgres"}
