"""What the model is shown of a page: all of it where it is small, else as much as fits, or what is
different from the last time. Our own words come first; everything that pages say is framed."""

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_agent.core.messages import Media
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.browser.browser import Browser
from hermes_agent.tools.browser.devtools.connection import DevtoolsError, SessionLost
from hermes_agent.tools.browser.page.outline import (
    Key,
    OutlineLine,
    around,
    lines,
    outline,
    shown,
    stale,
    written,
)
from hermes_agent.tools.browser.tab import Tab

SHOWN_CHARS = 10_000
SMALL_CHARS = 1_500
"""A page of this size is shown whole after each action."""
DOWNLOAD_SECONDS = 3.0
"""How long a call waits for downloads."""
HOSTS_NAMED = 5
_POLL = 0.02
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
            await tab.settle()  # it navigated meanwhile
    if part.nodes:
        tab.title = str(part.nodes[0].get("name", {}).get("value", "")).strip()[:200]
    items, unseen = await asyncio.to_thread(outline, part)
    found = lines(items)
    texts = [written(line, browser.refs.name) for line in found]
    return PageView(f"{part.frame} {part.loader}", found, texts, unseen)


def whole(browser: Browser, tab: Tab, view: PageView, start: int = 0) -> str:
    """The page from a line on, and how to continue where it does not fit."""
    tab.seen = (view.document, view.texts)
    count = shown(view.texts[start:], SHOWN_CHARS)
    rows = view.texts[start : start + count]
    left = len(view.texts) - start - count
    if left:
        rows.append(f"[{left} more lines: {_on(browser, view, start + count)}find shows parts]")
    elif not rows:
        rows.append("[the page is empty]")
    if view.unseen:
        rows.append(f"[{view.unseen} invisible texts are left out]")
    return "\n".join(rows)


def _on(browser: Browser, view: PageView, start: int) -> str:
    for line in view.lines[start:]:
        if line.item.key is not None:
            return f"snapshot ref={browser.refs.name(line.item.key)} continues, "
    return ""


def changed(browser: Browser, tab: Tab, view: PageView) -> str:
    """The difference to what the model saw last, or all of it where that is better."""
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
    """The parts of the page with the words."""
    numbers = around(view.lines, words)
    if not numbers:
        return f"[{words!r} does not appear on the page, {len(view.texts)} lines]"
    rows: list[str] = []
    last = -1
    for number in numbers:
        if number != last + 1:
            rows.append("…")
        rows.append(view.texts[number])
        last = number
    count = shown(rows, SHOWN_CHARS)
    tab.seen = (view.document, view.texts)
    more = [f"[{len(rows) - count} more lines match]"] if count < len(rows) else []
    return "\n".join([*rows[:count], *more])


async def reported(
    browser: Browser,
    tab: Tab,
    said: str,
    *,
    notes: Sequence[str] = (),
    files: tuple[Media, ...] = (),
    ok: bool = True,
) -> ToolResult:
    dialog = browser.dialogs.first
    if dialog is None:
        await _downloaded(browser)
    else:
        tab = browser.tab_of(dialog.session) or tab
    lines = [*notes, *_news(browser)]
    body = [str(download) for download in browser.downloads.news()]
    if body:
        lines.append(f"download updates: {len(body)}, listed first below; pages choose their names")
    if tab.title:
        body.append(f"title: {tab.title}")
    if dialog is not None:
        lines.append(
            f"a dialog ({dialog.kind}) is open on {tab.name} and blocks the page; answer it with "
            "browser_act accept_dialog (`text` answers a prompt) or dismiss_dialog"
        )
        body.append(f"dialog: {dialog.message}")
        said = ""
    if said:
        body.append(said)
    text = wrap_untrusted("web-page", tab.url, "\n".join(body))
    facts = {
        "url": tab.url,
        "title": tab.title,
        "tab": tab.name,
        "dialog": dialog.kind if dialog is not None else "",
        "downloads": [download.path for download in browser.downloads.all if download.path],
    }
    return ToolResult("\n".join([*lines, text]), facts, ok=ok, files=files)


def _news(browser: Browser) -> list[str]:
    found = [
        f"the page opened tab {tab.name}: browser action=tab ref={tab.name} switches to it"
        for tab in browser.opened
    ]
    browser.opened.clear()
    asked = set().union(*(tab.hosts for tab in browser.tabs.values()))
    failed = {host: why for host, why in browser.proxy.failed.items() if host in asked}
    new = [why for host, why in failed.items() if browser.told.get(host) != why]
    browser.told = failed
    found += [f"not loaded: {why}" for why in new[:HOSTS_NAMED]]
    if len(new) > HOSTS_NAMED:
        found.append(f"not loaded: {len(new) - HOSTS_NAMED} more hosts")
    return found


async def _downloaded(browser: Browser) -> None:
    end = asyncio.get_running_loop().time() + DOWNLOAD_SECONDS
    while browser.downloads.running and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(_POLL)
