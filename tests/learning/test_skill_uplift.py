"""The rows of the report: how tasks go with a skill and without it."""

import pytest

from hermes_agent.core.knowledge import SkillRecord, SkillUse, Trial
from hermes_agent.learning.evaluation.uplift import TREND, UpliftRow, lift

RECORD = SkillRecord("clear-disk", "proven", 2, "d2", 0.0, 0.0, "review", "m/small", "it helps")


def use(
    time: float, opened: bool, steps: int, outcome: str = "good", digest: str = "d2"
) -> SkillUse:
    return SkillUse(
        "clear-disk", digest, f"s{time}", 1, time, opened, outcome, steps, steps * 2.0,
        steps * 100, steps / 100,
    )  # fmt: skip


def trial(case: int, arm: str, steps: int, ok: bool = True, digest: str = "d2") -> Trial:
    return Trial(
        "clear-disk", digest, f"c{case}", arm, 0, 0.0, ok, steps, steps * 2.0, steps * 100, None
    )


def row(uses: list[SkillUse], trials: list[Trial]) -> UpliftRow:
    (only,) = lift([RECORD], uses, trials)
    return only


def test_uses_are_the_evidence_where_nothing_was_replayed() -> None:
    uses = [use(n, True, 4) for n in range(3)] + [use(9.0 + n, False, 8) for n in range(2)]
    one = row([*uses, use(20.0, False, 8, "bad"), use(21.0, True, 4, "unknown")], [])
    assert one.evidence == "use n=4"
    assert (one.uses, one.with_.n, one.without.n) == (4, 4, 3)
    assert (one.with_.success, one.without.success) == (1.0, pytest.approx(2 / 3))
    assert (one.with_.steps, one.without.steps, one.lift.steps) == (4, 8, 0.5)
    assert (one.with_.dollars, one.lift.dollars) == (0.04, 0.5)
    assert one.lift.success == pytest.approx(1 / 3)


def test_a_replay_is_better_evidence_than_uses() -> None:
    trials = [trial(n, "with", 5) for n in range(6)] + [trial(n, "without", 10) for n in range(6)]
    one = row([use(1.0, True, 99)], [*trials, trial(0, "with", 77, digest="d1")])
    assert one.evidence == "replay n=6"
    assert (one.with_.steps, one.without.steps, one.lift.steps) == (5, 10, 0.5)
    assert one.lift.dollars is None
    assert one.uses == 1


def test_uses_of_an_earlier_version_say_nothing_of_this_one() -> None:
    one = row([use(1.0, True, 50, digest="d1"), use(2.0, True, 4)], [])
    assert one.with_.steps == 4
    assert one.uses == 2


def test_the_trend_is_the_last_turns_oldest_first() -> None:
    one = row([use(float(n), n % 2 == 0, n) for n in range(60, 0, -1)], [])
    assert [dot.steps for dot in one.trend] == list(range(61 - TREND, 61))
    assert one.trend[-1].opened


def test_a_skill_of_which_nothing_is_known_is_left_out_unless_it_was_learned() -> None:
    given = SkillRecord("given-one", "given", 1, "d", 0.0, 0.0, "person")
    learned = SkillRecord("new-one", "candidate", 1, "d", 0.0, 0.0, "review")
    rows = lift([given, learned, RECORD], [use(1.0, True, 3)], [])
    assert [one.skill for one in rows] == ["clear-disk", "new-one"]
    assert rows[1].evidence == "none"
    assert rows[1].lift.steps is None
