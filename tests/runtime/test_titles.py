"""Titles: given by a model where one is named for it, and paid for like anything else."""

import asyncio
import threading
from pathlib import Path

import pytest

from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.messages import Reply, Request
from hermes_agent.core.settings.root import BudgetSettings, ModelSettings, Price, UseSettings
from hermes_agent.core.settings.services import ServiceSettings
from hermes_agent.runtime.model_selection import title_of
from tests.support.openai_server import OpenAIServer
from tests.support.runtime_fixture import RuntimeFixture, open_runtime, script, until

PRICE = {"input": 10.0, "output": 10.0}


async def after(h: RuntimeFixture) -> None:
    """Wait for what comes after turns."""

    async def no_more() -> bool:
        return not h.runtime._turns._follow_ups

    await until(no_more)


async def test_a_session_gets_a_title_once_and_it_is_paid_for(tmp_path: Path) -> None:
    main = script(tmp_path, "main", {"say": "It rains"}, price=PRICE)
    title = script(tmp_path, "title", {"say": '"Weather in Rome."\nor so'}, price=PRICE)
    async with open_runtime(tmp_path, uses=UseSettings(titles=(title,))) as h:
        session = await h.open(main)
        await h.say(session, "how is the weather in Rome?\nplease")
        await after(h)
        (listed,) = await h.runtime.context.store.sessions()
        assert listed.title == "Weather in Rome"
        uses = {cost.name: cost for cost in await h.runtime.context.store.costs("use")}
        assert uses["titles"].cost > 0
        assert listed.cost == pytest.approx(uses["titles"].cost + uses["main"].cost)
        await h.say(session, "and tomorrow?")
        await after(h)
        events = await h.journal(session)
    assert [type(one) for one in events].count(ev.SessionTitled) == 1


async def test_without_a_model_for_titles_the_first_line_is_the_title(tmp_path: Path) -> None:
    main = script(tmp_path, "main", {"say": "It rains"}, price=PRICE)
    async with open_runtime(tmp_path) as h:
        session = await h.open(main)
        events = await h.say(session, "how is the weather?\nplease")
        await after(h)
        assert (await h.now(session)).title == "how is the weather?"
        assert [cost.name for cost in await h.runtime.context.store.costs("use")] == ["main"]
    assert not any(isinstance(one, ev.CostCharged | ev.SessionTitled) for one in events)


@pytest.mark.parametrize("why", ["fails", "nothing said", "no budget", "gone"])
async def test_when_no_title_can_be_had_the_first_line_stays(tmp_path: Path, why: str) -> None:
    main = script(tmp_path, "main", {"say": "It rains"}, price={"input": 0.0, "output": 0.0})
    replies = {"fails": [], "nothing said": [{"say": " ** "}]}.get(why, [{"say": "Title"}])
    title = script(tmp_path, "title", *replies, price=PRICE)
    if why == "gone":
        (tmp_path / "title.json").unlink()
    budgets = BudgetSettings(day_dollars=0.001 if why == "no budget" else 9.0)
    async with open_runtime(tmp_path, uses=UseSettings(titles=(title,)), budgets=budgets) as h:
        session = await h.open(main)
        await h.say(session, "how is the weather?")
        await after(h)
        assert (await h.now(session)).title == "how is the weather?"
        paid = [
            cost.calls
            for cost in await h.runtime.context.store.costs("use")
            if cost.name == "titles"
        ]
        assert paid == ([1] if why == "nothing said" else [])
        events = await h.say(session, "go on")
    assert isinstance(events[-1], ev.TurnFinished)
    assert events[-1].reason == "done"


async def test_a_title_that_comes_during_the_next_turn_is_in_its_journal(tmp_path: Path) -> None:
    """The turn at work and one that is taken up again from the journal agree on what was spent."""
    wait = {
        "tool": "terminal",
        "with": {"command": "touch begun; until [ -e go ]; do sleep 0.02; done"},
    }
    main = script(tmp_path, "main", {"calls": [wait]}, {"say": "done"}, price=PRICE)
    title = script(tmp_path, "title", {"say": "Title", "wait": 0.3}, price=PRICE)
    async with open_runtime(tmp_path, uses=UseSettings(titles=(title,))) as h:
        session = await h.open(main)
        (h.work / "go").touch()
        await h.say(session, "first")
        (h.work / "go").unlink()
        (h.work / "begun").unlink()
        await h.send(session, "second")
        while not (h.work / "begun").exists():
            await asyncio.sleep(0.01)
        await after(h)
        assert (await h.now(session)).title == "Title"
        assert (await h.now(session)).state == "running"
        live = h.runtime._turns._workers[session.id].conversation
        assert live.session_usage.dollars == pytest.approx((await h.now(session)).cost)
        (h.work / "go").touch()
        await h.idle(session)
        recorded = await h.runtime.context.store.events(session.id)
        prompt = await h.runtime.context.store.prompt(session.prompt)
    folded = ConversationState(session.id, prompt).apply_all(recorded)
    folded.turn.seconds = live.turn.seconds  # by two clocks
    assert (folded.session_usage, folded.turn) == (live.session_usage, live.turn)
    end = recorded[-1].event
    assert isinstance(end, ev.TurnFinished)
    latest = [one.event for one in recorded if one.number > folded.turn_began]
    own = sum(event.cost or 0.0 for event in latest if isinstance(event, ev.Replied))
    assert end.cost == pytest.approx(own), "the title belongs to the session, not to this turn"


async def test_a_session_deleted_meanwhile_makes_its_title_no_cheaper(tmp_path: Path) -> None:
    main = script(tmp_path, "main", {"say": "It rains"}, price=PRICE)
    asked, go = threading.Event(), threading.Event()

    def title(_request: Request) -> Reply:
        asked.set()
        go.wait()
        return Reply("Title")

    async with OpenAIServer([title], in_order=True) as server:
        models = ModelSettings(
            uses=UseSettings(titles=("near/m",)),
            services={"near": ServiceSettings(url=server.url, needs_key=False)},
            prices={"near/m": Price(1.0, 1.0)},
        )
        async with open_runtime(tmp_path, models=models) as h:
            session = await h.open(main)
            await h.say(session, "how is the weather?")
            await asyncio.to_thread(asked.wait)
            await h.runtime.sessions.delete_session(session)
            go.set()
            await after(h)
            uses = {cost.name: cost.calls for cost in await h.runtime.context.store.costs("use")}
    assert uses == {"main": 1, "titles": 1}


async def test_a_session_deleted_as_its_turn_ends_gets_no_title_and_breaks_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    main = script(tmp_path, "main", {"say": "It rains"}, price=PRICE)
    title = script(tmp_path, "title", {"say": "Title"}, price=PRICE)
    caplog.set_level("INFO", "hermes.scheduler")
    async with open_runtime(tmp_path) as h:
        session = await h.open(main)
        await h.say(session, "how is the weather?")
        recorded = await h.runtime.context.store.events(session.id)
        talk = ConversationState(session.id, await h.runtime.context.store.prompt(session.prompt))
        talk.apply_all(recorded)
        await after(h)
        await h.runtime.sessions.delete_session(session)
    async with open_runtime(tmp_path, uses=UseSettings(titles=(title,))) as h:
        await h.runtime._turns._follow_up(session, talk)
        uses = {cost.name: cost.calls for cost in await h.runtime.context.store.costs("use")}
    assert uses == {"main": 1}
    assert "was deleted as its turn ended" in caplog.text


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Weather in Rome", "Weather in Rome"),
        ("  “Weather in Rome.”  \n\nmore", "Weather in Rome"),
        ("**Weather**", "Weather"),
        ("# Weather", "Weather"),
        ("", ""),
        (' "" ', ""),
    ],
)
def test_a_title_is_one_plain_line(said: str, title: str) -> None:
    assert title_of(said) == title
