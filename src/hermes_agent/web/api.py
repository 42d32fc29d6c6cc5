"""The OpenAI-compatible API as a face of the runtime: who may use it, and its routes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.host.http_listener import knows, token_of
from hermes_agent.host.responses import reply
from hermes_agent.runtime.services import Domains, Row
from hermes_agent.web import schemas
from hermes_agent.web.conversations import (
    HOUSE,
    ClientMessage,
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
from hermes_agent.web.exchanges import Exchanges
from hermes_agent.web.responses import Responses
from hermes_agent.web.runs import RunsApi

Handler = Callable[[Request], Awaitable[Response]]


class ChatCompletionsApi:
    """`/v1/models` and `/v1/chat/completions`, served to OpenAI clients."""

    name = "api"

    def __init__(self, domains: Domains) -> None:
        self.context = domains.context
        self._exchanges = Exchanges(domains)
        self.talk = self._exchanges.talk
        self._parts = (Responses(self._exchanges), RunsApi(self._exchanges))

    # as a face

    async def run(self) -> None:
        """It answers when it is asked, and has no life of its own."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        await self._exchanges.close()

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
        asked = msgspec.json.decode(await self._exchanges.body(request), type=schemas.ChatRequest)
        said = schemas.chat_said(asked)
        exchange = await self._exchanges.begin(request, said, asked.model)
        if asked.stream:
            usage = asked.stream_options is not None and asked.stream_options.include_usage
            return stream(self._chunks(request, asked, said, exchange, usage))
        end = await self._exchanges.ended(request, exchange)
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
        async with aclosing(self._exchanges.pieces(request, exchange)) as pieces:
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
