"""A store that cannot keep anything says so, keeps what it had, and never starts afresh."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from hermes_agent.core.errors import Degraded
from hermes_agent.core.events import NoticeIssued, Replied
from hermes_agent.core.messages import Prompt
from hermes_agent.core.records import NewSession, SessionMessage
from hermes_agent.store.engine.connection import CHECKSUM_BYTES
from hermes_agent.store.engine.migrations import migrate
from tests.store.helpers import a_session, a_turn, opened

NEW = NewSession("/work", "careful", "m")


async def fill(home: Path, steps: int = 5) -> str:
    async with opened(home) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        for step in range(steps):
            await store.append(
                turn, Replied(step, f"step {step} " + random.Random(step).randbytes(300).hex())
            )
        return session.id


def everything(home: Path) -> dict[str, bytes]:
    """All files, except the two that SQLite puts beside a database while it looks at it."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def remove(home: Path) -> None:
    (home / "state.db").unlink()


def empty(home: Path) -> None:
    (home / "state.db").write_bytes(b"")


def overwrite_header(home: Path) -> None:
    with (home / "state.db").open("r+b") as file:
        file.write(b"\xff" * 200)


def overwrite_schema(home: Path) -> None:
    with (home / "state.db").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)


def replace_by_text(home: Path) -> None:
    (home / "state.db").write_text("this is not a database\n" * 1000)


def replace_by_another_database(home: Path) -> None:
    remove(home)
    db = apsw.Connection(str(home / "state.db"))
    db.execute("create table recipes (name)")
    db.close()


HARMS = [
    (remove, "is missing"),
    (empty, "is empty"),
    (overwrite_header, "is not a database"),
    (overwrite_schema, "damaged"),
    (replace_by_text, "is not a database"),
    (replace_by_another_database, "not a database of Hermes"),
]


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(("harm", "reason"), HARMS)
async def test_a_damaged_database_is_reported_and_left_as_it_is(
    tmp_path: Path, harm: Callable[[Path], None], reason: str, readonly: bool
) -> None:
    await fill(tmp_path)
    harm(tmp_path)
    before = everything(tmp_path)
    async with opened(tmp_path, readonly=readonly) as store:
        assert store.health.state == "degraded"
        assert reason in store.health.reason
        assert "hermes restore" in store.health.hint
        with pytest.raises(Degraded):
            await store.open_session(NEW, Prompt("x"))
        with pytest.raises(Degraded):
            await store.sessions()
        assert (await store.probe()).state == "degraded"
        assert reason in store.health.reason
        assert len(await store.check()) == 1
    assert everything(tmp_path) == before


async def test_another_stores_database_is_not_taken_for_ours(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    await fill(ours)
    await fill(theirs)
    shutil.copy(theirs / "state.db", ours / "state.db")
    async with opened(ours) as store:
        assert "belongs to another store" in store.health.reason
        with pytest.raises(Degraded):
            await store.open_session(NEW, Prompt("x"))


async def test_a_store_whose_marker_was_lost_gets_it_back(tmp_path: Path) -> None:
    session = await fill(tmp_path)
    marker = (tmp_path / "store.id").read_text()
    (tmp_path / "store.id").unlink()
    async with opened(tmp_path) as store:
        assert store.health.state == "well"
        assert len(await store.events(session)) == 8
    assert (tmp_path / "store.id").read_text() == marker


@pytest.mark.parametrize("stage", ["empty", "without tables", "without id", "without marker"])
async def test_a_first_start_that_was_cut_short_is_begun_again(tmp_path: Path, stage: str) -> None:
    if stage == "empty":
        (tmp_path / "state.db").write_bytes(b"")
    else:
        db = apsw.Connection(str(tmp_path / "state.db"))
        db.reserve_bytes("main", CHECKSUM_BYTES)
        db.pragma("journal_mode", "wal")
        if stage != "without tables":
            migrate(db, 1.0)
        if stage == "without marker":
            db.execute("insert into meta values ('id', 'mine')")
        db.close()
    async with opened(tmp_path) as store:
        assert store.health.state == "well"
        await a_session(store)


async def test_damage_in_the_middle_is_noticed_and_writing_stops(tmp_path: Path) -> None:
    session = await fill(tmp_path, 800)
    path = tmp_path / "state.db"
    with path.open("r+b") as file:
        for page in range(3, path.stat().st_size // 4096, 2):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    async with opened(tmp_path) as store:
        with pytest.raises(Degraded, match="damaged"):
            await store.events(session)
        assert store.health.state == "degraded"
        assert "hermes restore" in store.health.hint
        with pytest.raises(Degraded):
            await store.open_session(NEW, Prompt("x"))
        assert (await store.probe()).state == "degraded"
        assert await store.check() != []


async def test_damage_met_while_writing_stops_writing_for_good(tmp_path: Path) -> None:
    session = await fill(tmp_path, 800)
    path = tmp_path / "state.db"
    with path.open("r+b") as file:
        for page in range(2, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    async with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(Degraded):
                await store.receive(session, SessionMessage("k", "hello"))
        assert "damaged" in store.health.reason


async def test_a_database_removed_while_it_is_open_is_noticed(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        remove(tmp_path)
        with pytest.raises(Degraded, match="moved or replaced"):
            await store.receive(session.id, SessionMessage("k", "hello"))
        assert store.health.state == "degraded"
    assert not (tmp_path / "state.db").exists()


async def test_a_store_opened_for_reading_reads_beside_the_one_that_writes(tmp_path: Path) -> None:
    async with opened(tmp_path) as writing, opened(tmp_path, readonly=True) as reading:
        session = await a_session(writing)
        turn = await a_turn(writing, session)
        await writing.append(turn, NoticeIssued("seen"))
        assert await reading.events(session.id) == await writing.events(session.id)
        with pytest.raises(Degraded, match="read-only"):
            await reading.receive(session.id, SessionMessage("k", "hello"))
        assert (await reading.probe()).state == "degraded"
        assert writing.health.state == "well"


async def test_reading_an_empty_folder_makes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "home", readonly=True) as store:
        with pytest.raises(Degraded, match="no database"):
            await store.sessions()
    assert not (tmp_path / "home").exists()
