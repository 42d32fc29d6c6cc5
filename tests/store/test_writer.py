"""One writer: what waits is committed together, in order; what was acknowledged stays."""

import asyncio
import threading
from pathlib import Path

import pytest

from hermes_agent.core.errors import Degraded, NotFound, Stopping
from hermes_agent.core.events import NoticeIssued
from hermes_agent.core.records import SessionMessage
from tests.store.helpers import a_session, a_turn, kill_after_lines, opened, run_child, told
from tests.support.patience import PATIENCE


class Watcher:
    """Holds the writer at a commit until it is let go, and notes what each commit held."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.go = threading.Event()
        self.go.set()
        self.held = threading.Event()

    def __call__(self, moment: str, names: tuple[str, ...]) -> None:
        self.seen.append((moment, names))
        if moment == "before" and not self.go.is_set():
            self.held.set()
            assert self.go.wait(PATIENCE)


async def test_writes_that_wait_are_committed_together_and_in_order(tmp_path: Path) -> None:
    watcher = Watcher()
    async with opened(tmp_path, hook=watcher) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        watcher.seen.clear()
        watcher.go.clear()
        first = asyncio.create_task(store.append(turn, NoticeIssued("0")))
        assert await asyncio.to_thread(watcher.held.wait, PATIENCE)
        rest = [asyncio.create_task(store.append(turn, NoticeIssued(str(n)))) for n in range(1, 40)]
        mail = asyncio.create_task(store.receive(session.id, SessionMessage("k", "hi")))
        await asyncio.sleep(0)
        watcher.go.set()
        await asyncio.gather(first, *rest, mail)
        assert watcher.seen == [
            ("before", ("append",)),
            ("after", ("append",)),
            ("before", ("append",) * 39 + ("receive",)),
            ("after", ("append",) * 39 + ("receive",)),
        ]
        notes = told(await store.events(session.id, 3))
        assert notes == [NoticeIssued(str(n)) for n in range(40)]


async def test_one_failing_write_does_not_hurt_the_others(tmp_path: Path) -> None:
    watcher = Watcher()
    async with opened(tmp_path, hook=watcher) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        watcher.go.clear()
        tasks = [asyncio.create_task(store.append(turn, NoticeIssued("held")))]
        assert await asyncio.to_thread(watcher.held.wait, PATIENCE)
        tasks += [
            asyncio.create_task(store.append(turn, NoticeIssued("good"))),
            asyncio.create_task(store.append(turn, NoticeIssued("fine"), NoticeIssued("\ud800"))),
            asyncio.create_task(store.receive("nobody", SessionMessage("k", "hi"))),
            asyncio.create_task(store.append(turn, NoticeIssued("also good"))),
        ]
        await asyncio.sleep(0)
        watcher.go.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[2], UnicodeEncodeError)
        assert isinstance(results[3], NotFound)
        assert watcher.seen[-1] == ("after", ("append", "append"))
        kept = [NoticeIssued("held"), NoticeIssued("good"), NoticeIssued("also good")]
        assert told(await store.events(session.id, 3)) == kept
        assert store.health.state == "well"


async def test_a_cancelled_caller_leaves_a_whole_write_behind(tmp_path: Path) -> None:
    watcher = Watcher()
    async with opened(tmp_path, hook=watcher) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        watcher.go.clear()
        task = asyncio.create_task(store.append(turn, NoticeIssued("a"), NoticeIssued("b")))
        assert await asyncio.to_thread(watcher.held.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        watcher.go.set()
        await store.append(turn, NoticeIssued("c"))
        assert told(await store.events(session.id, 3)) == [
            NoticeIssued("a"),
            NoticeIssued("b"),
            NoticeIssued("c"),
        ]


async def test_closing_finishes_what_was_asked_for_and_then_refuses(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        tasks = [asyncio.create_task(store.append(turn, NoticeIssued(str(n)))) for n in range(50)]
        await asyncio.sleep(0)
    assert len(await asyncio.gather(*tasks)) == 50
    with pytest.raises(Degraded, match="is stopping"):
        await store.append(turn, NoticeIssued("late"))
    assert not (tmp_path / "state.db-wal").exists()
    async with opened(tmp_path) as store:
        assert await store.last_number(session.id) == 53


_CHILD = """
import asyncio, sys
from pathlib import Path
from hermes_agent.core.events import Replied
from hermes_agent.core.messages import Prompt
from hermes_agent.core.records import NewSession, SessionMessage
from hermes_agent.store.store import Store

async def talk(store, n):
    session = await store.open_session(NewSession("/w", "p", "m"), Prompt("x"))
    await store.receive(session.id, SessionMessage("k", "go"))
    turn = await store.start_turn(session.id)
    for step in range(100_000):
        text = f"step {step} of {n} " + "z" * (70_000 if step % 20 == 0 else 50)
        (one,) = await store.append(turn, Replied(step, text))
        print(session.id, one.number, step, flush=True)

async def main():
    store = await Store.open(Path(sys.argv[1]))
    await asyncio.gather(*(talk(store, n) for n in range(4)))

asyncio.run(main())
"""


@pytest.mark.parametrize("lines", [1, 37, 222])
async def test_what_a_killed_process_had_acknowledged_is_there(tmp_path: Path, lines: int) -> None:
    said = kill_after_lines(_CHILD, tmp_path, lines)
    acknowledged = [line.split() for line in said if line.count(" ") == 2 and line.endswith("\n")]
    assert len(acknowledged) >= lines
    async with opened(tmp_path) as store:
        stored = {
            session.id: {one.number: one.event for one in await store.events(session.id)}
            for session in await store.sessions()
        }
        for session, number, step in acknowledged:
            assert stored[session][int(number)].step == int(step)
        assert await store.check() == []
        assert len(await store.claim_unfinished()) == 4
        assert store.health.state == "well"


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_process_killed_at_a_commit_has_written_all_of_it_or_nothing(
    tmp_path: Path, moment: str
) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
    code = f"""
import asyncio, os, sys
from pathlib import Path
from hermes_agent.core.events import NoticeIssued, Replied
from hermes_agent.core.records import Turn
from hermes_agent.store.store import Store

def kill(moment, names):
    if moment == {moment!r} and "append" in names:
        os.kill(os.getpid(), 9)

async def main():
    store = await Store.open(Path(sys.argv[1]), hook=kill)
    turn = Turn({turn.id}, {session.id!r}, {turn.fence})
    await store.append(turn, NoticeIssued("a"), Replied(1, "b"))

asyncio.run(main())
"""
    assert run_child(code, tmp_path) == -9
    async with opened(tmp_path) as store:
        assert await store.last_number(session.id) == (3 if moment == "before" else 5)
        assert await store.check() == []


async def test_a_store_that_is_closed_says_to_come_again(tmp_path: Path) -> None:
    """Who was under way when the runtime stopped is not told that the disk is ill."""
    async with opened(tmp_path) as store:
        session = await a_session(store)
    with pytest.raises(Stopping, match="the runtime is stopping"):
        await store.receive(session.id, SessionMessage("k", "text"))
    with pytest.raises(Stopping, match="the runtime is stopping"):
        await store.session(session.id)
    assert store.health.state == "well"
