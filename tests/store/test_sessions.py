"""Sessions: opened, found, named, listed, deleted."""

from pathlib import Path

import pytest

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.events import Replied, SessionOpened, TurnFinished
from hermes_agent.core.messages import Prompt, ToolSpec, Usage
from hermes_agent.core.records import NewSession, SearchFilter, SessionMessage
from tests.store.helpers import Clock, a_session, a_turn, opened, told


async def test_a_new_session_is_there_after_reopening_with_its_first_event(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store, name="mine", key="library:x", source="python")
    async with opened(tmp_path) as store:
        assert await store.session(session.id) == session
        events = await store.events(session.id)
        assert told(events) == [
            SessionOpened("/work", "careful", "openai/m", session.prompt, "python")
        ]
        assert (session.state, session.messages, session.turns) == ("idle", 0, 0)
        assert (session.usage, session.cost) == (Usage(), None)
        assert await store.last_number(session.id) == 1


async def test_the_prompt_comes_back_as_it_was_given(tmp_path: Path) -> None:
    prompt = Prompt("Be kind.", (ToolSpec("read", "Read it", {"z": 1, "a": {"b": [2]}}),))
    async with opened(tmp_path) as store:
        new = NewSession("/work", "careful", "m")
        first, second = await store.open_session(new, prompt), await store.open_session(new, prompt)
        assert first.prompt == second.prompt
        assert await store.prompt(first.prompt) == prompt
        await store.delete_session(first.id)
        assert await store.prompt(second.prompt) == prompt
        await store.delete_session(second.id)
        with pytest.raises(NotFound):
            await store.prompt(second.prompt)


async def test_a_session_is_found_by_id_by_name_and_by_the_beginning_of_its_id(
    tmp_path: Path,
) -> None:
    ids = iter(
        [b"store", b"\x00\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00", b"\x00\x00\x00\x00\x01"]
    )
    async with opened(tmp_path, random=lambda _count: next(ids)) as store:
        first = await a_session(store, name="work")
        second = await a_session(store)
        assert (first.id, second.id) == ("aaaaaaaa", "aaaaaaab")
        assert (await store.session("aaaaaaab")).id == second.id
        assert (await store.session("work")).id == first.id
        with pytest.raises(NotFound) as several:
            await store.session("aaaa")
        assert "aaaaaaaa, aaaaaaab" in several.value.hint
        await store.delete_session(second.id)
        assert (await store.session("aaaa")).id == first.id
        for nothing in ("", "b", "aaaaaaaaa", "'; drop table sessions"):
            with pytest.raises(NotFound):
                await store.session(nothing)


async def test_sessions_are_listed_newest_first_and_by_owner(tmp_path: Path) -> None:
    clock = Clock()
    async with opened(tmp_path, clock=clock) as store:
        made = []
        for owner in ("a", "b", "a"):
            clock.now += 1
            made.append(await a_session(store, key=owner))
        assert [s.id for s in await store.sessions()] == [s.id for s in reversed(made)]
        assert [s.id for s in await store.sessions(1)] == [made[2].id]
        assert [s.id for s in await store.sessions(key="a")] == [made[2].id, made[0].id]
        clock.now += 1
        await a_turn(store, made[0])
        assert (await store.sessions())[0].id == made[0].id


async def test_a_name_belongs_to_one_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first, second = await a_session(store, name="work"), await a_session(store)
        with pytest.raises(UsageError, match="taken"):
            await store.rename_session(second.id, "work")
        with pytest.raises(UsageError, match="taken"):
            await a_session(store, name="work")
        await store.rename_session(first.id, "work")
        await store.rename_session(first.id, "")
        await store.rename_session(second.id, "work")
        assert (await store.session("work")).id == second.id
        with pytest.raises(NotFound):
            await store.rename_session("nobody", "x")


async def test_the_first_message_is_the_title_and_figures_add_up(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        turn = await a_turn(store, session, "\n  Look at the logs " + "x" * 100 + "\nplease")
        await store.append(turn, Replied(1, "on it", usage=Usage(10, 2, 4), cost=0.25))
        await store.append(turn, Replied(2, "done", usage=Usage(20, 3, 5), cost=None))
        await store.append(turn, TurnFinished(turn.id, "done"))
        now = await store.session(session.id)
        assert now.title.startswith("Look at the logs xxx")
        assert len(now.title) == 80
        assert (now.messages, now.turns) == (3, 1)
        assert (now.usage, now.cost) == (Usage(30, 5, 9), 0.25)


async def test_a_deleted_session_leaves_nothing_but_its_costs(tmp_path: Path) -> None:
    clock = Clock()
    async with opened(tmp_path, clock=clock) as store:
        gone, stays = await a_session(store), await a_session(store)
        for session in (gone, stays):
            turn = await a_turn(store, session, "the parrot is dead")
            await store.append(turn, Replied(1, "no it rests", usage=Usage(1, 1), cost=0.5))
        await store.receive(gone.id, SessionMessage("late", "still there?"))
        await store.delete_session(gone.id)
        with pytest.raises(NotFound):
            await store.events(gone.id)
        assert await store.sessions_with_queued_messages() == []
        assert [found.session for found in await store.search("parrot")] == [stays.id]
        with pytest.raises(NotFound):
            await store.search("parrot", SearchFilter(session=gone.id))
        assert await store.spent(clock.now) == 1.0
        assert await store.check() == []
        with pytest.raises(NotFound):
            await store.delete_session(gone.id)


async def test_everything_about_an_unknown_session_is_not_found(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for asking in (
            store.receive("nobody", SessionMessage("k", "hi")),
            store.start_turn("nobody"),
            store.events("nobody"),
            store.unfinished_turn("nobody"),
        ):
            with pytest.raises(NotFound, match="nobody"):
                await asking
