"""The Messages format of Anthropic, with the `anthropic` package as oracle."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from hermes_agent.core.messages import ModelFacts, Rates, Request, Stop, ToolCall, Usage
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.wires.anthropic import open_client
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient
from tests.support.model_server import Raw, event
from tests.support.patience import PATIENCE
from tests.support.wires import KEY, Case, Failure, Heard, Sent, ServerSent

STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "refusal": "refused",
}
NATIVE: dict[Stop, str] = {
    "end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refused": "refusal",
}  # fmt: skip
SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds8sS"
FACTS = ModelFacts(
    context=200_000,
    max_output=64_000,
    rates=(Rates(3.0, 15.0, 0.3, 3.75),),
    efforts=("low", "medium", "high", "max"),
    thinking="adaptive",
    sees=True,
    reads=True,
)
USED = Usage(12, 7)


def endpoint(root: str, facts: ModelFacts = FACTS, **headers: str) -> Endpoint:
    service = ModelService(wire="anthropic", headers=headers)
    return Endpoint("anthropic/claude-test", "claude-test", service, root, facts, silence=PATIENCE)


# a stream, as the service cuts it


def sse(content: dict[str, Any]) -> bytes:
    return event(content, content["type"])


def started(usage: Usage = USED) -> bytes:
    fresh = usage.input - usage.cached - usage.written
    counted = {
        "input_tokens": fresh,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.written,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": 1,
        "service_tier": "standard",
    }
    message: dict[str, Any] = {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant",
        "model": "claude-test", "content": [], "stop_reason": None, "stop_sequence": None,
        "usage": counted,
    }  # fmt: skip
    return sse({"type": "message_start", "message": message})


def block(index: int, head: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
    start = {"type": "content_block_start", "index": index, "content_block": head}
    pieces = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*map(sse, (start, *pieces)), sse({"type": "content_block_stop", "index": index})]


def thinking(index: int, *texts: str, signature: str = SIGNATURE) -> list[bytes]:
    head = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [{"type": "thinking_delta", "thinking": text} for text in texts]
    return block(index, head, *deltas, {"type": "signature_delta", "signature": signature})


def text(index: int, *texts: str) -> list[bytes]:
    deltas = [{"type": "text_delta", "text": text} for text in texts]
    return block(index, {"type": "text", "text": ""}, *deltas)


def tool_use(index: int, call: ToolCall) -> list[bytes]:
    head = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
    half = len(call.arguments) // 2
    pieces = ("", call.arguments[:half], call.arguments[half:])
    return block(index, head, *({"type": "input_json_delta", "partial_json": p} for p in pieces))


def stopped(reason: str, usage: Usage = USED) -> list[bytes]:
    counted = {
        "input_tokens": usage.input - usage.cached - usage.written,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        sse({"type": "message_delta", "delta": delta, "usage": counted}),
        sse({"type": "message_stop"}),
    ]


PING = sse({"type": "ping"})


def refused(kind: str, said: str) -> dict[str, Any]:
    error = {"type": kind, "message": said}
    return {"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}


def midway(kind: str, said: str) -> Raw:
    return Raw([started(), *text(0, "so"), sse(refused(kind, said))])


TOO_LONG = "prompt is too long: 208310 tokens > 200000 maximum"
NO_ROOM = (
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, "
    "decrease input length or `max_tokens` and try again"
)
NO_CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."  # noqa: E501
BLOCKED = "Output blocked by content filtering policy"


class _Wire(ServerSent):
    name = "anthropic"
    keep_alive = PING
    credential = Credential(KEY, label="ANTHROPIC_API_KEY")

    def endpoint(self, root: str) -> Endpoint:
        return endpoint(root)

    def open(self, endpoint: Endpoint) -> WireClient:
        return open_client(endpoint)

    def answer(self, case: Case) -> Raw:
        blocks: list[list[bytes]] = []
        if case.thoughts:
            blocks.append(thinking(0, *case.thoughts))
        if case.texts:
            blocks.append(text(len(blocks), *case.texts))
        for call in case.calls:
            blocks.append(tool_use(len(blocks), call))
        first, *rest = blocks
        said = [first[0], PING, *first[1:], *(piece for each in rest for piece in each)]
        return Raw([started(case.usage), *said, *stopped(NATIVE[case.stop], case.usage)])

    def expected(self, case: Case) -> Heard:
        return case.heard

    @property
    def stops(self) -> Sequence[tuple[str, Raw, Stop]]:
        call = tool_use(0, ToolCall("toolu_1", "now", "{}"))
        return [
            (
                native,
                Raw([started(), *(call if stop == "calls" else text(0, "so")), *stopped(native)]),
                stop,
            )
            for native, stop in STOPS.items()
        ]

    @property
    def failures(self) -> Sequence[Failure]:
        def failure(name: str, status: int, kind: str, said: str, ours: Any) -> Failure:
            return Failure(name, Raw.json(refused(kind, said), status), ours)

        invalid, late = "invalid_request_error", "This request would exceed your rate limit"
        limited = Raw.json(refused("rate_limit_error", late), 429, retry_after="7")
        half = [started(), *text(0, "so")]
        return (
            failure("400", 400, invalid, "messages: at least one message is required",
                    "bad_request"),
            failure("too long", 400, invalid, TOO_LONG, "context_too_long"),
            failure("no room", 400, invalid, NO_ROOM, "context_too_long"),
            failure("no credit", 400, invalid, NO_CREDIT, "quota"),
            failure("filtered", 400, invalid, BLOCKED, "refused"),
            failure("401", 401, "authentication_error", "invalid x-api-key", "auth"),
            failure("402", 402, "billing_error", "a payment is due", "quota"),
            failure("403", 403, "permission_error", "no access to this model", "auth"),
            failure("404", 404, "not_found_error", "model: claude-test", "bad_request"),
            failure("413", 413, "request_too_large", "Request exceeds the maximum size",
                    "context_too_long"),
            Failure("429", limited, "rate_limit", 7.0),
            failure("500", 500, "api_error", "Internal server error", "overload"),
            failure("504", 504, "timeout_error", "The request timed out", "timeout"),
            failure("529", 529, "overloaded_error", "Overloaded", "overload"),
            Failure("key told", Raw.json(refused(invalid, f"bad key {KEY}"), 400), "bad_request"),
            Failure("overloaded midway", midway("overloaded_error", "Overloaded"), "overload"),
            Failure("limited midway", midway("rate_limit_error", late), "rate_limit"),
            Failure("broken midway", midway("api_error", "Internal server error"), "overload"),
            Failure("timeout midway", midway("timeout_error", "timed out"), "timeout"),
            Failure("filtered midway", midway(invalid, BLOCKED), "refused"),
            Failure("ended midway", Raw(half), "broken_stream", sdk_raises=False),
            Failure("cut", Raw(half, end="cut"), "broken_stream"),
        )  # fmt: skip

    async def ask_sdk(self, root: str, request: Request) -> Heard:
        from anthropic import AsyncAnthropic  # only where it is asked: to import it takes seconds

        client = AsyncAnthropic(api_key=KEY, base_url=root, max_retries=0, timeout=PATIENCE)
        async with (
            client,
            client.messages.stream(
                model="claude-test",
                max_tokens=1024,
                messages=[{"role": "user", "content": request.messages[-1].text}],
            ) as stream,
        ):
            return heard(await stream.get_final_message())

    def validate(self, body: bytes) -> None:
        """The types ignore what they do not know, so nothing may be lost on the way."""
        assert _whole(_params().validate_json(body)) == json.loads(body)

    def sent(self, body: bytes) -> Sent:
        content = json.loads(body)
        marks = body.count(b'"cache_control"')
        messages = content.pop("messages")
        for message in messages:
            for part in message["content"]:
                part.pop("cache_control", None)
        return Sent(content, messages, marks)


@cache
def _params() -> Any:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming
    from pydantic import TypeAdapter

    return TypeAdapter(MessageCreateParamsStreaming)


def heard(message: Any) -> Heard:
    """A message as the official types have it."""
    said, calls, thoughts = "", [], ""
    for part in message.content:
        if part.type == "text":
            said += part.text
        elif part.type == "thinking":
            thoughts += part.thinking
        elif part.type == "tool_use":
            calls.append((part.name, dict(part.input)))
    used = message.usage
    cached, written = used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
    details = used.output_tokens_details
    usage = Usage(
        used.input_tokens + cached + written,
        used.output_tokens,
        cached,
        written,
        details.thinking_tokens if details else 0,
    )
    return Heard(said, tuple(calls), thoughts, usage, STOPS[message.stop_reason or ""])


def _whole(value: Any) -> Any:
    """The value with the iterators in it, which check only what is taken from them, read out."""
    if isinstance(value, Mapping):
        return {name: _whole(part) for name, part in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_whole(part) for part in value]
    return value


WIRE = _Wire()
