"""Rows of incidents, with their timelines and notices."""

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.incidents import (
    OPEN,
    Incident,
    IncidentState,
    NewEntry,
    NewNotice,
    TimelineEntry,
)
from hermes_agent.store.engine.database import rows

OPEN_STATES = ", ".join(f"'{state}'" for state in sorted(OPEN))

_decoder = msgspec.json.Decoder(Incident)


def encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def number_of(id: str) -> int:
    """The number in an incident's id; `NotFound` if it is not one."""
    digits = id.removeprefix("inc-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 18):
        raise NotFound(f"no incident {id!r}", "`hermes incidents` lists them")
    return int(digits)


def incident(db: apsw.Connection, id: str) -> Incident:
    found = rows(db, "select body from incidents where number = ?", (number_of(id),))
    if not found:
        raise NotFound(f"no incident {id!r}", "`hermes incidents` lists them")
    return _decoder.decode(found[0][0])


def incidents(db: apsw.Connection, open: bool | None, limit: int, source: str) -> list[Incident]:
    wanted = "1" if open is None else f"state {'' if open else 'not '}in ({OPEN_STATES})"
    ask = f"select body from incidents where {wanted} and (?1 = '' or source = ?1) "
    found = rows(db, ask + "order by number desc limit ?2", (source, limit))
    return [_decoder.decode(body) for (body,) in found]


def keep(db: apsw.Connection, new: Incident) -> None:
    """Update an incident's row, after checking that it can be decoded."""
    body = msgspec.json.encode(new)
    _decoder.decode(body)
    db.execute(
        "update incidents set state = ?, body = ? where number = ?",
        (new.state, body.decode(), number_of(new.id)),
    )


def change(
    db: apsw.Connection,
    id: str,
    now: float,
    entries: Sequence[NewEntry],
    notices: Sequence[NewNotice],
    expect: frozenset[IncidentState] | None,
    fields: dict[str, Any],
) -> Incident:
    before = incident(db, id)
    if expect is not None and before.state not in expect:
        wanted = " or ".join(sorted(expect))
        raise HermesError(f"incident {id} is {before.state}, not {wanted}", "look at it again")
    if fields.get("state") in ("resolved", "closed") and before.ended is None:
        fields.setdefault("ended", now)
    after = msgspec.structs.replace(before, **{"changed": now, **fields})
    keep(db, after)
    add_entries(db, id, now, entries)
    add_notices(db, id, now, notices)
    return after


def add_entries(
    db: apsw.Connection,
    id: str,
    now: float,
    entries: Sequence[NewEntry],
) -> None:
    number = number_of(id)
    ask = "select coalesce(max(number), 0) from incident_entries where incident = ?"
    last: int = db.execute(ask, (number,)).get
    for place, (kind, text, data) in enumerate(entries, last + 1):
        db.execute(
            "insert into incident_entries values (?, ?, ?, ?, ?, ?)",
            (number, place, now, kind, text, encoded(dict(data))),
        )


def timeline(db: apsw.Connection, id: str, after: int) -> list[TimelineEntry]:
    incident(db, id)
    found = rows(
        db,
        "select number, time, kind, text, data from incident_entries "
        "where incident = ? and number > ? order by number",
        (number_of(id), after),
    )
    return [
        TimelineEntry(id, number, time, kind, text, msgspec.json.decode(data))
        for number, time, kind, text, data in found
    ]


def add_notices(db: apsw.Connection, id: str, now: float, notices: Sequence[NewNotice]) -> None:
    for kind, number, channel, text in notices:
        db.execute(
            "insert or ignore into incident_notices "
            "(incident, kind, number, channel, text, created, due) values (?, ?, ?, ?, ?, ?, ?)",
            (number_of(id), kind, number, channel, text, now, now),
        )
