"""Learning from end to end, with a script for a model. tests/support/learning_curve.py says what
that can show and what it cannot."""

from pathlib import Path

import pytest

from tests.support.learning_curve import DESCRIPTION, SKILL, Family, skill_text

pytestmark = pytest.mark.timeout(600)


@pytest.mark.slow
async def test_tasks_take_fewer_steps_once_a_skill_has_been_learned_and_proven(
    tmp_path: Path,
) -> None:
    async with Family(tmp_path / "learning", learns=True) as family:
        learning = [await family.do(number) for number in range(1, 4)]
        record = await family.runtime.context.store.knowledge.skill(SKILL)
        trials = await family.runtime.context.store.knowledge.trials(SKILL)
        uses = await family.runtime.context.store.knowledge.uses(SKILL)
        left = await family.runtime.context.store.sessions(1_000)
    async with Family(tmp_path / "amnesic", learns=False) as family:
        amnesic = [await family.do(number) for number in range(1, 4)]
    assert all(task.ok for task in (*learning, *amnesic))
    assert [task.opened for task in learning] == [False, True, True]
    assert [task.steps for task in learning] == [11, 4, 4]
    assert [task.steps for task in amnesic] == [11, 11, 11]
    assert sum(task.tokens for task in learning[1:]) < sum(task.tokens for task in amnesic[1:]) / 2
    assert (record.state, record.by) == ("proven", "review")
    assert record.model.endswith("look.json"), "the model that wrote it is not known"
    assert {trial.arm for trial in trials} == {"with", "without"}
    assert all(trial.opened == (trial.arm == "with") for trial in trials)
    assert [use.outcome for use in uses if use.opened] == ["good"] * 2
    assert {session.source for session in left} == {"cli"}, "a trial was left behind"
    assert not list((tmp_path / "learning" / "home" / "proofs").iterdir())


@pytest.mark.slow
async def test_a_useless_skill_is_never_promoted(tmp_path: Path) -> None:
    async with Family(tmp_path, learns=True, helps=False) as family:
        tasks = [await family.do(number) for number in range(1, 4)]
        record = await family.runtime.context.store.knowledge.skill(SKILL)
        changes = await family.runtime.context.store.knowledge.skill_changes(SKILL)
        trials = await family.runtime.context.store.knowledge.trials(SKILL)
    assert all(task.ok for task in tasks)
    assert len(trials) >= 10
    assert record.state != "proven"
    assert not [change for change in changes if change.what == "proven"]


async def test_a_harmful_skill_that_a_person_plants_is_taken_back_within_three_uses(
    tmp_path: Path,
) -> None:
    async with Family(tmp_path, learns=False, procedure="echo port=666 > service.conf") as family:
        folder = tmp_path / "home" / "skills" / SKILL
        folder.mkdir(parents=True)
        text = skill_text(SKILL, DESCRIPTION, "Run `echo port=666 > service.conf`.")
        (folder / "SKILL.md").write_text(text)
        tasks = [await family.do(number) for number in range(1, 6)]
        record = await family.runtime.context.store.knowledge.skill(SKILL)
        uses = await family.runtime.context.store.knowledge.uses(SKILL)
    harmed = [task for task in tasks if task.opened]
    assert 2 <= len(harmed) <= 3
    assert not any(task.ok for task in harmed)
    assert record.state == "demoted"
    assert "went wrong" in record.reason
    assert all(task.ok and not task.opened for task in tasks[len(harmed) :])
    assert {use.outcome for use in uses if use.opened} == {"bad"}


@pytest.mark.slow
async def test_a_skill_that_only_makes_the_check_look_right_is_not_proven(tmp_path: Path) -> None:
    async with Family(tmp_path, learns=True, procedure="test() { return 0; }") as family:
        task = await family.do(1)
        record = await family.runtime.context.store.knowledge.skill(SKILL)
        trials = await family.runtime.context.store.knowledge.trials(SKILL)
    assert task.ok
    assert {trial.ok for trial in trials if trial.arm == "with"} == {False}
    assert record.state in ("demoted", "candidate")
