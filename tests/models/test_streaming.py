"""One call over HTTP, whatever the format: what is packed into a piece goes up at once."""

import json
from collections.abc import Iterator
from importlib import import_module
from urllib.parse import urlsplit

import msgspec
import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    Chunk,
    Delta,
    ModelFacts,
    Prompt,
    Rates,
    Reply,
    Request,
    Thinking,
    ToolCall,
    ToolSpec,
    Usage,
    UserMessage,
)
from hermes_agent.models.wires.base import Endpoint
from hermes_agent.models.wires.streaming import MAX_CALLS
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


def calling(count: int) -> Case:
    calls = tuple(ToolCall.of(f"c{number:08}", "find", n=number) for number in range(count))
    return Case("many", calls=calls, stop="calls")


async def test_more_calls_than_anybody_means_are_garbage(
    wire: WireUnderTest, server: ModelServer
) -> None:
    server.answer_next(wire.answer(calling(MAX_CALLS)))
    *_, reply = await heard(wire, wire.endpoint(server.root))
    assert isinstance(reply, Reply)
    assert len(reply.calls) == MAX_CALLS
    server.answer_next(wire.answer(calling(MAX_CALLS + 1)))
    with pytest.raises(ModelError, match=f"more than {MAX_CALLS} calls") as raised:
        await heard(wire, wire.endpoint(server.root))
    assert raised.value.kind == "garbage"


async def test_the_rest_of_too_many_calls_is_not_waited_for(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(calling(3 * MAX_CALLS))
    begun = raw.pieces[: len(raw.pieces) * 2 // 3]
    server.answer_next(Raw(begun, 200, raw.headers, end="hang"))
    with pytest.raises(ModelError, match="more than"):
        await heard(wire, wire.endpoint(server.root))


async def test_too_many_calls_in_one_piece_with_its_end_are_garbage_too(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(calling(MAX_CALLS + 5))
    server.answer_next(Raw([b"".join(raw.pieces)], 200, raw.headers))
    with pytest.raises(ModelError, match="more than"):
        await heard(wire, wire.endpoint(server.root))


@pytest.mark.parametrize("value", ["\u20ac", "\u00e9", "a\r\nb: c", "a\nb", "\x00"])
async def test_a_header_that_cannot_be_sent_is_named_without_its_value(
    wire: WireUnderTest, value: str
) -> None:
    plain = wire.endpoint("http://127.0.0.1:9")
    headers = {"x-mine": f"secret {value}"}
    place = msgspec.structs.replace(
        plain, service=msgspec.structs.replace(plain.service, headers=headers)
    )
    with pytest.raises(ModelError) as raised:
        await heard(wire, place)
    own = place.name.partition("/")[0]
    assert raised.value.kind == "bad_request"
    assert f"models.services.{own}.headers" in raised.value.hint
    assert "x-mine" in raised.value.message
    assert "secret" not in str(raised.value)


async def test_a_secret_of_a_header_that_a_service_repeats_is_not_told(
    wire: WireUnderTest, server: ModelServer
) -> None:
    plain, secret = wire.endpoint(server.root), "very-secret-cookie-0123456789"
    place = msgspec.structs.replace(
        plain, service=msgspec.structs.replace(plain.service, headers={"cookie": secret})
    )
    for length in (200, 280, 290, 299, 300):
        said = {"message": "x" * length + secret}
        server.answer_next(Raw.json({"error": said, **said}, 400))
        with pytest.raises(ModelError) as raised:
            await heard(wire, place)
        assert secret[:8] not in str(raised.value)


async def test_counts_beyond_all_numbers_do_no_harm(
    wire: WireUnderTest, server: ModelServer
) -> None:
    priced = ModelFacts(rates=(Rates(1.0, 1.0),))
    place = msgspec.structs.replace(wire.endpoint(server.root), facts=priced)
    server.answer_next(wire.answer(Case("huge", ("a",), usage=Usage(10**400, 10**400))))
    *_, reply = await heard(wire, place)
    assert isinstance(reply, Reply)
    assert reply.cost is not None
    assert reply.cost <= 2 * 10**4


async def test_an_answer_that_breaks_may_have_cost_and_a_refusal_may_not(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(CASE)
    server.answer_next(Raw(raw.pieces[:1], 200, raw.headers, end="cut"))
    server.answer_next(Raw.json({"error": {"message": "too slow"}}, 408))
    for turned_away in (False, True):
        with pytest.raises(ModelError) as raised:
            await heard(wire, wire.endpoint(server.root))
        assert raised.value.turned_away is turned_away
