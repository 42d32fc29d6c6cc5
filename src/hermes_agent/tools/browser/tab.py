"""One tab: its frames, events and dialogs, and whether it has finished loading."""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.browser.devtools.connection import (
    DevtoolsConnection,
    DevtoolsError,
    Params,
    SessionLost,
)
from hermes_agent.tools.browser.page.outline import Key, Part
from hermes_agent.tools.browser.page.visibility import REQUEST, Sight, sight

_POLL = 0.02
"""Seconds between polls. What follows is counted in polls, so that time in which the machine was
suspended does not count."""
_QUIET = 8
"""Polls without a request or navigation after which a page is idle."""
_SETTLE = 250
"""The most polls spent waiting for that."""
_LATE = 50
"""Requests that begin later than this after an action are not caused by it."""
_SLOW = 150
"""Longer requests are not waited for: a page may hold them open for ever."""
_UNCOUNTED = frozenset({"Document", "WebSocket", "EventSource", "Ping", "Media", "Prefetch"})
"""Frames report loading themselves, and the others may never end."""
CONSOLE = 100
FRAMES = 40
"""Frames of one page that are read."""


class Halted(Exception):
    """A dialog opened during a call."""


@dataclass(frozen=True)
class Dialog:
    session: str
    kind: str
    """alert, confirm, prompt or beforeunload."""
    message: str
    default: str
    url: str


class Dialogs:
    """Dialogs that pages open. One stops its page, and whatever else its process shows, until it is
    answered; so callers that wait for the browser are told that there will be no answer."""

    def __init__(self) -> None:
        self._open: dict[str, Dialog] = {}
        self._opened = asyncio.Event()

    @property
    def first(self) -> Dialog | None:
        return next(iter(self._open.values()), None)

    def opened(self, dialog: Dialog) -> None:
        self._open[dialog.session] = dialog
        self._opened.set()

    def closed(self, session: str) -> None:
        self._open.pop(session, None)
        if not self._open:
            self._opened.clear()

    async def unless(self, answer: "asyncio.Future[dict[str, Any]]") -> dict[str, Any]:
        """The answer; `Halted` where a dialog is open before it comes."""
        opened = asyncio.ensure_future(self._opened.wait())
        try:
            await asyncio.wait((answer, opened), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise Halted
        finally:
            opened.cancel()
            answer.cancel()


class Tab:
    def __init__(
        self, name: str, target: str, session: str, link: DevtoolsConnection, dialogs: Dialogs
    ) -> None:
        self.name = name
        self.target = target
        self.session = session
        self.url = "about:blank"
        self.title = ""
        self.crashed = False
        self.unreachable = ""
        """The address that could not be loaded."""
        self.status = 0
        """HTTP status of the main document; 0 without one."""
        self.console: deque[str] = deque(maxlen=CONSOLE)
        self.hosts: set[str] = set()
        """Hosts that the page made requests to."""
        self.dragged: dict[str, Any] | None = None
        """Data of a drag that began."""
        self.seen: tuple[str, list[str]] = ("", [])
        """The document and lines that the model saw last."""
        self._link = link
        self._dialogs = dialogs
        self._elsewhere: dict[str, tuple[str, str]] = {}
        """Sessions of frames in other processes: the frame, and its parent session."""
        self._loaders: dict[str, str] = {}
        self._loading: set[str] = set()
        self._looks = 0
        self._requests: dict[str, int] = {}
        self._stirred = 0
        self._acted = 0
        self._adopting: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        await self._enable(self.session)
        # A tab in the background would draw no frames, and wait for one before it takes a click.
        focus = {"enabled": True}
        await self._link.call("Emulation.setFocusEmulationEnabled", focus, self.session)
        tree = await self._link.call("Page.getFrameTree", {}, self.session)
        self._arrived(tree["frameTree"]["frame"])

    async def call(self, method: str, params: Params | None = None, session: str = "") -> Any:
        """Ask the page, or the frame that has the session. Raises `Halted` when a dialog opens."""
        try:
            answer = await self._link.begin(method, params, session or self.session)
            return await self._dialogs.unless(answer)
        except SessionLost:
            if not self.crashed:
                raise
            raise crashed() from None

    def owns(self, session: str) -> bool:
        return session == self.session or session in self._elsewhere

    # Events of the browser.

    def on_event(self, session: str, method: str, params: dict[str, Any]) -> None:
        domain = method.partition(".")[0]
        if domain == "Network":
            self._hear_network(method, params)
        elif domain == "Page":
            self._hear_page(method, params)
        elif method == "Target.attachedToTarget":
            self._adopt(params["sessionId"], params["targetInfo"]["targetId"], session)
        elif method == "Target.detachedFromTarget":
            self._lose(params["sessionId"])
        elif method == "Input.dragIntercepted":
            self.dragged = params["data"]
        elif method == "Inspector.targetCrashed":
            self.crashed = self.crashed or session == self.session
            self._dialogs.closed(session)
            self._link.lose(session)
        elif method == "Runtime.consoleAPICalled":
            said = " ".join(_argument(value) for value in params.get("args", ()))
            self.console.append(f"{params['type']}: {said}"[:500])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            said = details.get("exception", {}).get("description") or details.get("text", "")
            self.console.append(f"exception: {said}"[:500])
        elif method == "Log.entryAdded":
            entry = params["entry"]
            self.console.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}"[:500])

    def _hear_network(self, method: str, params: dict[str, Any]) -> None:
        request = str(params.get("requestId", ""))
        if method == "Network.requestWillBeSent":
            self.hosts.add(urlsplit(params["request"]["url"]).hostname or "")
            late = self._looks - self._acted > _LATE and not self._loading
            if params.get("type") not in _UNCOUNTED and not late:
                self._requests[request] = self._stirred = self._looks
        elif method == "Network.responseReceived" and params.get("type") == "Document":
            if params.get("frameId") == self.target:
                self.status = int(params["response"]["status"])
        elif request in self._requests and method.startswith("Network.loadingF"):
            del self._requests[request]  # finished or failed
            self._stirred = self._looks

    def _hear_page(self, method: str, params: dict[str, Any]) -> None:
        frame = str(params.get("frameId", ""))
        match method:
            case "Page.frameStartedLoading" | "Page.frameRequestedNavigation":
                self._loading.add(frame)
            case "Page.frameStoppedLoading" | "Page.frameDetached":
                self._loading.discard(frame)
                if method == "Page.frameDetached" and params.get("reason") != "swap":
                    self._loaders.pop(frame, None)
            case "Page.frameNavigated":
                self._arrived(params["frame"])
            case "Page.navigatedWithinDocument":
                if frame == self.target:
                    self.url = str(params["url"])
            case "Page.javascriptDialogOpening":
                asked = (params["type"], params["message"], params.get("defaultPrompt", ""))
                self._dialogs.opened(Dialog(self.session, *asked, params["url"]))
                return
            case "Page.javascriptDialogClosed":
                self._dialogs.closed(self.session)
            case _:
                return
        self._stirred = self._looks

    def _arrived(self, frame: Mapping[str, Any]) -> None:
        self._loaders[frame["id"]] = frame["loaderId"]
        if frame["id"] == self.target:
            self.url = str(frame["url"]) + str(frame.get("urlFragment", ""))
            self.unreachable = str(frame.get("unreachableUrl", ""))

    def _adopt(self, session: str, frame: str, parent: str) -> None:
        """A frame that lives in another process."""

        async def adopt() -> None:
            try:
                await self._enable(session)
            except (SessionLost, DevtoolsError, ToolError):
                self._lose(session)

        self._elsewhere[session] = (frame, parent)
        task = asyncio.create_task(adopt())
        self._adopting.add(task)
        task.add_done_callback(self._adopting.discard)

    def _lose(self, session: str) -> None:
        self._link.lose(session)
        self._elsewhere.pop(session, None)

    async def _enable(self, session: str) -> None:
        attach = {
            "autoAttach": True,
            "waitForDebuggerOnStart": False,
            "flatten": True,
            "filter": [{"type": "iframe"}],
        }
        wanted: tuple[tuple[str, Params], ...] = (
            ("Page.enable", {}),
            ("Network.enable", {}),
            ("Runtime.enable", {}),
            ("Log.enable", {}),
            ("DOM.enable", {}),
            ("Target.setAutoAttach", attach),
            ("Runtime.runIfWaitingForDebugger", {}),
        )
        begun = [await self._link.begin(method, params, session) for method, params in wanted]
        for answer in begun:
            await answer

    async def close(self) -> None:
        for task in list(self._adopting):
            task.cancel()
        await asyncio.gather(*self._adopting, return_exceptions=True)

    # Loading.

    def acting(self) -> None:
        """An action begins: requests from now on are waited for."""
        self._acted = self._stirred = self._looks
        self._requests.clear()

    async def settle(self) -> bool:
        """Wait until nothing loads; False where that took too long."""
        for _ in range(_SETTLE):
            if self._dialogs.first is not None or self.crashed or not self._link.alive:
                return True
            young = any(self._looks - begun < _SLOW for begun in self._requests.values())
            busy = self._loading or young or self._adopting
            if not busy and self._looks - self._stirred >= _QUIET:
                return True
            await asyncio.sleep(_POLL)
            self._looks += 1
        return False

    async def carried(self) -> dict[str, Any] | None:
        """The data of a drag; the event comes shortly after the mouse has moved."""
        for _ in range(_LATE):
            if self.dragged is not None:
                break
            await asyncio.sleep(_POLL)
        return self.dragged

    # Reading.

    def loader(self, frame: str) -> str:
        """The loader id of a frame's document."""
        return self._loaders.get(frame, "")

    def is_current(self, key: Key) -> bool:
        """Whether the node's document is still shown."""
        return self.owns(key.session) and self._loaders.get(key.frame) == key.loader

    async def part(self) -> Part:
        """The document of the page with those of its frames."""
        return await self._part(self.session, [FRAMES])

    async def _part(self, session: str, left: list[int]) -> Part:
        """The documents of one session; `left` counts down the frames of all."""
        tree = (await self.call("Page.getFrameTree", {}, session))["frameTree"]
        seen = sight(await self.call("DOMSnapshot.captureSnapshot", REQUEST, session))
        inner: dict[int, Part] = {}
        for child, (frame, parent) in list(self._elsewhere.items()):
            if parent == session and left[0] > 0:
                try:
                    owner = await self.owner(frame, session)
                    inner[owner] = await self._part(child, left)
                except (DevtoolsError, SessionLost):
                    continue  # it is gone
        return await self._frame(session, tree, seen, inner, left)

    async def _frame(
        self,
        session: str,
        tree: Mapping[str, Any],
        seen: Sight,
        inner: dict[int, Part],
        left: list[int],
    ) -> Part:
        frame = tree["frame"]
        self._arrived(frame)
        left[0] -= 1
        known = await self.call("Accessibility.getFullAXTree", {"frameId": frame["id"]}, session)
        for child in tree.get("childFrames", ()):
            if left[0] <= 0:
                break
            try:
                owner = await self.owner(child["frame"]["id"], session)
                inner[owner] = await self._frame(session, child, seen, inner, left)
            except DevtoolsError:
                continue
        url = str(frame["url"])
        return Part(session, frame["id"], frame["loaderId"], url, known["nodes"], seen, inner)

    async def owner(self, frame: str, session: str) -> int:
        """The element that shows a frame."""
        found = await self.call("DOM.getFrameOwner", {"frameId": frame}, session)
        return int(found["backendNodeId"])

    def around(self, session: str) -> tuple[str, str] | None:
        """The frame that a session shows, and the session that it lies in; None for the page."""
        return self._elsewhere.get(session)


def crashed() -> ToolError:
    return ToolError("the page crashed", "open it again", "changed")


def _argument(value: Mapping[str, Any]) -> str:
    if "value" in value:
        return str(value["value"])
    return str(value.get("description") or value.get("type", ""))
