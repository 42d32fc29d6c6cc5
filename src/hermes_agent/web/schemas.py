"""Requests of OpenAI clients and our responses. Fields that tune a model (temperature and the like)
are accepted and ignored: the agent's settings apply. Fields that would change what is done are
refused."""

import base64
import binascii
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response, StreamingResponse

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.messages import Media
from hermes_agent.host.http_listener import TookTooLong
from hermes_agent.host.responses import STATUS, reply

SESSION = "x-hermes-session"
"""The header with a client's own name for a conversation."""
IDEMPOTENCY_KEY = "idempotency-key"


class TurnFailed(HermesError):
    """The turn itself failed."""


class Forbidden(HermesError):
    """Only somebody else may decide this."""


class BudgetSpent(HermesError):
    """A budget is used up."""


class KeyReused(UsageError):
    """The idempotency key was used before for another request."""


class ClientMessage(Struct, frozen=True):
    """One message of a client's conversation."""

    role: str
    text: str
    files: tuple[Media, ...] = ()


class ChatMessage(Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(Struct, frozen=True):
    include_usage: bool = False


class ChatRequest(Struct, frozen=True):
    messages: list[ChatMessage]
    model: str = ""
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None


class ResponsesRequest(Struct, frozen=True):
    input: str | list[dict[str, Any]]
    model: str = ""
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool = False
    store: bool = True
    background: bool = False
    tools: list[Any] | None = None
    text: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None


class RunRequest(Struct, frozen=True, forbid_unknown_fields=True):
    input: str
    session: str = ""
    """The client's name for a conversation; empty for a new one."""
    model: str = ""
    interactive: bool = True
    """Whether questions may be asked, for `POST /v1/runs/{id}/answers/{question}`."""


class AnswerRequest(Struct, frozen=True, forbid_unknown_fields=True):
    answer: str


def chat_said(request: ChatRequest) -> list[ClientMessage]:
    if request.n not in (None, 1):
        raise UsageError("only one answer is possible", "leave out `n`")
    _no_tools(request.tools or request.functions)
    _only_text(request.response_format)
    said = [_said(one.role, one.content) for one in request.messages]
    if not said or said[-1].role not in ("user", "tool"):
        raise UsageError("the last message must be the user's", "end with a `user` message")
    return said


def responses_said(request: ResponsesRequest) -> list[ClientMessage]:
    _no_tools(request.tools)
    _only_text((request.text or {}).get("format"))
    said: list[ClientMessage] = []
    if request.instructions:
        said.append(ClientMessage("system", request.instructions))
    if isinstance(request.input, str):
        said.append(ClientMessage("user", request.input))
    else:
        for item in request.input:
            if item.get("type", "message") != "message":
                raise UsageError(
                    f"input of type {item.get('type')!r} is not supported",
                    "send messages: the agent's tools are its own",
                )
            said.append(_said(str(item.get("role", "user")), item.get("content")))
    if not said or said[-1].role != "user":
        raise UsageError("no message", "`input` must end with the user's")
    return said


def _no_tools(tools: Sequence[Any] | None) -> None:
    if tools:
        raise UsageError(
            "`tools` of the client are not called",
            "the agent uses its own, under its policies: leave `tools` out",
        )


def _only_text(form: Any) -> None:
    kind = form.get("type") if isinstance(form, dict) else form
    if kind not in (None, "text"):
        raise UsageError("answers are text", "leave the response format out")


def _said(role: str, content: Any) -> ClientMessage:
    if content is None:
        return ClientMessage(role, "")
    if isinstance(content, str):
        return ClientMessage(role, content)
    texts: list[str] = []
    files: list[Media] = []
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise UsageError("`content` must be a text or a list of parts", "send text or images")
    for part in content:
        kind = part.get("type", "")
        if kind in ("text", "input_text", "output_text"):
            texts.append(str(part.get("text", "")))
        elif kind in ("image_url", "input_image"):
            given = part.get("image_url", "")
            files.append(_data(given.get("url", "") if isinstance(given, dict) else given))
        elif kind in ("file", "input_file"):
            file = part.get("file", part)
            if not isinstance(file, dict):
                raise UsageError("`file` must be an object", "send file_data and filename in it")
            files.append(_data(str(file.get("file_data", "")), str(file.get("filename", ""))))
        else:
            raise UsageError(f"a part of type {kind!r} is not supported", "send text or images")
    return ClientMessage(role, "\n".join(texts), tuple(files))


def _data(url: str, name: str = "") -> Media:
    head, comma, body = str(url).partition(",")
    if not head.startswith("data:") or not comma or not head.endswith(";base64"):
        raise UsageError(
            "files must come with the message, as data:TYPE;base64,…",
            "addresses are not fetched",
        )
    try:
        data = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("a file is not base64", "encode it as base64") from None
    return Media(head.removeprefix("data:").removesuffix(";base64") or "text/plain", data, name)


def server_sent(value: Any, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return head.encode() + b"data: " + msgspec.json.encode(value) + b"\n\n"


def stream(chunks: AsyncGenerator[bytes]) -> Response:
    return StreamingResponse(
        chunks, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


def failure(end: ev.TurnFinished) -> HermesError | None:
    """Why a turn has no answer, if it has none."""
    if end.reason == "failed":
        return TurnFailed(end.error or "the turn failed", end.hint)
    if end.reason == "budget" and not end.text:
        return BudgetSpent(end.error or "a budget is used up", end.hint)
    return None


_STATUS = (
    (BudgetSpent, 429),
    (Forbidden, 403),
    (TookTooLong, 408),
    (KeyReused, 422),
    *STATUS,
)


def status_of(error: HermesError) -> int:
    return next((number for kind, number in _STATUS if isinstance(error, kind)), 500)


def error_body(error: HermesError, status: int = 0) -> dict[str, Any]:
    """An error as OpenAI's clients read it."""
    status = status or status_of(error)
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    text = f"{error.message} ({error.hint})" if error.hint else error.message
    codes = {
        401: "invalid_api_key", 404: "not_found", 413: "too_large", 422: "idempotency_key_reused"
    }  # fmt: skip
    return {"error": {"message": text, "type": kind, "param": None, "code": codes.get(status)}}


def error_response(error: HermesError, status: int = 0) -> Response:
    return reply(error_body(error, status), status or status_of(error))


def chat_usage(end: ev.TurnFinished) -> dict[str, Any]:
    used = end.usage
    return {
        "prompt_tokens": used.input, "completion_tokens": used.output, "total_tokens": used.total,
        "prompt_tokens_details": {"cached_tokens": used.cached},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
    }  # fmt: skip
