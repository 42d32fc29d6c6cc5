"""The grammar that constrains a local model to its tools: Lark, for llguidance inside llama.cpp.

llguidance knows JSON Schema. What it ignores (`not`, `uniqueItems`, `if`, that only one of `oneOf`
fits, …) and what we leave out because it might refuse it (`pattern`, `format`) is left to the tool,
which checks its arguments.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_agent.core.messages import ToolSpec

MAX_CALLS = 8
"""Calls in one reply: a tiny model does not always know when to stop."""
MAX_NUMBER = 10**15 - 1
"""The bound of numbers whose schema has none: every JSON reader keeps it exact."""
COPIED = re.compile(r"(^|_)(path|file|folder|directory|name|id|url)$")
"""Arguments that name something which the conversation has named before."""

_HEADER = (
    "%llguidance {}",
    f'reply: call ("\\n" call){{0,{MAX_CALLS - 1}}} | TEXT',
    r"TEXT: /(?s:[^{\x00-\x20].*)/",
)
_OPTIONS = {
    "whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True,
}  # fmt: skip
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_NAMED = frozenset({"properties", "$defs", "definitions"})
_LISTED = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NESTED = frozenset({"items", "additionalProperties"})
_PLAIN = _BOUNDS | {
    "$ref", "type", "enum", "const", "required", "minItems", "maxItems", "minLength", "maxLength",
}  # fmt: skip
_COMBINING = ("anyOf", "oneOf", "allOf", "$ref")
_REFUSED = re.compile(r"llg error: at (\d+)\(\d+\): (.*)")
_RARE = re.compile("[\U00040000-\U0010ffff]")
"""Characters that a vocabulary may have no bytes for: a model could not finish them."""


def tool_grammar(
    tools: Sequence[ToolSpec], copied: Sequence[str] = (), end_token: int | None = None
) -> str:
    """The grammar of a reply: a text that begins with neither a brace nor a space, or up to eight
    lines of `{"tool": NAME, "arguments": {…}}`. If `copied` is not empty, string arguments that
    name a file, a folder, an id and the like can only be one of these. `end_token` is the token
    that ends a reply: of the ones that a vocabulary has, llguidance may know another."""
    if not tools:
        return ""
    copied = [text for text in copied if not _RARE.search(text)]
    rules = [_rule(index, tool, copied) for index, tool in enumerate(tools)]
    names = " | ".join(f"call_{index}" for index in range(len(tools)))
    start = "start: reply" + (f" <[{end_token}]>?" if end_token is not None else "")
    return "\n".join([*_HEADER, *rules, f"call: {names}", start, ""])


def refused_tool(log_line: str) -> tuple[int, str] | None:
    """Which of the grammar's tools a line of llama.cpp's log refuses, and why."""
    found = _REFUSED.search(log_line)
    return (int(found[1]) - 1 - len(_HEADER), found[2]) if found else None


def _rule(index: int, tool: ToolSpec, copied: Sequence[str]) -> str:
    # Parts of an `allOf` cannot forbid what they do not know: the other parts may require it.
    close = "allOf" not in json.dumps(tool.parameters)
    schema = _simplified(tool.parameters, copied, close)
    begin = json.dumps(f'{{"tool": {json.dumps(tool.name)}, "arguments": ', ensure_ascii=False)
    arguments = json.dumps({**schema, "x-guidance": _OPTIONS}, ensure_ascii=False)
    return f'call_{index}: {begin} %json {arguments} "}}"'


def _simplified(schema: Any, copied: Sequence[str], close: bool) -> Any:
    """The schema without what llguidance may refuse; numbers are bounded, and objects that list
    their properties have no others."""
    if not isinstance(schema, Mapping):
        return schema
    simple: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            simple[key] = {name: _field(name, each, copied, close) for name, each in value.items()}
        elif key in _LISTED:
            alone = close and "properties" not in schema
            simple[key] = [_simplified(each, copied, alone) for each in value]
        elif key in _NESTED:
            simple[key] = _simplified(value, copied, close)
        elif key in _PLAIN and not (key == "$ref" and not value.startswith("#")):
            simple[key] = value
    if close and "properties" in simple and not any(key in simple for key in _COMBINING):
        others = simple.setdefault("additionalProperties", False)
        for name in simple.get("required", ()):
            simple["properties"].setdefault(name, others or {})
    numeric = {"integer", "number"}.intersection(_types(schema))
    if numeric and not _BOUNDS.union(("enum", "const")).intersection(schema):
        simple |= {"minimum": -MAX_NUMBER, "maximum": MAX_NUMBER}
    return simple


def _field(name: str, schema: Any, copied: Sequence[str], close: bool) -> Any:
    simple = _simplified(schema, copied, close)
    if copied and COPIED.search(name) and simple == {"type": "string"}:
        return {"enum": copied}
    return simple


def _types(schema: Mapping[str, Any]) -> Sequence[str]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else types
