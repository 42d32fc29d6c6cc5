"""A stream of YAML documents as nodes that know where they stand.

As a cluster reads them: several documents in a file, anchors, aliases and merge keys. A document
that is broken does not hide the others, and what an alias unfolds to is counted, not unfolded."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from hermes_agent.policy.yaml_nodes import Node

LARGEST = 20_000_000
DEEPEST = 100
MAX_NODES = 2_000_000
"""Aliases unfolded. A file that says more than this in a few lines means harm."""
_BEGIN = re.compile(r"^---(?:\s|$)")
_NOTHING = re.compile(r"\s*(?:#.*|%.*)?")
_TEMPLATE = re.compile(r"\{\{.*\}\}|\{%.*%\}")
_TRUE = re.compile("[yY]|[tT]rue|TRUE|[yY]es|YES|[oO]n|ON")
_FALSE = re.compile("[nN]|[fF]alse|FALSE|[nN]o|NO|[oO]ff|OFF")


class DocumentProblem(Struct, frozen=True):
    """What cannot be read, and where."""

    line: int
    column: int
    message: str
    hint: str = ""


class Document(Struct):
    """One of a stream. `root` is None where it is empty or cannot be read."""

    root: Node | None
    troubles: list[DocumentProblem]


def documents(text: str) -> Iterator[Document]:
    if len(text) > LARGEST:
        trouble = DocumentProblem(1, 1, f"it is larger than {LARGEST:,} characters", "split it")
        yield Document(None, [trouble])
        return
    for first, part in _parts(text.removeprefix("\ufeff")):
        yield from _read(first, part)


def child(node: Node | None, *names: str | int) -> Node | None:
    """What stands under these names and places, one inside the other; None where nothing does."""
    for name in names:
        if node is None:
            return None
        if isinstance(name, int):
            node = node.items[name] if node.items and name < len(node.items) else None
        else:
            pairs = node.pairs or ()
            node = next((value for key, value in reversed(pairs) if key.text == name), None)
    return None if node is None or node.is_null else node


def text_of(node: Node | None) -> str:
    return node.text or "" if node is not None and not node.is_null else ""


def truth(node: Node | None) -> bool | None:
    """As a cluster reads it: `yes` and `on` are true, and a text in quotes is neither."""
    if node is None or not node.plain or node.text is None:
        return None
    return True if _TRUE.fullmatch(node.text) else False if _FALSE.fullmatch(node.text) else None


def texts(node: Node | None) -> dict[str, str]:
    """A mapping of names to texts, as labels and annotations are."""
    pairs = node.pairs if node is not None else None
    return {key.text or "": text_of(value) for key, value in pairs or ()}


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """The documents as they are written, each with the number of lines before it. A line that
    begins with `---` begins one wherever it stands."""
    lines = text.split("\n")
    first, full = 0, False
    for number, line in enumerate(lines):
        begin = _BEGIN.match(line)
        if begin and full:
            yield first, "\n".join(lines[first:number])
            first, full = number, False
        full = full or not _NOTHING.fullmatch(line[begin.end() :] if begin else line)
    yield first, "\n".join(lines[first:])


def _read(first: int, text: str) -> Iterator[Document]:
    import yaml

    builder = _Builder(first)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except _Unfit as unfit:
        builder.troubles = [unfit.trouble]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column + 1) if mark else (0, 1)
        message = f"this is not YAML: {error.problem or error.context}"
        builder.troubles = [DocumentProblem(first + line + 1, column, message, _hint(text, line))]
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        reason = (str(error).splitlines() or ["it cannot be read"])[0]
        builder.troubles = [DocumentProblem(first + 1, 1, f"this is not YAML: {reason}")]
    yield from builder.done
    if builder.troubles:
        yield Document(None, builder.troubles)


def _hint(text: str, line: int) -> str:
    lines = text.splitlines()
    near = lines[line] if line < len(lines) else ""
    if _TEMPLATE.search(text):
        return "this is a template; check its output: `helm template . | hermes manifests check -`"
    if "\t" in near[: len(near) - len(near.lstrip())]:
        return "indent with spaces, not with tabs"
    return "the document is passed over until it can be read"


class _Unfit(Exception):
    def __init__(self, trouble: DocumentProblem) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


class _Builder:
    """Nodes from the parser's events. The library's own composer is recursive and falls over deep
    nesting."""

    def __init__(self, first: int) -> None:
        self.done: list[Document] = []
        self.troubles: list[DocumentProblem] = []
        self._first = first
        self._root: Node | None = None
        self._open: list[tuple[Node, list[Node], str | None]] = []
        self._named: dict[str, Node] = {}
        self._sizes: dict[int, int] = {}

    def take(self, event: Any) -> None:
        match type(event).__name__:
            case "ScalarEvent":
                plain = event.style in (None, "") and event.implicit[0]
                self._put(self._node(event, text=event.value, plain=plain), 1, event.anchor)
            case "SequenceStartEvent":
                self._begin(self._node(event, items=[]), event)
            case "MappingStartEvent":
                self._begin(self._node(event, pairs=[]), event)
            case "SequenceEndEvent" | "MappingEndEvent":
                self._close()
            case "AliasEvent":
                self._alias(event)
            case "DocumentEndEvent":
                self.done.append(Document(self._root, self.troubles))
                self._root, self.troubles, self._named = None, [], {}

    def _node(self, event: Any, **more: Any) -> Node:
        mark = event.start_mark
        return Node(self._first + mark.line + 1, mark.column + 1, **more)

    def _begin(self, node: Node, event: Any) -> None:
        self._open.append((node, [], event.anchor))
        self._sizes[id(node)] = 1
        if len(self._open) > DEEPEST:
            raise _Unfit(
                DocumentProblem(node.line, node.column, f"nested more than {DEEPEST} deep")
            )

    def _alias(self, event: Any) -> None:
        found = self._named.get(event.anchor)
        if found is None:
            at = self._node(event)
            raise _Unfit(
                DocumentProblem(at.line, at.column, f"no anchor called {event.anchor!r} before it")
            )
        self._put(found, self._sizes[id(found)])

    def _put(self, node: Node, size: int, anchor: str | None = None) -> None:
        self._sizes[id(node)] = size
        if anchor is not None:
            self._named[anchor] = node
        if not self._open:
            self._root = node
            return
        holder, found, _anchor = self._open[-1]
        found.append(node)
        total = self._sizes[id(holder)] + size
        self._sizes[id(holder)] = total
        if total > MAX_NODES:
            raise _Unfit(
                DocumentProblem(holder.line, holder.column, "its aliases unfold to far too much")
            )

    def _close(self) -> None:
        node, found, anchor = self._open.pop()
        if node.items is not None:
            node.items = found
        else:
            node.pairs = self._pairs(list(zip(found[::2], found[1::2], strict=True)))
        self._put(node, self._sizes[id(node)], anchor)

    def _pairs(self, given: list[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
        """Names with their values; what `<<` brings stands before what is written here."""
        own: list[tuple[Node, Node]] = []
        merged: list[tuple[Node, Node]] = []
        seen: set[str] = set()
        for key, value in given:
            if key.text == "<<" and key.plain:
                for part in reversed([value] if value.items is None else value.items):
                    merged += part.pairs or ()
                continue
            if key.text is None:
                self.troubles.append(
                    DocumentProblem(key.line, key.column, "a name must be a plain text")
                )
                continue
            if key.text in seen:
                twice = f"{key.text!r} is given twice, and only one of them counts"
                self.troubles.append(DocumentProblem(key.line, key.column, twice, "remove one"))
            seen.add(key.text)
            own.append((key, value))
        return [*merged, *own]
