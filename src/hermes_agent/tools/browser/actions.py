"""Actions on a page: mouse, keyboard, fields, files and dialogs."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.browser.browser import Browser
from hermes_agent.tools.browser.downloads import harmless
from hermes_agent.tools.browser.elements import SCRIPTS, Element
from hermes_agent.tools.browser.keys import key_events
from hermes_agent.tools.browser.tab import Dialog, Tab

TYPED = 100
"""A longer text is inserted at once instead of key by key."""
_DRAG_STEPS = 5


async def click(tab: Tab, element: Element, times: int = 1) -> None:
    x, y = await element.point()
    await _mouse(tab, "mouseMoved", x, y)
    for count in range(1, times + 1):
        await _mouse(tab, "mousePressed", x, y, clickCount=count)
        await _mouse(tab, "mouseReleased", x, y, clickCount=count)


async def hover(tab: Tab, element: Element) -> None:
    x, y = await element.point()
    await _mouse(tab, "mouseMoved", x, y)


async def _mouse(tab: Tab, type: str, x: float, y: float, **more: Any) -> None:
    button = "none" if type == "mouseMoved" and not more else "left"
    event = {"type": type, "x": x, "y": y, "button": button, **more}
    await tab.call("Input.dispatchMouseEvent", event)


async def drag(tab: Tab, element: Element, goal: Element) -> None:
    """Drag by mouse, with the data that the page attaches to the drag."""
    to_x, to_y = await goal.point()
    x, y = await element.point()
    tab.dragged = None
    await tab.call("Input.setInterceptDrags", {"enabled": True})
    try:
        await _mouse(tab, "mouseMoved", x, y)
        await _mouse(tab, "mousePressed", x, y, clickCount=1)
        for step in range(1, _DRAG_STEPS + 1):
            part = step / _DRAG_STEPS
            way = (x + (to_x - x) * part, y + (to_y - y) * part)
            await _mouse(tab, "mouseMoved", *way, buttons=1)
        carried = await tab.carried() if await element.run(SCRIPTS["draggable"]) else None
        for type in ("dragEnter", "dragOver", "drop") if carried else ():
            event = {"type": type, "x": to_x, "y": to_y, "data": carried}
            await tab.call("Input.dispatchDragEvent", event)
        await _mouse(tab, "mouseReleased", to_x, to_y, clickCount=1)
    finally:
        await tab.call("Input.setInterceptDrags", {"enabled": False})


async def write(tab: Tab, element: Element, text: str) -> None:
    """Replace what is in a field."""
    match await element.run(SCRIPTS["fill"], text):
        case "ready":
            await _typed(tab, text)
        case "rejected":
            raise ToolError(
                f"{element.ref} does not accept {text!r}",
                "dates are written 2031-12-24, times 18:30, colours #aabbcc",
                "changed",
            )
        case "locked":
            raise _locked(element.ref)
        case "other":
            raise ToolError(f"{element.ref} is not a field to type into", retry="changed")


async def _typed(tab: Tab, text: str) -> None:
    if not text:
        await press(tab, "Delete")
    elif len(text) > TYPED or not text.isprintable():
        await tab.call("Input.insertText", {"text": text})
    else:
        for letter in text:
            if letter.isascii():
                await press(tab, letter)
            else:
                await tab.call("Input.insertText", {"text": letter})


async def press(tab: Tab, name: str) -> None:
    for event in key_events(name):
        await tab.call("Input.dispatchKeyEvent", event)


async def choose(element: Element, wanted: str) -> None:
    match await element.run(SCRIPTS["choose"], wanted):
        case "missing":
            raise ToolError(
                f"{element.ref} has no choice {wanted!r}", "the snapshot lists them", "changed"
            )
        case "locked":
            raise _locked(element.ref)
        case "other":
            raise ToolError(
                f"{element.ref} is not a list of choices that can be set",
                "click it and then the choice",
                "changed",
            )


async def check(tab: Tab, element: Element, wanted: str) -> None:
    """Check a box or switch, or uncheck it where the text says so."""
    goal = "off" if wanted.strip().lower() in {"off", "no", "false", "unchecked"} else "on"
    state = await element.run(SCRIPTS["checked"])
    if state == "locked":
        raise _locked(element.ref)
    if state == "other":
        raise ToolError(f"{element.ref} cannot be checked", "click it", "changed")
    if state == goal:
        return
    await click(tab, element)
    if await element.run(SCRIPTS["checked"]) != goal:
        raise ToolError(f"{element.ref} was clicked but is not {goal}", "look again", "changed")


def _locked(ref: str) -> ToolError:
    return ToolError(f"{ref} is disabled or read-only now", "find out what enables it", "changed")


async def upload(browser: Browser, element: Element, path: str, data: bytes) -> None:
    """Put a file into a field. The browser reads it when the form is submitted, so the copy stays
    until the browser ends."""
    if not browser.local:
        raise ToolError("files cannot be uploaded to a browser on another machine", retry="never")
    kind = await element.run(SCRIPTS["files"])
    if kind == "other":
        raise ToolError(
            f"{element.ref} does not accept files", "find the field that accepts files", "changed"
        )
    node = element.key.backend if kind == "own" else await _file_field(element, kind)
    folder = Path(tempfile.mkdtemp(dir=browser.scratch))
    file = folder / harmless(path)
    await asyncio.to_thread(file.write_bytes, data)
    await element.tab.call(
        "DOM.setFileInputFiles", {"files": [str(file)], "backendNodeId": node}, element.key.session
    )


async def _file_field(element: Element, kind: str) -> int:
    way = "this.control" if kind == "label" else "this.querySelector('input[type=file]')"
    return await element.node(f"function () {{ return {way}; }}")


async def answer(browser: Browser, dialog: Dialog, text: str, *, accept: bool) -> None:
    given = {"accept": accept, "promptText": text or dialog.default}
    browser.dialogs.closed(dialog.session)
    await browser.ask(dialog.session, "Page.handleJavaScriptDialog", given)
