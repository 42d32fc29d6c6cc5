"""Summaries of sessions, through a whole runtime."""

from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.records import Session
from tests.support.learning_fixture import Clock, LearningFixture, looker, open_learning, reviewing
from tests.support.prompt_prefix import check_session
from tests.support.subagents import answers, say, shell

SUMMARY = "The kernel of host atlas was rolled back because of a driver."


def working(folder: Path) -> str:
    return answers(folder, "worker", look=[shell("ls"), say("seen")], hi=[say("hello")])


def looking(folder: Path) -> str:
    return looker(
        folder, ("Below is the summary", "Both, in one."), ("Summarise", SUMMARY),
        (".", {"notes": [], "skills": []}),
    )  # fmt: skip


def resting(folder: Path) -> dict[str, Any]:
    return reviewing(looking(folder), summary_idle_seconds=1_800.0)


async def summaries(h: LearningFixture, session: Session) -> list[ev.Summarised]:
    return [one for one in await h.journal(session) if isinstance(one, ev.Summarised)]


async def test_a_session_is_summarised_after_so_many_turns(tmp_path: Path) -> None:
    async with open_learning(tmp_path, **reviewing(looking(tmp_path), summary_turns=2)) as h:
        session = await h.open(working(tmp_path))
        await h.say(session, "look at this")
        await h.learned()
        assert await summaries(h, session) == []
        await h.say(session, "look at that")
        await h.learned()
        (summary,) = await summaries(h, session)
        *_, (number, _) = [
            (one.number, one.event)
            for one in await h.runtime.context.store.events(session.id)
            if isinstance(one.event, ev.TurnFinished)
        ]
        assert (summary.summary, summary.upto) == (SUMMARY, number)
        (hit,) = await h.get("/v1/recall", query="atlas driver rolled", kind="session")
        assert hit["ref"] == session.id
        shown = await h.shown(session)
        assert SUMMARY not in "\n".join(shown)
        await h.say(session, "look once more")
        assert (await h.shown(session))[: len(shown)] == shown
        prompt = await h.runtime.context.store.prompt((await h.now(session)).prompt)
        events = await h.runtime.context.store.events(session.id)
        assert check_session(session.id, prompt, events) == 6


async def test_a_session_is_summarised_when_it_has_rested_and_then_on_from_there(
    tmp_path: Path,
) -> None:
    clock = Clock()
    async with open_learning(tmp_path, clock=clock, **resting(tmp_path)) as h:
        session = await h.open(working(tmp_path))
        await h.say(session, "look at this")
        await h.say(session, "look at that")
        clock.now += 1_700
        await h.learned()
        assert await summaries(h, session) == []
        clock.now += 200
        await h.learned()
        assert [one.summary for one in await summaries(h, session)] == [SUMMARY]
        clock.now += 10_000
        await h.learned()
        assert len(await summaries(h, session)) == 1
        await h.say(session, "look again")
        clock.now += 1_900
        await h.learned()
        assert [one.summary for one in await summaries(h, session)] == [SUMMARY, "Both, in one."]


async def test_a_session_that_went_on_is_not_summarised_too_early(tmp_path: Path) -> None:
    clock = Clock()
    async with open_learning(tmp_path, clock=clock, **resting(tmp_path)) as h:
        session = await h.open(working(tmp_path))
        await h.say(session, "look at this")
        await h.say(session, "look at that")
        clock.now += 1_000
        await h.say(session, "look again")
        clock.now += 1_000
        await h.learned()
        assert await summaries(h, session) == []
        assert (await h.tasks("summary"))[f"summary {session.id} 2"][1] == "the session continued"


async def test_a_short_talk_says_itself_what_it_was_about(tmp_path: Path) -> None:
    clock = Clock()
    async with open_learning(tmp_path, clock=clock, **resting(tmp_path)) as h:
        await h.say(await h.open(working(tmp_path)), "hi there")
        clock.now += 10_000
        await h.learned()
        assert await h.tasks("summary") == {}


@pytest.mark.parametrize("named", [True, False])
async def test_a_deleted_session_takes_its_chores_along(tmp_path: Path, named: bool) -> None:
    clock = Clock()
    async with open_learning(tmp_path, clock=clock, **resting(tmp_path)) as h:
        session = await h.open(working(tmp_path), name="talk" if named else "")
        await h.say(session, "look at this")
        await h.say(session, "look at that")
        await h.runtime.sessions.delete_session(await h.now(session))
        clock.now += 10_000
        await h.learned()
        assert await h.tasks() == {}
