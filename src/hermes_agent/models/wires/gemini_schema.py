"""JSON Schema as Gemini accepts it: a subset without references and recursion."""

from collections.abc import Mapping
from typing import Any

_KEPT = ("description", "type", "minItems", "maxItems", "minimum", "maximum")
_FORMATS = ("date-time", "date", "time", "int32", "int64", "float", "double")
_DEEPEST = 24
_MAX_COUNT = 5_000
"""The most subschemas; nested references can make a schema explode."""


def parameters(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The parameters of a tool, or None. Unsupported keywords are dropped or rewritten, so that no
    request fails."""
    taken = _Conversion(schema).of(schema, ())
    return taken if taken.get("properties") else None


class _Conversion:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = _MAX_COUNT

    def of(self, schema: Any, within: tuple[str, ...], depth: int = 0) -> dict[str, Any]:
        """`within`: the references that led here."""
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > _DEEPEST or self._left < 0:
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = self._target(reference, within)
            schema = _merged(self.of(target, (*within, reference), depth + 1), schema)
        for part in _list(schema.get("allOf")):
            schema = _merged(self.of(part, within, depth + 1), schema)
        taken = {key: schema[key] for key in _KEPT if key in schema}
        if schema.get("format") in _FORMATS:
            taken["format"] = schema["format"]
        if values := _values(schema):
            taken["enum"] = values
        _narrow(taken, schema)
        choices = _list(schema.get("anyOf")) or _list(schema.get("oneOf"))
        if choices:
            taken["anyOf"] = [self.of(choice, within, depth + 1) for choice in choices]
        self._take_object(taken, schema, within, depth)
        self._take_array(taken, schema, within, depth)
        return taken

    def _take_object(
        self, taken: dict[str, Any], schema: Mapping[str, Any], within: tuple[str, ...], depth: int
    ) -> None:
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            taken["properties"] = {
                str(name): self.of(each, within, depth + 1) for name, each in properties.items()
            }
            needed = _list(schema.get("required"))
            if there := [n for n in needed if isinstance(n, str) and n in properties]:
                taken["required"] = there
        match schema.get("additionalProperties"):
            case bool(allowed):
                taken["additionalProperties"] = allowed
            case Mapping() as others:
                taken["additionalProperties"] = self.of(others, within, depth + 1)

    def _take_array(
        self, taken: dict[str, Any], schema: Mapping[str, Any], within: tuple[str, ...], depth: int
    ) -> None:
        items = schema.get("items")
        # Older schemas list the parts of a tuple under `items`.
        if first := _list(schema.get("prefixItems")) or _list(items):
            taken["prefixItems"] = [self.of(each, within, depth + 1) for each in first]
        if isinstance(items, Mapping) or schema.get("type") == "array":
            taken["items"] = self.of(items, within, depth + 1)

    def _target(self, reference: str, within: tuple[str, ...]) -> Mapping[str, Any]:
        """The target of a local reference; empty for external and recursive ones."""
        if reference in within or not reference.startswith("#"):
            return {}
        found: Any = self._root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both schemas merged; the second wins."""
    merged = {**first, **second}
    if isinstance(first.get("properties"), Mapping) and isinstance(
        second.get("properties"), Mapping
    ):
        merged["properties"] = {**first["properties"], **second["properties"]}
    if needed := [*_list(first.get("required")), *_list(second.get("required"))]:
        merged["required"] = [n for at, n in enumerate(needed) if n not in needed[:at]]
    return merged


def _values(schema: Mapping[str, Any]) -> list[Any]:
    """The values of `enum` or `const`: Gemini accepts strings and numbers."""
    said = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
    return [v for v in said if isinstance(v, str | int | float) and not isinstance(v, bool)]


def _narrow(taken: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Replace exclusive bounds by the nearest inclusive ones."""
    step = 1 if schema.get("type") == "integer" else 0
    for word, bound, sign in (
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ):
        value = schema.get(word)
        if isinstance(value, int | float) and not isinstance(value, bool) and bound not in taken:
            taken[bound] = value + sign * step
