"""One call over HTTP, whatever the format: what is packed into a piece goes up at once."""

import json
from collections.abc import Iterator
from importlib import import_module
from urllib.parse import urlsplit

import msgspec
import pytest

from hermes_agent.core.messages import (
    Chunk,
    Delta,
    Prompt,
    Reply,
    Request,
    Thinking,
    ToolSpec,
    Usage,
    UserMessage,
)
from hermes_agent.models.speaking import Endpoint
from tests.support.model_server import ModelServer, Raw
from tests.support.wires import Case, WireUnderTest

WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini", "bedrock", "mistral")
CASE = Case("mixed", ("a", "b", "c"), thoughts=("h", "m"), usage=Usage(12, 7))
GO = Request(Prompt("Be brief"), (UserMessage("go"),), session="s1")


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> WireUnderTest:
    made: WireUnderTest = import_module(f"tests.support.wires.{request.param}").WIRE
    return made


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


async def heard(wire: WireUnderTest, place: Endpoint) -> list[Chunk]:
    speaker = wire.open(place)
    try:
        return [chunk async for chunk in speaker.stream(GO, wire.credential)]
    finally:
        await speaker.close()


async def test_what_one_piece_holds_comes_as_one_thought_and_one_text(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(CASE)
    server.answer_next(Raw([b"".join(raw.pieces)], 200, raw.headers))
    *pieces, reply = await heard(wire, wire.endpoint(server.root))
    thought = "".join(CASE.thoughts)
    assert pieces == [Thinking(thought), Delta("abc")]
    assert isinstance(reply, Reply)
    assert (reply.text, reply.usage) == ("abc", wire.expected(CASE).usage)


async def test_every_address_ends_with_what_the_service_wants(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(CASE)
    server.answer_next(raw, 2)
    plain = wire.endpoint(server.root)
    query = {"api-version": "2026-01-01", "x": "a b&c"}
    asked = msgspec.structs.replace(
        plain, service=msgspec.structs.replace(plain.service, query=query)
    )
    for place in (plain, asked):
        await heard(wire, place)
    before, after = [received.query for received in server.requests]
    assert after.removeprefix(before).removeprefix("&") == "api-version=2026-01-01&x=a%20b%26c"
    assert urlsplit(server.requests[0].path).path == urlsplit(server.requests[1].path).path


async def test_a_schema_that_strict_services_refuse_is_mended(
    wire: WireUnderTest, server: ModelServer
) -> None:
    """They want an object that tells its properties, and no choice between schemas on top."""
    bare = {"type": "object", "properties": {}}
    both = {"properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]}
    tools = (ToolSpec("now", "Now", {"type": "object"}), ToolSpec("find", "Find", both))
    server.answer_next(wire.answer(CASE))
    speaker = wire.open(wire.endpoint(server.root))
    async for _chunk in speaker.stream(Request(Prompt("", tools), GO.messages), wire.credential):
        pass
    await speaker.close()
    body = server.requests[0].body
    wire.validate(body)
    sent = json.dumps(json.loads(body))
    assert "anyOf" not in sent or wire.name == "gemini"
    assert json.dumps(bare) in sent or wire.name == "gemini"  # which takes a tool with none


async def test_nothing_that_follows_a_whole_answer_can_spoil_it(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(CASE)
    whole = b"".join(raw.pieces)
    for pieces in ([whole + b"\n<html>502</html>\n"], [whole, b"\ndata: {oops\n\n", b"\x00"]):
        server.answer_next(Raw(pieces, 200, raw.headers))
        *_, reply = await heard(wire, wire.endpoint(server.root))
        assert isinstance(reply, Reply)
        assert (reply.text, reply.usage) == ("abc", wire.expected(CASE).usage)
