"""What is special to Mistral's chat completions; the rest is in `tests/contracts/test_wires.py`."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
    Message,
    ModelFacts,
    Prompt,
    ReasoningBlock,
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_agent.models.wires.history_repair import BRIDGE, NO_RESULT, short_id
from hermes_agent.models.wires.mistral import open_client, request_body
from tests.contracts.test_wires import CONVERSATIONS
from tests.support.model_server import ModelServer, Raw
from tests.support.wires.mistral import WIRE, chunk, stream, thinking

ENDPOINT = WIRE.endpoint("http://nowhere")
CALL = ToolCall.of("c1", "find", pattern="a")
MAY_FOLLOW = {
    "system": {"user", "assistant", "system"},
    "user": {"assistant", "system", "user"},
    "assistant": {"assistant", "user", "tool"},
    "tool": {"assistant", "tool"},
}
"""The order that the service checks."""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def sent(*messages: Message, system: str = "", **more: Any) -> dict[str, Any]:
    body = request_body(ENDPOINT, Request(Prompt(system, ()), messages, **more))
    WIRE.validate(body)
    content: dict[str, Any] = json.loads(body)
    return content


async def ask(server: ModelServer, raw: Raw) -> Reply:
    server.answer_next(raw)
    speaker = open_client(WIRE.endpoint(server.root))
    asked = Request(Prompt("", ()), (UserMessage("hi"),))
    try:
        chunks = [chunk async for chunk in speaker.stream(asked, WIRE.credential)]
    finally:
        await speaker.close()
    assert isinstance(chunks[-1], Reply)
    return chunks[-1]


# requests


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_keeps_the_order_that_the_service_checks(name: str) -> None:
    messages = sent(*CONVERSATIONS[name], system="Be brief.")["messages"]
    for before, after in pairwise(messages):
        assert after["role"] in MAY_FOLLOW[before["role"]]
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    results = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert calls == results
    assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", id) for id in calls)
    assert messages[-1]["role"] in ("user", "tool")
    assert all(message["content"] or message.get("tool_calls") or message["role"] == "tool"
               for message in messages)  # fmt: skip


def test_a_user_who_speaks_after_a_tool_is_heard() -> None:
    said = (
        UserMessage("look"),
        AssistantMessage("", (CALL, ToolCall("c2", "now"))),
        ToolMessage("c1", "find", "a.py"),
        UserMessage("stop"),
    )
    _, _, first, second, bridge, last = sent(*said)["messages"]
    assert (first["content"], second["content"]) == ("a.py", NO_RESULT)
    assert bridge == {"role": "assistant", "content": BRIDGE}
    assert last == {"role": "user", "content": "stop"}


def test_an_answer_to_be_continued_is_marked_as_such() -> None:
    assert sent(UserMessage("hi"), AssistantMessage("he"))["messages"][-1]["prefix"] is True
    assert (
        "prefix"
        not in sent(UserMessage("hi"), AssistantMessage("he"), UserMessage("on"))["messages"][-2]
    )


def test_ids_that_the_service_refuses_are_put_another_way_and_always_the_same() -> None:
    assert short_id("D681PevKs") == "D681PevKs"
    odd = [
        "call_1",
        "c1",
        "",
        "x" * 100,
        "toolu_é",
        "D681PevKs!",
        *(f"call-{n}" for n in range(999)),
    ]
    made = [short_id(id) for id in odd]
    assert made == [short_id(id) for id in odd]
    assert len(set(made)) == len(odd)
    assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", id) for id in made)


def test_arguments_go_back_as_they_came() -> None:
    call = ToolCall("c1", "find", '{"b":  1.50, "a": "é"}')
    messages = sent(UserMessage("look"), AssistantMessage("", (call,)))["messages"]
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == call.arguments


def test_effort_limit_and_session_are_told() -> None:
    content = sent(UserMessage("hi"), session="s1", effort="max", max_output=99)
    assert content["reasoning_effort"] == "high"
    assert content["max_tokens"] == 99
    assert content["prompt_cache_key"] == "s1"
    plain = sent(UserMessage("hi"))
    assert set(plain) == {"model", "stream", "messages"}


def test_images_and_files_are_chunks_or_named() -> None:
    files = (Media("image/png", b"\x89PNG", "a.png"), Media("application/pdf", b"%PDF", "a.pdf"))
    [message] = sent(UserMessage("well?", files))["messages"]
    assert message["content"] == [
        {"type": "text", "text": "well?"},
        {"type": "image_url", "image_url": "data:image/png;base64,iVBORw=="},
        {
            "type": "document_url",
            "document_url": "data:application/pdf;base64,JVBERg==",
            "document_name": "a.pdf",
        },
    ]
    blind = msgspec.structs.replace(ENDPOINT, facts=ModelFacts())
    body = request_body(blind, Request(Prompt("", ()), (UserMessage("", files),)))
    assert [each["text"] for each in json.loads(body)["messages"][0]["content"]] == [
        "[image a.png: this model cannot see it]",
        "[file a.pdf: this model cannot read it]",
    ]


# thoughts


async def test_thoughts_go_back_where_they_were(server: ModelServer) -> None:
    pieces = [
        chunk({"content": [thinking("Two and ")]}),
        chunk({"content": [thinking("two", signature="sig1"), {"type": "text", "text": "Four."}]}),
        chunk({"content": " Or? "}),
        chunk({"content": [thinking("Sure.")]}),
        chunk({"content": [{"type": "text", "text": "Yes."}]}, "stop", Usage(9, 2)),
    ]
    reply = await ask(server, stream(*pieces))
    assert reply.text == "Four. Or? Yes."
    assert [thought.text for thought in reply.thoughts] == ["Two and two", "Sure."]
    messages = sent(UserMessage("hi"), reply.message, UserMessage("on"))["messages"]
    assert messages[1]["content"] == [
        thinking("Two and two", signature="sig1"),
        {"type": "text", "text": "Four. Or? "},
        thinking("Sure."),
        {"type": "text", "text": "Yes."},
    ]


def test_thoughts_of_others_and_changed_ones_stay_behind() -> None:
    damaged = [
        ReasoningBlock(ENDPOINT.name, "hm", body) for body in ("{", "[]", '{"signature": 7}')
    ]
    thoughts = (
        ReasoningBlock("other/model", "mine", "{}"),
        ReasoningBlock(ENDPOINT.name, "[redacted]"),
        *damaged,
    )
    messages = sent(UserMessage("hi"), AssistantMessage("so", (), thoughts), UserMessage("on"))
    assert messages["messages"][1] == {"role": "assistant", "content": "so"}


# answers


async def test_chunks_that_say_nothing_are_passed_over(server: ModelServer) -> None:
    reference = {"type": "reference", "reference_ids": [1, 2]}
    odd = {"type": "something new", "text": "hidden", "thinking": None}
    content = [{"type": "text", "text": "see "}, reference, odd, {"type": "text", "text": "there"}]
    reply = await ask(server, stream(chunk({"content": content}, "stop", Usage(9, 2))))
    assert reply.text == "see there"


async def test_calls_come_whole_or_in_pieces(server: ModelServer) -> None:
    def piece(id: str | None, index: int | None, name: str, arguments: Any) -> dict[str, Any]:
        said = {"id": id, "index": index, "function": {"name": name, "arguments": arguments}}
        return chunk({"tool_calls": [{k: v for k, v in said.items() if v is not None}]})

    reply = await ask(
        server,
        stream(
            piece("D681PevKs", 0, "find", '{"pattern"'),
            piece("VvvODy9mT", 0, "now", "{}"),
            piece("D681PevKs", 0, "", ': "a"}'),
            piece("null", 2, "find", ""),
            piece(None, 2, "", '{"pattern": "b"}'),
            piece(None, 3, "find", {"pattern": "c"}),
            piece(None, 4, "now", None),
            chunk({"content": ""}, "tool_calls", Usage(9, 2)),
        ),
    )
    assert [(call.name, call.input()) for call in reply.calls] == [
        ("find", {"pattern": "a"}),
        ("now", {}),
        ("find", {"pattern": "b"}),
        ("find", {"pattern": "c"}),
        ("now", {}),
    ]
    assert [call.id for call in reply.calls[:2]] == ["D681PevKs", "VvvODy9mT"]
    assert len({call.id for call in reply.calls}) == 5


async def test_an_answer_that_is_not_streamed_is_one_too(server: ModelServer) -> None:
    whole = chunk({}, "stop", Usage(9, 2, 4))
    whole["choices"] = [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]
    reply = await ask(server, Raw.json(whole))
    assert (reply.text, reply.usage) == ("Hello", Usage(9, 2, 4))


async def test_cached_tokens_are_known_by_either_name(server: ModelServer) -> None:
    last = chunk({"content": "so"}, "stop")
    last["usage"] = {"prompt_tokens": 20, "completion_tokens": 3, "num_cached_tokens": 16}
    assert (await ask(server, stream(last))).usage == Usage(20, 3, 16)


async def test_a_try_that_broke_says_what_it_cost(server: ModelServer) -> None:
    for raw in (
        Raw.events(chunk({"content": "12345678"})),
        Raw.events(chunk({"content": [thinking("12345678")]}), end="cut"),
    ):
        with pytest.raises(ModelError) as caught:
            await ask(server, raw)
        assert caught.value.kind == "broken_stream"
        assert caught.value.output == 2
        assert caught.value.input > 0


async def test_a_list_of_wrong_fields_is_told_in_words(server: ModelServer) -> None:
    wrong = [{"type": "missing", "loc": ["body", "messages", 0], "msg": "Field required"}]
    for body in ({"detail": wrong}, {"object": "error", "message": {"detail": wrong}}):
        with pytest.raises(ModelError, match=re.escape("body.messages.0: Field required")):
            await ask(server, Raw.json(body, 422))


async def test_a_call_without_a_name_and_deep_nesting_are_garbage(server: ModelServer) -> None:
    nameless = chunk({"tool_calls": [{"id": "D681PevKs", "index": 0}]}, "tool_calls", Usage(1, 1))
    deep = b'data: {"error": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n\n"
    for raw in (stream(nameless), Raw([deep])):
        with pytest.raises(ModelError) as caught:
            await ask(server, raw)
        assert caught.value.kind == "garbage"
