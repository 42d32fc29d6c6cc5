"""Looking back, through a whole runtime: when, what comes of it, and what it may cost."""

from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core.knowledge import BackgroundTask
from hermes_agent.core.records import Session
from hermes_agent.core.settings.root import LearningSettings, UseSettings
from tests.support.learning_fixture import (
    Clock,
    LearningFixture,
    looker,
    open_learning,
    reviewing,
    skill_text,
)
from tests.support.subagents import answers, say, shell

NOTE = {
    "view": "memory",
    "text": "the web server is restarted with rc-service",
    "evidence": [1],
    "confidence": 0.9,
}
SKILL = {
    "action": "create",
    "name": "restart-web",
    "why": "it took many tries",
    "evidence": [1],
    "files": {"SKILL.md": skill_text("restart-web", "Restarts the web server. Use when it hangs.")},
}
DAY = 86_400.0


def working(folder: Path) -> str:
    """A model that works much when it is told to."""
    many = [shell(f"echo {number}") for number in range(8)]
    return answers(
        folder, "worker", work=[*many, say("done")], look=[shell("ls"), say("it is there")],
        wrong=[shell("ls"), say("sorry, it is mended")],
    )  # fmt: skip


def looking(folder: Path, *skills: dict[str, Any], notes: tuple[Any, ...] = (NOTE,)) -> str:
    ideas = {"notes": list(notes), "skills": list(skills)}
    return looker(folder, ('"cases"', {"cases": []}), ("Summarise", "It hung."), (".", ideas))


async def worked(
    h: LearningFixture,
    folder: Path,
    text: str = "work hard on the web server: it is restarted with rc-service",
) -> Session:
    session = await h.open(working(folder))
    await h.say(session, text)
    await h.learned()
    return session


async def notes(h: LearningFixture) -> list[str]:
    return [note.text for note in await h.runtime.context.store.knowledge.notes()]


async def waiting(h: LearningFixture) -> BackgroundTask:
    """The one review that is to be done within a day."""
    due = await h.runtime.context.store.knowledge.due_tasks(h.runtime.context.clock() + DAY)
    (found,) = [task for task in due if task.kind == "review"]
    return found


# when


async def test_a_turn_with_many_calls_is_looked_back_on(tmp_path: Path) -> None:
    async with open_learning(tmp_path, **reviewing(looking(tmp_path))) as h:
        session = await worked(h, tmp_path)
        (note,) = await h.runtime.context.store.knowledge.notes()
        assert (note.text, note.by) == (NOTE["text"], "review")
        assert note.source.startswith(f"session {session.id}")
        tasks = await h.tasks("review")
    assert list(tasks) == [f"review {session.id} 1"]
    assert tasks[f"review {session.id} 1"] == ("done", f"kept noted: {NOTE['text']}")


async def test_a_turn_that_the_user_corrects_is_looked_back_on(tmp_path: Path) -> None:
    async with open_learning(tmp_path, **reviewing(looking(tmp_path))) as h:
        session = await worked(h, tmp_path, "look at the web server")
        assert await h.tasks("review") == {}
        await h.say(session, "No, that is wrong: it is restarted with rc-service")
        await h.learned()
        assert list(await h.tasks("review")) == [f"review {session.id} 2"]
        assert await notes(h) == [NOTE["text"]]


async def test_every_so_many_turns_all_are_looked_back_on(tmp_path: Path) -> None:
    async with open_learning(tmp_path, **reviewing(looking(tmp_path), every=2)) as h:
        await worked(h, tmp_path, "look at this")
        assert await h.tasks("review") == {}
        await worked(h, tmp_path, "look at that")
        tasks = await h.tasks("review")
    assert [(key, state) for key, (state, _) in tasks.items()] == [("review over all 2", "done")]


async def test_a_script_does_not_look_back_unless_it_is_named_for_it(tmp_path: Path) -> None:
    async with open_learning(tmp_path, model=working(tmp_path)) as h:
        await worked(h, tmp_path)
        assert await h.tasks() == {}


async def test_children_are_not_looked_back_on(tmp_path: Path) -> None:
    task = {"calls": [{"tool": "delegate", "with": {"tasks": [{"task": "work for me"}]}}]}
    many = [shell(f"echo {number}") for number in range(8)]
    model = answers(tmp_path, "parent", plan=[task, say("done")], work=[*many, say("done")])
    async with open_learning(tmp_path, **reviewing(looking(tmp_path))) as h:
        await h.say(await h.open(model), "plan")
        await h.learned()
        assert await h.tasks("review") == {}


# what comes of it


async def test_what_is_to_be_asked_about_waits_for_a_persons_word(tmp_path: Path) -> None:
    settings = reviewing(looking(tmp_path, SKILL), notes="ask", skills="ask")
    async with open_learning(tmp_path, **settings) as h:
        await worked(h, tmp_path)
        assert await notes(h) == []
        first, second = await h.get("/v1/proposals")
        assert (first["kind"], second["kind"]) == ("note", "skill")
        assert (await h.get("/v1/status"))["learning"]["proposals"] == 2
        done = await h.post(f"/v1/proposals/{first['id']}", {"decision": "accept"})
        assert done["state"] == "accepted"
        await h.post(f"/v1/proposals/{second['id']}", {"decision": "reject"})
        assert await notes(h) == [NOTE["text"]]
        assert await h.get("/v1/proposals") == []
        assert (await h.refused(f"/v1/proposals/{first['id']}", {"decision": "accept"}))[0] == 404
        assert (await h.refused("/v1/proposals/1", {"decision": "perhaps"}))[0] == 400
        rejected = await h.get("/v1/proposals", state="rejected")
        assert [one["title"] for one in rejected] == ["create the skill restart-web"]
        names = [record.name for record in await h.runtime.context.store.knowledge.skills()]
        assert "restart-web" not in names
        await worked(h, tmp_path)
        assert await h.get("/v1/proposals") == [], "what was rejected is not proposed again"


# what it may cost, and what goes wrong


async def test_when_the_budget_is_used_up_it_is_put_off_until_tomorrow(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    settings = reviewing(looking(tmp_path), day_tokens=20_000)
    async with open_learning(tmp_path, clock=clock, **settings) as h:
        await h.runtime.learning.knowledge.budget.add(19_000, None)
        session = await worked(h, tmp_path)
        assert await notes(h) == []
        assert "continues tomorrow: tokens of learning today" in caplog.text
        task = await waiting(h)
        assert (task.key, task.due) == (f"review {session.id} 1", clock.now // DAY * DAY + DAY)
        clock.now += 6 * 3600
        await h.learned()
        assert await notes(h) == []
        clock.now += 8 * 3600
        await h.learned()
        assert await notes(h) == [NOTE["text"]]
        assert 0 < (await h.get("/v1/status"))["learning"]["tokens_today"] < 20_000


async def test_dollars_of_learning_are_bounded_too(tmp_path: Path) -> None:
    price = {"input": 1_000.0, "output": 1_000.0}
    ideas = {"notes": [NOTE], "skills": []}
    look = looker(tmp_path, (".", ideas), price=price)
    async with open_learning(tmp_path, **reviewing(look, day_dollars=0.5)) as h:
        await worked(h, tmp_path)
        assert await notes(h) == []
        assert (await h.get("/v1/status"))["learning"]["dollars_today"] == 0.0


async def test_what_a_review_used_is_counted_and_shown_by_its_use(tmp_path: Path) -> None:
    async with open_learning(tmp_path, **reviewing(looking(tmp_path))) as h:
        await worked(h, tmp_path)
        used = (await h.get("/v1/status"))["learning"]["tokens_today"]
        costs = (await h.get("/v1/costs", by="use"))["costs"]
        (cost,) = [one for one in costs if one["name"] == "review"]
        assert used == cost["usage"]["input"] + cost["usage"]["output"] > 0


async def test_a_model_that_fails_is_asked_again_later_and_given_up_after_three_tries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    broken = looker(tmp_path, ("^zzz$", "x"))
    async with open_learning(tmp_path, clock=clock, **reviewing(broken)) as h:
        session = await worked(h, tmp_path)
        key = f"review {session.id} 1"
        for minutes in (10, 20):
            task = await waiting(h)
            assert (task.key, task.due) == (key, clock.now + minutes * 60)
            clock.now += minutes * 60
            await h.learned()
        state, why = (await h.tasks("review"))[key]
    assert state == "given-up"
    assert "used up" in why
    assert f"{key} is given up" in caplog.text


async def test_days_without_a_budget_are_no_failures(tmp_path: Path) -> None:
    clock = Clock()
    settings = reviewing(looking(tmp_path), day_tokens=20_000)
    async with open_learning(tmp_path, clock=clock, **settings) as h:
        await h.runtime.learning.knowledge.budget.add(20_000, None)
        await worked(h, tmp_path)
        for _ in range(3):
            clock.now += DAY
            await h.runtime.learning.knowledge.budget.add(20_000, None)
            await h.learned()
        assert (await waiting(h)).tries == 0


async def test_a_chore_that_breaks_does_not_keep_the_others_from_being_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_learning(tmp_path, **reviewing(looking(tmp_path))) as h:
        await h.runtime.context.store.knowledge.add_task(
            BackgroundTask("review odd", "review", {}, 0.0)
        )
        await worked(h, tmp_path)
        assert await notes(h) == [NOTE["text"]]
        assert "review odd crashed" in caplog.text


async def test_the_cheap_model_looks_back_where_none_is_named(tmp_path: Path) -> None:
    uses = UseSettings(cheap=(looking(tmp_path),))
    async with open_learning(tmp_path, uses=uses, learning=LearningSettings(every=1_000)) as h:
        await worked(h, tmp_path)
        assert await notes(h) == [NOTE["text"]]
