"""Merges hand edits, and chooses the notes that a view shows. Nothing here touches a file."""

import difflib
import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from hermes_agent.core.knowledge import Note, NoteEdit, View
from hermes_agent.learning.memory.files import FileEntry, MergeBase
from hermes_agent.learning.memory.text import entry

CHANGED = 0.6
"""A new line this similar to a missing one is that one, changed."""
COMPARED_CHARS = 500
COMPARED = 100
"""More lines than this are not compared: they are new."""
STALE_SECONDS = 600.0
"""How old the state in an editor may be that saves new lines."""
STALE_REMOVAL_SECONDS = 60.0
"""The same if lines were only removed: a removed line should rarely come back."""
FRESH_SECONDS = 7 * 86_400.0
"""How long a note is new, and shown before its use can be judged."""
_DAY = 86_400.0


class Merge(Struct, frozen=True):
    """A page compared with the store."""

    edits: tuple[NoteEdit, ...]
    texts: tuple[str, ...]
    ids: tuple[int | None, ...]
    """The note of each text; None if `edits` create it, in the same order."""

    def entries(self, made: Sequence[Note]) -> tuple[FileEntry, ...]:
        """The page by its notes, once the edits have created `made`."""
        new = iter([note.id for note, edit in zip(made, self.edits, strict=True) if not edit.id])
        return tuple(
            FileEntry(next(new) if id is None else id, text)
            for id, text in zip(self.ids, self.texts, strict=True)
        )


def based_on(texts: Sequence[str], states: Sequence[MergeBase], now: float) -> MergeBase:
    """The state that a person edited; `states` come newest first. Usually it is the newest. But a
    text closer to an earlier state, with nearly all of its lines, comes from an editor that had not
    seen the newer lines: they were not removed. Lines that a person saved once do not count."""
    found = Counter(texts)
    seen = {line.text for one in states if one.saved for line in one.entries}

    def distance(one: MergeBase) -> tuple[int, int]:
        held = Counter(line.text for line in one.entries)
        lost, added = held - found, found - held
        return len(lost.keys() - seen), len(added)

    best, least = states[0], sum(distance(states[0]))
    for one in states[1:]:
        held = {line.text for line in one.entries}
        lost, added = distance(one)
        if lost > 1 or lost + added >= least or not held & found.keys():
            continue
        age = now - one.time
        new, less = found.keys() - held, held - found.keys()
        if age <= STALE_SECONDS if new else less and age <= STALE_REMOVAL_SECONDS:
            best, least = one, lost + added
    return best


def merge(texts: Sequence[str], base: MergeBase, notes: Mapping[int, Note], view: View) -> Merge:
    """`notes`: all, removed ones included. Later changes by others are not undone: then both texts
    are kept."""
    lines = list(dict.fromkeys(texts))
    ids: list[int | None] = [None] * len(lines)
    gone = _match_same(lines, ids, base)
    edits: list[NoteEdit] = []
    for place, line in _match_changed(lines, ids, gone):
        note = notes.get(line.id)
        if note is not None and not note.removed and note.text == line.text:
            edits.append(NoteEdit(lines[place], line.id))
            ids[place] = line.id
    taken = {id for id in ids if id is not None}
    for line in gone:
        note = notes.get(line.id)
        if (
            line.id not in taken
            and note is not None
            and not note.removed
            and note.text == line.text
        ):
            edits.append(NoteEdit(None, line.id))
    known = {n.text: n for n in notes.values() if n.view == view and n.removed}
    known |= {n.text: n for n in notes.values() if n.view == view and not n.removed}
    for place, text in enumerate(lines):
        if ids[place] is not None:
            continue
        same = known.get(text)
        if same is None:
            edits.append(NoteEdit(text, view=view))
            continue
        ids[place] = same.id
        if same.removed:
            edits.append(NoteEdit(text, same.id))
    return Merge(tuple(edits), tuple(lines), tuple(ids))


def _match_same(lines: Sequence[str], ids: list[int | None], base: MergeBase) -> list[FileEntry]:
    """Fill in the ids of unchanged lines; the lines that are missing."""
    places = {text: place for place, text in enumerate(lines)}
    gone = []
    for line in base.entries:
        place = places.pop(line.text, None)
        if place is None:
            gone.append(line)
        else:
            ids[place] = line.id
    return gone


def _match_changed(
    lines: Sequence[str], ids: Sequence[int | None], gone: Sequence[FileEntry]
) -> list[tuple[int, FileEntry]]:
    """Which new line is which missing one changed: the most similar pairs first."""
    new = [place for place, id in enumerate(ids) if id is None]
    if not gone or len(new) > COMPARED or len(gone) > COMPARED:
        return []
    pairs = []
    for place in new:
        matcher = difflib.SequenceMatcher(None, "", lines[place][:COMPARED_CHARS], autojunk=False)
        for number, line in enumerate(gone):
            matcher.set_seq1(line.text[:COMPARED_CHARS])
            if matcher.quick_ratio() >= CHANGED and (ratio := matcher.ratio()) >= CHANGED:
                pairs.append((-ratio, place, number))
    chosen: dict[int, int] = {}
    for _, place, number in sorted(pairs):
        if place not in chosen and number not in chosen.values():
            chosen[place] = number
    return [(place, gone[number]) for place, number in chosen.items()]


def chosen_from(notes: Sequence[Note], limit: int) -> str:
    """A digest of what the choice depends on: while it is the same, so is the view."""
    facts = [(note.id, note.text, note.by, note.source, note.confidence) for note in notes]
    return hashlib.sha256(msgspec.json.encode((limit, facts))).hexdigest()


def choose(notes: Sequence[Note], shown: Sequence[int], limit: int, now: float) -> list[FileEntry]:
    """The notes that a view shows, in its current order, new ones last. What a person wrote into
    the file stays; the rest is chosen by author, confidence, newness, use, and recency."""
    current = set(shown)

    def worth(note: Note) -> tuple[float, ...]:
        age = max(0.0, now - note.created)
        rate = (1 + note.used) / (1 + age / _DAY)
        return (
            note.by == "person",
            round(note.confidence, 1),
            # The newest of the new first, or a full view would never show one.
            note.updated if now - note.updated < FRESH_SECONDS else 0.0,
            math.floor(math.log2(rate)),
            note.id in current,
            note.updated,
            note.id,
        )

    pinned = {note.id for note in notes if note.id in current and note.source == "hand"}
    taken: dict[int, Note] = {}
    room = limit
    for note in sorted(notes, key=lambda n: (n.id in pinned, *worth(n)), reverse=True):
        size = len(entry(note.text)) + 1
        if note.id in pinned or size <= room:
            taken[note.id] = note
            room -= size
    order = [id for id in dict.fromkeys(shown) if id in taken]
    order += sorted(taken.keys() - set(order))
    return [FileEntry(id, taken[id].text) for id in order]
