"""What a person would see of a page. The accessibility tree leaves out what is not rendered, but
not what is transparent, tiny, off the page or in the colour of its background: places where pages
hide text for machines."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STYLES = ("opacity", "overflow-x", "overflow-y", "clip-path", "color", "font-size", "display")
REQUEST = {
    "computedStyles": list(STYLES),
    "includeBlendedBackgroundColors": True,
    "includePaintOrder": False,
}
"""Parameters of `DOMSnapshot.captureSnapshot`."""

_FAINT = 0.05
_TINY = 3.0
_TEXT = 3
_NUMBER = re.compile(r"[\d.]+")
_CLIPPED = re.compile(r"inset\((?:50|100)%|circle\(0|polygon\(0px 0px, 0px 0px")
_PASSIVE = frozenset({"HTML", "BODY", "LABEL", "#document"})
"""Elements that get clicks meant for others."""
_ALIKE = 12.0


@dataclass
class Sight:
    """Nodes of one renderer by their backend ids."""

    hidden: set[int] = field(default_factory=set)
    clickable: set[int] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)
    """Those that begin on a new line."""


def sight(snapshot: Mapping[str, Any]) -> Sight:
    """Read the answer to `REQUEST`."""
    found = Sight()
    for document in snapshot["documents"]:
        _Document(document, snapshot["strings"]).add_to(found)
    return found


class _Document:
    def __init__(self, document: Mapping[str, Any], strings: Sequence[str]) -> None:
        nodes, layout = document["nodes"], document["layout"]
        self._strings = strings
        self._parents: Sequence[int] = nodes["parentIndex"]
        self._types: Sequence[int] = nodes["nodeType"]
        self._ids: Sequence[int] = nodes["backendNodeId"]
        self._names: Sequence[int] = nodes["nodeName"]
        self._clickable: Sequence[int] = nodes.get("isClickable", {}).get("index", ())
        self._layout: Sequence[int] = layout["nodeIndex"]
        self._styles: Sequence[Sequence[int]] = layout["styles"]
        self._bounds: Sequence[Sequence[float]] = layout["bounds"]
        self._grounds: Sequence[int] = layout.get("blendedBackgroundColors", ())
        self._rows = {node: row for row, node in enumerate(self._layout)}
        self._veiled: dict[int, bool] = {}

    def add_to(self, found: Sight) -> None:
        for node in self._clickable:
            if self._strings[self._names[node]] not in _PASSIVE:
                found.clickable.add(self._ids[node])
        for row, node in enumerate(self._layout):
            if not self._style(row, "display").startswith(("inline", "contents")):
                found.blocks.add(self._ids[node])
            text = self._types[node] == _TEXT
            if self._is_veiled(node) or (text and self._is_unreadable(node, row)):
                found.hidden.add(self._ids[node])

    def _style(self, row: int, name: str) -> str:
        styles = self._styles[row]
        place = STYLES.index(name)
        return self._strings[styles[place]] if place < len(styles) and styles[place] >= 0 else ""

    def _is_veiled(self, node: int) -> bool:
        """It or an ancestor hides everything inside."""
        chain = []
        while node >= 0 and node not in self._veiled:
            chain.append(node)
            node = self._parents[node]
        veiled = self._veiled.get(node, False)
        for inner in reversed(chain):
            veiled = veiled or self._veils(inner)
            self._veiled[inner] = veiled
        return veiled

    def _veils(self, node: int) -> bool:
        row = self._rows.get(node)
        if row is None or self._types[node] == _TEXT:
            return False
        left, top, width, height = self._bounds[row]
        if _number(self._style(row, "opacity"), 1.0) < _FAINT:
            return True
        if _CLIPPED.search(self._style(row, "clip-path")):
            return True
        cuts = "visible" not in (self._style(row, "overflow-x"), self._style(row, "overflow-y"))
        outside = left + width <= 0 or top + height <= 0
        return cuts and (width <= 1 or height <= 1 or outside)

    def _is_unreadable(self, node: int, row: int) -> bool:
        left, top, width, height = self._bounds[row]
        if width <= 0 or height <= 0 or left + width <= 0 or top + height <= 0:
            return True
        if _number(self._style(row, "font-size"), 16.0) < _TINY:
            return True
        color = _color(self._style(row, "color"))
        if color is None:
            return False
        ground = self._ground(self._parents[node])
        return color[3] < _FAINT or (ground is not None and _alike(color, ground))

    def _ground(self, node: int) -> "_Color | None":
        """The background colour of an element's content, where the browser knows it."""
        row = self._rows.get(node, len(self._grounds))
        place = self._grounds[row] if row < len(self._grounds) else -1
        color = _color(self._strings[place]) if place >= 0 else None
        return color if color is not None and color[3] == 1.0 else None


_Color = tuple[float, float, float, float]


def _alike(one: _Color, other: _Color) -> bool:
    return sum(abs(a - b) for a, b in zip(one[:3], other[:3], strict=True)) <= _ALIKE


def _number(text: str, otherwise: float) -> float:
    found = _NUMBER.match(text)
    return float(found.group()) if found else otherwise


def _color(text: str) -> _Color | None:
    """Red, green, blue and how opaque, from `rgb(1, 2, 3)`, `rgba(1, 2, 3, 0.5)` or `#010203ff`."""
    if text.startswith("#") and len(text) in {7, 9}:
        parts = [int(text[start : start + 2], 16) for start in range(1, len(text), 2)]
        return parts[0], parts[1], parts[2], (parts[3] / 255 if len(parts) > 3 else 1.0)
    if not text.startswith("rgb"):
        return None
    numbers = [float(number) for number in _NUMBER.findall(text)]
    if len(numbers) < 3:
        return None
    return numbers[0], numbers[1], numbers[2], (numbers[3] if len(numbers) > 3 else 1.0)
