"""From a turn to a skill that is in force: review, candidate, cases, proof, uses, and back."""

from pathlib import Path

from hermes_agent.core.lore import Case, SkillUse
from hermes_agent.core.settings import LearningSettings
from hermes_agent.learning.proof import Prover
from hermes_agent.learning.proof_figures import Verdict
from hermes_agent.learning.review import Reviewer
from hermes_agent.learning.standing import Standing
from hermes_agent.learning.transcript import Transcript
from hermes_agent.learning.triggers import worth
from tests.support.learned import Learned, Ring, Scripted, as_json, learned, skill_text
from tests.support.told import call, turn

SETTINGS = LearningSettings(calls=3, cases=6, rounds=2)
NAME = "free-space"
TURN = Transcript(
    "s1",
    1,
    turn(
        "free some space in this folder",
        call("terminal", "[stderr]\nbusy", ok=False, data={"code": 2}),
        call("terminal", "listed"),
        call("terminal", "freed"),
    ),
)
LOOKS_FIRST = skill_text(NAME, steps="1. Look first.\n2. Remove the largest.")
GUESSES = skill_text(NAME, steps="1. Guess.")
WIPES = skill_text(NAME, steps="1. Remove everything.")


def plays(case: Case, skill: str, round: int) -> tuple[bool, int]:
    """A worker that does well when it is told to look, and as it is told when to wipe."""
    if "everything" in skill:
        return False, 2
    return True, (3 if "Look first" in skill else 9) + (len(case.task) + round) % 2


async def learn(bench: Learned, text: str) -> str:
    """One round: a review that answers with this skill, and its proof; what came of it."""
    ideas = {"action": "create", "name": NAME, "why": "it took tries", "evidence": [1, 3]}
    written = [
        {"task": f"free space in d{n}", "setup": f"mkdir d{n}", "check": f"test -e d{n}/ok"}
        for n in range(8)
    ]
    ask = Scripted([as_json(notes=[], skills=[ideas | {"files": {"SKILL.md": text}}])])
    reviewer = Reviewer(
        ask=ask, lore=bench.lore, memory=bench.memory, skills=bench.skills,
        settings=lambda: SETTINGS, clock=bench.clock,
    )  # fmt: skip
    await reviewer.apply(await reviewer.review([TURN], worth(TURN.events, SETTINGS)))
    (chore,) = await bench.lore.chores(bench.now)
    prover = Prover(
        ask=Scripted([as_json(cases=written)]), lore=bench.lore, arena=Ring(plays),
        settings=lambda: SETTINGS,
    )  # fmt: skip
    if await prover.needs_cases(NAME):
        await prover.add_cases(NAME, TURN)
    verdict: Verdict = await prover.prove(NAME, chore.body["digest"])
    await bench.lore.close_chore(chore.key, "done", verdict.why)
    return await standing(bench).decide(verdict)


def standing(bench: Learned) -> Standing:
    return Standing(lore=bench.lore, skills=bench.skills, clock=bench.clock)


async def state(bench: Learned) -> tuple[str, int]:
    record = await bench.lore.skill(NAME)
    return record.state, record.version


async def test_a_skill_that_helps_comes_into_force(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        assert "proven" in await learn(bench, LOOKS_FIRST)
        assert await state(bench) == ("proven", 1)


async def test_a_skill_that_does_nothing_stays_a_candidate(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        assert await learn(bench, GUESSES) == ""
        assert await state(bench) == ("candidate", 1)


async def test_a_skill_that_does_harm_is_caught_before_it_is_used(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        assert "demoted" in await learn(bench, WIPES)
        assert await state(bench) == ("demoted", 1)


async def test_a_worse_version_never_replaces_one_that_works(tmp_path: Path) -> None:
    async with learned(tmp_path) as bench:
        await learn(bench, LOOKS_FIRST)
        for worse in (WIPES, GUESSES):
            assert await learn(bench, worse) == ""
            assert await state(bench) == ("proven", 1)
        assert len(await bench.lore.versions(NAME)) == 3


async def test_a_better_version_replaces_a_candidate_and_failures_in_use_take_it_back(
    tmp_path: Path,
) -> None:
    async with learned(tmp_path) as bench:
        await learn(bench, GUESSES)
        assert "proven" in await learn(bench, LOOKS_FIRST)
        assert await state(bench) == ("proven", 2)
        digest = (await bench.lore.skill(NAME)).digest
        for number in (1, 2):
            bench.now += 60
            bad = SkillUse(NAME, digest, "s9", number, bench.now, True, "bad", why="corrected")
            await bench.lore.add_uses([bad])
            told = await standing(bench).settle(NAME)
        assert "demoted" in told  # the version before was never good
        assert await state(bench) == ("demoted", 2)
