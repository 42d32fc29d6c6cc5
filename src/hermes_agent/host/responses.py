"""Responses of the local API: values as JSON, expected errors as a message with a hint."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import (
    Degraded,
    HermesError,
    HomeLocked,
    NotFound,
    Stopping,
    ToolError,
    TooMuch,
    UsageError,
)

STATUS: tuple[tuple[type[HermesError], int], ...] = (
    (TooMuch, 413),
    (UsageError, 400),
    (ToolError, 400),
    (NotFound, 404),
    (HomeLocked, 409),
    (Stopping, 410),
    (Degraded, 503),
)


def reply(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def body_of(body: bytes, kind: type[Any]) -> Any:
    return msgspec.json.decode(body, type=kind)


def guarded(
    handler: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Turn expected errors into responses."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except HermesError as error:
            code = next((number for kind, number in STATUS if isinstance(error, kind)), 500)
            return reply({"error": error.message, "hint": error.hint}, code)
        except (msgspec.MsgspecError, KeyError, ValueError) as error:
            return reply(
                {"error": f"bad request: {error}", "hint": "see docs/reference/api.md"}, 400
            )

    return answer
