"""Memory: notes in the store, and two files that show the best of them. People may edit the files:
what they write is imported before anything else is read or written."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.knowledge import Author, Doc, Note, NoteChange, NoteEdit, View
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.root import MemorySettings
from hermes_agent.learning.folder_lock import FolderLock, exclusive
from hermes_agent.learning.memory.file_sync import FileSync
from hermes_agent.learning.memory.files import FILES, VIEWS
from hermes_agent.learning.memory.log import difference, undo_edits
from hermes_agent.learning.memory.text import alike, clean, entry, near, page, plain
from hermes_agent.store.knowledge.store import KnowledgeStore

ALL = 1_000_000
TITLE_CHARS = 80


class Duplicate(UsageError):
    """An existing note says the same, or nearly."""

    def __init__(self, note: Note) -> None:
        super().__init__(
            f"note {note.id} says nearly the same: {note.text}",
            "change that note, if this is newer or better",
        )
        self.note = note


class Snapshot(Struct, frozen=True):
    """The memory part of a new session's prompt."""

    text: str
    notes: tuple[int, ...]


class ShownView(Struct, frozen=True):
    text: str
    chars: int
    limit: int
    shown: tuple[int, ...]
    evicted: int
    """Live notes that are not shown."""
    remarks: tuple[str, ...] = ()
    """What the model does not see of the file, and why."""
    withheld: dict[int, str] = {}
    """Notes in the file that look dangerous, with the reason."""


class MemoryView(Struct, frozen=True):
    views: dict[View, ShownView]
    notes: Sequence[Note]


class Why(Struct, frozen=True):
    note: Note
    changes: Sequence[NoteChange]
    shown: bool


class Memory:
    def __init__(
        self,
        folder: Path,
        knowledge: KnowledgeStore,
        *,
        limits: Callable[[], MemorySettings],
        scan: Callable[[str], str],
        redact: Callable[[str], str],
        clock: Clock,
    ) -> None:
        """`scan` says why a text must not be remembered, or nothing; `redact` removes secrets."""
        self.lock = FolderLock(folder, "memory")
        self._views = FileSync(folder, knowledge, limits, clock)
        self._knowledge = knowledge
        self._danger = lru_cache(1_000)(scan)
        self._redact = redact
        self._indexed: dict[int, tuple[str, float]] | None = None

    @exclusive
    async def sync(self) -> Sequence[NoteChange]:
        """Import hand edits and bring the views up to date; what was imported."""
        newest = await self._knowledge.note_changes(1)
        last = newest[0].batch if newest else 0
        if not await self._settle():
            return []
        return [one for one in await self._knowledge.note_changes(ALL) if one.batch > last][::-1]

    async def snapshot(self) -> Snapshot:
        """Both views for a new session; counts as a use of each note."""
        shown = await self.show()
        parts = []
        for view, one in shown.views.items():
            if one.shown:
                share = 100 * one.chars // one.limit
                head = f"{view.upper()} ({share}%, {one.chars:,} of {one.limit:,} characters)"
                parts.append("\n".join([head, one.text.rstrip("\n"), *one.remarks]))
        ids = tuple(id for one in shown.views.values() for id in one.shown)
        if ids:
            await self._knowledge.notes_used(ids)
        return Snapshot("\n\n".join(parts), ids)

    @exclusive
    async def show(self) -> MemoryView:
        await self._settle()
        notes = await self._knowledge.notes()
        return MemoryView({view: self._shown(view, notes) for view in VIEWS}, notes)

    @exclusive
    async def edit(
        self, edits: Sequence[NoteEdit], by: Author, source: str, *, model: str = ""
    ) -> Sequence[Note]:
        """Make the edits, all or none. A new note that says the same as an existing one makes no
        second one; one that says nearly the same is refused with `Duplicate`."""
        await self._settle()
        notes = {note.id: note for note in await self._knowledge.notes(removed=True)}
        _refuse_twice(edits)
        wanted = [await self._checked(edit, notes, by) for edit in edits]
        made = await self._knowledge.edit_notes(wanted, by, source, model=model)
        await self._settle()
        return made

    @exclusive
    async def write_section(self, source: str, lines: Sequence[str], most: int) -> None:
        """Keep one note with these lines, as many as fit into `most` characters, for a part of the
        runtime. Dangerous lines are left out. A person who edits or removes the note has the last
        word."""
        await self._settle()
        kept: list[str] = []
        for line in lines:
            text = clean(self._redact(line))
            if not self._danger(text) and len(entry("\n".join([*kept, text]))) < most:
                kept.append(text)
        notes = {note.id: note for note in await self._knowledge.notes(removed=True)}
        last = await self._knowledge.note_changes(1, source=source)
        if not last:
            edit = NoteEdit("\n".join(kept))
        elif (note := notes[last[0].note]).removed or note.by == "person":
            return
        else:
            edit = NoteEdit("\n".join(kept), note.id)
        if len(kept) > 1:  # more than the heading
            wanted = await self._checked(edit, notes, "runtime")
            await self._knowledge.edit_notes([wanted], "runtime", source)
            await self._settle()

    def refuse_danger(self, text: str) -> None:
        if reason := self._danger(text):
            raise UsageError(f"this cannot be remembered: {reason}", "leave that part out")

    async def find(self, part: str, view: View | None = None) -> Note:
        """The one live note with this text in it, or with this id (`#12`)."""
        await self.sync()
        notes = [n for n in await self._knowledge.notes() if view in (None, n.view)]
        wanted = part.strip().casefold()
        if not wanted:
            raise UsageError("name the note by a part of its text")
        exact = [n for n in notes if wanted in (n.text.casefold(), f"#{n.id}")]
        found = exact or [n for n in notes if wanted in n.text.casefold()]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"{len(found)} notes contain {part!r}", f"be more specific: {_few(found)}"
            )
        close = [notes[place] for place in near(part, [note.text for note in notes])]
        hint = f"closest matches: {_few(close)}" if close else "`hermes memory show` lists them"
        raise NotFound(f"no note contains {part!r}", hint)

    async def log(self, limit: int = 100, note: int = 0) -> Sequence[NoteChange]:
        await self.sync()
        return await self._knowledge.note_changes(limit, note=note)

    async def diff(self, batch: int = 0) -> str:
        """What a batch did to the notes; by default the newest."""
        await self.sync()
        changes = await self._knowledge.note_changes(ALL)
        return difference(await self._knowledge.notes(removed=True), changes, batch)

    @exclusive
    async def undo(self, batch: int = 0, by: Author = "person") -> Sequence[Note]:
        """Undo a batch; without a number, the newest that is not undone yet. Nothing is done when
        something in it was changed again since."""
        await self._settle()
        changes = await self._knowledge.note_changes(ALL)
        notes = await self._knowledge.notes(removed=True)
        number, edits = undo_edits(notes, changes, batch)
        made = await self._knowledge.edit_notes(edits, by, "undo", undoes=number)
        await self._settle()
        return made

    async def why(self, id: int) -> Why:
        shown = await self.show()
        notes = {note.id: note for note in await self._knowledge.notes(removed=True)}
        if id not in notes:
            raise NotFound(f"no note {id}", "`hermes memory show` lists them")
        inside = any(id in view.shown for view in shown.views.values())
        return Why(notes[id], await self._knowledge.note_changes(ALL, note=id), inside)

    async def search(self, query: str, limit: int = 20) -> Sequence[Note]:
        """Notes with any of the words, best first; removed ones last."""
        await self.sync()
        notes = {note.id: note for note in await self._knowledge.notes(removed=True)}
        docs = await self._knowledge.find_docs(query.split(), ["note"], limit)
        found = [notes[int(doc.ref)] for doc in docs if int(doc.ref) in notes]
        gone = [note for note in notes.values() if note.removed]
        found += [gone[place] for place in near(query, [note.text for note in gone])]
        if found:
            await self._knowledge.notes_used([note.id for note in found])
        return found[:limit]

    async def _settle(self) -> bool:
        """Synchronise files, notes and the search index; whether any note was edited by hand."""
        edited = await self._views.sync()
        notes = {note.id: note for note in await self._knowledge.notes()}
        if self._indexed is None:
            kept = {doc.ref: doc for doc in await self._knowledge.docs("note")}
            self._indexed = {int(ref): (doc.text, doc.time) for ref, doc in kept.items()}
        changed = [n for n in notes.values() if self._indexed.get(n.id) != (n.text, n.updated)]
        docs = [self._doc(note) for note in changed]
        gone = {str(id) for id in self._indexed.keys() - notes.keys()}
        gone |= {doc.ref for doc in docs if self._danger(doc.text)}
        if docs:
            await self._knowledge.save_documents([doc for doc in docs if doc.ref not in gone])
        if gone:
            await self._knowledge.drop_docs("note", sorted(gone))
        self._indexed = {id: (note.text, note.updated) for id, note in notes.items()}
        return edited

    def _doc(self, note: Note) -> Doc:
        text = self._redact(note.text)
        title = text.partition("\n")[0][:TITLE_CHARS]
        return Doc("note", str(note.id), title, text, time=note.updated)

    def _shown(self, view: View, notes: Sequence[Note]) -> ShownView:
        """As the model sees it: without what looks dangerous or secret, and within the limit."""
        lines = self._views.entries(view)
        limit = self._views.limit(view)
        remarks: list[str] = []
        withheld: dict[int, str] = {}
        parts, shown, room = [], [], limit
        for line in lines:
            if room <= 0:
                break
            if reason := self._danger(line.text):
                remarks.append(f"(an entry of {FILES[view]} is withheld: {reason})")
                withheld[line.id] = reason
                continue
            part = f"{entry(self._redact(line.text))}\n"
            parts.append(part[:room])
            room -= len(part)
            shown.append(line.id)
        chars = len(page(line.text for line in lines))
        if chars > limit:
            remarks.append(f"({FILES[view]} is longer than its {limit:,} characters: it is cut)")
        inside = {line.id for line in lines}
        evicted = sum(note.view == view and note.id not in inside for note in notes)
        return ShownView(
            "".join(parts), chars, limit, tuple(shown), evicted, tuple(remarks), withheld
        )

    async def _checked(self, edit: NoteEdit, notes: Mapping[int, Note], by: Author) -> NoteEdit:
        """The edit as it is made, or why it cannot be."""
        if edit.text is None:
            return edit
        text = clean(self._redact(edit.text))
        if not text:
            raise UsageError("a note needs text", "to delete a note, use remove")
        self.refuse_danger(text)
        view = notes[edit.id].view if edit.id in notes else edit.view
        if len(entry(text)) >= self._views.limit(view):
            raise UsageError(
                f"this note alone has {len(text):,} characters; all of {FILES[view]} may have "
                f"{self._views.limit(view):,}",
                "make it shorter, or keep it in a file and note where that is",
            )
        others = [n for n in notes.values() if n.view == view and n.id != edit.id]
        if edit.id:
            same = [n for n in others if not n.removed and plain(n.text) == plain(text)]
            if same:
                raise Duplicate(same[0])
            return NoteEdit(text, edit.id, view, edit.confidence)
        return await self._as_new(NoteEdit(text, 0, view, edit.confidence), others, by)

    async def _as_new(self, edit: NoteEdit, others: Sequence[Note], by: Author) -> NoteEdit:
        """A new note, unless an existing or removed one says the same."""
        text = edit.text or ""
        same = [note for note in others if plain(note.text) == plain(text)]
        for note in same:
            if not note.removed:
                surer = max(note.confidence, edit.confidence or 0.0)
                return NoteEdit(note.text, note.id, note.view, surer)
        for note in others:
            if not note.removed and alike(note.text, text):
                raise Duplicate(note)
        for note in same:
            (last,) = await self._knowledge.note_changes(1, note=note.id)
            if by == "review" and last.by == "person":
                raise UsageError(
                    f"a person deleted this note: {note.text}", "only a person can restore it"
                )
            return NoteEdit(text, note.id, note.view, edit.confidence)
        return edit


def _refuse_twice(edits: Sequence[NoteEdit]) -> None:
    new = [plain(clean(edit.text)) for edit in edits if edit.text is not None and not edit.id]
    if len(new) != len(set(new)):
        raise UsageError("the same note is given twice", "give it once")


def _few(notes: Sequence[Note]) -> str:
    return "; ".join(f"#{note.id} {note.text[:TITLE_CHARS]}" for note in notes[:3])
