"""One open connection to a server, shared by all callers of its tools. This module loads the SDK,
which takes a second: it is imported when a server is first connected."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import anyio
from mcp import ClientSession, MCPError, types
from mcp.client import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import listen
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    CallToolResult,
    InputRequiredResult,
    PaginatedRequestParams,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace
from pydantic import FileUrl, ValidationError

from hermes_agent.core.errors import HermesError, OutcomeUnknown, ToolError
from hermes_agent.core.version import __version__
from hermes_agent.tools.mcp.catalogue_cache import (
    MAX_TOOLS,
    NAME_CHARS,
    McpToolFacts,
    ServerFacts,
    first_line,
    tool_facts,
)
from hermes_agent.tools.mcp.context import UNREADABLE, NotDone
from hermes_agent.tools.mcp.results import signature
from hermes_agent.tools.mcp.transports.http import Trouble, trouble_of

log = logging.getLogger("hermes.mcp")

REFRESH_SECONDS = 1.0
"""Between refreshes of a server that reports changed lists."""
ROOTS_SECONDS = 1.0
"""How long a call waits for a server to ask for the new workspace."""
SETTLE_SECONDS = 0.1
"""Time to process the answer; the protocol has no acknowledgement."""
ROUNDS = 5
"""How often a server may ask back before it answers."""
PROGRESS_CHARS = 200
PROGRESSES = 1_000
PAGES = 100
MAX_PROMPTS = 50

Item = TypeVar("Item")
Page = TypeVar("Page", bound=types.PaginatedResult)

_UNREAD = (CONNECTION_CLOSED, PARSE_ERROR)
"""Error codes for an answer that did not arrive, or not completely."""
Open = Callable[[Callable[[], None]], AbstractAsyncContextManager[tuple[Any, Any]]]
"""Opens the streams; calls its argument when the server is gone."""


class _Session(ClientSession):
    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        """Accept any result: the tool has run, whatever a server's schema says."""


class McpConnection:
    def __init__(
        self,
        name: str,
        open_streams: Open,
        told: Callable[[ServerFacts], None],
        facts: ServerFacts,
        seconds: float,
        *,
        roots: bool,
        workspace: str = "",
    ) -> None:
        self.name = name
        self._open_streams = open_streams
        self._told = told
        self._facts = facts
        """With the key and the time; the rest is filled in."""
        self._seconds = seconds
        self._tells_roots = roots
        self._end = asyncio.Event()
        self._changed = asyncio.Event()
        self._ready: asyncio.Future[ServerFacts] = asyncio.get_running_loop().create_future()
        self._owner: asyncio.Task[None] | None = None
        self._session: _Session | None = None
        self._roots: tuple[str, ...] = (workspace,) if workspace else ()
        self._under_way: list[str] = []
        """Workspaces of running calls."""
        self._asked_roots = asyncio.Event()

    # Opening and closing

    async def open(self) -> ServerFacts:
        """Connect and list what the server offers. The SDK must be exited by the task that entered
        it, so it has its own task."""
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.name}")
        try:
            return await asyncio.shield(self._ready)
        except asyncio.CancelledError:
            await self.close()
            raise

    @property
    def alive(self) -> bool:
        return self._session is not None and not self._end.is_set()

    async def close(self) -> None:
        self._end.set()
        if self._owner is not None:
            await asyncio.wait([self._owner])

    async def _own(self) -> None:
        try:
            async with (
                self._open_streams(self._end.set) as (read, write),
                _Session(
                    read,
                    write,
                    list_roots_callback=self._list_roots if self._tells_roots else None,
                    message_handler=self._on_message,
                    client_info=types.Implementation(name="hermes", version=__version__),
                ) as session,
            ):
                await self._live(session)
        except Exception as error:  # noqa: BLE001 - told to whoever opens or uses the connection
            if not self._ready.done():
                self._ready.set_exception(cause(error))
            elif not isinstance(error, ToolError):
                log.warning("the connection to %s broke: %r", self.name, cause(error))
        finally:
            self._end.set()
            if not self._ready.done():
                self._ready.set_exception(ToolError("it exited before it answered", retry="same"))
            self._ready.exception()  # nobody may be waiting

    async def _live(self, session: _Session) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_end, tasks)
            try:
                with anyio.fail_after(self._seconds):
                    await _negotiate(session)
                    facts = await listed(session, self._facts)
            except TimeoutError:
                raise ToolError(
                    f"it did not answer within {self._seconds:g} seconds", retry="same"
                ) from None
            self._session = session
            self._ready.set_result(facts)
            tasks.start_soon(self._refresh, session)
            if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
                tasks.start_soon(self._listen, session)

    async def _until_end(self, tasks: anyio.abc.TaskGroup) -> None:
        await self._end.wait()
        tasks.cancel_scope.cancel()

    # Lists that change

    async def _on_message(self, message: IncomingMessage) -> None:
        match message:
            case (
                types.ToolListChangedNotification()
                | types.ResourceListChangedNotification()
                | types.PromptListChangedNotification()
            ):
                self._changed.set()

    async def _listen(self, session: _Session) -> None:
        """Servers of the newer protocol report changes only to listeners."""
        offered = session.server_capabilities or types.ServerCapabilities()
        tools, prompts, resources = offered.tools, offered.prompts, offered.resources
        try:
            async with listen(
                session,
                tools_list_changed=bool(tools and tools.list_changed),
                prompts_list_changed=bool(prompts and prompts.list_changed),
                resources_list_changed=bool(resources and resources.list_changed),
            ) as events:
                async for _ in events:
                    self._changed.set()
        except (MCPError, RuntimeError) as error:
            log.info("%s cannot be listened to: %s", self.name, error)

    async def _refresh(self, session: _Session) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                with anyio.fail_after(self._seconds):
                    self._told(await listed(session, self._facts))
            except (MCPError, ValidationError, TimeoutError) as error:
                log.warning("the lists of %s cannot be read: %s", self.name, error)
            await anyio.sleep(REFRESH_SECONDS)

    # The workspace

    async def _list_roots(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the SDK's signature
    ) -> types.ListRootsResult:
        self._asked_roots.set()
        folders = [Path(folder) for folder in self._roots]
        return types.ListRootsResult(
            roots=[types.Root(uri=FileUrl(folder.as_uri()), name=folder.name) for folder in folders]
        )

    async def _enter(self, workspace: str) -> None:
        """Let the server see the workspaces of running calls, if it asks."""
        self._under_way.append(workspace)
        roots = tuple(dict.fromkeys(self._under_way))
        if not self._tells_roots or roots == self._roots:
            return
        self._roots = roots
        session = self._session
        if self._asked_roots.is_set() and session is not None:
            self._asked_roots.clear()
            await session.send_notification(types.RootsListChangedNotification())
            with anyio.move_on_after(ROOTS_SECONDS):
                await self._asked_roots.wait()
                await anyio.sleep(SETTLE_SECONDS)
            self._asked_roots.set()

    # Asking

    async def call_tool(
        self, tool: str, arguments: Mapping[str, Any], workspace: str, output: Callable[[str], None]
    ) -> CallToolResult:
        answer: CallToolResult = await self._asked(
            tool,
            lambda session, progress, more: session.call_tool(
                tool, dict(arguments), progress_callback=progress, allow_input_required=True, **more
            ),
            workspace,
            output,
            effect=True,
        )
        return answer

    async def read_resource(self, uri: str, workspace: str) -> types.ReadResourceResult:
        answer: types.ReadResourceResult = await self._asked(
            uri,
            lambda session, _, more: session.read_resource(uri, allow_input_required=True, **more),
            workspace,
        )
        return answer

    async def get_prompt(
        self, prompt: str, arguments: Mapping[str, str], workspace: str
    ) -> types.GetPromptResult:
        answer: types.GetPromptResult = await self._asked(
            prompt,
            lambda session, _, more: session.get_prompt(
                prompt, dict(arguments), allow_input_required=True, **more
            ),
            workspace,
        )
        return answer

    async def resources(self) -> tuple[list[types.Resource], list[types.ResourceTemplate]]:
        async def ask(session: _Session, _progress: _Progress, _more: dict[str, Any]) -> Any:
            found = await list_all(session.list_resources, lambda page: page.resources)
            templates = await _or_none(
                session.list_resource_templates, lambda page: page.resource_templates, True
            )
            return found, templates

        answer: tuple[list[types.Resource], list[types.ResourceTemplate]] = await self._asked(
            "resources", ask, ""
        )
        return answer

    async def prompts(self) -> list[types.Prompt]:
        answer: list[types.Prompt] = await self._asked(
            "prompts",
            lambda session, *_: list_all(session.list_prompts, lambda page: page.prompts),
            "",
        )
        return answer

    async def _asked(
        self,
        what: str,
        ask: "Ask",
        workspace: str,
        output: Callable[[str], None] = lambda _: None,
        *,
        effect: bool = False,
    ) -> Any:
        """The server's answer. Raises `NotDone`, `OutcomeUnknown` (of an effect) or `ToolError`."""
        if workspace:
            await self._enter(workspace)
        try:
            session = self._session
            if session is None or self._end.is_set():
                raise NotDone(transport_error(self.name, "unsent", "it is gone"))
            with anyio.move_on_after(self._seconds) as silence:
                progress = _Progress(silence, self._seconds, output)
                return await self._rounds(session, ask, progress)
        except MCPError as error:
            raise self._failed(what, error, effect) from None
        except ValidationError as error:
            said = f"{self.name} answered {what}, but violated the protocol: {wrong(error)}"
            raise OutcomeUnknown(said) if effect else ToolError(said) from None
        finally:
            if workspace:
                self._under_way.remove(workspace)
        raise silent(self.name, what, self._seconds, effect)

    async def _rounds(self, session: _Session, ask: "Ask", progress: "_Progress") -> Any:
        """Ask, and answer the server's own requests: only for the workspace."""
        more: dict[str, Any] = {}
        for _ in range(ROUNDS):
            answer = await ask(session, progress, more)
            if not isinstance(answer, InputRequiredResult):
                return answer
            replies = {}
            for key, request in (answer.input_requests or {}).items():
                context = ClientRequestContext(session=session, request_id=key)
                reply = await session.dispatch_input_request(context, request)
                if isinstance(reply, types.ErrorData):
                    raise ToolError(
                        f"{self.name} requests what Hermes does not provide: {request.method}",
                        retry="never",
                    )
                replies[key] = reply
            more = {"input_responses": replies, "request_state": answer.request_state}
        raise ToolError(f"{self.name} keeps sending requests instead of an answer", retry="never")

    def _failed(self, what: str, error: MCPError, effect: bool) -> Exception:
        trouble = trouble_of(error)
        if trouble is None and _no_text(error):
            said = f"{self.name} answered {what}, but not as valid text; check whether it was done"
            return ToolError(said, retry="never")
        if trouble == "lost" or (trouble is None and error.code in _UNREAD):
            if error.code == CONNECTION_CLOSED:
                self._end.set()
            return lost(self.name, what, effect)
        if trouble in ("unsent", "expired", "login"):
            self._end.set()
            return NotDone(transport_error(self.name, trouble, error.message))
        if trouble is not None:
            return transport_error(self.name, trouble, error.message)
        return refused(self.name, what, error)


Ask = Callable[[_Session, "_Progress", dict[str, Any]], Awaitable[Any]]


class _Progress:
    """Reports progress; each report restarts the timeout."""

    def __init__(
        self, silence: anyio.CancelScope, seconds: float, output: Callable[[str], None]
    ) -> None:
        self._silence = silence
        self._seconds = seconds
        self._output = output
        self._count = 0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self._silence.deadline = anyio.current_time() + self._seconds
        self._count += 1
        if self._count <= PROGRESSES:
            far = f"{progress:g}" + (f" of {total:g}" if total else "")
            self._output(f"{far} {first_line(message or '', PROGRESS_CHARS)}".rstrip() + "\n")


async def _negotiate(session: _Session) -> None:
    """Use the newer protocol where the server speaks it, else the older."""
    try:
        await session.discover()
    except MCPError as error:
        if trouble_of(error) is not None or error.code == CONNECTION_CLOSED:
            raise
        await session.initialize()
    except (ValidationError, RuntimeError):
        await session.initialize()


# What a server offers


async def list_all(
    ask: Callable[..., Awaitable[Page]],
    items: Callable[[Page], Sequence[Item]],
    most: int = MAX_TOOLS,
) -> list[Item]:
    """Everything on all pages, up to the page that holds more than `most`."""
    found: list[Item] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = await ask(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        found += items(page)
        cursor = page.next_cursor
        if not cursor or len(found) > most:
            break
    return found


async def listed(session: ClientSession, facts: ServerFacts) -> ServerFacts:
    """The facts, filled in by asking the server."""
    offered = session.server_capabilities or types.ServerCapabilities()
    tools = await _or_none(session.list_tools, lambda page: page.tools, bool(offered.tools))
    prompts = await _or_none(session.list_prompts, lambda page: page.prompts, bool(offered.prompts))
    usable = [_tool(tool) for tool in tools[:MAX_TOOLS] if len(tool.name) <= NAME_CHARS]
    info = session.server_info
    return replace(
        facts,
        title=first_line(f"{info.name} {info.version}", 100) if info else "",
        version=session.protocol_version or "",
        tools=_named_once(usable),
        left_out=len(tools) - len(usable),
        resources=bool(offered.resources) and await _has_resources(session),
        prompts=tuple(signature(prompt) for prompt in prompts[:MAX_PROMPTS]),
    )


def _named_once(tools: Sequence[McpToolFacts]) -> tuple[McpToolFacts, ...]:
    """One tool for each name. A second one shows in the first, which has changed by that."""
    named: dict[str, McpToolFacts] = {}
    for tool in tools:
        first = named.setdefault(tool.name, tool)
        if first != tool:
            more = f"{first.description}\n(a second tool of this name: {tool.description})"
            named[tool.name] = replace(first, description=more)
    return tuple(named.values())


async def _or_none(
    ask: Callable[..., Awaitable[Page]],
    items: Callable[[Page], Sequence[Item]],
    offered: bool,
    most: int = MAX_TOOLS,
) -> list[Item]:
    """Empty where the server does not offer it, even if it says so."""
    if not offered:
        return []
    try:
        return await list_all(ask, items, most)
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return []


async def _has_resources(session: ClientSession) -> bool:
    """Many servers claim to offer resources and have none."""
    if await _or_none(session.list_resources, lambda page: page.resources, True, 0):
        return True
    ask = session.list_resource_templates
    return bool(await _or_none(ask, lambda page: page.resource_templates, True, 0))


def _tool(tool: types.Tool) -> McpToolFacts:
    said: dict[str, Any] = (
        tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    )
    hints = {name: value for name, value in said.items() if isinstance(value, bool)}
    title = tool.title or said.get("title") or ""
    return tool_facts(tool.name, tool.description or title, tool.input_schema, hints)


# Failures, as they are told


def transport_error(name: str, trouble: Trouble, message: str) -> ToolError:
    match trouble:
        case "login":
            return ToolError(f"{name} requires a login", f"`hermes mcp login {name}`", "never")
        case "busy":
            return ToolError(f"{name} is busy ({message})", retry="same")
        case "unsent" | "expired" | "lost":
            return ToolError(f"{name} cannot be reached: {message}", retry="same")
        case "astray":
            return ToolError(
                f"{name} redirects to {message}",
                "a login that is not at the server itself must be at a public https address",
                "never",
            )
        case "refused":
            return ToolError(f"{name} refused: {message}")


def _no_text(error: MCPError) -> bool:
    """Whether a whole answer came that has half of a surrogate pair in it."""
    escape = error.code == PARSE_ERROR and "hex escape" in error.message
    return escape or error.code == UNREADABLE


def refused(name: str, what: str, error: MCPError) -> ToolError:
    said = first_line(error.message, 1_000)
    changed = error.code == INVALID_PARAMS
    return ToolError(f"{name} refused {what}: {said}", retry="changed" if changed else "")


def lost(name: str, what: str, effect: bool) -> HermesError:
    if effect:
        return OutcomeUnknown(f"{name} closed the connection while {what} ran")
    return ToolError(f"{name} closed the connection while it was asked for {what}", retry="same")


def silent(name: str, what: str, seconds: float, effect: bool) -> HermesError:
    said = f"{name} did not answer {what} for {seconds:g} seconds"
    return OutcomeUnknown(said) if effect else ToolError(said, retry="same")


def cause(error: BaseException) -> Exception:
    """The first cause in a group, as an error to report."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, HermesError | MCPError):
        return error
    if isinstance(error, ValidationError):
        return ToolError(f"it violates the protocol: {wrong(error)}")
    return ToolError(f"{type(error).__name__}: {first_line(str(error), 300)}", retry="same")


def wrong(error: ValidationError) -> str:
    """The first validation error."""
    first = error.errors()[0]
    return first_line(f"{error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}", 300)
