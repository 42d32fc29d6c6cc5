"""Full and read-only disks, on a small file system of the test's own."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.core.errors import Degraded, HermesError
from hermes_agent.core.events import CallFinished, NoticeIssued
from hermes_agent.core.records import SessionMessage, Turn
from hermes_agent.store.store import Store
from tests.store.helpers import a_session, a_turn, opened, run_child, told


def mount(*arguments: str | Path) -> None:
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"this test mounts a tmpfs and must run as root: {done.stderr}"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=3m", "tmpfs", folder)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def ballast(disk: Path, leave: int) -> Path:
    """Fill the disk up to this many bytes."""
    path = disk / "ballast"
    facts = os.statvfs(disk)
    path.write_bytes(b"x" * max(0, facts.f_bavail * facts.f_frsize - leave))
    return path


async def write_until_full(store: Store, turn: Turn, text: str) -> list[NoticeIssued]:
    kept: list[NoticeIssued] = []
    for number in range(2_000):
        event = NoticeIssued(f"{number} {text}")
        try:
            await store.append(turn, event)
        except Degraded:
            return kept
        kept.append(event)
    pytest.fail("the disk never became full")


async def test_a_full_disk_refuses_writes_loses_nothing_and_passes(disk: Path) -> None:
    home = disk / "home"
    async with opened(home) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        filler = ballast(disk, 200_000)
        kept = await write_until_full(store, turn, os.urandom(1_000).hex())
        assert store.health.state == "degraded"
        assert "full" in store.health.reason
        assert store.health.hint
        with pytest.raises(Degraded):
            await store.receive(session.id, SessionMessage("k", os.urandom(20_000).hex()))
        assert told(await store.events(session.id, 3)) == kept
        filler.unlink()
        assert (await store.probe()).state == "well"
        assert await store.receive(session.id, SessionMessage("k", "there is room again"))
        await store.append(turn, NoticeIssued("last"))
    async with opened(home) as store:
        assert told(await store.events(session.id, 3)) == [*kept, NoticeIssued("last")]
        assert await store.check() == []


async def test_what_was_kept_on_a_full_disk_is_there_after_a_restart_on_it(disk: Path) -> None:
    home = disk / "home"
    async with opened(home) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        ballast(disk, 150_000)
        kept = await write_until_full(store, turn, os.urandom(500).hex())
    async with opened(home) as store:
        assert told(await store.events(session.id, 3)) == kept


async def test_a_large_text_that_does_not_fit_leaves_nothing_and_small_ones_go_on(
    disk: Path,
) -> None:
    async with opened(disk / "home") as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        ballast(disk, 700_000)
        with pytest.raises(Degraded, match="full"):
            await store.append(turn, CallFinished("e", "c", "t", os.urandom(600_000).hex()))
        assert store.health.state == "degraded"
        assert [path for path in disk.rglob("blobs/*/*") if path.is_file()] == []
        await store.append(turn, NoticeIssued("small"))
        assert store.health.state == "well"
        assert told(await store.events(session.id, 3)) == [NoticeIssued("small")]


async def test_a_backup_to_a_full_disk_leaves_nothing_there(tmp_path: Path, disk: Path) -> None:
    async with opened(tmp_path / "home") as store:
        await a_session(store)
        ballast(disk, 20_000)
        with pytest.raises(HermesError, match="could not be written"):
            await store.backup(disk / "copy")
        assert store.health.state == "well"
    assert [path.name for path in disk.iterdir()] == ["ballast"]


async def test_a_home_that_became_read_only_is_read_and_recovers(disk: Path) -> None:
    home = disk / "home"
    async with opened(home) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        await store.append(turn, NoticeIssued("before"))
    mount("-o", "remount,bind,ro", disk)
    for readonly in (True, False):
        async with opened(home, readonly=readonly) as store:
            assert store.health.state == "degraded"
            assert told(await store.events(session.id, 3)) == [NoticeIssued("before")]
            with pytest.raises(Degraded):
                await store.append(turn, NoticeIssued("during"))
    async with opened(home) as store:
        assert (await store.probe()).state == "degraded"
        assert len(await store.sessions()) == 1
        mount("-o", "remount,bind,rw", disk)
        assert (await store.probe()).state == "well"
        await store.append(turn, NoticeIssued("after"))
        assert told(await store.events(session.id, 3)) == [
            NoticeIssued("before"),
            NoticeIssued("after"),
        ]


async def test_a_read_only_disk_without_a_store_is_degraded_until_it_can_be_made(
    disk: Path,
) -> None:
    mount("-o", "remount,bind,ro", disk)
    async with opened(disk / "home") as store:
        assert store.health.state == "degraded"
        assert "read-only" in store.health.reason
        with pytest.raises(Degraded):
            await store.sessions()
        assert "read-only" in store.health.reason
        mount("-o", "remount,bind,rw", disk)
        assert (await store.probe()).state == "well"
        await a_session(store)
        assert len(await store.sessions()) == 1


async def test_a_killed_store_on_a_disk_now_read_only_shows_everything_it_had(
    disk: Path,
) -> None:
    code = """
import asyncio, os, sys
from pathlib import Path
from hermes_agent.core.messages import Prompt
from hermes_agent.core.records import NewSession, SessionMessage
from hermes_agent.store.store import Store
async def main():
    store = await Store.open(Path(sys.argv[1]))
    session = await store.open_session(NewSession("/w", "p", "m"), Prompt("x"))
    for n in range(30):
        await store.receive(session.id, SessionMessage(str(n), "hello"))
    await store.start_turn(session.id)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    home = disk / "home"
    assert run_child(code, home) == -9
    mount("-o", "remount,bind,ro", disk)
    async with opened(home) as store:
        (session,) = await store.sessions()
        assert len(await store.events(session.id)) == 32
