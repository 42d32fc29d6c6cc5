"""What is read back: sessions, events, lists. Each function is one consistent look."""

from collections.abc import Sequence

import apsw
import msgspec

from hermes_agent.core.errors import NotFound
from hermes_agent.core.events import (
    ApprovalGiven,
    CallJudged,
    CallMade,
    Event,
    QuestionAsked,
    Recorded,
    Replied,
    decode,
)
from hermes_agent.core.messages import Prompt, ToolCall, Usage
from hermes_agent.core.records import (
    ChildLimits,
    Judgement,
    Parked,
    Question,
    Session,
    SessionMessage,
    Turn,
)
from hermes_agent.store.blobs import BlobStore
from hermes_agent.store.engine.database import rows
from hermes_agent.store.journal.commands import LIST_HINT, session_key

_SESSION = """
select s.id, s.name, s.title, s.belongs, s.source, s.workspace, s.policy, s.model, s.prompt,
  s.created, s.updated,
  case
    when exists (select 1 from effects where session = s.key and state = 'parked') then 'parked'
    when exists (select 1 from questions where session = s.key) then 'waiting'
    when exists (select 1 from turns where session = s.key and ended is null) then 'running'
    else 'idle'
  end,
  s.messages, s.turns, s.input, s.output, s.cached, s.cost, s.terminals, s.effort,
  s.parent, s.depth, s.share
from sessions s
"""


def _sessions(db: apsw.Connection, rest: str, values: Sequence[str | int]) -> list[Session]:
    found: list[Session] = []
    for row in rows(db, _SESSION + rest, values):
        share = msgspec.json.decode(row[22], type=ChildLimits)
        terminals = tuple(row[18].split(","))
        usage = Usage(*row[14:17])
        found.append(Session(*[*row[:14], usage, row[17], terminals, *row[19:22], share]))
    return found


def session(db: apsw.Connection, reference: str) -> Session:
    exact = _sessions(db, "where s.id = ?1 or (s.name = ?1 and s.name <> '')", (reference,))
    if exact:
        return exact[0]
    end = reference + "\U0010ffff"
    close = _sessions(db, "where s.id >= ? and s.id < ? limit 4", (reference, end))
    if not reference or not close:
        raise NotFound(f"no session {reference!r}", LIST_HINT)
    if len(close) > 1:
        ids = ", ".join(one.id for one in close)
        raise NotFound(f"{reference!r} begins several sessions", f"write more of it: {ids}")
    return close[0]


def sessions(db: apsw.Connection, limit: int, key: str, parent: str | None) -> list[Session]:
    if parent is not None:
        rest = "where s.parent = ? order by s.updated desc, s.key desc limit ?"
        return _sessions(db, rest, (parent, limit))
    if key:
        rest = "where s.belongs = ? and s.belongs <> '' order by s.updated desc, s.key desc limit ?"
        return _sessions(db, rest, (key, limit))
    return _sessions(db, "order by s.updated desc, s.key desc limit ?", (limit,))


def prompt(db: apsw.Connection, digest: str) -> Prompt:
    row = db.execute("select body from prompts where hash = ?", (digest,)).fetchone()
    if row is None:
        raise NotFound(f"no prompt {digest!r}")
    return msgspec.json.decode(row[0], type=Prompt)


def sessions_with_queued_messages(db: apsw.Connection) -> list[str]:
    found = rows(
        db,
        "select s.id from queued_messages i join sessions s on s.key = i.session "
        "where i.body is not null group by s.key order by min(i.id)",
    )
    return [id for (id,) in found]


def waiting(
    db: apsw.Connection, bodies: BlobStore, session: str, key: str
) -> SessionMessage | None:
    ask = "select body from queued_messages where session = ? and key = ? and body is not null"
    row = db.execute(ask, (session_key(db, session), key)).fetchone()
    return None if row is None else msgspec.json.decode(bodies.unpack(row[0]), type=SessionMessage)


def events(db: apsw.Connection, bodies: BlobStore, session: str, after: int) -> list[Recorded]:
    found = rows(
        db,
        "select e.number, e.time, coalesce(e.body, m.body) from events e "
        "left join messages m on m.id = e.message where e.session = ? and e.number > ? "
        "order by e.number",
        (session_key(db, session), after),
    )
    return [
        Recorded(session, number, time, decode(bodies.unpack(body))) for number, time, body in found
    ]


def last_number(db: apsw.Connection, session: str) -> int:
    row = db.execute(
        "select last from sessions where key = ?", (session_key(db, session),)
    ).fetchone()
    return int(row[0]) if row else 0


def unfinished_turn(db: apsw.Connection, session: str) -> Turn | None:
    row = db.execute(
        "select id, fence from turns where session = ? and ended is null",
        (session_key(db, session),),
    ).fetchone()
    return None if row is None else Turn(row[0], session, row[1])


def parked(db: apsw.Connection, bodies: BlobStore) -> list[Parked]:
    found = rows(
        db,
        "select e.id, s.id, e.tool, e.session, e.turn, e.call_id, e.reason, e.settled "
        "from effects e join sessions s on s.key = e.session where e.state = 'parked' "
        "order by e.settled, e.id",
    )
    return [
        Parked(effect, session, tool, _arguments(db, bodies, key, turn, call), reason, since)
        for effect, session, tool, key, turn, call, reason, since in found
    ]


def _arguments(db: apsw.Connection, bodies: BlobStore, key: int, turn: int, call_id: str) -> str:
    """What the call was made with: it stands in the reply that asked for it, or in the event by
    which a program made it."""
    found = rows(
        db,
        "select coalesce(e.body, m.body) from events e left join messages m on m.id = e.message "
        "where e.session = ? and e.turn = ? and e.kind in ('replied', 'call_made') "
        "order by e.number desc",
        (key, turn),
    )
    for (body,) in found:
        for call in _calls(decode(bodies.unpack(body))):
            if call.id == call_id:
                return call.arguments
    return ""


def _calls(event: Event) -> tuple[ToolCall, ...]:
    match event:
        case Replied():
            return event.calls
        case CallMade():
            return (event.call,)
        case _:
            return ()


def questions(db: apsw.Connection, bodies: BlobStore) -> list[Question]:
    open_ones = rows(
        db,
        "select s.id, e.time, e.body, q.session, q.number from questions q "
        "join sessions s on s.key = q.session "
        "join events e on e.session = q.session and e.number = q.number order by e.time, q.id",
    )
    found = []
    for session, time, body, key, number in open_ones:
        asked = decode(bodies.unpack(body))
        assert isinstance(asked, QuestionAsked)
        agreed = _agreed(db, bodies, asked, key, number) if asked.consent.count > 1 else ()
        found.append(
            Question(
                asked.id, session, asked.purpose, asked.text, asked.choices, asked.effect, time,
                asked.expires, asked.consent, agreed, asked.grants, asked.proposal,
            )
        )  # fmt: skip
    return found


def _agreed(
    db: apsw.Connection, bodies: BlobStore, asked: QuestionAsked, key: int, number: int
) -> tuple[str, ...]:
    found = rows(
        db,
        "select body from events where session = ? and number > ? and kind = 'approval_given' "
        "order by number",
        (key, number),
    )
    agreed = [decode(bodies.unpack(body)) for (body,) in found]
    return tuple(one.by for one in agreed if isinstance(one, ApprovalGiven) and one.id == asked.id)


def judgements(
    db: apsw.Connection, bodies: BlobStore, since: float, session: str, limit: int
) -> list[Judgement]:
    """Calls that the gate has judged, newest first."""
    found = rows(
        db,
        "select s.id, s.policy, e.session, e.time, e.body from events e "
        "join sessions s on s.key = e.session where e.kind = 'call_judged' and e.time >= ?1 "
        "and (?2 = '' or s.id = ?2) order by e.time desc, e.number desc limit ?3",
        (since, session, limit),
    )
    known: dict[tuple[int, str], ToolCall] = {}
    given = []
    for id, policy, key, time, body in found:
        judged = decode(bodies.unpack(body))
        assert isinstance(judged, CallJudged)
        if (key, judged.effect) not in known:
            known |= _calls_with(db, bodies, key, id, judged.effect)
        arguments = msgspec.json.encode(known[key, judged.effect].target()[1]).decode()
        given.append(Judgement(id, policy, time, arguments, judged))
    return given


def _calls_with(
    db: apsw.Connection, bodies: BlobStore, key: int, session: str, effect: str
) -> dict[tuple[int, str], ToolCall]:
    """The calls that came with the one of this effect: those of its reply, or of its program."""
    reply, _, inner = effect.partition(".")
    start, _, _ = reply.rpartition("-")
    number = int(start.rpartition("-")[2])
    if not inner:
        body = db.execute(
            "select m.body from events e join messages m on m.id = e.message "
            "where e.session = ? and e.number = ?",
            (key, number),
        ).get
        calls = _calls(decode(bodies.unpack(body)))
        return {(key, f"{session}-{number}-{at}"): call for at, call in enumerate(calls)}
    made = rows(
        db,
        "select body from events where session = ? and number > ? and kind = 'call_made'",
        (key, number),
    )
    events = [decode(bodies.unpack(body)) for (body,) in made]
    return {(key, one.effect): one.call for one in events if isinstance(one, CallMade)}
