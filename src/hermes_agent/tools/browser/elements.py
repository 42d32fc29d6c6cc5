"""One element of a page: where it is, what covers it, and functions that run on it. They run in an
isolated world, which the page's scripts can neither see nor change."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.browser.browser import Browser
from hermes_agent.tools.browser.devtools.connection import DevtoolsError
from hermes_agent.tools.browser.page.outline import Key, stale
from hermes_agent.tools.browser.tab import Tab

SCRIPTS = dict(
    re.findall(
        r"^// (\w+): .*\n(function[\s\S]*?^})",
        Path(__file__).with_name("scripts.js").read_text(),
        re.MULTILINE,
    )
)
"""The functions of `scripts.js` by name."""
_WORLD = "hermes"
_MOVES = 20
"""Polls of a moving element before its position is used."""
_STILL = 0.03


@dataclass(frozen=True)
class Element:
    browser: Browser
    tab: Tab
    key: Key
    ref: str

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method of its frame; a refusal means that it is gone."""
        try:
            return await self.tab.call(
                method, {"backendNodeId": self.key.backend, **params}, self.key.session
            )
        except DevtoolsError:
            raise stale(self.ref) from None

    async def run(self, function: str, *arguments: Any) -> Any:
        """The result of a JavaScript function with this element as `this`."""
        world = await self._world()
        found = await self.call("DOM.resolveNode", executionContextId=world)
        values = [{"value": argument} for argument in arguments]
        return await self._run(found["object"]["objectId"], function, values)

    async def node(self, function: str) -> int:
        """The node that such a function returns."""
        found = await self.call("DOM.resolveNode", executionContextId=await self._world())
        given = {"objectId": found["object"]["objectId"], "functionDeclaration": function}
        other = await self.tab.call("Runtime.callFunctionOn", given, self.key.session)
        described = {"objectId": other["result"]["objectId"]}
        answer = await self.tab.call("DOM.describeNode", described, self.key.session)
        return int(answer["node"]["backendNodeId"])

    async def _world(self) -> int:
        given = {"frameId": self.key.frame, "worldName": _WORLD}
        try:
            made = await self.tab.call("Page.createIsolatedWorld", given, self.key.session)
        except DevtoolsError:
            raise stale(self.ref) from None
        return int(made["executionContextId"])

    async def _run(self, object: str, function: str, arguments: list[dict[str, Any]]) -> Any:
        answer = await self.tab.call(
            "Runtime.callFunctionOn",
            {
                "objectId": object,
                "functionDeclaration": function,
                "arguments": arguments,
                "returnByValue": True,
                "awaitPromise": True,
            },
            self.key.session,
        )
        if "exceptionDetails" in answer:
            raise ToolError(f"{self.ref} is not an element that can be used")
        return answer["result"].get("value")

    async def evaluate(self, script: str, options: dict[str, Any]) -> Any:
        """Run the model's expression in the page's own world."""
        found = await self.call("DOM.resolveNode")
        given = {
            "objectId": found["object"]["objectId"],
            "functionDeclaration": f"function () {{ return ({script}\n); }}",
            **options,
        }
        return await self.tab.call("Runtime.callFunctionOn", given, self.key.session)

    async def box(self) -> tuple[float, float, float, float]:
        """Left, top, width and height in the tab's view."""
        try:
            given = {"backendNodeId": self.key.backend}
            found = await self.tab.call("DOM.getBoxModel", given, self.key.session)
        except DevtoolsError:
            raise self._no_place() from None
        border = found["model"]["border"]
        left, top = min(border[::2]), min(border[1::2])
        width, height = max(border[::2]) - left, max(border[1::2]) - top
        if width < 1 or height < 1:
            raise self._no_place()
        session = self.key.session
        while (outside := self.tab.around(session)) is not None:
            frame, session = outside
            more = await self._corner(await self.tab.owner(frame, session), session)
            left, top = left + more[0], top + more[1]
        return left, top, width, height

    async def point(self) -> tuple[float, float]:
        """Scroll to it and return its middle in the tab's view once it is at rest; refuses where a
        click would not reach it."""
        try:
            await self.call("DOM.scrollIntoViewIfNeeded")
        except ToolError:
            if not await self._there():
                raise
            raise self._no_place() from None
        x, y = await self._still()
        session = self.key.session
        await self._uncovered(session, self.key.backend, x, y)
        while (outside := self.tab.around(session)) is not None:
            frame, session = outside
            owner = await self.tab.owner(frame, session)
            left, top = await self._corner(owner, session)
            x, y = x + left, y + top
            await self._uncovered(session, owner, x, y)
        return x, y

    async def _there(self) -> bool:
        return bool(await self.run("function () { return this.isConnected; }"))

    def _no_place(self) -> ToolError:
        return ToolError(
            f"{self.ref} cannot be seen on the page, so it cannot be clicked",
            "something else may have to be opened first",
            "changed",
        )

    async def _still(self) -> tuple[float, float]:
        last = await self._middle()
        for _ in range(_MOVES):
            await asyncio.sleep(_STILL)
            now = await self._middle()
            if now == last:
                break
            last = now
        return last

    async def _middle(self) -> tuple[float, float]:
        try:
            given = {"backendNodeId": self.key.backend}
            found = await self.tab.call("DOM.getContentQuads", given, self.key.session)
        except DevtoolsError:
            raise self._no_place() from None
        metrics = await self.tab.call("Page.getLayoutMetrics", {}, self.key.session)
        view = metrics["cssLayoutViewport"]
        for quad in found["quads"]:
            left, right = max(min(quad[::2]), 0), min(max(quad[::2]), view["clientWidth"])
            top, bottom = max(min(quad[1::2]), 0), min(max(quad[1::2]), view["clientHeight"])
            if right - left >= 1 and bottom - top >= 1:
                return (left + right) / 2, (top + bottom) / 2
        raise self._no_place()

    async def _corner(self, node: int, session: str) -> tuple[float, float]:
        """The upper left of what an iframe shows."""
        box = await self.tab.call("DOM.getBoxModel", {"backendNodeId": node}, session)
        left, top = box["model"]["content"][:2]
        return float(left), float(top)

    async def _uncovered(self, session: str, node: int, x: float, y: float) -> None:
        metrics = await self.tab.call("Page.getLayoutMetrics", {}, session)
        view = metrics["cssLayoutViewport"]
        point = {"x": round(x + view["pageX"]), "y": round(y + view["pageY"])}
        try:
            hit = await self.tab.call("DOM.getNodeForLocation", point, session)
        except DevtoolsError:
            return  # nothing is there but the page itself
        top = int(hit["backendNodeId"])
        if top == node or (session == self.key.session and await self._takes(top)):
            return
        key = Key(session, hit["frameId"], self.tab.loader(hit["frameId"]), top)
        name = self.browser.refs.name(key)
        raise ToolError(
            f"{self.ref} is covered by something else, [ref={name}], which would get the click",
            "close that or move it away first, or scroll",
            "changed",
        )

    async def _takes(self, hit: int) -> bool:
        world = await self._world()
        own = await self.call("DOM.resolveNode", executionContextId=world)
        try:
            given = {"backendNodeId": hit, "executionContextId": world}
            other = await self.tab.call("DOM.resolveNode", given, self.key.session)
        except DevtoolsError:
            return False  # it lies in another frame
        function = [{"objectId": other["object"]["objectId"]}]
        return bool(await self._run(own["object"]["objectId"], SCRIPTS["takes"], function))


async def element(browser: Browser, tab: Tab, ref: str) -> Element:
    """The element of a ref, if it still exists."""
    if not ref:
        raise ToolError("this needs a `ref`", "refs are in the snapshot", "changed")
    key = browser.refs.key(ref)
    if not tab.is_current(key):
        other = next((other for other in browser.tabs.values() if other.is_current(key)), None)
        if other is None:
            raise stale(ref)
        raise ToolError(
            f"{ref} is on another tab",
            f"browser action=tab ref={other.name} switches to it",
            "changed",
        )
    found = Element(browser, tab, key, ref)
    if not await found.run("function () { return this.isConnected; }"):
        raise stale(ref)
    return found
