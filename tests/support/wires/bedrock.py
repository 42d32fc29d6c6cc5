"""Amazon Bedrock's Converse, with `boto3` as oracle. The frames of its streams are made here, since
botocore only reads them."""

import asyncio
import base64
import dataclasses
import json
import re
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from zlib import crc32

import boto3
import msgspec
from botocore.config import Config
from botocore.model import ServiceModel
from botocore.serialize import create_serializer
from botocore.validate import ParamValidator

from hermes_agent.core.errors import ModelTrouble
from hermes_agent.core.messages import ModelFacts, Rates, Request, Stop, Usage
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient
from hermes_agent.models.wires.bedrock.client import open_client
from tests.support.model_server import End, Raw
from tests.support.patience import PATIENCE
from tests.support.wires import KEY, Case, Failure, Heard, Sent

MODEL = "anthropic.claude-test-4-v1:0"
KEY_ID = "AKIDEXAMPLE0TEST"
STREAM = {"content-type": "application/vnd.amazon.eventstream"}
STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "refused",
    "content_filtered": "refused",
}
TOO_LONG = "Input is too long for requested model."
REFUSALS: tuple[tuple[int, str, str, ModelTrouble], ...] = (
    (400, "Validation", "bad", "bad_request"),
    (400, "Validation", TOO_LONG, "context_too_long"),
    (400, "Validation", "input length and `max_tokens` exceed context limit", "context_too_long"),
    (400, "Validation", "Output blocked by content filtering policy", "refused"),
    (403, "AccessDenied", "no access to the model", "auth"),
    (403, "ExpiredToken", "expired", "auth"),
    (403, "UnrecognizedClient", f"the token {KEY} is invalid", "auth"),
    (403, "InvalidSignature", "Signature expired", "auth"),
    (404, "ResourceNotFound", "no such model", "bad_request"),
    (408, "ModelTimeout", "slow", "timeout"),
    (424, "ModelError", "failed", "overload"),
    (429, "Throttling", "Too many tokens per day", "rate_limit"),
    (429, "ModelNotReady", "warming up", "overload"),
    (400, "ServiceQuotaExceeded", "exceeded", "quota"),
    (500, "InternalServer", "oops", "overload"),
    (503, "ServiceUnavailable", "down", "overload"),
)
EXCEPTIONS: tuple[tuple[str, str, ModelTrouble], ...] = (
    ("throttling", "slow down", "rate_limit"),
    ("validation", TOO_LONG, "context_too_long"),
    ("validation", "bad", "bad_request"),
    ("modelStreamError", "lost", "overload"),
    ("internalServer", "oops", "overload"),
    ("serviceUnavailable", "down", "overload"),
)
"""What comes inside a stream."""
_STRING = 7


def frame(payload: bytes, headers: Mapping[str, str]) -> bytes:
    """One frame of an event stream; every header is text."""
    lines = b""
    for name, value in headers.items():
        text = value.encode()
        lines += bytes((len(name),)) + name.encode() + bytes((_STRING,))
        lines += struct.pack("!H", len(text)) + text
    return framed(lines, payload)


def framed(headers: bytes, payload: bytes) -> bytes:
    """A frame around headers that are bytes already, with both checksums."""
    start = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    start += struct.pack("!I", crc32(start))
    whole = start + headers + payload
    return whole + struct.pack("!I", crc32(whole))


def event(kind: str, content: Any) -> bytes:
    """As Bedrock sends it, with the padding that hides how long the text is."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    if isinstance(content, dict):
        content = {**content, "p": "abcdefghijklmnopqrstuvwxyz"[: 3 + len(kind)]}
    return frame(json.dumps(content).encode(), headers)


def exception(kind: str, message: str) -> bytes:
    headers = {
        ":exception-type": kind, ":content-type": "application/json", ":message-type": "exception",
    }  # fmt: skip
    return frame(json.dumps({"message": message}).encode(), headers)


def piece(index: int, delta: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})


def end(index: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index})


def call_start(index: int, id: str, name: str) -> bytes:
    start = {"toolUse": {"name": name, "toolUseId": id}}
    return event("contentBlockStart", {"contentBlockIndex": index, "start": start})


def metadata(usage: Usage) -> bytes:
    """The cached tokens are counted beside the rest, as Bedrock does."""
    counted = {
        "inputTokens": usage.input - usage.cached - usage.written,
        "outputTokens": usage.output,
        "totalTokens": usage.total,
        "cacheReadInputTokens": usage.cached,
        "cacheWriteInputTokens": usage.written,
    }
    return event("metadata", {"metrics": {"latencyMs": 1234}, "usage": counted})


def stream(*pieces: bytes, stop: str = "end_turn", usage: Usage = Usage(1, 1)) -> Raw:  # noqa: B008
    begin, stopped = event("messageStart", {"role": "assistant"}), {"stopReason": stop}
    return Raw([begin, *pieces, event("messageStop", stopped), metadata(usage)], 200, STREAM)


def broken(*pieces: bytes, how: End = "end") -> Raw:
    return Raw([event("messageStart", {"role": "assistant"}), *pieces], 200, STREAM, how)


def error(status: int, name: str, message: str, **headers: str) -> Raw:
    named = {"x_amzn_errortype": f"{name}:http://internal.amazon.com/coral/"}
    return Raw.json({"message": message}, status, **named, **headers)


@cache
def _service() -> ServiceModel:
    session = boto3.session.Session()
    model: ServiceModel = session._session.get_service_model("bedrock-runtime")
    return model


@cache
def _session() -> Any:
    return boto3.session.Session(
        aws_access_key_id=KEY_ID, aws_secret_access_key=KEY, region_name="us-east-1"
    )


class _Wire:
    name = "bedrock"
    keep_alive = event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": ""}})
    credential = Credential(KEY, KEY_ID, "session-token-of-a-test", "AWS_ACCESS_KEY_ID")

    def endpoint(self, root: str) -> Endpoint:
        facts = ModelFacts(
            rates=(Rates(3.0, 15.0, 0.3, 3.75),),
            efforts=("low", "medium", "high"),
            thinking="budget",
            sees=True,
            reads=True,
        )
        return Endpoint(
            "bedrock/test", MODEL, ModelService(wire="bedrock"), root, facts, silence=PATIENCE
        )

    def open(self, endpoint: Endpoint) -> WireClient:
        return open_client(endpoint)

    def answer(self, case: Case) -> Raw:
        pieces: list[bytes] = []
        index = 0
        if case.thoughts:
            pieces += [piece(0, {"reasoningContent": {"text": text}}) for text in case.thoughts]
            pieces += [piece(0, {"reasoningContent": {"signature": "c2lnbmVk"}}), end(0)]
            index = 1
        if case.texts:
            pieces += [*(piece(index, {"text": text}) for text in case.texts), end(index)]
            index += 1
        for number, call in enumerate(case.calls, index):
            half = len(call.arguments) // 2
            parts = ("", call.arguments[:half], call.arguments[half:])
            pieces.append(call_start(number, call.id, call.name))
            pieces += [piece(number, {"toolUse": {"input": part}}) for part in parts]
            pieces.append(end(number))
        stop = next(native for native, ours in STOPS.items() if ours == case.stop)
        return stream(*pieces, stop=stop, usage=case.usage)

    def expected(self, case: Case) -> Heard:
        """The format has no word for the tokens of reasoning."""
        usage = msgspec.structs.replace(case.usage, reasoning=0)
        return dataclasses.replace(case, usage=usage).heard

    @property
    def stops(self) -> Sequence[tuple[str, Raw, Stop]]:
        rows = []
        for native, stop in STOPS.items():
            said = [piece(0, {"text": "so"}), end(0)]
            if stop == "calls":
                said = [call_start(0, "c1", "now"), piece(0, {"toolUse": {"input": ""}}), end(0)]
            rows.append((native, stream(*said, stop=native), stop))
        return rows

    @property
    def failures(self) -> Sequence[Failure]:
        named = {"__type": "com.amazon#ThrottlingException", "message": "no"}
        refused = [
            Failure(f"{name}: {said}", error(status, f"{name}Exception", said), kind)
            for status, name, said, kind in REFUSALS
        ]
        late = error(429, "ThrottlingException", "Too many tokens, wait", retry_after="7")
        page = Raw([b"<html>bad gateway</html>"], 502, {})
        return (
            *refused,
            Failure("throttled for a while", late, "rate_limit", 7.0),
            Failure("named in the body", Raw.json(named, 400), "rate_limit"),
            Failure("a proxy's page", page, "overload"),
            *self._midway(),
        )

    def _midway(self) -> Sequence[Failure]:
        said = piece(0, {"text": "so"})
        told = [
            Failure(f"{name} midway", broken(said, exception(f"{name}Exception", text)), kind)
            for name, text, kind in EXCEPTIONS
        ]
        error = {":message-type": "error", ":error-code": "Boom", ":error-message": "x"}
        damaged = said[:-1] + bytes((said[-1] ^ 1,))
        odd = stream(said, stop="malformed_tool_use")
        return (
            *told,
            Failure("an error that is no exception", broken(frame(b"", error)), "overload"),
            Failure("wrong checksum", broken(damaged), "garbage"),
            Failure("cut", broken(said, how="cut"), "broken_stream"),
            Failure("reset", broken(said, how="reset"), "broken_stream"),
            Failure("ended", broken(said), "broken_stream", sdk_raises=False),
            Failure("malformed", odd, "garbage", sdk_raises=False),
        )

    async def ask_sdk(self, root: str, request: Request) -> Heard:
        return await asyncio.to_thread(_ask, root, request.messages[-1].text)

    def validate(self, body: bytes) -> None:
        """Turned into the SDK's own values, checked by its own types and written by its own
        serializer, the request is what we sent."""
        operation = _service().operation_model("ConverseStream")
        shape = operation.input_shape
        content = json.loads(body)
        params = {**_sdk_value(shape, content), "modelId": MODEL}
        report = ParamValidator().validate(params, shape)
        assert not report.has_errors(), report.generate_report()
        written = create_serializer("rest-json").serialize_to_request(params, operation)
        assert json.loads(written["body"]) == content
        _check_conversation(content)

    def sent(self, body: bytes) -> Sent:
        content = json.loads(body)
        marks = body.count(b'"cachePoint"')
        messages = content.pop("messages")
        for message in messages:
            message["content"] = [b for b in message["content"] if "cachePoint" not in b]
        return Sent(content, messages, marks)

    def unpacked(self, piece: bytes) -> Any:
        return json.loads(self._parts(piece)[1])

    def packed(self, piece: bytes, content: Any) -> bytes:
        return framed(self._parts(piece)[0], json.dumps(content).encode())

    def _parts(self, piece: bytes) -> tuple[bytes, bytes]:
        (headers,) = struct.unpack_from("!I", piece, 4)
        return piece[12 : 12 + headers], piece[12 + headers : -4]


def _ask(root: str, text: str) -> Heard:
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=PATIENCE,
        read_timeout=PATIENCE,
        proxies={},
    )
    client = _session().client("bedrock-runtime", endpoint_url=root, config=config)
    try:
        answer = client.converse_stream(
            modelId=MODEL, messages=[{"role": "user", "content": [{"text": text}]}]
        )
        try:
            return _heard(answer["stream"])
        finally:
            answer["stream"].close()
    finally:
        client.close()


def _heard(events: Any) -> Heard:
    said, thoughts, stop, usage = "", "", "", Usage()
    calls: dict[int, list[str]] = {}
    for each in events:
        match each:
            case {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": call}}}:
                calls[index] = [call["name"], ""]
            case {"contentBlockDelta": {"delta": {"text": text}}}:
                said += text
            case {"contentBlockDelta": {"contentBlockIndex": at, "delta": {"toolUse": call}}}:
                calls[at][1] += call["input"]
            case {"contentBlockDelta": {"delta": {"reasoningContent": thought}}}:
                thoughts += thought.get("text", "")
            case {"messageStop": {"stopReason": reason}}:
                stop = reason
            case {"metadata": {"usage": counted}}:
                usage = _usage(counted)
    made = tuple((name, json.loads(arguments or "{}")) for name, arguments in calls.values())
    return Heard(said, made, thoughts, usage, STOPS.get(stop, "end"))


def _usage(counted: Mapping[str, int]) -> Usage:
    cached, written = counted["cacheReadInputTokens"], counted["cacheWriteInputTokens"]
    return Usage(
        counted["inputTokens"] + cached + written, counted["outputTokens"], cached, written
    )


def _sdk_value(shape: Any, content: Any) -> Any:
    """A value of our JSON as the SDK takes it; enumerations and patterns are checked here, since
    the SDK leaves them to the service."""
    match shape.type_name:
        case "structure":
            if getattr(shape, "is_document_type", False):
                return content
            unknown = set(content) - set(shape.members)
            assert not unknown, f"{shape.name} has no {unknown}"
            return {name: _sdk_value(shape.members[name], each) for name, each in content.items()}
        case "list":
            return [_sdk_value(shape.member, each) for each in content]
        case "blob":
            return base64.b64decode(content, validate=True)
        case "string":
            assert not shape.enum or content in shape.enum
            pattern = shape.metadata.get("pattern")
            assert pattern is None or re.fullmatch(pattern, content), (shape.name, content)
    return content


def _check_conversation(content: Any) -> None:
    """What the service checks and the types do not say."""
    messages = content["messages"]
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    calls: set[str] = set()
    for message in messages:
        assert message["content"]
        results = {b["toolResult"]["toolUseId"] for b in message["content"] if "toolResult" in b}
        assert results == calls
        calls = {b["toolUse"]["toolUseId"] for b in message["content"] if "toolUse" in b}
        assert "toolConfig" in content or not calls
        texts = [block["text"] for block in message["content"] if "text" in block]
        assert all(text.strip() for text in texts)
        assert texts or not any("document" in block for block in message["content"])


WIRE = _Wire()
