"""The `when` of every skill that ships holds for its own cause and on no healthy machine.
The whole matrix: `python -m tests.incidents.selection_matrix --seeds 3`."""

from pathlib import Path

import pytest

pytest.importorskip("hermes_drills")
from hermes_drills.compose import Case, cases
from tests.incidents.selection_matrix import tried

QUICK = (
    "bad-config/value", "dns-failure/lost", "permission-change/data", "service-crash/stopped",
    "stale-lock/dead-owner",
)  # fmt: skip
"""The others are proven by `make test-all`."""
SEEDS = range(1, 2)
BROKEN = [
    pytest.param(case, id=case.name, marks=[] if case.fault.name in QUICK else pytest.mark.slow)
    for case in cases("first", SEEDS)
]
CALM = [pytest.param(case, id=case.name) for case in cases("no-fault", SEEDS)]
KNOWN_FALSE = 1
"""Skills of another cause that may fit one machine: what one fault causes may be another."""


@pytest.mark.parametrize("case", BROKEN)
def test_a_fault_is_recognised_by_the_skill_of_its_cause(tmp_path: Path, case: Case) -> None:
    done = tried(case, tmp_path / "box")
    if done.trouble:
        pytest.skip(done.trouble)
    assert done.own, [(one.skill.name, one.failed) for one in done.others]
    assert len(done.false) <= KNOWN_FALSE, done.false


@pytest.mark.parametrize("case", CALM)
def test_nothing_fits_where_nothing_is_wrong(tmp_path: Path, case: Case) -> None:
    done = tried(case, tmp_path / "box")
    if done.trouble:
        pytest.skip(done.trouble)
    assert [one.skill.name for one in done.fitting] == []
