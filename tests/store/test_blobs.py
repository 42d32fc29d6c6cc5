"""Large texts lie in files; nobody who reads them notices."""

from pathlib import Path

import apsw
import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError
from hermes_agent.core.records import SessionMessage
from tests.store.helpers import a_session, a_turn, opened, told

LARGE = "large 資料 " * 10_000


def files(home: Path) -> list[Path]:
    return sorted(path for path in home.glob("blobs/*/*") if path.is_file())


async def test_large_texts_of_every_kind_go_to_files_and_come_back(tmp_path: Path) -> None:
    large = [
        ev.Replied(1, LARGE),
        ev.CallIntended("e", "c", "t", 1, {"content": LARGE}),
        ev.CallFinished("e", "c", "t", LARGE),
    ]
    async with opened(tmp_path) as store:
        session = await a_session(store)
        await store.receive(session.id, SessionMessage("k", LARGE))
        assert len(files(tmp_path)) == 1
        turn = await store.start_turn(session.id)
        assert turn is not None
        await store.append(turn, *large)
        assert told(await store.events(session.id, 2)) == [ev.MessageTaken("k", LARGE), *large]
        assert len(files(tmp_path)) == 5
        assert (await store.search("資料"))[0].snippet.count("«資料»") > 1
        assert await store.check() == []


async def test_a_file_lives_as_long_as_somebody_uses_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        sessions = [await a_session(store) for _ in range(2)]
        for session in sessions:
            turn = await a_turn(store, session)
            await store.append(turn, ev.NoticeIssued(LARGE))
        assert len(files(tmp_path)) == 1
        await store.delete_session(sessions[0].id)
        assert told(await store.events(sessions[1].id, 3)) == [ev.NoticeIssued(LARGE)]
        await store.delete_session(sessions[1].id)
        assert files(tmp_path) == []


async def test_files_left_by_a_crash_after_a_deletion_are_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        await store.append(await a_turn(store, session), ev.NoticeIssued(LARGE))
    (file,) = files(tmp_path)
    db = apsw.Connection(str(tmp_path / "state.db"))
    db.execute("delete from blobs")
    db.execute("delete from events where number = 4; update sessions set last = 3")
    db.execute("insert into unused_blobs values (?)", (file.name,))
    db.close()
    async with opened(tmp_path) as store:
        assert files(tmp_path) == []
        assert await store.check() == []


@pytest.mark.parametrize("harm", ["missing", "damaged"])
async def test_a_lost_file_is_named_and_the_rest_goes_on(tmp_path: Path, harm: str) -> None:
    async with opened(tmp_path) as store:
        session, other = await a_session(store), await a_session(store)
        await store.append(await a_turn(store, session), ev.NoticeIssued(LARGE))
        (file,) = files(tmp_path)
        if harm == "missing":
            file.unlink()
        else:
            file.write_text("something else")
        assert (await store.check())[0] == f"the stored text {file.name} is {harm}"
        with pytest.raises(HermesError, match=f"{file.name} is {harm}") as caught:
            await store.events(session.id)
        assert "hermes restore" in caught.value.hint
        await store.append(await a_turn(store, other), ev.NoticeIssued("fine"))
        assert store.health.state == "well"
