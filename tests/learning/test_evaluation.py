"""Proofs: cases that another model writes, and trials with and without the skill."""

from pathlib import Path

import pytest

from hermes_agent.core.errors import NotFound
from hermes_agent.core.knowledge import EvaluationCase, SkillUse
from hermes_agent.core.settings.root import LearningSettings
from hermes_agent.learning.evaluation.cases import cases_for
from hermes_agent.learning.evaluation.evaluator import SkillEvaluator
from hermes_agent.learning.review.transcript import ReviewTranscript
from tests.support.journal_events import call, turn
from tests.support.learning_parts import (
    Learned,
    Ring,
    Scripted,
    as_json,
    cases,
    learned,
    skill_files,
)

SETTINGS = LearningSettings(cases=8, rounds=2)
TURN = ReviewTranscript("s1", 1, turn("clear the disk of web-3", call("terminal", "9 GB freed")))


def idea(n: int, **more: str) -> dict[str, str]:
    return {"task": f"Clear folder {n}", "setup": f"mkdir d{n}", "check": f"! test -e d{n}"} | more


def prover(bench: Learned, ring: Ring, ask: Scripted | None = None) -> SkillEvaluator:
    return SkillEvaluator(
        ask=ask or Scripted(), knowledge=bench.knowledge, runner=ring, settings=lambda: SETTINGS
    )


async def candidate(bench: Learned, name: str = "clear-disk", many: int = 8) -> str:
    """A candidate with cases; its digest."""
    kept = await bench.skills.write(name, skill_files(name), by="review", state="candidate")
    await bench.knowledge.add_cases(cases(name, many))
    return kept.digest


def helps(case: EvaluationCase, skill: str, round: int) -> tuple[bool, int]:
    return True, (4 if skill else 10) + len(case.id) % 2 + round


def does_nothing(case: EvaluationCase, skill: str, round: int) -> tuple[bool, int]:
    return True, 10


def harms(case: EvaluationCase, skill: str, round: int) -> tuple[bool, int]:
    return not skill, 10


# cases


async def test_the_case_of_the_turn_itself_is_not_held_out_and_its_variations_are() -> None:
    ask = Scripted([as_json(cases=[idea(n) for n in range(8)])])
    written = await cases_for("clear-disk", TURN, ask, 6)
    assert [case.held for case in written] == [False] + [True] * 7
    assert written[0].source == "session s1"
    assert written[1].source == "variation of session s1"
    assert len({case.id for case in written}) == 8


async def test_whoever_writes_the_cases_sees_the_turn_and_not_the_skill() -> None:
    ask = Scripted([as_json(cases=[idea(n) for n in range(8)])])
    await cases_for("clear-disk", TURN, ask, 6)
    ((use, system, prompt),) = ask.asked
    assert use == "judge"
    assert "clear the disk of web-3" in prompt
    assert "9 GB freed" in prompt
    assert "clear-disk" not in system + prompt


async def test_cases_that_test_nothing_are_left_out() -> None:
    no_good = [
        idea(1, check="true"), idea(2, check="#!/bin/bash\n"), idea(3, task=" "),
        idea(4, setup="x" * 10_000), idea(0), idea(0),
    ]  # fmt: skip
    ask = Scripted([as_json(cases=[*no_good, *[idea(n) for n in range(10, 16)]])])
    written = await cases_for("clear-disk", TURN, ask, 8)
    assert [case.task for case in written] == [f"Clear folder {n}" for n in (0, *range(10, 16))]


async def test_too_few_cases_are_asked_for_once_more() -> None:
    ask = Scripted([as_json(cases=[idea(0), idea(1)]), as_json(cases=[idea(n) for n in range(9)])])
    written = await cases_for("clear-disk", TURN, ask, 6)
    assert len(written) == 8
    assert "Clear folder 1" in ask.asked[1][2]


async def test_cases_are_kept_with_the_skill(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        ask = Scripted([as_json(cases=[idea(n) for n in range(10)])])
        mine = prover(bench, Ring(helps), ask)
        assert await mine.needs_cases("clear-disk")
        await mine.add_cases("clear-disk", TURN)
        assert not await mine.needs_cases("clear-disk")
        assert len(await bench.knowledge.cases("clear-disk")) == 10


async def test_the_last_good_use_is_where_cases_come_from_when_nothing_else_is_known(
    tmp_path: Path,
) -> None:
    async with learned(tmp_path) as bench:
        mine = prover(bench, Ring(helps))
        assert await mine.turn_for("clear-disk") is None
        await bench.knowledge.add_uses(
            [
                SkillUse("clear-disk", "d", "s1", 3, 1.0, True, "good"),
                SkillUse("clear-disk", "d", "s2", 4, 2.0, True, "bad"),
                SkillUse("clear-disk", "d", "s3", 5, 3.0, False, "good"),
            ]
        )
        assert await mine.turn_for("clear-disk") == ("s1", 3)


# trials


async def test_a_skill_that_helps_is_promoted(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        digest, ring = await candidate(bench), Ring(helps)
        verdict = await prover(bench, ring).prove("clear-disk", digest)
        assert verdict.promote
        assert verdict.n == 7
        assert len(ring.played) == 8 * 2 * 2
        assert len(await bench.knowledge.trials("clear-disk", digest)) == 32


async def test_a_skill_that_is_never_opened_is_not_promoted(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        digest = await candidate(bench)
        verdict = await prover(bench, Ring(helps, opens=False)).prove("clear-disk", digest)
        assert not verdict.promote
        assert "not opened" in verdict.why


async def test_playing_stops_when_harm_is_clear(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        digest, ring = await candidate(bench), Ring(harms)
        verdict = await prover(bench, ring).prove("clear-disk", digest)
        assert verdict.harmful
        assert len(ring.played) == 6


async def test_each_arm_goes_first_every_other_time(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        digest, ring = await candidate(bench), Ring(helps)
        await prover(bench, ring).prove("clear-disk", digest)
        first = [bool(text) for _, text, _ in ring.played[::2]]
        assert first == [True, False] * 4 + [False, True] * 4


async def test_cases_that_are_no_good_make_room_for_others(tmp_path: Path) -> None:
    def some_are_broken(case: EvaluationCase, skill: str, round: int) -> tuple[bool, int] | None:
        return None if case.task in {"task 2", "task 4"} else helps(case, skill, round)

    async with learned(tmp_path) as bench:
        digest = await candidate(bench, many=10)
        verdict = await prover(bench, Ring(some_are_broken)).prove("clear-disk", digest)
        assert verdict.n == 7
        assert verdict.promote


async def test_a_case_that_breaks_in_a_later_round_counts_in_none(tmp_path: Path) -> None:
    def breaks(case: EvaluationCase, skill: str, round: int) -> tuple[bool, int] | None:
        return None if (case.task, round) == ("task 3", 1) else helps(case, skill, round)

    async with learned(tmp_path) as bench:
        digest = await candidate(bench)
        assert (await prover(bench, Ring(breaks)).prove("clear-disk", digest)).n == 6


async def test_a_proof_whose_budget_is_gone_goes_on_where_it_was(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        digest = await candidate(bench)
        first = Ring(helps, budget=9)
        verdict = await prover(bench, first).prove("clear-disk", digest)
        assert verdict.later
        assert not verdict.promote
        second = Ring(helps)
        assert (await prover(bench, second).prove("clear-disk", digest)).promote
        assert len(second.played) == 32 - 9


async def test_asking_again_does_not_throw_the_dice_again(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        digest = await candidate(bench)
        before = await prover(bench, Ring(does_nothing)).prove("clear-disk", digest)
        again = Ring(helps)
        assert await prover(bench, again).prove("clear-disk", digest) == before
        assert again.played == []


async def test_an_improvement_must_beat_what_it_would_replace(tmp_path: Path) -> None:
    def both_help(case: EvaluationCase, skill: str, round: int) -> tuple[bool, int]:
        return True, 4 if skill else 10

    async with learned(tmp_path) as bench:
        old = await bench.skills.write(
            "clear-disk", skill_files("clear-disk"), by="person", state="given"
        )
        new = await bench.skills.save_pending(
            "clear-disk", skill_files("clear-disk", steps="1. Say please first."), by="review"
        )
        await bench.knowledge.add_cases(cases("clear-disk", 8))
        ring = Ring(both_help)
        verdict = await prover(bench, ring).prove("clear-disk", new.digest)
        assert not verdict.promote
        assert all(text for _, text, _ in ring.played)
        kept = {(one.digest, one.arm) for one in await bench.knowledge.trials("clear-disk")}
        assert kept == {(new.digest, "with"), (old.digest, "with")}


async def test_a_version_that_is_not_there_cannot_be_proven(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        await candidate(bench)
        with pytest.raises(NotFound, match="no version"):
            await prover(bench, Ring(helps)).prove("clear-disk", "0" * 64)
