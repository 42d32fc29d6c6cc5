"""The statistics of a proof: what chance does alone, and what a real difference looks like."""

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.core.knowledge import Trial
from hermes_agent.learning.evaluation.statistics import (
    GRAIN,
    LEAST_PAIRS,
    LIKELY,
    Pair,
    by_chance,
    clearly_harmful,
    judged,
    pairs_of,
)

SCORES = st.lists(st.floats(-1, 1), min_size=1, max_size=9)


def pair(
    case: int = 0,
    success: tuple[float, float] = (1.0, 1.0),
    steps: tuple[float, float] = (10, 10),
    tokens: tuple[float, float] = (1000, 1000),
    opened: float = 1.0,
) -> Pair:
    """With the skill and without it, in this order."""
    with_, without = success
    return Pair(
        f"c{case}",
        with_,
        without,
        steps[0] if with_ else None,
        steps[1] if without else None,
        tokens[0] if with_ else None,
        tokens[1] if without else None,
        opened,
    )


@given(SCORES)
def test_chance_is_what_counting_all_signs_gives(scores: list[float]) -> None:
    whole = [round(score * GRAIN) for score in scores]
    sums = [
        sum(sign * abs(value) for sign, value in zip(signs, whole, strict=True))
        for signs in product((1, -1), repeat=len(whole))
    ]
    expected = sum(total >= sum(whole) for total in sums) / len(sums)
    assert by_chance(scores) == pytest.approx(expected)


def test_forty_cases_are_counted_exactly_too() -> None:
    assert by_chance([0.37] * 40) == 1 / 2**40
    assert by_chance([0.0] * 40) == 1.0


def test_a_skill_that_saves_steps_in_every_case_is_promoted() -> None:
    verdict = judged("s", "d", [pair(i, steps=(5 + i % 2, 10)) for i in range(LEAST_PAIRS)])
    assert verdict.promote
    assert verdict.p == 1 / 32
    assert "5.4 steps and 10.0" in verdict.why


def test_a_skill_that_wins_successes_is_promoted() -> None:
    verdict = judged("s", "d", [pair(i, success=(1.0, 0.0)) for i in range(6)])
    assert verdict.promote
    assert (verdict.success_with, verdict.success_without) == (1.0, 0.0)


def test_a_skill_that_changes_nothing_is_not_promoted() -> None:
    verdict = judged("s", "d", [pair(i) for i in range(8)])
    assert not verdict.promote
    assert not verdict.harmful
    assert "too little" in verdict.why


def test_four_cases_are_too_few_however_good_they_are() -> None:
    verdict = judged("s", "d", [pair(i, steps=(1, 20)) for i in range(LEAST_PAIRS - 1)])
    assert not verdict.promote
    assert "only 4" in verdict.why


def test_a_small_gain_is_not_worth_a_skill_however_sure_it_is() -> None:
    verdict = judged("s", "d", [pair(i, steps=(19, 20)) for i in range(10)])
    assert verdict.p < LIKELY
    assert not verdict.promote


def test_fewer_steps_do_not_pay_for_many_more_tokens() -> None:
    pairs = [pair(i, steps=(8, 10), tokens=(3000, 1000)) for i in range(8)]
    assert "costs more tokens" in judged("s", "d", pairs).why


def test_saved_steps_do_not_make_up_for_lost_successes() -> None:
    pairs = [pair(i, steps=(2, 10)) for i in range(7)] + [pair(8, success=(0.5, 1.0))]
    verdict = judged("s", "d", pairs)
    assert not verdict.promote
    assert "fewer tasks succeed" in verdict.why


def test_a_skill_that_nobody_opens_is_never_promoted() -> None:
    pairs = [pair(i, steps=(2, 10), opened=0.0) for i in range(8)]
    assert "not opened" in judged("s", "d", pairs).why


def test_three_cases_that_are_lost_by_it_are_clear_harm() -> None:
    lost = [pair(i, success=(0.0, 1.0)) for i in range(3)]
    assert clearly_harmful(lost)
    assert not clearly_harmful([*lost[:2], pair(3)])
    assert not clearly_harmful([*lost, pair(3, success=(1.0, 0.0))])


def test_more_steps_in_every_case_are_clear_harm() -> None:
    verdict = judged("s", "d", [pair(i, steps=(15, 10)) for i in range(6)])
    assert verdict.harmful
    assert not verdict.promote


def simulated(seed: int, cases: int, better: float, success: tuple[float, float]) -> list[Pair]:
    """Two rounds of each case as a noisy worker would play them; cases differ much in length.
    `better` is the share of the steps that the skill really saves."""
    world = random.Random(seed)

    def rounds(case: str, arm: str, length: float, works: float) -> list[Trial]:
        return [
            Trial(
                "s", "d", case, "with" if arm == "with" else "without", round, 0.0,
                ok=world.random() < works,
                steps=max(1, round_steps(length)),
                seconds=1.0, tokens=1_000, dollars=None, opened=True,
            )
            for round in range(2)
        ]  # fmt: skip

    def round_steps(length: float) -> int:
        return round(world.lognormvariate(0, 0.35) * length)

    played: list[Trial] = []
    names = [f"c{number}" for number in range(cases)]
    for name in names:
        length = world.uniform(4, 20)
        played += rounds(name, "with", length * (1 - better), success[0])
        played += rounds(name, "without", length, success[1])
    return pairs_of(played, "d", names)


@pytest.mark.parametrize("cases", [5, 7, 9])
def test_of_2000_skills_that_do_nothing_at_most_five_percent_are_promoted(cases: int) -> None:
    works = 0.8
    promoted = sum(
        judged("s", "d", simulated(seed, cases, 0.0, (works, works))).promote
        for seed in range(2_000)
    )
    assert promoted <= 100


def test_most_skills_that_halve_the_steps_are_promoted() -> None:
    promoted = sum(
        judged("s", "d", simulated(seed, 7, 0.5, (0.95, 0.95))).promote for seed in range(300)
    )
    assert promoted >= 150


def test_no_skill_that_does_harm_is_promoted() -> None:
    verdicts = [judged("s", "d", simulated(seed, 7, -0.5, (0.4, 0.9))) for seed in range(500)]
    assert sum(verdict.promote for verdict in verdicts) == 0
    assert sum(verdict.harmful for verdict in verdicts) >= 400


def test_an_improvement_is_compared_with_the_version_that_it_would_replace() -> None:
    def trial(digest: str, arm: str, steps: int) -> Trial:
        side = "with" if arm == "with" else "without"
        return Trial("s", digest, "c", side, 0, 0.0, True, steps, 1.0, 10, None, opened=True)

    trials = [trial("new", "with", 4), trial("old", "with", 6), trial("new", "without", 20)]
    (against_old,) = pairs_of(trials, "new", ["c"], baseline="old")
    (against_none,) = pairs_of(trials, "new", ["c"])
    assert (against_old.steps_with, against_old.steps_without) == (4, 6)
    assert against_none.steps_without == 20
