"""Parses the types and defaults of an authored tool's arguments, without running it."""

import ast
from typing import Any, Literal, Union

import msgspec

DEEPEST = 8
"""How deep types may nest."""
_PLAIN: dict[str, Any] = {
    "str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict,
    "List": list, "Dict": dict, "Any": Any, "None": None,
}  # fmt: skip
CARRIED = "str, int, float, bool, None, list, dict, Literal, Optional, unions and Any"


class SourceError(Exception):
    """An error in a tool's source, with its line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def type_of(node: ast.expr, depth: int = 0) -> Any:
    """The type of an annotation. Raises `SourceError`."""
    if depth > DEEPEST:
        raise SourceError(node.lineno, "the type is nested too deep")
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str(text)):
            return type_of(_parsed(text, node.lineno), depth + 1)
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="typing"), attr=name):
            if name in _PLAIN:
                return _PLAIN[name]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _either(left, right, depth=depth + 1)
        case ast.Subscript(
            value=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="typing"), attr=name),
            slice=inner,
        ):
            return _filled(name, inner, depth + 1)
    raise SourceError(
        node.lineno, f"{ast.unparse(node)!r} cannot be written as JSON: use {CARRIED}"
    )


def _parsed(text: str, line: int) -> ast.expr:
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # ValueError: a null byte
        raise SourceError(line, f"{text!r} is no type") from None
    for inner in ast.walk(node):
        if isinstance(inner, ast.expr):
            inner.lineno = line
    return node


def _filled(name: str, inner: ast.expr, depth: int) -> Any:
    """A type with parameters."""
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    match name, parts:
        case (("list" | "List"), [one]):
            return list[type_of(one, depth)]  # type: ignore[misc]  # made from what was read
        case (("dict" | "Dict"), [ast.Name(id="str"), value]):
            return dict[str, type_of(value, depth)]  # type: ignore[misc]  # as above
        case (("dict" | "Dict"), [key, _]):
            raise SourceError(key.lineno, "the keys of a dict that JSON carries are str")
        case "Optional", [one]:
            return _either(one, ast.Constant(None), depth=depth)
        case "Union", [_, *_]:
            return _either(*parts, depth=depth)
        case "Literal", [_, *_]:
            return Literal[tuple(_literal(one) for one in parts)]
        case _:
            raise SourceError(inner.lineno, f"{name}[…] cannot be written as JSON: use {CARRIED}")


def _either(*parts: ast.expr, depth: int) -> Any:
    return Union[tuple(type_of(one, depth) for one in parts)]  # noqa: UP007 - None | None is none


def _literal(node: ast.expr) -> str | int | None:
    value = plain_value(node)
    if isinstance(value, bool) or not (value is None or isinstance(value, str | int)):
        raise SourceError(node.lineno, "Literal takes str, int and None")
    return value


def plain_value(node: ast.expr) -> Any:
    """The value of a literal. Raises `SourceError`."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise SourceError(
            node.lineno, f"the default {ast.unparse(node)[:80]!r} is not a plain value"
        ) from None


def fitting(value: Any, type: Any, node: ast.expr) -> Any:
    """The default as its type. Raises `SourceError`."""
    try:
        return msgspec.convert(value, type)
    except (msgspec.ValidationError, TypeError) as error:
        raise SourceError(
            node.lineno, f"the default {value!r} does not fit its type: {error}"
        ) from None
