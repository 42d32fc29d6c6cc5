"""A home whose disk rots: what was changed is noticed by whoever reads it, by the check of
`hermes doctor` and by `hermes backup`; what was not changed is read as before."""

import random
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError
from hermes_agent.core.jobs import JobSpec, NewRun, Schedule
from hermes_agent.core.knowledge import NoteEdit
from hermes_agent.store.store import Store
from tests.store.helpers import Clock, a_session, a_turn, opened

HOURLY = Schedule("every", "every hour", seconds=3600.0)
SESSIONS = 12
LARGE = "a large result " * 6_000


async def furnished(home: Path) -> None:
    """A home with sessions, memory, skills and jobs."""
    async with opened(home, clock=Clock(1_000_000.0)) as store:
        for number in range(SESSIONS):
            session = await a_session(store, name=f"session-{number}")
            turn = await a_turn(store, session, f"question {number}")
            text = f"answer {number}: " + "it is in the log. " * 20 * number
            await store.append(turn, ev.Replied(1, text), ev.NoticeIssued(f"{number} {LARGE}"))
            await store.append(turn, ev.TurnFinished(turn.id, "done", text))
            await store.knowledge.edit_notes([NoteEdit(f"host web{number} is old")], "agent", "x")
            files = {"SKILL.md": f"# skill {number}\n".encode() * 50}
            await store.knowledge.save_version(f"skill-{number}", files, "d", "person", "given")
            job = await store.jobs.add(JobSpec(f"look {number}"), HOURLY, "cli", "", 3600.0)
            await store.jobs.plan(job, [NewRun(3600.0, "missed", "it was down")], 1.1e6, 1.2e6)


Reader = Callable[[Store], Awaitable[Any]]


def readers() -> dict[str, Reader]:
    """What a user can read, each part for itself."""
    found: dict[str, Reader] = {
        "sessions": lambda store: store.sessions(),
        "notes": lambda store: store.knowledge.notes(),
        "skills": lambda store: store.knowledge.skills(),
        "jobs": lambda store: store.jobs.jobs(),
        "runs": lambda store: store.jobs.runs(),
        "costs": lambda store: store.costs("model"),
        "search": lambda store: store.search("log"),
        "audit": lambda store: store.audit(),
    }
    for number in range(SESSIONS):

        async def events(store: Store, name: str = f"session-{number}") -> Any:
            session = await store.session(name)
            return session, await store.prompt(session.prompt), await store.events(session.id)

        async def files(store: Store, name: str = f"skill-{number}") -> Any:
            return await store.knowledge.files(name, 1)

        found |= {f"session-{number}": events, f"skill-{number}": files}
    return found


@dataclass
class Seen:
    parts: dict[str, Any] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


async def seen(home: Path) -> Seen:
    """What is read in a home, and what is said to be wrong."""
    found = Seen()
    try:
        async with opened(home, readonly=True) as store:
            for name, read in readers().items():
                try:
                    found.parts[name] = await read(store)
                except HermesError as error:
                    found.errors.append(f"{name}: {error.message}")
            found.faults = list(await store.check())
    except HermesError as error:
        found.errors.append(error.message)
        found.faults.append(error.message)
    return found


async def backup_trouble(home: Path, target: Path) -> str:
    async with opened(home, readonly=True) as store:
        try:
            await store.backup(target)
        except HermesError as error:
            return error.message
    return ""


# What a disk, or somebody with other programs, does to a home


def rotten_bytes(home: Path, chance: random.Random, name: str = "state.db") -> str:
    file = home / name
    data = bytearray(file.read_bytes())
    where = chance.randrange(len(data))
    for at in range(where, min(where + chance.choice((1, 1, 8, 100)), len(data))):
        data[at] ^= chance.randrange(1, 256)
    file.write_bytes(data)
    return f"{name} from byte {where}"


def another_page(home: Path, chance: random.Random) -> str:
    file = home / "state.db"
    data = bytearray(file.read_bytes())
    here, there = (PAGE * chance.randrange(1, len(data) // PAGE) for _ in range(2))
    data[here : here + PAGE] = chance.choice((data[there : there + PAGE], bytes(PAGE)))
    file.write_bytes(data)
    return f"the page at {here}"


def changed_rows(home: Path, chance: random.Random) -> str:
    """By a program that knows nothing of checksums."""
    sql = chance.choice(CHANGES)
    with closing(sqlite3.connect(home / "state.db")) as db:
        (last,) = db.execute("select max(id) from events").fetchone()
        db.execute(sql, {"n": chance.randrange(1, last), "m": chance.randrange(1, SESSIONS)})
        db.commit()
    return sql


def another_text(home: Path, chance: random.Random) -> str:
    files = sorted(path for path in home.glob("blobs/*/*") if path.is_file())
    file, other = chance.sample(files, 2)
    match chance.randrange(4):
        case 0:
            return rotten_bytes(home, chance, str(file.relative_to(home)))
        case 1:
            file.write_bytes(file.read_bytes()[: chance.randrange(1_000)])
        case 2:
            file.write_bytes(other.read_bytes())
        case _:
            file.unlink()
    return file.name


def rotten_log(home: Path, chance: random.Random) -> str:
    if not (home / "state.db-wal").exists():
        return rotten_bytes(home, chance)
    return rotten_bytes(home, chance, "state.db-wal")


def cut_log(home: Path, chance: random.Random) -> str:
    file = home / "state.db-wal"
    if not file.exists():
        return another_page(home, chance)
    data = file.read_bytes()
    file.write_bytes(data[: chance.randrange(1, len(data))])
    return f"{file.stat().st_size} of {len(data)} bytes of the log"


PAGE = 4096
CHANGES = (
    "update events set body = (select body from events where id = :m) where id = :n",
    "delete from events where id = :n",
    "update events set number = number + 100 where id = :n",
    "update sessions set title = 'other' where key = :m",
    "update sessions set last = last - 1 where key = :m",
    "update notes set text = 'all is well' where id = :m",
    "update jobs set name = 'other' where number = :m",
    "update job_runs set state = 'done' where id = :m",
    "update costs set input = input + 1",
    "update prompts set body = body || ' '",
    "delete from audit where number = :m",
    "delete from words_docsize where id % 3 = :m % 3",
    "delete from words_data where id > 10",
    "update words_data set block = zeroblob(length(block)) where id > 10",
    "delete from words_idx",
)
HARMS = (
    *(rotten_bytes, rotten_bytes, another_page, changed_rows, changed_rows, another_text),
    *(another_text, rotten_log, cut_log),
)


async def check_rot(home: Path, truth: Seen, chance: random.Random, target: Path) -> bool:
    """Harm a home; whether that changed what somebody reads."""
    harm = chance.choice(HARMS)(home, chance)
    kept = target.with_suffix(".kept")  # SQLite mends what it can when it opens a database
    shutil.copytree(home, kept)
    now = await seen(home)
    other = [name for name, part in now.parts.items() if part != truth.parts[name]]
    # A page in the wrong place has the right checksum: only checks see it.
    moved = harm.startswith("the page")
    assert not other or moved, f"{harm}: {other} changed, and nobody says so"
    if now.errors or other:
        assert now.faults, f"{harm}: the check does not see {now.errors}"
        try:
            trouble = await backup_trouble(kept, target)
        except HermesError as error:
            trouble = error.message
        assert trouble, f"{harm}: the backup does not see {now.errors}"
    shutil.rmtree(kept)
    return bool(now.errors or other)


async def killed(home: Path, target: Path) -> None:
    """A copy of a home, as a runtime leaves it that is killed after it has written something."""
    async with opened(home, clock=Clock(2_000_000.0)) as store:
        for number in range(0, SESSIONS, 2):
            turn = await a_turn(store, await store.session(f"session-{number}"), "and now?")
            await store.append(turn, ev.TurnFinished(turn.id, "done", f"later answer {number}"))
        shutil.copytree(home, target)


async def rot(folder: Path, seeds: range) -> int:
    """Let copies of two homes rot; how many of the changes somebody reads."""
    harmful = 0
    await furnished(folder / "tidy")
    await killed(folder / "tidy", folder / "killed")
    for home in (folder / "tidy", folder / "killed"):
        shutil.copytree(home, folder / "copy")
        truth = await seen(folder / "copy")
        shutil.rmtree(folder / "copy")
        assert (truth.errors, truth.faults) == ([], [])
        for seed in seeds[home.name == "tidy" :: 2]:
            copy = folder / f"rotten-{seed}"
            shutil.copytree(home, copy)
            harmful += await check_rot(copy, truth, random.Random(seed), folder / f"backup-{seed}")
            shutil.rmtree(copy)
    return harmful


async def test_rot_is_noticed_by_whoever_reads_and_by_checks(tmp_path: Path) -> None:
    assert await rot(tmp_path, range(12)) > 4


@pytest.mark.slow
async def test_much_rot_is_noticed_by_whoever_reads_and_by_checks(tmp_path: Path) -> None:
    assert await rot(tmp_path, range(100, 300)) > 100


async def test_a_rotten_session_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    await furnished(tmp_path)
    truth = await seen(tmp_path)
    file = tmp_path / "state.db"
    data = bytearray(file.read_bytes())
    data[data.index(b"host web7 is old")] ^= 1
    file.write_bytes(data)
    now = await seen(tmp_path)
    assert [error.partition(":")[0] for error in now.errors] == ["notes"]
    assert "does not match its checksum" in now.errors[0]
    assert now.parts == {name: part for name, part in truth.parts.items() if name != "notes"}
    async with opened(tmp_path) as store:  # what is elsewhere can be written, too
        session = await store.session("session-3")
        turn = await a_turn(store, session)
        await store.append(turn, ev.TurnFinished(turn.id, "done", "fine"))
        assert store.health.state == "well"
        with pytest.raises(HermesError, match="checksum"):
            await store.knowledge.edit_notes([NoteEdit("more")], "agent", "x")


async def test_a_backup_of_a_home_with_a_rotten_text_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await furnished(home)
    for file in (path for path in home.glob("blobs/*/*") if path.is_file()):
        file.write_bytes(file.read_bytes()[:-1])
        break
    trouble = await backup_trouble(home, tmp_path / "copy")
    assert "is damaged" in trouble
    assert not (tmp_path / "copy").exists()
