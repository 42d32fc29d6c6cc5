"""What is special to Bedrock: signed and bearer requests, regions, its answers."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    AssistantMessage,
    Message,
    Reply,
    Request,
    Thinking,
    ToolCall,
    ToolMessage,
    Usage,
)
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.bedrock.client import headers_of, open_client, path_to
from tests.models.bedrock_helpers import HI, PROMPT, content, endpoint
from tests.support.model_server import ModelServer, Raw
from tests.support.wires.bedrock import (
    KEY_ID,
    MODEL,
    STREAM,
    WIRE,
    broken,
    call_start,
    end,
    event,
    frame,
    piece,
    stream,
)

SAID = stream(piece(0, {"text": "hello"}), end(0))
NOW = 1_750_000_000.0


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


async def ask(
    at: Endpoint, credential: Credential = WIRE.credential, *messages: Message
) -> tuple[list[Any], Reply]:
    speaker = open_client(at, lambda: NOW)
    try:
        request = Request(PROMPT, messages or (HI,))
        *pieces, reply = [chunk async for chunk in speaker.stream(request, credential)]
    finally:
        await speaker.close()
    assert isinstance(reply, Reply)
    return pieces, reply


# who asks


@pytest.mark.parametrize(
    "model", [MODEL, "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.amazon.nova:0"]
)
async def test_a_request_carries_the_signature_that_aws_would_compute(
    server: ModelServer, model: str
) -> None:
    server.answer_next(SAID)
    await ask(endpoint(server.root, model))
    received = server.requests[0]
    assert received.path == f"/model/{model}/converse-stream"
    signed = received.headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    assert {"host", "x-amz-date", "x-amz-security-token", "content-type"} == set(signed)
    credential = WIRE.credential
    keys = Credentials(credential.id, credential.secret, credential.session)
    auth = SigV4Auth(keys, "bedrock", "us-east-1")
    url = server.root + path_to(endpoint(server.root, model))
    assert unquote(url) == server.root + received.path
    headers = {name: received.headers[name] for name in signed}
    request = AWSRequest("POST", url, headers, received.body)
    request.context["timestamp"] = received.headers["x-amz-date"]
    text = auth.string_to_sign(request, auth.canonical_request(request))
    assert received.headers["authorization"].endswith(auth.signature(text, request))
    assert KEY_ID in received.headers["authorization"]
    assert credential.secret not in str(received.headers)


async def test_a_credential_without_an_id_is_a_bearer_token(server: ModelServer) -> None:
    server.answer_next(SAID)
    await ask(endpoint(server.root), Credential("bedrock-api-key-x", label="x"))
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer bedrock-api-key-x"
    assert "x-amz-date" not in headers


@pytest.mark.parametrize(
    ("url", "headers", "region"),
    [
        ("https://bedrock-runtime.eu-central-1.amazonaws.com", {}, "eu-central-1"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", {}, "us-gov-west-1"),
        ("https://vpce-1.bedrock-runtime.ap-south-1.vpce.amazonaws.com", {}, "ap-south-1"),
        ("https://bedrock-runtime.us-west-2.api.aws", {}, "us-west-2"),
        ("https://proxy.example/aws", {"x-amz-region": "eu-north-1"}, "eu-north-1"),
        ("https://proxy.example/aws", {}, "us-east-1"),
    ],
)
def test_the_region_is_read_from_the_address(
    url: str, headers: dict[str, str], region: str
) -> None:
    service = ModelService(wire="bedrock", headers=headers)
    at = msgspec.structs.replace(endpoint(url), service=service)
    signed = headers_of(at, path_to(at), b"{}", WIRE.credential, NOW)
    assert f"/20250615/{region}/bedrock/aws4_request" in signed["authorization"]


# thoughts


async def test_thoughts_go_back_signed_and_in_their_place(server: ModelServer) -> None:
    server.answer_next(
        stream(
            piece(0, {"reasoningContent": {"text": "first "}}),
            piece(0, {"reasoningContent": {"text": "thought"}}),
            piece(0, {"reasoningContent": {"signature": "c2ln"}}),
            end(0),
            piece(1, {"reasoningContent": {"redactedContent": "c2VjcmV0"}}),
            end(1),
            piece(2, {"text": "I look."}),
            end(2),
            call_start(3, "c1", "look"),
            piece(3, {"toolUse": {"input": "{}"}}),
            end(3),
            piece(4, {"reasoningContent": {"text": "again"}}),
            piece(4, {"reasoningContent": {"signature": "c2lnMg=="}}),
            end(4),
            call_start(5, "c2", "now"),
            end(5),
            stop="tool_use",
        )
    )
    pieces, reply = await ask(endpoint(server.root))
    assert [each.text for each in pieces if isinstance(each, Thinking)] == [
        "first ", "thought", "again",
    ]  # fmt: skip
    results = (ToolMessage("c1", "look", "x"), ToolMessage("c2", "now", "y"))
    said = content(endpoint(), HI, reply.message, *results)[1]["content"]
    assert said == [
        {"reasoningContent": {"reasoningText": {"text": "first thought", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "c2VjcmV0"}},
        {"text": "I look."},
        {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}},
        {"reasoningContent": {"reasoningText": {"text": "again", "signature": "c2lnMg=="}}},
        {"toolUse": {"toolUseId": "c2", "name": "now", "input": {}}},
    ]


# answers


async def test_an_answer_without_a_count_is_estimated(server: ModelServer) -> None:
    server.answer_next(Raw(SAID.pieces[:-1], 200, STREAM))
    _, reply = await ask(endpoint(server.root))
    assert reply.usage.input > 0
    assert reply.usage.output > 0


async def test_damage_after_the_end_of_an_answer_is_passed_over(server: ModelServer) -> None:
    for late in (b"garbage that is no frame", event("metadata", {"usage": {"inputTokens": "x"}})):
        server.answer_next(Raw([*SAID.pieces[:-1], late], 200, STREAM))
        server.answer_next(Raw([b"".join(SAID.pieces[:-1]) + late], 200, STREAM))
        for _ in range(2):
            _, reply = await ask(endpoint(server.root))
            assert (reply.text, reply.stop) == ("hello", "end")


async def test_a_finished_answer_may_be_empty(server: ModelServer) -> None:
    server.answer_next(stream(usage=Usage(3, 0)))
    pieces, reply = await ask(endpoint(server.root))
    assert (pieces, reply.text, reply.calls, reply.stop) == ([], "", (), "end")
    assert reply.usage == Usage(3, 0)


async def test_a_broken_stream_tells_what_it_used(server: ModelServer) -> None:
    said = [piece(0, {"reasoningContent": {"text": "hm" * 50}}), piece(1, {"text": "x" * 400})]
    server.answer_next(broken(*said))
    with pytest.raises(ModelError) as caught:
        await ask(endpoint(server.root))
    assert caught.value.kind == "broken_stream"
    assert caught.value.input > 0
    assert caught.value.output == 125
    server.answer_next(broken())
    with pytest.raises(ModelError) as caught:
        await ask(endpoint(server.root))
    assert (caught.value.input, caught.value.output) == (0, 0)


async def test_a_call_that_is_cut_is_no_call(server: ModelServer) -> None:
    start = call_start(0, "c1", "look")
    for pieces in (
        (start, piece(0, {"toolUse": {"input": '{"a'}})),
        (piece(0, {"toolUse": {"input": "{}"}}), end(0)),
        (start, end(0), piece(0, {"toolUse": {"input": "{}"}})),
        (start, start, end(0)),
        (call_start(0, "c1", ""), end(0)),
    ):
        server.answer_next(stream(*pieces, stop="tool_use"))
        with pytest.raises(ModelError) as caught:
            await ask(endpoint(server.root))
        assert caught.value.kind == "garbage"


async def test_a_call_that_the_limit_cut_before_its_arguments_is_left_out(
    server: ModelServer,
) -> None:
    whole = [call_start(0, "c1", "look"), piece(0, {"toolUse": {"input": '{"a": 1}'}}), end(0)]
    cut = [call_start(1, "c2", "look"), piece(1, {"toolUse": {"input": ""}}), end(1)]
    server.answer_next(stream(*whole, *cut, stop="max_tokens"))
    _, reply = await ask(endpoint(server.root))
    assert [call.id for call in reply.calls] == ["c1"]
    assert reply.stop == "length"


async def test_a_call_under_a_known_id_gets_another(server: ModelServer) -> None:
    twice = [call_start(0, "c1", "now"), end(0), call_start(1, "", "now"), end(1)]
    server.answer_next(stream(*twice, stop="tool_use"))
    before = (HI, AssistantMessage("", (ToolCall("c1", "now"),)), ToolMessage("c1", "now", "x"))
    _, reply = await ask(endpoint(server.root), WIRE.credential, *before)
    ids = {call.id for call in reply.calls}
    assert len(ids) == 2
    assert "c1" not in ids


@pytest.mark.parametrize("kind", ["contentBlockDelta", "contentBlockStart", "messageStop"])
async def test_deep_nesting_is_garbage(server: ModelServer, kind: str) -> None:
    deep = b'{"x":' * 50_000 + b"1" + b"}" * 50_000
    headers = {":event-type": kind, ":message-type": "event"}
    server.answer_next(Raw([frame(deep, headers)], 200, STREAM))
    with pytest.raises(ModelError) as caught:
        await ask(endpoint(server.root))
    assert caught.value.kind == "garbage"
