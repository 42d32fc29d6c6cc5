"""What the grammar of the tools makes of their schemas. That llama.cpp takes it, and that what a
model writes by it fits the schemas, is tested with a model in test_local.py."""

import json
from typing import Any

from hermes_agent.core.messages import ToolSpec
from hermes_agent.models.local.grammar import MAX_NUMBER, refused_tool, tool_grammar


def arguments(schema: dict[str, Any], *copied: str) -> dict[str, Any]:
    """The schema that the grammar holds the model to."""
    grammar = tool_grammar((ToolSpec("do_it", "Does it.", schema),), copied)
    line = grammar.splitlines()[3]
    begin = r'call_0: "{\"tool\": \"do_it\", \"arguments\": " %json '
    assert line.startswith(begin)
    found: dict[str, Any] = json.loads(line.removeprefix(begin).removesuffix(' "}"'))
    del found["x-guidance"]
    return found


def test_objects_that_list_their_properties_have_no_others_and_all_that_they_require() -> None:
    inner = {"type": "object", "properties": {"a": {}}}
    found = arguments({**inner, "properties": {"in": inner}, "required": ["b"], "title": "It"})
    assert found == {
        "type": "object",
        "properties": {"in": {**inner, "additionalProperties": False}, "b": {}},
        "required": ["b"],
        "additionalProperties": False,
    }
    assert arguments({"type": "object"}) == {"type": "object"}


def test_parts_of_a_choice_and_of_a_whole_stay_open_for_each_other() -> None:
    one, other = ({"properties": {name: {"type": "null"}}} for name in "ab")
    for schema in (
        {**one, "anyOf": [other]},
        {"allOf": [one, other]},
        {**one, "$ref": "#/$defs/b"},
    ):
        assert arguments(schema) == schema
    assert arguments({"oneOf": [one]}) == {"oneOf": [{**one, "additionalProperties": False}]}


def test_what_the_library_may_refuse_is_left_to_the_tool() -> None:
    text = {"type": "string", "pattern": "^(?!a)", "format": "snowflake", "maxLength": 9}
    assert arguments({"items": text}) == {"items": {"type": "string", "maxLength": 9}}
    assert arguments({"items": {"$ref": "https://example.com/x.json"}}) == {"items": {}}


def test_numbers_without_a_bound_get_one() -> None:
    bounds = {"minimum": -MAX_NUMBER, "maximum": MAX_NUMBER}
    for kind in ("integer", "number", ["integer", "null"]):
        assert arguments({"items": {"type": kind}})["items"] == {"type": kind, **bounds}
    for schema in ({"type": "number", "maximum": 3}, {"type": "integer", "enum": [1]}):
        assert arguments({"items": schema})["items"] == schema


def test_names_are_copied_from_the_conversation_where_it_has_some() -> None:
    text = {"type": "string", "description": "A text"}
    fields = {"path": text, "content": text, "file_id": {"type": "string", "maxLength": 3}}
    # A vocabulary may have no bytes for some characters.
    found = arguments({"properties": fields}, "a.txt", "größe", "not \U00098e7f")["properties"]
    assert found["path"] == {"enum": ["a.txt", "größe"]}
    assert found["content"] == {"type": "string"}
    assert found["file_id"] == {"type": "string", "maxLength": 3}
    assert arguments({"properties": fields})["properties"]["path"] == {"type": "string"}


def test_without_tools_there_is_no_grammar() -> None:
    assert tool_grammar(()) == ""


def test_a_refusal_names_the_tool() -> None:
    tools = [ToolSpec(f"tool_{number}", "", {}) for number in range(3)]
    at = 1 + next(n for n, x in enumerate(tool_grammar(tools).splitlines()) if "tool_1" in x)
    assert refused_tool(f"0.11 E llg error: at {at}(9): Unsatisfiable") == (1, "Unsatisfiable")
    assert refused_tool("0.11 E another error: at 5(9): no") is None
