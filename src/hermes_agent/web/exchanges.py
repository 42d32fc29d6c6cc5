"""Hands requests to sessions and streams what comes of them: shared by all routes of the API."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import suppress
from typing import Any

from starlette.requests import Request

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError
from hermes_agent.host.http_listener import body_within
from hermes_agent.runtime.services import Domains
from hermes_agent.web.conversations import (
    ApiConversations,
    ClientMessage,
    StreamChunk,
    SubmittedMessage,
)
from hermes_agent.web.errors import ONCE, SESSION, failure

MAX_BYTES = 20_000_000
"""Of a request: images come with it."""
POLL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0


class Exchanges:
    def __init__(self, domains: Domains) -> None:
        self.context = domains.context
        self.sessions = domains.sessions
        self.talk = ApiConversations(domains)
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def body(self, request: Request) -> bytes:
        return await body_within(request, MAX_BYTES)

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
            while not (await asyncio.wait({waiting}, timeout=POLL_SECONDS))[0]:
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
