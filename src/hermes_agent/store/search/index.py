"""Full-text search with bounded work: only the newest matches are ranked, however many there are.
Filters are marks in the same index, as words that nobody can type."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import apsw

from hermes_agent.core.errors import NotFound
from hermes_agent.core.events import (
    CallFinished,
    Compacted,
    Event,
    MessageTaken,
    Replied,
    Rewound,
    Summarised,
    decode,
)
from hermes_agent.core.records import Found, FoundMessage, SearchFilter
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.search.text import FtsTerm, for_index, match_of, parse_query, snippet

CANDIDATES = 400
INDEXED_CHARS = 200_000
AROUND_CHARS = 2_000
_MONTH = 30 * 86_400.0
_CLOCK_SLACK = 3_600.0
_IMPORTED = -(2**62), -1
"""The ids of imported messages, which are in no order of time."""

# Marks from the private-use area: a fixed one for each role and outcome, and for sessions, tools
# and sources a letter that says which, followed by the number.
_ROLE = {"user": "\ue001", "assistant": "\ue002", "tool": "\ue003", "summary": "\ue004"}
_OK = {False: "\ue005", True: "\ue006"}
_SESSION, _TOOL, _SOURCE = "\ue010", "\ue011", "\ue012"
_DIGITS, _FIRST_DIGIT = 6_000, 0xE100


class Spoken(NamedTuple):
    """The message in an event."""

    role: str
    text: str
    tool: str | None = None
    ok: bool | None = None
    source: str | None = None


def spoken(event: Event) -> Spoken | None:
    match event:
        case MessageTaken():
            return Spoken("user", event.text, source=event.source)
        case Replied():
            calls = [f"{call.name} {call.arguments}" for call in event.calls]
            return Spoken("assistant", "\n".join([event.text, *calls] if event.text else calls))
        case CallFinished():
            return Spoken("tool", event.text, event.tool, event.ok)
        case Compacted() | Summarised():
            return Spoken("summary", event.summary)
    return None


def _tags(*kinds: type[Event]) -> str:
    return str(tuple(kind.__struct_config__.tag for kind in kinds))


SPOKEN = _tags(MessageTaken, Replied, CallFinished, Compacted, Summarised)
"""The kinds of events that have a message, as an SQL list."""


def _mark(letter: str, number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, _DIGITS)
        digits = chr(_FIRST_DIGIT + digit) + digits
        if not number:
            return letter + digits


def _name(db: Connection, name: str) -> int | None:
    row = db.execute("select id from names where name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def _new_name(db: Connection, name: str) -> int:
    known = _name(db, name)
    if known is not None:
        return known
    db.execute("insert into names (name) values (?)", (name,))
    return db.last_insert_rowid()


def index(db: Connection, id: int, session: int, source: str, message: Spoken) -> None:
    marks = [
        _ROLE[message.role],
        _mark(_SESSION, session),
        _mark(_SOURCE, _new_name(db, message.source or source)),
    ]
    if message.tool is not None:
        marks.append(_mark(_TOOL, _new_name(db, message.tool)))
    if message.ok is not None:
        marks.append(_OK[message.ok])
    text = f"{for_index(message.text[:INDEXED_CHARS])} {' '.join(marks)}"
    db.execute("insert into words (rowid, text) values (?, ?)", (id, text))


def tidy(db: Connection) -> bool:
    """Merge a little of the index; returns whether there is more."""
    before = db.total_changes()
    db.execute("insert into words (words, rank) values ('merge', 16)")
    return db.total_changes() - before >= 2


def add_ranking(db: Connection) -> None:
    db.register_fts5_function("closeness", _closeness)


def _closeness(row: apsw.FTS5ExtensionApi, *values: Any) -> float:
    """How much of a message its first phrases make up: high if they occur often in few words. The
    value says how many phrases count."""
    length = row.column_size(0)
    scores = []
    for phrase in range(values[0]):
        times = len(row.phrase_column_offsets(phrase, 0))
        if times:
            scores.append(times / (times + 0.4 + 0.012 * length))
    return sum(scores) / max(1, len(scores))


def search(db: Connection, query: str, filter: SearchFilter | None = None) -> list[Found]:
    """Messages with all the words, best first. `word*` is a prefix, `"a b"` a phrase."""
    wanted = filter or SearchFilter()
    terms = parse_query(query)
    marks = _marks(db, wanted)
    if not terms or marks is None:
        return []
    match = match_of(terms)
    expression = " AND ".join([match.expression, *marks])
    newest: list[tuple[Any, ...]] = []
    for first, last in (_range(db, wanted), _IMPORTED):
        # Newest first is the order the index is stored in, so this reads no more than it returns.
        newest += db.rows(
            "select rowid, closeness(words, ?) from words where words match ? "
            "and rowid between ? and ? order by rowid desc limit ?",
            (match.phrases, expression, first, last, max(CANDIDATES, wanted.limit)),
        )
    best = _best(db, wanted, newest, db.now())
    return [_found(db, row, terms, wanted.around) for row in best]


def _marks(db: Connection, wanted: SearchFilter) -> list[str] | None:
    """The filter as marks of the index; None if nothing can match."""
    marks = []
    if wanted.session:
        row = db.execute("select key from sessions where id = ?", (wanted.session,)).fetchone()
        if row is None:
            raise NotFound(f"no session {wanted.session!r}", "`hermes sessions list` shows them")
        marks.append(_mark(_SESSION, row[0]))
    if wanted.role:
        marks.append(_ROLE[wanted.role])
    if wanted.ok is not None:
        marks.append(_OK[wanted.ok])
    for letter, name in ((_TOOL, wanted.tool), (_SOURCE, wanted.source)):
        if name:
            number = _name(db, name)
            if number is None:
                return None
            marks.append(_mark(letter, number))
    return [f'"{mark}"' for mark in marks]


def _range(db: Connection, wanted: SearchFilter) -> tuple[int, int]:
    """The range of ids in the filter's time. Ids grow with time, except for the copies in branches,
    so both ends are found by bisection; the slack allows for clocks that were set back a little."""
    first, last = 1, db.execute("select max(id) from events").get or 0
    if wanted.since is not None:
        since = wanted.since - _CLOCK_SLACK
        first = _halve(db, first, last, lambda time: time >= since)
    if wanted.until is not None:
        until = wanted.until + _CLOCK_SLACK
        last = _halve(db, first, last, lambda time: time > until)
    return first, last


def _halve(db: Connection, low: int, high: int, past: Callable[[float], bool]) -> int:
    """The first id in the range whose time is `past`; the last id if there is none."""
    while low < high:
        middle = (low + high) // 2
        row = db.execute(
            "select e.id, e.time from events e join sessions s on s.key = e.session "
            "where e.id between ? and ? and e.number > s.branch_at order by e.id limit 1",
            (middle, high),
        ).fetchone()
        if row is None or past(row[1]):
            high = middle
        else:
            low = row[0] + 1
    return low


class _Row(NamedTuple):
    score: float
    key: int
    session: str
    title: str
    number: int
    time: float
    body: str | bytes


def _best(
    db: Connection, wanted: SearchFilter, newest: Sequence[tuple[Any, ...]], now: float
) -> list[_Row]:
    """The best candidates, with their bodies. A month halves the weight of age."""
    scored = []
    for id, closeness in newest:
        time: float = db.execute("select time from events where id = ?", (id,)).get
        if (wanted.since is not None and time < wanted.since) or (
            wanted.until is not None and time > wanted.until
        ):
            continue
        age = max(0.0, now - time) / _MONTH
        scored.append((closeness + 0.3 * math.exp2(-age), id))
    scored.sort(reverse=True)
    found = []
    for score, id in scored[: wanted.limit]:
        (row,) = db.rows(
            "select s.key, s.id, coalesce(nullif(s.name, ''), s.title), e.number, e.time, e.body "
            "from events e join sessions s on s.key = e.session where e.id = ?",
            (id,),
        )
        found.append(_Row(score, *row))
    return found


def _found(db: Connection, row: _Row, terms: Sequence[FtsTerm], around: int) -> Found:
    message = _message(db, row.body)
    return Found(
        session=row.session,
        title=row.title,
        number=row.number,
        time=row.time,
        role=message.role,
        tool=message.tool or "",
        snippet=snippet(message.text, terms),
        score=row.score,
        around=_around(db, row, around) if around else (),
        rewound=_is_rewound(db, row),
    )


def _is_rewound(db: Connection, row: _Row) -> bool:
    later = db.rows(
        "select body from events where session = ? and number > ? and kind = 'rewound'",
        (row.key, row.number),
    )
    rewinds = [decode(db.blobs.unpack(body)) for (body,) in later]
    return any(isinstance(one, Rewound) and one.to <= row.number for one in rewinds)


def _message(db: Connection, body: str | bytes) -> Spoken:
    message = spoken(decode(db.blobs.unpack(body)))
    assert message is not None
    return message


def _around(db: Connection, row: _Row, count: int) -> tuple[FoundMessage, ...]:
    sql = (
        f"select number, body from events where session = ? and number {{}} ? and kind in {SPOKEN} "
        "order by number {} limit ?"
    )
    before = db.rows(sql.format("<", "desc"), (row.key, row.number, count))
    after = db.rows(sql.format(">", "asc"), (row.key, row.number, count))
    found = []
    for number, body in [*reversed(before), *after]:
        message = _message(db, body)
        found.append(FoundMessage(number, message.role, message.text[:AROUND_CHARS]))
    return tuple(found)
