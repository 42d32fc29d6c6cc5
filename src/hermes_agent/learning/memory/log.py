"""The log of notes: the diff of a batch, and how to undo it."""

import difflib
from collections.abc import Iterable, Mapping, Sequence

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.knowledge import Note, NoteChange, NoteEdit
from hermes_agent.learning.memory.files import FILES, VIEWS
from hermes_agent.learning.memory.text import page

LOG_HINT = "`hermes memory log` shows the batches"


def _texts(notes: Iterable[Note]) -> dict[int, str | None]:
    return {note.id: None if note.removed else note.text for note in notes}


def _before(
    texts: Mapping[int, str | None], changes: Iterable[NoteChange]
) -> dict[int, str | None]:
    """The texts before the changes, newest first."""
    earlier = dict(texts)
    for change in changes:
        earlier[change.note] = change.before
    return earlier


def difference(notes: Sequence[Note], changes: Sequence[NoteChange], batch: int) -> str:
    """A unified diff of one batch, by default the newest. `changes`: all, newest first."""
    if not changes:
        return ""
    batch = batch or changes[0].batch
    if all(change.batch != batch for change in changes):
        raise NotFound(f"no batch {batch} in the log", LOG_HINT)
    last = _before(_texts(notes), (change for change in changes if change.batch > batch))
    first = _before(last, (change for change in changes if change.batch == batch))
    lines: list[str] = []
    for view in VIEWS:
        ids = [note.id for note in notes if note.view == view]
        pages = [page(text for id in ids if (text := then[id])) for then in (first, last)]
        before, after = (one.splitlines() for one in pages)
        name = FILES[view]
        lines += difflib.unified_diff(
            before, after, f"{name} before", f"{name} after", "", "", 1, ""
        )
    return "".join(f"{line}\n" for line in lines)


def undone(changes: Sequence[NoteChange]) -> set[int]:
    """Batches that are undone. `changes` come newest first; an undo that was undone does not
    count."""
    found: set[int] = set()
    for change in changes:
        if change.undoes and change.batch not in found:
            found.add(change.undoes)
    return found


def undo_edits(
    notes: Sequence[Note], changes: Sequence[NoteChange], batch: int
) -> tuple[int, list[NoteEdit]]:
    """The batch, by default the newest that can be undone, and the edits that undo it."""
    already = undone(changes)
    if not batch:
        able = (c.batch for c in changes if not c.undoes and c.batch not in already)
        batch = next(able, 0)
        if not batch:
            raise UsageError("there is nothing to undo", LOG_HINT)
    mine = [change for change in changes if change.batch == batch]
    if not mine:
        raise NotFound(f"no batch {batch} in the log", LOG_HINT)
    if batch in already:
        raise UsageError(f"batch {batch} is already undone", LOG_HINT)
    before, after, now = _before({}, mine), _after(mine), _texts(notes)
    later = {change.note: change for change in reversed(changes) if change.batch > batch}
    for id, text in after.items():
        if now[id] != text:
            raise UsageError(
                f"note {id} was changed again in batch {later[id].batch}, by {later[id].by}",
                f"undo that one first: `hermes memory undo {later[id].batch}`",
            )
    return batch, [NoteEdit(text, id) for id, text in before.items() if text != after[id]]


def _after(changes: Sequence[NoteChange]) -> dict[int, str | None]:
    return {change.note: change.after for change in reversed(changes)}
