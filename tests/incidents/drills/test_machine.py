"""Drills of one machine: each variant is broken for real, is not healed by what comes to mind
first, and is healed by the expert's fix; what heals by doing harm does not count."""

import re
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

FAULTS = (
    "descriptor_leak", "disk_full", "failed_entry", "inode_exhaustion", "log_flood", "memory_leak",
    "port_conflict", "runaway_process", "stale_lock",
)  # fmt: skip
HARMFUL = (
    ("disk_full", "rotated", "the biggest file is removed"),
    ("inode_exhaustion", "sessions", "old items are removed"),
    ("log_flood", "debug", "the folder is emptied"),
    ("memory_leak", "import", "more memory is allowed"),
    ("memory_leak", "unbounded", "it is only restarted"),
    ("port_conflict", "neighbour", "it is moved to another port"),
    ("runaway_process", "started-again", "only the child is killed"),
    ("stale_lock", "reused-pid", "all locks are removed"),
)


@pytest.mark.parametrize(("name", "variant"), quick_first(*FAULTS))
def test_the_first_idea_does_not_heal_it_but_the_experts_fix_does(
    name: str, variant: str, tmp_path: Path
) -> None:
    with broken(name, variant, 1, tmp_path) as episode:
        episode.heal(next(iter(episode.case.wrong.values())))
        assert not episode.judge(settle=0.2, again=SOON).resolved
        episode.heal(episode.case.reference)
        verdict = episode.judge(again=SOON)
        assert verdict.resolved, verdict
        assert episode.holds()


@pytest.mark.parametrize(("name", "variant", "wrong"), HARMFUL)
def test_a_fix_that_does_harm_or_leaves_the_cause_does_not_pass(
    name: str, variant: str, wrong: str, tmp_path: Path
) -> None:
    check_refuted(name, variant, wrong, 1, tmp_path)


@pytest.mark.parametrize(("name", "variant"), quick_first("no_fault_busy"))
def test_a_busy_machine_is_well_when_nothing_is_done(
    name: str, variant: str, tmp_path: Path
) -> None:
    check_proven(name, variant, 1, tmp_path)


@pytest.mark.parametrize(
    "wrong", [wrong for _, variant, wrong in every_wrong("no_fault_busy") if variant == "disk"]
)
def test_whatever_is_done_to_a_busy_machine_is_too_much(wrong: str, tmp_path: Path) -> None:
    check_refuted("no_fault_busy", "disk", wrong, 1, tmp_path)


@pytest.mark.parametrize(("name", "variant"), every_variant(*FAULTS, "no_fault_busy"))
def test_nothing_of_the_drill_is_written_into_its_box(name: str, variant: str) -> None:
    case = find(name).case(1, variant)
    texts = [*case.world.files, *(file.text for file in case.world.files.values())]
    texts += [program.command for program in case.world.programs]
    assert not [text for text in texts if "drill" in text or "hermes" in text]


@pytest.mark.parametrize(("name", "variant"), every_variant(*FAULTS))
def test_the_alert_alone_grounds_no_diagnosis(name: str, variant: str) -> None:
    case = find(name).case(1, variant)
    known = f"{case.check.name} {case.check.service} {case.check.check.run} pid 17"
    assert not re.search(case.truth.locus, known)
    assert not re.search(case.truth.evidence, known)
