"""What waits: proposals are decided once, tasks are done once, counters count."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.events import Summarised
from hermes_agent.core.knowledge import BackgroundTask, Proposal
from tests.store.helpers import Clock, a_session, opened


async def test_a_proposal_is_decided_once(tmp_path: Path) -> None:
    async with opened(tmp_path, clock=Clock(3.0)) as store:
        knowledge = store.knowledge
        body = {"view": "user", "text": "likes tea", "confidence": 0.5}
        asked = await knowledge.propose("note", "likes tea", body, "session s, event 4", "m")
        assert asked == Proposal(1, "note", "likes tea", body, "session s, event 4", 3.0, "m")
        other = await knowledge.propose("skill", "disk-full", {}, "")
        assert await knowledge.proposals() == [asked, other]
        accepted = await knowledge.decide_proposal(1, "accepted", "ann")
        assert accepted == msgspec.structs.replace(asked, state="accepted", by="ann")
        with pytest.raises(UsageError, match="accepted by ann"):
            await knowledge.decide_proposal(1, "rejected", "bob")
        with pytest.raises(UsageError, match="open"):
            await knowledge.decide_proposal(2, "open", "bob")
        with pytest.raises(NotFound):
            await knowledge.decide_proposal(3, "accepted", "bob")
        assert await knowledge.proposals() == [other]
        assert await knowledge.proposals(state="accepted") == [accepted]
        assert await knowledge.proposals(state="") == [accepted, other]


async def test_a_chore_is_kept_once_and_closed(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        knowledge = store.knowledge
        late = BackgroundTask("proof a d1", "proof", {"skill": "a", "rounds": [1, 2]}, 20.0)
        soon = BackgroundTask("review s1 4", "review", {"session": "s1"}, 10.0)
        assert await knowledge.add_task(late)
        assert await knowledge.add_task(soon)
        assert not await knowledge.add_task(msgspec.structs.replace(soon, due=0.0))
        assert await knowledge.due_tasks(9.0) == []
        assert await knowledge.due_tasks(20.0) == [soon, late]
        await knowledge.postpone(soon.key, 30.0, "no budget left today")
        (off,) = [one for one in await knowledge.due_tasks(30.0) if one.key == soon.key]
        assert (off.due, off.tries, off.result) == (30.0, 1, "no budget left today")
        await knowledge.close_task(late.key, "done", "promoted")
        await knowledge.postpone(late.key, 0.0, "too late")
        assert await knowledge.due_tasks(100.0) == [off]
        assert not await knowledge.add_task(late)


async def test_the_chores_of_a_session_go_with_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        mine = BackgroundTask("summary", "summary", {"session": session.id}, 1.0)
        other = BackgroundTask("proof", "proof", {"skill": "a"}, 1.0)
        await store.knowledge.add_task(mine)
        await store.knowledge.add_task(other)
        await store.delete_session(session.id)
        assert await store.knowledge.due_tasks(2.0) == [other]
        await store.knowledge.postpone(mine.key, 0.0, "it was being done")
        await store.knowledge.close_task(mine.key, "done")
        assert await store.knowledge.due_tasks(2.0) == [other]


async def test_counters_lose_nothing_when_many_count(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        assert await store.knowledge.count("turns") == 0
        counts = await asyncio.gather(
            *(one.knowledge.count("turns", 2) for one in [store, other] * 25)
        )
        assert sorted(counts) == list(range(2, 101, 2))
        assert await store.knowledge.count("turns") == 100
        assert await store.knowledge.count("other", -1) == -1


async def test_a_summary_is_found_by_its_words(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        await store.note(session.id, Summarised("The broker lost its leader", 1))
        (hit,) = await store.search("broker")
        assert (hit.session, hit.role) == (session.id, "summary")
        assert (await store.session(session.id)).messages == 0
