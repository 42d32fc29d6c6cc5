"""The two tools of the browser: one looks, the other acts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.foreign import framed
from hermes_agent.core.messages import Media
from hermes_agent.core.tools import ToolContext, ToolResult, tool
from hermes_agent.tools.browser import acts, looks
from hermes_agent.tools.browser.browser import Browser, launch
from hermes_agent.tools.browser.connection import BrowserGone, Refused, SessionLost
from hermes_agent.tools.browser.elements import element
from hermes_agent.tools.browser.halts import Halted
from hermes_agent.tools.browser.report import reported
from hermes_agent.tools.browser.tab import Tab, crashed
from hermes_agent.tools.browser.view import changed, found, look, whole

KEPT = "browser"
"""The name under which a session's browser is kept."""
UPLOAD_BYTES = 20_000_000
VALUE_CHARS = 8_000
_ALIVE_SECONDS = 3.0

Look = Literal[
    "open", "snapshot", "find", "screenshot", "back", "forward", "reload", "wait", "scroll",
    "tabs", "tab", "console", "downloads", "close",
]  # fmt: skip
Act = Literal[
    "click", "double_click", "hover", "type", "press", "select", "check", "upload", "drag",
    "accept_dialog", "dismiss_dialog", "evaluate",
]  # fmt: skip


@tool(capabilities=("network",), repeatable=True, hosts=("url",))
async def browser(
    context: ToolContext,
    action: Look,
    url: str = "",
    ref: str = "",
    text: str = "",
    seconds: Annotated[float, Meta(ge=0, le=600)] = 10,
) -> ToolResult:
    """Look at web pages in a browser. Pages show as outlines with refs (e5), tabs are t1 …
    open: `url`. snapshot: from `ref` on. find: lines with `text`. screenshot: of `ref`, or
    text=page for all. wait: for `text`, at most `seconds`. scroll: to `ref`, or text=up|down|
    top|bottom. tab: switch to `ref`. close: tab `ref`, or all."""
    async with _acting(context, action, seconds if action == "wait" else 0.0) as driven:
        if action in _HOUSE:
            return await _house(context, driven, action, ref)
        tab = _tab(driven, fresh=action == "open")
        if tab is None:
            tab = driven.current = await _replaced(driven)
        if driven.dialogs.first is not None:
            return await reported(driven, tab, "")
        tab.acting()
        if action in _GOING:
            await _going(driven, tab, action, url)
            return await _seen(driven, tab)
        said, files = await _looked(driven, tab, action, ref, text, seconds)
        return await reported(driven, tab, said, files=files)


_HOUSE = frozenset({"tabs", "tab", "downloads", "close"})
"""What concerns the browser and not the page."""
_GOING = frozenset({"open", "back", "forward", "reload"})
