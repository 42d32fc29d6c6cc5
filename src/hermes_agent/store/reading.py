"""What is read back: sessions, events, lists. Each function is one consistent look."""

from collections.abc import Sequence

import apsw
import msgspec

from hermes_agent.core.errors import NotFound
from hermes_agent.core.events import Agreed, Asked, CallJudged, Recorded, Replied, decode
from hermes_agent.core.messages import Prompt, Usage
from hermes_agent.core.records import Judgement, Parked, Question, Session, Turn
from hermes_agent.store.bodies import Bodies
from hermes_agent.store.database import rows
from hermes_agent.store.writing import LIST_HINT, session_key

_SESSION = """
select s.id, s.name, s.title, s.belongs, s.source, s.workspace, s.policy, s.model, s.prompt,
  s.created, s.updated,
  case
    when exists (select 1 from effects where session = s.key and state = 'parked') then 'parked'
    when exists (select 1 from questions where session = s.key) then 'waiting'
    when exists (select 1 from turns where session = s.key and ended is null) then 'running'
    else 'idle'
  end,
  s.messages, s.turns, s.input, s.output, s.cached, s.cost, s.terminals, s.effort
from sessions s
"""


def _sessions(db: apsw.Connection, rest: str, values: Sequence[str | int]) -> list[Session]:
    found: list[Session] = []
    for row in rows(db, _SESSION + rest, values):
        fields = [*row[:14], Usage(*row[14:17]), row[17], tuple(row[18].split(",")), row[19]]
        found.append(Session(*fields))
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


def sessions(db: apsw.Connection, limit: int, key: str) -> list[Session]:
    if key:
        rest = "where s.belongs = ? and s.belongs <> '' order by s.updated desc, s.key desc limit ?"
        return _sessions(db, rest, (key, limit))
    return _sessions(db, "order by s.updated desc, s.key desc limit ?", (limit,))


def prompt(db: apsw.Connection, digest: str) -> Prompt:
    row = db.execute("select body from prompts where hash = ?", (digest,)).fetchone()
    if row is None:
        raise NotFound(f"no prompt {digest!r}")
    return msgspec.json.decode(row[0], type=Prompt)


def sessions_with_mail(db: apsw.Connection) -> list[str]:
    found = rows(
        db,
        "select s.id from inbox i join sessions s on s.key = i.session "
        "where i.body is not null group by s.key order by min(i.id)",
    )
    return [id for (id,) in found]


def events(db: apsw.Connection, bodies: Bodies, session: str, after: int) -> list[Recorded]:
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


def parked(db: apsw.Connection, bodies: Bodies) -> list[Parked]:
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


def _arguments(db: apsw.Connection, bodies: Bodies, key: int, turn: int, call_id: str) -> str:
    """What the call was made with: it stands in the reply that asked for it."""
    found = rows(
        db,
        "select m.body from events e join messages m on m.id = e.message where e.session = ? "
        "and e.turn = ? and e.kind = 'replied' order by e.number desc",
        (key, turn),
    )
    for (body,) in found:
        reply = decode(bodies.unpack(body))
        assert isinstance(reply, Replied)
        for call in reply.calls:
            if call.id == call_id:
                return call.arguments
    return ""


def questions(db: apsw.Connection, bodies: Bodies) -> list[Question]:
    open_ones = rows(
        db,
        "select s.id, e.time, e.body, q.session, q.number from questions q "
        "join sessions s on s.key = q.session "
        "join events e on e.session = q.session and e.number = q.number order by e.time, q.id",
    )
    found = []
    for session, time, body, key, number in open_ones:
        asked = decode(bodies.unpack(body))
        assert isinstance(asked, Asked)
        agreed = _agreed(db, bodies, asked, key, number) if asked.consent.count > 1 else ()
        found.append(
            Question(
                asked.id, session, asked.purpose, asked.text, asked.choices, asked.effect, time,
                asked.expires, asked.consent, agreed, asked.grants, asked.proposal,
            )
        )  # fmt: skip
    return found


def _agreed(
    db: apsw.Connection, bodies: Bodies, asked: Asked, key: int, number: int
) -> tuple[str, ...]:
    found = rows(
        db,
        "select body from events where session = ? and number > ? and kind = 'agreed' "
        "order by number",
        (key, number),
    )
    agreed = [decode(bodies.unpack(body)) for (body,) in found]
    return tuple(one.by for one in agreed if isinstance(one, Agreed) and one.id == asked.id)


def judgements(
    db: apsw.Connection, bodies: Bodies, since: float, session: str, limit: int
) -> list[Judgement]:
    """Calls that the gate has judged, newest first."""
    found = rows(
        db,
        "select s.id, s.policy, e.session, e.time, e.body from events e "
        "join sessions s on s.key = e.session where e.kind = 'call_judged' and e.time >= ?1 "
        "and (?2 = '' or s.id = ?2) order by e.time desc, e.number desc limit ?3",
        (since, session, limit),
    )
    replies: dict[tuple[int, str], Replied] = {}
    given = []
    for id, policy, key, time, body in found:
        judged = decode(bodies.unpack(body))
        assert isinstance(judged, CallJudged)
        start, _, index = judged.effect.rpartition("-")
        if (key, start) not in replies:
            replies[key, start] = _reply(db, bodies, key, int(start.rpartition("-")[2]))
        arguments = replies[key, start].calls[int(index)].arguments
        given.append(Judgement(id, policy, time, arguments, judged))
    return given


def _reply(db: apsw.Connection, bodies: Bodies, key: int, number: int) -> Replied:
    body = db.execute(
        "select m.body from events e join messages m on m.id = e.message "
        "where e.session = ? and e.number = ?",
        (key, number),
    ).get
    reply = decode(bodies.unpack(body))
    assert isinstance(reply, Replied)
    return reply
