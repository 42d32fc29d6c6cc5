"""Charts of the steps of each use of a skill, for a terminal and as SVG. The same values give the
same bytes."""

import time
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from msgspec import Struct


class ChartPoint(Struct, frozen=True):
    """One use: how many steps it took, with the skill (`opened`) or without it."""

    time: float
    steps: float
    opened: bool
    bad: bool = False
    """It went wrong."""


class Plot(NamedTuple):
    title: str
    note: str
    """What the plot shows, in a sentence."""
    dots: Sequence[ChartPoint]
    """The oldest first."""
    usual: float | None = None
    """The steps it takes without the skill, as a median."""


class AxisTicks(NamedTuple):
    opened: str
    other: str
    bad: str
    usual: str
    side: str
    tick: str
    corner: str
    floor: str
    levels: str
    """Eight heights."""


UNICODE = AxisTicks("●", "○", "✗", "┄", "│", "┤", "┼", "─", "▁▂▃▄▅▆▇█")
ASCII = AxisTicks("*", "o", "x", ".", "|", "+", "+", "-", "_.,:-=+#")


def spark(values: Sequence[float], *, plain: bool = False) -> str:
    """A sparkline from zero."""
    levels = (ASCII if plain else UNICODE).levels
    top = max(values, default=0.0) or 1.0
    return "".join(levels[_step(value / top, len(levels))] for value in values)


def _step(share: float, count: int) -> int:
    return min(count - 1, max(0, round(share * (count - 1))))


# in a terminal


def chart(plot: Plot, *, width: int = 72, height: int = 8, plain: bool = False) -> list[str]:
    """Lines of at most `width`: a column for each of the last uses that fit."""
    marks = ASCII if plain else UNICODE
    top = nice(max([dot.steps for dot in plot.dots] + [plot.usual or 0.0]))
    edge = len(_number(top))
    room = max(1, (width - edge - 3) // 2)
    dots = plot.dots[-room:]
    columns = max(2 * len(dots), 22)  # two dates fit below
    grid = [[" "] * columns for _ in range(height)]
    if plot.usual is not None:
        grid[_row(plot.usual, top, height)] = [marks.usual] * columns
    for place, dot in enumerate(dots):
        mine = marks.bad if dot.bad else marks.opened
        mark = mine if dot.opened else marks.other
        grid[_row(dot.steps, top, height)][2 * place] = mark
    labels = {0: _number(top), height - height // 2: _number(top / 2)}
    lines = [plot.title, plot.note]
    for number, cells in enumerate(grid):
        side = marks.tick if number in labels else marks.side
        lines.append(f"{labels.get(number, ''):>{edge}} {side}{''.join(cells)}".rstrip())
    lines.append(f"{'0':>{edge}} {marks.corner}{marks.floor * columns}")
    if dots:
        ends = f"{_day(dots[0].time)}{_day(dots[-1].time):>{columns - 10}}"
        lines.append(f"{'':>{edge}}  {ends}")
    return [line for line in lines if line]


def _row(value: float, top: float, height: int) -> int:
    """Counted from above; the axis is below the last."""
    return height - max(1, round(value / top * height))


def key(*, plain: bool = False) -> str:
    """What the marks of a chart mean."""
    marks = ASCII if plain else UNICODE
    return (
        f"{marks.opened} with the skill  {marks.bad} with it, and it went wrong  "
        f"{marks.other} without it  {marks.usual * 3} usual without it"
    )


def nice(value: float) -> float:
    """The next axis limit: 2, 4, 6, 8, 10, 12, 16, 20, 24, 30, 40, 50, 60, 80, 100, 120 …"""
    if value <= 10:
        return next(step for step in (2.0, 4.0, 6.0, 8.0, 10.0) if value <= step)
    size = 10.0
    while value > 10 * size:
        size *= 10
    steps = (1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
    return next(step * size for step in steps if value <= step * size)


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(moment))


# as an image

PANEL_WIDTH, PANEL_HEIGHT = 440, 260
HEAD = 72
LEFT, RIGHT, ABOVE, BELOW = 52, 18, 62, 44

STYLE = """
svg { --back: #ffffff; --ink: #1f2328; --faint: #5c6570; --grid: #d8dee4; --with: #0b62b4; \
--without: #b3500b; }
@media (prefers-color-scheme: dark) { svg { --back: #14171c; --ink: #e8ebef; --faint: #a3adb8; \
--grid: #343b44; --with: #6db3ff; --without: #f2a35e; } }
text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.faint { fill: var(--faint); font-size: 11px; }
.title { font-size: 14px; font-weight: 600; }
.head { font-size: 18px; font-weight: 600; }
.back { fill: var(--back); }
.grid { stroke: var(--grid); }
.axis { stroke: var(--faint); }
.line { fill: none; stroke-width: 1.5; }
.with { stroke: var(--with); fill: var(--with); }
.without { stroke: var(--without); fill: var(--back); stroke-width: 2; }
.with.line, .without.line { fill: none; stroke-width: 1.5; }
.without.line, .usual { stroke-dasharray: 5 4; }
.usual { stroke: var(--without); }
.bad { stroke: var(--ink); stroke-width: 2; }
"""


def image(title: str, plots: Sequence[Plot], note: str = "") -> str:
    """The plots as an SVG document, two side by side, for light and dark themes."""
    across = 2 if len(plots) > 1 else 1
    down = max(1, -(-len(plots) // across))
    width, height = max(560, across * PANEL_WIDTH), HEAD + down * PANEL_HEIGHT + 30
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{_safe(title)}">',
        f"<title>{_safe(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
        _text(20, 32, title, "head"),
        *_key(20, 56),
    ]
    for number, plot in enumerate(plots):
        x, y = number % across * PANEL_WIDTH, HEAD + number // across * PANEL_HEIGHT
        body += [f'<g transform="translate({x} {y})">', *_panel(plot), "</g>"]
    body.append(_text(20, height - 12, note, "faint"))
    return "\n".join([*body, "</svg>", ""])


def _key(x: int, y: int) -> Iterable[str]:
    yield f'<circle class="with" cx="{x + 5}" cy="{y - 4}" r="4"/>'
    yield _text(x + 16, y, "with the skill")
    yield f'<circle class="without" cx="{x + 125}" cy="{y - 4}" r="4"/>'
    yield _text(x + 136, y, "without it")
    yield _cross(x + 225, y - 4)
    yield _text(x + 236, y, "went wrong")
    yield f'<line class="usual" x1="{x + 325}" y1="{y - 4}" x2="{x + 350}" y2="{y - 4}"/>'
    yield _text(x + 358, y, "usual without it (median)")


def _panel(plot: Plot) -> Iterable[str]:
    top = nice(max([dot.steps for dot in plot.dots] + [plot.usual or 0.0]))
    right, floor = PANEL_WIDTH - RIGHT, PANEL_HEIGHT - BELOW
    high = floor - ABOVE

    def up(value: float) -> float:
        return round(floor - high * value / top, 1)

    def along(place: int) -> float:
        gap = (right - LEFT - 24) / max(1, len(plot.dots) - 1)
        return round(LEFT + 12 + place * gap, 1)

    yield _text(20, 22, plot.title, "title")
    yield _text(20, 42, plot.note, "faint")
    for share in (0.0, 0.5, 1.0):
        y = up(share * top)
        kind = "grid" if share else "axis"
        yield f'<line class="{kind}" x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}"/>'
        yield _text(LEFT - 8, y + 4, _number(share * top), "faint", "end")
    if plot.usual is not None:
        y = up(plot.usual)
        yield f'<line class="usual" x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}"/>'
    for opened, kind in ((False, "without"), (True, "with")):
        spots = [
            (along(place), up(dot.steps), dot.bad)
            for place, dot in enumerate(plot.dots)
            if dot.opened == opened
        ]
        if len(spots) > 1:
            way = " ".join(f"{x},{y}" for x, y, _ in spots)
            yield f'<polyline class="line {kind}" points="{way}"/>'
        for x, y, bad in spots:
            yield f'<circle class="{kind}" cx="{x}" cy="{y}" r="4"/>'
            if bad:
                yield _cross(x, y)
    if plot.dots:
        yield _text(LEFT, floor + 18, _day(plot.dots[0].time), "faint")
        yield _text(right, floor + 18, _day(plot.dots[-1].time), "faint", "end")
    yield _text((LEFT + right) / 2, floor + 34, "uses, oldest first", "faint", "middle")
    yield (
        f'<text class="faint" text-anchor="middle" '
        f'transform="translate(16 {(ABOVE + floor) / 2}) rotate(-90)">steps</text>'
    )


def _cross(x: float, y: float) -> str:
    return f'<path class="bad" d="M{x - 4} {y - 4}l8 8m0 -8l-8 8"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    if not text:
        return ""
    marks = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x}" y="{y}"{marks}>{_safe(text)}</text>'


def _safe(text: str) -> str:
    """Without what XML cannot hold: control characters and surrogates."""
    return escape("".join(letter for letter in text if letter.isprintable()))
