"""Whatever the grammar of the tools allows is a text, or calls that fit the tools' schemas."""

import json
from random import Random
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from hermes_agent.core.messages import ToolSpec
from hermes_agent.models.local.grammar.numbers import integers, numbers
from hermes_agent.models.local.grammar.tools import tool_grammar
from hermes_agent.models.local.prompt import read_calls
from hermes_agent.runtime.tools.builtin import load_tools
from tests.models.helpers import request
from tests.support.grammars import Sampler

TABLE = tuple(tool.spec for tool in load_tools(["terminal", "files", "people"]))

names = some.sampled_from(["path", "id", "when", 'quo"te', "back\\slash", "größe", "a b", "x"])
plain = some.one_of(
    some.none(), some.booleans(), some.integers(-999, 999), some.text(max_size=5),
    some.floats(-9, 9),
)  # fmt: skip


def whole_bounds(low: float | None, high: float | None, strict: bool) -> dict[str, Any]:
    if low is not None and high is not None:
        low, high = sorted((low, high))
    keys = ("exclusiveMinimum", "exclusiveMaximum") if strict else ("minimum", "maximum")
    return {key: bound for key, bound in zip(keys, (low, high), strict=True) if bound is not None}


bounds = some.builds(
    whole_bounds,
    some.none() | some.integers(-1200, 1200) | some.floats(-3, 3),
    some.none() | some.integers(-1200, 1200) | some.floats(-3, 3),
    some.booleans(),
)


def lengths(least: str, most: str) -> some.SearchStrategy[dict[str, Any]]:
    return some.builds(
        lambda low, more: {least: low} | ({most: low + more} if more is not None else {}),
        some.integers(0, 3),
        some.none() | some.integers(0, 3),
    )


leaves = some.one_of(
    some.just({}),
    some.just(True),
    some.sampled_from(["boolean", "null", "string", "object"]).map(lambda kind: {"type": kind}),
    some.just({"type": ["string", "null"], "default": None}),
    lengths("minLength", "maxLength").map(lambda more: {"type": "string", **more}),
    bounds.map(lambda more: {"type": "integer", **more}),
    bounds.map(lambda more: {"type": "number", **more}),
    plain.map(lambda value: {"const": value}),
    some.lists(plain, min_size=1, max_size=4).map(lambda values: {"enum": values}),
)


def objects(inner: some.SearchStrategy[Any]) -> some.SearchStrategy[dict[str, Any]]:
    def build(properties: dict[str, Any], chance: Random, others: Any) -> dict[str, Any]:
        required = [name for name in properties if chance.random() < 0.5]
        schema = {"type": "object", "properties": properties, "required": required}
        return schema if others is None else schema | {"additionalProperties": others}

    chances = some.integers(0, 99).map(Random)
    return some.builds(
        build, some.dictionaries(names, inner, max_size=4), chances, some.none() | some.booleans()
    )


def containers(inner: some.SearchStrategy[Any]) -> some.SearchStrategy[dict[str, Any]]:
    few = some.lists(inner, min_size=1, max_size=3)
    return some.one_of(
        objects(inner),
        inner.map(lambda each: {"type": "object", "additionalProperties": each}),
        some.builds(
            lambda each, more: {"type": "array", "items": each, **more},
            inner,
            lengths("minItems", "maxItems"),
        ),
        few.map(lambda each: {"type": "array", "prefixItems": each, "items": False}),
        few.map(lambda choices: {"anyOf": choices}),
        few.map(
            lambda choices: {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"kind": {"const": number}, "body": each},
                        "required": ["kind"],
                        "additionalProperties": False,
                    }
                    for number, each in enumerate(choices)
                ]
            }
        ),
        inner.map(lambda each: {"allOf": [each, {"description": "the same"}]}),
    )


schemas = objects(
    some.recursive(leaves | some.just({"$ref": "#/$defs/shared"}), containers, max_leaves=8)
)


def spec(parameters: dict[str, Any], shared: Any = True, name: str = "do_it") -> ToolSpec:
    return ToolSpec(name, "Does it.", {**parameters, "$defs": {"shared": shared}})


def check_calls(tools: tuple[ToolSpec, ...], text: str) -> int:
    """Every line is a call of a tool that exists, with arguments that fit; how many they are."""
    calls = read_calls(text, request("Do it"))
    known = {tool.name: tool.parameters for tool in tools}
    for line, call in zip(text.split("\n"), calls, strict=True):
        assert json.loads(line) == {"tool": call.name, "arguments": call.input()}
        jsonschema.Draft202012Validator(known[call.name]).validate(call.input())
    return len(calls)


def check_samples(tools: tuple[ToolSpec, ...], grammar: str, random: Random, count: int) -> None:
    sampler = Sampler(grammar)
    for _ in range(count):
        text = sampler.sample(random)
        if text.startswith("{"):
            assert 1 <= check_calls(tools, text) <= 8
        else:
            assert text.strip()


@settings(max_examples=150, deadline=None)
@given(schemas, leaves, some.integers(0, 999))
def test_whatever_the_grammar_allows_fits_the_schema(
    parameters: dict[str, Any], shared: Any, seed: int
) -> None:
    tools = (spec(parameters, shared),)
    grammar = tool_grammar(tools)
    if grammar:
        check_samples(tools, grammar, Random(seed), 10)
    else:
        assert not some_value_fits(tools[0].parameters)


def some_value_fits(schema: Any) -> bool:
    """Whether the least that one would try fits: a grammar is left out only where nothing does."""
    return jsonschema.Draft202012Validator(schema).is_valid({})


def test_whatever_the_grammar_of_the_built_in_tools_allows_fits_them() -> None:
    check_samples(TABLE, tool_grammar(TABLE), Random(1), 300)
    copied = ("src/main.py", 'a "quoted" name', "back\\slash", "größe")
    check_samples(TABLE, tool_grammar(TABLE, copied), Random(2), 300)


def test_every_built_in_tool_can_be_called_with_all_its_arguments() -> None:
    sampler, random = Sampler(tool_grammar(TABLE)), Random(3)
    written: set[tuple[str, str]] = set()
    for _ in range(600):
        for call in read_calls(sampler.sample(random), request("Do it")):
            written |= {(call.name, name) for name in call.input()}
    assert written == {
        (tool.name, name) for tool in TABLE for name in tool.parameters["properties"]
    }


def test_names_are_copied_from_the_conversation_where_it_has_some() -> None:
    sampler, random = Sampler(tool_grammar(TABLE, ("a.txt", "b.txt"))), Random(4)
    calls = [
        call
        for _ in range(200)
        for call in read_calls(sampler.sample(random), request("Do it"))
        if call.name == "write_file"
    ]
    assert {call.input()["path"] for call in calls} == {"a.txt", "b.txt"}
    assert len({call.input()["content"] for call in calls}) > 2


def test_a_schema_that_contains_itself_is_followed() -> None:
    tree = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    tools = (ToolSpec("plant", "Plants.", {**tree, "$defs": {"tree": tree}}),)
    check_samples(tools, tool_grammar(tools), Random(5), 100)


def test_a_schema_that_is_nothing_but_itself_ends() -> None:
    loop = {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "null"}]}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/loop"}}, "required": ["x"]}
    tools = (ToolSpec("go", "Goes.", {**schema, "$defs": {"loop": loop}}),)
    sampler = Sampler(tool_grammar(tools))
    texts = [sampler.sample(Random(seed)) for seed in range(20)]
    calls = [call.input() for text in texts for call in read_calls(text, request("Go"))]
    assert calls
    assert all(call == {"x": None} for call in calls)


def test_conditions_beside_a_choice_hold_for_each_of_its_parts() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 3}, "b": {"type": "string"}},
        "additionalProperties": False,
        "anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"c": {}}}],
        "allOf": [{"properties": {"a": {"maximum": 5}}}],
    }
    tools = (ToolSpec("choose", "Chooses.", schema),)
    check_samples(tools, tool_grammar(tools), Random(6), 200)


@pytest.mark.parametrize(
    "schema", [False, {"type": "object", "required": ["x"], "properties": {"x": False}}]
)
def test_a_tool_that_nothing_fits_is_not_offered(schema: Any) -> None:
    assert tool_grammar((ToolSpec("never", "", schema),)) == ""
    assert "never" not in tool_grammar((ToolSpec("never", "", schema), *TABLE))


def test_characters_that_a_vocabulary_may_lack_are_escaped() -> None:
    schema = {"type": "object", "properties": {"x": {"const": "ü\U00098e7f"}}, "required": ["x"]}
    tools = (ToolSpec("go", "Goes.", schema),)
    grammar = tool_grammar(tools)
    assert "ü" in grammar
    assert "\U00098e7f" not in grammar
    check_samples(tools, grammar, Random(8), 20)


@settings(max_examples=200, deadline=None)
@given(some.integers(-(10**6), 10**6), some.integers(0, 10**6), some.integers(0, 999))
def test_whole_numbers_stay_within_their_bounds_and_reach_them(
    low: int, more: int, seed: int
) -> None:
    body = integers({"minimum": low, "maximum": low + more})
    sampler, random = Sampler(f"root ::= {body}"), Random(seed)
    assert all(low <= int(sampler.sample(random)) <= low + more for _ in range(20))
    assert str(low) == Sampler(f"root ::= {integers({'minimum': low, 'maximum': low})}").sample(
        random
    )


@settings(max_examples=200, deadline=None)
@given(bounds, some.integers(0, 999))
@example({"exclusiveMinimum": 0, "exclusiveMaximum": 0.001}, 0)
def test_numbers_stay_within_their_bounds(limits: dict[str, Any], seed: int) -> None:
    body = numbers(limits)
    if body is None:
        low, high = limits.values()
        assert high - low < 1e-5
        return
    sampler, random = Sampler(f"root ::= {body}"), Random(seed)
    for _ in range(20):
        number = json.loads(sampler.sample(random))
        jsonschema.Draft202012Validator({"type": "number", **limits}).validate(number)


def test_a_small_range_is_written_out_whole() -> None:
    sampler, random = Sampler(f"root ::= {integers({'minimum': 7, 'maximum': 112})}"), Random(7)
    assert {int(sampler.sample(random)) for _ in range(6000)} == set(range(7, 113))
