"""What is special to the Gemini API; the rest is in `tests/contracts/test_wires.py`."""

import json
from collections.abc import Iterator
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
    ToolSpec,
    Usage,
    UserMessage,
)
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.gemini import BROKEN, NO_SIGNATURE, open_client, request_body
from hermes_agent.models.wires.history_repair import NO_RESULT
from tests.support.model_server import ModelServer, Raw
from tests.support.wires.gemini import BUSY, WIRE, call_part, chunk

LEVEL = WIRE.endpoint("http://nowhere")
BUDGET = msgspec.structs.replace(
    LEVEL, facts=msgspec.structs.replace(LEVEL.facts, thinking="budget")
)
BLIND = msgspec.structs.replace(LEVEL, facts=ModelFacts())
PNG = Media("image/png", b"\x89PNG", "point.png")
CALL = ToolCall.of("c1", "find", pattern="a")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def sent(endpoint: Endpoint, *messages: Message, **more: Any) -> dict[str, Any]:
    body = request_body(endpoint, Request(Prompt("", ()), messages, **more))
    WIRE.validate(body)
    content: dict[str, Any] = json.loads(body)
    return content


def contents(endpoint: Endpoint, *messages: Message) -> list[tuple[str, list[Any]]]:
    return [(each["role"], each["parts"]) for each in sent(endpoint, *messages)["contents"]]


async def ask(server: ModelServer, raw: Raw, request: Request | None = None) -> Reply:
    server.answer_next(raw)
    speaker = open_client(WIRE.endpoint(server.root))
    asked = request or Request(Prompt("", ()), (UserMessage("hi"),))
    try:
        chunks = [chunk async for chunk in speaker.stream(asked, WIRE.credential)]
    finally:
        await speaker.close()
    assert isinstance(chunks[-1], Reply)
    return chunks[-1]


def finished(*parts: dict[str, Any]) -> Raw:
    return Raw.events(*(chunk([part]) for part in parts), chunk([], "STOP", Usage(9, 2)))


# signatures


PARTS: dict[str, list[dict[str, Any]]] = {
    "on the first of parallel calls": [
        {"text": "I look."},
        call_part("find", {"pattern": "a"}, thoughtSignature="c2lnMQ=="),
        call_part("now", {}),
    ],
    "on a later call": [
        call_part("now", {}, thoughtSignature="c2lnMQ=="),
        call_part("find", {"pattern": "a"}, thoughtSignature="c2lnMg=="),
    ],
    "on a text": [{"text": "So "}, {"text": "it is", "thoughtSignature": "c2lnMQ=="}],
    "on an empty text at the end": [
        {"text": "So it is"},
        {"text": "", "thoughtSignature": "c2lnMQ=="},
    ],
    "on a text in the middle": [
        {"text": "One", "thoughtSignature": "c2lnMQ=="},
        {"text": " two"},
        call_part("now", {}, thoughtSignature="c2lnMg=="),
    ],
    "on a thought": [
        {"text": "hm", "thought": True, "thoughtSignature": "c2lnMQ=="},
        {"text": "So it is"},
    ],
    "on a text after a call": [
        call_part("now", {}, thoughtSignature="c2lnMQ=="),
        {"text": "Wait.", "thoughtSignature": "c2lnMg=="},
    ],
}


@pytest.mark.parametrize("name", PARTS)
async def test_a_signature_goes_back_on_the_part_that_it_came_with(
    server: ModelServer, name: str
) -> None:
    reply = await ask(server, finished(*PARTS[name]))
    _user, (role, parts), *_results = contents(LEVEL, UserMessage("hi"), reply.message)
    for part in parts:
        part.get("functionCall", {}).pop("id", None)
    assert (role, parts) == ("model", PARTS[name])


async def test_thoughts_without_a_signature_are_for_people_only(server: ModelServer) -> None:
    reply = await ask(server, finished({"text": "hm", "thought": True}, {"text": "So"}))
    assert [thought.text for thought in reply.thoughts] == ["hm"]
    assert contents(LEVEL, UserMessage("hi"), reply.message)[1] == ("model", [{"text": "So"}])


@pytest.mark.parametrize(
    "thought",
    [
        ReasoningBlock("other/model", body='{"on":"call","signature":"c2ln"}'),
        ReasoningBlock(LEVEL.name, "its body was taken away"),
    ],
)
def test_a_call_without_its_signature_is_marked_as_such_where_one_is_demanded(
    thought: ReasoningBlock,
) -> None:
    calls = (CALL, ToolCall("c2", "now"))
    reply = AssistantMessage("", calls, (thought,))
    _, (_, parts), _ = contents(LEVEL, UserMessage("look"), reply)
    assert [part.get("thoughtSignature") for part in parts] == [NO_SIGNATURE, None]
    _, (_, parts), _ = contents(BUDGET, UserMessage("look"), reply)
    assert [part.get("thoughtSignature") for part in parts] == [None, None]


def test_a_signature_survives_a_text_that_was_shortened() -> None:
    mark = ReasoningBlock(LEVEL.name, body='{"on":"text","signature":"c2ln","length":90}', chars=50)
    reply = AssistantMessage("[redacted]", (), (mark,))
    assert contents(LEVEL, UserMessage("hi"), reply)[1][1] == [
        {"text": "[redacted]"},
        {"text": "", "thoughtSignature": "c2ln"},
    ]


# thinking


def thinking(endpoint: Endpoint, **more: Any) -> Any:
    settings = sent(endpoint, UserMessage("hi"), **more).get("generationConfig", {})
    return settings.get("thinkingConfig")


def test_effort_becomes_a_level_or_a_budget() -> None:
    assert thinking(LEVEL) == {"includeThoughts": True}
    assert thinking(LEVEL, effort="low") == {"includeThoughts": True, "thinkingLevel": "LOW"}
    assert thinking(LEVEL, effort="max") == {"includeThoughts": True, "thinkingLevel": "HIGH"}
    assert thinking(BUDGET) == {"includeThoughts": True}
    assert thinking(BUDGET, effort="high") == {"includeThoughts": True, "thinkingBudget": 24_576}
    assert thinking(BLIND, effort="high") is None


def test_a_budget_for_thinking_leaves_room_for_the_answer() -> None:
    assert thinking(BUDGET, effort="high", max_output=4096)["thinkingBudget"] == 2048
    assert thinking(BUDGET, effort="low", max_output=4096)["thinkingBudget"] == 1024


# images and files


def test_an_image_among_results_stands_within_them_or_beside_them() -> None:
    said = (
        UserMessage("look"),
        AssistantMessage("", (CALL, ToolCall("c2", "now"))),
        ToolMessage("c1", "find", "seen", files=(PNG,)),
        ToolMessage("c2", "now", "noon"),
    )
    inline = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
    first, second = contents(LEVEL, *said)[2][1]
    assert first["functionResponse"]["parts"] == [inline]
    assert "parts" not in second["functionResponse"]
    first, second, *beside = contents(BUDGET, *said)[2][1]
    assert "parts" not in first["functionResponse"]
    assert beside == [{"text": "[image from find]"}, inline]
    first, second = contents(BLIND, *said)[2][1]
    told = "seen\n[image point.png: this model cannot see it]"
    assert first["functionResponse"]["response"] == {"output": told}


def test_what_a_model_cannot_take_is_named_instead() -> None:
    files = (PNG, Media("image/gif", b"GIF89a"), Media("application/pdf", b"%PDF", "a.pdf"))
    [(_, parts)] = contents(BLIND, UserMessage("well?", files))
    assert [part["text"] for part in parts] == [
        "[image point.png: this model cannot see it]",
        "[image: this model cannot see it]",
        "[file a.pdf: this model cannot read it]",
        "well?",
    ]
    [(_, parts)] = contents(LEVEL, UserMessage("well?", files))
    assert ["inlineData" in part for part in parts] == [True, False, True, False]


# conversations that the service would reject


def test_calls_that_were_cut_short_get_a_result() -> None:
    calls = (CALL, ToolCall("c2", "now"))
    said = (
        UserMessage("look"),
        AssistantMessage("", calls),
        ToolMessage("c2", "now", "noon"),
        UserMessage("stop"),
    )
    _, _, (role, results), after = contents(LEVEL, *said)
    assert role == "user"
    assert [part["functionResponse"] for part in results] == [
        {"id": "c1", "name": "find", "response": {"error": NO_RESULT}},
        {"id": "c2", "name": "now", "response": {"output": "noon"}},
    ]
    assert after == ("user", [{"text": "stop"}])


def test_a_result_without_its_call_becomes_a_message() -> None:
    [(role, parts)] = contents(LEVEL, UserMessage("go on"), ToolMessage("c9", "find", "a.py"))
    assert (role, parts) == ("user", [{"text": "go on"}, {"text": "[result of find]\na.py"}])


def test_a_conversation_that_a_model_begins_is_given_a_beginning() -> None:
    assert [role for role, _ in contents(LEVEL, AssistantMessage("hello"), UserMessage("hi"))] == [
        "user", "model", "user",
    ]  # fmt: skip


# arguments and ids


async def test_arguments_keep_every_byte(server: ModelServer) -> None:
    arguments = b'{"b":  1.50, "a": "\\u003cx\\u003e", "n": 12345678901234567890}'
    raw = Raw.events(chunk([call_part("find", {})]), chunk([], "STOP", Usage(1, 1)))
    pieces = [piece.replace(b'"args": {}', b'"args": ' + arguments) for piece in raw.pieces]
    reply = await ask(server, Raw(pieces))
    assert reply.calls[0].arguments.encode() == arguments
    request = Request(Prompt("", ()), (UserMessage("hi"), reply.message))
    assert b'"args":' + arguments in request_body(LEVEL, request)


async def test_a_call_keeps_its_id_unless_another_has_it(server: ModelServer) -> None:
    before = Request(
        Prompt("", ()),
        (UserMessage("hi"), AssistantMessage("", (CALL,)), ToolMessage("c1", "find", "x")),
    )
    named = [{"functionCall": {"id": id, "name": "now"}} for id in ("fresh", "c1", "fresh")]
    reply = await ask(
        server, finished(*named, {"functionCall": {"name": "now", "args": None}}), before
    )
    ids = [call.id for call in reply.calls]
    assert ids[0] == "fresh"
    assert len({*ids, "c1"}) == 5
    assert [call.arguments for call in reply.calls] == ["{}"] * 4


@pytest.mark.parametrize("arguments", [7, [], "x", True])
async def test_arguments_that_are_no_object_are_garbage(
    server: ModelServer, arguments: Any
) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(server, finished(call_part("find", arguments)))
    assert caught.value.kind == "garbage"


# answers


async def test_an_answer_that_is_not_streamed_is_one_too(server: ModelServer) -> None:
    parts: list[dict[str, Any]]
    parts = [{"text": "hm", "thought": True}, {"text": "Hello"}, call_part("now", {})]
    whole = chunk(parts, "STOP", Usage(9, 2))
    several = [chunk([part]) for part in parts] + [chunk([], "STOP", Usage(9, 2))]
    for body in (whole, several):
        reply = await ask(server, Raw.json(body))
        assert (reply.text, reply.stop, reply.usage) == ("Hello", "calls", Usage(9, 2))
    with pytest.raises(ModelError) as caught:
        await ask(server, Raw.json(chunk(parts)))
    assert caught.value.kind == "garbage"


async def test_tokens_of_the_services_own_tools_are_input(server: ModelServer) -> None:
    counts = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 5,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 20,
    }
    last = {**chunk([{"text": "so"}], "STOP"), "usageMetadata": counts}
    assert (await ask(server, Raw.events(last))).usage == Usage(15, 5, 4, 0, 2)


async def test_tokens_are_estimated_where_none_are_counted(server: ModelServer) -> None:
    reply = await ask(server, Raw.events(chunk([{"text": "12345678"}], "STOP")))
    assert reply.usage.output == 2
    assert reply.usage.input > 0


@pytest.mark.parametrize("reason", sorted(BROKEN))
async def test_an_answer_that_the_model_spoilt_may_be_asked_for_again(
    server: ModelServer, reason: str
) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(server, Raw.events(chunk([], reason, Usage(9, 2))))
    assert caught.value.passing
    assert (caught.value.input, caught.value.output) == (9, 2)


async def test_a_try_that_broke_says_what_it_cost(server: ModelServer) -> None:
    counted = chunk([{"text": "half an "}], usage=Usage(9, 2))
    for raw in (Raw.events(counted, end="cut"), Raw.events(counted), Raw.events(counted, BUSY)):
        with pytest.raises(ModelError) as caught:
            await ask(server, raw)
        assert (caught.value.input, caught.value.output) == (9, 2)
    with pytest.raises(ModelError) as caught:
        await ask(server, Raw.events(chunk([{"text": "12345678"}])))
    assert caught.value.output == 2
    assert caught.value.input > 0


async def test_a_blocked_prompt_says_why(server: ModelServer) -> None:
    feedback = {"blockReason": "SAFETY", "blockReasonMessage": "too dangerous"}
    with pytest.raises(ModelError, match="too dangerous") as caught:
        await ask(server, Raw.events({"promptFeedback": feedback}))
    assert caught.value.kind == "refused"


# the address


async def test_the_key_goes_into_a_header_and_the_model_into_the_address(
    server: ModelServer,
) -> None:
    await ask(server, finished({"text": "so"}))
    tuned = msgspec.structs.replace(WIRE.endpoint(server.root), model="tunedModels/mine")
    server.answer_next(finished({"text": "so"}))
    speaker = open_client(tuned)
    async for _ in speaker.stream(Request(Prompt("", ()), (UserMessage("hi"),)), Credential("k")):
        pass
    await speaker.close()
    first, second = server.requests
    assert (first.path, first.query) == ("/v1beta/models/test:streamGenerateContent", "alt=sse")
    assert first.headers["x-goog-api-key"] == WIRE.credential.secret
    assert second.path == "/v1beta/tunedModels/mine:streamGenerateContent"


def test_a_tool_without_parameters_has_no_schema() -> None:
    tools = (ToolSpec("now", "The time", {"type": "object", "properties": {}}),)
    body = request_body(LEVEL, Request(Prompt("", tools), (UserMessage("hi"),)))
    declared = [{"functionDeclarations": [{"name": "now", "description": "The time"}]}]
    assert json.loads(body)["tools"] == declared


def test_a_model_that_takes_no_tools_is_shown_none() -> None:
    tools = (ToolSpec("now", "The time", {"type": "object"}),)
    endpoint = msgspec.structs.replace(LEVEL, facts=ModelFacts(tools=False))
    body = request_body(endpoint, Request(Prompt("", tools), (UserMessage("hi"),)))
    assert "tools" not in json.loads(body)


def test_an_empty_message_is_not_sent_as_an_empty_text() -> None:
    body = msgspec.json.decode(
        request_body(WIRE.endpoint(""), Request(Prompt(""), (UserMessage(" "),)))
    )
    assert body["contents"] == [{"role": "user", "parts": [{"text": "(an empty message)"}]}]


@pytest.mark.parametrize("body", ["{", "[]", "{}", '{"on": "nothing", "signature": "s"}'])
def test_a_damaged_thought_stays_behind(body: str) -> None:
    reply = AssistantMessage("so", (), (ReasoningBlock(BUDGET.name, "hm", body),))
    _, (_, parts), _ = contents(BUDGET, UserMessage("hi"), reply, UserMessage("on"))
    assert parts == [{"text": "so"}]
