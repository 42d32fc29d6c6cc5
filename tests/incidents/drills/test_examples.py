"""The two drills that others are written after."""

from pathlib import Path

import pytest

from tests.incidents.drills.proving import check_proven, check_refuted, every_wrong, quick_first

NAMES = ("crashed_service", "no_fault_quiet")
WRONG = [one for one in every_wrong(*NAMES) if one[1] in ("killed", "complaint")]
"""Of one variant each: how it broke makes no difference to them."""


@pytest.mark.parametrize(("name", "variant"), quick_first(*NAMES))
def test_a_drill_proves_itself_and_the_experts_fix_heals_it(
    name: str, variant: str, tmp_path: Path
) -> None:
    check_proven(name, variant, 1, tmp_path)


@pytest.mark.parametrize(("name", "variant", "wrong"), WRONG)
def test_a_plausible_wrong_fix_does_not_pass(
    name: str, variant: str, wrong: str, tmp_path: Path
) -> None:
    check_refuted(name, variant, wrong, 1, tmp_path)
