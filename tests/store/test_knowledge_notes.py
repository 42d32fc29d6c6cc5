"""Notes: edits come in batches, each whole or not at all, and the log forgets nothing."""

import asyncio
import random
from pathlib import Path

import pytest

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.knowledge import NoteChange, NoteEdit
from tests.store.helpers import Clock, a_session, opened


async def test_notes_are_added_edited_removed_and_brought_back(tmp_path: Path) -> None:
    clock = Clock(10.0)
    async with opened(tmp_path, clock=clock) as store:
        knowledge = store.knowledge
        first, second = await knowledge.edit_notes(
            [NoteEdit("the API is on host web1"), NoteEdit("Ann", view="user", confidence=0.5)],
            "agent",
            "session abc",
            model="openai/m",
        )
        assert (first.view, first.created, first.by, first.model) == (
            "memory", 10.0, "agent", "openai/m",
        )  # fmt: skip
        assert (second.view, second.confidence) == ("user", 0.5)
        clock.now = 20.0
        (edited,) = await knowledge.edit_notes(
            [NoteEdit("the API is on web2", first.id)], "person", "c"
        )
        assert (edited.created, edited.updated, edited.by) == (10.0, 20.0, "person")
        clock.now = 30.0
        (gone,) = await knowledge.edit_notes([NoteEdit(None, second.id)], "person", "cli")
        assert gone.removed
        assert gone.by == "agent"
        assert await knowledge.notes() == [edited]
        assert await knowledge.notes(removed=True) == [edited, gone]
        (back,) = await knowledge.edit_notes([NoteEdit("Ann", second.id)], "person", "cli")
        assert not back.removed
        assert back.view == "user"
        assert await knowledge.note_changes() == [
            NoteChange(4, 30.0, "person", "cli", 2, "user", None, "Ann"),
            NoteChange(3, 30.0, "person", "cli", 2, "user", "Ann", None),
            NoteChange(
                2, 20.0, "person", "c", 1, "memory", "the API is on host web1", "the API is on web2"
            ),
            NoteChange(1, 10.0, "agent", "session abc", 2, "user", None, "Ann"),
            NoteChange(1, 10.0, "agent", "session abc", 1, "memory", None, first.text),
        ]
        assert [change.batch for change in await knowledge.note_changes(note=1)] == [2, 1]
        assert [change.batch for change in await knowledge.note_changes(1)] == [4]


async def test_a_batch_with_one_bad_edit_changes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        (kept,) = await store.knowledge.edit_notes([NoteEdit("kept")], "person", "cli")
        for bad, trouble in [
            (NoteEdit("x", 99), NotFound),
            (NoteEdit(None, 99), NotFound),
            (NoteEdit(None), UsageError),
        ]:
            with pytest.raises(trouble):
                await store.knowledge.edit_notes(
                    [NoteEdit("new"), NoteEdit(None, kept.id), bad], "agent", "session a"
                )
        with pytest.raises(NotFound, match="already removed"):
            await store.knowledge.edit_notes([NoteEdit(None, kept.id)] * 2, "agent", "session a")
        assert await store.knowledge.notes(removed=True) == [kept]
        assert len(await store.knowledge.note_changes()) == 1


async def test_the_same_text_again_is_no_change(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        (note,) = await store.knowledge.edit_notes([NoteEdit("same")], "person", "cli")
        (again,) = await store.knowledge.edit_notes(
            [NoteEdit("same", note.id, confidence=0.25)], "agent", "session a"
        )
        assert (again.by, again.updated, again.confidence) == ("person", note.updated, 0.25)
        assert len(await store.knowledge.note_changes()) == 1


async def test_what_is_taken_back_belongs_to_its_author_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        knowledge = store.knowledge
        (note,) = await knowledge.edit_notes([NoteEdit("mine")], "person", "cli")
        await knowledge.edit_notes([NoteEdit("yours", note.id)], "agent", "session a", model="m")
        (back,) = await knowledge.edit_notes([NoteEdit("mine", note.id)], "agent", "cli", undoes=2)
        assert (back.by, back.source, back.model) == ("person", "cli", "")
        assert (await knowledge.note_changes())[0].undoes == 2


async def test_uses_of_notes_are_counted(tmp_path: Path) -> None:
    clock = Clock(5.0)
    async with opened(tmp_path, clock=clock) as store:
        await store.knowledge.edit_notes([NoteEdit("a"), NoteEdit("b")], "person", "cli")
        await store.knowledge.notes_used([1, 2])
        clock.now = 7.0
        await store.knowledge.notes_used([2, 99])
        assert [(n.used, n.last_used) for n in await store.knowledge.notes()] == [
            (1, 5.0),
            (2, 7.0),
        ]


async def test_many_writers_at_once_lose_no_note(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:

        async def write(writer: int) -> None:
            dice = random.Random(writer)
            knowledge = (store if writer % 2 else other).knowledge
            for turn in range(20):
                text = f"{writer}-{turn}"
                (note,) = await knowledge.edit_notes([NoteEdit(text)], "agent", "test")
                if dice.random() < 0.5:
                    await knowledge.edit_notes(
                        [NoteEdit(f"{text} again", note.id)], "agent", "test"
                    )

        await asyncio.gather(*(write(writer) for writer in range(8)))
        log = await store.knowledge.note_changes(1_000)
        said = {change.after for change in log}
        assert {f"{writer}-{turn}" for writer in range(8) for turn in range(20)} <= said
        assert len({change.batch for change in log}) == len(log)
        assert {note.text for note in await other.knowledge.notes()} <= said


async def test_notes_outlive_the_session_they_come_from(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        await store.knowledge.edit_notes([NoteEdit("kept")], "agent", f"session {session.id}")
        await store.delete_session(session.id)
        assert [note.text for note in await store.knowledge.notes()] == ["kept"]
