"""Stores conversations that another agent held. Their events are older than those before them in
the journal, so their ids are negative: the positive ones keep growing with time."""

from collections.abc import Sequence

from hermes_agent.core.events import MessageTaken, Replied, SessionTitled, TurnFinished, TurnStarted
from hermes_agent.core.records import ImportedTurn
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.journal import commands
from hermes_agent.store.journal.append import AppendCursor, add_events

KEY = "import:"
"""Prefix of the keys of imported messages."""


def import_turns(
    db: Connection, session: str, title: str, turns: Sequence[ImportedTurn], dry: bool = False
) -> tuple[int, bool]:
    """Add the turns that are not in the session yet; returns how many. Adds none, and returns
    True, if the session was continued here and there are new ones. With `dry`, only counts."""
    cursor = commands.cursor_at(db, session)
    rows = db.rows("select key from queued_messages where session = ?", (cursor.key,))
    known = {str(key) for (key,) in rows}
    fresh = [turn for turn in turns if KEY + turn.key not in known]
    if fresh and any(not key.startswith(KEY) for key in known):
        return 0, True
    if dry:
        return len(fresh), False
    cursor.imported = True
    if fresh and not known:
        cursor.now = fresh[0].time
        db.execute("update sessions set created = ? where key = ?", (cursor.now, cursor.key))
        if title:
            add_events(cursor, [SessionTitled(title)])
    for turn in fresh:
        _add_turn(cursor, turn)
    return len(fresh), False


def _add_turn(cursor: AppendCursor, turn: ImportedTurn) -> None:
    db, ended = cursor.db, max([turn.time, *(time for time, _ in turn.replies)])
    db.execute(
        "insert into turns (session, fence, state, started, ended) values (?, ?, 'done', ?, ?)",
        (cursor.key, commands.fence_of(db), turn.time, ended),
    )
    cursor.turn, cursor.now = db.last_insert_rowid(), turn.time
    taken = MessageTaken(KEY + turn.key, turn.text, cursor.source)
    add_events(cursor, [TurnStarted(cursor.turn), taken])
    for step, (time, text) in enumerate(turn.replies, 1):
        cursor.now = time
        add_events(cursor, [Replied(step, text, model=turn.model, cost=0.0)])
    cursor.now = ended
    last = turn.replies[-1][1] if turn.replies else ""
    end = TurnFinished(cursor.turn, "done", last, steps=len(turn.replies), cost=0.0)
    add_events(cursor, [end])
    db.execute("update sessions set turns = turns + 1 where key = ?", (cursor.key,))
