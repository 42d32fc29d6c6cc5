"""A session's browser for the time of one call, and whatever can go wrong as a sentence."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tools import ToolContext
from hermes_agent.tools.browser.browser import Browser, launch
from hermes_agent.tools.browser.devtools.connection import BrowserGone, DevtoolsError, SessionLost
from hermes_agent.tools.browser.tab import Tab, crashed

KEPT = "browser"
"""The name under which a session's browser is kept."""
_ALIVE_SECONDS = 2.0
_CLOSE_SECONDS = 5.0


@asynccontextmanager
async def driving(
    context: ToolContext, *, start: bool = False, more: float = 0.0
) -> AsyncIterator[Browser]:
    """The browser, started where that is asked for. `more`: seconds that the call itself waits."""
    browser = await _browser(context, start=start)
    seconds = context.settings.browser.timeout_seconds
    async with browser.turn:
        browser.reaches.follow(context.reach)
        try:
            async with asyncio.timeout(seconds + more):
                yield browser
        except TimeoutError:
            raise await _late(browser, seconds) from None
        except SessionLost:
            raise _lost(browser.current) from None
        except DevtoolsError as error:
            raise ToolError(f"the browser refuses: {error}", retry="changed") from None


async def _browser(context: ToolContext, *, start: bool) -> Browser:
    keep, open_proxy = context.lent.keep, context.lent.proxy
    if keep is None or open_proxy is None:
        raise ToolError("there is no browser here", retry="never")

    async def make() -> Browser:
        if not start:
            raise ToolError("no page is open", "browser action=open url=… opens one", "changed")
        folder = context.results / "downloads" if context.results is not None else None
        return await launch(context.settings.browser, open_proxy, folder)

    browser = await keep.get(KEPT, make)
    if not browser.alive:
        await keep.drop(KEPT)
        if not start:
            raise BrowserGone
        browser = await keep.get(KEPT, make)
    return browser


def _lost(tab: Tab | None) -> ToolError:
    if tab is not None and tab.crashed:
        return crashed()
    return ToolError("the page, or a frame of it, went away meanwhile", "look again", "changed")


async def _late(browser: Browser, seconds: float) -> ToolError:
    """Find out whether the page still lives, so that the next call knows."""
    tab = browser.current
    if not browser.alive:
        return BrowserGone()
    if tab is not None and browser.dialogs.first is None:
        try:
            async with asyncio.timeout(_ALIVE_SECONDS):
                await browser.ask(tab.session, "Page.stopLoading", {})
                await browser.ask(tab.session, "Runtime.evaluate", {"expression": "1"})
        except (TimeoutError, DevtoolsError, SessionLost):
            tab.crashed = True
            return ToolError(
                f"the page hangs: it has not answered for {seconds:g} seconds",
                "open it again, or do without it",
                "changed",
            )
    return ToolError(
        f"it took longer than {seconds:g} seconds",
        "snapshot shows how far it came; the setting browser.timeout_seconds is the limit",
        "same",
    )


async def usable(browser: Browser, *, fresh: bool) -> Tab:
    """The tab in front. `fresh`: another one where that is lost."""
    tab = browser.current
    if tab is not None and tab.crashed and fresh:
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await browser.close_tab(tab)
        except (TimeoutError, DevtoolsError):
            pass  # it is left behind, and ends with the browser
        tab = None
    if tab is None:
        if not fresh:
            raise ToolError("no page is open", "browser action=open url=… opens one", "changed")
        tab = browser.current = await browser.new_tab()
    if tab.crashed:
        raise crashed()
    if len(browser.tabs) > 1 and browser.dialogs.first is None:
        await browser.ask(tab.session, "Page.bringToFront", {})
    return tab
