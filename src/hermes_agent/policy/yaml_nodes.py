"""YAML as nodes with positions.

Built from the parser's events, because the library's composer is recursive C and crashes on deep
nesting. Anchors and aliases are refused: a rule must be readable where it stands."""

import re
from typing import Any

from msgspec import Struct

from hermes_agent.policy.files.schema import PolicyProblem

DEEPEST = 32
LARGEST = 1_000_000
QUOTE = "patterns that begin with * or { stand in quotes"
_INTEGER = re.compile(r"[-+]?\d{1,18}")
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.?\d+)(?:[eE][-+]?\d+)?")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False,
             "FALSE": False}  # fmt: skip


class Node(Struct):
    line: int
    column: int
    text: str | None = None
    """Of a scalar, as it is written."""
    plain: bool = False
    """A scalar without quotes, which may stand for a number, a truth value or nothing."""
    items: list["Node"] | None = None
    pairs: list[tuple["Node", "Node"]] | None = None

    @property
    def is_null(self) -> bool:
        return self.plain and self.text in _NULLS

    def value(self) -> Any:
        """As JSON would have it. Names of a mapping are texts."""
        if self.items is not None:
            return [item.value() for item in self.items]
        if self.pairs is not None:
            return {key.text: value.value() for key, value in self.pairs}
        return scalar(self)


class BadYaml(Exception):
    def __init__(self, problem: PolicyProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def scalar(node: Node) -> str | int | float | bool | None:
    text = node.text or ""
    if not node.plain:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def parse(path: str, text: str) -> Node | None:
    """The one document of a file, None when there is none. Raises `BadYaml`."""
    import yaml

    if len(text) > LARGEST:
        raise _bad(path, 1, 1, f"it is larger than {LARGEST:,} characters", "split it")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(path)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        lines = text.splitlines()
        has_tab = line <= len(lines) and "\t" in lines[line - 1]
        hint = "indent with spaces, not with tabs" if has_tab else QUOTE
        raise _bad(path, line, column, f"this is not YAML: {error.problem}", hint) from None
    except (yaml.YAMLError, UnicodeError) as error:
        reason = str(error).splitlines()[0]
        raise _bad(path, 1, 1, f"this is not YAML: {reason}") from None
    return builder.root


def _bad(path: str, line: int, column: int, message: str, hint: str = "") -> BadYaml:
    return BadYaml(PolicyProblem(path, line, column, message, hint))


class _Builder:
    def __init__(self, path: str) -> None:
        self.root: Node | None = None
        self._path = path
        self._open: list[tuple[Node, list[Node]]] = []

    def take(self, event: Any) -> None:
        mark = event.start_mark
        match type(event).__name__:
            case "ScalarEvent":
                plain = event.style in (None, "") and event.implicit[0]
                self._check(event, mark)
                node = Node(mark.line + 1, mark.column + 1, text=event.value, plain=plain)
                self._put(node)
            case "SequenceStartEvent" | "MappingStartEvent" as kind:
                self._check(event, mark)
                node = Node(mark.line + 1, mark.column + 1)
                if kind.startswith("S"):
                    node.items = []
                else:
                    node.pairs = []
                self._put(node)
                self._open.append((node, []))
                if len(self._open) > DEEPEST:
                    raise self._wrong(mark, f"nested more than {DEEPEST} deep")
            case "SequenceEndEvent" | "MappingEndEvent":
                self._close()
            case "AliasEvent":
                raise self._wrong(mark, "aliases are not taken here", QUOTE)
            case "DocumentStartEvent":
                if self.root is not None:
                    raise self._wrong(mark, "a second document", "one file, one document")

    def _check(self, event: Any, mark: Any) -> None:
        if event.anchor is not None:
            raise self._wrong(mark, "anchors are not taken here", "write it out")
        if event.tag is not None and event.tag not in ("!", "tag:yaml.org,2002:str"):
            raise self._wrong(mark, f"the tag {event.tag!r} is not taken here", "leave it out")

    def _put(self, node: Node) -> None:
        if self._open:
            self._open[-1][1].append(node)
        else:
            self.root = node

    def _close(self) -> None:
        node, found = self._open.pop()
        if node.items is not None:
            node.items = found
            return
        node.pairs = list(zip(found[::2], found[1::2], strict=True))
        seen: set[str] = set()
        for key, _value in node.pairs:
            if key.text is None:
                raise _bad(self._path, key.line, key.column, "a name must be a plain text")
            if key.text in seen:
                raise _bad(
                    self._path, key.line, key.column, f"{key.text!r} is given twice", "remove one"
                )
            seen.add(key.text)

    def _wrong(self, mark: Any, message: str, hint: str = "") -> BadYaml:
        return _bad(self._path, mark.line + 1, mark.column + 1, message, hint)
