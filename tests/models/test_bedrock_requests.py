"""The requests that are special to Bedrock: cache points, thinking by maker, thoughts that go back,
conversations that it would reject."""

import json
from typing import Any

import msgspec
import pytest

from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
    Message,
    ModelFacts,
    Prompt,
    Rates,
    ReasoningBlock,
    Request,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.models.shared import BUDGETS
from hermes_agent.models.wires.base import Endpoint
from hermes_agent.models.wires.bedrock.request import request_body
from tests.models.bedrock_helpers import HI, PROMPT, TOOLS, content, endpoint
from tests.support.wires.bedrock import MODEL, WIRE

NAME = WIRE.endpoint("").name
ADAPTIVE = {
    "thinking": {"type": "adaptive", "display": "summarized"},
    "output_config": {"effort": "high"},
}


def body(at: Endpoint, *messages: Message, prompt: Prompt = PROMPT, **more: Any) -> dict[str, Any]:
    made = request_body(at, Request(prompt, messages, **more))
    WIRE.validate(made)
    content: dict[str, Any] = json.loads(made)
    return content


# cache points


def marks(at: Endpoint, prompt: Prompt = PROMPT) -> tuple[int, int, list[int]]:
    """How many are after the system text, among the tools, and in which messages."""
    talk = (HI, AssistantMessage("a"), UserMessage("b"), AssistantMessage("c"), UserMessage("d"))
    made = body(at, *talk, prompt=prompt)
    tools = made.get("toolConfig", {}).get("tools", ())
    return (
        json.dumps(made.get("system", "")).count("cachePoint"),
        json.dumps(tools).count("cachePoint"),
        [n for n, each in enumerate(made["messages"]) if "cachePoint" in each["content"][-1]],
    )


def test_cache_points_stand_where_each_maker_takes_them() -> None:
    assert marks(endpoint()) == (1, 0, [2, 4])
    assert marks(endpoint(), Prompt("", TOOLS)) == (0, 1, [2, 4])
    nova = endpoint(model="us.amazon.nova-pro-v1:0", thinking="")
    assert marks(nova) == (1, 0, [])
    assert marks(nova, Prompt("", TOOLS)) == (0, 0, [])
    other = endpoint(model="openai.gpt-oss-120b-1:0", thinking="")
    assert marks(other) == (0, 0, [])


def test_a_model_without_a_cache_gets_no_cache_points() -> None:
    assert marks(endpoint(rates=(Rates(1.0, 2.0),))) == (0, 0, [])
    assert marks(endpoint(rates=())) == (0, 0, [])


def test_a_profile_that_hides_its_model_is_known_by_its_facts() -> None:
    profile = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123"
    assert marks(endpoint(model=profile)) == (1, 0, [2, 4])


# thinking


def test_effort_becomes_a_budget_below_the_limit() -> None:
    made = body(endpoint(max_output=64_000), HI, effort="high")
    assert made["additionalModelRequestFields"] == {
        "thinking": {"type": "enabled", "budget_tokens": BUDGETS["high"]}
    }
    assert made["inferenceConfig"] == {"maxTokens": 64_000}
    small = body(endpoint(), HI, effort="high", max_output=4_096)
    assert small["additionalModelRequestFields"]["thinking"]["budget_tokens"] == 2_048
    tiny = body(endpoint(), HI, effort="high", max_output=500)
    assert "additionalModelRequestFields" not in tiny
    assert tiny["inferenceConfig"] == {"maxTokens": 500}


@pytest.mark.parametrize(
    ("model", "thinking", "fields"),
    [
        (MODEL, "adaptive", ADAPTIVE),
        ("openai.gpt-oss-20b-1:0", "", {"reasoning_effort": "high"}),
        ("us.openai.gpt-5", "", {"reasoning": {"effort": "high"}}),
        ("deepseek.r1-v1:0", "", None),
    ],
)  # fmt: skip
def test_effort_is_told_as_each_maker_wants_it_and_lowered(
    model: str, thinking: str, fields: Any
) -> None:
    made = body(endpoint(model=model, thinking=thinking), HI, effort="max")
    assert made.get("additionalModelRequestFields") == fields
    assert "inferenceConfig" not in made


def test_nothing_is_said_of_effort_where_none_is_wanted_or_known() -> None:
    assert "additionalModelRequestFields" not in body(endpoint(), HI)
    assert "additionalModelRequestFields" not in body(endpoint(efforts=()), HI, effort="high")


def test_thinking_with_a_budget_does_not_begin_between_a_call_and_its_result() -> None:
    """Claude refuses that, and so it would after every change of model within a turn."""
    call = ToolCall("c1", "look")
    talk = (HI, AssistantMessage("", (call,)), ToolMessage("c1", "look", "x"))
    at = endpoint(max_output=64_000)
    assert "additionalModelRequestFields" not in body(at, *talk, effort="low")
    assert "additionalModelRequestFields" in body(
        at, *talk, AssistantMessage("done"), HI, effort="low"
    )
    thought = ReasoningBlock(NAME, "hm", '{"signature":"s"}')
    own = (HI, AssistantMessage("", (call,), (thought,)), ToolMessage("c1", "look", "x"))
    assert "additionalModelRequestFields" in body(at, *own, effort="low")


# thoughts


@pytest.mark.parametrize(
    "thought",
    [
        ReasoningBlock("anthropic/other", "not mine", '{"signature":"s"}'),
        ReasoningBlock(NAME, "unsigned, as Nova's and DeepSeek's are"),
        ReasoningBlock(NAME, "its body was no JSON", "{"),
        ReasoningBlock(NAME, "its body was another's", '{"signature": 7}'),
    ],
)
def test_thoughts_that_bedrock_would_not_take_stay_here(thought: ReasoningBlock) -> None:
    said = AssistantMessage("yes", (), (thought,))
    assert content(endpoint(), HI, said, HI)[1]["content"] == [{"text": "yes"}]


def test_a_thought_alone_is_no_turn() -> None:
    said = AssistantMessage("", (), (ReasoningBlock(NAME, "hm", '{"signature":"s"}'),))
    assert len(content(endpoint(), HI, said, HI)) == 1


# conversations


def test_calls_without_results_get_one_and_results_without_calls_are_told() -> None:
    calls = (ToolCall("c1", "look"), ToolCall("c2", "now"))
    made = content(
        endpoint(),
        HI,
        AssistantMessage("", calls),
        UserMessage("wait"),
        ToolMessage("c2", "now", "noon"),
        ToolMessage("c9", "look", "lost"),
        AssistantMessage("so"),
        AssistantMessage("it is"),
    )
    assert [list(block) for block in made[2]["content"]] == [
        ["toolResult"], ["toolResult"], ["text"], ["text"],
    ]  # fmt: skip
    first, second = (block["toolResult"] for block in made[2]["content"][:2])
    assert (first["toolUseId"], first["status"]) == ("c1", "error")
    assert (second["toolUseId"], second["status"]) == ("c2", "success")
    assert made[2]["content"][3] == {"text": "[result of look]\nlost"}
    assert made[3]["content"] == [{"text": "so"}, {"text": "it is"}]
    assert made[4]["content"] == [{"text": "Go on."}]


def test_a_conversation_that_the_model_begins_is_begun_for_the_user() -> None:
    assert [turn["role"] for turn in content(endpoint(), AssistantMessage("so"), HI)] == [
        "user", "assistant", "user",
    ]  # fmt: skip
    assert content(endpoint(), UserMessage(" \n")) == [
        {"role": "user", "content": [{"text": "Go on."}]}
    ]


@pytest.mark.parametrize(
    ("prompt", "tools"), [(Prompt("Sum it up."), True), (PROMPT, False)], ids=["none", "untaken"]
)
def test_without_tools_calls_and_results_are_told_as_text(prompt: Prompt, tools: bool) -> None:
    """Bedrock takes neither then, as when a conversation is summarised."""
    talk = (HI, AssistantMessage("", (ToolCall("c1", "look"),)), ToolMessage("c1", "look", "x"))
    made = content(endpoint(tools=tools), *talk, prompt=prompt)
    assert made[1]["content"] == [{"text": "[called look with {}]"}]
    assert made[2]["content"] == [{"text": "[result of look]\nx"}]


def test_ids_that_bedrock_refuses_become_others_always_the_same() -> None:
    odd, long = "call|a.b:c", "x" * 65
    calls = tuple(ToolCall(id, "look") for id in (odd, long, "good_id-1"))
    results = tuple(ToolMessage(call.id, "look", "x") for call in calls)
    made = content(endpoint(), HI, AssistantMessage("", calls), *results)
    ids = [block["toolUse"]["toolUseId"] for block in made[1]["content"]]
    assert len(set(ids)) == 3
    assert ids[2] == "good_id-1"
    assert made == content(endpoint(), HI, AssistantMessage("", calls), *results)


def test_arguments_go_back_as_they_were_written() -> None:
    written = '{"b":  1.50, "a": "\\u00e9"}'
    call = ToolCall("c1", "look", written)
    request = Request(PROMPT, (HI, AssistantMessage("", (call,)), ToolMessage("c1", "look", "x")))
    assert f'"input":{written}'.encode() in request_body(endpoint(), request)


@pytest.mark.parametrize("arguments", ["", "[1]", "{", "null", "[" * 100_000, '{"a":' * 100_000])
def test_arguments_that_are_no_object_are_sent_as_none(arguments: str) -> None:
    call = ToolCall("c1", "look", arguments)
    made = content(endpoint(), HI, AssistantMessage("", (call,)), ToolMessage("c1", "look", "x"))
    assert made[1]["content"][0]["toolUse"]["input"] == {}


def test_documents_have_names_that_bedrock_takes_and_that_differ() -> None:
    files = tuple(
        Media(type, b"x", name)
        for type, name in (
            ("application/pdf", "my_report  (v1).pdf"),
            ("application/pdf", "my report (v1) pdf"),
            ("text/csv", ""),
            ("text/markdown", "../../é"),
        )
    )
    made = content(endpoint(), UserMessage("", files))[0]["content"]
    names = [block["document"]["name"] for block in made[:4]]
    assert names == ["my report (v1) pdf", "my report (v1) pdf (2)", "document", "document (2)"]
    assert "text" in made[4]


def test_what_a_model_cannot_take_is_named_instead() -> None:
    blind = endpoint(sees=False, reads=False)
    files = (Media("image/png", b"x", "a.png"), Media("application/pdf", b"x", "b.pdf"))
    assert content(blind, UserMessage("", files))[0]["content"] == [
        {"text": "[image a.png: this model cannot see it]"},
        {"text": "[file b.pdf: this model cannot read it]"},
    ]
    odd = (Media("image/tiff", b"x"), Media("application/zip", b"x"), Media("image/png", b""))
    assert content(endpoint(), UserMessage("", odd))[0]["content"] == [
        {"text": "[image: this model cannot see it]"},
        {"text": "[file: this model cannot read it]"},
        {"text": "[image: this model cannot see it]"},
    ]


def test_facts_of_an_unknown_model_are_enough() -> None:
    at = msgspec.structs.replace(endpoint(model="new.model-v9:0"), facts=ModelFacts())
    made = body(at, HI, effort="high", max_output=100)
    assert sorted(made) == ["inferenceConfig", "messages", "system", "toolConfig"]
