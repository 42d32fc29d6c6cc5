import base64
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
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
from hermes_agent.core.settings.services import ModelService, Quirk
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.openai.responses import request_body
from tests.models.helpers import KEY, endpoint, reply, request, speaking
from tests.support.model_server import ModelServer, Raw, Received
from tests.support.openai_server import FAILURES
from tests.support.wires.openai_responses import (
    WIRE,
    call_events,
    message_events,
    numbered,
    reasoning_events,
    response,
    usage_of,
    whole_stream,
)

REASONING = ModelFacts(efforts=("low", "high"))
USED = Usage(10, 5)
CALL = '{"pattern":"x"}'


def place(url: str = "", *quirks: Quirk, facts: ModelFacts = REASONING) -> Endpoint:
    return endpoint(url, ModelService(wire="openai-responses", quirks=quirks), facts)


async def exchange(
    raw: Raw, asked: Request | None = None, *quirks: Quirk, key: Credential | None = None
) -> tuple[Reply, Received]:
    """The reply to a request, and the request as the service got it."""
    async with ModelServer([raw]) as server:
        model = speaking(place(f"{server.root}/v1", *quirks), key)
        try:
            answer = await reply(model, asked or request("go"))
        finally:
            await model.close()
        return answer, server.requests[0]


async def answer_to(*items: dict[str, Any]) -> Reply:
    return (await exchange(whole_stream(items, USED)))[0]


def sent(asked: Request, *quirks: Quirk, facts: ModelFacts = REASONING) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(request_body(place("", *quirks, facts=facts), asked))
    return body


def items_of(message: AssistantMessage) -> list[dict[str, Any]]:
    """A reply as it goes back, without its results and what comes before it."""
    body = sent(request("go", message))
    WIRE.validate(json.dumps(body).encode())
    items: Sequence[dict[str, Any]] = body["input"][2:]
    return [item for item in items if item["type"] != "function_call_output"]


# requests


def test_nothing_is_stored_and_reasoning_comes_along_encrypted() -> None:
    body = sent(request("go"))
    assert (body["store"], body["stream"]) == (False, True)
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["reasoning"] == {"summary": "auto"}
    assert body["prompt_cache_key"] == "s1"
    assert body["tools"][0]["strict"] is False
    assert body["input"] == [
        {"type": "message", "role": "system", "content": "Be brief"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
    ]


def test_a_model_that_does_not_reason_is_not_asked_to() -> None:
    asked = Request(Prompt(""), (UserMessage("go"),), effort="high", max_output=9)
    body = sent(asked, facts=ModelFacts())
    assert body.keys() == {"model", "stream", "store", "max_output_tokens", "input"}


def test_effort_is_lowered_to_what_the_model_has() -> None:
    asked = Request(Prompt(""), (UserMessage("go"),), effort="max")
    assert sent(asked)["reasoning"] == {"effort": "high", "summary": "auto"}


def test_one_call_at_a_time_is_asked_for_where_the_service_wants_it() -> None:
    assert sent(request("go"), "one_call")["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in sent(request("go"))


def test_media_are_sent_to_models_that_take_them() -> None:
    png, pdf = Media("image/png", b"\x89PNG", "p.png"), Media("application/pdf", b"%PDF")
    asked = request(
        UserMessage("", (png, pdf)),
        AssistantMessage("", (ToolCall("c", "find"),)),
        ToolMessage("c", "find", "seen", files=(png,)),
    )
    image = {
        "type": "input_image",
        "image_url": "data:image/png;base64,iVBORw==",
        "detail": "auto",
    }
    file = {
        "type": "input_file",
        "filename": "file.pdf",
        "file_data": "data:application/pdf;base64,JVBERg==",
    }
    body = sent(asked, facts=ModelFacts(sees=True, reads=True))
    assert body["input"][1]["content"] == [image, file]
    assert body["input"][3]["output"] == [{"type": "input_text", "text": "seen"}, image]
    blind = sent(asked, facts=ModelFacts())["input"]
    assert [part["text"] for part in blind[1]["content"]] == [
        "[image p.png: this model cannot see it]",
        "[file: this model cannot read it]",
    ]
    assert blind[3]["output"][1]["text"] == "[image p.png: this model cannot see it]"


def test_a_conversation_that_was_cut_is_mended() -> None:
    long = "i" * 65
    calls = (ToolCall(long, "find", "{oops"), ToolCall("b", "find"))
    result = ToolMessage(long, "find", "")
    body = sent(request("go", AssistantMessage(""), AssistantMessage("", calls), result, "stop"))
    first, second, one, other, last = body["input"][2:]
    assert first["call_id"] == one["call_id"]
    assert len(first["call_id"]) <= 64
    assert json.loads(first["arguments"]) == {"not_an_object": "{oops"}
    assert (second["call_id"], other["call_id"]) == ("b", "b")
    assert (one["output"], "no result" in other["output"]) == ("(empty)", True)
    assert last["content"][0]["text"] == "stop"


def test_a_longer_conversation_begins_with_the_bytes_of_a_shorter_one() -> None:
    thought = ReasoningBlock("openai/test-model", "hm", '{"id":"rs_1","encrypted":"g"}')
    whole = request(
        "one",
        AssistantMessage("a", (ToolCall("c", "find"),), (thought,)),
        ToolMessage("c", "find", "x"),
        AssistantMessage("b", thoughts=(thought,)),
        "two",
    )
    bodies = [
        request_body(place(), Request(whole.prompt, whole.messages[:n], "s1")) for n in (1, 3, 5)
    ]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}") + b",")


@pytest.mark.parametrize(
    "change",
    [
        {"nonsense": 1},
        {"input": [{"type": "function_call", "call_id": "c"}]},
        {"input": [{"role": "user", "content": [{"type": "input_text", "texts": "x"}]}]},
        {"tools": [{"type": "function", "name": "x"}]},
        {"reasoning": {"effort": "huge"}},
    ],
)
def test_the_official_types_are_taken_at_their_word(change: dict[str, Any]) -> None:
    """Otherwise what they accept would mean nothing."""
    body = sent(request("go"))
    WIRE.validate(json.dumps(body).encode())
    with pytest.raises(ValidationError):
        WIRE.validate(json.dumps({**body, **change}).encode())


# reasoning that goes back


async def test_all_that_a_reply_held_goes_back_in_its_place() -> None:
    answer = await answer_to(
        *reasoning_events(0, [["Where ", "is it?"], ["Over there?"]]),
        *message_events(1, ("I look.",), phase="commentary"),
        *call_events(2, "c1", "find", CALL),
        *reasoning_events(3, [["And now?"]]),
        *message_events(4, ("Again.",), phase="final_answer"),
        *call_events(5, "c2", "find", CALL),
    )
    assert answer.text == "I look.Again."
    readable = [thought.text for thought in answer.thoughts if thought.text]
    assert readable == ["Where is it?\n\nOver there?", "And now?"]
    call = {"type": "function_call", "name": "find", "arguments": CALL}
    said = {"type": "message", "role": "assistant"}
    assert items_of(answer.message) == [
        {
            "type": "reasoning",
            "id": "rs_0",
            "summary": [
                {"type": "summary_text", "text": "Where is it?"},
                {"type": "summary_text", "text": "Over there?"},
            ],
            "encrypted_content": "gAAA0==",
        },
        {**said, "content": "I look.", "phase": "commentary"},
        {**call, "call_id": "c1"},
        {
            "type": "reasoning",
            "id": "rs_3",
            "summary": [{"type": "summary_text", "text": "And now?"}],
            "encrypted_content": "gAAA3==",
        },
        {**said, "content": "Again.", "phase": "final_answer"},
        {**call, "call_id": "c2"},
    ]


async def test_reasoning_without_a_summary_goes_back_too() -> None:
    answer = await answer_to(*reasoning_events(0, []), *message_events(1, ("so",)))
    assert [thought.text for thought in answer.thoughts] == [""]
    assert items_of(answer.message)[0] == {
        "type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "gAAA0==",
    }  # fmt: skip


async def test_reasoning_that_an_open_model_tells_goes_back_as_it_was_told() -> None:
    """Servers of open models send it plainly and keep nothing."""
    item = {"id": "rs_1", "type": "reasoning", "summary": []}
    at = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    answer = await answer_to(
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.reasoning_text.delta", **at, "delta": "plainly "},
        {"type": "response.reasoning_text.delta", **at, "delta": "thought"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        *message_events(1, ("so",)),
    )
    assert [thought.text for thought in answer.thoughts] == ["plainly thought"]
    assert items_of(answer.message)[0] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "plainly thought"}],
    }


async def test_reasoning_that_nobody_could_find_again_is_kept_for_people_only() -> None:
    events = list(reasoning_events(0, [["hm"]]))
    events[-1]["item"].pop("encrypted_content")
    answer = await answer_to(*events, *message_events(1, ("so",)))
    assert answer.thoughts == (ReasoningBlock("openai/test-model", "hm"),)
    assert [item["type"] for item in items_of(answer.message)] == ["message"]


@pytest.mark.parametrize("body", ["", "[]", "[7]", "{", '{"parts": 3}'])
def test_a_thought_without_its_seal_is_left_out(body: str) -> None:
    message = AssistantMessage("a", thoughts=(ReasoningBlock("openai/test-model", "hm", body),))
    assert [item["type"] for item in items_of(message)] == ["message"]


def test_thoughts_of_other_models_and_those_with_nothing_after_them_are_left_out() -> None:
    seal = '{"id":"rs_1","encrypted":"g"}'
    other = AssistantMessage("a", thoughts=(ReasoningBlock("other/x", "hm", seal),))
    assert [item["type"] for item in items_of(other)] == ["message"]
    last = AssistantMessage(
        "a", thoughts=(ReasoningBlock("openai/test-model", "hm", seal, chars=1),)
    )
    assert [item["type"] for item in items_of(last)] == ["message"]


# answers that come another way


def whole_items() -> list[dict[str, Any]]:
    events = (
        *reasoning_events(0, [["hm"], ["so"]]),
        *message_events(1, ("I ", "look.")),
        *call_events(2, "c1", "find", CALL),
    )
    return [event for event in events if event["type"] == "response.output_item.done"]


def told(answer: Reply) -> tuple[Any, ...]:
    return answer.text, answer.calls, [t.text for t in answer.thoughts], answer.stop, answer.usage


WHOLE = ("I look.", (ToolCall("c1", "find", CALL),), ["hm\n\nso"], "calls", USED)


async def test_an_answer_may_come_item_by_item() -> None:
    assert told(await answer_to(*whole_items())) == WHOLE


async def test_an_answer_may_come_with_its_end_only() -> None:
    output = [event["item"] for event in whole_items()]
    last = response("completed", output, usage=usage_of(USED))
    raw = numbered([{"type": "response.completed", "response": last}])
    assert told((await exchange(raw))[0]) == WHOLE


async def test_a_service_that_does_not_stream_is_understood() -> None:
    output = [event["item"] for event in whole_items()]
    raw = Raw.json(response("completed", output, usage=usage_of(USED)))
    assert told((await exchange(raw))[0]) == WHOLE


async def test_a_whole_answer_that_failed_is_an_error() -> None:
    error = {"code": "server_error", "message": "oh"}
    for status, kind in (("failed", "overload"), ("in_progress", "garbage")):
        with pytest.raises(ModelError) as raised:
            await exchange(Raw.json(response(status, error=error if status == "failed" else None)))
        assert raised.value.kind == kind


async def test_tokens_are_estimated_when_the_service_counts_none() -> None:
    events = [*message_events(0, ("x" * 40,))]
    raw = numbered([*events, {"type": "response.completed", "response": {"id": "r"}}])
    usage = (await exchange(raw))[0].usage
    assert usage.output == 10
    assert usage.input > 0


async def test_a_call_that_was_cut_before_its_arguments_is_not_made() -> None:
    begun = list(call_events(1, "c2", "find", CALL))[:1]
    raw = whole_stream(
        [*call_events(0, "c1", "find", CALL), *begun], USED, "incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    )  # fmt: skip
    answer = (await exchange(raw))[0]
    assert [call.id for call in answer.calls] == ["c1"]
    assert answer.stop == "length"


async def test_a_stream_that_breaks_says_what_it_has_cost() -> None:
    raw = numbered(list(message_events(0, ("x" * 40,)))[:3])
    with pytest.raises(ModelError) as raised:
        await exchange(raw)
    assert (raised.value.kind, raised.value.output) == ("broken_stream", 10)
    assert raised.value.input > 0


# codex


def token(**claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"h.{payload}.s"


async def test_codex_gets_instructions_and_the_account_of_the_token() -> None:
    secret = token(**{"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}})
    asked = Request(Prompt("Be brief"), (UserMessage("go"),), "s1", max_output=9, effort="low")
    raw = whole_stream(list(message_events(0, ("hi",))), USED)
    _, received = await exchange(raw, asked, "codex", key=Credential(secret))
    body = received.json
    assert (body["instructions"], body["store"], body["stream"]) == ("Be brief", False, True)
    assert "max_output_tokens" not in body
    assert [item["role"] for item in body["input"]] == ["user"]
    assert received.path == "/v1/responses"
    assert received.headers["authorization"] == f"Bearer {secret}"
    assert received.headers["chatgpt-account-id"] == "acc-1"
    assert received.headers["originator"] == "hermes"


async def test_an_account_that_is_known_counts_and_one_that_is_not_is_not_made_up() -> None:
    raw = whole_stream(list(message_events(0, ("hi",))), USED)
    _, known = await exchange(raw, None, "codex", key=Credential(KEY, id="acc-2"))
    assert known.headers["chatgpt-account-id"] == "acc-2"
    for secret in (KEY, "a.b.c", token(), token(**{"https://api.openai.com/auth": 7})):
        _, unknown = await exchange(raw, None, "codex", key=Credential(secret))
        assert "chatgpt-account-id" not in unknown.headers


async def test_the_last_event_of_codex_may_hold_no_output() -> None:
    events = list(message_events(0, ("hi",)))
    last = {"type": "response.completed", "response": response("completed", usage=usage_of(USED))}
    answer, _ = await exchange(numbered([*events, last]), None, "codex")
    assert (answer.text, answer.usage) == ("hi", USED)


LIMIT = {
    "type": "usage_limit_reached",
    "message": "The usage limit has been reached",
    "plan_type": "plus",
    "resets_in_seconds": 13872,
}


@pytest.mark.parametrize(
    "raw",
    [
        Raw.json({"error": LIMIT}, 429),
        numbered([{"type": "error", "error": LIMIT, "status_code": 429}]),
    ],
)
async def test_a_plan_that_is_used_up_says_when_it_is_not(raw: Raw) -> None:
    with pytest.raises(ModelError) as raised:
        await exchange(raw, None, "codex")
    assert (raised.value.kind, raised.value.retry_after) == ("quota", 13872.0)


async def test_a_header_that_names_a_pause_counts_more_than_words() -> None:
    said = Raw.json({"error": {"message": "Please try again in 250ms"}}, 429)
    with pytest.raises(ModelError) as raised:
        await exchange(said)
    assert raised.value.retry_after == 0.25
    late = FAILURES["429"]
    with pytest.raises(ModelError) as raised:
        await exchange(Raw(said.pieces, 429, {**late.headers, "retry-after": "3"}))
    assert raised.value.retry_after == 3.0


# what a service refuses once

UNVERIFIED = {
    "error": {
        "message": "Your organization must be verified to generate reasoning summaries.",
        "type": "invalid_request_error",
        "param": "reasoning.summary",
        "code": "unsupported_value",
    }
}
NO_CIPHERTEXT = {
    "error": {
        "message": "Encrypted content is not supported with this model.",
        "type": "invalid_request_error",
        "param": "include",
    }
}
ANOTHERS = {
    "error": {
        "message": "The encrypted content gAAA...wXBV could not be verified.",
        "type": "invalid_request_error",
        "code": "invalid_encrypted_content",
    }
}


async def test_summaries_and_ciphertext_that_are_refused_are_not_asked_for_again() -> None:
    said = whole_stream([*message_events(0, ["yes"])], USED)
    raws = [Raw.json(UNVERIFIED, 400), Raw.json(NO_CIPHERTEXT, 400), said, said]
    async with ModelServer(raws) as server:
        model = speaking(place(f"{server.root}/v1"))
        for _ in range(2):
            assert (await reply(model, request("go"))).text == "yes"
        await model.close()
    first, second, *others = [received.json for received in server.requests]
    assert first["reasoning"] == {"summary": "auto"}
    assert "reasoning" not in second
    assert second["include"] == ["reasoning.encrypted_content"]
    for other in others:
        assert "include" not in other
        assert "reasoning" not in other
    assert len(others) == 2


async def test_thoughts_that_the_account_cannot_read_are_left_out_and_later_ones_sent() -> None:
    first, later = [
        whole_stream([*reasoning_events(at, [["hm"]]), *message_events(at + 1, ["a"])], USED)
        for at in (0, 5)
    ]
    raws = [first, Raw.json(ANOTHERS, 400), later, first]
    async with ModelServer(raws) as server:
        model = speaking(place(f"{server.root}/v1"))
        said: list[Any] = ["go"]
        for _ in range(3):
            said += [(await reply(model, request(*said))).message, "and?"]
        await model.close()
    items = [received.json["input"] for received in server.requests]
    ids = [[item["id"] for item in each if item["type"] == "reasoning"] for each in items]
    assert ids == [[], ["rs_0"], [], ["rs_5"]]


async def test_a_refusal_of_something_else_is_told() -> None:
    async with ModelServer([Raw.json({"error": {"message": "no such tool"}}, 400)]) as server:
        model = speaking(place(f"{server.root}/v1"))
        with pytest.raises(ModelError, match="no such tool"):
            await reply(model, request("go"))
        await model.close()
    assert len(server.requests) == 1


def test_grok_is_asked_for_its_thoughts_though_it_has_no_steps_of_effort() -> None:
    for model, wanted in (("grok-4.20-0309-reasoning", True), ("grok-4.20-non-reasoning", False)):
        at = endpoint("", ModelService(wire="openai-responses"), ModelFacts(), model=model)
        body = json.loads(request_body(at, request("go")))
        assert ("include" in body) is wanted


def test_a_model_without_tools_is_shown_none() -> None:
    assert "tools" in sent(request("go"))
    assert "tools" not in sent(request("go"), facts=ModelFacts(tools=False))
