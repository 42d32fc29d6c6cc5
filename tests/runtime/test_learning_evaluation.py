"""Trials of a skill, through a whole runtime: in a sandbox, apart from everything, and paid for."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.knowledge import EvaluationCase, Trial
from hermes_agent.core.settings.root import BudgetSettings, LearningSettings
from hermes_agent.core.settings.terminals import LocalPlace, SandboxPlace
from hermes_agent.learning.structured_output import NoBudget
from tests.support.learning_fixture import (
    Clock,
    LearningFixture,
    looker,
    open_learning,
    reviewing,
    skill_text,
)
from tests.support.subagents import answers, call, say, shell

pytestmark = pytest.mark.sample_file(6)

PRICE = {"input": 1.0, "output": 1.0}
FILES = {"SKILL.md": skill_text("make-it", "Makes it. Use when it is to be made.").encode()}
OPEN = {"calls": [call("skill", name="make-it")]}


def case(
    setup: str = "true", check: str = "test -e made", task: str = "make it now"
) -> EvaluationCase:
    return EvaluationCase("c1", "make-it", task, setup, check, held=True)


def worker(folder: Path, *commands: str, **facts: Any) -> str:
    """A model that runs these in a trial, and opens the skill first where it has one."""
    steps = [shell(command) for command in commands]
    turns = {"make-it": [OPEN, *steps, say("done")], "now": [*steps, say("done")]}
    return answers(folder, "worker", **turns, facts=facts)


async def play(
    h: LearningFixture, one: EvaluationCase, files: Mapping[str, bytes] | None = None
) -> Trial | None:
    return await h.runtime.learning.trials.play(one, files, 0, "digest")


async def left_over(h: LearningFixture) -> list[str]:
    """What trials left behind."""
    home = h.runtime.context.home.path
    folders = [*(home / "proofs").glob("*"), *home.glob("terminals/*"), *home.glob("results/*")]
    listed = [session.id for session in await h.runtime.context.store.sessions(1_000)]
    return [*listed, *map(str, folders), *h.runtime.learning.trials.under_test]


async def test_a_case_is_played_with_the_skill_and_without_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    model = worker(tmp_path, "cat given; touch made", price=PRICE)
    async with open_learning(tmp_path, model=model) as h:
        with_, without = (
            await play(h, case("echo x > given"), FILES),
            await play(h, case("echo x > given")),
        )
        assert await left_over(h) == []
        await h.runtime.learning.knowledge.skills.sync()
        names = [record.name for record in await h.runtime.context.store.knowledge.skills()]
        assert "make-it" not in names, "a trial keeps no skill"
        assert await h.runtime.context.store.knowledge.uses() == []
        assert await h.tasks() == {}
    assert with_ is not None
    assert without is not None
    assert (with_.arm, with_.ok, with_.opened, with_.steps) == ("with", True, True, 3)
    assert (without.arm, without.ok, without.opened, without.steps) == ("without", True, False, 2)
    assert with_.tokens > without.tokens > 0
    assert with_.dollars == pytest.approx(with_.tokens / 1_000_000)


@pytest.mark.parametrize(
    ("setup", "check"),
    [
        ("exit 3", "test -e made"),
        ("touch made", "test -e made"),
        ("rm -rf /", "test -e made"),
        ("true", "rm -rf / ; test -e made"),
    ],
)
async def test_a_case_that_is_no_good_is_dropped_before_a_model_is_asked(
    tmp_path: Path, setup: str, check: str
) -> None:
    """It cannot be set up, there is nothing to do in it, or the gate refuses its scripts."""
    async with open_learning(tmp_path, model=worker(tmp_path, "touch made")) as h:
        assert await play(h, case(setup, check)) is None
        assert await h.runtime.learning.knowledge.budget.tokens() == 0
        assert await left_over(h) == []


async def test_a_trial_in_which_the_task_is_not_done_has_failed(tmp_path: Path) -> None:
    async with open_learning(tmp_path, model=worker(tmp_path, "touch other")) as h:
        trial = await play(h, case())
        assert trial is not None
        assert not trial.ok


async def test_a_trial_reaches_neither_the_network_nor_the_files_of_the_user(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        probe = (
            f"(exec 3<>/dev/tcp/127.0.0.1/{port}) && touch reached; "
            f"cat {tmp_path}/secret && touch read; echo x > {tmp_path}/written; "
            f"ls {tmp_path}/home/state.db && touch saw; touch made"
        )
        (tmp_path / "secret").write_text("mine")
        async with open_learning(tmp_path, model=worker(tmp_path, probe)) as h:
            trial = await play(h, case(check="test -e made && test $(ls | wc -l) = 1"))
            inside = await play(
                h, case(setup=f"{{ {probe}; }} ; test $(ls | wc -l) = 1 && rm made")
            )
    assert trial is not None
    assert trial.ok, "something but `made` was there"
    assert inside is not None
    assert not (tmp_path / "written").exists()


async def test_a_trial_has_no_tools_that_reach_out_and_opens_no_other_skill(
    tmp_path: Path,
) -> None:
    other = {"calls": [call("skill", name="disk-full")]}
    asked = [{"calls": [call("web_fetch", url="http://example.com")]}, other,
             {"calls": [call("memory", action="add", text="planted")]},
             {"calls": [call("delegate", tasks=[{"task": "do it"}])]}]  # fmt: skip
    model = answers(tmp_path, "worker", now=[*asked, shell("touch made"), say("done")])
    async with open_learning(tmp_path, model=model) as h:
        trial = await play(h, case(), FILES)
        assert trial is not None
        assert (trial.ok, trial.opened) == (True, False)
        assert await h.runtime.context.store.knowledge.notes() == []


@pytest.mark.parametrize(
    "place", [LocalPlace(), SandboxPlace(network=True), SandboxPlace(write=("/srv",))]
)
async def test_nothing_is_tried_where_the_sandbox_of_the_settings_is_open(
    tmp_path: Path, place: Any
) -> None:
    model = worker(tmp_path, "touch made")
    async with open_learning(tmp_path, model=model, terminals={"sandbox": place}) as h:
        with pytest.raises(UsageError, match="network or write access"):
            await play(h, case())
        assert await left_over(h) == []


# what it costs


async def test_a_trial_counts_against_the_budget_of_learning(tmp_path: Path) -> None:
    model = worker(tmp_path, "touch made", price=PRICE)
    async with open_learning(
        tmp_path, model=model, learning=LearningSettings(day_tokens=100_000)
    ) as h:
        trial = await play(h, case())
        assert trial is not None
        ledger = h.runtime.learning.knowledge.budget
        assert await ledger.tokens() == trial.tokens
        assert await ledger.dollars() == pytest.approx(trial.dollars, abs=1e-5)


async def test_a_trial_that_does_not_fit_the_budget_is_put_off_and_counted_all_the_same(
    tmp_path: Path,
) -> None:
    model = worker(tmp_path, "touch made", *["echo more"] * 40)
    async with open_learning(
        tmp_path, model=model, learning=LearningSettings(day_tokens=30_000)
    ) as h:
        with pytest.raises(NoBudget):
            await play(h, case())
        used = await h.runtime.learning.knowledge.budget.tokens()
        assert 0 < used <= 30_000
        assert await left_over(h) == []
        with pytest.raises(NoBudget):
            await play(h, case())
        assert await h.runtime.learning.knowledge.budget.tokens() <= 30_000


async def test_a_model_that_cannot_be_reached_makes_no_trial(tmp_path: Path) -> None:
    model = answers(tmp_path, "worker", never=[say("x")])
    async with open_learning(tmp_path, model=model) as h:
        with pytest.raises(ModelError, match="no trial could be run"):
            await play(h, case())
        assert await left_over(h) == []


async def test_the_budgets_of_sessions_are_not_those_of_trials(tmp_path: Path) -> None:
    model = worker(tmp_path, "touch made", price=PRICE)
    budgets = BudgetSettings(turn_tokens=10, session_tokens=10)
    async with open_learning(tmp_path, model=model, budgets=budgets) as h:
        trial = await play(h, case())
        assert trial is not None
        assert trial.ok


async def test_one_proof_uses_no_more_than_its_share_of_the_day(tmp_path: Path) -> None:
    settings = LearningSettings(day_tokens=100_000, proof_share=0.1)
    async with open_learning(
        tmp_path, model=worker(tmp_path, "touch made", *["echo more"] * 40), learning=settings
    ) as h:
        for _ in range(2):
            with pytest.raises(NoBudget):
                await play(h, case())
        assert 0 < await h.runtime.learning.knowledge.budget.tokens() <= 10_000
        assert await h.runtime.learning.knowledge.budget.left("another") is not None


# the whole proof


@pytest.mark.slow
async def test_a_proof_replaces_unusable_cases_and_can_be_asked_for_again(tmp_path: Path) -> None:
    def written(*checks: str) -> dict[str, Any]:
        return {
            "cases": [
                {"task": f"make it now, {check}", "setup": "true", "check": check}
                for check in checks
            ]
        }

    bad = written(*[f"test ! -e bad{number}" for number in range(8)])
    good = written(*[f"test -e made # {number}" for number in range(8)])
    look = looker(
        tmp_path, ("unusable", good), ('"cases"', bad), (".", {"notes": [], "skills": []})
    )
    turns = {
        "make-it": [OPEN, shell("touch made"), say("done")],
        "now": [*[shell("ls")] * 5, shell("touch made"), say("done")],
    }
    model = answers(tmp_path, "worker", **turns)
    settings = reviewing(look, rounds=1, cases=6, day_tokens=9_000_000)
    async with open_learning(tmp_path, model=model, **settings) as h:
        knowledge = h.runtime.context.store.knowledge
        session = await h.open(model)
        await h.say(session, "make it now")
        turn = next(one.turn for one in await h.journal(session) if isinstance(one, ev.TurnStarted))
        keep = h.runtime.learning.tasks.reviewer.save_skill
        await keep("make-it", FILES, by="review", model="m", why="", session=session.id, turn=turn)
        await h.learned()
        assert (await knowledge.skill("make-it")).state == "proven"
        await knowledge.remove_cases([one.id for one in await knowledge.cases("make-it")])
        await h.runtime.learning.tasks.request_evaluation("make-it")
        await h.learned()
        assert len(await knowledge.cases("make-it")) >= 6


@pytest.mark.slow
async def test_a_proof_that_runs_out_of_budget_goes_on_the_next_day_where_it_was(
    tmp_path: Path,
) -> None:
    cases = [
        {"task": f"make it now, number {number}", "setup": "true", "check": "test -e made"}
        for number in range(8)
    ]
    look = looker(tmp_path, ('"cases"', {"cases": cases}), (".", {"notes": [], "skills": []}))
    turns = {
        "make-it": [OPEN, shell("touch made"), say("done")],
        "now": [*[shell("ls")] * 5, shell("touch made"), say("done")],
    }
    model = answers(tmp_path, "worker", **turns)
    clock = Clock()
    settings = reviewing(look, rounds=1, cases=6, day_tokens=40_000, proof_share=1.0)
    async with open_learning(tmp_path, clock=clock, model=model, **settings) as h:
        knowledge = h.runtime.context.store.knowledge
        session = await h.open(model)
        await h.say(session, "make it now")
        turn = next(one.turn for one in await h.journal(session) if isinstance(one, ev.TurnStarted))
        keep = h.runtime.learning.tasks.reviewer.save_skill
        await keep("make-it", FILES, by="review", model="m", why="", session=session.id, turn=turn)
        first: list[Trial] = []
        days = 0
        while (await knowledge.skill("make-it")).state != "proven" and days < 12:
            await h.learned()
            tokens = await h.runtime.learning.knowledge.budget.tokens()
            assert tokens <= 40_000
            trials = list(await knowledge.trials("make-it"))
            assert trials[: len(first)] == first, "a trial was played again"
            first = trials
            clock.now += 86_400
            days += 1
        record = await knowledge.skill("make-it")
    assert days > 1, "it was to take more than one day"
    assert record.state == "proven", record.reason
    assert len(first) == 12
