"""The tools and resources of the MCP server. Each is a request to the runtime."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import getdoc
from typing import Any, Literal, ParamSpec, TypeVar

import msgspec
from anyio.to_thread import run_sync
from mcp.server.mcpserver import MCPServer, RequestStateSecurity
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.types import CallToolResult, ElicitResult, InputRequiredResult, ToolAnnotations

from hermes_agent.cli.client.api import RuntimeClient, quoted
from hermes_agent.cli.client.follower import reach, send
from hermes_agent.cli.mcp.serve.text import (
    as_text,
    error_result,
    last_turn,
    page_of,
    result,
    turn_result,
)
from hermes_agent.cli.mcp.serve.turn import (
    McpContext,
    ServedCall,
    ServedCalls,
    ServedTurn,
    TurnCursor,
    answer,
    cancels_by_disconnect,
    client_name,
)
from hermes_agent.cli.output.consent import question_lines
from hermes_agent.cli.output.formatting import moment
from hermes_agent.cli.output.sessions import found_text, sessions_text
from hermes_agent.cli.output.transcript import markdown
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.version import __version__

INSTRUCTIONS = (
    "Hermes is an agent that works on this machine, with its files, programs and memory of past "
    "sessions. `ask` gives it a task and waits; for long work use wait=false and `answer` later. "
    "What needs its user's approval is asked for, or refused and named in the result."
)
ANSWER_SECONDS = 86_400.0
"""How long a client may take to return with an answer; the question itself expires sooner."""
SHOWN = (
    "id", "name", "title", "state", "model", "workspace", "created", "updated", "messages", "cost",
    "parent",
)  # fmt: skip
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ACTS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)

Row = dict[str, Any]
P = ParamSpec("P")
R = TypeVar("R")


def build_server(api: RuntimeClient, workspace: str, leaving: Callable[[], bool]) -> MCPServer[Any]:
    """Build the server. New sessions work in `workspace`; `leaving` says that the server is
    shutting down, so a lost connection is not a client's cancellation."""
    calls = ServedCalls(api)
    tools = Tools(api, workspace, calls, leaving)
    server: MCPServer[Any] = MCPServer(
        "hermes",
        title="Hermes",
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        middleware=[calls],
        request_state_security=RequestStateSecurity.ephemeral(ttl=ANSWER_SECONDS),
    )
    server.add_tool(tools.ask, description=getdoc(tools.ask), annotations=ACTS)
    reading = (
        tools.answer, tools.search, tools.sessions, tools.session, tools.skills, tools.cost,
    )  # fmt: skip
    for tool in reading:
        server.add_tool(tool, description=getdoc(tool), annotations=READS)
    server.resource(
        "hermes://sessions",
        name="sessions",
        description="The newest sessions",
        mime_type="application/json",
    )(tools.sessions_resource)
    server.resource(
        "hermes://sessions/{id}",
        name="session",
        description="The messages and calls of a session, by its id or name",
        mime_type="text/markdown",
    )(tools.session_resource)
    return server


def safe_tool(act: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R | CallToolResult]]:
    """Turns an expected error into a result that says what is wrong and what to do."""

    @wraps(act)
    async def wrapped(*args: P.args, **kwargs: P.kwargs) -> R | CallToolResult:
        try:
            return await act(*args, **kwargs)
        except HermesError as error:
            return error_result(error)

    return wrapped


def can_ask(context: McpContext) -> bool:
    """Whether the client can show its user a form."""
    able = context.client_capabilities
    way = able.elicitation if able is not None else None
    return way is not None and (way.form is not None or way.url is None)


class Tools:
    def __init__(
        self, api: RuntimeClient, workspace: str, calls: ServedCalls, leaving: Callable[[], bool]
    ) -> None:
        self._api = api
        self._workspace = workspace
        self._calls = calls
        self._leaving = leaving

    @safe_tool
    async def ask(
        self,
        context: McpContext,
        prompt: str,
        session: str = "",
        workspace: str = "",
        model: str = "",
        wait: bool = True,
    ) -> CallToolResult | InputRequiredResult:
        """Give Hermes a task or a question; returns its answer and the session.

        `session` continues an earlier one; `workspace` (a folder) and `model` are for a new one.
        With wait=false it returns at once; `answer` gets the result later.
        """
        asks = wait and can_ask(context)
        with self._calls.waiting(context) as call:
            try:
                cursor = await self._resumed(context)
                if cursor is None:
                    message = self._message(prompt, session, workspace, model)
                    cursor = await self._submit({**message, "interactive": asks}, call)
                if not wait:
                    text = f"working in session {cursor.session}; `answer` gets the result"
                    return result(text, {"session": cursor.session, "state": "running"})
                return await ServedTurn(self._api, context, call, cursor, asks=asks).follow()
            except asyncio.CancelledError:
                if cancels_by_disconnect(context) and not self._leaving():
                    await self._calls.stop(call)
                raise

    def _message(self, prompt: str, session: str, workspace: str, model: str) -> dict[str, object]:
        if session and (workspace or model):
            raise UsageError(
                "a session keeps its workspace and model", "leave out `session` for a new one"
            )
        folder = os.path.expanduser(workspace) or self._workspace
        if not session and not workspace and folder == "/":
            # Clients start servers anywhere; a session in / would own the machine.
            raise UsageError(
                "this server was started in /, which cannot be a workspace",
                "name a folder in `workspace`, or start it with --workspace",
            )
        if not session and not os.path.isabs(folder):
            raise UsageError(f"not an absolute path: {workspace!r}", "name the whole path")
        return {
            "key": os.urandom(16).hex(),
            "text": prompt,
            "session": session,
            "workspace": folder,
            "model": model or os.environ.get("HERMES_MODEL", ""),
            "policy": os.environ.get("HERMES_POLICY", ""),
            "source": "mcp",
        }

    async def _submit(self, message: dict[str, object], call: ServedCall) -> TurnCursor:
        sent = await run_sync(send, self._api, message)
        call.session, call.ours = sent["session"], sent["state"] in ("idle", "paused")
        if call.cancelled:  # while it was being submitted
            await self._calls.stop(call)
        return TurnCursor(sent["session"], sent["key"], sent["after"])

    async def _resumed(self, context: McpContext) -> TurnCursor | None:
        """The cursor of a client that returns with answers; None for a new request."""
        if context.request_state is None:
            return None
        cursor = msgspec.json.decode(context.request_state, type=TurnCursor)
        rows = await self._reach(lambda: self._api.get("/v1/questions"))
        for id, said in (context.input_responses or {}).items():
            question = next((row for row in rows if row["id"] == id and id in cursor.asked), None)
            if question is not None and isinstance(said, ElicitResult):
                problem = await answer(self._api, question, said, client_name(context))
                if problem:
                    cursor = msgspec.structs.replace(cursor, reported=cursor.reported + 1)
                    await context.report_progress(cursor.reported, message=problem)
        return cursor

    @safe_tool
    async def answer(self, session: str) -> CallToolResult:
        """The last answer of a session, or its state."""
        row = await self._session(session)
        journal = await self._journal(row)
        if row["state"] in ("idle", "paused"):
            outcome = last_turn(row["id"], journal)
            if outcome is None:
                raise NotFound("the session has no answer yet", "`ask` with it")
            return turn_result(outcome)
        lines = [f"session {row['id']} is {row['state']}"]
        if row["state"] == "waiting":
            for question in await self._reach(lambda: self._api.get("/v1/questions")):
                if question["session"] == row["id"]:
                    lines += question_lines(question)
            lines.append("hint: its user answers with `hermes approvals`")
        if row["state"] == "parked":
            lines.append("hint: its user decides with `hermes parked`")
        return result("\n".join(lines), {"session": row["id"], "state": row["state"]})

    @safe_tool
    async def search(
        self,
        query: str,
        session: str = "",
        role: Literal["", "user", "assistant", "tool"] = "",
        since: str = "",
        limit: int = 20,
    ) -> CallToolResult:
        """Search all sessions. All words must match; `disk*` matches by prefix, `"a b"` exactly.
        `since` is 2d, 3h or a date."""
        if not query.strip():
            raise UsageError("nothing to search for", "name words in `query`")
        asked = {
            "q": query,
            "session": session,
            "role": role,
            "since": moment(since, time.time()) if since else None,
            "limit": _between(limit, 1, 200),
        }
        rows = await self._reach(lambda: self._api.get("/v1/search", **asked))
        return result(found_text(rows), {"found": rows})

    @safe_tool
    async def sessions(self, limit: int = 20) -> CallToolResult:
        """The newest sessions: id, state, last use, cost, name."""
        rows = await self._rows(_between(limit, 1, 500))
        return result(sessions_text(rows, time.time()), {"sessions": [_shown(row) for row in rows]})

    @safe_tool
    async def session(self, id: str, after: int = 0, limit: int = 50) -> CallToolResult:
        """The messages and calls of a session, oldest first; `after` continues after a page."""
        row = await self._session(id)
        text, data = page_of(await self._journal(row), after, _between(limit, 1, 500))
        return result(text, {**_shown(row), **data})

    @safe_tool
    async def skills(self, name: str = "") -> CallToolResult:
        """The procedures that Hermes knows; with `name`, the text of one. `ask` with the prompt
        `/NAME arguments` follows it."""
        if name:
            page = await self._reach(lambda: self._api.get(f"/v1/skills/{quoted(name)}"))
            return result(page["text"], page)
        rows = await self._reach(lambda: self._api.get("/v1/skills"))
        lines = [f"{row['name']} ({row['state']}): {row['description']}" for row in rows]
        return result("\n".join(lines) or "no skills", {"skills": rows})

    @safe_tool
    async def cost(
        self,
        by: Literal["day", "session", "job", "model", "service", "use"] = "day",
        since: str = "30d",
        session: str = "",
    ) -> CallToolResult:
        """What was spent, in dollars."""
        asked = {"by": by, "since": moment(since, time.time()), "session": session}
        found = await self._reach(lambda: self._api.get("/v1/costs", **asked))
        return result(as_text(found), found)

    async def sessions_resource(self) -> str:
        try:
            return as_text([_shown(row) for row in await self._rows(100)])
        except HermesError as error:
            raise ResourceError(str(error)) from None

    async def session_resource(self, id: str) -> str:
        try:
            row = await self._session(id)
            return markdown(row, await self._journal(row))
        except NotFound as error:
            raise ResourceNotFoundError(str(error)) from None
        except HermesError as error:
            raise ResourceError(str(error)) from None

    async def _rows(self, limit: int) -> list[Row]:
        path = f"/v1/sessions?parent=&limit={limit}"  # without children, as `hermes sessions`
        rows: list[Row] = await self._reach(lambda: self._api.get(path))
        return rows

    async def _session(self, reference: str) -> Row:
        return await run_sync(reach, self._api, lambda: self._api.session(reference))

    async def _journal(self, row: Row) -> list[Row]:
        return await run_sync(reach, self._api, lambda: self._api.journal(row["id"]))

    async def _reach(self, act: Callable[[], Any]) -> Any:
        return await run_sync(reach, self._api, act)


def _between(number: int, least: int, most: int) -> int:
    return min(max(number, least), most)


def _shown(row: Row) -> Row:
    return {name: row[name] for name in SHOWN}
