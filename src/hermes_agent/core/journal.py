"""The store as everything above it sees it. SQLite implements it; another database may."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from hermes_agent.core.events import Event, Recorded
from hermes_agent.core.messages import Prompt, Usage
from hermes_agent.core.records import (
    AuditEntry,
    AuditReport,
    Cost,
    CostKey,
    Found,
    Health,
    Judgement,
    NewSession,
    Parked,
    Question,
    SearchFilter,
    Session,
    SessionMessage,
    Turn,
)


class Journal(Protocol):
    """Every method that writes returns when what it wrote is on disk, or raises `Degraded` having
    written nothing. One process at a time writes; turns are fenced all the same."""

    @property
    def health(self) -> Health: ...

    # sessions
    async def open_session(self, new: NewSession, prompt: Prompt) -> Session: ...

    async def session(self, reference: str) -> Session:
        """By id, by name, or by the unique beginning of an id; `NotFound` otherwise."""
        ...

    async def sessions(
        self, limit: int = 50, *, key: str = "", parent: str | None = None
    ) -> Sequence[Session]:
        """Newest first. `parent`: the children of one session; empty for those that have none."""
        ...

    async def rename_session(self, id: str, name: str) -> None: ...

    async def delete_session(self, id: str) -> None:
        """Remove the session and everything it said, the search index included."""
        ...

    async def prompt(self, digest: str) -> Prompt: ...

    # messages in
    async def receive(self, session: str, message: SessionMessage) -> bool:
        """Keep a message. False when its key was known already: it is kept once."""
        ...

    async def waiting(self, session: str, key: str) -> SessionMessage | None:
        """A message that no turn has taken yet."""
        ...

    async def cancel_message(self, session: str, key: str) -> bool:
        """Take a message back. False when a turn has taken it, or there is none."""
        ...

    async def sessions_with_queued_messages(self) -> Sequence[str]:
        """Sessions with messages that no turn has taken yet."""
        ...

    # turns
    async def start_turn(self, session: str) -> Turn | None:
        """Begin a turn with the messages that wait (`TurnStarted`, then a `MessageTaken` each, in
        one transaction). None when nothing waits or a turn is unfinished."""
        ...

    async def claim_unfinished(self) -> Sequence[Turn]:
        """Make every unfinished turn this process's own, under a new fence. Whoever held one of
        them can write to it no more."""
        ...

    async def take_queued_messages(self, turn: Turn) -> Sequence[Recorded]:
        """Bring the messages that wait into the conversation (`MessageTaken`)."""
        ...

    async def append(self, turn: Turn, *events: Event) -> Sequence[Recorded]:
        """Add events to the turn's session in one transaction. Raises `Fenced` when the turn has
        been taken over. The rows that follow from an event (messages, effects, questions, the
        turn's state) change with it."""
        ...

    async def note(self, session: str, *events: Event) -> Sequence[Recorded]:
        """Add events to a session that no turn works on now."""
        ...

    async def charge(self, model: str, use: str, usage: Usage, cost: float | None) -> int:
        """Count a call that belongs to no session; returns the number of the charge."""
        ...

    async def refund(self, charge: int) -> None:
        """Remove a charge that was made in advance."""
        ...

    async def events(self, session: str, after: int = 0) -> Sequence[Recorded]: ...

    async def last_number(self, session: str) -> int:
        """The number of the session's newest event."""
        ...

    async def unfinished_turn(self, session: str) -> Turn | None: ...

    # lists
    async def parked(self) -> Sequence[Parked]: ...

    async def questions(self) -> Sequence[Question]:
        """Questions nobody has answered, oldest first."""
        ...

    async def judgements(
        self, since: float = 0.0, session: str = "", limit: int = 100_000
    ) -> Sequence[Judgement]:
        """Calls that the gate has judged, newest first."""
        ...

    async def audit(
        self, since: float = 0.0, session: str = "", limit: int = 1000, after: int = 0
    ) -> Sequence[AuditEntry]:
        """The newest entries of the audit log that fit, oldest first."""
        ...

    async def verify_audit(self, head: str = "") -> AuditReport:
        """Recompute the audit log's chain. `head` (`N:HASH`) must be part of it."""
        ...

    async def spent(self, since: float) -> float:
        """Dollars spent by all sessions since a moment."""
        ...

    async def spent_by(self, session: str) -> tuple[float, int]:
        """Dollars and tokens that a session and all below it have used."""
        ...

    async def costs(
        self, by: CostKey, since: float = 0.0, until: float | None = None, session: str = ""
    ) -> Sequence[Cost]:
        """What was spent, by day (UTC, newest first) or by another name, dearest first."""
        ...

    async def search(self, query: str, filter: SearchFilter | None = None) -> Sequence[Found]:
        """Messages that fit all words, best first. `word*` is a prefix, `"a b"` a phrase."""
        ...

    # care
    async def backup(self, target: Path) -> None:
        """Write a consistent copy of the database, checked, to a new file."""
        ...

    async def check(self) -> Sequence[str]:
        """What is wrong with the database, a line each; empty when it is sound."""
        ...

    async def close(self) -> None: ...
