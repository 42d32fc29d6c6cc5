import json
from itertools import pairwise

import pytest
from openai import AsyncOpenAI

from hermes_agent.core.messages import (
    AssistantMessage,
    Prompt,
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.models.openai_chat import request_body, wire_messages
from tests.models.helpers import FIND, KEY, chat, random_conversation, reply, request
from tests.support.openai_server import OpenAIServer

CALL = ToolCall("c1", "find", '{ "pattern":  "*.py" }')
CONVERSATION = request(
    "find them", AssistantMessage("", (CALL,)), ToolMessage("c1", "find", "a.py"), "go on"
)


def test_a_conversation_becomes_the_messages_of_the_wire() -> None:
    assert wire_messages(CONVERSATION.prompt, CONVERSATION.messages) == [
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
    body = json.loads(request_body("m", Request(Prompt(""), (UserMessage("hi"),))))
    assert "tools" not in body
    assert body["messages"] == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_limit_of_the_output_is_sent_when_there_is_one(field: str) -> None:
    body = request_body("m", Request(Prompt(""), (), max_output=9), field)
    assert json.loads(body)[field] == 9
    assert b"max_" not in request_body("m", CONVERSATION)


def test_a_longer_conversation_begins_with_the_bytes_of_a_shorter_one() -> None:
    for seed in range(150):
        whole = random_conversation(seed)
        bodies = [
            request_body("m", Request(whole.prompt, whole.messages[:length], whole.session))
            for length in range(1, len(whole.messages) + 1)
        ]
        for shorter, longer in pairwise(bodies):
            assert longer.startswith(shorter.removesuffix(b"]}") + b",")
        assert bodies[-1] == request_body("m", random_conversation(seed))


def test_arguments_come_back_byte_for_byte_however_odd_they_are() -> None:
    for seed in range(50):
        conversation = random_conversation(seed)
        sent = json.loads(request_body("m", conversation))["messages"]
        arguments = [c["function"]["arguments"] for m in sent for c in m.get("tool_calls", ())]
        assert arguments == [
            c.arguments
            for m in conversation.messages
            if isinstance(m, AssistantMessage)
            for c in m.calls
        ]


async def test_the_official_client_sends_the_same_request() -> None:
    async with OpenAIServer([Reply("one"), Reply("two")]) as server:
        ours = chat(server.url)
        await reply(ours, CONVERSATION)
        await ours.close()
        async with AsyncOpenAI(base_url=server.url, api_key=KEY) as theirs:
            stream = await theirs.chat.completions.create(
                model="test-model",
                messages=wire_messages(CONVERSATION.prompt, CONVERSATION.messages),  # type: ignore[arg-type]
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
        assert server.requests[0].headers["user-agent"].startswith("hermes-agent/")
