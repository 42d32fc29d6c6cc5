"""Every bundled skill's `when` holds for its own cause, for no other, and on no healthy machine.
The whole matrix: `python -m tests.incidents.selection_matrix --seeds 3`."""

from pathlib import Path

import pytest

from hermes_drills.compose import Case, cases
from tests.incidents.selection_matrix import try_machine

QUICK = (
    "bad-config/value", "dns-failure/lost", "permission-change/data", "service-crash/stopped",
    "stale-lock/dead-owner",
)  # fmt: skip
"""`make test-all` tries the others."""
SEEDS = range(1, 2)
BROKEN = [
    pytest.param(case, id=case.name, marks=[] if case.fault.name in QUICK else pytest.mark.slow)
    for case in cases("first", SEEDS)
]
CALM = [pytest.param(case, id=case.name) for case in cases("no-fault", SEEDS)]
ALSO = {"cascading-failure/still-down": ["service-crash"]}
"""Skills of another cause that rightly fit as well."""


@pytest.mark.parametrize("case", BROKEN)
def test_the_skill_of_its_cause_recognises_a_fault_and_no_other_does(
    tmp_path: Path, case: Case
) -> None:
    result = try_machine(case, tmp_path / "box")
    assert result.discarded == ""
    assert result.own, result.line
    assert result.false == ALSO.get(case.fault.name, [])


@pytest.mark.parametrize("case", CALM)
def test_nothing_fits_where_nothing_is_wrong(tmp_path: Path, case: Case) -> None:
    result = try_machine(case, tmp_path / "box")
    assert result.discarded == ""
    assert result.fitting == ()
