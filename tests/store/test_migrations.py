"""Old databases are brought up to date; newer ones are left alone."""

from pathlib import Path

import apsw
import pytest

from hermes_agent.core.errors import HermesError
from hermes_agent.core.events import MessageTaken, Replied
from hermes_agent.store.engine.connection import CHECKSUM_BYTES
from hermes_agent.store.engine.migrations import MIGRATIONS, applied, migrate
from tests.store.helpers import a_session, opened, told

OLD = Path(__file__).parent / "databases"
DUMPS = sorted(path.stem for path in OLD.glob("*.sql"))


def make(home: Path, name: str) -> None:
    """A database as an old version left it, from its dump; later dumps say what came on top."""
    db = apsw.Connection(str(home / "state.db"))
    if not name.startswith("unreleased/"):
        db.reserve_bytes("main", CHECKSUM_BYTES)
    db.execute("pragma journal_mode = wal")
    for dump in DUMPS[: DUMPS.index(name) + 1] if name in DUMPS else [name]:
        db.execute((OLD / f"{dump}.sql").read_text())
    db.close()


@pytest.mark.parametrize("name", DUMPS)
async def test_an_old_database_is_read_and_written_after_its_migrations(
    tmp_path: Path, name: str
) -> None:
    make(tmp_path, name)
    async with opened(tmp_path) as store:
        assert store.health.state == "well"
        session = await store.session("old")
        assert told(await store.events(session.id, 2)) == [
            MessageTaken("k1", "how warm is the sea"),
            Replied(1, "it is 17 degrees"),
        ]
        (turn,) = await store.claim_unfinished()
        await store.append(turn, Replied(2, "and rising"))
        assert len(await store.search("sea")) == 1
        assert len(await store.search("rising")) == 1
        assert await store.check() == []
    db = apsw.Connection(str(tmp_path / "state.db"))
    assert applied(db) == [migration.__name__ for migration in MIGRATIONS]
    db.close()
    assert (tmp_path / "store.id").read_text().strip() == "oldstore"


async def test_a_home_of_an_unreleased_version_is_refused_with_a_way_out(tmp_path: Path) -> None:
    make(tmp_path, "unreleased/m009_gateway_attempts")
    before = (tmp_path / "state.db").read_bytes()
    with pytest.raises(HermesError, match="unreleased version") as caught:
        async with opened(tmp_path):
            pass
    assert "hermes sessions export" in caught.value.hint
    assert (tmp_path / "state.db").read_bytes() == before


async def test_a_home_of_the_last_unreleased_version_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await a_session(store)
    db = apsw.Connection(str(tmp_path / "state.db"))
    db.execute("update migrations set name = 'm001_tables' where place = 1")
    db.close()
    with pytest.raises(HermesError, match="unreleased version"):
        async with opened(tmp_path):
            pass


def test_every_migration_has_a_dump_of_the_database_it_left() -> None:
    assert [m.__name__ for m in MIGRATIONS] == DUMPS


def test_migrations_run_once_and_in_order() -> None:
    ran: list[str] = []

    def m001_one(db: apsw.Connection) -> None:
        ran.append("one")
        db.execute("create table a (x)")

    def m002_two(db: apsw.Connection) -> None:
        ran.append("two")
        db.execute("insert into a values (1)")

    db = apsw.Connection(":memory:")
    assert migrate(db, 1.0, [m001_one]) == ["m001_one"]
    assert migrate(db, 2.0, [m001_one, m002_two]) == ["m002_two"]
    assert migrate(db, 3.0, [m001_one, m002_two]) == []
    assert ran == ["one", "two"]


def test_a_failing_migration_changes_nothing() -> None:
    def m001_broken(db: apsw.Connection) -> None:
        db.execute("create table a (x)")
        db.execute("create table a (x)")

    db = apsw.Connection(":memory:")
    with pytest.raises(apsw.SQLError):
        migrate(db, 1.0, [m001_broken])
    assert db.execute("select count(*) from sqlite_schema").get == 0
    assert not db.in_transaction


@pytest.mark.parametrize("readonly", [False, True])
async def test_a_database_of_a_newer_version_is_refused_untouched(
    tmp_path: Path, readonly: bool
) -> None:
    async with opened(tmp_path) as store:
        await a_session(store)
    db = apsw.Connection(str(tmp_path / "state.db"))
    db.execute("insert into migrations (name, time) values ('m999_future', 0)")
    db.close()
    before = (tmp_path / "state.db").read_bytes()
    with pytest.raises(HermesError, match="newer Hermes") as caught:
        async with opened(tmp_path, readonly=readonly):
            pass
    assert "update" in caught.value.hint
    assert (tmp_path / "state.db").read_bytes() == before
