"""The chat-completions format of OpenAI, with the `openai` package as oracle."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from hermes_agent.core.messages import ModelFacts, Rates, Request, Stop, Usage
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient
from hermes_agent.models.wires.openai.chat import open_client
from tests.support.model_server import Raw, event
from tests.support.openai_server import FAILURES, FINISH, chunk
from tests.support.patience import PATIENCE
from tests.support.wires import KEY, Case, Failure, Heard, Sent, ServerSent
from tests.support.wires.strict_types import adapter

STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "length": "length",
    "content_filter": "refused",
}


@cache
def _params() -> Any:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    return adapter(CompletionCreateParamsStreaming)


class _Wire(ServerSent):
    name = "openai_chat"
    credential = Credential(KEY, label="OPENAI_API_KEY")

    def endpoint(self, root: str) -> Endpoint:
        facts = ModelFacts(
            rates=(Rates(2.0, 8.0, 0.5),), efforts=("low", "medium", "high"), sees=True, reads=True
        )
        service = ModelService(
            quirks=("max_completion_tokens", "reasoning_effort", "reasoning_content")
        )
        return Endpoint("openai/test", "test", service, f"{root}/v1", facts, silence=PATIENCE)

    def open(self, endpoint: Endpoint) -> WireClient:
        return open_client(endpoint)

    def answer(self, case: Case) -> Raw:
        pieces = [chunk({"role": "assistant", "content": ""})]
        pieces += [chunk({"reasoning_content": text}) for text in case.thoughts]
        pieces += [chunk({"content": text}) for text in case.texts]
        for index, call in enumerate(case.calls):
            half = len(call.arguments) // 2
            function = {"name": call.name, "arguments": call.arguments[:half]}
            start = {"index": index, "id": call.id, "type": "function", "function": function}
            rest = {"index": index, "function": {"arguments": call.arguments[half:]}}
            pieces += [chunk({"tool_calls": [start]}), chunk({"tool_calls": [rest]})]
        pieces.append(chunk({}, FINISH[case.stop]))
        return self._raw(pieces, case.usage)

    def _raw(self, pieces: Sequence[dict[str, Any]], usage: Usage) -> Raw:
        counted = {
            **chunk({}),
            "choices": [],
            "usage": {
                "prompt_tokens": usage.input,
                "completion_tokens": usage.output,
                "total_tokens": usage.total,
                "prompt_tokens_details": {
                    "cached_tokens": usage.cached,
                    "cache_write_tokens": usage.written,
                },
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
            },
        }
        return Raw([*map(event, pieces), event(counted), b"data: [DONE]\n\n"])

    def expected(self, case: Case) -> Heard:
        return case.heard

    @property
    def stops(self) -> Sequence[tuple[str, Raw, Stop]]:
        rows = []
        for native, stop in STOPS.items():
            call = {"index": 0, "id": "c1", "type": "function"}
            call["function"] = {"name": "now", "arguments": "{}"}
            delta = {"tool_calls": [call]} if stop == "calls" else {"content": "so"}
            rows.append((native, self._raw([chunk(delta), chunk({}, native)], Usage(1, 1)), stop))
        refused = [chunk({"refusal": "I will not"}), chunk({}, "stop")]
        return [*rows, ("refusal", self._raw(refused, Usage(1, 1)), "refused")]

    @property
    def failures(self) -> Sequence[Failure]:
        late = FAILURES["429"]
        rate = Raw(late.pieces, 429, {**late.headers, "retry-after": "7"})
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
            Failure(
                "filtered",
                Raw.json({"error": {"message": "no", "code": "content_filter"}}, 400),
                "refused",
            ),
            Failure("cut", FAILURES["cut"], "broken_stream"),
            Failure("midway", FAILURES["midway"], "overload"),
        )

    async def ask_sdk(self, root: str, request: Request) -> Heard:
        from openai import AsyncOpenAI  # only where it is asked: to import it takes a second

        client = AsyncOpenAI(api_key=KEY, base_url=f"{root}/v1", max_retries=0, timeout=PATIENCE)
        text, thoughts, finish, usage = "", "", "", Usage()
        calls: dict[int, list[str]] = {}
        refused = False
        async with client:
            stream = await client.chat.completions.create(
                model="test",
                messages=[{"role": "user", "content": request.messages[-1].text}],
                stream=True,
                stream_options={"include_usage": True},
            )
            async for piece in stream:
                if piece.usage:
                    usage = _usage(piece.usage)
                for choice in piece.choices:
                    text += choice.delta.content or choice.delta.refusal or ""
                    refused = refused or bool(choice.delta.refusal)
                    thoughts += getattr(choice.delta, "reasoning_content", None) or ""
                    for call in choice.delta.tool_calls or ():
                        entry = calls.setdefault(call.index, ["", ""])
                        entry[0] += call.function.name or "" if call.function else ""
                        entry[1] += call.function.arguments or "" if call.function else ""
                    finish = choice.finish_reason or finish
        made = tuple((name, json.loads(arguments)) for name, arguments in calls.values())
        return Heard(text, made, thoughts, usage, "refused" if refused else STOPS[finish])

    def validate(self, body: bytes) -> None:
        content = json.loads(body)
        for message in content["messages"]:
            message.pop("reasoning_content", None)  # other services' own
        _params().validate_python(content)

    def sent(self, body: bytes) -> Sent:
        content = json.loads(body)
        messages = content.pop("messages")
        return Sent(content, messages)


def _usage(said: Any) -> Usage:
    reasoning = said.completion_tokens_details.reasoning_tokens or 0
    details = said.prompt_tokens_details
    cached, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    return Usage(said.prompt_tokens, said.completion_tokens, cached, written, reasoning)


WIRE = _Wire()
