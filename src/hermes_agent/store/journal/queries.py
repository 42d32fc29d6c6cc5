"""Queries of sessions, turns and events."""

from collections.abc import Sequence

import msgspec

from hermes_agent.core.errors import HermesError, NotFound, UsageError
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
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.health import RESTORE

LIST_HINT = "`hermes sessions list` shows them"

_SESSION = """
select s.id, s.name, s.title, s.belongs, s.source, s.workspace, s.policy, s.model, s.prompt,
  s.created, s.updated,
  case
    when exists (select 1 from effects where session = s.key and state = 'parked') then 'parked'
    when exists (select 1 from questions where session = s.key) then 'waiting'
    when exists (select 1 from turns where session = s.key and ended is null) then 'running'
    when s.parent = '' and s.source not in ('job', 'incident', 'proof') and 'budget' =
      (select state from turns where session = s.key order by id desc limit 1) then 'paused'
    else 'idle'
  end,
  s.messages, s.turns, s.input, s.output, s.cached, s.cost, s.terminals, s.effort,
  s.parent, s.depth, s.share, s.branch_of, s.branch_at
from sessions s
"""


def session_key(db: Connection, id: str) -> int:
    row = db.execute("select key from sessions where id = ?", (id,)).fetchone()
    if row is None:
        raise NotFound(f"no session {id!r}", LIST_HINT)
    return int(row[0])


def _sessions(db: Connection, rest: str, values: Sequence[str | int]) -> list[Session]:
    found: list[Session] = []
    for row in db.rows(_SESSION + rest, values):
        share = msgspec.json.decode(row[22], type=ChildLimits)
        terminals = tuple(row[18].split(","))
        usage = Usage(*row[14:17])
        found.append(
            Session(*[*row[:14], usage, row[17], terminals, *row[19:22], share, *row[23:]])
        )
    return found


def session(db: Connection, reference: str) -> Session:
    """By id, name or unique prefix of an id; `NotFound` otherwise."""
    exact = _sessions(db, "where s.id = ?1 or (s.name = ?1 and s.name <> '')", (reference,))
    if exact:
        return exact[0]
    end = reference + "\U0010ffff"
    close = _sessions(db, "where s.id >= ? and s.id < ? limit 4", (reference, end))
    if not reference or not close:
        raise NotFound(f"no session {reference!r}", LIST_HINT)
    if len(close) > 1:
        ids = ", ".join(one.id for one in close)
        raise NotFound(f"several sessions begin with {reference!r}", f"type more of it: {ids}")
    return close[0]


def root_session(db: Connection, id: str) -> Session:
    """The session that a subagent works for in the end; of others, itself."""
    found = session(db, id)
    while found.parent:
        found = session(db, found.parent)
    return found


def sessions(
    db: Connection, limit: int = 50, *, key: str = "", parent: str | None = None
) -> list[Session]:
    """Newest first. `parent`: the children of one session; empty for sessions without a parent."""
    if parent is not None:
        rest = "where s.parent = ? order by s.updated desc, s.key desc limit ?"
        return _sessions(db, rest, (parent, limit))
    if key:
        rest = "where s.belongs = ? and s.belongs <> '' order by s.updated desc, s.key desc limit ?"
        return _sessions(db, rest, (key, limit))
    return _sessions(db, "order by s.updated desc, s.key desc limit ?", (limit,))


def prompt(db: Connection, digest: str) -> Prompt:
    row = db.execute("select body from prompts where hash = ?", (digest,)).fetchone()
    if row is None:
        raise NotFound(f"no prompt {digest!r}")
    return msgspec.json.decode(row[0], type=Prompt)


def sessions_with_queued_messages(db: Connection) -> list[str]:
    """Sessions with messages that no turn has taken yet."""
    found = db.rows(
        "select s.id from queued_messages i join sessions s on s.key = i.session "
        "where i.body is not null group by s.key order by min(i.place)",
    )
    return [id for (id,) in found]


def waiting(db: Connection, session: str, key: str) -> SessionMessage | None:
    """A queued message that no turn has taken yet."""
    sql = "select body from queued_messages where session = ? and key = ? and body is not null"
    row = db.execute(sql, (session_key(db, session), key)).fetchone()
    return (
        None if row is None else msgspec.json.decode(db.blobs.unpack(row[0]), type=SessionMessage)
    )


def events(db: Connection, session: str, after: int = 0) -> list[Recorded]:
    found = db.rows(
        "select number, time, body from events where session = ? and number > ? order by number",
        (session_key(db, session), after),
    )
    try:
        return [
            Recorded(session, number, time, decode(db.blobs.unpack(body)))
            for number, time, body in found
        ]
    except (HermesError, msgspec.MsgspecError) as error:
        why = error.message if isinstance(error, HermesError) else str(error)
        raise HermesError(f"session {session} is damaged: {why}", RESTORE) from error


def last_number(db: Connection, session: str) -> int:
    """The number of the session's newest event."""
    row = db.execute(
        "select last from sessions where key = ?", (session_key(db, session),)
    ).fetchone()
    return int(row[0]) if row else 0


def unfinished_turn(db: Connection, session: str) -> Turn | None:
    row = db.execute(
        "select id, fence from turns where session = ? and ended is null",
        (session_key(db, session),),
    ).fetchone()
    return None if row is None else Turn(row[0], session, row[1])


def check_at_rest(db: Connection, id: str) -> None:
    """Raise if a turn of the session runs, waits or is about to start."""
    stop = f"or stop the turn: `hermes interrupt {id}`"
    match session(db, id).state:
        case "parked":
            trouble = "has effects with an unknown outcome", "decide them first: `hermes parked`"
        case "waiting":
            trouble = "has an open question", f"answer it first: `hermes approvals`, {stop}"
        case "running":
            trouble = "is working", f"wait until it has finished, {stop}"
        case _ if id in sessions_with_queued_messages(db):
            trouble = "has a message that is not answered yet", f"wait for the answer, {stop}"
        case _:
            return
    raise UsageError(f"session {id} {trouble[0]}", trouble[1])


def parked(
    db: Connection,
) -> list[Parked]:
    found = db.rows(
        "select e.id, s.id, e.tool, e.session, e.turn, e.call_id, e.reason, e.settled "
        "from effects e join sessions s on s.key = e.session where e.state = 'parked' "
        "order by e.settled, e.id",
    )
    return [
        Parked(effect, session, tool, _arguments(db, key, turn, call), reason, since)
        for effect, session, tool, key, turn, call, reason, since in found
    ]


def _arguments(db: Connection, key: int, turn: int, call_id: str) -> str:
    """The arguments of a call, from the reply that asked for it or the event of the program that
    made it."""
    found = db.rows(
        "select body from events where session = ? and turn = ? "
        "and kind in ('replied', 'call_made') order by number desc",
        (key, turn),
    )
    for (body,) in found:
        for call in _calls(decode(db.blobs.unpack(body))):
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


def questions(
    db: Connection,
) -> list[Question]:
    """Open questions, oldest first."""
    open_ones = db.rows(
        "select s.id, e.time, e.body, q.session, q.number from questions q "
        "join sessions s on s.key = q.session "
        "join events e on e.session = q.session and e.number = q.number order by e.time, q.id",
    )
    found = []
    for session, time, body, key, number in open_ones:
        asked = decode(db.blobs.unpack(body))
        assert isinstance(asked, QuestionAsked)
        agreed = _agreed(db, asked, key, number) if asked.consent.count > 1 else ()
        found.append(
            Question(
                asked.id, session, asked.purpose, asked.text, asked.choices, asked.effect, time,
                asked.expires, asked.consent, agreed, asked.grants, asked.proposal,
                asked.reason, asked.change, asked.risks, asked.where,
            )
        )  # fmt: skip
    return found


def _agreed(db: Connection, asked: QuestionAsked, key: int, number: int) -> tuple[str, ...]:
    found = db.rows(
        "select body from events where session = ? and number > ? and kind = 'approval_given' "
        "order by number",
        (key, number),
    )
    agreed = [decode(db.blobs.unpack(body)) for (body,) in found]
    return tuple(one.by for one in agreed if isinstance(one, ApprovalGiven) and one.id == asked.id)


def judgements(
    db: Connection, since: float = 0.0, session: str = "", limit: int = 100_000
) -> list[Judgement]:
    """Calls that the gate has judged, newest first."""
    found = db.rows(
        "select s.id, s.policy, e.session, e.time, e.body from events e "
        "join sessions s on s.key = e.session where e.kind = 'call_judged' and e.time >= ?1 "
        "and e.number > s.branch_at "
        "and (?2 = '' or s.id = ?2) order by e.time desc, e.number desc limit ?3",
        (since, session, limit),
    )
    known: dict[tuple[int, str], ToolCall] = {}
    given = []
    for id, policy, key, time, body in found:
        judged = decode(db.blobs.unpack(body))
        assert isinstance(judged, CallJudged)
        if (key, judged.effect) not in known:
            known |= _calls_with(db, key, id, judged.effect)
        arguments = msgspec.json.encode(known[key, judged.effect].target()[1]).decode()
        given.append(Judgement(id, policy, time, arguments, judged))
    return given


def _calls_with(
    db: Connection, key: int, session: str, effect: str
) -> dict[tuple[int, str], ToolCall]:
    """The calls made together with this effect: those of the same reply, or of the same program."""
    reply, _, inner = effect.partition(".")
    start, _, _ = reply.rpartition("-")
    number = int(start.rpartition("-")[2])
    if not inner:
        reply_body = "select body from events where session = ? and number = ?"
        body = db.execute(reply_body, (key, number)).get
        calls = _calls(decode(db.blobs.unpack(body)))
        return {(key, f"{session}-{number}-{at}"): call for at, call in enumerate(calls)}
    made = db.rows(
        "select body from events where session = ? and number > ? and kind = 'call_made'",
        (key, number),
    )
    events = [decode(db.blobs.unpack(body)) for (body,) in made]
    return {(key, one.effect): one.call for one in events if isinstance(one, CallMade)}
