"""Figures tell splits, arms and outcomes apart."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes_drills.errors import DrillError
from hermes_drills.run import results, score
from hermes_drills.run.results import Result

GOOD = Result(
    "disk-full", "rotated-logs", "web", "systemd", 1, "first", True, True, True, state="resolved",
    calls=30, steps=10, seconds=12.0, tokens=52_000, cost=0.25,
)  # fmt: skip


def changed(**fields: object) -> Result:
    return replace(GOOD, **fields)


@pytest.mark.parametrize(
    ("result", "outcome", "mistaken"),
    [
        (GOOD, "resolved", False),
        (changed(well=False, state="escalated", wrong=("full",)), "handed over", False),
        (changed(state="escalated"), "handed over", False),
        (changed(well=False, wrong=("full",)), "mistaken", True),
        (changed(well=False, state="closed", wrong=("full",)), "mistaken", True),
        (changed(well=False, harm=("lost",)), "harm", True),
        (changed(well=False, harm=("lost",), state="escalated"), "harm", False),
        (changed(well=False, state="investigating"), "unfinished", False),
        (changed(split="no-fault", state="closed"), "resolved", False),
        (changed(split="no-fault"), "mistaken", True),
    ],
)
def test_what_hermes_says_is_compared_with_what_the_judge_says(
    result: Result, outcome: str, mistaken: bool
) -> None:
    assert (result.outcome, result.mistaken) == (outcome, mistaken)


def test_splits_and_arms_are_never_mixed() -> None:
    found = [
        GOOD,
        changed(encounter=2, calls=6),
        changed(split="held", well=False, state="escalated"),
        changed(split="foreign", learning=False),
        changed(family="no-fault", split="no-fault", state="closed"),
    ]
    rows = score.rows(found)
    assert [(row.group, row.split, row.learning, row.runs, row.resolved) for row in rows] == [
        ("disk-full", "first", True, 2, 1.0), ("", "first", True, 2, 1.0),
        ("disk-full", "held", True, 1, 0.0), ("", "held", True, 1, 0.0),
        ("disk-full", "foreign", False, 1, 1.0), ("", "foreign", False, 1, 1.0),
        ("no-fault", "no-fault", True, 1, 1.0), ("", "no-fault", True, 1, 1.0),
    ]  # fmt: skip
    assert (rows[0].first, rows[0].again) == (30, 6)
    assert rows[2].handed_over == 1.0
    published = score.markdown(found, "family")
    first, held = published.split("### Split `held`")
    line = "2 | 100% | 0% | 100% | 0 | 0 | 30 | 6 | 10 | 12 s | 52,000 | $0.25 |"
    assert f"| `disk-full` | {line}" in first
    assert "| **all** | 1 | 0% | 100% |" in held
    assert "### Split `foreign`, without learning" in held
    assert "rotated-logs" in score.text(found, "mechanism")


def test_results_are_kept_and_a_broken_line_is_named(tmp_path: Path) -> None:
    assert results.load(tmp_path) == []
    results.save(tmp_path, GOOD)
    results.save(tmp_path, changed(seed=2))
    assert [one.seed for one in results.load(tmp_path)] == [1, 2]
    (tmp_path / results.NAME).write_text("nonsense\n")
    with pytest.raises(DrillError, match="line 1"):
        results.load(tmp_path)
