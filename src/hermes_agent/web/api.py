"""The OpenAI-compatible API as a face of the runtime: who may use it, and its routes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.host.http_listener import body_within, knows, token_of
from hermes_agent.host.responses import reply
from hermes_agent.runtime.services import Domains, Row
from hermes_agent.web import schemas
from hermes_agent.web.conversations import (
    HOUSE,
    ApiConversations,
    ClientMessage,
    StreamChunk,
    SubmittedMessage,
)
from hermes_agent.web.errors import (
    ONCE,
    SESSION,
    chat_usage,
    failure,
    status_of,
    stream,
    troubled,
)
from hermes_agent.web.responses import Responses
from hermes_agent.web.runs import RunsApi

MOST_BYTES = 20_000_000
"""Of a request: images come with it."""
LOOK_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0

Handler = Callable[[Request], Awaitable[Response]]


class ChatCompletionsApi:
    """`/v1/models` and `/v1/chat/completions`, and what the other routes share."""

    name = "api"

    def __init__(self, domains: Domains) -> None:
        self.context = domains.context
        self.sessions = domains.sessions
        self.talk = ApiConversations(domains)
        self._parts = (Responses(self), RunsApi(self))
        self._tasks: set[asyncio.Task[None]] = set()

    # as a face

    async def run(self) -> None:
        """It answers when it is asked, and has no life of its own."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def table(self) -> Sequence[Row]:
        return ()

    def public(self) -> Sequence[Row]:
        rows: list[Row] = [
            ("GET", "/v1/models", self.models),
            ("GET", "/v1/models/{id:path}", self.model),
            ("POST", "/v1/chat/completions", self.chat),
        ]
        rows += [row for part in self._parts for row in part.rows()]
        return [(method, path, self._known(handler)) for method, path, handler in rows]

    @property
    def busy(self) -> bool:
        return False

    async def status(self) -> dict[str, Any]:
        return {"models": self.talk.models()}

    def _known(self, handler: Handler) -> Handler:
        """Only for those who know the token; trouble in the form that clients read."""

        async def answered(request: Request) -> Response:
            try:
                name = self.context.settings.gateway.token
                token = token_of("gateway.token", name, self.context.secret)
            except HermesError:
                return troubled("nobody is served now", "`hermes doctor`", 503)
            if not knows(request.headers.get("authorization", ""), token):
                return troubled("this needs the API key", "the secret of gateway.token", 401)
            self.context.note_activity()
            try:
                return await handler(request)
            except HermesError as error:
                return troubled(error.message, error.hint, status_of(error))
            except msgspec.MsgspecError as error:
                return troubled(f"bad request: {error}", "", 400)

        return answered

    # models

    async def models(self, _request: Request) -> Response:
        return reply({"object": "list", "data": [self._model(one) for one in self.talk.models()]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["id"]
        if name not in self.talk.models():
            raise NotFound(f"there is no model {name!r}", f"ask for {HOUSE!r}")
        return reply(self._model(name))

    def _model(self, name: str) -> dict[str, Any]:
        made = int(self.context.started)
        return {"id": name, "object": "model", "created": made, "owned_by": HOUSE}

    # chat

    async def chat(self, request: Request) -> Response:
        asked = msgspec.json.decode(await self.body(request), type=schemas.ChatRequest)
        said = schemas.chat_said(asked)
        exchange = await self.begin(request, said, asked.model)
        if asked.stream:
            usage = asked.stream_options is not None and asked.stream_options.include_usage
            return stream(self._chunks(request, asked, said, exchange, usage))
        end = await self.ended(request, exchange)
        self._remember(request, said, asked.model, end.text, exchange)
        message = {"role": "assistant", "content": end.text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        head = self._head(exchange, asked.model, "chat.completion")
        return reply({**head, "choices": [choice], "usage": chat_usage(end)})

    def _remember(
        self,
        request: Request,
        said: list[ClientMessage],
        model: str,
        answer: str,
        exchange: SubmittedMessage,
    ) -> None:
        if SESSION not in request.headers and ONCE not in request.headers:
            self.talk.remember(said, self.talk.model(model), answer, exchange.session.id)

    def _head(self, exchange: SubmittedMessage, model: str, kind: str) -> dict[str, Any]:
        created = int(self.context.clock())
        name = model or HOUSE
        return {"id": f"chatcmpl-{exchange.id}", "object": kind, "created": created, "model": name}

    async def _chunks(
        self,
        request: Request,
        asked: schemas.ChatRequest,
        said: list[ClientMessage],
        exchange: SubmittedMessage,
        usage: bool,
    ) -> AsyncGenerator[bytes]:
        head = self._head(exchange, asked.model, "chat.completion.chunk")

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return schemas.server_sent({**head, "choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        written: list[str] = []
        async with aclosing(self.pieces(request, exchange)) as pieces:
            async for piece in pieces:
                if piece is None:
                    yield b": still at work\n\n"
                    continue
                if piece.text:
                    written.append(piece.text)
                    yield chunk({"content": piece.text})
                if piece.end is not None:
                    if (error := failure(piece.end)) is not None:
                        told = schemas.trouble(error.message, error.hint, status_of(error))
                        yield schemas.server_sent(told)
                    else:
                        self._remember(request, said, asked.model, "".join(written), exchange)
                        yield chunk({}, "stop")
                        if usage:
                            figures = {**head, "choices": [], "usage": chat_usage(piece.end)}
                            yield schemas.server_sent(figures)
        yield b"data: [DONE]\n\n"

    # what the other routes share

    async def body(self, request: Request) -> bytes:
        return await body_within(request, MOST_BYTES)

    async def begin(
        self, request: Request, said: list[ClientMessage], model: str, *, interactive: bool = False
    ) -> SubmittedMessage:
        key, name = request.headers.get(ONCE, ""), request.headers.get(SESSION, "")
        model = self.talk.model(model)
        if name:
            return await self.talk.named(name, said, model, key, interactive=interactive)
        return await self.talk.whole(said, model, key, interactive=interactive)

    async def ended(self, request: Request, exchange: SubmittedMessage) -> ev.TurnFinished:
        """The end of a turn that somebody waits for; they may go away meanwhile."""
        waiting = asyncio.ensure_future(self.talk.end(exchange))
        try:
            while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
                if await request.is_disconnected():
                    await self.left(request, exchange)
                    raise HermesError("the client has gone")
            end = waiting.result()
        finally:
            waiting.cancel()
        if (error := failure(end)) is not None:
            raise error
        return end

    async def pieces(
        self, request: Request, exchange: SubmittedMessage, after: int = 0
    ) -> AsyncGenerator[StreamChunk | None]:
        """What comes of an exchange; None now and then when nothing does. Whoever stops listening
        early stops the turn, unless it is to be had again under its key."""
        over = False
        news = self.talk.pieces(exchange, after)
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
        finally:  # whoever went away has cancelled us: nothing more can be awaited here
            self._later(self._end(following, news, None if over else (request, exchange)))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
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
        """Nobody waits for the answer any more."""
        if exchange.new and ONCE not in request.headers:
            with suppress(HermesError):
                await self.sessions.interrupt(exchange.session.id, "api")
