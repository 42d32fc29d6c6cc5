"""Answers of the HTTP API: streams, and trouble in the form that OpenAI's clients read."""

from collections.abc import AsyncGenerator
from typing import Any

from starlette.responses import Response, StreamingResponse

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.host.http_listener import TookTooLong
from hermes_agent.host.responses import STATUS, reply
from hermes_agent.web import schemas
from hermes_agent.web.conversations import OtherBody

SESSION = "x-hermes-session"
"""The header by which a client names a conversation of its own."""
ONCE = "idempotency-key"


class TurnFailed(HermesError):
    """The turn itself failed."""


class NotTheirs(HermesError):
    """Somebody else decides that."""


class BudgetSpent(HermesError):
    """A budget is used up."""


def stream(pieces: AsyncGenerator[bytes]) -> Response:
    return StreamingResponse(
        pieces, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


def failure(end: ev.TurnFinished) -> HermesError | None:
    """Why a turn has no answer, where it has none."""
    if end.reason == "failed":
        return TurnFailed(end.error or "the turn failed", end.hint)
    if end.reason == "budget" and not end.text:
        return BudgetSpent(end.error or "a budget is used up", end.hint)
    return None


def status_of(error: HermesError) -> int:
    if isinstance(error, BudgetSpent):
        return 429
    if isinstance(error, NotTheirs):
        return 403
    if isinstance(error, TookTooLong):
        return 408
    if isinstance(error, OtherBody):
        return 422
    return next((number for kind, number in STATUS if isinstance(error, kind)), 500)


def chat_usage(end: ev.TurnFinished) -> dict[str, Any]:
    used = end.usage
    return {
        "prompt_tokens": used.input, "completion_tokens": used.output, "total_tokens": used.total,
        "prompt_tokens_details": {"cached_tokens": used.cached},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
    }  # fmt: skip


def troubled(message: str, hint: str, status: int) -> Response:
    return reply(schemas.trouble(message, hint, status), status)


def number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r} is no number", "give the id of an event") from None
