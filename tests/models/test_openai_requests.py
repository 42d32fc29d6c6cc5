import json
from itertools import pairwise
from typing import Any

import pytest
from openai import AsyncOpenAI

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
    UserMessage,
)
from hermes_agent.core.settings.services import ModelService, Quirk
from hermes_agent.models.wires.history_repair import BRIDGE, short_id
from hermes_agent.models.wires.openai.chat import request_body, wire_messages
from tests.models.helpers import (
    FIND,
    KEY,
    chat,
    endpoint,
    random_conversation,
    reply,
    request,
    speaking,
)
from tests.support.openai_server import OpenAIServer

PLAIN = endpoint()
CALL = ToolCall("c1", "find", '{ "pattern":  "*.py" }')
CONVERSATION = request(
    "find them", AssistantMessage("", (CALL,)), ToolMessage("c1", "find", "a.py"), "go on"
)
PNG = Media("image/png", b"\x89PNG", "point.png")
PDF = Media("application/pdf", b"%PDF", "a.pdf")


def sent(asked: Request, *quirks: Quirk, **facts: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(
        request_body(endpoint("", ModelService(quirks=quirks), ModelFacts(**facts)), asked)
    )
    return body


def test_a_conversation_becomes_the_messages_of_the_wire() -> None:
    assert wire_messages(PLAIN, CONVERSATION) == [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "find them"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "find", "arguments": '{ "pattern":  "*.py" }'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
        {"role": "user", "content": "go on"},
    ]


def test_without_system_prompt_and_tools_neither_is_sent() -> None:
    body = sent(Request(Prompt(""), (UserMessage("hi"),)))
    assert "tools" not in body
    assert body["messages"] == [{"role": "user", "content": "hi"}]


def test_a_limit_of_the_output_is_sent_when_there_is_one() -> None:
    limited = Request(Prompt(""), (), max_output=9)
    assert sent(limited)["max_tokens"] == 9
    assert sent(limited, "max_completion_tokens")["max_completion_tokens"] == 9
    assert b"max_" not in request_body(PLAIN, CONVERSATION)


def test_effort_is_told_as_the_service_wants_it_and_lowered_to_what_the_model_has() -> None:
    asked = Request(Prompt(""), (UserMessage("hi"),), effort="max")
    steps = {"efforts": ("low", "high")}
    assert sent(asked, "reasoning_effort", **steps)["reasoning_effort"] == "high"
    assert sent(asked, "reasoning_object", **steps)["reasoning"] == {"effort": "high"}
    for body in (sent(asked, **steps), sent(asked, "reasoning_effort")):
        assert "reasoning" not in json.dumps(body)


def test_quirks_change_what_they_name_and_nothing_else() -> None:
    plain = sent(CONVERSATION)
    assert sent(CONVERSATION, "no_stream_options") == {
        name: value for name, value in plain.items() if name != "stream_options"
    }
    assert sent(CONVERSATION, "prompt_cache_key") == {**plain, "prompt_cache_key": "s1"}
    assert sent(CONVERSATION, "one_call") == {**plain, "parallel_tool_calls": False}


def grown(whole: Request) -> list[bytes]:
    """The requests on the way to a conversation: one whenever every call has its result."""
    after = (*whole.messages[1:], UserMessage("the end"))
    return [
        request_body(PLAIN, Request(whole.prompt, whole.messages[:length], whole.session))
        for length, (last, following) in enumerate(zip(whole.messages, after, strict=True), 1)
        if not isinstance(last, AssistantMessage) and not isinstance(following, ToolMessage)
    ]


def test_a_longer_conversation_begins_with_the_bytes_of_a_shorter_one() -> None:
    for seed in range(150):
        whole = random_conversation(seed)
        bodies = grown(whole)
        for shorter, longer in pairwise(bodies):
            assert longer.startswith(shorter.removesuffix(b"]}") + b",")
        assert bodies[-1] == grown(random_conversation(seed))[-1]


def test_arguments_that_are_an_object_come_back_byte_for_byte() -> None:
    for seed in range(50):
        conversation = random_conversation(seed)
        messages = json.loads(request_body(PLAIN, conversation))["messages"]
        arguments = [c["function"]["arguments"] for m in messages for c in m.get("tool_calls", ())]
        said = [
            c.arguments
            for m in conversation.messages
            if isinstance(m, AssistantMessage)
            for c in m.calls
        ]
        for ours, theirs in zip(said, arguments, strict=True):
            if ours.replace(" ", "") == "{}":
                assert theirs == ours
            else:
                assert json.loads(theirs) == {"not_an_object": ours}


def test_a_conversation_that_was_cut_is_mended() -> None:
    calls = (ToolCall("a", "find"), ToolCall("b", "find"))
    body = sent(
        request(
            "go",
            AssistantMessage(""),
            AssistantMessage("", calls),
            ToolMessage("b", "find", ""),
            "stop",
        )
    )
    roles = [(m["role"], m.get("tool_call_id"), m.get("content")) for m in body["messages"][2:]]
    assert [role[:2] for role in roles] == [
        ("assistant", None), ("tool", "a"), ("tool", "b"), ("user", None),
    ]  # fmt: skip
    assert "no result" in roles[1][2]
    assert roles[2][2] == "(empty)"


def test_an_id_that_is_too_long_is_replaced_in_both_places() -> None:
    long = "x" * 41
    body = sent(request("go", AssistantMessage("", (ToolCall(long, "find"),)),
                        ToolMessage(long, "find", "a"), AssistantMessage("ok")))  # fmt: skip
    calls, result = body["messages"][2], body["messages"][3]
    assert calls["tool_calls"][0]["id"] == result["tool_call_id"]
    assert len(result["tool_call_id"]) <= 40


# reasoning that goes back

MINE = ReasoningBlock("openai/test-model", "I think")
THEIRS = ReasoningBlock("other/model", "they think")


def reasoned(*messages: Message | str, tools: bool = True) -> list[Any]:
    asked = request(*messages)
    if not tools:
        asked = Request(Prompt("Be brief"), asked.messages)
    replies = [m for m in sent(asked, "reasoning_content")["messages"] if m["role"] == "assistant"]
    return [reply.get("reasoning_content") for reply in replies]


def test_reasoning_goes_back_with_every_reply_once_there_are_tools() -> None:
    """DeepSeek refuses a conversation with calls in which it is missing, and passes over it where
    it does not need it."""
    said = (
        "go",
        AssistantMessage("", (CALL,), (MINE,)),
        ToolMessage("c1", "find", "a"),
        AssistantMessage("so", thoughts=(THEIRS,)),
        "and?",
        AssistantMessage("yes", thoughts=(MINE, MINE)),
    )
    assert reasoned(*said) == ["I think", "", "I thinkI think"]
    assert reasoned("go", AssistantMessage("a", thoughts=(MINE,)), tools=False) == [None]
    assert "think" not in json.dumps(sent(request(*said))["messages"])


def test_details_without_their_seal_are_left_out() -> None:
    for body in ("", "{}", "[", '"x"', "[7]"):
        thought = ReasoningBlock("openai/test-model", "hm", body)
        asked = request("go", AssistantMessage("a", thoughts=(thought,)), "b")
        assert "reasoning_details" not in sent(asked, "reasoning_details")["messages"][2]


# images and files


def test_images_and_files_are_sent_to_models_that_take_them() -> None:
    asked = request(UserMessage("look", (PNG, PDF)))
    content = sent(asked, sees=True, reads=True)["messages"][1]["content"]
    assert content == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        },
    ]


def test_other_models_are_told_what_they_cannot_see() -> None:
    svg = Media("image/svg+xml", b"<svg/>", "a.svg")
    asked = request(UserMessage("", (PNG, PDF)), UserMessage("x", (svg,)))
    texts = [
        part["text"] for m in sent(asked)["messages"][1:] for part in m["content"]
    ]  # fmt: skip
    assert texts == [
        "[image point.png: this model cannot see it]",
        "[file a.pdf: this model cannot read it]",
        "x",
        "[image a.svg: this model cannot see it]",
    ]
    assert "svg+xml" not in json.dumps(sent(asked, sees=True))


def test_images_among_results_follow_when_all_results_are_there() -> None:
    calls = (ToolCall("a", "find"), ToolCall("b", "find"))
    asked = request(
        "go",
        AssistantMessage("", calls),
        ToolMessage("a", "find", "", files=(PNG,)),
        ToolMessage("b", "find", "text"),
    )
    messages = sent(asked, sees=True)["messages"][3:]
    assert [m["role"] for m in messages] == ["tool", "tool", "user"]
    assert messages[2]["content"][1]["image_url"]["url"].startswith("data:image/png")
    blind = sent(asked)["messages"][3:]
    assert [m["content"] for m in blind] == ["[image point.png: this model cannot see it]", "text"]


# the marks of a cache


def marks(asked: Request) -> list[str]:
    """The texts that are marked."""
    service = ModelService(quirks=("cache_control",))
    body = request_body(endpoint("", service, model="anthropic/claude-x"), asked)
    return [
        part["text"]
        for message in json.loads(body)["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if "cache_control" in part
    ]


def test_the_cache_is_marked_after_the_system_text_and_the_last_two_turns() -> None:
    calls = (ToolCall("a", "find"), ToolCall("b", "find"))
    said: list[Message | str] = ["one", AssistantMessage("", calls)]
    said += [ToolMessage("a", "find", "first"), ToolMessage("b", "find", "second")]
    assert marks(request("one")) == ["Be brief", "one"]
    assert marks(request(*said)) == ["Be brief", "one", "second"]
    said += [AssistantMessage("ok"), "two"]
    assert marks(request(*said)) == ["Be brief", "second", "two"]


def test_only_the_marks_move() -> None:
    def bare(body: bytes) -> bytes:
        return body.replace(b',"cache_control":{"type":"ephemeral"}', b"")

    place = endpoint("", ModelService(quirks=("cache_control",)), model="anthropic/claude-x")
    bodies = [
        bare(request_body(place, Request(whole.prompt, whole.messages[:length])))
        for whole in [request("one", AssistantMessage("a"), "two", AssistantMessage("b"), "three")]
        for length in (1, 3, 5)
    ]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}") + b",")


def test_models_of_others_get_no_marks() -> None:
    assert sent(CONVERSATION, "cache_control") == sent(CONVERSATION)


# the wire


async def test_the_official_client_sends_the_same_request() -> None:
    messages: Any = wire_messages(PLAIN, CONVERSATION)
    async with OpenAIServer([Reply("one"), Reply("two")]) as server:
        ours = chat(server.url)
        await reply(ours, CONVERSATION)
        await ours.close()
        async with AsyncOpenAI(base_url=server.url, api_key=KEY) as theirs:
            stream = await theirs.chat.completions.create(
                model="test-model",
                messages=messages,
                tools=[
                    {
                        "type": "function",
                        "function": {
                            "name": FIND.name,
                            "description": FIND.description,
                            "parameters": dict(FIND.parameters),
                        },
                    }
                ],
                stream=True,
                stream_options={"include_usage": True},
            )
            async for _ in stream:
                pass
        mine, official = server.requests
        assert mine.json == official.json
        for header in ("authorization", "content-type"):
            assert mine.headers[header] == official.headers[header]


async def test_the_session_goes_along_as_a_header() -> None:
    async with OpenAIServer([Reply("hi")]) as server:
        model = chat(server.url)
        await reply(model, request("hello", session="s-77"))
        await model.close()
        assert server.requests[0].headers["x-hermes-session"] == "s-77"
        assert server.requests[0].headers["user-agent"].startswith("hermes-runtime/")


async def test_azure_takes_the_key_in_its_own_header_and_the_version_in_the_address() -> None:
    service = ModelService(
        quirks=("api_key_header",), query={"api-version": "2026-01-01"}, headers={"x-team": "a b"}
    )
    async with OpenAIServer([Reply("hi")]) as server:
        model = speaking(endpoint(server.url, service))
        await reply(model, request("hello"))
        await model.close()
        received = server.requests[0]
    assert received.headers["api-key"] == KEY
    assert "authorization" not in received.headers
    assert received.headers["x-team"] == "a b"
    assert (received.path, received.query) == ("/v1/chat/completions", "api-version=2026-01-01")


# what some refuse


@pytest.mark.parametrize("model", ["mistralai/mistral-small-4-119b-2603", "Devstral-Small-2"])
def test_models_of_mistral_get_short_ids_and_a_word_between_result_and_user(model: str) -> None:
    said = (UserMessage("go"), AssistantMessage("", (CALL,)), ToolMessage(CALL.id, "find", "x"))
    messages = wire_messages(endpoint(model=model), request(*said, "and now?"))
    assert [m["role"] for m in messages] == [
        "system", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert messages[4]["content"] == BRIDGE
    assert messages[3]["tool_call_id"] == messages[2]["tool_calls"][0]["id"] == short_id(CALL.id)
    assert messages[:4] == wire_messages(endpoint(model=model), request(*said))


def test_a_service_that_wants_turns_gets_them() -> None:
    place = endpoint("", ModelService(quirks=("alternating",)))
    roles = [m["role"] for m in wire_messages(place, request("one", "two", "three"))]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [m["role"] for m in wire_messages(PLAIN, request("one", "two"))][1:] == ["user", "user"]


def test_a_model_without_tools_is_shown_none() -> None:
    place = endpoint("", None, ModelFacts(tools=False))
    assert "tools" not in json.loads(request_body(place, request("go")))


def test_arguments_are_asked_for_in_pieces_where_that_is_not_the_rule() -> None:
    assert sent(CONVERSATION, "tool_stream")["tool_stream"] is True
    assert "tool_stream" not in sent(CONVERSATION)
