"""Every bundled skill's `when` holds for its own cause, for no other, and on no healthy machine.
The whole matrix: `python -m tests.incidents.selection_matrix --seeds 3`."""

from pathlib import Path

import pytest

from hermes_drills.compose import compose, faults
from hermes_drills.types import Fault
from tests.incidents.selection_matrix import try_machine

QUICK = (
    "bad-config/value", "dns-failure/lost", "permission-change/data", "service-crash/stopped",
    "stale-lock/dead-owner",
)  # fmt: skip
"""`make test` tries two of these and one calm machine, others in each run; `make test-all` all."""
BROKEN = [
    pytest.param(
        one, id=one.name, marks=pytest.mark.sample(2) if one.name in QUICK else pytest.mark.slow
    )
    for one in faults("first")
]
CALM = [pytest.param(one, id=one.name) for one in faults("no-fault")]
ALSO = {"cascading-failure/still-down": ["service-crash"]}
"""Skills of another cause that rightly fit as well."""


@pytest.mark.parametrize("fault", BROKEN)
def test_the_skill_of_its_cause_recognises_a_fault_and_no_other_does(
    tmp_path: Path, fault: Fault
) -> None:
    result = try_machine(compose(fault, 1), tmp_path / "box")
    assert result.discarded == ""
    assert result.own, result.line
    assert result.false == ALSO.get(fault.name, [])


@pytest.mark.sample(1)
@pytest.mark.parametrize("fault", CALM)
def test_nothing_fits_where_nothing_is_wrong(tmp_path: Path, fault: Fault) -> None:
    result = try_machine(compose(fault, 1, "no-fault"), tmp_path / "box")
    assert result.discarded == ""
    assert result.fitting == ()
