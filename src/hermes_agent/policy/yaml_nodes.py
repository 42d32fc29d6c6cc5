"""YAML as nodes with positions.

Built from the parser's events, because the library's composer is recursive C and crashes on deep
nesting. Anchors and aliases are refused: a rule must be readable where it stands."""

import re
from typing import Any

from msgspec import Struct

from hermes_agent.policy.files.schema import PolicyProblem

DEEPEST = 32
LARGEST = 1_000_000
QUOTE = "quote patterns that begin with * or {"
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
    if len(text) > LARGEST:
        raise bad_yaml(path, 1, 1, f"it is larger than {LARGEST:,} characters", "split it")
    builder = NodeBuilder(path)
    builder.read(text)
    return builder.root


def bad_yaml(path: str, line: int, column: int, message: str, hint: str = "") -> BadYaml:
    return BadYaml(PolicyProblem(path, line, column, message, hint))


class NodeBuilder:
    """Builds nodes from parser events, those of PyYAML or of ruamel. Subclasses decide what else of
    YAML they accept."""

    deepest = DEEPEST

    def __init__(self, path: str, lines_before: int = 0) -> None:
        self.root: Node | None = None
        self._path = path
        self._lines_before = lines_before
        self._open: list[tuple[Node, list[Node], str | None]] = []
        self._anchors: dict[str, Node] = {}

    def read(self, text: str) -> None:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            for event in yaml.parse(text, Loader=loader):
                self.take(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line, mark.column + 1) if mark else (0, 1)
            at = Node(self._lines_before + line + 1, column)
            message = f"this is not YAML: {error.problem or error.context}"
            raise self._bad(at, message, self._hint(text, line)) from None
        except (yaml.YAMLError, UnicodeError, ValueError) as error:
            reason = (str(error).splitlines() or ["it cannot be read"])[0]
            at = Node(self._lines_before + 1, 1)
            raise self._bad(at, f"this is not YAML: {reason}") from None

    def take(self, event: Any) -> None:
        match type(event).__name__:
            case "ScalarEvent":
                plain = event.style in (None, "") and event.implicit[0]
                node = self._node(event, text=event.value, plain=plain)
                self._check(event, node)
                self._put(node, event.anchor)
            case "SequenceStartEvent":
                self._begin(event, self._node(event, items=[]))
            case "MappingStartEvent":
                self._begin(event, self._node(event, pairs=[]))
            case "SequenceEndEvent" | "MappingEndEvent":
                self._close()
            case "AliasEvent":
                self._alias(event)
            case "DocumentStartEvent":
                self._begin_document(event)
            case "DocumentEndEvent":
                self._end_document()

    def _node(self, event: Any, **more: Any) -> Node:
        mark = event.start_mark
        return Node(self._lines_before + mark.line + 1, mark.column + 1, **more)

    def _begin(self, event: Any, node: Node) -> None:
        self._check(event, node)
        self._open.append((node, [], event.anchor))
        if len(self._open) > self.deepest:
            raise self._bad(node, f"nested more than {self.deepest} deep")

    def _put(self, node: Node, anchor: str | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if self._open:
            self._open[-1][1].append(node)
        else:
            self.root = node

    def _close(self) -> None:
        node, found, anchor = self._open.pop()
        if node.items is not None:
            node.items = found
        else:
            node.pairs = self._pairs(list(zip(found[::2], found[1::2], strict=True)))
        self._put(node, anchor)

    def _pairs(self, given: list[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
        seen: set[str] = set()
        for key, _value in given:
            if key.text is None:
                raise self._bad(key, "a name must be plain text")
            if key.text in seen:
                raise self._bad(key, f"{key.text!r} is given twice", "remove one")
            seen.add(key.text)
        return given

    def _check(self, event: Any, node: Node) -> None:
        if event.anchor is not None:
            raise self._bad(node, "anchors are not supported here", "write it out")
        if event.tag is not None and event.tag not in ("!", "tag:yaml.org,2002:str"):
            raise self._bad(node, f"the tag {event.tag!r} is not supported here", "leave it out")

    def _alias(self, event: Any) -> None:
        raise self._bad(self._node(event), "aliases are not supported here", QUOTE)

    def _begin_document(self, event: Any) -> None:
        if self.root is not None:
            raise self._bad(self._node(event), "a second document", "one file, one document")

    def _end_document(self) -> None:
        pass

    def _hint(self, text: str, line: int) -> str:
        lines = text.splitlines()
        has_tab = line < len(lines) and "\t" in lines[line]
        return "indent with spaces, not with tabs" if has_tab else QUOTE

    def _bad(self, at: Node, message: str, hint: str = "") -> BadYaml:
        return bad_yaml(self._path, at.line, at.column, message, hint)
