"""Reads YAML streams as a cluster does: several documents, anchors, aliases and merge keys. One
broken document does not hide the others."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from hermes_agent.policy.files.schema import PolicyProblem
from hermes_agent.policy.yaml_nodes import BadYaml, Node, NodeBuilder

LARGEST = 20_000_000
DEEPEST = 100
MAX_NODES = 2_000_000
"""With aliases expanded. A small file with more than this is an attack."""
_BEGIN = re.compile(r"^---(?:\s|$)")
_NOTHING = re.compile(r"\s*(?:#.*|%.*)?")
_TEMPLATE = re.compile(r"\{\{.*\}\}|\{%.*%\}")
_TRUE = re.compile("[yY]|[tT]rue|TRUE|[yY]es|YES|[oO]n|ON")
_FALSE = re.compile("[nN]|[fF]alse|FALSE|[nN]o|NO|[oO]ff|OFF")


class Document(Struct):
    """One of a stream. `root` is None if it is empty or cannot be read."""

    root: Node | None
    troubles: list[PolicyProblem]


def documents(text: str) -> Iterator[Document]:
    if len(text) > LARGEST:
        message = f"it is larger than {LARGEST:,} characters"
        yield Document(None, [PolicyProblem("", 1, 1, message, "split it")])
        return
    for first, part in _parts(text.removeprefix("\ufeff")):
        yield from _read(first, part)


def child(node: Node | None, *names: str | int) -> Node | None:
    """The node at this path of names and indexes; None if it is absent or null."""
    for name in names:
        if node is None:
            return None
        if isinstance(name, int):
            node = node.items[name] if node.items and name < len(node.items) else None
        else:
            pairs = node.pairs or ()
            node = next((value for key, value in reversed(pairs) if key.text == name), None)
    return None if node is None or node.is_null else node


def items(node: Node | None) -> Sequence[Node]:
    return (node.items if node is not None else None) or ()


def text_of(node: Node | None) -> str:
    return node.text or "" if node is not None and not node.is_null else ""


def truth(node: Node | None) -> bool | None:
    """As a cluster reads it: `yes` and `on` are true, a quoted text is neither."""
    if node is None or not node.plain or node.text is None:
        return None
    return True if _TRUE.fullmatch(node.text) else False if _FALSE.fullmatch(node.text) else None


def texts(node: Node | None) -> dict[str, str]:
    """A mapping of texts, such as labels."""
    pairs = node.pairs if node is not None else None
    return {key.text or "": text_of(value) for key, value in pairs or ()}


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """The documents as text, each with the number of lines before it. A line that begins with
    `---` always begins one."""
    lines = text.split("\n")
    first, full = 0, False
    for number, line in enumerate(lines):
        begin = _BEGIN.match(line)
        if begin and full:
            yield first, "\n".join(lines[first:number])
            first, full = number, False
        full = full or not _NOTHING.fullmatch(line[begin.end() :] if begin else line)
    yield first, "\n".join(lines[first:])


def _read(lines_before: int, text: str) -> Iterator[Document]:
    builder = _DocumentBuilder("", lines_before)
    try:
        builder.read(text)
    except BadYaml as bad:
        builder.troubles = [bad.problem]
    yield from builder.done
    if builder.troubles:
        yield Document(None, builder.troubles)


class _DocumentBuilder(NodeBuilder):
    """Counts what aliases expand to instead of expanding them."""

    deepest = DEEPEST

    def __init__(self, path: str, lines_before: int) -> None:
        super().__init__(path, lines_before)
        self.done: list[Document] = []
        self.troubles: list[PolicyProblem] = []
        self._sizes: dict[int, int] = {}

    def _node(self, event: Any, **more: Any) -> Node:
        node = super()._node(event, **more)
        self._sizes[id(node)] = 1
        return node

    def _check(self, event: Any, node: Node) -> None:
        pass

    def _alias(self, event: Any) -> None:
        found = self._anchors.get(event.anchor)
        if found is None:
            raise self._bad(self._node(event), f"no anchor called {event.anchor!r} before it")
        self._put(found)

    def _put(self, node: Node, anchor: str | None = None) -> None:
        super()._put(node, anchor)
        if not self._open:
            return
        holder = self._open[-1][0]
        self._sizes[id(holder)] += self._sizes[id(node)]
        if self._sizes[id(holder)] > MAX_NODES:
            raise self._bad(holder, "its aliases expand to too many nodes")

    def _pairs(self, given: list[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
        """Merged keys (`<<`) come before those written here."""
        own: list[tuple[Node, Node]] = []
        merged: list[tuple[Node, Node]] = []
        seen: set[str] = set()
        for key, value in given:
            if key.text == "<<" and key.plain:
                for part in reversed([value] if value.items is None else value.items):
                    merged += part.pairs or ()
                continue
            if key.text is None:
                self.troubles.append(self._bad(key, "a name must be a plain text").problem)
                continue
            if key.text in seen:
                twice = f"{key.text!r} is given twice, and only one takes effect"
                self.troubles.append(self._bad(key, twice, "remove one").problem)
            seen.add(key.text)
            own.append((key, value))
        return [*merged, *own]

    def _begin_document(self, event: Any) -> None:
        pass

    def _end_document(self) -> None:
        self.done.append(Document(self.root, self.troubles))
        self.root, self.troubles, self._anchors = None, [], {}

    def _hint(self, text: str, line: int) -> str:
        lines = text.splitlines()
        near = lines[line] if line < len(lines) else ""
        if _TEMPLATE.search(text):
            return "a template: check its output with `helm template . | hermes manifests check -`"
        if "\t" in near[: len(near) - len(near.lstrip())]:
            return "indent with spaces, not with tabs"
        return "the document is not checked until it can be read"
