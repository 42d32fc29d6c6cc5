"""The Gemini API, with the `google-genai` package as oracle."""

import dataclasses
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import msgspec

from hermes_agent.core.errors import ModelTrouble
from hermes_agent.core.messages import ModelFacts, Rates, Request, Stop, Usage
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient
from hermes_agent.models.wires.gemini import open_client
from tests.support.model_server import Raw, event
from tests.support.patience import PATIENCE
from tests.support.wires import KEY, Case, Failure, Heard, Sent, ServerSent

STOPS: dict[str, Stop] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "SAFETY": "refused",
    "RECITATION": "refused",
    "LANGUAGE": "refused",
    "OTHER": "refused",
    "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused",
    "SPII": "refused",
    "IMAGE_SAFETY": "refused",
    "CONTINUATION": "length",
}
SIGNATURE = "EjQKMgEMOdbHO0Gd+c9Mxk4ELwPGbpCEuzQ="


def chunk(
    parts: Sequence[dict[str, Any]], finish: str | None = None, usage: Usage | None = None
) -> dict[str, Any]:
    """A chunk as the service sends it: it counts in each of them."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    content: dict[str, Any] = {"candidates": [candidate]}
    if usage is not None:
        content["usageMetadata"] = counted(usage)
    return {**content, "modelVersion": "gemini-test", "responseId": "mJ4Baf2bCNWmqtsP"}


def counted(usage: Usage) -> dict[str, Any]:
    counts = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "totalTokenCount": usage.total,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input}],
    }
    if usage.cached:
        counts["cachedContentTokenCount"] = usage.cached
    if usage.reasoning:
        counts["thoughtsTokenCount"] = usage.reasoning
    return counts


def call_part(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": arguments}, **more}


def error(status: int, code: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"code": status, "message": message, "status": code}
    if details:
        said["details"] = list(details)
    return {"error": said}


def detail(kind: str, **fields: Any) -> dict[str, Any]:
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **fields}


def quota(id: str) -> dict[str, Any]:
    metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    return detail("QuotaFailure", violations=[{"quotaMetric": metric, "quotaId": id}])


_USED_UP = "You exceeded your current quota, please check your plan and billing details."
_MINUTE = quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier")
_DAY = quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")
_LATER = detail("RetryInfo", retryDelay="7s")
_BAD_KEY = detail("ErrorInfo", reason="API_KEY_INVALID", domain="googleapis.com")
_LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
BUSY = error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")

REFUSALS: Sequence[tuple[str, ModelTrouble, float | None, dict[str, Any]]] = (
    ("400", "bad_request", None, error(400, "INVALID_ARGUMENT", "Invalid value at 'x'")),
    ("key", "auth", None, error(400, "INVALID_ARGUMENT", "API key not valid.", _BAD_KEY)),
    ("403", "auth", None, error(403, "PERMISSION_DENIED", "Your key lacks permission.")),
    ("404", "bad_request", None, error(404, "NOT_FOUND", "models/x is not found")),
    ("rate", "rate_limit", 7.0, error(429, "RESOURCE_EXHAUSTED", _USED_UP, _MINUTE, _LATER)),
    ("bare", "rate_limit", None, error(429, "RESOURCE_EXHAUSTED", "Resource exhausted.")),
    ("day", "quota", 7.0, error(429, "RESOURCE_EXHAUSTED", _USED_UP, _MINUTE, _DAY, _LATER)),
    ("credit", "quota", None, error(429, "RESOURCE_EXHAUSTED", "Your credits are depleted.")),
    ("500", "overload", None, error(500, "INTERNAL", "An internal error has occurred.")),
    ("503", "overload", None, BUSY),
    ("504", "timeout", None, error(504, "DEADLINE_EXCEEDED", "Deadline expired.")),
    ("context", "context_too_long", None, error(400, "INVALID_ARGUMENT", _LONG)),
)


class _Wire(ServerSent):
    name = "gemini"
    credential = Credential(KEY, label="GEMINI_API_KEY")

    def endpoint(self, root: str) -> Endpoint:
        facts = ModelFacts(
            context=1_000_000,
            max_output=65_536,
            rates=(Rates(1.25, 10.0, 0.125),),
            efforts=("low", "medium", "high"),
            thinking="level",
            sees=True,
            reads=True,
        )
        service = ModelService(wire="gemini")
        url = f"{root}/v1beta"
        return Endpoint("gemini/test", "test", service, url, facts, silence=PATIENCE)

    def open(self, endpoint: Endpoint) -> WireClient:
        return open_client(endpoint)

    def answer(self, case: Case) -> Raw:
        """As a third-generation model does it: the signature on the first call, or on an empty
        text at the end; each call whole; the count of the answer grows."""
        early = Usage(case.usage.input)
        pieces = [chunk([{"text": text, "thought": True}], usage=early) for text in case.thoughts]
        pieces += [chunk([{"text": text}], usage=early) for text in case.texts]
        for number, call in enumerate(case.calls):
            signed = {} if number else {"thoughtSignature": SIGNATURE}
            pieces.append(chunk([call_part(call.name, call.input(), **signed)], usage=early))
        last = [{"text": ""}] if case.calls else [{"text": "", "thoughtSignature": SIGNATURE}]
        pieces.append(chunk(last, "STOP", case.usage))
        return Raw([event(piece) for piece in pieces])

    def expected(self, case: Case) -> Heard:
        """The format has no word for what is put into a cache."""
        usage = msgspec.structs.replace(case.usage, written=0)
        return dataclasses.replace(case, usage=usage).heard

    @property
    def stops(self) -> Sequence[tuple[str, Raw, Stop]]:
        rows = [
            (native, Raw.events(chunk([{"text": "so"}]), chunk([], native, Usage(1, 1))), stop)
            for native, stop in STOPS.items()
        ]
        called = Raw.events(chunk([call_part("now", {})], "STOP", Usage(1, 1)))
        return [*rows, ("STOP with a call", called, "calls")]

    @property
    def failures(self) -> Sequence[Failure]:
        half = chunk([{"text": "half an "}], usage=Usage(9, 2))
        malformed = chunk([], "MALFORMED_FUNCTION_CALL")
        blocked = {
            "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
            "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
        }
        return (
            *(
                Failure(name, Raw.json(body, body["error"]["code"]), kind, wait)
                for name, kind, wait, body in REFUSALS
            ),
            Failure("blocked", Raw.events(blocked), "refused", sdk_raises=False),
            Failure("malformed", Raw.events(half, malformed), "garbage", sdk_raises=False),
            Failure("midway", Raw.events(half, BUSY), "overload"),
            Failure("cut", Raw.events(half, end="cut"), "broken_stream"),
            Failure("ended", Raw.events(half), "broken_stream", sdk_raises=False),
        )

    async def ask_sdk(self, root: str, request: Request) -> Heard:
        text, thoughts, finish, usage = "", "", "", Usage()
        calls: list[tuple[str, dict[str, Any]]] = []
        async for piece in _sdk_stream(root, request.messages[-1].text):
            if piece.usage_metadata:
                usage = _usage(piece.usage_metadata)
            for candidate in piece.candidates or ():
                for part in (candidate.content.parts or ()) if candidate.content else ():
                    if call := part.function_call:
                        calls.append((call.name or "", call.args or {}))
                    elif part.thought:
                        thoughts += part.text or ""
                    else:
                        text += part.text or ""
                finish = candidate.finish_reason.value if candidate.finish_reason else finish
        stop = STOPS.get(finish, "end")
        return Heard(text, tuple(calls), thoughts, usage, "calls" if calls else stop)

    def validate(self, body: bytes) -> None:
        """The SDK's types forbid what they do not know."""
        from google.genai import types

        content = json.loads(body)
        for each in content.pop("contents"):
            types.Content.model_validate(each)
        for each in content.pop("tools", ()):
            types.Tool.model_validate(each)
        types.GenerationConfig.model_validate(content.pop("generationConfig", {}))
        types.Content.model_validate(content.pop("systemInstruction", {}))
        assert not content

    def sent(self, body: bytes) -> Sent:
        content = json.loads(body)
        messages = content.pop("contents")
        return Sent(content, messages)


async def _sdk_stream(root: str, text: str) -> AsyncIterator[Any]:
    from google import genai  # only where it is asked: to import it takes seconds
    from google.genai import types

    # With our client: the one that it takes by itself warns of its own making.
    async with httpx.AsyncClient() as http:
        options = types.HttpOptions(
            base_url=root,
            timeout=int(PATIENCE * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
            httpx_async_client=http,
        )
        with genai.Client(api_key=KEY, http_options=options) as client:
            models = client.aio.models
            async for piece in await models.generate_content_stream(model="test", contents=text):
                yield piece


def _usage(said: Any) -> Usage:
    thought = said.thoughts_token_count or 0
    output = (said.candidates_token_count or 0) + thought
    return Usage(
        said.prompt_token_count or 0, output, said.cached_content_token_count or 0, 0, thought
    )


WIRE = _Wire()
