"""A home whose disk rots: what was changed is noticed by whoever reads it, by the check of
`hermes doctor` and by `hermes backup`; what was not changed is read as before."""

import random
import shutil
from collections.abc import Awaitable, Callable
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


async def check_rot(home: Path, truth: Seen, chance: random.Random, target: Path) -> bool:
    """Change one byte of a copy of a home; whether that changed what somebody reads."""
    files = [home / "state.db", *sorted(path for path in home.glob("blobs/*/*") if path.is_file())]
    sizes = [file.stat().st_size for file in files]
    file = chance.choices(files, [sizes[0], *(size // 4 for size in sizes[1:])])[0]
    data = bytearray(file.read_bytes())
    where = chance.randrange(len(data))
    data[where] ^= 1 << chance.randrange(8)
    file.write_bytes(data)
    now = await seen(home)
    harm = f"byte {where} of {file.name}"
    for name, part in now.parts.items():
        assert part == truth.parts[name], f"{harm}: {name} is another, and nobody says so"
    if now.errors:
        assert now.faults, f"{harm}: the check does not see {now.errors}"
        try:
            trouble = await backup_trouble(home, target)
        except HermesError as error:
            trouble = error.message
        assert trouble, f"{harm}: the backup does not see {now.errors}"
    return bool(now.errors)


async def rot(folder: Path, seeds: range) -> int:
    """Let copies of a home rot; how many of the changes somebody reads."""
    await furnished(folder / "home")
    truth = await seen(folder / "home")
    assert (truth.errors, truth.faults) == ([], [])
    harmful = 0
    for seed in seeds:
        copy = folder / f"rotten-{seed}"
        shutil.copytree(folder / "home", copy)
        target = folder / f"backup-{seed}"
        harmful += await check_rot(copy, truth, random.Random(seed), target)
        shutil.rmtree(copy)
    return harmful


async def test_rot_is_noticed_by_whoever_reads_and_by_checks(tmp_path: Path) -> None:
    assert await rot(tmp_path, range(12)) > 6


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
