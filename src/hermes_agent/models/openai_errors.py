"""What a service that speaks the OpenAI format means when it refuses a request."""

import re
from typing import Any

import msgspec

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.models.wire import SHOWN_CHARS, Wire, shown

_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|"
    r"(maximum|max|available|model'?s?) context (length|size|window)|"
    r"(exceeds?|larger than|longer than|beyond) the (model'?s )?context|"
    r"(prompt|input|request) is too (long|large)|too many (input )?tokens",
    re.IGNORECASE,
)
_OUT_OF_CREDIT = re.compile(
    r"insufficient_quota|insufficient (balance|credit|quota)", re.IGNORECASE
)
_FILTERED = re.compile(r"content_filter|content_policy|content management policy", re.IGNORECASE)

_BY_STATUS: dict[int, ModelTrouble] = {
    401: "auth",
    402: "quota",
    403: "auth",
    408: "timeout",
    413: "context_too_long",
    429: "rate_limit",
}

_PHRASES: dict[ModelTrouble, tuple[str, str]] = {
    "auth": ("refused the key", "check OPENAI_API_KEY and that it is meant for {url}"),
    "quota": ("has no credit left", "add credit with the service, or set another HERMES_MODEL"),
    "rate_limit": ("is asked too often", "wait a while, or set another HERMES_MODEL"),
    "overload": ("is in trouble", "it is the service's own; try again later"),
    "timeout": ("took too long", "try again later"),
    "refused": ("refused to answer", "put the request another way"),
    "context_too_long": (
        "cannot take a conversation this long",
        "set its window in models.context_tokens so that Hermes summarises in time",
    ),
    "bad_request": (
        "rejected the request",
        "check the model's name in HERMES_MODEL and that {url} is the right OPENAI_BASE_URL",
    ),
}


def refusal(
    wire: Wire, name: str, status: int, body: bytes, retry_after: float | None
) -> ModelError:
    """The error for a status and what the service said with it."""
    message, codes = _said(body)
    kind = _kind(status, f"{codes} {message}")
    phrase, hint = _PHRASES[kind]
    said = f": {message}" if message else ""
    return wire.error(
        kind, f"{name} {phrase} ({status}){said}", hint.format(url=wire.shown_url), retry_after
    )


def _kind(status: int, said: str) -> ModelTrouble:
    if status in (402, 403, 429) and _OUT_OF_CREDIT.search(said):
        return "quota"
    # Some services say it with a 500.
    if status in (400, 413, 422, 500) and _TOO_LONG.search(said):
        return "context_too_long"
    if status == 400 and _FILTERED.search(said):
        return "refused"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return "overload" if status >= 500 else "bad_request"


def _said(body: bytes) -> tuple[str, str]:
    """The message and the code words in the body of an error, whatever its shape."""
    try:
        content: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return shown(body), ""
    if isinstance(content, list) and content:
        content = content[0]
    error = content.get("error", content) if isinstance(content, dict) else content
    if not isinstance(error, dict):
        return str(error)[:SHOWN_CHARS], ""
    message = error.get("message") or error.get("detail") or shown(body)
    return str(message)[:SHOWN_CHARS], f"{error.get('type')} {error.get('code')}"
