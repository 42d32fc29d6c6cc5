"""What the model is shown of a page: all of it where it is small, else as much as fits, or what is
different from the last time."""

import asyncio
import difflib
from dataclasses import dataclass

from hermes_agent.tools.browser.browser import Browser
from hermes_agent.tools.browser.devtools.connection import DevtoolsError, SessionLost
from hermes_agent.tools.browser.page.outline import (
    Key,
    OutlineLine,
    around,
    lines,
    outline,
    shown,
    written,
)
from hermes_agent.tools.browser.page.refs import stale
from hermes_agent.tools.browser.tab import Tab

SHOWN_CHARS = 10_000
"""The most of a page that is shown at once."""
SMALL_CHARS = 1_500
"""A page of this size is shown whole after each action."""
_TRIES = 3


@dataclass(frozen=True)
class PageView:
    document: str
    lines: list[OutlineLine]
    texts: list[str]
    unseen: int

    def place(self, key: Key, ref: str) -> int:
        """The line of a node."""
        for number, line in enumerate(self.lines):
            if line.item.key == key:
                return number
        raise stale(ref)


async def look(browser: Browser, tab: Tab) -> PageView:
    """The page as it is now."""
    for again in range(_TRIES):
        try:
            part = await tab.part()
            break
        except (DevtoolsError, SessionLost):
            if again == _TRIES - 1 or tab.crashed:
                raise
            await tab.settle()  # it went somewhere else while we looked
    if part.nodes:
        tab.title = str(part.nodes[0].get("name", {}).get("value", "")).strip()[:200]
    items, unseen = await asyncio.to_thread(outline, part)
    found = lines(items)
    texts = [written(line, browser.refs.name) for line in found]
    return PageView(f"{part.frame} {part.loader}", found, texts, unseen)


def whole(browser: Browser, tab: Tab, view: PageView, start: int = 0) -> str:
    """The page from a line on, and how to read on where it does not fit."""
    tab.seen = (view.document, view.texts)
    count = shown(view.texts[start:], SHOWN_CHARS)
    rows = view.texts[start : start + count]
    left = len(view.texts) - start - count
    if left:
        rows.append(f"[{left} more lines: {_on(browser, view, start + count)}find shows parts]")
    elif not rows:
        rows.append("[the page is empty]")
    if view.unseen:
        rows.append(f"[{view.unseen} texts that nobody would see are left out]")
    return "\n".join(rows)


def _on(browser: Browser, view: PageView, start: int) -> str:
    for line in view.lines[start:]:
        if line.item.key is not None:
            return f"snapshot ref={browser.refs.name(line.item.key)} reads on, "
    return ""


def changed(browser: Browser, tab: Tab, view: PageView) -> str:
    """What is different from what the model saw last, or all of it where that says more."""
    document, before = tab.seen
    size = sum(map(len, view.texts))
    if document != view.document or size <= SMALL_CHARS:
        return whole(browser, tab, view)
    rows = [
        row for row in difflib.unified_diff(before, view.texts, n=1, lineterm="") if row[:2] != "@@"
    ][2:]
    if sum(map(len, rows)) > min(size * 0.6, SHOWN_CHARS):
        return whole(browser, tab, view)
    tab.seen = (view.document, view.texts)
    return "\n".join(["[what changed]", *rows]) if rows else "[nothing on the page changed]"


def found(tab: Tab, view: PageView, words: str) -> str:
    """The parts of the page that have the words."""
    numbers = around(view.lines, words)
    if not numbers:
        return f"[{words!r} is nowhere on the page, {len(view.texts)} lines]"
    rows: list[str] = []
    last = -1
    for number in numbers:
        if number != last + 1:
            rows.append("…")
        rows.append(view.texts[number])
        last = number
    count = shown(rows, SHOWN_CHARS)
    tab.seen = (view.document, view.texts)
    more = [f"[{len(rows) - count} more lines fit]"] if count < len(rows) else []
    return "\n".join([*rows[:count], *more])
