"""The two browser tools: one looks, the other acts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import Media
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import RecoveryResult, ToolContext, tool
from hermes_agent.tools.browser import actions, navigation
from hermes_agent.tools.browser.browser import Browser, launch
from hermes_agent.tools.browser.devtools.connection import BrowserGone, DevtoolsError, SessionLost
from hermes_agent.tools.browser.elements import element
from hermes_agent.tools.browser.page.view import changed, found, look, reported, whole
from hermes_agent.tools.browser.tab import Halted, Tab, crashed

UPLOAD_BYTES = 20_000_000
WAIT_SECONDS = 300.0
VALUE_CHARS = 8_000
KEPT = "browser"
_ALIVE_SECONDS = 2.0
_CLOSE_SECONDS = 5.0

Look = Literal[
    "open", "snapshot", "find", "screenshot", "back", "forward", "reload", "wait", "scroll",
    "tabs", "tab", "console", "downloads", "close",
]  # fmt: skip
Act = Literal[
    "click", "double_click", "hover", "type", "press", "select", "check", "upload", "drag",
    "accept_dialog", "dismiss_dialog", "evaluate",
]  # fmt: skip


async def _look_again(
    _context: ToolContext, _note: dict[str, Any], **_arguments: Any
) -> RecoveryResult:
    """Looking changes nothing, and the browser ended with the runtime."""
    return "not-run"


# Each call changes what the next one sees, so they run one by one; downloads write files.
@tool(capabilities=("network", "filesystem"), hosts=("url",), recover=_look_again)
async def browser(
    context: ToolContext,
    action: Look,
    url: str = "",
    ref: str = "",
    text: str = "",
    seconds: float = 10,
) -> ToolResult:
    """Web pages as outlines with refs (e5). snapshot: from `ref` on. find: lines with `text`.
    screenshot: of `ref`; text=page: all. wait: for `text` or `seconds`. scroll: to `ref` or
    text=up|down|top|bottom. tab, close: `ref` (t1)."""
    if action == "close" and not ref:
        if context.services.resources is not None:
            await context.services.resources.drop(KEPT)
        return ToolResult("the browser is closed")
    seconds = min(max(seconds, 0.0), WAIT_SECONDS)
    goal = navigation.address(url) if action == "open" else ""
    async with _driving(
        context, start=action == "open", more=seconds if action == "wait" else 0.0
    ) as driven:
        if action in {"tabs", "downloads"}:
            return _listed(driven, action)
        if action in {"tab", "close"}:
            await _switch(driven, ref, close=action == "close")
        tab = await _usable(driven, fresh=action == "open")
        if driven.dialogs.first is not None:
            return await reported(driven, tab, "")
        tab.acting()
        try:
            return await _looked(driven, tab, action, goal, ref, text, seconds)
        except Halted:
            return await reported(driven, tab, "")


async def _looked(
    driven: Browser, tab: Tab, action: Look, url: str, ref: str, text: str, seconds: float
) -> ToolResult:
    files: tuple[Media, ...] = ()
    notes: list[str] = []
    match action:
        case "open":
            await navigation.go(driven, tab, url)
        case "back":
            await navigation.step(tab, -1)
        case "forward":
            await navigation.step(tab, 1)
        case "reload":
            await tab.call("Page.reload")
        case "wait" if not await navigation.wait(driven, tab, text, seconds):
            notes.append(f"it did not appear within {seconds:g} seconds")
        case "scroll":
            await navigation.scroll(driven, tab, ref, text)
        case "screenshot":
            files = (await navigation.screenshot(driven, tab, ref, text),)
            return await reported(driven, tab, "", files=files)
        case "console":
            return await reported(driven, tab, "\n".join(tab.console) or "[nothing was logged]")
        case "find":
            if not text.strip():
                raise ToolError("find needs a `text`", retry="changed")
            return await reported(driven, tab, found(tab, await look(driven, tab), text))
    if action != "snapshot" and not await tab.settle():
        notes.append("the page is still loading")
    view = await look(driven, tab)
    if action in {"wait", "scroll"}:
        return await reported(driven, tab, changed(driven, tab, view), notes=notes)
    start = view.place(driven.refs.key(ref), ref) if ref and action == "snapshot" else 0
    return await reported(driven, tab, whole(driven, tab, view, start), notes=notes, files=files)


def _listed(driven: Browser, action: Look) -> ToolResult:
    if action == "downloads":
        names = [str(download) for download in driven.downloads.all]
        facts = [download.path for download in driven.downloads.all]
        text = (
            wrap_untrusted("web-page", "downloads", "\n".join(names)) if names else "no downloads"
        )
        return ToolResult(text, {"downloads": facts})
    rows = [
        f"{name}{' (in front)' if tab is driven.current else ''}: {_plain(tab.url)}"
        for name, tab in driven.tabs.items()
    ]
    return ToolResult("\n".join(rows) or "no tabs", {"tabs": list(driven.tabs)})


def _plain(url: str) -> str:
    """The part of an address that a page cannot put text into."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else "about:blank"


async def _switch(driven: Browser, ref: str, *, close: bool) -> None:
    tab = driven.tabs.get(ref)
    if tab is None:
        raise ToolError(f"no tab {ref!r}", f"open: {', '.join(driven.tabs)}", "changed")
    if close:
        await driven.close_tab(tab)
    else:
        driven.current = tab
        if tab in driven.opened:
            driven.opened.remove(tab)


@tool(
    capabilities=("network", "filesystem"),
    hosts=("page",),
    paths={"path": "read"},
    after=("browser",),
)
async def browser_act(
    context: ToolContext,
    page: str,
    action: Act,
    ref: str = "",
    text: str = "",
    path: str = "",
) -> ToolResult:
    """Act on `ref` of the open page, whose host is `page`. type: replaces. press: key `text`
    (Control+a). check: text=off unchecks. upload: `path`. drag: to ref `text`. evaluate: script
    `text`."""
    data = b""
    if action == "upload":
        data = await asyncio.to_thread(_file, context.workspace, path)
    async with _driving(context) as driven:
        if action in {"accept_dialog", "dismiss_dialog"}:
            return await _answered(driven, page, text, accept=action == "accept_dialog")
        tab = await _usable(driven, fresh=False)
        _is_there(tab, page)
        if driven.dialogs.first is not None:
            raise ToolError(
                "a dialog is open and blocks the page",
                "answer it with accept_dialog or dismiss_dialog",
                "changed",
            )
        tab.acting()
        value: ToolResult | None = None
        try:
            if action == "evaluate":
                value = await _evaluated(driven, tab, ref, text)
            elif action == "upload":
                wanted = await element(driven, tab, ref)
                await actions.upload(driven, wanted, path, data)
            else:
                await _act(driven, tab, action, ref, text)
        except Halted:
            return await reported(driven, tab, "")
        except SessionLost:
            if not await driven.closes(tab):
                raise
        return await _after(driven, tab, value)


async def _act(driven: Browser, tab: Tab, action: Act, ref: str, text: str) -> None:
    if action == "press" and not ref:
        await actions.press(tab, text)
        return
    wanted = await element(driven, tab, ref)
    match action:
        case "click":
            await actions.click(tab, wanted)
        case "double_click":
            await actions.click(tab, wanted, times=2)
        case "hover":
            await actions.hover(tab, wanted)
        case "type":
            await actions.write(tab, wanted, text)
        case "press":
            await wanted.run("function () { this.focus(); }")
            await actions.press(tab, text)
        case "select":
            await actions.choose(wanted, text)
        case "check":
            await actions.check(tab, wanted, text)
        case "drag":
            await actions.drag(tab, wanted, await element(driven, tab, text))


async def _after(driven: Browser, tab: Tab, value: ToolResult | None = None) -> ToolResult:
    """The new state of the page, and what a script returned."""
    notes = [] if await tab.settle() else ["the page is still loading"]
    said = await _change(driven, tab)
    if said is None:
        if driven.current is None:
            return ToolResult("the page closed itself; no other is open")
        tab = await _usable(driven, fresh=False)
        notes.append(f"the page closed itself; tab {tab.name} is in front")
        said = await _change(driven, tab)
    lead, ok = (f"{value.text}\n", value.ok) if value is not None else ("", True)
    return await reported(driven, tab, f"{lead}{said or ''}", notes=notes, ok=ok)


async def _change(driven: Browser, tab: Tab) -> str | None:
    """What is different on the page; None where it closed."""
    try:
        if tab.name in driven.tabs:
            return changed(driven, tab, await look(driven, tab))
    except Halted:
        return ""
    except SessionLost:
        if not await driven.closes(tab):
            raise
    return None


async def _answered(driven: Browser, page: str, text: str, *, accept: bool) -> ToolResult:
    dialog = driven.dialogs.first
    asking = driven.tab_of(dialog.session) if dialog is not None else None
    if dialog is None or asking is None:
        raise ToolError("no dialog is open", retry="changed")
    _is_there(asking, page)
    asking.acting()
    await actions.answer(driven, dialog, text, accept=accept)
    return await _after(driven, asking)


async def _evaluated(driven: Browser, tab: Tab, ref: str, text: str) -> ToolResult:
    """A script's value as JSON. It runs among the page's own scripts."""
    shared = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
    if ref:
        wanted = await element(driven, tab, ref)
        answer = await wanted.evaluate(text, shared)
    else:
        answer = await tab.call("Runtime.evaluate", {"expression": text, **shared})
    details = answer.get("exceptionDetails")
    if details is not None:
        words = details.get("exception", {}).get("description") or details.get("text", "")
        return ToolResult(f"the script failed: {words}"[:VALUE_CHARS], ok=False)
    value = answer["result"].get("value", answer["result"].get("description"))
    shown = msgspec.json.encode(value).decode()
    cut = f"… (+{len(shown) - VALUE_CHARS})" if len(shown) > VALUE_CHARS else ""
    return ToolResult(f"value: {shown[:VALUE_CHARS]}{cut}")


def _is_there(tab: Tab, page: str) -> None:
    """Refuse to act on a page other than the one the model named and the gate allowed."""
    parts = urlsplit(tab.url)
    host = (parts.hostname or "").lower()
    known = {host, parts.netloc.lower(), f"{parts.scheme}://{parts.netloc}".lower()}
    given = page.strip()
    if host and (given.lower().rstrip("/") in known or given == tab.url):
        return
    where = host or "empty"
    raise ToolError(
        f"the page is now {where}, not {page!r}; nothing was done",
        "look at it first, then name its host in `page`",
        "changed",
    )


def _file(workspace: str, path: str) -> bytes:
    """A local file, as the gate judged it."""
    home = path == "~" or path.startswith("~/")
    place = Path(path).expanduser() if home else Path(workspace, path)
    try:
        size = place.stat().st_size if place.is_file() else None
        if size is not None and size <= UPLOAD_BYTES:
            return place.read_bytes()
    except OSError as error:
        raise ToolError(f"cannot read {path!r}: {error.strerror}", retry="changed") from None
    if size is not None:
        raise ToolError(f"{path!r} is too large to upload: {size} bytes", retry="changed")
    hint = "upload needs the `path` of a file on the machine where the browser runs"
    raise ToolError(f"no file at {path!r}", hint, "changed")


@asynccontextmanager
async def _driving(
    context: ToolContext, *, start: bool = False, more: float = 0.0
) -> AsyncIterator[Browser]:
    """The session's browser for one call; `start` starts one. `more`: seconds the call waits."""
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
    keep, open_proxy = context.services.resources, context.services.proxy
    if keep is None or open_proxy is None:
        raise ToolError("no browser is available here", retry="never")

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
    return ToolError("the page, or a frame of it, is gone", "look again", "changed")


async def _late(browser: Browser, seconds: float) -> ToolError:
    """Find out whether the page still responds, and mark it if not."""
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
        "snapshot shows how far it got; the setting browser.timeout_seconds is the limit",
        "same",
    )


async def _usable(browser: Browser, *, fresh: bool) -> Tab:
    """The current tab. `fresh`: a new one where that is lost."""
    tab = browser.current
    if tab is not None and tab.crashed and fresh:
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await browser.close_tab(tab)
        except (TimeoutError, DevtoolsError):
            pass  # it ends with the browser
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
