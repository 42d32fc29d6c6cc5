"""Mistral's chat completions, with the `mistralai` package as oracle."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes_agent.core.errors import ModelTrouble
from hermes_agent.core.messages import ModelFacts, Rates, Request, Stop, Usage
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient
from hermes_agent.models.wires.history_repair import short_id
from hermes_agent.models.wires.mistral import open_client
from tests.support.model_server import Raw, event
from tests.support.patience import PATIENCE
from tests.support.wires import KEY, Case, Failure, Heard, Sent, ServerSent

STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "length": "length",
    "model_length": "length",
}
FINISH = {"end": "stop", "calls": "tool_calls", "length": "length"}


def chunk(
    delta: dict[str, Any], finish: str | None = None, usage: Usage | None = None
) -> dict[str, Any]:
    content: dict[str, Any] = {
        "id": "f798ebd5c41a45d88bb079635121cade",
        "object": "chat.completion.chunk",
        "created": 1732548656,
        "model": "test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    if usage is not None:
        content["usage"] = {
            "prompt_tokens": usage.input,
            "total_tokens": usage.total,
            "completion_tokens": usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        }
    return content


def thinking(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **more}


def stream(*chunks: dict[str, Any]) -> Raw:
    return Raw([*map(event, chunks), b"data: [DONE]\n\n"])


def error(message: Any, type: str, code: str | None, status: int) -> dict[str, Any]:
    return {
        "object": "error",
        "message": message,
        "type": type,
        "param": None,
        "code": code,
        "raw_status_code": status,
    }


_LONG = (
    "Prompt contains 40960 tokens and 0 draft tokens, too large for model with 32768 maximum "
    "context length"
)
_FIELDS = [{"type": "missing", "loc": ["body", "messages"], "msg": "Field required", "input": {}}]
_ORDER = "Unexpected role 'user' after role 'tool'"
_LIMIT = error("Rate limit exceeded", "rate_limited", "1300", 429)
_FULL = error(
    "Service tier capacity exceeded for this model.", "service_tier_capacity_exceeded", "3505", 429
)
REFUSALS: Sequence[tuple[str, int, ModelTrouble, Any]] = (
    ("400", 400, "bad_request", error(_ORDER, "invalid_request_message_order", "3230", 400)),
    ("401", 401, "auth", {"detail": "Unauthorized"}),
    ("402", 402, "quota", {"detail": "Payment required"}),
    ("403", 403, "auth", {"message": "You cannot consume this service"}),
    ("404", 404, "bad_request", {"message": "no Route matched with those values"}),
    ("422", 422, "bad_request", {"detail": _FIELDS}),
    ("nested 422", 422, "bad_request",
     error({"detail": _FIELDS}, "invalid_request_error", None, 422)),
    ("full", 429, "rate_limit", _FULL),
    ("500", 500, "overload", error("Internal server error", "internal_server_error", "1000", 500)),
    ("503", 503, "overload", error("Service unavailable.", "internal_server_error", None, 503)),
    ("context", 400, "context_too_long", error(_LONG, "invalid_request_prompt", "3051", 400)),
    ("guardrail", 403, "refused",
     error("Request blocked by guardrail", "guardrail_violation", None, 403)),
)  # fmt: skip


class _Wire(ServerSent):
    name = "mistral"
    credential = Credential(KEY, label="MISTRAL_API_KEY")

    def endpoint(self, root: str) -> Endpoint:
        facts = ModelFacts(rates=(Rates(0.4, 2.0, 0.04),), efforts=("high",), sees=True, reads=True)
        service = ModelService(wire="mistral", quirks=("prompt_cache_key",))
        return Endpoint("mistral/test", "test", service, f"{root}/v1", facts, silence=PATIENCE)

    def open(self, endpoint: Endpoint) -> WireClient:
        return open_client(endpoint)

    def answer(self, case: Case) -> Raw:
        """Thoughts are chunks of content, calls come whole, and the last chunk counts."""
        pieces = [chunk({"role": "assistant", "content": ""})]
        pieces += [chunk({"content": [thinking(text)]}) for text in case.thoughts]
        pieces += [chunk({"content": text}) for text in case.texts]
        calls = [
            {
                "id": short_id(call.id),
                "function": {"name": call.name, "arguments": call.arguments},
                "index": index,
            }
            for index, call in enumerate(case.calls)
        ]
        last = {"content": "", "tool_calls": calls} if calls else {"content": ""}
        return stream(*pieces, chunk(last, FINISH[case.stop], case.usage))

    def expected(self, case: Case) -> Heard:
        """The format has no word for what is put into a cache, nor for what is thought."""
        usage = msgspec.structs.replace(case.usage, written=0, reasoning=0)
        return dataclasses.replace(case, usage=usage).heard

    @property
    def stops(self) -> Sequence[tuple[str, Raw, Stop]]:
        call = {"id": "D681PevKs", "function": {"name": "now", "arguments": "{}"}, "index": 0}
        return [
            (
                native,
                stream(
                    chunk({"tool_calls": [call]} if stop == "calls" else {"content": "so"}),
                    chunk({"content": ""}, native, Usage(1, 1)),
                ),
                stop,
            )
            for native, stop in STOPS.items()
        ]

    @property
    def failures(self) -> Sequence[Failure]:
        half = chunk({"content": "half an "})
        broken = stream(half, chunk({"content": ""}, "error", Usage(9, 2)))
        return (
            *(Failure(name, Raw.json(body, code), kind) for name, code, kind, body in REFUSALS),
            Failure("429", Raw.json(_LIMIT, 429, retry_after="7"), "rate_limit", 7.0),
            Failure("error", broken, "overload", sdk_raises=False),
            Failure("midway", Raw.events(half, REFUSALS[9][3]), "overload"),
            Failure("cut", Raw.events(half, end="cut"), "broken_stream"),
            Failure("ended", Raw.events(half), "broken_stream", sdk_raises=False),
        )

    async def ask_sdk(self, root: str, request: Request) -> Heard:
        from mistralai.client import Mistral as MistralSDK  # only where it is asked: it is slow

        text, thoughts, finish, usage = "", "", "", Usage()
        calls: list[tuple[str, dict[str, Any]]] = []
        async with MistralSDK(
            api_key=KEY, server_url=root, timeout_ms=int(PATIENCE * 1000)
        ) as client:
            heard = await client.chat.stream_async(
                model="test", messages=[{"role": "user", "content": request.messages[-1].text}]
            )
            async with heard as events:
                async for each in events:
                    if each.data.usage:
                        usage = _usage(each.data.usage)
                    for choice in each.data.choices:
                        said, thought = _content(choice.delta.content)
                        text, thoughts = text + said, thoughts + thought
                        for call in choice.delta.tool_calls or ():
                            arguments: Any = call.function.arguments
                            calls.append((call.function.name, json.loads(arguments)))
                        finish = choice.finish_reason or finish
        return Heard(text, tuple(calls), thoughts, usage, STOPS.get(finish, "end"))

    def validate(self, body: bytes) -> None:
        """Its types let unknown chunks pass; none may be among them, and no unknown field."""
        from mistralai.client.models import ChatCompletionStreamRequest, UnknownContentChunk

        content = json.loads(body)
        request = ChatCompletionStreamRequest.model_validate(content)
        assert not set(content) - set(ChatCompletionStreamRequest.model_fields)
        for message in request.messages:
            chunks: Any = message.content
            if isinstance(chunks, list):
                assert not [each for each in chunks if isinstance(each, UnknownContentChunk)]

    def sent(self, body: bytes) -> Sent:
        content = json.loads(body)
        messages = content.pop("messages")
        return Sent(content, messages)


def _content(content: Any) -> tuple[str, str]:
    if not isinstance(content, list):
        return content or "", ""
    from mistralai.client.models import TextChunk, ThinkChunk

    text = "".join(each.text for each in content if isinstance(each, TextChunk))
    thoughts = [each.thinking for each in content if isinstance(each, ThinkChunk)]
    return text, "".join(
        said.text for thought in thoughts for said in thought if isinstance(said, TextChunk)
    )


def _usage(said: Any) -> Usage:
    cached = said.additional_properties["prompt_tokens_details"]["cached_tokens"]
    return Usage(said.prompt_tokens, said.completion_tokens, cached)


WIRE = _Wire()
