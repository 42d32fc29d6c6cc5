"""Opens the connection to a server by its settings: a local program or a URL."""

import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from mcp import MCPError

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.root import McpServerSettings
from hermes_agent.tools.mcp.catalogue_cache import ServerFacts, settings_key
from hermes_agent.tools.mcp.connection import McpConnection, transport_error
from hermes_agent.tools.mcp.context import McpContext, NotDone
from hermes_agent.tools.mcp.transports.http import remote, trouble_of
from hermes_agent.tools.mcp.transports.oauth import Loopback, Tokens, authorization
from hermes_agent.tools.mcp.transports.stdio import Log, Streams, plain_environment, program

if TYPE_CHECKING:
    import httpx2

for _name in ("mcp", "client"):
    # Errors say what matters; the SDK also logs URLs with codes in them.
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False
_SECRET = re.compile(r"secret:([A-Za-z_][A-Za-z0-9_]*)")


async def open_connection(
    name: str,
    settings: McpServerSettings,
    world: McpContext,
    told: Callable[[ServerFacts], None],
    seconds: float,
    workspace: str = "",
    auth: "httpx2.Auth | None" = None,
) -> tuple[McpConnection, ServerFacts]:
    """A connected server, and what it offers. `workspace` is the first caller's; `auth` that of a
    login in progress."""
    if settings.oauth and auth is None and not _tokens(name, settings, world).read().tokens:
        raise transport_error(name, "login", "")
    for renewed in (False, True):
        try:
            return await _opened(name, settings, world, told, seconds, workspace, auth)
        except NotDone as error:
            tokens = _tokens(name, settings, world)
            if renewed or auth is not None or not settings.oauth or not tokens.expire():
                raise error.told from None
    raise AssertionError("the second failure is raised above")


async def _opened(
    name: str,
    settings: McpServerSettings,
    world: McpContext,
    told: Callable[[ServerFacts], None],
    seconds: float,
    workspace: str,
    auth: "httpx2.Auth | None",
) -> tuple[McpConnection, ServerFacts]:
    log = Log(world.cache.path(name, ".log")) if settings.command else None
    facts = ServerFacts(settings_key(settings), world.clock(), "", "")
    connection = McpConnection(
        name,
        lambda ended: _streams(name, settings, world, log, ended, auth),
        told,
        facts,
        seconds,
        roots=bool(settings.command) and settings.workspace,
        workspace=workspace,
    )
    try:
        return connection, await connection.open()
    except MCPError as error:
        trouble = trouble_of(error)
        if trouble == "login":
            raise NotDone(transport_error(name, trouble, error.message)) from None
        if trouble is not None:
            raise transport_error(name, trouble, error.message) from None
        raise _with_last_words(ToolError(error.message), name, log) from None
    except ToolError as error:
        raise _with_last_words(error, name, log) from None


def _with_last_words(error: ToolError, name: str, log: Log | None) -> ToolError:
    said = log.last_words() if log is not None else ""
    message = f"{name} cannot be used: {error.message}" + (f"; it said: {said}" if said else "")
    hint = error.hint or f"`hermes mcp test {name}`"
    return ToolError(message, hint, error.retry or "same")


def _streams(
    name: str,
    settings: McpServerSettings,
    world: McpContext,
    log: Log | None,
    ended: Callable[[], None],
    auth: "httpx2.Auth | None",
) -> AbstractAsyncContextManager[Streams]:
    def filled(text: str) -> str:
        return _SECRET.sub(lambda found: world.secret(found[1]), text)

    if log is not None:
        added = {key: filled(value) for key, value in settings.environment.items()}
        environ = plain_environment(world.environ, added)
        return _logged(program(settings.command, environ, log, ended), log)
    headers = {key: filled(value) for key, value in settings.headers.items()}
    if auth is None and settings.oauth:
        auth = authorization(_tokens(name, settings, world), settings.url)
    return remote(settings.url, headers, auth)


@asynccontextmanager
async def _logged(
    streams: AbstractAsyncContextManager[Streams], log: Log
) -> AsyncIterator[Streams]:
    try:
        async with streams as pair:
            yield pair
    finally:
        log.close()


def _tokens(name: str, settings: McpServerSettings, world: McpContext) -> Tokens:
    return Tokens(world.token_file(name), settings.url, world.clock, world.learn)


async def log_in(
    name: str,
    settings: McpServerSettings,
    world: McpContext,
    show: Callable[[str, Callable[[str], bool]], None],
    seconds: float,
) -> ServerFacts:
    """Log in again. `show` gets the URL for the browser, and a function that takes a pasted one."""
    page = Loopback()
    redirect = await page.open()
    tokens = _tokens(name, settings, world)
    tokens.forget()  # the redirect URL is new, so the client registers again

    async def shown(address: str) -> None:
        show(address, page.paste)

    try:
        auth = authorization(tokens, settings.url, redirect, shown, page.wait)
        connection, facts = await open_connection(
            name, settings, world, lambda _: None, seconds, auth=auth
        )
        await connection.close()
    finally:
        await page.close()
    return facts
