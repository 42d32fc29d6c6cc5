"""Routes for programs that use the library while a runtime runs. They are on the Unix socket only,
which nobody but the owner of the home can open."""

from collections.abc import AsyncIterator, Sequence

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.records import Session
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.host.responses import body_of, reply
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.runtime.services import Row
from hermes_agent.runtime.tools.builtin import TABLE
from hermes_agent.runtime.tools.programs import NewProgram, ProgramLink, RelayedTool
from hermes_agent.runtime.tools.selection import EmbeddedTools


class ProgramApi:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def table(self) -> Sequence[Row]:
        return (
            ("POST", "/v1/programs", self.connect),
            ("POST", "/v1/programs/{id}/results", self.finish),
        )

    async def connect(self, request: Request) -> Response:
        program = body_of(await request.body(), NewProgram)
        names = [tool.name for tool in program.tools]
        for name in names:
            if names.count(name) > 1 or (program.builtin and name in TABLE):
                raise UsageError(f"a tool called {name!r} already exists", "rename yours")
        self._runtime.embedded.prune(self._runtime.sessions.working)
        link = await self._link(program.session)
        tools = {tool.name: RelayedTool.of(tool, link) for tool in program.tools}
        embedded = EmbeddedTools(tools, program.granted, program.builtin, link)
        session = await self._runtime.embed(program, embedded)
        return StreamingResponse(self._lines(session, link), media_type="application/x-ndjson")

    async def _link(self, session: str) -> ProgramLink:
        """The session's own link, so that a running turn reaches the program that comes back."""
        if not session:
            return ProgramLink()
        found = await self._runtime.context.store.session(session)
        if found.source != "library" or found.parent:
            raise UsageError(
                f"session {found.id} is not a program's", f"`hermes ask --session {found.id}`"
            )
        known = self._runtime.embedded.get(found.id)
        if known is None or known.link is None:
            return ProgramLink()
        if known.link.connected:
            raise UsageError(
                f"another program is using session {found.id}",
                "wait until it has ended, or open a new session: leave out Agent(session=…)",
            )
        return known.link

    async def _lines(self, session: Session, link: ProgramLink) -> AsyncIterator[bytes]:
        async for line in link.stream(session.id):
            yield msgspec.json.encode(line) + b"\n"
            if line.session:
                await self._runtime.resume(session)

    async def finish(self, request: Request) -> Response:
        id, effect = request.path_params["id"], request.query_params["effect"]
        known = self._runtime.embedded.get(id)
        if known is None or known.link is None:
            raise NotFound(f"no program has session {id!r}", "POST /v1/programs first")
        try:
            result = body_of(await request.body(), ToolResult)
        except ClientDisconnect:  # the program died; its stream ends, too
            return Response()
        known.link.finish(effect, result)
        return reply({"effect": effect})
