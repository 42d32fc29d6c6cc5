"""What domains need from the runtime that hosts them, as protocols."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol

from hermes_agent.core import events as ev
from hermes_agent.core.incidents import IngestResult, Signal
from hermes_agent.core.knowledge import Outcome
from hermes_agent.core.records import NO_SHARE, ChildLimits, Session, SessionMessage


class Sessions(Protocol):
    """Opens sessions, sends them messages, and follows their turns."""

    async def open_session(
        self,
        *,
        workspace: str,
        model: str = "",
        policy: str = "",
        name: str = "",
        source: str = "cli",
        key: str = "",
        once: bool = False,
        terminals: Sequence[str] = (),
        effort: str = "",
        use: Sequence[str] | None = None,
        parent: str = "",
        share: ChildLimits = NO_SHARE,
        needs_model: bool = True,
    ) -> Session: ...

    async def submit(self, session: Session, message: SessionMessage) -> bool: ...

    def events(self, session: str, after: int = 0) -> AsyncGenerator[ev.Recorded]: ...

    def follow(
        self, session: str, key: str, after: int = 0
    ) -> AsyncGenerator[tuple[ev.Recorded, bool]]: ...

    async def finished(self, session: str, key: str) -> ev.TurnFinished: ...

    async def interrupt(self, session: str, by: str = "") -> bool: ...

    async def delete_session(self, session: Session) -> list[str]: ...

    async def add(self, session: Session, *events: ev.Event) -> None: ...

    async def set_title(self, session: Session, said: str) -> None: ...

    async def answer(self, id: str, answer: str, by: str, names: Sequence[str] = ()) -> None: ...

    async def decide(self, effect: str, decision: str, by: str) -> None: ...

    async def settle(self) -> None: ...

    async def wait_idle(self, session: str) -> None: ...

    @property
    def working(self) -> set[str]: ...

    @property
    def has_resumed(self) -> bool: ...

    @property
    def is_stopping(self) -> bool: ...


class SwitchModel(Protocol):
    """Switches a session's model from its next request on."""

    async def __call__(
        self, session: Session, model: str, effort: str, by: str, anyway: bool
    ) -> object: ...


RaiseSignal = Callable[[Signal], Awaitable[IngestResult]]
OutcomeOf = Callable[[Session], Awaitable[tuple[Outcome, str]]]
"""How a session has gone so far, and why."""
