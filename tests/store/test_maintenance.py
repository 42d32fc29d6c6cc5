"""Backups, checks and free space."""

import random
from pathlib import Path

import apsw
import pytest

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.events import NoticeIssued, Replied, TurnFinished
from hermes_agent.store.store import Store
from tests.store.helpers import a_session, a_turn, opened
from tests.support.fake_time import until


async def test_a_backup_is_a_whole_store_in_one_file(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    other.mkdir()
    async with opened(home) as store:
        session = await a_session(store)
        turn = await a_turn(store, session, "remember the milk")
        await store.backup(other / "state.db")
        await store.append(turn, NoticeIssued("after the backup"))
    assert [path.name for path in other.iterdir()] == ["state.db"]
    async with opened(other) as copy:
        assert await copy.check() == []
        assert await copy.last_number(session.id) == 3
        assert len(await copy.search("milk")) == 1


async def test_a_backup_never_replaces_a_file(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("do not touch")
    async with opened(tmp_path / "home") as store:
        with pytest.raises(UsageError, match="exists"):
            await store.backup(target)
        assert store.health.state == "well"
    assert target.read_text() == "do not touch"


async def test_a_backup_that_cannot_be_written_is_no_trouble_of_the_store(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as store:
        with pytest.raises(HermesError, match="could not be written") as caught:
            await store.backup(tmp_path / "no such folder" / "copy")
        assert "folder" in caught.value.hint
        assert store.health.state == "well"


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        ("delete from events where number = 2", "has gaps in its events"),
        ("delete from words where rowid = 3", "2 messages, but 1 in the search index"),
        ("insert into blobs values ('abc', 1)", "the stored text abc is missing"),
    ],
)
async def test_the_check_says_what_does_not_fit(tmp_path: Path, harm: str, complaint: str) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        await store.append(await a_turn(store, session), Replied(1, "yes"))
        assert await store.check() == []
    db = apsw.Connection(str(tmp_path / "state.db"))
    db.execute(harm)
    db.close()
    async with opened(tmp_path) as store:
        assert any(complaint in line for line in await store.check())


async def test_a_copy_that_is_put_back_is_written_as_safely_as_before(tmp_path: Path) -> None:
    """A backup is one file without a journal; once in use it must have one again."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    store = await Store.open(first)
    await store.backup(second / "state.db")
    await store.close()
    store = await Store.open(second)
    mode = apsw.Connection(str(second / "state.db")).pragma("journal_mode")
    await store.close()
    assert mode == "wal"


async def test_the_room_of_a_deleted_session_is_given_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        texts = (random.Random(n).randbytes(2_000).hex() for n in range(400))
        await store.append(turn, *(Replied(1, text) for text in texts))
        await store.append(turn, TurnFinished(turn.id, "done"))
        await until(lambda: _size(tmp_path) > 1_000_000)
        await store.delete_session(session.id)
        await until(lambda: _size(tmp_path) < 700_000)
        assert await store.check() == []


def _size(home: Path) -> int:
    return (home / "state.db").stat().st_size
