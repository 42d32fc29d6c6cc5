"""JSON Schema as Gemini takes it."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.models.wires.gemini_schema import parameters

KNOWN = {
    "description", "type", "format", "enum", "minItems", "maxItems", "minimum", "maximum", "anyOf",
    "properties", "required", "additionalProperties", "items", "prefixItems",
}  # fmt: skip


def of(schema: Any, **root: Any) -> Any:
    """How one property is put."""
    whole = {"type": "object", "properties": {"x": schema}, **root}
    taken = parameters(whole)
    assert taken is not None
    return taken["properties"]["x"]


def schemas(value: Any) -> Iterator[dict[str, Any]]:
    """A schema and all within it."""
    assert isinstance(value, dict)
    yield value
    inner = [*value.get("anyOf", ()), *value.get("prefixItems", ())]
    inner += value.get("properties", {}).values()
    for word in ("items", "additionalProperties"):
        if isinstance(value.get(word), dict):
            inner.append(value[word])
    for each in inner:
        yield from schemas(each)


def test_what_gemini_knows_stays() -> None:
    schema = {
        "type": "object",
        "description": "a place",
        "properties": {
            "name": {"type": ["string", "null"], "enum": ["a", "b"]},
            "when": {"type": "string", "format": "date-time"},
            "sizes": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 3},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert of(schema) == schema


def test_what_it_does_not_know_is_left_out() -> None:
    odd = {"type": "string", "$schema": "x", "title": "T", "pattern": "a+", "default": "a",
           "format": "uuid", "examples": ["a"], "if": {}, "not": {}, "x-own": 1}  # fmt: skip
    assert of(odd) == {"type": "string"}


def test_words_with_the_same_meaning_are_put_another_way() -> None:
    assert of({"const": "a"}) == {"enum": ["a"]}
    assert of({"oneOf": [{"type": "string"}, {"const": 3}]}) == {
        "anyOf": [{"type": "string"}, {"enum": [3]}]
    }
    assert of({"type": "integer", "exclusiveMinimum": 0}) == {"type": "integer", "minimum": 1}
    assert of({"type": "number", "exclusiveMaximum": 2}) == {"type": "number", "maximum": 2}
    assert of({"type": "array", "items": [{"type": "string"}]})["prefixItems"] == [
        {"type": "string"}
    ]


def test_references_are_replaced_by_what_they_point_to() -> None:
    defs = {"Size": {"type": "integer", "description": "how big"}}
    assert of({"$ref": "#/$defs/Size"}, **{"$defs": defs}) == defs["Size"]
    own = of({"$ref": "#/$defs/Size", "description": "how wide"}, **{"$defs": defs})
    assert own == {"type": "integer", "description": "how wide"}
    assert of({"allOf": [{"$ref": "#/$defs/Size"}]}, **{"$defs": defs}) == defs["Size"]
    chain = {"A": {"$ref": "#/$defs/Size"}, **defs}
    assert of({"$ref": "#/$defs/A"}, **{"$defs": chain}) == defs["Size"]
    assert of({"$ref": "#/$defs/Missing"}) == {}
    assert of({"$ref": "https://example.org/schema"}) == {}


def test_a_schema_that_holds_itself_ends() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}}
    taken = of({"$ref": "#/$defs/Tree"}, **{"$defs": {"Tree": tree}})
    assert taken == {"type": "object", "properties": {"next": {}}}


def test_a_schema_that_doubles_with_each_reference_stays_small() -> None:
    defs: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(22)
    }
    taken = of({"$ref": "#/$defs/d0"}, **{"$defs": defs})
    assert len(list(schemas(taken))) < 20_000


def test_all_that_must_hold_is_taken_together() -> None:
    first = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    second = {"properties": {"b": {"type": "integer"}}, "required": ["b", "c"]}
    assert of({"allOf": [first, second]}) == {
        "type": "object",
        "properties": {"b": {"type": "integer"}, "a": {"type": "string"}},
        "required": ["b", "a"],
    }


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [*sorted(KNOWN), "$ref", "$defs", "allOf", "oneOf", "const", "exclusiveMinimum"]
            )
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(_json)
def test_no_schema_fails_whatever_it_holds(schema: Any) -> None:
    for each in schemas(of(schema)):
        assert set(each) <= KNOWN
