"""Many write to the memory at once, two of them by hand: nothing is lost."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from hermes_agent.core.knowledge import NoteChange, NoteEdit, View
from hermes_agent.core.settings.root import MemorySettings
from hermes_agent.learning.memory.files import FILES, VIEWS
from hermes_agent.learning.memory.memory import Memory
from hermes_agent.learning.memory.text import entries, page
from hermes_agent.store.store import Store

LETTERS = "abcdefghijklmnopqrstuvwxyz"
RUNS = 20
OPERATIONS = 12
"""Of each of five writers, in each run."""


def in_place(path: Path, text: str, pause: Callable[[], None]) -> None:
    with path.open("w") as file:
        pause()
        file.write(text[: len(text) // 2])
        file.flush()
        pause()
        file.write(text[len(text) // 2 :])


def by_rename(path: Path, text: str, pause: Callable[[], None]) -> None:
    draft = path.with_name(f"editor-{threading.get_ident()}~")
    draft.write_text(text)
    pause()
    draft.replace(path)


class Run:
    """What was written, and what should be live in the end."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.dice = random.Random(seed)
        self.live: dict[View, set[str]] = {"memory": set(), "user": set()}
        self.said: set[str] = set()
        self.person = threading.Lock()
        """One person, with two editors: not in both at the same moment."""

    def text(self, dice: random.Random) -> str:
        return " ".join("".join(dice.choices(LETTERS, k=7)) for _ in range(4))

    async def writer(self, book: Memory, seed: str) -> None:
        """As the command line, a job or a child: adds, changes and removes its own notes."""
        dice = random.Random(seed)
        mine: list[tuple[int, str, View]] = []
        for _ in range(OPERATIONS):
            await asyncio.sleep(dice.random() * 0.002)
            what = dice.random()
            if what < 0.5 or not mine:
                text, view = self.text(dice), dice.choice(VIEWS)
                (note,) = await book.edit([NoteEdit(text, view=view)], "agent", "test")
                mine.append((note.id, text, view))
                self.live[view].add(text)
                self.said.add(text)
            elif what < 0.9:
                id, old, view = mine.pop(dice.randrange(len(mine)))
                new = self.text(dice) if what < 0.7 else None
                await book.edit([NoteEdit(new, id)], "agent", "test")
                self.live[view].discard(old)
                if new is not None:
                    mine.append((id, new, view))
                    self.live[view].add(new)
                    self.said.add(new)
            else:
                await book.snapshot()

    def editor(self, save: Callable[[Path, str, Callable[[], None]], None], seed: str) -> None:
        """As a person with an editor: adds lines, changes and removes those they know."""
        dice = random.Random(seed)

        def pause() -> None:
            time.sleep(dice.random() * 0.002)

        for _ in range(OPERATIONS):
            pause()
            with self.person:
                view = dice.choice(VIEWS)
                path = self.folder / FILES[view]
                lines = path.read_text().splitlines()
                known = [line for line in lines if "known" in line]
                old = dice.choice(known) if known and dice.random() < 0.5 else ""
                new = f"- {self.text(dice)}" if not old or dice.random() < 0.5 else ""
                pause()
                changed = [new if line == old else line for line in lines] + [new] * (not old)
                save(path, "".join(f"{line}\n" for line in changed if line), pause)
                self.live[view].discard(old[2:])
                self.live[view] |= {new[2:]} - {""}


class Outcome(NamedTuple):
    run: Run
    log: set[str | None]
    live: dict[View, list[str]]
    late: Sequence[NoteChange]
    """What was taken in only when all was over."""


async def play(home: Path, seed: int) -> Outcome:
    limits = MemorySettings(memory_chars=100_000, user_chars=100_000)

    def book(store: Store) -> Memory:
        return Memory(
            home / "memories",
            store.knowledge,
            limits=lambda: limits,
            scan=lambda _: "",
            redact=str,
            clock=time.time,
        )

    run = Run(home / "memories", seed)
    one, other = await Store.open(home), await Store.open(home)
    try:
        books = [book(one), book(one), book(other)]
        for view in VIEWS:
            run.live[view] = {f"known {run.text(run.dice)}" for _ in range(10)}
            run.folder.mkdir(exist_ok=True)
            (run.folder / FILES[view]).write_text(page(run.live[view]))
        await books[0].sync()
        await asyncio.gather(
            *(run.writer(book, f"{seed} {number}") for number, book in enumerate(books)),
            asyncio.to_thread(run.editor, in_place, f"{seed} in place"),
            asyncio.to_thread(run.editor, by_rename, f"{seed} by rename"),
        )
        await books[0].sync()
        log = {change.after for change in await one.knowledge.note_changes(100_000)}
        notes = await one.knowledge.notes()
        live = {view: [note.text for note in notes if note.view == view] for view in VIEWS}
        return Outcome(run, log, live, await books[2].sync())
    finally:
        await one.close()
        await other.close()


@pytest.mark.parametrize("seed", range(RUNS))
async def test_nothing_is_lost_whoever_writes_when(tmp_path: Path, seed: int) -> None:
    run, log, live, late = await play(tmp_path, seed)
    assert run.said <= log
    for view in VIEWS:
        assert set(live[view]) == run.live[view]
        assert sorted(live[view]) == sorted(entries((run.folder / FILES[view]).read_text()))
    assert late == []
    left = sorted(path.name for path in run.folder.iterdir())
    assert left == [".lock", ".state.json", *sorted(FILES.values())]
