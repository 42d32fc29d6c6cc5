"""Synchronises the files of the views with the notes in the store."""

import asyncio
from collections.abc import Callable, Sequence
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
        self._states: dict[View, ViewState] = {}

    def limit(self, view: View) -> int:
        limits = self._limits()
        return limits.memory_chars if view == "memory" else limits.user_chars

    def entries(self, view: View) -> Sequence[FileEntry]:
        """The file as of the last synchronisation."""
        return self._states.get(view, ViewState()).base.entries

    async def sync(self) -> bool:
        """Import hand edits, then write the views that changed; whether there were any. The caller
        holds the lock."""
        saved = await asyncio.to_thread(self._files.load)
        self._states = dict(saved)
        taken = False
        for view in VIEWS:
            taken = await self._sync_view(view) or taken
        if any(_differs(one, saved.get(view)) for view, one in self._states.items()):
            await asyncio.to_thread(self._files.save, self._states)
        return taken

    async def _sync_view(self, view: View) -> bool:
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
            f"another program keeps writing to {FILES[view]}",
            "stop it, then try again",
        )

    async def _take(
        self, view: View, state: ViewState, look: FolderSnapshot
    ) -> tuple[ViewState, bool]:
        """Import what the files have and the store does not."""
        base, over, edited = state.base, state.over, False
        if look.unplaced:
            base, over = state.out[-1].held, ""
        since = self._clock() - STALE_SECONDS
        earlier = tuple(one for one in state.earlier if one.time >= since)
        out: list[DetachedFile] = []
        unsure = sum(rest == "unknown" for *_, rest in look.out)
        for one, data, rest in look.out:
            held = one.held
            if rest == "open":  # a half-written file would look like removals
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
        """Import a file as a person left it; its new base, and whether notes changed."""
        texts = _texts(data)
        notes = {note.id: note for note in await self._knowledge.notes(removed=True)}
        seen = based_on(texts, (base, *earlier), self._clock())
        found = merge(texts, seen, notes, view)
        made = (
            await self._knowledge.edit_notes(found.edits, "person", "hand") if found.edits else ()
        )
        return MergeBase(digest_of(data), found.entries(made), self._clock()), bool(found.edits)

    def _past(self, base: MergeBase) -> MergeBase:
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
        # Saved before the swap: after a crash the next process knows which file is which.
        await asyncio.to_thread(self._files.save, self._states)
        await asyncio.to_thread(self._files.place, view, draft, new=new)


def _texts(data: bytes | None) -> list[str]:
    return [] if data is None else entries(data.decode("utf-8-sig", "replace"))


def _differs(state: ViewState, saved: ViewState | None) -> bool:
    """Whether the state must be saved: a detached file that is gone need not be."""
    if saved is None:
        return state != ViewState()
    same = state.base == saved.base and state.over == saved.over
    return not same or not set(state.out) <= set(saved.out)
