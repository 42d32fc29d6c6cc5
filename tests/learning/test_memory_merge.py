"""What a hand edit comes to, and which notes a view shows."""

from collections.abc import Sequence

from hermes_agent.core.knowledge import Author, Note, NoteEdit
from hermes_agent.learning.memory.files import FileEntry, MergeBase
from hermes_agent.learning.memory.merge import based_on, choose, merge

DAY = 86_400.0


def a_note(
    id: int,
    text: str,
    *,
    by: Author = "agent",
    source: str = "session a",
    confidence: float = 1.0,
    used: int = 0,
    age: float = 100 * DAY,
    removed: bool = False,
) -> Note:
    born = 1_000 * DAY - age
    return Note(
        id, "memory", text, born, born, by, source, confidence=confidence, used=used,
        removed=removed,
    )  # fmt: skip


def base(*entries: tuple[int, str], digest: str = "x", saved: bool = False) -> MergeBase:
    return MergeBase(digest, tuple(FileEntry(id, text) for id, text in entries), saved=saved)


def merged(texts: Sequence[str], before: MergeBase, *notes: Note) -> tuple[NoteEdit, ...]:
    return merge(texts, before, {note.id: note for note in notes}, "memory").edits


ONE, TWO = a_note(1, "web1 runs the API"), a_note(2, "web2 is the spare")
BOTH = base((1, ONE.text), (2, TWO.text))


def test_a_new_line_a_changed_one_and_a_missing_one() -> None:
    assert merged([ONE.text, TWO.text, "new"], BOTH, ONE, TWO) == (NoteEdit("new"),)
    assert merged([ONE.text, "web2 was the spare"], BOTH, ONE, TWO) == (
        NoteEdit("web2 was the spare", 2),
    )
    assert merged([TWO.text], BOTH, ONE, TWO) == (NoteEdit(None, 1),)
    assert merged([TWO.text, ONE.text, TWO.text], BOTH, ONE, TWO) == ()


def test_a_line_that_has_nothing_of_the_old_one_is_a_new_note() -> None:
    assert merged([ONE.text, "Ann is on call"], BOTH, ONE, TWO) == (
        NoteEdit(None, 2), NoteEdit("Ann is on call"),
    )  # fmt: skip


def test_what_the_store_has_changed_since_is_not_undone() -> None:
    newer = a_note(2, "web2 is the spare of web3")
    assert merged([ONE.text], BOTH, ONE, newer) == ()
    assert merged([ONE.text, "web2 is a spare"], BOTH, ONE, newer) == (NoteEdit("web2 is a spare"),)
    gone = a_note(2, TWO.text, removed=True)
    assert merged([ONE.text, TWO.text], BOTH, ONE, gone) == ()


def test_a_line_of_a_note_that_is_there_or_was_there_is_that_note() -> None:
    evicted, removed = a_note(3, "evicted"), a_note(4, "removed", removed=True)
    texts = [ONE.text, TWO.text, "evicted", "removed"]
    found = merge(texts, BOTH, {n.id: n for n in (ONE, TWO, evicted, removed)}, "memory")
    assert found.ids == (1, 2, 3, 4)
    assert found.edits == (NoteEdit("removed", 4),)


OLD = base((1, "a"), digest="old")
NEW = base((1, "a"), (2, "b"), digest="new")


def test_an_editor_that_showed_an_older_state_removes_nothing_newer() -> None:
    assert based_on(["a", "by hand"], [NEW, OLD], 0.0) is OLD
    assert based_on(["a", "b", "by hand"], [NEW, OLD], 0.0) is NEW


def test_an_editor_that_showed_an_older_state_removes_only_its_own_line() -> None:
    old = base((1, "a"), (2, "b"), digest="old")
    new = base((1, "a"), (2, "b"), (3, "c"), digest="new")
    assert based_on(["a"], [new, old], 30.0) is old
    assert based_on(["a"], [new, old], 90.0) is new


def test_a_line_that_was_saved_by_hand_was_seen_by_who_removes_it() -> None:
    old = base((1, "a"), digest="old")
    middle = base((1, "a"), (2, "by hand"), digest="middle", saved=True)
    new = base((1, "a"), (2, "by hand"), (3, "c"), digest="new")
    assert based_on(["a", "other"], [middle, old], 0.0) is middle
    assert based_on(["a", "other"], [new, middle, old], 0.0) is middle
    assert based_on(["a"], [new, middle, old], 0.0) is middle


def test_removing_lines_by_hand_is_removing_them() -> None:
    assert based_on(["a"], [NEW, OLD], 0.0) is NEW
    assert based_on([], [NEW, OLD, base(digest="empty")], 0.0) is NEW
    assert based_on(["all new"], [NEW, OLD, base(digest="empty")], 0.0) is NEW


def shown(notes: Sequence[Note], limit: int, current: Sequence[int] = ()) -> list[int]:
    return [line.id for line in choose(notes, current, limit, 1_000 * DAY)]


def test_a_view_shows_what_fits_the_best_first() -> None:
    # Each takes 11 characters: a bullet, eight letters, the end of the line.
    notes = [
        a_note(1, "unsure..", confidence=0.3),
        a_note(2, "unused.."),
        a_note(3, "used....", used=500),
        a_note(4, "person..", by="person", source="cli"),
        a_note(5, "new.....", age=DAY),
    ]
    assert shown(notes, 11) == [4]
    assert shown(notes, 22) == [4, 5]
    assert shown(notes, 33) == [3, 4, 5]
    assert shown(notes, 44) == [2, 3, 4, 5]
    assert shown(notes, 54) == [2, 3, 4, 5]
    assert shown(notes, 55) == [1, 2, 3, 4, 5]


def test_a_view_does_not_reshuffle_without_need() -> None:
    notes = [a_note(id, f"note {id} ..") for id in range(1, 7)]
    assert shown(notes, 13 * 4, [5, 3, 1]) == [5, 3, 1, 6]
    assert shown(notes, 13 * 3, [5, 3, 1]) == [5, 3, 1]


def test_what_was_written_into_the_file_stays_in_it_whatever_its_length() -> None:
    notes = [
        a_note(1, "a" * 50, by="person", source="hand"),
        a_note(2, "b" * 50, by="person", source="hand"),
        a_note(3, "c" * 50, by="person", source="cli"),
    ]
    assert shown(notes, 60, [1, 2]) == [1, 2]
    assert shown(notes, 60) == [3]
