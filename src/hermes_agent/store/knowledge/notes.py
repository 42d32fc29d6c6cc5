"""Notes, and the log of their changes."""

from collections.abc import Sequence

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.knowledge import Author, Note, NoteChange, NoteEdit
from hermes_agent.store.engine.connection import Connection

REWRITES = 20
"""How many of the last changes by the runtime to one note are kept."""
_NOTE = (
    "select id, view, text, created, updated, by, source, model, confidence, used, last_used, "
    "removed from notes "
)


def _notes(db: Connection, rest: str, values: Sequence[int] = ()) -> list[Note]:
    return [Note(*[*row[:11], bool(row[11])]) for row in db.rows(_NOTE + rest, values)]


def notes(db: Connection, *, removed: bool = False) -> list[Note]:
    """Oldest first; removed notes only when asked for."""
    return _notes(db, "order by id" if removed else "where not removed order by id")


def note(db: Connection, id: int) -> Note:
    found = _notes(db, "where id = ?", (id,))
    if not found:
        raise NotFound(f"no note {id}", "`hermes memory show` lists them")
    return found[0]


def edit_notes(
    db: Connection,
    edits: Sequence[NoteEdit],
    by: Author,
    source: str,
    *,
    model: str = "",
    undoes: int = 0,
) -> list[Note]:
    """Make the edits as one batch; returns the notes as they are then. `NotFound`, with nothing
    changed, if a note does not exist."""
    batch = _Batch(db, by, source, model, undoes)
    return [batch.make(edit) for edit in edits]


class _Batch:
    """Edits that are made together."""

    def __init__(self, db: Connection, by: Author, source: str, model: str, undoes: int) -> None:
        self._db = db
        self._now = db.now()
        self._who = (by, source, model)
        self._undoes = undoes
        self._number = 1 + db.execute("select coalesce(max(batch), 0) from note_changes").get

    def make(self, edit: NoteEdit) -> Note:
        if not edit.id:
            return self._add(edit)
        before = note(self._db, edit.id)
        if edit.text is None:
            return self._remove(before)
        confidence = before.confidence if edit.confidence is None else edit.confidence
        changed = before.removed or edit.text != before.text
        by, source, model = self._author(edit.id, edit.text) if changed else _author_of(before)
        self._db.execute(
            "update notes set text = ?, updated = ?, by = ?, source = ?, model = ?, "
            "confidence = ?, removed = 0 where id = ?",
            (
                edit.text, self._now if changed else before.updated, by, source, model,
                confidence, edit.id,
            ),
        )  # fmt: skip
        after = note(self._db, edit.id)
        if changed:
            self._log(after, None if before.removed else before.text, edit.text)
        return after

    def _add(self, edit: NoteEdit) -> Note:
        if edit.text is None:
            raise UsageError("a new note needs a text", "name the note that is to be removed")
        confidence = 1.0 if edit.confidence is None else edit.confidence
        self._db.execute(
            "insert into notes (view, text, created, updated, by, source, model, confidence) "
            "values (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7)",
            (edit.view, edit.text, self._now, *self._who, confidence),
        )
        added = note(self._db, self._db.last_insert_rowid())
        self._log(added, None, edit.text)
        return added

    def _remove(self, before: Note) -> Note:
        if before.removed:
            raise NotFound(f"note {before.id} is already removed", "`hermes memory log` shows when")
        self._db.execute(
            "update notes set removed = 1, updated = ? where id = ?", (self._now, before.id)
        )
        self._log(before, before.text, None)
        return note(self._db, before.id)

    def _author(self, id: int, text: str) -> tuple[str, str, str]:
        """The author of a text: undoing a change restores the original author."""
        sql = (
            "select by, source, model from note_changes where note = ? and after = ? "
            "and undoes = 0 order by id desc limit 1"
        )
        found = self._db.rows(sql, (id, text)) if self._undoes else []
        return found[0] if found else self._who

    def _log(self, changed: Note, before: str | None, after: str | None) -> None:
        self._db.execute(
            "insert into note_changes (batch, time, by, source, model, note, view, before, after, "
            "undoes) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._number, self._now, *self._who, changed.id, changed.view, before, after,
                self._undoes,
            ),
        )  # fmt: skip
        if self._who[0] == "runtime":  # it rewrites its notes for ever
            self._db.execute(
                "delete from note_changes where note = ?1 and by = 'runtime' and id not in ("
                "select id from note_changes where note = ?1 and by = 'runtime' "
                "order by id desc limit ?2)",
                (changed.id, REWRITES),
            )


def _author_of(known: Note) -> tuple[str, str, str]:
    return known.by, known.source, known.model


def note_changes(
    db: Connection, limit: int = 100, *, note: int = 0, source: str = ""
) -> list[NoteChange]:
    """Newest first."""
    found = db.rows(
        "select batch, time, by, source, note, view, before, after, undoes from note_changes "
        "where (?1 = 0 or note = ?1) and (?3 = '' or source = ?3) order by id desc limit ?2",
        (note, limit, source),
    )
    return [NoteChange(*row) for row in found]


def notes_used(db: Connection, ids: Sequence[int]) -> None:
    now = db.now()
    for id in ids:
        db.execute("update notes set used = used + 1, last_used = ? where id = ?", (now, id))
