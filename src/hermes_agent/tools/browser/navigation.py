"""Navigation and looking: nothing here changes a page."""

import asyncio
import base64
import re
from typing import Any
from urllib.parse import urlsplit

from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import IMAGE_BYTES, Media
from hermes_agent.core.text.addresses import host_of
from hermes_agent.tools.browser.browser import Browser
from hermes_agent.tools.browser.devtools.connection import DevtoolsError
from hermes_agent.tools.browser.elements import element
from hermes_agent.tools.browser.page.view import look
from hermes_agent.tools.browser.tab import Tab

SHOT_HEIGHT = 8_000
"""The most of a page, in pixels, that goes into one image."""
_AGAIN = 0.25
_REFUSED = frozenset({403, 407, 502, 504})
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:(?!\d)")


def address(url: str) -> str:
    """A URL that may be opened."""
    text = url.strip()
    if not text:
        raise ToolError("open needs a `url`", retry="changed")
    whole = text if _SCHEME.match(text) else f"https://{text}"
    scheme = urlsplit(whole).scheme.lower()
    if scheme not in {"http", "https"}:
        raise ToolError(
            f"{scheme}: addresses cannot be opened, only http and https",
            "read_file reads files",
            "changed",
        )
    return whole


async def go(browser: Browser, tab: Tab, url: str) -> None:
    """Open a page and wait until it is loaded."""
    tab.status, tab.unreachable = 0, ""
    answer = await tab.call("Page.navigate", {"url": url})
    trouble = str(answer.get("errorText", ""))
    if answer.get("isDownload") or (trouble == "net::ERR_ABORTED" and browser.downloads.running):
        return
    await tab.settle()
    goal = tab.unreachable if trouble else tab.url
    host = host_of(goal or url)
    why = browser.proxy.failed.get(host)
    if why and (trouble or tab.status in _REFUSED):
        browser.told[host] = why
        raise ToolError(why, retry="changed")
    if trouble:
        raise ToolError(
            f"{host} could not be opened: {trouble.removeprefix('net::')}", retry="same"
        )


async def step(tab: Tab, by: int) -> None:
    """Back or forward."""
    history = await tab.call("Page.getNavigationHistory")
    number = history["currentIndex"] + by
    if not 0 <= number < len(history["entries"]):
        raise ToolError(f"there is nothing to go {'back' if by < 0 else 'forward'} to")
    entry = history["entries"][number]["id"]
    await tab.call("Page.navigateToHistoryEntry", {"entryId": entry})


async def scroll(browser: Browser, tab: Tab, ref: str, text: str) -> None:
    if ref:
        wanted = await element(browser, tab, ref)
        await wanted.call("DOM.scrollIntoViewIfNeeded")
        return
    ways = {
        "": "scrollBy(0, innerHeight * 0.9)",
        "down": "scrollBy(0, innerHeight * 0.9)",
        "up": "scrollBy(0, -innerHeight * 0.9)",
        "bottom": "scrollTo(0, document.documentElement.scrollHeight)",
        "top": "scrollTo(0, 0)",
    }
    if text not in ways:
        raise ToolError(f"cannot scroll {text!r}: use up, down, top or bottom", retry="changed")
    await tab.call("Runtime.evaluate", {"expression": ways[text]})


async def wait(browser: Browser, tab: Tab, text: str, seconds: float) -> bool:
    """Wait for the text, or for so long; False where it did not appear."""
    if not text:
        await asyncio.sleep(seconds)
        return True
    wanted = text.casefold()
    end = asyncio.get_running_loop().time() + seconds
    while True:
        view = await look(browser, tab)
        if any(wanted in line.item.name.casefold() for line in view.lines):
            return True
        if asyncio.get_running_loop().time() >= end:
            return False
        await asyncio.sleep(_AGAIN)


async def screenshot(browser: Browser, tab: Tab, ref: str, text: str) -> Media:
    """An image of the view, an element, or the whole page."""
    given: dict[str, Any] = {"format": "png"}
    metrics = await tab.call("Page.getLayoutMetrics")
    if ref:
        given["clip"] = await _clip(browser, tab, ref, metrics["cssLayoutViewport"])
    elif text == "page":
        size = metrics["cssContentSize"]
        height = min(size["height"], SHOT_HEIGHT)
        given["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1}
    if "clip" in given:
        given["captureBeyondViewport"] = True
    data = await _captured(tab, given)
    if len(data) > IMAGE_BYTES:
        data = await _captured(tab, {**given, "format": "jpeg", "quality": 60})
    kind = "image/png" if data.startswith(b"\x89PNG") else "image/jpeg"
    return Media(kind, data, f"{tab.name}.{kind.rpartition('/')[2]}")


async def _captured(tab: Tab, given: dict[str, Any]) -> bytes:
    try:
        answer = await tab.call("Page.captureScreenshot", given)
    except DevtoolsError as error:
        raise ToolError(f"no screenshot: {error}", retry="same") from None
    return base64.b64decode(answer["data"])


async def _clip(browser: Browser, tab: Tab, ref: str, view: dict[str, Any]) -> dict[str, Any]:
    wanted = await element(browser, tab, ref)
    left, top, width, height = await wanted.box()
    return {
        "x": left + view["pageX"],
        "y": top + view["pageY"],
        "width": width,
        "height": height,
        "scale": 1,
    }
