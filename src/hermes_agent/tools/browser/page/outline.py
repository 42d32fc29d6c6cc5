"""The accessibility tree as an outline: one line for each thing, indented below what holds it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.browser.page.visibility import Sight

INTERACTIVE = frozenset(
    {
        "button", "checkbox", "combobox", "link", "listbox", "menuitem", "menuitemcheckbox",
        "menuitemradio", "radio", "scrollbar", "searchbox", "slider", "spinbutton", "switch", "tab",
        "textbox", "textfield", "treeitem", "colorwell", "date", "datetime", "inputtime",
        "popupbutton", "disclosuretriangle", "video", "audio", "clickable",
    }
)  # fmt: skip
_ALWAYS = INTERACTIVE | frozenset(
    {
        "alert", "alertdialog", "article", "banner", "blockquote", "cell", "code", "columnheader",
        "complementary", "contentinfo", "definition", "dialog", "figure", "form", "grid",
        "gridcell", "heading", "iframe", "listitem", "log", "main", "menu", "menubar", "meter",
        "navigation", "option", "progressbar", "radiogroup", "row", "rowheader", "search", "status",
        "table", "tablist", "tabpanel", "term", "timer", "toolbar", "tooltip", "tree", "treegrid",
    }
)  # fmt: skip
"""Roles that get a line even without a name; others only with one."""
_NEVER = frozenset(
    {
        "generic", "none", "presentation", "inlinetextbox", "linebreak", "listmarker", "paragraph",
        "menulistpopup", "rootwebarea", "strong", "emphasis", "rowgroup", "subscript",
        "superscript", "layouttable", "layouttablerow", "layouttablecell", "legend", "labeltext",
        "caption", "figcaption", "pluginobject", "group", "list", "directory", "mark", "insertion",
        "deletion", "time", "abbr", "descriptionlist", "canvas", "svgroot", "graphicssymbol",
    }
)  # fmt: skip
_ONE_LINE = frozenset({"cell", "gridcell", "columnheader", "rowheader"})
TEXT_CHARS = 3_000
NAME_CHARS = 300
DEPTH = 60
"""Levels of the outline; deeper ones are shown on the last."""
OPTIONS = 30
"""Choices of one field that are listed."""
MAX_REFS = 20_000
"""Names kept; the oldest are dropped first."""
_URL_CHARS = 100
_SPACE = re.compile(r"\s+")
_STATES = ("disabled", "required", "readonly", "focused", "modal", "multiselectable", "busy")


@dataclass(frozen=True)
class Key:
    """A node: where it lives, and its number there."""

    session: str
    frame: str
    loader: str
    backend: int


@dataclass
class OutlineItem:
    role: str
    name: str = ""
    marks: tuple[str, ...] = ()
    key: Key | None = None
    acts: bool = False
    """It can be acted on, so it gets a ref."""
    children: "list[OutlineItem]" = field(default_factory=list)


_BREAK: Mapping[str, Any] = {}
_GAP = OutlineItem("gap")
"""Where a new line begins."""


@dataclass(frozen=True)
class Part:
    """The document of one frame."""

    session: str
    frame: str
    loader: str
    url: str
    nodes: Sequence[Mapping[str, Any]]
    """As `Accessibility.getFullAXTree` gives them."""
    sight: Sight
    inner: "Mapping[int, Part]" = field(default_factory=dict)
    """Documents of the frames in it, by the node that shows them."""


def outline(part: Part) -> tuple[list[OutlineItem], int]:
    """The items of a document and its frames, and the number of invisible texts."""
    reader = _Reader(part)
    items = reader.items()
    return items, reader.unseen


class _Reader:
    def __init__(self, part: Part, depth: int = 0) -> None:
        self._part = part
        self._nodes = {node["nodeId"]: node for node in part.nodes}
        self._depth = depth
        self.unseen = 0

    def items(self) -> list[OutlineItem]:
        if not self._part.nodes:
            return []
        return self._inside(self._part.nodes[0])

    def _inside(self, node: Mapping[str, Any]) -> list[OutlineItem]:
        """The children of a node. Nodes without a line are expanded without recursion: pages nest
        them arbitrarily deep."""
        found: list[OutlineItem] = []
        waiting: list[Mapping[str, Any]] = [node]
        opened = False
        while waiting:
            node = waiting.pop()
            if node is _BREAK:
                found.append(_GAP)
                continue
            item = self._read(node) if opened else None
            opened = True
            if item is not None and _says(item):
                found.append(item)
            if item is None or self._depth >= DEPTH:
                inner = [self._nodes[id] for id in node.get("childIds", ()) if id in self._nodes]
                block = int(node.get("backendDOMNodeId", 0)) in self._part.sight.blocks
                waiting += [_BREAK, *reversed(inner), _BREAK] if block else reversed(inner)
        return _joined(found)

    def _read(self, node: Mapping[str, Any]) -> OutlineItem | None:
        """The node as a line; None where only its children count."""
        role = str(node.get("role", {}).get("value", "")).lower()
        backend = int(node.get("backendDOMNodeId", 0))
        if role == "statictext":
            return self._text(node, backend)
        ignored = node.get("ignored", False)
        name = "" if ignored else _clean(node.get("name", {}).get("value", ""))
        states = _states(node)
        clickable = backend in self._part.sight.clickable
        if ignored or role in _NEVER or not role:
            named = bool(name) and role in {"group", "list", "caption"}
            if not clickable and not named and not (states.get("focusable") and name):
                return None
            role = "clickable" if clickable or ignored or role in {"generic", "none"} else role
        unseen = backend in self._part.sight.hidden
        acts = role in INTERACTIVE or role == "iframe" or bool(states.get("focusable")) or clickable
        if not acts and (unseen or not (name or role in _ALWAYS)):
            return None
        return self._item(node, role, name, states, acts=acts, unseen=unseen)

    def _item(
        self,
        node: Mapping[str, Any],
        role: str,
        name: str,
        states: Mapping[str, Any],
        *,
        acts: bool,
        unseen: bool,
    ) -> OutlineItem:
        part = self._part
        backend = int(node.get("backendDOMNodeId", 0))
        value = _clean(node.get("value", {}).get("value", ""))
        marks = _marks(role, states, value if value != name else "", part.url)
        if unseen:
            marks = (*marks, "invisible")
        key = Key(part.session, part.frame, part.loader, backend) if backend else None
        item = OutlineItem(role, name, marks, key, acts)
        if self._depth >= DEPTH:
            return item  # its children follow on the same level
        if backend in part.inner:
            inner = _Reader(part.inner[backend], self._depth + 1)
            item.children = inner.items()
            self.unseen += inner.unseen
        elif not (value and role in {"textbox", "searchbox", "spinbutton"}):
            before = self.unseen
            self._depth += 1
            item.children = self._inside(node)
            self._depth -= 1
            if self.unseen > before and not acts:
                item.name = ""  # its name was made of invisible text
                item.marks = item.marks if item.children else ()
        return _folded(item)

    def _text(self, node: Mapping[str, Any], backend: int) -> OutlineItem | None:
        text = _clean(node.get("name", {}).get("value", ""))
        if text and backend in self._part.sight.hidden:
            self.unseen += 1
            text = ""
        part = self._part
        key = Key(part.session, part.frame, part.loader, backend)
        return OutlineItem("text", text, key=key) if text else None


def _clean(value: Any) -> str:
    """On one line, and without what looks like one of our refs."""
    return _SPACE.sub(" ", str(value)).strip().replace("[ref=", "(ref=")


def _states(node: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(known["name"]): known.get("value", {}).get("value")
        for known in node.get("properties", ())
    }


def _marks(role: str, states: Mapping[str, Any], value: str, page: str) -> tuple[str, ...]:
    found = [f'value="{_cut(value, 200)}"'] if value else []
    for name, yes in (("checked", "checked"), ("pressed", "pressed"), ("selected", "selected")):
        if (state := str(states.get(name, "")).lower()) == "true":
            found.append(yes)
        elif state == "mixed":
            found.append(f"{yes}=mixed")
    if "expanded" in states and role != "rootwebarea":
        found.append("expanded" if states["expanded"] else "collapsed")
    found += [name for name in _STATES if states.get(name)]
    if str(states.get("invalid", "false")) not in {"false", ""}:
        found.append("invalid")
    if role in {"heading", "treeitem"} and "level" in states:
        found.append(f"level={states['level']}")
    if role == "link" and (url := _short_url(str(states.get("url", "")), page)):
        found.append(f"-> {url}")
    return tuple(found)


def _short_url(url: str, page: str) -> str:
    parts, here = urlsplit(url), urlsplit(page)
    if parts.scheme not in {"http", "https"}:
        return _cut(url, 40)
    if (parts.scheme, parts.netloc) == (here.scheme, here.netloc):
        url = url[len(f"{parts.scheme}://{parts.netloc}") :] or "/"
    return _cut(url, _URL_CHARS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… (+{len(text) - most})"


def _joined(items: list[OutlineItem]) -> list[OutlineItem]:
    """Join adjacent texts on a line."""
    found: list[OutlineItem] = []
    for item in items:
        if item is _GAP and (not found or found[-1] is _GAP):
            continue
        if item.role == "text" and found and found[-1].role == "text":
            last = found[-1]
            found[-1] = OutlineItem("text", f"{last.name} {item.name}", key=last.key)
        else:
            found.append(item)
    return [item for item in found if item is not _GAP]


def _folded(item: OutlineItem) -> OutlineItem:
    """Remove what an item says twice."""
    words = " ".join(child.name for child in item.children if child.role == "text")
    if item.name and words and _bare(words) in _bare(item.name):
        item.children = [child for child in item.children if child.role != "text"]
    if item.children and all(child.role == "text" for child in item.children) and not item.name:
        item.name, item.children = words, []
    if item.role in {"combobox", "listbox"}:
        item.children = _choices(item)
    if item.role == "row" and all(_is_flat(child) for child in item.children):
        item.name, item.children = " | ".join(child.name for child in item.children), []
    only = item.children[0] if len(item.children) == 1 else None
    if item.role in _ONE_LINE and only is not None and (not item.name or item.name == only.name):
        return only
    if item.role == "listitem" and only is not None and not item.name and not item.acts:
        return only
    return item


def _says(item: OutlineItem) -> bool:
    return bool(item.name or item.children or item.marks or item.acts)


def _choices(item: OutlineItem) -> list[OutlineItem]:
    """Choices of a closed list are selected by name, not by clicking."""
    if item.role == "combobox":
        for child in item.children:
            child.acts = child.acts and child.role != "option"
    left = len(item.children) - OPTIONS
    if left <= 0:
        return item.children
    return [*item.children[:OPTIONS], OutlineItem("text", f"… {left} more choices")]


def _is_flat(item: OutlineItem) -> bool:
    return item.role in _ONE_LINE | {"text"} and not item.children and not item.acts


def _bare(text: str) -> str:
    return re.sub(r"\W+", "", text).lower()


@dataclass(frozen=True)
class OutlineLine:
    depth: int
    item: OutlineItem
    above: tuple[int, ...]
    """The lines that hold this one."""


def lines(
    items: Sequence[OutlineItem], above: tuple[int, ...] = (), start: int = 0
) -> list[OutlineLine]:
    """All items in the order of the page."""
    found: list[OutlineLine] = []
    for item in items:
        here = start + len(found)
        found.append(OutlineLine(len(above), item, above))
        found += lines(item.children, (*above, here), here + 1)
    return found


def written(line: OutlineLine, ref: Callable[[Key], str], *, always: bool = False) -> str:
    """One line; `always` gives it a ref even if it cannot be acted on."""
    item = line.item
    name = _cut(item.name, NAME_CHARS if item.acts else TEXT_CHARS)
    if item.role == "text":
        said = f"text: {name}"
    else:
        said = f'{item.role} "{name}"' if name else item.role
    if item.key is not None and (item.acts or always):
        said += f" [ref={ref(item.key)}]"
    return " ".join((" " * line.depth + said, *item.marks))


def shown(texts: Sequence[str], most: int) -> int:
    """How many of the first lines fit."""
    room = most
    for count, text in enumerate(texts):
        room -= len(text) + 1
        if room < 0:
            return max(count, 1)
    return len(texts)


def around(all_lines: Sequence[OutlineLine], words: str) -> list[int]:
    """The lines with the words, each with its ancestors and neighbours."""
    wanted = words.casefold()
    chosen: set[int] = set()
    for number, line in enumerate(all_lines):
        said = f"{line.item.role} {line.item.name} {' '.join(line.item.marks)}".casefold()
        if wanted in said:
            chosen.update(line.above)
            chosen.update(_beside(all_lines, number))
    return sorted(chosen)


def _beside(all_lines: Sequence[OutlineLine], number: int) -> Iterator[int]:
    for near in range(max(0, number - 2), min(len(all_lines), number + 4)):
        if near == number or all_lines[near].above[:1] == all_lines[number].above[:1]:
            yield near


class Refs:
    """Short names for nodes. A node keeps its name as long as its document lives."""

    def __init__(self) -> None:
        self._names: dict[Key, str] = {}
        self._keys: dict[str, Key] = {}
        self._last = 0

    def name(self, key: Key) -> str:
        known = self._names.get(key)
        if known is not None:
            return known
        self._last += 1
        name = self._names[key] = f"e{self._last}"
        self._keys[name] = key
        if len(self._keys) > MAX_REFS:
            oldest = next(iter(self._keys))
            del self._names[self._keys.pop(oldest)]
        return name

    def key(self, name: str) -> Key:
        bare = name.strip().removeprefix("ref=").strip("[]")
        if bare not in self._keys:
            raise stale(name)
        return self._keys[bare]


def stale(name: str) -> ToolError:
    return ToolError(
        f"there is no {name!r} on the page, or no longer",
        "look again with browser action=snapshot and use a ref from there",
        "changed",
    )
