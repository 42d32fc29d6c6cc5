"""One message by HTTP: which session it is for, that it is submitted once, and what comes of it."""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.messages import Media
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.runtime.services import Domains

SOURCE = "api"
HOUSE = "hermes"
"""The name under which the agent is offered as a model."""
CONVERSATIONS = 10_000
"""Conversations of clients without a session of their own that are known again."""


class OtherBody(UsageError):
    """A key under which something else was asked before."""


class ClientMessage(Struct, frozen=True):
    """One message of a client's conversation."""

    role: str
    text: str
    files: tuple[Media, ...] = ()


class SubmittedMessage(Struct, frozen=True):
    """A message that was submitted, and where its answer is found."""

    session: Session
    key: str
    after: int
    """The journal's last number before it."""
    new: bool

    @property
    def id(self) -> str:
        return f"{self.session.id}_{self.key}"


class StreamChunk(Struct, frozen=True):
    """News of an exchange: text that was added, an event of the journal, or the end."""

    text: str = ""
    recorded: ev.Recorded | None = None
    end: ev.TurnFinished | None = None


class ApiConversations:
    """Exchanges of one runtime."""

    def __init__(self, domains: Domains) -> None:
        self._context = domains.context
        self._sessions = domains.sessions
        self._known: OrderedDict[str, str] = OrderedDict()

    # names of models

    def models(self) -> list[str]:
        """What a client may ask for."""
        default = self._context.settings.model
        return [HOUSE, *([f"{HOUSE}/{default}"] if default else [])]

    def model(self, name: str) -> str:
        """The model that a client's name stands for; empty for that of the settings."""
        if name in ("", HOUSE):
            return ""
        if not name.startswith(f"{HOUSE}/"):
            raise NotFound(
                f"there is no model {name!r}",
                f"ask for {HOUSE!r}, or for {HOUSE}/SERVICE/NAME",
            )
        return name.removeprefix(f"{HOUSE}/")

    # submitting

    async def go_on(self, session: str, said: ClientMessage, key: str) -> SubmittedMessage:
        """A message to a session that the API opened."""
        _refuse_empty(said)
        found = await self._context.store.session(session)
        if found.source != SOURCE:
            raise NotFound(f"there is no conversation {session!r}", "it was not begun here")
        return await self._submit(found, said, key)

    async def named(
        self,
        name: str,
        said: Sequence[ClientMessage],
        model: str,
        key: str,
        *,
        interactive: bool = False,
    ) -> SubmittedMessage:
        """A message to the conversation that a client calls by a name of its own: what it says
        last, since it knows the rest; all of it when it is new."""
        _refuse_empty(said[-1])
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        session = await self._open(model, f"{SOURCE}:named:{digest}")
        text = await self._begun(session, said) if session.turns == 0 else said[-1]
        return await self._submit(session, text, key, interactive, said)

    async def whole(
        self, said: Sequence[ClientMessage], model: str, key: str, *, interactive: bool = False
    ) -> SubmittedMessage:
        """A message with all that was said before it. Where that is a conversation that was held
        here, it goes on; otherwise what was said is put before the message."""
        _refuse_empty(said[-1])
        # One with a key is for a session of its own: asked again, also after a restart, it must
        # come to the same.
        going_on = len(said) > 1 and not key
        known = self._known.pop(_digest(model, said[:-1]), "") if going_on else ""
        if known:
            return await self._submit(await self._context.store.session(known), said[-1], key)
        belongs = f"{SOURCE}:once:{key}" if key else f"{SOURCE}:{secrets.token_hex(8)}"
        session = await self._open(model, belongs)
        return await self._submit(session, await self._begun(session, said), key, interactive)

    async def _begun(self, session: Session, said: Sequence[ClientMessage]) -> ClientMessage:
        """What a session begins with. Its title is what is asked, not what stands above it."""
        if len(said) > 1:
            await self._sessions.set_title(session, said[-1].text)
        return _rendered(said)

    def remember(
        self, said: Sequence[ClientMessage], model: str, answer: str, session: str
    ) -> None:
        """This conversation is the one that is known again when it goes on."""
        self._known[_digest(model, [*said, ClientMessage("assistant", answer)])] = session
        while len(self._known) > CONVERSATIONS:
            self._known.popitem(last=False)

    async def _open(self, model: str, belongs: str) -> Session:
        settings = self._context.settings.gateway
        folder = settings.workspace
        if not folder:
            own = self._context.home.path / "chats" / SOURCE
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = str(own)
        return await self._sessions.open_session(
            workspace=folder, model=model, policy=settings.api_policy, source=SOURCE,
            key=belongs, once=True,
        )  # fmt: skip

    async def _submit(
        self, session: Session, said: ClientMessage, key: str, interactive: bool = False,
        whole: Sequence[ClientMessage] = (),
    ) -> SubmittedMessage:  # fmt: skip
        key = key_of(key) if key else secrets.token_hex(8)
        after = await self._context.store.last_number(session.id)
        message = SessionMessage(key, said.text, SOURCE, interactive, said.files)
        new = await self._sessions.submit(session, message)
        if not new:
            await self._expect(session, key, [said, *([_rendered(whole)] if whole else [])])
        return SubmittedMessage(session, key, after if new else 0, new)

    async def _expect(self, session: Session, key: str, forms: Sequence[ClientMessage]) -> None:
        """What was asked under this key before is what is asked now. In a conversation with a name
        that was its whole beginning, or the last message alone."""
        before: SessionMessage | ev.MessageTaken | None = await self._context.store.waiting(
            session.id, key
        )
        if before is None:
            events = (one.event for one in await self._context.store.events(session.id))
            taken = (one for one in events if isinstance(one, ev.MessageTaken) and one.key == key)
            before = next(taken, None)
        same = [(self._context.redact(one.text), one.files) for one in forms]
        if before is not None and (before.text, before.files) not in same:
            raise OtherBody(
                "something else was asked under this Idempotency-Key before",
                "send the same request to have its answer, or take another key",
            )

    async def found(self, id: str) -> SubmittedMessage:
        """The exchange of that id."""
        session, _, key = id.partition("_")
        try:
            found = await self._context.store.session(session)
        except HermesError:
            raise NotFound(f"there is no {id!r}", "it may have been deleted") from None
        if found.source != SOURCE or found.id != session or not key:
            raise NotFound(f"there is no {id!r}", "it was not begun here")
        return SubmittedMessage(found, key, 0, False)

    # what comes of it

    async def pieces(
        self, exchange: SubmittedMessage, after: int = 0
    ) -> AsyncGenerator[StreamChunk]:
        """What happens from when the message was taken until its turn is over. Text comes as it is
        written; what was lost on the way is made up for when a reply is whole."""
        streamed, voided = "", False
        since = max(exchange.after, after)
        news = self._sessions.follow(exchange.session.id, exchange.key, since)
        try:
            async for one, taken in news:
                event = one.event
                if not taken and after == 0:
                    continue
                if isinstance(event, ev.TextArrived):
                    streamed += event.text
                    if not voided:
                        yield StreamChunk(event.text)
                elif isinstance(event, ev.TextVoided):
                    voided = voided or bool(streamed)
                elif isinstance(event, ev.Replied):
                    if rest := _rest(event.text, streamed, voided):
                        yield StreamChunk(rest, one)
                    else:
                        yield StreamChunk(recorded=one)
                    if event.calls and event.text:
                        yield StreamChunk("\n\n")
                    streamed, voided = "", False
                elif isinstance(event, ev.TurnFinished):
                    yield StreamChunk(recorded=one, end=event)
                    return
                else:
                    yield StreamChunk(recorded=one)
        finally:
            await news.aclose()

    async def end(self, exchange: SubmittedMessage) -> ev.TurnFinished:
        """How the turn of a message ended, when it has."""
        async for piece in self.pieces(exchange):
            if piece.end is not None:
                return piece.end
        raise HermesError("the runtime is stopping", "ask again in a moment")

    async def so_far(self, exchange: SubmittedMessage) -> tuple[bool, ev.TurnFinished | None]:
        """Whether the message was taken yet, and how its turn ended."""
        taken = False
        for one in await self._context.store.events(exchange.session.id):
            if isinstance(one.event, ev.MessageTaken) and one.event.key == exchange.key:
                taken = True
            elif taken and isinstance(one.event, ev.TurnFinished):
                return True, one.event
        return taken, None


def _refuse_empty(said: ClientMessage) -> None:
    if not said.text.strip() and not said.files:
        raise UsageError("the message is empty", "give a text")


def _rest(text: str, streamed: str, voided: bool) -> str:
    """What of a whole reply was not streamed."""
    if not voided and text.startswith(streamed):
        return text[len(streamed) :]
    return "" if text == streamed and not voided else f"\n\n{text}"


def _rendered(said: Sequence[ClientMessage]) -> ClientMessage:
    """A conversation as one message: what was said before stands above, marked as that."""
    *before, last = said
    if not before:
        return last
    house = "\n\n".join(one.text for one in before if one.role in ("system", "developer"))
    rest = [one for one in before if one.role not in ("system", "developer")]
    parts = []
    if house:
        parts.append(f"What the program that asks wants you to keep to:\n{house}")
    if rest:
        lines = "\n\n".join(f"{one.role}: {one.text}" for one in rest)
        parts.append(f"What was said before, elsewhere:\n{lines}")
    files = tuple(file for one in said for file in one.files)
    return ClientMessage(
        last.role, "\n\n".join([*parts, f"What is asked now:\n{last.text}"]), files
    )


def _digest(model: str, said: Sequence[ClientMessage]) -> str:
    """The same for the same conversation."""
    made = hashlib.sha256(model.encode())
    for one in said:
        for part in (one.role, one.text.strip(), *(file.name for file in one.files)):
            made.update(b"\0" + part.encode())
    return made.hexdigest()


def key_of(given: str) -> str:
    """A client's key, of a length and with letters that an id can have."""
    return hashlib.sha256(given.encode()).hexdigest()[:24]
