"""Parses the source of an authored tool, without running it: a docstring, one public function of
its name with types and a docstring, and tests."""

import ast
import builtins
import keyword
import re
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Union

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ToolError

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


def _type_of(node: ast.expr, depth: int = 0) -> Any:
    """The type of an annotation. Raises `SourceError`."""
    if depth > DEEPEST:
        raise SourceError(node.lineno, "the type is nested too deep")
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str(text)):
            return _type_of(_parsed(text, node.lineno), depth + 1)
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
        raise SourceError(line, f"{text!r} is not a type") from None
    for inner in ast.walk(node):
        if isinstance(inner, ast.expr):
            inner.lineno = line
    return node


def _filled(name: str, inner: ast.expr, depth: int) -> Any:
    """A type with parameters."""
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    match name, parts:
        case (("list" | "List"), [one]):
            return list[_type_of(one, depth)]  # type: ignore[misc]  # made from what was read
        case (("dict" | "Dict"), [ast.Name(id="str"), value]):
            return dict[str, _type_of(value, depth)]  # type: ignore[misc]  # as above
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
    return Union[tuple(_type_of(one, depth) for one in parts)]  # noqa: UP007 - None | None is none


def _literal(node: ast.expr) -> str | int | None:
    value = _plain_value(node)
    if isinstance(value, bool) or not (value is None or isinstance(value, str | int)):
        raise SourceError(node.lineno, "Literal takes str, int and None")
    return value


def _plain_value(node: ast.expr) -> Any:
    """The value of a literal. Raises `SourceError`."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise SourceError(
            node.lineno, f"the default {ast.unparse(node)[:80]!r} is not a plain value"
        ) from None


def _default(value: Any, type: Any, node: ast.expr) -> Any:
    """The default as its type. Raises `SourceError`."""
    try:
        return msgspec.convert(value, type)
    except (msgspec.ValidationError, TypeError) as error:
        raise SourceError(
            node.lineno, f"the default {value!r} does not fit its type: {error}"
        ) from None


MAX_BYTES = 64_000
"""The largest source."""
DESCRIPTION_CHARS = 2_000
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RESERVED = frozenset({"hermes", "history", "state"})

FORM = '''"""What the tool is for."""
def NAME(path: str, limit: int = 10) -> list[str]:
    """What it does, for whoever calls it."""
    …

def test_NAME() -> None:
    assert NAME("x") == []'''


@dataclass(frozen=True)
class ToolSignature:
    """What is known of a tool without running it."""

    name: str
    description: str
    schema: dict[str, Any]
    arguments: type[Struct]
    returned: Any
    """The return type."""
    tests: tuple[str, ...]
    imports: tuple[tuple[int, str], ...]
    """Line and name of every required module."""


def check_name(name: str, taken: Collection[str] = ()) -> None:
    """Check that a tool can have this name. Raises `ToolError`."""
    if not _NAME.fullmatch(name):
        trouble = "use a lowercase letter, then lowercase letters, digits and _; at most 64 in all"
    elif keyword.iskeyword(name) or hasattr(builtins, name) or name in _RESERVED:
        trouble = "it already has another meaning"
    elif name.startswith("test_"):
        trouble = "names of tests begin this way"
    elif name in taken:
        trouble = "a built-in tool has this name"
    else:
        return
    raise ToolError(f"{name[:80]!r} cannot be the name of a tool: {trouble}", retry="changed")


def parse_signature(name: str, code: str) -> ToolSignature:
    """Parse the code of a tool. Raises `ToolError` with the line."""
    tree = _tree(code)
    try:
        return _signature(name, tree)
    except SourceError as error:
        line = f"line {error.line}: " if error.line else ""
        raise ToolError(f"{line}{error}", f"the form:\n{FORM}", "changed") from None
    except RecursionError:  # just shallow enough for the parser
        raise ToolError("it is nested too deep", retry="changed") from None


def encoded(code: str) -> bytes:
    """The code as bytes. Raises `ToolError` when it is not UTF-8 or too large."""
    try:
        data = code.encode()
    except UnicodeEncodeError as error:
        line = code.count("\n", 0, error.start) + 1
        raise ToolError(f"line {line}: it is not UTF-8", retry="changed") from None
    if len(data) > MAX_BYTES:
        raise ToolError(f"the code has {len(data)} bytes; {MAX_BYTES} at most", retry="changed")
    return data


def _tree(code: str) -> ast.Module:
    if "\0" in code:  # ValueError before Python 3.11.4, SyntaxError since
        line = code.count("\n", 0, code.index("\0")) + 1
        raise ToolError(f"line {line}: syntax: it contains a null byte", retry="changed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nobody would read them here
            return ast.parse(code)
    except SyntaxError as error:
        shown = f": {error.text.strip()[:200]}" if error.text else ""
        raise ToolError(
            f"line {error.lineno or 1}: syntax: {error.msg}{shown}", retry="changed"
        ) from None
    except (RecursionError, MemoryError):
        raise ToolError("syntax: it is nested too deep", retry="changed") from None


def _signature(name: str, tree: ast.Module) -> ToolSignature:
    if not ast.get_docstring(tree):
        raise SourceError(1, "the file must begin with a docstring that says what the tool is for")
    function = _function(name, tree)
    description = (ast.get_docstring(function) or "").strip()
    if not description:
        raise SourceError(function.lineno, f"{name} has no docstring")
    if len(description) > DESCRIPTION_CHARS:
        raise SourceError(
            function.lineno,
            f"the docstring has {len(description)} characters; {DESCRIPTION_CHARS} at most",
        )
    if function.returns is None:
        raise SourceError(function.lineno, f"{name} does not say what it returns: `-> str`")
    returned = _type_of(function.returns)
    arguments = _arguments(function)
    return ToolSignature(
        name=name,
        description=description,
        schema=_schema(function, arguments),
        arguments=arguments,
        returned=returned,
        tests=tuple(_tests(tree)),
        imports=tuple(sorted(_imports(tree))),
    )


def _function(name: str, tree: ast.Module) -> ast.FunctionDef:
    found: ast.FunctionDef | None = None
    for node in tree.body:
        if isinstance(node, ast.AsyncFunctionDef) and not node.name.startswith("_"):
            raise SourceError(node.lineno, f"{node.name} is async: make it a plain function")
        if not isinstance(node, ast.FunctionDef) or node.name.startswith(("_", "test_")):
            continue
        if node.name != name:
            raise SourceError(
                node.lineno,
                f"{node.name} is public beside {name}: start the names of helpers with _",
            )
        if found is not None:
            raise SourceError(node.lineno, f"{name} is defined twice")
        if node.decorator_list:
            raise SourceError(node.lineno, f"{name} has a decorator: its signature is its schema")
        found = node
    if found is None:
        raise SourceError(0, f"there is no function called {name}")
    return found


def _arguments(function: ast.FunctionDef) -> type[Struct]:
    given = function.args
    if given.vararg or given.kwarg or given.posonlyargs:
        raise SourceError(function.lineno, "arguments are passed by name: no *, ** or / among them")
    plain = [None] * (len(given.args) - len(given.defaults))
    defaults = [*plain, *given.defaults, *given.kw_defaults]
    fields: list[Any] = []
    for argument, default in zip([*given.args, *given.kwonlyargs], defaults, strict=True):
        if argument.arg.startswith("_"):
            raise SourceError(argument.lineno, f"{argument.arg} begins with _")
        if argument.annotation is None:
            raise SourceError(argument.lineno, f"{argument.arg} has no type")
        type = _type_of(argument.annotation)
        if default is None:
            fields.append((argument.arg, type))
            continue
        value = _default(_plain_value(default), type, default)
        if isinstance(value, list | dict) and value:
            value = msgspec.field(default_factory=partial(_same, value))
        fields.append((argument.arg, type, value))
    try:
        return msgspec.defstruct(function.name, fields, kw_only=True, forbid_unknown_fields=True)
    except TypeError as error:
        raise SourceError(
            function.lineno, f"the types cannot be written as JSON: {error}"
        ) from None


def _same(value: Any) -> Any:
    return value


def _schema(function: ast.FunctionDef, arguments: type[Struct]) -> dict[str, Any]:
    try:
        whole = msgspec.json.schema(arguments)
        msgspec.json.Decoder(arguments)
    except TypeError as error:
        raise SourceError(
            function.lineno, f"the types cannot be written as JSON: {error}"
        ) from None
    schema: dict[str, Any] = whole["$defs"][arguments.__name__]
    schema.pop("title", None)
    return schema


def _tests(tree: ast.Module) -> Iterator[str]:
    tests = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]
    for test in tests:
        given = test.args
        if isinstance(test, ast.AsyncFunctionDef) or given.args or given.kwonlyargs:
            raise SourceError(
                test.lineno, f"{test.name} must be a plain function without arguments"
            )
        yield test.name
    if not any(isinstance(node, ast.Assert) for test in tests for node in ast.walk(test)):
        raise SourceError(0, "there is no test: a function test_…() with an assert in it")


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Required modules: not those imported in a `try`, which may be missing."""
    rest: list[ast.AST] = [tree]
    while rest:
        match node := rest.pop():
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(level=level) if level:
                raise SourceError(
                    node.lineno, "a tool is a single file: it cannot import other files"
                )
            case ast.ImportFrom(module=str(module)):
                yield node.lineno, module
            case ast.Try():
                rest += [*node.orelse, *node.finalbody]
            case _:
                rest += ast.iter_child_nodes(node)
