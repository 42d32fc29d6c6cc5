"""Maps a service's refusal to one of the kinds of `ModelTrouble`."""

import re
from typing import Any

import msgspec

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.http import SHOWN_CHARS, shown

_TOO_LONG = (
    r"context_length_exceeded|exceed_context_size|"
    r"(maximum|max|available|model'?s?) context (length|size|window)|"
    r"(exceeds?|larger than|longer than|greater than|beyond) the (model'?s )?context|"
    r"(prompt|input|request) is too (long|large)|too many (input )?tokens|"
    r"exceeds? context limit|input tokens exceeded|context window exceeds limit|"
    r"exceeds? the maximum number of (input )?tokens|exceeded model token limit|"
    r"maximum (prompt|model) length|prompt exceeds max length|Range of input length should be|"
    r"token count of \d+ exceeds the limit|tokens \+ `?max_new_tokens`? must be"
)
_OUT_OF_CREDIT = (
    r"insufficient_quota|insufficient (balance|credit|quota)|credit balance is too low|"
    r"billing_error|spend_limit_reached|reached your specified .{0,20}usage limits|"
    r"PerDay|credits are depleted|usage_limit_reached|usage_not_included|"
    r"used all available credits|run out of credits|monthly spending limit|"
    r"exceeded_current_quota|Arrearage"
)
_FILTERED = (
    r"content_filter|content_policy|content (management|filtering) policy|guardrail|"
    r"(bio|cyber)_policy|policy_violation|violating our usage polic|"
    r"requires moderation|input was flagged"
)
_BAD_KEY = r"API_KEY_INVALID|API key (not valid|expired)|incorrect API key provided"

_BY_STATUS: dict[int, ModelTrouble] = {
    401: "auth",
    402: "quota",
    403: "auth",
    408: "timeout",
    413: "context_too_long",
    429: "rate_limit",
    498: "overload",
}

_PHRASES: dict[ModelTrouble, tuple[str, str]] = {
    "auth": ("refused the key", "check {key} and that it is meant for {url}"),
    "quota": ("has no credit left", "add credit with the service, or choose another model"),
    "rate_limit": ("is rate limited", "wait a while, or choose another model"),
    "overload": ("is overloaded or down", "the service has a problem; try again later"),
    "timeout": ("took too long", "try again later"),
    "refused": ("refused to answer", "rephrase the request"),
    "context_too_long": (
        "cannot take a conversation this long",
        "set its window in models.context_tokens so that Hermes summarises in time",
    ),
    "bad_request": (
        "rejected the request",
        "check the model's name (`hermes model list`) and that {url} is the right address",
    ),
}


def refusal(
    endpoint: Endpoint,
    credential: Credential,
    status: int,
    body: bytes,
    *,
    codes: str = "",
    kind: ModelTrouble | None = None,
    retry_after: float | None = None,
) -> ModelError:
    """The error for a status and the body that came with it. `codes` are error codes from outside
    the body; `kind` is given if the service has named it."""
    message, more = _said(body)
    kind = kind or _kind(status, f"{codes} {more} {message}")
    phrase, hint = _PHRASES[kind]
    said = f": {message}" if message else ""
    url = re.sub(r"//[^/@]*@", "//", endpoint.url)
    hint = hint.format(url=url, key=credential.label or "the key")
    return ModelError(kind, f"{endpoint.name} {phrase} ({status}){said}", hint, retry_after)


def _kind(status: int, said: str) -> ModelTrouble:
    if status in (400, 402, 403, 412, 429) and _says(_OUT_OF_CREDIT, said):
        return "quota"
    # Some services send it with a 500.
    if status in (400, 413, 422, 500) and _says(_TOO_LONG, said):
        return "context_too_long"
    if status in (400, 403) and _says(_FILTERED, said):
        return "refused"
    if status == 400 and _says(_BAD_KEY, said):
        return "auth"
    if status == 504 and "DEADLINE_EXCEEDED" in said:
        return "timeout"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return "overload" if status >= 500 else "bad_request"


def _says(pattern: str, said: str) -> bool:
    """Compiled on the first refusal, not whenever a wire is opened."""
    return re.search(pattern, said, re.IGNORECASE) is not None


def _said(body: bytes) -> tuple[str, str]:
    """The message and the error codes in the body of an error, whatever its shape."""
    try:
        content: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return shown(body), ""
    if isinstance(content, list) and content:
        content = content[0]
    error = content.get("error", content) if isinstance(content, dict) else content
    if not isinstance(error, dict):
        return str(error)[:SHOWN_CHARS], _codes(content) if isinstance(content, dict) else ""
    message = error.get("message") or error.get("detail") or shown(body)
    return _plain(message)[:SHOWN_CHARS], _codes(error)


def _codes(error: dict[str, Any]) -> str:
    names = ("type", "code", "status", "reason", "__type")
    return " ".join(str(error[name]) for name in names if name in error)


def _plain(message: Any) -> str:
    """A message as one line; some services list the errors of each field."""
    if isinstance(message, dict) and "detail" in message:
        message = message["detail"]
    if isinstance(message, list) and all(isinstance(m, dict) and "msg" in m for m in message):
        return "; ".join(
            f"{'.'.join(map(str, m['loc']))}: {m['msg']}"
            if isinstance(m.get("loc"), list)
            else str(m["msg"])
            for m in message
        )
    return str(message)
