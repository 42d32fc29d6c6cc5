"""The Responses format of OpenAI, with the `openai` package as oracle."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from typing import Any

from hermes_agent.core.messages import ModelFacts, Rates, Request, Stop, Usage
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient
from hermes_agent.models.wires.openai.responses import open_client
from tests.support.model_server import Raw
from tests.support.openai_server import FAILURES
from tests.support.patience import PATIENCE
from tests.support.wires import KEY, Case, Failure, Heard, Sent, ServerSent
from tests.support.wires.strict_types import adapter

Event = dict[str, Any]


def packed(event: Event) -> bytes:
    data = json.dumps(event, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n".encode()


def numbered(events: Sequence[Event]) -> Raw:
    return Raw([packed({**event, "sequence_number": n}) for n, event in enumerate(events)])


def response(status: str, output: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "test",
        "status": status, "output": list(output), "tools": [], "tool_choice": "auto",
        "parallel_tool_calls": True, **more,
    }  # fmt: skip


def usage_of(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.written,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def reasoning_events(index: int, parts: Sequence[Sequence[str]]) -> Iterator[Event]:
    """An item of reasoning whose summary has these parts, each in pieces."""
    item: dict[str, Any] = {"id": f"rs_{index}", "type": "reasoning", "summary": []}
    at = {"item_id": item["id"], "output_index": index}
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    summary = [{"type": "summary_text", "text": "".join(pieces)} for pieces in parts]
    name = "response.reasoning_summary"
    for number, pieces in enumerate(parts):
        part = {**at, "summary_index": number}
        empty = {"type": "summary_text", "text": ""}
        yield {"type": f"{name}_part.added", **part, "part": empty}
        for piece in pieces:
            yield {"type": f"{name}_text.delta", **part, "delta": piece}
        yield {"type": f"{name}_text.done", **part, "text": summary[number]["text"]}
        yield {"type": f"{name}_part.done", **part, "part": summary[number]}
    whole = {**item, "summary": summary, "encrypted_content": f"gAAA{index}=="}
    yield {"type": "response.output_item.done", "output_index": index, "item": whole}


def message_events(index: int, texts: Sequence[str], **more: Any) -> Iterator[Event]:
    item = {"id": f"msg_{index}", "type": "message", "status": "in_progress", **more}
    item |= {"role": "assistant", "content": []}
    part = {"item_id": item["id"], "output_index": index, "content_index": 0}
    empty = {"type": "output_text", "annotations": [], "text": ""}
    whole = {**empty, "text": "".join(texts)}
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    yield {"type": "response.content_part.added", **part, "part": empty}
    for text in texts:
        yield {"type": "response.output_text.delta", **part, "delta": text, "logprobs": []}
    yield {
        "type": "response.output_text.done", **part, "text": whole["text"], "logprobs": [],
    }  # fmt: skip
    yield {"type": "response.content_part.done", **part, "part": whole}
    item = {**item, "status": "completed", "content": [whole]}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def call_events(index: int, id: str, name: str, arguments: str) -> Iterator[Event]:
    item = {
        "id": f"fc_{index}", "type": "function_call", "status": "in_progress",
        "call_id": id, "name": name, "arguments": "",
    }  # fmt: skip
    at = {"item_id": item["id"], "output_index": index}
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    half = len(arguments) // 2
    for piece in (arguments[:half], arguments[half:]):
        yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
    yield {
        "type": "response.function_call_arguments.done", **at, "name": name,
        "arguments": arguments,
    }  # fmt: skip
    item = {**item, "status": "completed", "arguments": arguments}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def whole_stream(items: Sequence[Event], usage: Usage, end: str = "completed", **more: Any) -> Raw:
    """A stream of these events of items, from the first word of the service to its last."""
    done = [e["item"] for e in items if e["type"] == "response.output_item.done"]
    last = response(end, done, usage=usage_of(usage), **more)
    begun = [{"type": f"response.{n}", "response": response("in_progress")} for n in BEGIN]
    return numbered([*begun, *items, {"type": f"response.{end}", "response": last}])


BEGIN = ("created", "in_progress")
_HALF = [
    {"type": "response.created", "response": response("in_progress")},
    *list(message_events(0, ("half an ", "answer")))[:3],
]


def failing(code: str, message: str) -> Raw:
    error = {"code": code, "message": message}
    last = {"type": "response.failed", "response": response("failed", error=error)}
    return numbered([*_HALF, last])


@cache
def _params() -> Any:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    return adapter(ResponseCreateParamsStreaming)


class _Wire(ServerSent):
    name = "openai_responses"
    credential = Credential(KEY, label="OPENAI_API_KEY")

    def endpoint(self, root: str) -> Endpoint:
        facts = ModelFacts(
            rates=(Rates(2.0, 8.0, 0.5),), efforts=("low", "medium", "high"), sees=True, reads=True
        )
        service = ModelService(wire="openai-responses")
        return Endpoint("openai/test", "test", service, f"{root}/v1", facts, silence=PATIENCE)

    def open(self, endpoint: Endpoint) -> WireClient:
        return open_client(endpoint)

    def answer(self, case: Case) -> Raw:
        places = count()
        items: list[Event] = []
        if case.thoughts:
            items += reasoning_events(next(places), [case.thoughts])
        if case.texts:
            items += message_events(next(places), case.texts)
        for call in case.calls:
            items += call_events(next(places), call.id, call.name, call.arguments)
        return whole_stream(items, case.usage)

    def expected(self, case: Case) -> Heard:
        return case.heard

    @property
    def stops(self) -> Sequence[tuple[str, Raw, Stop]]:
        text = list(message_events(0, ("so",)))
        refused = list(message_events(0, ()))
        part = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
        delta = {"type": "response.refusal.delta", **part, "delta": "I will not"}
        content = [{"type": "refusal", "refusal": "I will not"}]
        done = {**refused[-1], "item": {**refused[-1]["item"], "content": content}}
        used = Usage(1, 1)

        def cut(reason: str) -> Raw:
            return whole_stream(text, used, "incomplete", incomplete_details={"reason": reason})

        return (
            ("completed", whole_stream(text, used), "end"),
            ("a call", whole_stream(list(call_events(0, "c1", "now", "{}")), used), "calls"),
            ("max_output_tokens", cut("max_output_tokens"), "length"),
            ("content_filter", cut("content_filter"), "refused"),
            ("refusal", whole_stream([refused[0], delta, done], used), "refused"),
        )

    @property
    def failures(self) -> Sequence[Failure]:
        late = FAILURES["429"]
        rate = Raw(late.pieces, 429, {**late.headers, "retry-after": "7"})
        error = {"type": "error", "code": "server_error", "message": "worker died", "param": None}
        limit = "Rate limit reached. Please try again in 1.5s."
        return (
            Failure("400", FAILURES["400"], "bad_request"),
            Failure("401", FAILURES["401"], "auth"),
            Failure("403", FAILURES["403"], "auth"),
            Failure("404", FAILURES["404"], "bad_request"),
            Failure("429", rate, "rate_limit", 7.0),
            Failure("500", FAILURES["500"], "overload"),
            Failure("502", FAILURES["502"], "overload"),
            Failure("529", FAILURES["529"], "overload"),
            Failure("quota", FAILURES["quota"], "quota"),
            Failure("context", FAILURES["context"], "context_too_long"),
            Failure("cut", numbered(_HALF), "broken_stream", sdk_raises=False),
            Failure("nested", numbered([*_HALF, {"type": "error", "error": error}]), "overload"),
            # The SDK hands these over as events; it does not raise.
            Failure("error", numbered([*_HALF, error]), "overload", sdk_raises=False),
            Failure("failed", failing("server_error", "oh"), "overload", sdk_raises=False),
            Failure(
                "late", failing("rate_limit_exceeded", limit), "rate_limit", 1.5, sdk_raises=False
            ),
            Failure("policy", failing("bio_policy", "no"), "refused", sdk_raises=False),
            Failure(
                "too long", failing("context_length_exceeded", "Your input exceeds the context"),
                "context_too_long", sdk_raises=False,
            ),
            Failure("image", failing("invalid_image", "bad"), "bad_request", sdk_raises=False),
        )  # fmt: skip

    async def ask_sdk(self, root: str, request: Request) -> Heard:
        from openai import AsyncOpenAI  # only where it is asked: to import it takes a second

        client = AsyncOpenAI(api_key=KEY, base_url=f"{root}/v1", max_retries=0, timeout=PATIENCE)
        last: Any = None
        async with client:
            stream = await client.responses.create(
                model="test", input=request.messages[-1].text, stream=True, store=False
            )
            async for event in stream:
                if event.type in ("response.completed", "response.incomplete"):
                    last = event.response
        return heard(last) if last is not None else Heard()

    def validate(self, body: bytes) -> None:
        _params().validate_python(json.loads(body))

    def sent(self, body: bytes) -> Sent:
        content = json.loads(body)
        items = content.pop("input")
        return Sent(content, items)


def heard(said: Any) -> Heard:
    """A response as the official types have it."""
    text, thoughts, calls, refused = "", "", [], False
    for item in said.output:
        if item.type == "message":
            for part in item.content:
                text += part.text if part.type == "output_text" else part.refusal
                refused = refused or part.type == "refusal"
        elif item.type == "reasoning":
            thoughts += "\n\n".join(part.text for part in item.summary)
        elif item.type == "function_call":
            calls.append((item.name, json.loads(item.arguments)))
    stop: Stop = "calls" if calls else "end"
    if said.status == "incomplete" and said.incomplete_details is not None:
        stop = "refused" if said.incomplete_details.reason == "content_filter" else "length"
    assert said.usage is not None
    details = said.usage.input_tokens_details
    usage = Usage(
        said.usage.input_tokens,
        said.usage.output_tokens,
        details.cached_tokens,
        details.cache_write_tokens,
        said.usage.output_tokens_details.reasoning_tokens,
    )
    return Heard(text, tuple(calls), thoughts, usage, "refused" if refused else stop)


WIRE = _Wire()
