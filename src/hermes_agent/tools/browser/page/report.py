"""What the model is told after each call. Our own words come first; everything that pages say is
framed."""

import asyncio
from collections.abc import Sequence

from hermes_agent.core.messages import Media
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.browser.browser import Browser
from hermes_agent.tools.browser.tab import Tab

DOWNLOAD_SECONDS = 3.0
"""How long a call waits for a download to end."""
HOSTS_NAMED = 5
_POLL = 0.02


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
        lines.append(f"news of downloads: {len(body)}, told first below; pages choose their names")
    if tab.title:
        body.append(f"title: {tab.title}")
    if dialog is not None:
        lines.append(
            f"a dialog ({dialog.kind}) is open on {tab.name} and holds the page; answer it with "
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
        f"the page opened tab {tab.name}: browser action=tab ref={tab.name} goes there"
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
