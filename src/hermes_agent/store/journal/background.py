"""Background commands whose end has to be reported. Rows follow from events; `send_message` adds
the messages to send at the end."""

from collections.abc import Sequence

import msgspec

from hermes_agent.core.events import CallFinished, CommandEnded, encode
from hermes_agent.core.records import AfterCommand, BackgroundCommand
from hermes_agent.store.engine.connection import Connection

ENDED = frozenset({"exited", "timeout", "stopped", "lost"})
_messages = msgspec.json.Decoder(tuple[AfterCommand, ...])


def note_call(db: Connection, session: int, event: CallFinished) -> None:
    """A command was started in the background, or the model has read its end."""
    data, id = event.data, event.data.get("id")
    known = data.get("state") in ENDED
    if event.tool == "terminal" and data.get("background") and data.keys() >= {"wake", "terminal"}:
        db.execute(
            "insert or ignore into background_commands (id, session, terminal, wake, known) "
            "values (?, ?, ?, ?, ?)",
            (id, session, data["terminal"], bool(data["wake"]), known),
        )
    elif event.tool == "process" and known:
        db.execute(
            "update background_commands set known = 1 where id = ? and session = ?",
            (id, session),
        )


def note_end(db: Connection, event: CommandEnded) -> None:
    db.execute(
        "update background_commands set ended = ?, wake = ? where id = ?",
        (encode(event).decode(), event.wake, event.effect),
    )


def background_commands(db: Connection, session: str = "", id: str = "") -> list[BackgroundCommand]:
    """Those whose end has not been reported yet, of all sessions or of one."""
    found = db.rows(
        "select b.id, s.id, b.terminal, b.wake, b.known, b.ended, b.messages "
        "from background_commands b join sessions s on s.key = b.session "
        "where (?1 = '' or s.id = ?1) and (?2 = '' or b.id = ?2)",
        (session, id),
    )
    return [
        BackgroundCommand(
            command, at, terminal, bool(wake), bool(known),
            None if ended is None else msgspec.json.decode(ended, type=CommandEnded),
            _messages.decode(messages),
        )
        for command, at, terminal, wake, known, ended, messages in found
    ]  # fmt: skip


def add_after_command(db: Connection, id: str, messages: Sequence[AfterCommand]) -> bool:
    """Have messages sent when a command ends, each key once to a target. False if its end was
    reported."""
    row = db.execute("select messages from background_commands where id = ?", (id,)).fetchone()
    if row is None:
        return False
    kept = {(one.key, one.target): one for one in (*_messages.decode(row[0]), *messages)}
    db.execute(
        "update background_commands set messages = ? where id = ?",
        (msgspec.json.encode(list(kept.values())).decode(), id),
    )
    return True


def command_reported(db: Connection, id: str, messages: Sequence[AfterCommand]) -> bool:
    """Its end is reported, with these messages. False if there are more."""
    db.execute(
        "delete from background_commands where id = ? and messages = ?",
        (id, msgspec.json.encode(messages).decode()),
    )
    return db.changes() == 1
