"""Tools as a grammar (GBNF, as llama.cpp reads it): a model that is held to it can write a plain
answer or calls of tools that exist, with arguments that fit their JSON Schemas, and nothing else.

What a schema may say: types, properties, required, additionalProperties, items, prefixItems, enum,
const, bounds and lengths, anyOf, oneOf, allOf, $ref. What else narrows a value (`pattern`, `not`,
`uniqueItems`, that only one of `oneOf` fits, …) is left to the tool, which checks its arguments.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hermes_agent.core.messages import ToolSpec
from hermes_agent.models.local.grammar.numbers import integers, numbers
from hermes_agent.models.local.grammar.schemas import both, narrowing, target, types_of, without

MAX_CALLS = 8
"""Calls in one reply: a tiny model does not always know when to stop."""
MAX_LENGTH = 1000
"""The most characters or items that are counted; where a schema allows more, fewer are written."""

COPIED = re.compile(r"(^|_)(path|file|folder|directory|name|id|url)$")
"""Arguments that name something which the conversation has named before."""

_RARE = re.compile("[\U00040000-\U0010ffff]")
"""Characters that a vocabulary may have no bytes for: a model could not write them to the end."""
_NAME = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|([a-z][a-z0-9-]*)')

_BASE = {
    "string": r'"\"" char* "\""',
    "char": r'[^"\\\x00-\x1f] | "\\" ["\\/bfnrt]',
    "number": numbers({}) or "",
    "integer": integers({}) or "",
    "boolean": '"true" | "false"',
    "null": '"null"',
    "value": "map | list | string | number | boolean | null",
    "map": '"{" (pair (", " pair)*)? "}"',
    "pair": 'string ": " value',
    "list": '"[" (value (", " value)*)? "]"',
    "text": "[^{\\x00-\\x20] .*",
}


def tool_grammar(tools: Sequence[ToolSpec], copied: Sequence[str] = ()) -> str:
    """The grammar of a reply: a text that begins with neither a brace nor a space, or up to eight
    lines of `{"tool": NAME, "arguments": {…}}`. Where `copied` holds anything, string arguments
    that name a file, a folder, an id and the like can only be one of these."""
    writer = _Writer(copied)
    calls = [call for tool in tools if (call := writer.call(tool))]
    if not calls:
        return ""
    writer.rules["call"] = " | ".join(calls)
    writer.rules["root"] = f'call ("\\n" call){{0,{MAX_CALLS - 1}}} | text'
    return writer.text("root")


def literal(text: str) -> str:
    """The terminal that is exactly this text."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return literal(_RARE.sub(lambda found: json.dumps(found[0])[1:-1], text))


class _Writer:
    """Collects rules. What stands for a schema is an expression, or None where nothing fits it."""

    def __init__(self, copied: Sequence[str]) -> None:
        self.rules = dict(_BASE)
        self._names = {body: name for name, body in _BASE.items()}
        self._root: Any = True
        self._references: dict[str, str | None] = {}
        self._copied = self._rule(" | ".join(map(_json, copied))) if copied else ""

    def call(self, tool: ToolSpec) -> str | None:
        self._root, self._references = tool.parameters, {}
        arguments = self._value(tool.parameters)
        if arguments is None:
            return None
        begin = literal(f'{{"tool": {json.dumps(tool.name)}, "arguments": ')
        return self._rule(f'{begin} {arguments} "}}"')

    def text(self, start: str) -> str:
        """All rules that `start` needs."""
        needed, new = {start}, [start]
        while new:
            for match in _NAME.finditer(self.rules[new.pop()]):
                name = match[1]
                if name and name not in needed:
                    needed.add(name)
                    new.append(name)
        return "".join(f"{name} ::= {self.rules[name]}\n" for name in self.rules if name in needed)

    def _rule(self, body: str) -> str:
        """The name of the rule with this body."""
        if body not in self._names:
            name = f"r{len(self.rules)}"
            self.rules[name] = body
            self._names[body] = name
        return self._names[body]

    def _any(self, choices: Iterable[str | None]) -> str | None:
        possible = list(dict.fromkeys(choice for choice in choices if choice is not None))
        if len(possible) < 2:
            return possible[0] if possible else None
        return self._rule(" | ".join(possible))

    def _value(self, schema: Any, direct: frozenset[str] = frozenset()) -> str | None:
        """`direct` are the references that led here without a character in between: one of them
        again adds nothing, and a grammar must not begin with itself."""
        if schema is False:
            return None
        if not isinstance(schema, Mapping):
            return "value"
        schema = narrowing(schema)
        if reference := schema.get("$ref"):
            return self._reference(str(reference), without(schema, "$ref"), direct)
        if parts := schema.get("allOf"):
            whole: Any = without(schema, "allOf")
            for part in parts:
                whole = both(whole, self._resolved(part))
            return self._value(whole, direct)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                rest = without(schema, key)
                return self._any(
                    self._value(self._beside(rest, one), direct) for one in schema[key]
                )
        if "const" in schema or "enum" in schema:
            return self._listed(schema)
        return self._any(self._typed(kind, schema) for kind in types_of(schema))

    def _beside(self, rest: Mapping[str, Any], choice: Any) -> Any:
        return both(rest, self._resolved(choice)) if rest else choice

    def _resolved(self, schema: Any) -> Any:
        """The schema with what it refers to in place of the reference."""
        seen = set()
        while isinstance(schema, Mapping) and (reference := schema.get("$ref")):
            if reference in seen:
                return False
            seen.add(reference)
            schema = both(target(self._root, str(reference)), without(schema, "$ref"))
        return schema

    def _reference(
        self, reference: str, beside: Mapping[str, Any], direct: frozenset[str]
    ) -> str | None:
        if reference in direct:
            return None
        found = target(self._root, reference)
        if beside:
            return self._value(both(found, beside), direct | {reference})
        if reference not in self._references:
            name = f"r{len(self.rules)}"
            self.rules[name] = '""'
            self._references[reference] = name
            body = self._value(found, direct | {reference})
            self._references[reference] = name if body else None
            self.rules[name] = body or '""'
        return self._references[reference]

    def _listed(self, schema: Mapping[str, Any]) -> str | None:
        listed = [schema["const"]] if "const" in schema else schema["enum"]
        if "const" in schema and "enum" in schema and schema["const"] not in schema["enum"]:
            return None
        kinds = types_of(without(schema, "const", "enum")) if "type" in schema else None
        return self._any(_json(one) for one in listed if kinds is None or _is(one, kinds))

    def _typed(self, kind: str, schema: Mapping[str, Any]) -> str | None:
        match kind:
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema)
            case "string":
                return self._string(schema)
            case "integer" | "number":
                body = (integers if kind == "integer" else numbers)(schema)
                return self._rule(body) if body else None
            case _:
                return kind

    def _string(self, schema: Mapping[str, Any]) -> str | None:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if not least and most is None:
            return "string"
        times = _times(least, most)
        return self._rule(rf'"\"" char{times} "\""') if times else None

    def _array(self, schema: Mapping[str, Any]) -> str | None:
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        first = [self._value(item) for item in schema.get("prefixItems", ())]
        first = first[: len(first) if most is None else most]
        if None in first:
            return None
        each = self._value(schema.get("items", True))
        if each is None:
            if least > len(first):
                return None
            most = len(first)
        written = [part for item in first for part in ('", "', str(item))][1:]
        rest = _times(max(0, least - len(first)), None if most is None else most - len(first))
        if rest is None:
            return None
        if first and each:
            written.append(f'(", " {each}){rest}')
        elif each and most != 0:
            more = _times(max(0, least - 1), None if most is None else most - 1)
            written.append(f'({each} (", " {each}){more}){"" if least else "?"}')
        return self._rule(" ".join(['"["', *written, '"]"']))

    def _object(self, schema: Mapping[str, Any]) -> str | None:
        required = schema.get("required", ())
        others = schema.get("additionalProperties", True)
        properties = dict(schema.get("properties", {}))
        if not properties and not required:
            value = self._value(others)
            if value is None:
                return '"{}"'
            pair = self._rule(f'string ": " {value}')
            return self._rule(f'"{{" ({pair} (", " {pair})*)? "}}"')
        for name in required:
            properties.setdefault(name, others)
        fields = []
        for name, each in properties.items():
            value = self._field(name, each)
            if value is not None:
                fields.append((f"{literal(json.dumps(name) + ': ')} {value}", name in required))
            elif name in required:
                return None
        return self._rule(f'"{{" {self._fields(fields)} "}}"')

    def _fields(self, fields: Sequence[tuple[str, bool]]) -> str:
        """Fields in their order, with commas between those that are there."""
        begun = alone = '""'  # what may follow a field, and what may follow the brace
        for field, is_required in reversed(fields):
            pair = self._rule(field)
            if is_required:
                begun, alone = f'", " {pair} {begun}', f"{pair} {begun}"
            else:
                alone = f"{pair} {begun} | {alone}"
                begun = f'(", " {pair})? {begun}'
            begun, alone = self._rule(begun), self._rule(alone)
        return alone

    def _field(self, name: str, schema: Any) -> str | None:
        if self._copied and COPIED.search(name) and isinstance(schema, Mapping):
            plain = narrowing(schema)
            if plain == {"type": "string"}:
                return self._copied
        return self._value(schema)


def _times(least: int, most: int | None) -> str | None:
    """How often something is repeated; None where that is impossible."""
    if most is None:
        return "*" if not least else f"{{{least},}}"
    if least > most:
        return None
    return f"{{{least},{max(least, min(most, MAX_LENGTH))}}}"


def _is(value: Any, kinds: Sequence[str]) -> bool:
    match value:
        case bool():
            return "boolean" in kinds
        case int():
            return "integer" in kinds or "number" in kinds
        case float():
            return "number" in kinds
        case str():
            return "string" in kinds
        case None:
            return "null" in kinds
        case list():
            return "array" in kinds
        case _:
            return "object" in kinds
