"""Reading JSON Schemas: what they narrow, what two of them say together, where they point."""

from collections.abc import Mapping, Sequence
from typing import Any

_NARROWING = frozenset(
    {
        "$ref", "type", "enum", "const", "anyOf", "oneOf", "allOf",
        "properties", "required", "additionalProperties",
        "items", "prefixItems", "minItems", "maxItems",
        "minLength", "maxLength", "pattern",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    }
)  # fmt: skip
_GREATEST = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_LEAST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_KINDS = ("object", "array", "string", "number", "integer", "boolean", "null")
_TOLD_BY = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}


def narrowing(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a schema that says which values fit, less titles, defaults and the like."""
    return {key: value for key, value in schema.items() if key in _NARROWING}


def without(schema: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keys}


def types_of(schema: Mapping[str, Any]) -> Sequence[str]:
    """The types a value may have. A schema that names none, but says what objects have to be
    like, is about objects."""
    match schema.get("type"):
        case str(kind):
            return (kind,)
        case list(kinds):
            return tuple(kinds)
    told = [kind for kind, keys in _TOLD_BY.items() if any(key in schema for key in keys)]
    return told or tuple(kind for kind in _KINDS if kind != "integer")


def target(root: Any, reference: str) -> Any:
    """What a reference within a schema points to; anything fits where it points elsewhere."""
    if not reference.startswith("#"):
        return True
    found = root
    for part in reference.removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            return True
        found = found[key]
    return found


def both(first: Any, second: Any) -> Any:
    """A schema for what fits both."""
    if first is False or second is False:
        return False
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return first if isinstance(first, Mapping) else second
    one, other = narrowing(first), narrowing(second)
    for key in ("anyOf", "oneOf"):
        for chooser, beside in ((one, other), (other, one)):
            if key in chooser:
                rest = both(without(chooser, key), beside)
                return {key: [both(choice, rest) for choice in chooser[key]]}
    merged: dict[str, Any] = {**one, **other}
    for keys, pick in ((_GREATEST, max), (_LEAST, min)):
        for key in keys:
            if key in one and key in other:
                merged[key] = pick(one[key], other[key])
    if "enum" in one and "enum" in other:
        merged["enum"] = [value for value in one["enum"] if value in other["enum"]]
    if "type" in one and "type" in other:
        merged["type"] = _shared_types(types_of(one), types_of(other))
    if "required" in one and "required" in other:
        merged["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    if "properties" in one or "properties" in other:
        merged["properties"] = _properties(one, other)
    if False in (one.get("additionalProperties"), other.get("additionalProperties")):
        merged["additionalProperties"] = False
    return merged


def _shared_types(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """An integer is a number too."""
    return [
        kind
        for kind in _KINDS
        if (kind in first and kind in second)
        or (kind == "integer" and "number" in first and kind in second)
        or (kind == "integer" and kind in first and "number" in second)
    ]


def _properties(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of both; what one of them does not know and forbids, nobody has."""
    here, there = one.get("properties", {}), other.get("properties", {})
    merged: dict[str, Any] = {}
    for name in {**here, **there}:
        left = here.get(name, one.get("additionalProperties", True))
        right = there.get(name, other.get("additionalProperties", True))
        merged[name] = both(left, right)
    return merged
