"""Every wire format against one set of cases. The service is a loopback server that answers as the
real one does; the official SDK, pointed at the same server, must hear what we hear, and its types
must accept what we send."""

import asyncio
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    AssistantMessage,
    Delta,
    Media,
    Prompt,
    Reply,
    Request,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from tests.support.fake_time import until
from tests.support.model_server import ModelServer, Raw
from tests.support.patience import PATIENCE
from tests.support.wires import KEY, Case, Heard, WireUnderTest

WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini", "bedrock", "mistral")

FIND = ToolSpec(
    "find",
    "Find files",
    {
        "type": "object",
        "properties": {
            "pattern": {"type": "string"},
            "limit": {"type": "integer"},
            "within": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["pattern"],
    },
)
NOW = ToolSpec("now", "The time", {"type": "object", "properties": {}})
PROMPT = Prompt("Be brief.", (FIND, NOW))
# One red point, as a PNG.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"

HARD = 'a "quoted" \\ back\\slash\n\ttab é 汉 🙂 \u2028 \x7f </script> {"a": [1, 2]}'

CASES = (
    Case("text", ("Hello", ", ", "world")),
    Case("hard characters", (HARD, HARD)),
    Case("one tool call", ("I look.",), (ToolCall.of("c1", "find", pattern="*.py"),), stop="calls"),
    Case("a call alone", (), (ToolCall.of("c1", "find", pattern=HARD, limit=3),), stop="calls"),
    Case("a call without arguments", (), (ToolCall("c1", "now", "{}"),), stop="calls"),
    Case(
        "parallel calls",
        ("Two at once.",),
        (
            ToolCall.of("c1", "find", pattern="a", within=["x", "y"]),
            ToolCall.of("c2", "now"),
            ToolCall.of("c3", "find", pattern="b"),
        ),
        stop="calls",
    ),
    Case("reasoning", ("4",), thoughts=("Two and two ", "make four.")),
    Case(
        "reasoning before a call",
        ("Let me see.",),
        (ToolCall.of("c1", "find", pattern="x"),),
        ("Where might ", "it be?"),
        stop="calls",
    ),
    Case("cached usage", ("Yes",), usage=Usage(2000, 9, 1500)),
    Case("cache written", ("Yes",), usage=Usage(2000, 9, 500, 1200)),
    Case("reasoning tokens", ("Yes",), thoughts=("hm",), usage=Usage(20, 90, 0, 0, 64)),
)

CALLS = (ToolCall.of("c1", "find", pattern="a"), ToolCall("c2", "now", "{}"))
CONVERSATIONS = {
    "one message": (UserMessage("hi"),),
    "a dialogue": (UserMessage("hi"), AssistantMessage("hello"), UserMessage(HARD)),
    "calls and results": (
        UserMessage("look"),
        AssistantMessage("I look.", CALLS),
        ToolMessage("c1", "find", "a.py"),
        ToolMessage("c2", "now", "it failed", ok=False),
        UserMessage("and now?"),
    ),
    "calls without a word": (
        UserMessage("look"),
        AssistantMessage("", CALLS[:1]),
        ToolMessage("c1", "find", ""),
    ),
    "two messages in a row": (UserMessage("first"), UserMessage("second")),
    "an image": (UserMessage("what is it?", (Media("image/png", PNG, "point.png"),)),),
    "an image alone": (UserMessage("", (Media("image/png", PNG),)),),
    "a file": (UserMessage("read it", (Media("application/pdf", PDF, "a.pdf"),)),),
    "an image among results": (
        UserMessage("look"),
        AssistantMessage("", CALLS[:1]),
        ToolMessage("c1", "find", "seen", files=(Media("image/png", PNG),)),
    ),
    "arguments that are no JSON": (
        UserMessage("look"),
        AssistantMessage("", (ToolCall("c1", "find", '{"pattern": '),)),
        ToolMessage("c1", "find", "those are no arguments", ok=False),
    ),
    "an empty reply": (UserMessage("hi"), AssistantMessage(""), UserMessage("well?")),
    "cut short by the user": (UserMessage("hi"), AssistantMessage("he"), UserMessage("stop")),
}


def load(name: str) -> WireUnderTest:
    wire: WireUnderTest = import_module(f"tests.support.wires.{name}").WIRE
    return wire


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> WireUnderTest:
    return load(request.param)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


async def listen(wire: WireUnderTest, server: ModelServer, request: Request) -> Reply:
    """Our reply; its pieces must make it up."""
    speaker = wire.open(wire.endpoint(server.root))
    try:
        chunks = [chunk async for chunk in speaker.stream(request, wire.credential)]
    finally:
        await speaker.close()
    *pieces, reply = chunks
    assert isinstance(reply, Reply)
    assert "".join(piece.text for piece in pieces if isinstance(piece, Delta)) == reply.text
    said = "".join(piece.text for piece in pieces if isinstance(piece, Thinking))
    assert said == "".join(thought.text for thought in reply.thoughts)
    return reply


def heard(reply: Reply) -> Heard:
    return Heard(
        reply.text,
        tuple((call.name, call.input()) for call in reply.calls),
        "".join(thought.text for thought in reply.thoughts),
        reply.usage,
        reply.stop,
    )


def request(*messages: Any, **more: Any) -> Request:
    return Request(PROMPT, messages or (UserMessage("hi"),), session="s1", **more)


def quick(wire: WireUnderTest, root: str, silence: float = PATIENCE) -> Any:
    return wire.open(msgspec.structs.replace(wire.endpoint(root), silence=silence))


async def finish(speaker: Any, wire: WireUnderTest) -> None:
    async for _chunk in speaker.stream(request(), wire.credential):
        pass


# answers


@pytest.mark.sample(24)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_an_answer_is_heard_as_the_official_sdk_hears_it(
    wire: WireUnderTest, server: ModelServer, case: Case
) -> None:
    server.answer_next(wire.answer(case), 2)
    reply = await listen(wire, server, request())
    assert heard(reply) == wire.expected(case)
    assert await wire.ask_sdk(server.root, request()) == wire.expected(case)
    assert reply.model == wire.endpoint("").name
    assert len({call.id for call in reply.calls}) == len(reply.calls)


async def test_every_stop_reason_has_a_meaning(wire: WireUnderTest, server: ModelServer) -> None:
    assert len(wire.stops) >= 3
    for native, raw, stop in wire.stops:
        server.answer_next(raw, 2)
        reply = await listen(wire, server, request())
        assert (native, reply.stop) == (native, stop)
        assert (native, (await wire.ask_sdk(server.root, request())).stop) == (native, stop)


async def test_an_answer_may_arrive_in_any_pieces(wire: WireUnderTest, server: ModelServer) -> None:
    raw = wire.answer(CASES[5])
    whole = b"".join(raw.pieces)
    for size in (1, 7, 64, len(whole)):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        server.answer_next(Raw(pieces, raw.status, raw.headers))
        assert heard(await listen(wire, server, request())) == wire.expected(CASES[5])


async def test_the_cost_follows_from_the_usage(wire: WireUnderTest, server: ModelServer) -> None:
    case = CASES[8]
    server.answer_next(wire.answer(case))
    reply = await listen(wire, server, request())
    assert reply.cost == wire.endpoint("").facts.cost(wire.expected(case).usage)
    assert reply.cost is not None


# requests


@pytest.mark.sample(24)
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_request_is_one_by_the_official_types(
    wire: WireUnderTest, server: ModelServer, name: str
) -> None:
    server.answer_next(wire.answer(CASES[0]), 3)
    for more in ({}, {"max_output": 512}, {"effort": "high", "max_output": 4096}):
        await listen(wire, server, request(*CONVERSATIONS[name], **more))
    for received in server.requests:
        wire.validate(received.body)
        assert KEY.encode() not in received.body


async def test_a_longer_conversation_begins_with_the_shorter_one(
    wire: WireUnderTest, server: ModelServer
) -> None:
    """Otherwise the service's prompt cache is lost. Marks of the cache may move; nothing else."""
    reply = wire.answer(CASES[7])
    server.answer_next(reply, 9)
    said: list[Any] = [UserMessage("look")]
    for step in range(4):
        answer = await listen(wire, server, request(*said))
        said += [answer.message, ToolMessage(answer.calls[0].id, "find", f"result {step}")]
    said.append(UserMessage("and now?"))
    await listen(wire, server, request(*said))
    requests = [wire.sent(received.body) for received in server.requests]
    for before, after in pairwise(requests):
        assert after.fixed == before.fixed
        assert list(after.messages[: len(before.messages)]) == list(before.messages)
        assert len(after.messages) > len(before.messages)
        assert after.marks <= 4


async def test_calls_of_one_process_share_a_connection(
    wire: WireUnderTest, server: ModelServer
) -> None:
    server.answer_next(wire.answer(CASES[0]), 5)
    speaker = wire.open(wire.endpoint(server.root))
    for _ in range(5):
        async for _chunk in speaker.stream(request(), wire.credential):
            pass
    await speaker.close()
    assert len({received.port for received in server.requests}) == 1


# failures


async def test_every_failure_has_a_name_and_tells_no_key(
    wire: WireUnderTest, server: ModelServer
) -> None:
    kinds = set()
    for failure in wire.failures:
        server.answer_next(failure.raw)
        speaker = quick(wire, server.root, 0.3 if failure.kind == "timeout" else PATIENCE)
        with pytest.raises(ModelError) as caught:
            await finish(speaker, wire)
        await speaker.close()
        assert (failure.name, caught.value.kind) == (failure.name, failure.kind)
        assert (failure.name, caught.value.retry_after) == (failure.name, failure.retry_after)
        assert KEY not in f"{caught.value} {caught.value!r}"
        assert caught.value.__cause__ is None
        kinds.add(failure.kind)
        if failure.sdk_raises:
            server.answer_next(failure.raw)
            with pytest.raises(Exception) as theirs:  # noqa: PT011 - each SDK has its own
                await asyncio.wait_for(wire.ask_sdk(server.root, request()), PATIENCE)
            assert theirs.type.__module__.split(".")[0] not in ("builtins", "tests")
    assert kinds >= {
        "rate_limit", "overload", "auth", "bad_request", "context_too_long", "quota", "refused",
        "broken_stream",
    }  # fmt: skip


async def test_a_service_that_falls_silent_is_given_up(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(CASES[0])
    for half in (Raw(status=0, end="hang"), Raw(raw.pieces[:2], 200, raw.headers, "hang")):
        server.answer_next(half)
        speaker = quick(wire, server.root, 0.3)
        with pytest.raises(ModelError) as caught:
            await finish(speaker, wire)
        assert caught.value.kind == "timeout"
        await speaker.close()


async def test_a_service_that_only_keeps_the_line_open_is_given_up(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(CASES[0])
    alive = wire.keep_alive
    server.chunk_delay = 0.02
    server.answer_next(Raw([*raw.pieces[:2], *[alive] * 500], 200, raw.headers, "hang"))
    endpoint = msgspec.structs.replace(wire.endpoint(server.root), patience=0.2)
    speaker = wire.open(endpoint)
    with pytest.raises(ModelError) as caught:
        await finish(speaker, wire)
    assert caught.value.kind == "timeout"
    await speaker.close()


async def test_nobody_there_is_unreachable(wire: WireUnderTest) -> None:
    speaker = quick(wire, "http://127.0.0.1:1")
    with pytest.raises(ModelError) as caught:
        await finish(speaker, wire)
    assert caught.value.kind == "unreachable"
    await speaker.close()


async def test_a_listener_that_leaves_ends_the_connection(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(CASES[0])
    server.answer_next(Raw(raw.pieces[:-1], 200, raw.headers, "hang"))
    speaker = wire.open(wire.endpoint(server.root))
    chunks: Any = speaker.stream(request(), wire.credential)
    async for chunk in chunks:
        assert isinstance(chunk, Delta | Thinking)
        break
    await chunks.aclose()
    await until(lambda: server.left_early, "the connection to end")
    assert server.left_early == 1
    await speaker.close()


# streams that are no answer


async def outcome(speaker: Any, wire: WireUnderTest) -> Reply | ModelError:
    """How one call ends: with one reply as the last chunk, or a classified error, and soon."""
    chunks = []
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in speaker.stream(request(), wire.credential):
                chunks.append(chunk)  # noqa: PERF401 - what came before the trouble counts
    except ModelError as error:
        return error
    assert [isinstance(chunk, Reply) for chunk in chunks].count(True) == 1
    assert isinstance(chunks[-1], Reply)
    return chunks[-1]


async def survives(speaker: Any, server: ModelServer, wire: WireUnderTest, raw: Raw) -> bool:
    server.answer_next(raw)
    ended = await outcome(speaker, wire)
    fitting = ("broken_stream", "garbage", "overload", "bad_request", "refused")
    return isinstance(ended, Reply) or ended.kind in fitting


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.slow)])
async def test_a_stream_that_is_cut_anywhere_is_an_error_or_whole(
    wire: WireUnderTest, server: ModelServer, every: int
) -> None:
    """A cut answer never passes for a finished one with other words or calls."""
    case = Case("short", ("So",), (ToolCall.of("c1", "now"),), ("hm",), stop="calls")
    raw = wire.answer(case)
    whole = b"".join(raw.pieces)
    speaker = quick(wire, server.root)
    ends = [len(b"".join(raw.pieces[:count])) for count in range(len(raw.pieces))]
    around = {end + more for end in ends for more in (-1, 0, 1)} - {-1}
    broken, cuts = 0, sorted(around.union(range(0, len(whole), every)))
    for at in cuts:
        server.answer_next(Raw([whole[:at]], 200, raw.headers, "cut" if at % 2 else "end"))
        reply = await outcome(speaker, wire)
        if isinstance(reply, ModelError):
            assert reply.kind in ("broken_stream", "garbage"), (at, reply)
            broken += 1
            continue
        told, wanted = heard(reply), wire.expected(case)
        assert (told.text, told.calls, told.stop) == (wanted.text, wanted.calls, wanted.stop), at
    assert broken > len(cuts) // 2
    await speaker.close()


async def test_reordered_and_repeated_events_do_no_harm(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(CASES[7])
    pieces = list(raw.pieces)
    speaker = quick(wire, server.root)
    for at in range(len(pieces) - 1):
        swapped = [*pieces[:at], pieces[at + 1], pieces[at], *pieces[at + 2 :]]
        missing = [*pieces[:at], *pieces[at + 1 :]]
        doubled = [*pieces[: at + 1], *pieces[at:]]
        for each in (swapped, missing, doubled, pieces[::-1]):
            assert await survives(speaker, server, wire, Raw(each, 200, raw.headers))
    await speaker.close()


WRONG: tuple[Any, ...] = (None, True, 7, -1, 1e308, "", "x", [], {}, [[]], {"x": 1}, [None])


def mutations(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from mutations(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from mutations(each, (*path, at))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


async def test_values_of_a_wrong_type_are_an_error_or_passed_over(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(CASES[7])
    speaker = quick(wire, server.root)
    number = 0
    for at, piece in enumerate(raw.pieces):
        content = wire.unpacked(piece)
        if content is None:
            continue
        for path in mutations(content):
            number += 1
            wrong = wire.packed(piece, changed(content, path, WRONG[number % len(WRONG)]))
            pieces = [*raw.pieces[:at], wrong, *raw.pieces[at + 1 :]]
            assert await survives(speaker, server, wire, Raw(pieces, 200, raw.headers))
    assert number > 30
    await speaker.close()


async def test_garbage_and_huge_answers_are_errors(
    wire: WireUnderTest, server: ModelServer
) -> None:
    raw = wire.answer(CASES[0])
    speaker = quick(wire, server.root)
    first = list(raw.pieces[:1])
    # All wires count what they read in one place: two are enough, one for each way to cut events.
    large = wire.endpoint("").service.wire in ("openai-chat", "bedrock")
    endless = [b"x" * 1_000_000] * (80 if large else 1)
    for pieces in (
        [],
        [b"\n\n\n\n"],
        [b"\x00\xff" * 1000],
        [b"data: {}\n\n"] * 3,
        [b"data: " + b"[" * 100_000 + b"\n\n"],
        [*first, b"data: \xff\xfe\n\n"],
        [*first, b"<html>502</html>"],
        [b"data: ", *endless],
        [*first, *endless],
        endless,
    ):
        server.answer_next(Raw(pieces, 200, raw.headers))
        ended = await outcome(speaker, wire)
        assert isinstance(ended, ModelError)
        assert ended.kind in ("garbage", "broken_stream")
        assert len(str(ended)) < 2000
    await speaker.close()


async def test_an_error_without_sense_is_still_an_error(
    wire: WireUnderTest, server: ModelServer
) -> None:
    speaker = quick(wire, server.root)
    bodies = (b"", b"\xff", b"[]", b"{}", b'{"error": 7}', b'"x"', b"null", b"<html>x</html>",
              b'{"error": {"message": {"a": 1}}}', b"[[[[", b"1" * 2_000_000)  # fmt: skip
    for status in (201, 204, 301, 400, 404, 418, 500, 599):
        for body in bodies:
            if status == 204 and body:
                continue
            server.answer_next(Raw([body], status, {"content-type": "application/json"}))
            with pytest.raises(ModelError) as caught:
                await finish(speaker, wire)
            assert len(str(caught.value)) < 2000
    await speaker.close()
