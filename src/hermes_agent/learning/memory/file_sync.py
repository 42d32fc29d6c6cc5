"""Keeping the files of the views and the notes in the store in step."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.knowledge import View
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.root import MemorySettings
from hermes_agent.learning.memory.files import (
    FILES,
    KEPT_OUT,
    VIEWS,
    DetachedFile,
    FileEntry,
    FolderSnapshot,
    MergeBase,
    ViewFiles,
    ViewState,
    digest_of,
)
from hermes_agent.learning.memory.merge import (
    STALE_SECONDS,
    based_on,
    choose,
    chosen_from,
    merge,
)
from hermes_agent.learning.memory.text import entries, page
from hermes_agent.store.knowledge.store import KnowledgeStore

LOCK_SECONDS = 30.0
LOCK_PAUSE, LONG_PAUSE = 0.001, 0.005
ROUNDS = 50
EARLIER = 100


class FileSync:
    def __init__(
        self,
        folder: Path,
        knowledge: KnowledgeStore,
        limits: Callable[[], MemorySettings],
        clock: Clock,
    ) -> None:
        self._files = ViewFiles(folder)
        self._knowledge = knowledge
        self._limits = limits
        self._clock = clock
        self._lock = asyncio.Lock()
        self._states: dict[View, ViewState] = {}

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Nobody else who knows of the lock reads or writes the views meanwhile."""
        async with self._lock:
            waited, pause = 0.0, LOCK_PAUSE
            while waited < LOCK_SECONDS:
                with self._files.try_lock() as locked:
                    if locked:
                        yield
                        return
                await asyncio.sleep(pause)
                waited += pause
                pause = min(2 * pause, LONG_PAUSE)
        raise HermesError(
            "the memory is locked by another process", "end the one that does not let go of it"
        )

    def limit(self, view: View) -> int:
        limits = self._limits()
        return limits.memory_chars if view == "memory" else limits.user_chars

    def entries(self, view: View) -> Sequence[FileEntry]:
        """What the file holds, as it was when the views were last brought in step."""
        return self._states.get(view, ViewState()).base.entries

    async def in_step(self) -> bool:
        """Take in what was edited by hand, then write the views that changed; whether any note
        was edited by hand. To be called alone."""
        saved = await asyncio.to_thread(self._files.load)
        self._states = dict(saved)
        taken = False
        for view in VIEWS:
            taken = await self._view_in_step(view) or taken
        if any(_tells_more(one, saved.get(view)) for view, one in self._states.items()):
            await asyncio.to_thread(self._files.save, self._states)
        return taken

    async def _view_in_step(self, view: View) -> bool:
        taken = False
        for _ in range(ROUNDS):
            state = self._states.get(view, ViewState())
            look = await asyncio.to_thread(self._files.look, view, state)
            state, edited = await self._take(view, state, look)
            self._states[view] = state
            taken = taken or edited
            notes = [note for note in await self._knowledge.notes() if note.view == view]
            over = chosen_from(notes, self.limit(view))
            if over == state.over:
                return taken
            shown = [line.id for line in state.base.entries]
            chosen = choose(notes, shown, self.limit(view), self._clock())
            if [line.text for line in chosen] == _texts(look.data):
                self._states[view] = replace(state, over=over)
                return taken
            await self._write(view, tuple(chosen), over, new=look.data is None)
        raise HermesError(
            f"{FILES[view]} is written by somebody else all the time",
            "end what writes to it, then try again",
        )

    async def _take(
        self, view: View, state: ViewState, look: FolderSnapshot
    ) -> tuple[ViewState, bool]:
        """Take in what the files hold that the store does not know."""
        base, over, edited = state.base, state.over, False
        if look.unplaced:
            base, over = state.out[-1].held, ""
        since = self._clock() - STALE_SECONDS
        earlier = tuple(one for one in state.earlier if one.time >= since)
        out: list[DetachedFile] = []
        unsure = sum(rest == "unknown" for *_, rest in look.out)
        for one, data, rest in look.out:
            held = one.held
            if rest == "open":  # half of what is being written would look like removals
                out.append(one)
                continue
            if digest_of(data) != held.digest:
                held, some = await self._merged(view, data, held, earlier)
                earlier, over, edited = (held, *earlier), "", edited or some
            unsure -= rest == "unknown"
            if rest == "unknown" and unsure < KEPT_OUT:
                out.append(DetachedFile(one.name, held))
            else:
                await asyncio.to_thread(self._files.remove, view, one.name)
        if digest_of(look.data) != base.digest:
            found, some = await self._merged(view, look.data, base, earlier)
            earlier, over, edited = (self._past(base), *earlier), "", edited or some
            base = replace(found, saved=True)
        return ViewState(base, earlier[:EARLIER], over, tuple(out)), edited

    async def _merged(
        self, view: View, data: bytes | None, base: MergeBase, earlier: Sequence[MergeBase]
    ) -> tuple[MergeBase, bool]:
        """A file as somebody left it, with the notes that its lines are then."""
        texts = _texts(data)
        notes = {note.id: note for note in await self._knowledge.notes(removed=True)}
        seen = based_on(texts, (base, *earlier), self._clock())
        found = merge(texts, seen, notes, view)
        made = (
            await self._knowledge.edit_notes(found.edits, "person", "hand") if found.edits else ()
        )
        return MergeBase(digest_of(data), found.entries(made), self._clock()), bool(found.edits)

    def _past(self, base: MergeBase) -> MergeBase:
        """With the time at which it became a thing of the past."""
        return replace(base, time=self._clock())

    async def _write(
        self, view: View, chosen: tuple[FileEntry, ...], over: str, *, new: bool
    ) -> None:
        state = self._states[view]
        data = page(line.text for line in chosen).encode()
        draft = await asyncio.to_thread(self._files.draft, view, data)
        self._states[view] = ViewState(
            MergeBase(digest_of(data), chosen, self._clock()),
            (self._past(state.base), *state.earlier)[:EARLIER],
            over,
            (*state.out, DetachedFile(draft, state.base)),
        )
        # Known before the exchange: whenever this process ends, the next one can tell what is what.
        await asyncio.to_thread(self._files.save, self._states)
        await asyncio.to_thread(self._files.place, view, draft, new=new)


def _texts(data: bytes | None) -> list[str]:
    return [] if data is None else entries(data.decode("utf-8-sig", "replace"))


def _tells_more(state: ViewState, saved: ViewState | None) -> bool:
    """Whether the state is worth writing down: a file that is gone need not be crossed out."""
    if saved is None:
        return state != ViewState()
    same = state.base == saved.base and state.over == saved.over
    return not same or not set(state.out) <= set(saved.out)
