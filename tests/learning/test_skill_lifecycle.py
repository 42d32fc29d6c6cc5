"""What becomes of skills over simulated histories, and with the real store and skill book."""

import random
from pathlib import Path

from hermes_agent.core.knowledge import Outcome, SkillRecord, SkillUse
from hermes_agent.core.settings.root import LearningSettings
from hermes_agent.learning.evaluation.statistics import EvaluationVerdict
from hermes_agent.learning.review.reviewer import Reviewer
from hermes_agent.learning.skills.folder import digest
from hermes_agent.learning.skills.lifecycle import (
    DAY_SECONDS,
    DAYS,
    OFFERS,
    RECORD,
    SkillLifecycle,
    after_proof,
    after_use,
)
from tests.support.learning_parts import Learned, Scripted, learned, skill_files

NAME = "clear-disk"


def record(state: str = "given", **more: object) -> SkillRecord:
    facts = {"version": 1, "digest": "d", "created": 0.0, "changed": 0.0, "by": "person"} | more
    return SkillRecord(NAME, state, **facts)


def use(
    time: float,
    outcome: Outcome = "good",
    *,
    opened: bool = True,
    steps: int = 10,
    tokens: int = 1_000,
    digest: str = "d",
) -> SkillUse:
    return SkillUse(
        NAME, digest, f"s{time}", int(time), time, opened, outcome, steps, tokens=tokens,
        why="it was done" if outcome == "good" else "its last call failed",
    )  # fmt: skip


def uses(*outcomes: Outcome, opened: bool = True, first: float = 1.0) -> list[SkillUse]:
    return [use(first + n, outcome, opened=opened) for n, outcome in enumerate(outcomes)]


def uses_until_taken_back(failing: float, seed: int, most: int = 50) -> int:
    """After how many uses a given skill is taken back that fails at this rate; 0 for never."""
    world = random.Random(seed)
    history: list[SkillUse] = []
    for number in range(1, most + 1):
        outcome: Outcome = "bad" if world.random() < failing else "good"
        history.append(use(float(number), outcome))
        if after_use(record(), history, number):
            return number
    return 0


def test_two_bad_uses_of_three_take_a_skill_back() -> None:
    for outcomes in (["bad", "bad"], ["bad", "good", "bad"], ["good", "bad", "bad"]):
        move = after_use(record(), uses(*outcomes), 10.0)
        assert move is not None
        assert move.to == "back"
        assert "its last call failed" in move.why


def test_one_bad_use_takes_nothing_back() -> None:
    assert after_use(record(), uses("good", "bad", "good"), 10.0) is None
    assert after_use(record(), uses("bad"), 10.0) is None


def test_uses_of_which_nothing_is_known_do_not_count() -> None:
    assert after_use(record(), uses("bad", "unknown", "unknown"), 10.0) is None
    assert after_use(record(), uses("bad", "unknown", "bad"), 10.0) is not None


def test_a_skill_is_not_blamed_for_what_goes_wrong_without_it_too() -> None:
    without = uses("bad", "bad", "bad", opened=False)
    assert after_use(record(), [*without, *uses("bad", "bad", first=9.0)], 20.0) is None
    fine = uses("good", "good", "bad", opened=False)
    assert after_use(record(), [*fine, *uses("bad", "bad", first=9.0)], 20.0) is not None


def test_uses_of_another_version_do_not_count() -> None:
    history = [use(1.0, "bad", digest="old"), use(2.0, "bad", digest="old"), use(3.0, "bad")]
    assert after_use(record(), history, 10.0) is None


def test_uses_before_the_last_change_do_not_count() -> None:
    assert after_use(record(changed=5.0), uses("bad", "bad", "bad"), 10.0) is None


def test_a_harmful_skill_planted_by_hand_is_taken_back_within_three_uses() -> None:
    assert all(uses_until_taken_back(1.0, seed) == 2 for seed in range(100))
    taken = [uses_until_taken_back(0.9, seed) for seed in range(500)]
    assert sum(0 < number <= 3 for number in taken) >= 450


def test_a_skill_with_a_good_record_survives_bad_days() -> None:
    world = random.Random(7)
    kept = 0
    for _ in range(200):
        history = uses(*["good"] * (RECORD + 5))
        for number in range(20, 120):
            history.append(use(float(number), "bad" if world.random() < 0.1 else "good"))
            if after_use(record(), history, float(number)):
                break
        else:
            kept += 1
    assert kept >= 170


def test_a_skill_that_stops_helping_loses_its_place_soon() -> None:
    history = uses(*["good"] * 30)
    for number in range(1, 8):
        history.append(use(100.0 + number, "bad"))
        if after_use(record("proven"), history, 200.0):
            break
    assert number <= 3


def test_a_skill_that_takes_clearly_more_steps_is_taken_back() -> None:
    with_ = [use(float(n), steps=20 + n) for n in range(5)]
    without = [use(10.0 + n, opened=False, steps=9 + n) for n in range(5)]
    move = after_use(record("proven"), [*with_, *without], 30.0)
    assert move is not None
    assert "22 steps with it and 11 without" in move.why


def test_a_skill_that_takes_clearly_more_tokens_is_taken_back() -> None:
    with_ = [use(float(n), tokens=9_000) for n in range(5)]
    without = [use(10.0 + n, opened=False, tokens=2_000) for n in range(5)]
    move = after_use(record(), [*with_, *without], 30.0)
    assert move is not None
    assert "tokens" in move.why


def test_four_uses_are_too_few_to_compare() -> None:
    with_ = [use(float(n), steps=50) for n in range(4)]
    without = [use(10.0 + n, opened=False, steps=5) for n in range(9)]
    assert after_use(record(), [*with_, *without], 30.0) is None


def test_noise_in_steps_takes_few_skills_back() -> None:
    taken = 0
    for seed in range(300):
        world = random.Random(seed)
        history: list[SkillUse] = []
        for number in range(40):
            steps = round(10 * world.lognormvariate(0, 0.4))
            history.append(use(float(number), opened=world.random() < 0.5, steps=steps))
            if after_use(record(), history, float(number)):
                taken += 1
                break
    assert taken <= 30


def test_a_candidate_that_nobody_opens_is_put_away() -> None:
    offered = uses(*["good"] * OFFERS, opened=False)
    move = after_use(record("candidate"), offered, 30.0)
    assert move is not None
    assert (move.to, "never opened" in move.why) == ("retired", True)
    assert after_use(record("candidate"), offered[:-1], 30.0) is None
    assert after_use(record("candidate"), [*offered, use(50.0)], 60.0) is None
    assert after_use(record("given"), offered, 30.0) is None


def test_a_candidate_that_is_unproven_after_a_month_is_put_away() -> None:
    late = (DAYS + 1) * DAY_SECONDS
    move = after_use(record("candidate"), [], late)
    assert move is not None
    assert move.to == "retired"
    assert after_use(record("candidate"), [], late - 2 * DAY_SECONDS) is None
    assert after_use(record("given"), [], late) is None


def test_uses_alone_never_promote_a_candidate() -> None:
    with_ = [use(float(n), steps=1) for n in range(10)]
    without = [use(20.0 + n, "bad", opened=False, steps=30) for n in range(10)]
    assert after_use(record("candidate"), [*with_, *without], 40.0) is None


def test_nothing_becomes_of_a_skill_that_is_put_away() -> None:
    for state in ("demoted", "retired", "quarantined"):
        assert after_use(record(state), uses("bad", "bad", "bad"), 10.0) is None


def test_a_proof_promotes_takes_back_or_leaves_alone() -> None:
    good = EvaluationVerdict(NAME, "d", True, "it helps")
    harmful = EvaluationVerdict(NAME, "d", False, "it makes things worse", harmful=True)
    neither = EvaluationVerdict(NAME, "d", False, "it saves too little")
    proven, back = after_proof(record("candidate"), good), after_proof(record("given"), harmful)
    assert proven is not None
    assert back is not None
    assert (proven.to, back.to) == ("proven", "back")
    assert after_proof(record("candidate"), neither) is None
    assert after_proof(record("candidate", digest="other"), good) is None
    assert after_proof(record("demoted"), good) is None


# with the real store and skill book


def standing(bench: Learned) -> SkillLifecycle:
    return SkillLifecycle(knowledge=bench.knowledge, skills=bench.skills, clock=bench.clock)


async def add_bad_uses(bench: Learned, many: int) -> None:
    now = (await bench.knowledge.skill(NAME)).digest
    for _ in range(many):
        bench.now += 60
        await bench.knowledge.add_uses([use(bench.now, "bad", digest=now)])


async def test_a_proven_candidate_can_be_gone_back_to(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        kept = await bench.skills.write(NAME, skill_files(NAME), by="review", state="candidate")
        told = await standing(bench).decide(
            EvaluationVerdict(NAME, kept.digest, True, "it helps: n=7")
        )
        assert "proven" in told
        now = await bench.knowledge.skill(NAME)
        assert (now.state, now.reason) == ("proven", "it helps: n=7")
        assert [version.good for version in await bench.knowledge.versions(NAME)] == [True]


async def test_a_candidate_that_proves_harmful_is_demoted(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        kept = await bench.skills.write(NAME, skill_files(NAME), by="review", state="candidate")
        verdict = EvaluationVerdict(NAME, kept.digest, False, "it makes things worse", harmful=True)
        assert "demoted" in await standing(bench).decide(verdict)
        assert (await bench.knowledge.skill(NAME)).state == "demoted"


async def test_the_log_of_a_demotion_calls_nothing_proven(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        kept = await bench.skills.write(NAME, skill_files(NAME), by="review", state="candidate")
        await standing(bench).decide(EvaluationVerdict(NAME, kept.digest, True, "it helps"))
        await add_bad_uses(bench, 2)
        assert "demoted" in await standing(bench).settle(NAME)
        logged = [change.what for change in await bench.knowledge.skill_changes(NAME)]
        assert logged == ["demoted", "proven", "candidate", "version 1"]


async def test_a_proof_that_is_put_off_changes_nothing(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        kept = await bench.skills.write(NAME, skill_files(NAME), by="review", state="candidate")
        verdict = EvaluationVerdict(NAME, kept.digest, False, "no budget", later=True)
        assert await standing(bench).decide(verdict) == ""
        assert (await bench.knowledge.skill(NAME)).state == "candidate"


async def test_a_harmful_skill_planted_by_hand_is_demoted_after_two_bad_uses(
    tmp_path: Path,
) -> None:
    async with learned(tmp_path) as bench:
        planted = tmp_path / "skills" / NAME
        planted.mkdir(parents=True)
        (planted / "SKILL.md").write_bytes(skill_files(NAME)["SKILL.md"])
        await bench.skills.sync()
        assert (await bench.knowledge.skill(NAME)).state == "given"
        await add_bad_uses(bench, 1)
        assert await standing(bench).settle(NAME) == ""
        await add_bad_uses(bench, 1)
        assert "demoted" in await standing(bench).settle(NAME)
        assert await bench.skills.offered(["terminal"]) == []


async def test_a_version_that_goes_wrong_is_left_for_the_last_good_one(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        first = await bench.skills.write(NAME, skill_files(NAME), by="person", state="given")
        bench.now += 60
        worse = skill_files(NAME, steps="1. Delete everything.")
        await bench.skills.write(NAME, worse, by="person", state="given")
        await add_bad_uses(bench, 2)
        assert "back at version 1" in await standing(bench).settle(NAME)
        now = await bench.knowledge.skill(NAME)
        assert (now.digest, now.state) == (first.digest, "given")
        folder = tmp_path / "skills" / NAME / "SKILL.md"
        assert folder.read_bytes() == skill_files(NAME)["SKILL.md"]
        # Going wrong again, it has nowhere to go: never forth and back.
        await add_bad_uses(bench, 2)
        assert "demoted" in await standing(bench).settle(NAME)


async def test_an_improvement_takes_over_when_it_is_proven_and_not_before(
    tmp_path: Path,
) -> None:
    async with learned(tmp_path) as bench:
        old = await bench.skills.write(NAME, skill_files(NAME), by="shipped", state="given")
        better = skill_files(NAME, steps="1. Look first.")
        new = await bench.skills.save_pending(NAME, better, by="review", model="m")
        folder = tmp_path / "skills" / NAME / "SKILL.md"
        assert (await bench.knowledge.skill(NAME)).digest == old.digest
        not_yet = EvaluationVerdict(NAME, new.digest, False, "it makes things worse", harmful=True)
        assert await standing(bench).decide(not_yet) == ""
        assert (await bench.knowledge.skill(NAME)).state == "given"
        assert folder.read_bytes() == skill_files(NAME)["SKILL.md"]
        told = await standing(bench).decide(EvaluationVerdict(NAME, new.digest, True, "it helps"))
        assert "version 2" in told
        now = await bench.knowledge.skill(NAME)
        assert (now.digest, now.state, now.version) == (new.digest, "proven", 2)
        assert folder.read_bytes() == better["SKILL.md"]


async def test_a_demoted_version_is_not_what_a_later_one_goes_back_to(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        await bench.skills.write(NAME, skill_files(NAME), by="person", state="given")
        await add_bad_uses(bench, 2)
        await standing(bench).settle(NAME)
        bench.now += 60
        again = skill_files(NAME, steps="1. Another way.")
        await bench.skills.write(NAME, again, by="review", state="candidate")
        await add_bad_uses(bench, 2)
        assert "demoted" in await standing(bench).settle(NAME)
        assert (await bench.knowledge.skill(NAME)).version == 2


async def test_a_candidate_that_nothing_fits_is_put_away_in_time(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        await bench.skills.write(NAME, skill_files(NAME), by="review", state="candidate")
        assert await standing(bench).settle_all() == []
        bench.now += (DAYS + 1) * DAY_SECONDS
        assert await standing(bench).settle_all() == [f"{NAME} is retired: unproven after 30 days"]
        assert await standing(bench).settle_all() == []


def reviewer(bench: Learned) -> Reviewer:
    return Reviewer(
        ask=Scripted(),
        knowledge=bench.knowledge,
        memory=bench.memory,
        skills=bench.skills,
        settings=LearningSettings,
        clock=bench.clock,
    )


async def test_what_a_person_has_edited_since_is_replaced_only_with_their_word(
    tmp_path: Path,
) -> None:
    async with learned(tmp_path) as bench:
        await bench.skills.write(NAME, skill_files(NAME), by="review", state="proven")
        logo = {"assets/logo.png": b"\x89PNG\xff"}
        better = skill_files(NAME, steps="1. Look first.") | logo
        new = await bench.skills.save_pending(NAME, better, by="review", model="m")
        edited = tmp_path / "skills" / NAME / "SKILL.md"
        edited.write_bytes(skill_files(NAME, steps="1. By hand.")["SKILL.md"])
        await bench.skills.sync()
        mine = await bench.knowledge.skill(NAME)
        verdict = EvaluationVerdict(NAME, new.digest, True, "it helps: n=7")
        assert await standing(bench).decide(verdict) == f"version 2 of {NAME} is proven: proposal 1"
        assert await standing(bench).decide(verdict) == "", "it is said once"
        assert await bench.knowledge.skill(NAME) == mine
        (proposal,) = await bench.knowledge.proposals()
        assert (proposal.evidence, proposal.model) == ("proof: it helps: n=7", "m")
        assert proposal.body["files"] == {"SKILL.md": better["SKILL.md"].decode()}
        assert proposal.body["base"] == mine.digest
        told = await reviewer(bench).accept(proposal, "kim")
        assert told == f"{NAME}: version 2 is in use"
        now = await bench.knowledge.skill(NAME)
        assert (now.digest, now.state) == (new.digest, "proven")
        assert edited.read_bytes() == better["SKILL.md"]


async def test_a_version_that_a_person_refused_is_not_proposed_again(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        await bench.skills.write(NAME, skill_files(NAME), by="person", state="given")
        better = skill_files(NAME, steps="1. Look first.")
        new = await bench.skills.save_pending(NAME, better, by="review")
        verdict = EvaluationVerdict(NAME, new.digest, True, "it helps")
        await standing(bench).decide(verdict)
        await bench.knowledge.decide_proposal(1, "rejected", "kim")
        assert await standing(bench).decide(verdict) == ""
        assert await bench.knowledge.proposals() == []


async def test_what_a_person_agreed_to_takes_over_when_it_is_proven(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        old = await bench.skills.write(NAME, skill_files(NAME), by="person", state="given")
        better = skill_files(NAME, steps="1. Look first.")["SKILL.md"]
        body = {
            "action": "improve", "name": NAME, "files": {"SKILL.md": better.decode()},
            "why": "w", "base": old.digest, "session": "s1", "turn": 1,
        }  # fmt: skip
        proposal = await bench.knowledge.propose("skill", "improve it", body, "session s1")
        await reviewer(bench).accept(proposal, "kim")
        _, new = await bench.knowledge.versions(NAME)
        told = await standing(bench).decide(EvaluationVerdict(NAME, new.digest, True, "it helps"))
        assert "version 2" in told
        assert (await bench.knowledge.skill(NAME)).digest == new.digest
        assert await bench.knowledge.proposals() == []


async def test_a_skill_whose_version_before_looks_dangerous_is_demoted(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        evil = skill_files(NAME, steps="1. Be evil.")
        await bench.knowledge.save_version(NAME, evil, digest(evil), "person", "given", good=True)
        bench.now += 60
        await bench.skills.write(NAME, skill_files(NAME), by="person", state="given")
        await add_bad_uses(bench, 2)
        assert "is demoted" in await standing(bench).settle(NAME)
        now = await bench.knowledge.skill(NAME)
        assert (now.state, now.version) == ("demoted", 2)
        assert "version 1 of the skill 'clear-disk' looks dangerous" in now.reason
