"""Maps API requests to sessions: submits each message once and streams what comes of it."""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.host.http_listener import body_within
from hermes_agent.runtime.services import Domains
from hermes_agent.web.schemas import (
    IDEMPOTENCY_KEY,
    SESSION,
    ClientMessage,
    KeyReused,
    failure,
)

SOURCE = "api"
MODEL = "hermes"
"""The name under which the agent is offered as a model."""
CONVERSATIONS = 10_000
"""Conversations without a name that are recognized when they continue."""
MAX_BYTES = 20_000_000
"""Size limit of a request, with its images."""
POLL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0

T = TypeVar("T")


class SubmittedMessage(Struct, frozen=True):
    session: Session
    key: str
    after: int
    """The last number of the journal before the message."""
    new: bool

    @property
    def id(self) -> str:
        return f"{self.session.id}_{self.key}"


class StreamChunk(Struct, frozen=True):
    """Added text, an event of the journal, or the end of the turn."""

    text: str = ""
    recorded: ev.Recorded | None = None
    end: ev.TurnFinished | None = None


class ApiConversations:
    def __init__(self, domains: Domains) -> None:
        self.context = domains.context
        self.sessions = domains.sessions
        self._known: OrderedDict[str, str] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def decode(self, request: Request, kind: type[T]) -> T:
        return msgspec.json.decode(await body_within(request, MAX_BYTES), type=kind)

    # names of models

    def models(self) -> list[str]:
        """The model names that clients may use."""
        default = self.context.settings.model
        return [MODEL, *([f"{MODEL}/{default}"] if default else [])]

    def model(self, name: str) -> str:
        """The model behind a client's name for it; empty for the one in the settings."""
        if name in ("", MODEL):
            return ""
        if not name.startswith(f"{MODEL}/"):
            raise NotFound(
                f"there is no model {name!r}",
                f"use {MODEL!r} or {MODEL}/SERVICE/NAME",
            )
        return name.removeprefix(f"{MODEL}/")

    # submitting

    async def begin(
        self, request: Request, said: Sequence[ClientMessage], model: str
    ) -> SubmittedMessage:
        key, name = request.headers.get(IDEMPOTENCY_KEY, ""), request.headers.get(SESSION, "")
        return await self.submit(name, said, model, key)

    async def submit(
        self, name: str, said: Sequence[ClientMessage], model: str, key: str, *,
        interactive: bool = False,
    ) -> SubmittedMessage:  # fmt: skip
        """Submits a client's conversation, which may have a name and an idempotency key."""
        submit = self._named if name else self._unnamed
        return await submit(name, said, self.model(model), key, interactive)

    async def resume(self, session: str, said: ClientMessage, key: str) -> SubmittedMessage:
        """Submits a message to a session that the API opened."""
        _refuse_empty(said)
        found = await self.context.store.session(session)
        if found.source != SOURCE:
            raise NotFound(f"there is no conversation {session!r}", "it was not started here")
        return await self._submit(found, said, key)

    async def _named(
        self, name: str, said: Sequence[ClientMessage], model: str, key: str, interactive: bool
    ) -> SubmittedMessage:
        """Submits to the conversation with the client's name: the last message, or all of them
        if it is new."""
        _refuse_empty(said[-1])
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        session = await self._open(model, f"{SOURCE}:named:{digest}")
        text = await self._begun(session, said) if session.turns == 0 else said[-1]
        return await self._submit(session, text, key, interactive, said)

    async def _unnamed(
        self, _name: str, said: Sequence[ClientMessage], model: str, key: str, interactive: bool
    ) -> SubmittedMessage:
        """Submits a message with its whole history. If that is a known conversation, it continues;
        otherwise the history is put before the message."""
        _refuse_empty(said[-1])
        # A key has its own session: a repeated request must find it, also after a restart.
        continues = len(said) > 1 and not key
        known = self._known.pop(_digest(model, said[:-1]), "") if continues else ""
        if known:
            return await self._submit(await self.context.store.session(known), said[-1], key)
        belongs = f"{SOURCE}:once:{key}" if key else f"{SOURCE}:{secrets.token_hex(8)}"
        session = await self._open(model, belongs)
        return await self._submit(session, await self._begun(session, said), key, interactive)

    async def _begun(self, session: Session, said: Sequence[ClientMessage]) -> ClientMessage:
        """The first message of a session. The title is the question, not the history above it."""
        if len(said) > 1:
            await self.sessions.set_title(session, said[-1].text)
        return _rendered(said)

    def remember(
        self, request: Request, said: Sequence[ClientMessage], model: str, answer: str,
        exchange: SubmittedMessage,
    ) -> None:  # fmt: skip
        """Recognizes a conversation without a name or key when it continues."""
        if SESSION in request.headers or IDEMPOTENCY_KEY in request.headers:
            return
        digest = _digest(self.model(model), [*said, ClientMessage("assistant", answer)])
        self._known[digest] = exchange.session.id
        while len(self._known) > CONVERSATIONS:
            self._known.popitem(last=False)

    async def _open(self, model: str, belongs: str) -> Session:
        settings = self.context.settings.gateway
        folder = settings.workspace
        if not folder:
            own = self.context.home.path / "chats" / SOURCE
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = str(own)
        return await self.sessions.open_session(
            workspace=folder, model=model, policy=settings.api_policy, source=SOURCE,
            key=belongs, once=True,
        )  # fmt: skip

    async def _submit(
        self, session: Session, said: ClientMessage, key: str, interactive: bool = False,
        whole: Sequence[ClientMessage] = (),
    ) -> SubmittedMessage:  # fmt: skip
        key = key_of(key) if key else secrets.token_hex(8)
        after = await self.context.store.last_number(session.id)
        message = SessionMessage(key, said.text, SOURCE, interactive, said.files)
        new = await self.sessions.submit(session, message)
        if not new:
            await self._expect(session, key, [said, *([_rendered(whole)] if whole else [])])
        return SubmittedMessage(session, key, after if new else 0, new)

    async def _expect(self, session: Session, key: str, forms: Sequence[ClientMessage]) -> None:
        """Raises unless the key was used for the same request. In a named conversation that was its
        whole beginning, or the last message alone."""
        before: SessionMessage | ev.MessageTaken | None = await self.context.store.waiting(
            session.id, key
        )
        if before is None:
            events = (one.event for one in await self.context.store.events(session.id))
            taken = (one for one in events if isinstance(one, ev.MessageTaken) and one.key == key)
            before = next(taken, None)
        same = [(self.context.redact(one.text), one.files) for one in forms]
        if before is not None and (before.text, before.files) not in same:
            raise KeyReused(
                "this Idempotency-Key was used for another request",
                "send the same request to get its answer, or use another key",
            )

    async def found(self, id: str) -> SubmittedMessage:
        """The message with this id."""
        session, _, key = id.partition("_")
        try:
            found = await self.context.store.session(session)
        except HermesError:
            raise NotFound(f"there is no {id!r}", "it may have been deleted") from None
        if found.source != SOURCE or found.id != session or not key:
            raise NotFound(f"there is no {id!r}", "it was not started here")
        return SubmittedMessage(found, key, 0, False)

    # following

    async def chunks(
        self, exchange: SubmittedMessage, after: int = 0
    ) -> AsyncGenerator[StreamChunk]:
        """Follows a message until its turn is over. Text is streamed; what was lost on the way
        follows when a reply is complete."""
        streamed, voided = "", False
        since = max(exchange.after, after)
        news = self.sessions.follow(exchange.session.id, exchange.key, since)
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
        """Waits for the end of the turn."""
        async for piece in self.chunks(exchange):
            if piece.end is not None:
                return piece.end
        raise HermesError("the runtime is stopping", "ask again in a moment")

    async def so_far(self, exchange: SubmittedMessage) -> tuple[bool, ev.TurnFinished | None]:
        """Whether the message was taken, and how its turn ended."""
        taken = False
        for one in await self.context.store.events(exchange.session.id):
            if isinstance(one.event, ev.MessageTaken) and one.event.key == exchange.key:
                taken = True
            elif taken and isinstance(one.event, ev.TurnFinished):
                return True, one.event
        return taken, None

    # requests that wait

    async def ended(self, request: Request, exchange: SubmittedMessage) -> ev.TurnFinished:
        """Waits for the end of the turn while the client stays connected."""
        waiting = asyncio.ensure_future(self.end(exchange))
        try:
            while not (await asyncio.wait({waiting}, timeout=POLL_SECONDS))[0]:
                if await request.is_disconnected():
                    await self.left(request, exchange)
                    raise HermesError("the client disconnected")
            end = waiting.result()
        finally:
            waiting.cancel()
        if (error := failure(end)) is not None:
            raise error
        return end

    async def watched(
        self, request: Request, exchange: SubmittedMessage, after: int = 0
    ) -> AsyncGenerator[StreamChunk | None]:
        """The chunks of a message, with None as keep-alive. A client that disconnects early stops
        the turn, unless the request has an idempotency key."""
        over = False
        news = self.chunks(exchange, after)
        following: asyncio.Task[StreamChunk] | None = None
        try:
            while not over:
                following = following or asyncio.ensure_future(anext(news))
                done, _ = await asyncio.wait({following}, timeout=KEEP_ALIVE_SECONDS)
                if not done:
                    yield None
                    continue
                piece = following.result()
                following = None
                over = piece.end is not None
                yield piece
        except StopAsyncIteration:
            over = True
        finally:  # if the client disconnected we are cancelled and cannot await
            self._in_background(self._end(following, news, None if over else (request, exchange)))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(
        self,
        following: asyncio.Task[StreamChunk] | None,
        news: AsyncGenerator[StreamChunk],
        left: tuple[Request, SubmittedMessage] | None,
    ) -> None:
        if following is not None:
            following.cancel()
            await asyncio.wait({following})
        await news.aclose()
        if left is not None:
            await self.left(*left)

    async def left(self, request: Request, exchange: SubmittedMessage) -> None:
        """The client disconnected."""
        if exchange.new and IDEMPOTENCY_KEY not in request.headers:
            with suppress(HermesError):
                await self.sessions.interrupt(exchange.session.id, "api")


def _refuse_empty(said: ClientMessage) -> None:
    if not said.text.strip() and not said.files:
        raise UsageError("the message is empty", "give a text")


def _rest(text: str, streamed: str, voided: bool) -> str:
    """The part of a complete reply that was not streamed."""
    if not voided and text.startswith(streamed):
        return text[len(streamed) :]
    return "" if text == streamed and not voided else f"\n\n{text}"


def _rendered(said: Sequence[ClientMessage]) -> ClientMessage:
    """A conversation as one message, with the history above, marked as such."""
    *before, last = said
    if not before:
        return last
    rules = "\n\n".join(one.text for one in before if one.role in ("system", "developer"))
    rest = [one for one in before if one.role not in ("system", "developer")]
    parts = []
    if rules:
        parts.append(f"What the program that asks wants you to keep to:\n{rules}")
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
    """A client's key, in the form of an id."""
    return hashlib.sha256(given.encode()).hexdigest()[:24]
