"""The OpenAI-compatible API as a service of the runtime: its token and its routes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.host.http_listener import knows, token_of
from hermes_agent.host.responses import reply
from hermes_agent.runtime.services import Domains, Row
from hermes_agent.web import schemas
from hermes_agent.web.conversations import MODEL, ApiConversations, SubmittedMessage
from hermes_agent.web.responses import ResponsesApi
from hermes_agent.web.runs import RunsApi

Handler = Callable[[Request], Awaitable[Response]]


class ChatCompletionsApi:
    """`/v1/models` and `/v1/chat/completions`, served to OpenAI clients."""

    name = "api"

    def __init__(self, domains: Domains) -> None:
        self.context = domains.context
        self._api = ApiConversations(domains)
        self._parts = (ResponsesApi(self._api), RunsApi(self._api))

    # as a service of the runtime

    async def run(self) -> None:
        """Nothing runs besides the requests."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        await self._api.close()

    def table(self) -> Sequence[Row]:
        return ()

    def public(self) -> Sequence[Row]:
        rows: list[Row] = [
            ("GET", "/v1/models", self.models),
            ("GET", "/v1/models/{id:path}", self.model),
            ("POST", "/v1/chat/completions", self.chat),
        ]
        rows += [row for part in self._parts for row in part.rows()]
        return [(method, path, self._authorized(handler)) for method, path, handler in rows]

    @property
    def busy(self) -> bool:
        return False

    async def status(self) -> dict[str, Any]:
        return {"models": self._api.models()}

    def _authorized(self, handler: Handler) -> Handler:
        """Checks the token, and returns errors in the form that clients read."""

        async def answered(request: Request) -> Response:
            try:
                name = self.context.settings.gateway.token
                token = token_of("gateway.token", name, self.context.secret)
            except HermesError:
                return schemas.error_response(
                    HermesError("the API has no token", "`hermes doctor`"), 503
                )
            if not knows(request.headers.get("authorization", ""), token):
                return schemas.error_response(
                    HermesError("invalid API key", "use the secret of gateway.token"), 401
                )
            self.context.note_activity()
            try:
                return await handler(request)
            except HermesError as error:
                return schemas.error_response(error)
            except msgspec.MsgspecError as error:
                return schemas.error_response(UsageError(f"bad request: {error}"))

        return answered

    # models

    async def models(self, _request: Request) -> Response:
        return reply({"object": "list", "data": [self._model(one) for one in self._api.models()]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["id"]
        if name not in self._api.models():
            raise NotFound(f"there is no model {name!r}", f"use {MODEL!r}")
        return reply(self._model(name))

    def _model(self, name: str) -> dict[str, Any]:
        made = int(self.context.started)
        return {"id": name, "object": "model", "created": made, "owned_by": MODEL}

    # chat

    async def chat(self, request: Request) -> Response:
        asked = await self._api.decode(request, schemas.ChatRequest)
        said = schemas.chat_said(asked)
        exchange = await self._api.begin(request, said, asked.model)
        if asked.stream:
            usage = asked.stream_options is not None and asked.stream_options.include_usage
            return schemas.stream(self._chunks(request, asked, said, exchange, usage))
        end = await self._api.ended(request, exchange)
        self._api.remember(request, said, asked.model, end.text, exchange)
        message = {"role": "assistant", "content": end.text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        head = self._head(exchange, asked.model, "chat.completion")
        return reply({**head, "choices": [choice], "usage": schemas.chat_usage(end)})

    def _head(self, exchange: SubmittedMessage, model: str, kind: str) -> dict[str, Any]:
        created = int(self.context.clock())
        name = model or MODEL
        return {"id": f"chatcmpl-{exchange.id}", "object": kind, "created": created, "model": name}

    async def _chunks(
        self,
        request: Request,
        asked: schemas.ChatRequest,
        said: list[schemas.ClientMessage],
        exchange: SubmittedMessage,
        usage: bool,
    ) -> AsyncGenerator[bytes]:
        head = self._head(exchange, asked.model, "chat.completion.chunk")

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return schemas.server_sent({**head, "choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        written: list[str] = []
        async with aclosing(self._api.watched(request, exchange)) as chunks:
            async for piece in chunks:
                if piece is None:
                    yield b": keep-alive\n\n"
                    continue
                if piece.text:
                    written.append(piece.text)
                    yield chunk({"content": piece.text})
                if piece.end is not None:
                    if (error := schemas.failure(piece.end)) is not None:
                        yield schemas.server_sent(schemas.error_body(error))
                    else:
                        self._api.remember(request, said, asked.model, "".join(written), exchange)
                        yield chunk({}, "stop")
                        if usage:
                            figures = {
                                **head,
                                "choices": [],
                                "usage": schemas.chat_usage(piece.end),
                            }
                            yield schemas.server_sent(figures)
        yield b"data: [DONE]\n\n"
