"""A memory in a folder, over a real store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes_agent.core.knowledge import Author, NoteEdit, View
from hermes_agent.core.settings.root import MemorySettings
from hermes_agent.learning.memory.memory import Memory
from hermes_agent.store.store import Store


class Time:
    """Moves a second with each look at it, or as it is told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def small_scan(text: str) -> str:
    return "it tells the model to disobey" if "ignore all" in text.lower() else ""


def small_redact(text: str) -> str:
    return text.replace("hunter2", "[secret]")


class MemoryFixture:
    """The book, its files, and the settings it runs with."""

    def __init__(self, home: Path, store: Store, time: Time) -> None:
        self.folder = home / "memories"
        self.store = store
        self.time = time
        self.settings = MemorySettings()
        self.book = self.another()

    def another(self) -> Memory:
        """A book over the same folder, as another process would have."""
        return Memory(
            self.folder,
            self.store.knowledge,
            limits=lambda: self.settings,
            scan=small_scan,
            redact=small_redact,
            clock=self.time,
        )

    def path(self, view: View = "memory") -> Path:
        return self.folder / {"memory": "MEMORY.md", "user": "USER.md"}[view]

    def text(self, view: View = "memory") -> str:
        return self.path(view).read_text()

    async def add(self, *texts: str, by: Author = "agent", view: View = "memory") -> list[int]:
        edits = [NoteEdit(text, view=view) for text in texts]
        return [note.id for note in await self.book.edit(edits, by, "test")]

    async def live(self) -> list[str]:
        return [note.text for note in await self.store.knowledge.notes()]


@asynccontextmanager
async def a_memory(home: Path) -> AsyncIterator[MemoryFixture]:
    time = Time()
    store = await Store.open(home, clock=time)
    try:
        yield MemoryFixture(home, store, time)
    finally:
        await store.close()
