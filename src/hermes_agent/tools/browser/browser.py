"""A session's browser: its tabs, dialogs, downloads and names for what is on the pages."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.root import BrowserSettings
from hermes_agent.core.text.addresses import classify, host_of
from hermes_agent.core.tools import EgressCheck, Proxy
from hermes_agent.tools.browser.devtools.connection import (
    GONE,
    BrowserGone,
    DevtoolsConnection,
    DevtoolsError,
    DevtoolsTransport,
    Params,
    SessionLost,
)
from hermes_agent.tools.browser.devtools.pipe import SCRATCH, PipeWire, started
from hermes_agent.tools.browser.downloads import Downloads
from hermes_agent.tools.browser.page.outline import Refs
from hermes_agent.tools.browser.tab import Dialogs, Tab

START_SECONDS = 60.0
CLOSE_LOOKS = 250
_POLL = 0.02
GREETING = "http://hermes.invalid/"
"""Answered by the proxy itself; it makes the browser authenticate once."""
_USER = "hermes"


class BrowserReach:
    """Which hosts the browser may reach. The latest call decides. A non-public host that an earlier
    call was allowed stays reachable while a tab shows a page of it."""

    def __init__(self) -> None:
        self.tabs: Mapping[str, Tab] = {}
        self._now: EgressCheck = _nobody
        self._before: dict[str, EgressCheck] = {}

    def follow(self, reach: EgressCheck | None) -> None:
        """Use the permissions of a new call."""
        shown = self._shown()
        self._before = {host: said for host, said in self._before.items() if host in shown}
        self._now = reach or _nobody

    def __call__(self, host: str, address: str, public: bool) -> bool:
        if self._now(host, address, public):
            if not public:
                self._before[host] = self._now
            return True
        before = None if public else self._before.get(host)
        return before is not None and host in self._shown() and before(host, address, public)

    def _shown(self) -> set[str]:
        hosts = (urlsplit(tab.url).hostname for tab in self.tabs.values())
        return {host.rstrip(".") for host in hosts if host}


def _nobody(_host: str, _address: str, _public: bool) -> bool:
    return False


class Browser:
    """Made by `launch`. One action at a time: it holds `turn`."""

    def __init__(
        self,
        wire: DevtoolsTransport,
        proxy: Proxy,
        reaches: BrowserReach,
        downloads: Downloads,
        scratch: Path,
    ) -> None:
        self.proxy = proxy
        self.reaches = reaches
        self.scratch = scratch
        """A folder for as long as the browser runs."""
        self.downloads = downloads
        self.dialogs = Dialogs()
        self.refs = Refs()
        self.turn = asyncio.Lock()
        self.tabs: dict[str, Tab] = {}
        reaches.tabs = self.tabs
        self.current: Tab | None = None
        self.opened: list[Tab] = []
        """Tabs that pages opened and that were not reported yet."""
        self.local = True
        """It runs on this machine and can use our proxy and files."""
        self.told: dict[str, str] = {}
        """Unreachable hosts that were reported to the model."""
        self.wire = wire
        self._link = DevtoolsConnection(wire, self._hear)
        self._context = ""
        self._corner: dict[str, str] = {}
        """Names the browser context where it is not the default one."""
        self._last = 0
        self._targets: dict[str, str] = {}
        self._expected: set[str] = set()
        self._arrivals: dict[str, asyncio.Future[Tab]] = {}
        self._discovers = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._greeted = False

    @property
    def alive(self) -> bool:
        return self._link.alive

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method of the browser itself."""
        return await self._link.call(method, params)

    async def ask(self, session: str, method: str, params: Params) -> Any:
        """Call a method of a page, whether a dialog is open or not."""
        return await self._link.call(method, params, session)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for tab in self.tabs.values():
            await tab.close()
        await self._link.close()
        await self.proxy.close()
        await asyncio.to_thread(shutil.rmtree, self.scratch, ignore_errors=True)

    async def begin(self, *, own: bool, local: bool) -> None:
        """Take the first tab of our own browser, or a new context of another one."""
        self.local = local
        if own:
            targets = (await self.call("Target.getTargets"))["targetInfos"]
            page = next(target for target in targets if target["type"] == "page")
            self._context = page["browserContextId"]
            self._corner = {}
            target = page["targetId"]
        else:
            way = {"proxyServer": f"http://{self.proxy.address}", "proxyBypassList": "<-loopback>"}
            made = await self.call(
                "Target.createBrowserContext", disposeOnDetach=True, **(way if local else {})
            )
            self._context = made["browserContextId"]
            self._corner = {"browserContextId": self._context}
            target = await self._create()
        if local:
            self._targets[target] = "greeter"  # not shown to the model
            await self._greet(target)
            first, target = target, await self._create()
            await self.call("Target.closeTarget", targetId=first)
        await self._take_downloads(local=local)
        only = [{"type": "page"}]
        await self.call("Target.setDiscoverTargets", discover=True, filter=only)
        self._discovers = not own
        if own:
            # A new page waits until we listen: otherwise its first dialog would be missed.
            attach = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
            await self.call("Target.setAutoAttach", filter=only, **attach)
        else:
            await self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.current = await self._ready(target)

    async def _create(self) -> str:
        made = await self.call("Target.createTarget", url="about:blank", **self._corner)
        return str(made["targetId"])

    async def _greet(self, target: str) -> None:
        """Authenticate at the proxy once; the browser keeps the password."""
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        session = attached["sessionId"]
        link = self._link
        await link.call("Fetch.enable", {"handleAuthRequests": True}, session)
        await link.call("Page.navigate", {"url": GREETING}, session)
        if not self._greeted:
            raise ToolError("the browser did not take the proxy's password", retry="never")

    async def _take_downloads(self, *, local: bool) -> None:
        folder = self.downloads.folder if local else None
        behaviour: dict[str, Any] = {"behavior": "deny"}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            behaviour = {"behavior": "allowAndName", "downloadPath": str(folder)}
        await self.call(
            "Browser.setDownloadBehavior",
            eventsEnabled=True,
            **self._corner,
            **behaviour,
        )

    async def _stop_download(self, guid: str) -> None:
        await self.call("Browser.cancelDownload", guid=guid, **self._corner)

    # Tabs.

    async def new_tab(self) -> Tab:
        return await self._ready(await self._create())

    async def _ready(self, target: str) -> Tab:
        """The requested tab, once it is attached."""
        self._expected.add(target)
        arrival = self._arrivals.setdefault(target, _future())
        await asyncio.wait([arrival])
        if arrival.cancelled():
            raise BrowserGone
        tab = arrival.result()
        if tab in self.opened:
            self.opened.remove(tab)
        return tab

    async def _welcome(self, target: str, session: str) -> None:
        """Attach a new tab: one of ours, or one that a page opened."""
        self._last += 1
        name = self._targets[target] = f"t{self._last}"
        tab = self.tabs[name] = Tab(name, target, session, self._link, self.dialogs)
        if target not in self._expected:
            self.opened.append(tab)
        try:
            await tab.begin()
        finally:
            arrival = self._arrivals.setdefault(target, _future())
            if not arrival.done():
                arrival.set_result(tab)

    def tab_of(self, session: str) -> Tab | None:
        return next((tab for tab in self.tabs.values() if tab.owns(session)), None)

    async def close_tab(self, tab: Tab) -> None:
        """Close it without asking the page; the previous tab becomes current."""
        await self.call("Target.closeTarget", targetId=tab.target)
        self._forget(tab)
        await tab.close()

    async def closes(self, tab: Tab) -> bool:
        """Whether a tab that no longer answers is closing; the event may come later."""
        for _ in range(CLOSE_LOOKS):
            if tab.name not in self.tabs or tab.crashed or not self.alive:
                break
            await asyncio.sleep(_POLL)
        return tab.name not in self.tabs

    def _forget(self, tab: Tab) -> None:
        self.tabs.pop(tab.name, None)
        self._targets.pop(tab.target, None)
        self._arrivals.pop(tab.target, None)
        self.dialogs.closed(tab.session)
        if tab in self.opened:
            self.opened.remove(tab)
        if self.current is tab:
            self.current = next(reversed(self.tabs.values()), None)

    # Events of the browser.

    def _hear(self, session: str, method: str, params: dict[str, Any]) -> None:
        if method.startswith("Fetch."):
            self._later(self._let_through(session, method, params))
        elif session:
            tab = self.tab_of(session)
            if tab is not None:
                tab.on_event(session, method, params)
        elif method == GONE:
            for arrival in self._arrivals.values():
                arrival.cancel()
        elif method == "Browser.downloadWillBegin":
            self.downloads.begin(params)
        elif method == "Browser.downloadProgress":
            if self.downloads.progress(params):
                self._later(self._stop_download(params["guid"]))
        elif method == "Target.targetCreated":
            target = params["targetInfo"]
            if self._discovers and self._is_new(target):
                id = target["targetId"]
                self._later(self.call("Target.attachToTarget", targetId=id, flatten=True))
        elif method == "Target.attachedToTarget":
            target = params["targetInfo"]
            if self._is_new(target):
                self._later(self._welcome(target["targetId"], params["sessionId"]))
        elif method == "Target.targetInfoChanged":
            target = params["targetInfo"]
            tab = self.tabs.get(self._targets.get(target["targetId"], ""))
            if tab is not None:
                tab.title = str(target["title"])
        elif method == "Target.detachedFromTarget":
            for tab in list(self.tabs.values()):
                if tab.session == params["sessionId"]:
                    self._forget(tab)
                    self._link.lose(tab.session)

    def _is_new(self, target: dict[str, Any]) -> bool:
        ours = target["type"] == "page" and target.get("browserContextId") == self._context
        return bool(ours and target["targetId"] not in self._targets)

    def _later(self, work: Any) -> None:
        async def do() -> None:
            try:
                await work
            except (DevtoolsError, SessionLost, ToolError):
                pass  # its target is gone

        task = asyncio.create_task(do())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _let_through(self, session: str, method: str, params: dict[str, Any]) -> None:
        request = {"requestId": params["requestId"]}
        if method == "Fetch.requestPaused":
            await self._link.call("Fetch.continueRequest", request, session)
            return
        ours = params["authChallenge"].get("source") == "Proxy"
        answer = {"response": "CancelAuth"}
        if ours and not self._greeted:
            self._greeted = True
            password = self.proxy.secret
            answer = {"response": "ProvideCredentials", "username": _USER, "password": password}
        await self._link.call(
            "Fetch.continueWithAuth", {**request, "authChallengeResponse": answer}, session
        )


def _future() -> asyncio.Future[Tab]:
    return asyncio.get_running_loop().create_future()


async def launch(
    settings: BrowserSettings,
    open_proxy: Callable[[EgressCheck], Awaitable[Proxy]],
    folder: Path | None,
) -> Browser:
    """Start a browser. `folder` is for downloads."""
    reaches = BrowserReach()
    proxy = await open_proxy(reaches)
    try:
        wire, scratch = await _wired(settings, proxy)
    except BaseException:
        await proxy.close()
        raise
    browser = Browser(wire, proxy, reaches, Downloads(folder), scratch)
    own = isinstance(wire, PipeWire)
    try:
        async with asyncio.timeout(START_SECONDS):
            await browser.begin(own=own, local=own or is_local(settings.address))
    except (TimeoutError, ToolError, DevtoolsError, SessionLost) as error:
        why = str(error) or type(error).__name__
        if isinstance(wire, PipeWire) and isinstance(error, BrowserGone):
            why = wire.last_words()
        await browser.close()
        raise ToolError(f"the browser does not start: {why}", retry="never") from None
    except BaseException:
        await browser.close()
        raise
    return browser


async def _wired(settings: BrowserSettings, proxy: Proxy) -> tuple[DevtoolsTransport, Path]:
    """A connection to the browser, and a folder for uploads."""
    if not settings.address:
        wire = await started(settings.program, proxy.address)
        return wire, wire.profile / SCRATCH
    from hermes_agent.tools.browser.devtools.remote import connected

    return await connected(settings.address), Path(tempfile.mkdtemp(prefix="hermes-browser-"))


def is_local(address: str) -> bool:
    """Whether the browser at an address runs on this machine."""
    return classify(host_of(address)) == "loopback"
