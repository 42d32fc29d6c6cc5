"""The turns that MCP clients wait for, and what happens to one when its client stops waiting.

A client that cancels its request wants the turn stopped. One that only disconnects does not: the
turn goes on, and its answer can be fetched later. Over HTTP, newer clients cancel by
disconnecting."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from anyio.to_thread import run_sync
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context

from hermes_agent.cli.client.api import RuntimeClient, session_path
from hermes_agent.cli.client.follower import reach
from hermes_agent.core.errors import NotFound

McpContext = Context[Any, Any]
Key = tuple[str, str]

NAME_CHARS = 40
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


class ServedCall:
    """An `ask` under way."""

    def __init__(self) -> None:
        self.session = ""
        """Empty until the message is submitted."""
        self.ours = False
        """Whether the session works on it, not on an earlier message."""
        self.cancelled = False


class ServedCalls:
    """Server middleware that handles cancellations."""

    def __init__(self, api: RuntimeClient) -> None:
        self._api = api
        self._calls: dict[Key, ServedCall] = {}

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        if ctx.method == "notifications/cancelled":
            key = _key(ctx, (ctx.params or {}).get("requestId"))
            if (call := self._calls.pop(key, None)) is not None:
                call.cancelled = True
                await self.stop(call)
        return await call_next(ctx)

    @contextmanager
    def waiting(self, context: McpContext) -> Iterator[ServedCall]:
        call = ServedCall()
        if cancels_by_disconnect(
            context
        ):  # requests of different clients may have the same number there
            yield call
            return
        key = _key(context.request_context, context.request_id)
        self._calls[key] = call
        try:
            yield call
        except asyncio.CancelledError:
            raise  # it stays: the cancel notice may still be on its way
        except BaseException:
            self._calls.pop(key, None)
            raise
        else:
            self._calls.pop(key, None)

    async def stop(self, call: ServedCall) -> None:
        """Interrupt the turn, unless the session still works on an earlier message."""
        if call.session and call.ours:
            with anyio.CancelScope(shield=True):
                await run_sync(self._interrupt, call.session)

    def _interrupt(self, session: str) -> None:
        try:
            reach(self._api, lambda: self._api.post(f"{session_path(session)}/interrupt"))
        except NotFound:
            pass  # the session was deleted


def client_name(context: McpContext) -> str:
    """Who answers, for the rules and the record: the client, by the name it gives itself. That is
    unverified, so it is never the name of a person."""
    known = context.session.client_params
    name = _ODD.sub("-", known.client_info.name if known is not None else "")
    return f"mcp:{name[:NAME_CHARS].strip('-') or 'unnamed'}"


def cancels_by_disconnect(context: McpContext) -> bool:
    """Whether the client cancels by disconnecting: over HTTP without a way back to it."""
    return context.headers is not None and not context.session.can_send_request


def _key(context: ServerRequestContext[Any, Any], request: object) -> Key:
    headers = getattr(context.request, "headers", None) or {}
    return str(headers.get("mcp-session-id", "")), str(request)
