"""Many write at once: the command line, a review, a proof, and people with their editors. Nothing
that was written is lost, and the folder is always a whole version."""

import asyncio
import os
import random
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.learning.skills.folder import digest, read_folder
from hermes_agent.learning.skills.registry import SkillRegistry
from hermes_agent.store.knowledge.store import KnowledgeStore
from tests.support.skills import a_book, skill_files, skill_home

NAMES = ("first", "second")
WRITERS, STEPS, HOMES = 6, 18, 20


class Crowd:
    """Everybody who writes, with what each has written."""

    def __init__(self, folder: Path, books: tuple[SkillRegistry, ...], seed: int) -> None:
        self.folder = folder
        self.books = books
        self.pick = random.Random(seed)
        self.number = 0
        self.marks: dict[str, set[str]] = {name: set() for name in NAMES}
        self.digests: dict[str, set[str]] = {name: set() for name in NAMES}

    def mark(self, name: str) -> str:
        self.number += 1
        mark = f"mark-{self.number}-end"
        self.marks[name].add(mark)
        return mark

    def files(self, name: str) -> dict[str, bytes]:
        """Two files that belong together."""
        mark = self.mark(name)
        text = skill_files(name, "Mend it. Use when it broke.", f"Do {mark}.")
        return {**text, "references/same.md": mark.encode()}

    async def rest(self) -> None:
        for _ in range(self.pick.randrange(4)):
            await asyncio.sleep(0)

    def read(self, end: threading.Event) -> None:
        """Somebody who reads the folders all the time, on a thread of its own."""
        while not end.wait(0.0003):
            for name in NAMES:
                self.look(name)

    async def work(self) -> None:
        for _ in range(STEPS):
            name, book = self.pick.choice(NAMES), self.pick.choice(self.books)
            await self.rest()
            step = self.pick.choice(
                (self.write, self.write, self.review, self.change_state, self.go_back, self.sync,
                 self.edit_in_place, self.edit_by_rename, self.edit_slowly)
            )  # fmt: skip
            await step(book, name)

    async def write(self, book: SkillRegistry, name: str) -> None:
        files = self.files(name)
        base = (await book.facts(name)).record.digest if self.pick.random() < 0.3 else ""
        try:
            await book.write(name, files, by="person", state="given", base=base)
        except UsageError as error:
            if "has changed: it is now" not in error.message:
                raise
            self.marks[name] -= {files["references/same.md"].decode()}
            return  # nothing was kept of it
        self.digests[name].add(digest(files))

    async def review(self, book: SkillRegistry, name: str) -> None:
        files = self.files(name)
        version = await book.save_pending(name, files, by="review", model="m")
        self.digests[name].add(digest(files))
        if self.pick.random() < 0.5:
            await book.adopt(name, version.number, state="proven", why="better", by="proof")

    async def change_state(self, book: SkillRegistry, name: str) -> None:
        await book.set_state(name, self.pick.choice(("given", "demoted", "retired")), "", "person")

    async def go_back(self, book: SkillRegistry, name: str) -> None:
        try:
            await book.revert(name, "bad", "use")
        except UsageError as error:
            if "no good version" not in error.message:
                raise

    async def sync(self, book: SkillRegistry, name: str) -> None:
        await book.sync()
        await book.facts(name)

    async def edit_in_place(self, _book: SkillRegistry, name: str) -> None:
        with opened(self.folder / name) as place:  # some editors write into the file
            handle = os.open("SKILL.md", os.O_RDWR, dir_fd=place)
            with os.fdopen(handle, "r+") as file:
                file.read()
                file.write(self.mark(name) + "\n")

    async def edit_by_rename(self, _book: SkillRegistry, name: str) -> None:
        with opened(self.folder / name) as place:  # others put a new file in its place
            draft = self.folder / f".draft-{self.number}"
            draft.write_text(content(place, "SKILL.md") + self.mark(name) + "\n")
            os.rename(draft, "SKILL.md", dst_dir_fd=place)

    async def edit_slowly(self, book: SkillRegistry, name: str) -> None:
        mark = self.mark(name)
        with (self.folder / name / "references" / f"{mark}.md").open("w") as file:
            await book.sync()  # others have their turn before
            file.write(mark)

    def look(self, name: str) -> None:
        """What a reader finds who opens the folder now."""
        with opened(self.folder / name) as place:
            same = content(place, "references/same.md")
            assert f"Do {same}." in content(place, "SKILL.md")


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """A folder that stays the same one, wherever it is moved."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def content(folder: int, path: str) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY, dir_fd=folder)) as file:
        return file.read()


async def check_nothing_is_lost(crowd: Crowd, knowledge: KnowledgeStore) -> None:
    for name in NAMES:
        versions = await knowledge.versions(name)
        kept = [await knowledge.files(name, version.number) for version in versions]
        assert crowd.digests[name] <= {version.digest for version in versions}
        for version, files in zip(versions, kept, strict=True):
            assert digest(files) == version.digest
        everything = b"\n".join(data for files in kept for data in files.values()).decode()
        lost = [mark for mark in crowd.marks[name] if mark not in everything]
        assert lost == []
        record = await knowledge.skill(name)
        assert digest(read_folder(crowd.folder / name).files) == record.digest
        assert versions[record.version - 1].digest == record.digest


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder that need not wait for a disk, where there is one: thousands of writes wait long."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(HOMES))
async def test_nothing_is_lost_whoever_writes_at_once(in_memory: Path, seed: int) -> None:
    async with skill_home(in_memory) as (book, folder, knowledge):
        other = a_book(folder, knowledge, in_memory / "shipped")  # as another process has one
        crowd = Crowd(folder, (book, other), seed)
        for name in NAMES:
            await book.write(name, crowd.files(name), by="person", state="given")
        end = threading.Event()
        reading = asyncio.create_task(asyncio.to_thread(crowd.read, end))
        try:
            await asyncio.gather(*(crowd.work() for _ in range(WRITERS)))
        finally:
            end.set()
        await reading
        await book.sync()
        await other.sync()
        await check_nothing_is_lost(crowd, knowledge)
