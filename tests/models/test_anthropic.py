"""What is special to the Messages format of Anthropic; the rest is in `contracts/test_wires.py`."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    AssistantMessage,
    Chunk,
    Delta,
    Effort,
    Media,
    Message,
    ModelFacts,
    Prompt,
    ReasoningBlock,
    Reply,
    Request,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_agent.models.wires.anthropic import open_client, request_body
from hermes_agent.models.wires.base import Credential, Endpoint
from tests.support.model_server import ModelServer, Raw
from tests.support.wires import KEY
from tests.support.wires.anthropic import (
    FACTS,
    PING,
    SIGNATURE,
    WIRE,
    block,
    endpoint,
    midway,
    sse,
    started,
    stopped,
    text,
    thinking,
    tool_use,
)

NAME = "anthropic/claude-test"
BUDGET = msgspec.structs.replace(FACTS, thinking="budget", efforts=("low", "medium", "high", "max"))
SIGNED = msgspec.json.encode({"signature": SIGNATURE}).decode()
FIND = ToolSpec("find", "Find", {"type": "object", "properties": {"pattern": {"type": "string"}}})
CALL = ToolCall("c1", "find", '{"pattern": "a"}')
PNG = Media("image/png", b"\x89PNG", "point.png")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def asked(*messages: Message, **more: Any) -> Request:
    return Request(Prompt("Be brief.", (FIND,)), messages or (UserMessage("hi"),), **more)


async def listen(
    place: Endpoint, request: Request | None = None, secret: str = KEY
) -> tuple[list[Chunk], Reply]:
    speaker = open_client(place)
    try:
        stream = speaker.stream(request or asked(), Credential(secret))
        *pieces, reply = [chunk async for chunk in stream]
    finally:
        await speaker.close()
    assert isinstance(reply, Reply)
    return pieces, reply


async def trouble(place: Endpoint) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await listen(place)
    return caught.value


def body(*messages: Message, facts: ModelFacts = FACTS, **more: Any) -> dict[str, Any]:
    """The request as it is sent, after the official types have accepted it."""
    sent, _ = request_body(endpoint("", facts), asked(*messages, **more))
    WIRE.validate(sent)
    decoded: dict[str, Any] = msgspec.json.decode(sent)
    return decoded


def contents(*messages: Message, facts: ModelFacts = FACTS) -> list[list[dict[str, Any]]]:
    """The blocks of each turn, without the marks of the cache; the roles take turns."""
    turns = body(*messages, facts=facts)["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * (len(turns) // 2) + ["user"]
    for turn in turns:
        for each in turn["content"]:
            each.pop("cache_control", None)
    return [turn["content"] for turn in turns]


def said(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


# the key


async def test_a_key_goes_in_its_own_header(server: ModelServer) -> None:
    server.answer_next(Raw([started(), *text(0, "ok"), *stopped("end_turn")]))
    await listen(endpoint(server.root))
    (received,) = server.requests
    assert received.path == "/v1/messages"
    assert received.headers["x-api-key"] == KEY
    assert received.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in received.headers
    assert "anthropic-beta" not in received.headers


async def test_the_token_of_somebody_signed_in_is_a_bearer_token(server: ModelServer) -> None:
    server.answer_next(Raw([started(), *text(0, "ok"), *stopped("end_turn")]))
    token = "sk-ant-oat01-do-not-tell"
    await listen(endpoint(server.root), secret=token)
    (received,) = server.requests
    assert received.headers["authorization"] == f"Bearer {token}"
    assert received.headers["anthropic-beta"] == "oauth-2025-04-20"
    assert "x-api-key" not in received.headers


async def test_betas_of_the_service_and_our_own_share_one_header(server: ModelServer) -> None:
    server.answer_next(Raw([started(), *text(0, "ok"), *stopped("end_turn")]))
    place = endpoint(server.root, BUDGET, **{"Anthropic-Beta": "context-1m-2025-08-07"})
    await listen(place, asked(effort="low"))
    (received,) = server.requests
    both = "context-1m-2025-08-07,interleaved-thinking-2025-05-14"
    assert received.headers["anthropic-beta"] == both


# how hard to think


@pytest.mark.parametrize(("wanted", "has"), [("low", "low"), ("xhigh", "high"), ("max", "max")])
def test_a_model_that_decides_for_itself_is_told_an_effort(wanted: Effort, has: str) -> None:
    sent = body(effort=wanted)
    assert sent["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert sent["output_config"] == {"effort": has}


@pytest.mark.parametrize(
    ("effort", "limit", "budget"),
    [("low", None, 2048), ("medium", None, 8192), ("high", 4096, 3072), ("max", None, 48_000)],
)
def test_a_budget_stays_below_the_limit_of_the_answer(
    effort: Effort, limit: int | None, budget: int
) -> None:
    sent = body(facts=BUDGET, effort=effort, max_output=limit)
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert budget < sent["max_tokens"] == (limit or BUDGET.max_output)
    assert "output_config" not in sent


def test_a_limit_too_small_for_thoughts_turns_them_off() -> None:
    assert "thinking" not in body(facts=BUDGET, effort="high", max_output=1200)


def test_nothing_is_said_of_thinking_unless_asked() -> None:
    for facts in (FACTS, BUDGET):
        sent = body(facts=facts)
        assert not {"thinking", "output_config"} & set(sent)
        assert sent["max_tokens"] == facts.max_output
    plain = msgspec.structs.replace(FACTS, thinking="")
    assert body(facts=plain, effort="low")["output_config"] == {"effort": "low"}
    assert "thinking" not in body(facts=plain, effort="low")


def thought(body: str = SIGNED, text: str = "hm", chars: int = 0, calls: int = 0) -> ReasoningBlock:
    return ReasoningBlock(NAME, text, body, chars, calls)


def test_a_budget_is_dropped_while_an_answer_without_its_thoughts_goes_on() -> None:
    lost = AssistantMessage("I look.", (CALL,), (thought(body=""),))
    kept = AssistantMessage("I look.", (CALL,), (thought(),))
    again = AssistantMessage("", (ToolCall("c2", "find"),))
    start, one, two = UserMessage("look"), ToolMessage("c1", "find", "a"), ToolMessage("c2", "", "")

    def thinks(*messages: Message) -> bool:
        return "thinking" in body(*messages, facts=BUDGET, effort="low")

    assert thinks(start, kept, one)
    assert thinks(start, kept, one, again, two)
    assert not thinks(start, lost, one)
    assert not thinks(start, lost, one, again, two)
    assert not thinks(start, kept, one, UserMessage("and?"), again, two)
    assert thinks(start, lost, one, AssistantMessage("done"), UserMessage("and?"))
    # A model that decides for itself does not mind.
    assert "thinking" in body(start, lost, one, effort="low")


# thoughts


async def test_thoughts_among_text_and_calls_go_back_to_their_places(server: ModelServer) -> None:
    redacted = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}
    calls = ToolCall("toolu_1", "find", '{"pattern": "a"}'), ToolCall("toolu_2", "find", "{}")
    answer = [
        started(),
        *thinking(0, "Where ", "is it?", signature="first"),
        PING,
        *text(1, "I ", "look."),
        *block(2, redacted),
        *text(3, " There."),
        *thinking(4, "Two ways.", signature="second"),
        *tool_use(5, calls[0]),
        *thinking(6, signature="silent"),
        *tool_use(7, calls[1]),
        *stopped("tool_use"),
    ]
    server.answer_next(Raw(answer))
    pieces, reply = await listen(endpoint(server.root))
    assert pieces == [
        Thinking("Where "), Thinking("is it?"), Delta("I "), Delta("look."), Delta(" There."),
        Thinking("Two ways."),
    ]  # fmt: skip
    assert [(t.text, t.chars, t.calls) for t in reply.thoughts] == [
        ("Where is it?", 0, 0), ("", 7, 0), ("Two ways.", 14, 0), ("", 14, 1),
    ]  # fmt: skip
    results = [ToolMessage(call.id, "find", "x") for call in calls]
    _, back, _ = contents(UserMessage("look"), reply.message, *results)
    assert back == [
        {"type": "thinking", "thinking": "Where is it?", "signature": "first"},
        said("I look."),
        redacted,
        said(" There."),
        {"type": "thinking", "thinking": "Two ways.", "signature": "second"},
        {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"pattern": "a"}},
        {"type": "thinking", "thinking": "", "signature": "silent"},
        {"type": "tool_use", "id": "toolu_2", "name": "find", "input": {}},
    ]


def test_thoughts_of_others_and_those_without_proof_stay_out() -> None:
    theirs = ReasoningBlock("openai/gpt", "hm", SIGNED)
    for thoughts in (
        (theirs,),
        (thought(body=""),),
        (thought(body="no json"),),
        (thought(body="{}"),),
        # One that is missing breaks the row.
        (thought(), thought(body="")),
    ):
        _, back, _ = contents(
            UserMessage("a"), AssistantMessage("b", (), thoughts), UserMessage("c")
        )
        assert back == [said("b")]


def test_no_answer_ends_with_a_thought() -> None:
    ends = AssistantMessage("b", (), (thought(), thought(chars=1)))
    first, second = contents(UserMessage("a"), ends, UserMessage("c"))[1]
    assert (first["type"], second) == ("thinking", said("b"))
    alone = AssistantMessage(" ", (), (thought(),))
    assert contents(UserMessage("a"), alone, UserMessage("c")) == [[said("a"), said("c")]]


# conversations that would be refused


def test_calls_without_a_result_get_one_and_results_come_first() -> None:
    calls = AssistantMessage("", (CALL, ToolCall("c2", "find"), ToolCall("c3", "find")))
    _, _, turn = contents(
        UserMessage("a"), calls, UserMessage("stop"), ToolMessage("c2", "find", "found")
    )
    assert [(each["type"], each.get("tool_use_id")) for each in turn] == [
        ("tool_result", "c2"), ("tool_result", "c1"), ("tool_result", "c3"), ("text", None),
    ]  # fmt: skip
    assert [each.get("is_error") for each in turn] == [None, True, True, None]


def test_a_result_without_its_call_becomes_text() -> None:
    stray = ToolMessage("gone", "find", "x")
    twice = ToolMessage("c1", "find", "second")
    (first,) = contents(stray)
    assert first == [said("[result of find] x")]
    calls = AssistantMessage("", (CALL,))
    *_, last = contents(UserMessage("a"), calls, ToolMessage("c1", "find", "one"), twice)
    assert [each["type"] for each in last] == ["tool_result", "text"]


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    first, _, last = contents(AssistantMessage("a"), AssistantMessage(" b"))
    assert (first, last) == ([said("(the conversation began earlier)")], [said("(go on)")])
    assert contents(UserMessage(" \n")) == [[said("(an empty message)")]]


def test_ids_that_are_not_taken_are_replaced_the_same_way_each_time() -> None:
    odd = "call|" + "x" * 200
    turns = (UserMessage("a"), AssistantMessage("", (ToolCall(odd, "find"),)))
    _, (use,), (result,) = contents(*turns, ToolMessage(odd, "find", "b"))
    assert use["id"] == result["tool_use_id"] != odd
    assert use["id"].isascii()
    assert len(use["id"]) <= 64
    assert contents(*turns)[1][0]["id"] == use["id"]


def test_a_failure_is_told_in_words_and_its_images_come_after() -> None:
    calls = AssistantMessage("", (CALL, ToolCall("c2", "find")))
    *_, turn = contents(
        UserMessage("a"),
        calls,
        ToolMessage("c1", "find", "", ok=False, files=(PNG,)),
        ToolMessage("c2", "find", "", files=(PNG,)),
    )
    failed, fine, image = turn
    assert (failed["content"], failed["is_error"]) == ([said("(no output)")], True)
    assert [each["type"] for each in fine["content"]] == ["image"]
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}


def test_files_that_a_model_cannot_take_are_named_instead() -> None:
    blind = msgspec.structs.replace(FACTS, sees=False, reads=False)
    pdf, svg = Media("application/pdf", b"%PDF", "a.pdf"), Media("image/svg+xml", b"<svg/>")
    (turn,) = contents(UserMessage("see", (PNG, pdf)), facts=blind)
    assert turn == [
        said("[image point.png: this model cannot see it]"),
        said("[file a.pdf: this model cannot read it]"),
        said("see"),
    ]
    (turn,) = contents(UserMessage("see", (svg, pdf, PNG)))
    assert turn[0] == said("[image: this model cannot see it]")
    assert (turn[1]["type"], turn[1]["title"], turn[2]["type"]) == ("document", "a.pdf", "image")


def test_arguments_go_back_byte_for_byte() -> None:
    call = ToolCall("c1", "find", '{ "n": 1.50, "big": 12345678901234567890123 }')
    sent, _ = request_body(endpoint(""), asked(UserMessage("a"), AssistantMessage("", (call,))))
    assert call.arguments.encode() in sent
    deep = ToolCall("c1", "find", '{"a":' * 5000 + "1" + "}" * 5000)
    for wrong in (deep, ToolCall("c1", "find", "[1]"), ToolCall("c1", "find", "")):
        assert contents(UserMessage("a"), AssistantMessage("", (wrong,)))[1][0]["input"] == {}


def test_a_schema_with_a_choice_on_top_is_still_an_object() -> None:
    choice = {"anyOf": [{"required": ["a"]}], "properties": {"a": {}}, "x-unknown": 1}
    tools = (ToolSpec("one", "", {}), ToolSpec("two", "", choice))
    sent, _ = request_body(endpoint(""), Request(Prompt("", tools), (UserMessage("a"),)))
    one, two = msgspec.json.decode(sent)["tools"]
    assert one["input_schema"] == {"type": "object", "properties": {}}
    assert two["input_schema"] == {"properties": {"a": {}}, "x-unknown": 1, "type": "object"}


def test_the_official_types_are_strict_enough_to_find_a_mistake() -> None:
    sent, _ = request_body(endpoint(""), asked(UserMessage("a", (PNG,))))
    for old, new in (
        (b'"image/png"', b'"image/svg"'), (b'"base64"', b'"base32"'), (b'"text"', b'"txt"'),
        (b'"max_tokens"', b'"max_token"'), (b'"ephemeral"', b'"for ever"'),
    ):  # fmt: skip
        assert old in sent
        with pytest.raises((ValidationError, AssertionError)):
            WIRE.validate(sent.replace(old, new))


# the prompt cache


def test_marks_stand_after_what_is_fixed_and_on_the_last_two_turns_of_the_user() -> None:
    calls = AssistantMessage("", (CALL,))
    sent = body(UserMessage("a"), calls, ToolMessage("c1", "", "b"), AssistantMessage("c"),
                UserMessage("d"), UserMessage("e"))  # fmt: skip
    mark = {"type": "ephemeral"}
    assert sent["tools"][-1]["cache_control"] == sent["system"][-1]["cache_control"] == mark
    marked = [[each.get("cache_control") for each in turn["content"]] for turn in sent["messages"]]
    assert marked == [[None], [None], [mark], [None], [None, mark]]


def some_conversation(chance: random.Random) -> list[Message]:
    """Messages of all kinds in an order that can happen."""
    messages: list[Message] = []

    def words() -> str:
        return "".join(chance.choices("a \n\x00é🙂\u2028", k=chance.randrange(5)))

    for turn in range(chance.randrange(2, 6)):
        messages.append(UserMessage(words(), (PNG,) * chance.randrange(2)))
        for step in range(chance.randrange(3)):
            arguments = chance.choices(("{}", " { }", "{oops", '""'), k=chance.randrange(1, 4))
            calls = [ToolCall(f"c{turn}.{step}.{n}", "find", a) for n, a in enumerate(arguments)]
            thoughts = tuple(
                thought(chance.choice((SIGNED, '{"data":"x"}', "")), words(), n, n)
                for n in range(chance.randrange(3))
            )
            messages.append(AssistantMessage(words(), tuple(calls), thoughts))
            there = calls[: len(calls) - (chance.random() < 0.2)]  # the last may be missing
            messages += [ToolMessage(c.id, "find", words(), chance.random() < 0.8) for c in there]
            if chance.random() < 0.2:
                messages.append(UserMessage(words()))
        messages.append(AssistantMessage(words()))
    return messages


@pytest.mark.parametrize("seed", range(12))
def test_any_conversation_is_accepted_and_only_marks_move_as_it_grows(seed: int) -> None:
    messages = some_conversation(random.Random(seed))
    before: list[dict[str, Any]] = []
    for end in range(1, len(messages) + 1):
        if isinstance(messages[end - 1], AssistantMessage) or (
            # A turn is sent when all its results are there.
            end < len(messages) and isinstance(messages[end], ToolMessage)
        ):
            continue
        flat = [each for turn in contents(*messages[:end]) for each in turn]
        assert flat[: len(before)] == before
        before = flat


# streams


async def test_a_broken_answer_tells_what_it_used(server: ModelServer) -> None:
    server.answer_next(Raw([started(), *thinking(0, "x" * 400), *text(1, "y" * 400)]))
    error = await trouble(endpoint(server.root))
    assert (error.kind, error.input, error.output) == ("broken_stream", 12, 200)
    server.answer_next(midway("overloaded_error", "Overloaded"))
    error = await trouble(endpoint(server.root))
    assert (error.kind, error.input, error.output) == ("overload", 12, 1)


async def test_a_refusal_before_the_answer_begins_is_free(server: ModelServer) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.answer_next(Raw([sse(error)]))
    failed = await trouble(endpoint(server.root))
    assert (failed.kind, failed.input, failed.output) == ("overload", 0, 0)
    server.answer_next(Raw([PING]))
    failed = await trouble(endpoint(server.root))
    assert (failed.kind, failed.output) == ("broken_stream", 0)
    assert failed.input > 0


async def test_a_service_that_counts_nothing_is_estimated(server: ModelServer) -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
    server.answer_next(Raw([*text(0, "four"), sse(end)]))
    _, reply = await listen(endpoint(server.root))
    assert reply.usage.input > 10
    assert reply.usage.output == 1


async def test_an_answer_without_a_word_may_be_a_whole_one(server: ModelServer) -> None:
    server.answer_next(Raw([started(), *stopped("end_turn")]))
    pieces, reply = await listen(endpoint(server.root))
    assert (pieces, reply.text, reply.calls, reply.stop) == ([], "", (), "end")


async def test_a_call_that_was_cut_is_not_made_with_other_arguments(server: ModelServer) -> None:
    head = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}}
    part = {"type": "input_json_delta", "partial_json": '{"pattern": "a'}
    server.answer_next(Raw([started(), *block(0, head), *stopped("max_tokens")]))
    server.answer_next(Raw([started(), *block(0, head, part), *stopped("max_tokens")]))
    server.answer_next(Raw([started(), *block(0, head, part)[:-1], *stopped("tool_use")]))
    _, reply = await listen(endpoint(server.root))
    assert (reply.calls, reply.stop) == ((), "length")
    _, reply = await listen(endpoint(server.root))
    assert [call.arguments for call in reply.calls] == ['{"pattern": "a']
    assert (await trouble(endpoint(server.root))).kind == "broken_stream"


async def test_arguments_may_come_at_once_and_ids_twice(server: ModelServer) -> None:
    head = {"type": "tool_use", "id": "c1", "name": "find", "input": {"pattern": "x"}}
    server.answer_next(Raw([started(), *block(0, head), *block(1, head), *stopped("tool_use")]))
    before = UserMessage("a"), AssistantMessage("", (CALL,)), ToolMessage("c1", "find", "b")
    _, reply = await listen(endpoint(server.root), asked(*before))
    assert [call.input() for call in reply.calls] == [{"pattern": "x"}] * 2
    assert len({"c1", *(call.id for call in reply.calls)}) == 3


async def test_blocks_and_events_that_nobody_knows_are_passed_over(server: ModelServer) -> None:
    head = {"type": "server_tool_use", "id": "s", "name": "web", "input": {}}
    json_piece = {"type": "input_json_delta", "partial_json": "{}"}
    citation = {"type": "citations_delta", "citation": {"type": "char_location"}}
    odd = block(1, {"type": "text", "text": ""}, citation, json_piece)
    pieces = [started(), *block(0, head, json_piece), sse({"type": "news", "x": [1]}), *odd]
    server.answer_next(Raw([*pieces, *text(2, "ok"), *stopped("end_turn")]))
    heard, reply = await listen(endpoint(server.root))
    assert (heard, reply.text, reply.calls) == ([Delta("ok")], "ok", ())


@pytest.mark.parametrize(
    "said",
    [
        "You have reached your specified API usage limits. You will regain access on 2026-01-01.",
        "Your credit balance is too low to access the Anthropic API.",
    ],
)
async def test_an_empty_purse_is_told_from_a_bad_request(server: ModelServer, said: str) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    server.answer_next(Raw.json(error, 400))
    assert (await trouble(endpoint(server.root))).kind == "quota"
