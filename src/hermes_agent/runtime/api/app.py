"""The local API: HTTP over the runtime's Unix socket, used by every client."""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from hermes_agent.core import events as ev
from hermes_agent.core.errors import (
    HermesError,
    ModelError,
    NotFound,
    UsageError,
)
from hermes_agent.core.gateway import SessionPlace
from hermes_agent.core.messages import Media, Usage
from hermes_agent.core.records import CostKey, SearchFilter, Session, SessionMessage
from hermes_agent.core.text.consent import consent_view
from hermes_agent.core.version import __version__
from hermes_agent.host import distributions
from hermes_agent.host.responses import body_of, guarded, reply
from hermes_agent.incidents.routes import IncidentApi
from hermes_agent.jobs.routes import JobApi
from hermes_agent.learning.routes import LearningApi
from hermes_agent.models.probe import ModelProbe
from hermes_agent.runtime.api.programs import ProgramApi
from hermes_agent.runtime.imports import Importer
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.runtime.services import Row

MAX_SESSIONS = 100_000
LATEST = 50
"""How many sessions the status looks at."""
RESERVED = ("proof", "agent", "incident", "commander", "job")
"""Message sources that clients may not use."""
KEEP_ALIVE_SECONDS = 15.0
"""Clients reconnect when a stream is silent for longer."""


class NewMessage(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/messages`. Without a session, a new one is opened."""

    text: str
    key: str = ""
    session: str = ""
    workspace: str = ""
    model: str = ""
    policy: str = ""
    name: str = ""
    source: str = "cli"
    interactive: bool = False
    terminals: tuple[str, ...] = ()
    effort: str = ""
    files: tuple[Media, ...] = ()
    tools: tuple[str, ...] = ()
    """Tools and toolsets of a new session; by default those of the settings."""


class ApprovalDecision(msgspec.Struct, forbid_unknown_fields=True):
    decision: str
    by: str = "cli"


class AnswerBody(msgspec.Struct, forbid_unknown_fields=True):
    answer: str
    by: str = "cli"


class _Query(msgspec.Struct, forbid_unknown_fields=True):
    since: float = 0.0
    session: str = ""
    limit: int = 10_000
    after: int = 0


class NewChoice(msgspec.Struct, forbid_unknown_fields=True):
    model: str = ""
    effort: str = ""
    anyway: bool = False
    by: str = "cli"


class Interruption(msgspec.Struct, forbid_unknown_fields=True):
    withdraw: list[str] = []
    """Keys of queued messages to take back before the turn is stopped."""


class NewTrial(msgspec.Struct, forbid_unknown_fields=True):
    model: str = ""
    ask: bool = True
    """False only resolves the model, without calling it."""


class _Costs(msgspec.Struct, forbid_unknown_fields=True):
    by: CostKey = "day"
    since: float = 0.0
    until: float | None = None
    session: str = ""


class NewName(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class RewindBody(msgspec.Struct, forbid_unknown_fields=True):
    message: int = 0
    """The number of a user's message; 0 counts from the end."""
    back: int = 1
    by: str = "cli"


class BranchBody(msgspec.Struct, forbid_unknown_fields=True):
    message: int = 0
    """The number of the user's message before which it ends; 0 means all of it."""
    name: str = ""
    by: str = "cli"


class LocalApi:
    """The routes of one runtime. `stop` ends the process."""

    def __init__(self, runtime: Runtime, stop: Callable[[], None]) -> None:
        self._runtime = runtime
        self._context = runtime.context
        self._store = runtime.context.store
        self._stop = stop
        self._importer = Importer(
            runtime.context, runtime.sessions, runtime.learning, runtime.job_service
        )

    def routes(self) -> list[Route]:
        runtime = self._runtime
        table: tuple[Row, ...] = (
            ("GET", "/v1/status", self.status),
            ("POST", "/v1/stop", self.stop),
            ("POST", "/v1/messages", self.message),
            ("GET", "/v1/sessions", self.sessions),
            ("GET", "/v1/sessions/{id}", self.session),
            ("PATCH", "/v1/sessions/{id}", self.rename),
            ("DELETE", "/v1/sessions/{id}", self.delete),
            ("GET", "/v1/sessions/{id}/journal", self.journal),
            ("GET", "/v1/sessions/{id}/events", self.events),
            ("GET", "/v1/sessions/{id}/prompt", self.prompt),
            ("POST", "/v1/sessions/{id}/interrupt", self.interrupt),
            ("POST", "/v1/sessions/{id}/model", self.choose_model),
            ("GET", "/v1/sessions/{id}/rewind", self.rewind_report),
            ("POST", "/v1/sessions/{id}/rewind", self.rewind),
            ("POST", "/v1/sessions/{id}/branch", self.branch),
            ("GET", "/v1/sessions/{id}/compare", self.compare),
            ("GET", "/v1/sessions/{id}/context", self.context),
            ("POST", "/v1/sessions/{id}/compact", self.compact),
            ("POST", "/v1/models/test", self.test_model),
            ("GET", "/v1/models/health", self.models_health),
            ("GET", "/v1/costs", self.costs),
            ("GET", "/v1/search", self.search),
            ("GET", "/v1/parked", self.parked),
            ("POST", "/v1/parked/{id}", self.decide),
            ("GET", "/v1/questions", self.questions),
            ("GET", "/v1/questions/{id}", self.question),
            ("POST", "/v1/questions/{id}", self.answer),
            ("GET", "/v1/judgements", self.judgements),
            ("GET", "/v1/audit", self.audit),
            ("GET", "/v1/audit/verify", self.verify_audit),
            ("GET", "/v1/check", self.check),
            ("POST", "/v1/backup", self.backup),
            *LearningApi(runtime.context, runtime.sessions, runtime.learning).table(),
            *IncidentApi(runtime.context, runtime.sessions, runtime.incidents).table(),
            *_drift_routes(runtime),
            *JobApi(runtime.context, runtime.sessions, runtime.job_service).table(),
            *self._importer.table(),
            *ProgramApi(runtime).table(),
            *self._runtime.services.table(),
        )
        return [
            Route(path, guarded(handler), methods=[method], name=handler.__name__)
            for method, path, handler in table
        ]

    async def status(self, request: Request) -> Response:
        report = await runtime_status(self._runtime)
        try:
            self._context.refresh_settings()
            report["model"] = self._context.settings.model
            report["policy"] = self._context.settings.policy
            error = self._runtime.gates.trouble()
        except HermesError as invalid:  # by now: the old settings still apply
            error = invalid
        if error is not None and not report["reason"]:
            report |= {"reason": error.message, "hint": error.hint}
        return reply({**report, "version": __version__})

    async def stop(self, request: Request) -> Response:
        self._stop()
        return reply({"stopping": True})

    async def message(self, request: Request) -> Response:
        new = body_of(await request.body(), NewMessage)
        runtime = self._runtime
        if new.source in RESERVED:
            raise UsageError(f"the source {new.source!r} is reserved", "use another name")
        if not new.text.strip() and not new.files:
            raise UsageError("the message is empty", 'say something: hermes ask "…"')
        key = new.key or secrets.token_hex(8)
        place = None if new.session else SessionPlace(new.source)
        await runtime.learning.expect(new.text, place)
        session = await self._session_for(new, key)
        after = await runtime.context.store.last_number(session.id)
        inbound = SessionMessage(key, new.text, new.source, new.interactive, new.files)
        fresh = await runtime.sessions.submit(session, inbound)
        if not fresh:  # sent again: the turn may have begun, or be over
            after = await self._before(session.id, key, after)
        taken = {"session": session.id, "key": key, "after": after, "new": fresh}
        return reply({**taken, "state": session.state}, 202)

    async def _before(self, session: str, key: str, last: int) -> int:
        """The number before a message's place in the journal; `last` when it still waits."""
        for recorded in await self._store.events(session):
            if isinstance(recorded.event, ev.MessageTaken) and recorded.event.key == key:
                return recorded.number - 1
        return last

    async def _session_for(self, new: NewMessage, key: str) -> Session:
        """The session of a message. A repeated message that opened a session finds it again."""
        if new.session:
            self._context.refresh_settings()  # a failed turn may need new ones
            return await self._store.session(new.session)
        if not new.workspace:
            raise UsageError("a new session needs a workspace", "name the folder to work in")
        return await self._runtime.sessions.open_session(
            workspace=new.workspace,
            model=new.model,
            policy=new.policy,
            name=new.name,
            source=new.source,
            key=f"{new.source}:{key}",
            once=True,
            terminals=new.terminals,
            effort=new.effort,
            use=new.tools or None,
        )

    async def sessions(self, request: Request) -> Response:
        limit = min(max(int(request.query_params.get("limit", "50")), 1), MAX_SESSIONS)
        parent = request.query_params.get("parent")
        return reply(await self._store.sessions(limit, parent=parent))

    async def session(self, request: Request) -> Response:
        return reply(await self._session(request))

    async def rename(self, request: Request) -> Response:
        session = await self._session(request)
        name = body_of(await request.body(), NewName).name
        await self._store.rename_session(session.id, name)
        return reply(await self._store.session(session.id))

    async def delete(self, request: Request) -> Response:
        session = await self._session(request)
        left = await self._runtime.sessions.delete_session(session)
        return reply({"deleted": session.id, "left": left})

    async def journal(self, request: Request) -> Response:
        session = await self._session(request)
        after = int(request.query_params.get("after", "0"))
        return reply(await self._store.events(session.id, after))

    async def prompt(self, request: Request) -> Response:
        session = await self._session(request)
        return reply(await self._store.prompt(session.prompt))

    async def events(self, request: Request) -> Response:
        session = await self._session(request)
        after = int(request.query_params.get("after", "0"))
        stream = server_sent(self._runtime.sessions.events(session.id, after))
        return StreamingResponse(stream, media_type="text/event-stream")

    async def interrupt(self, request: Request) -> Response:
        session = await self._session(request)
        sessions, body = self._runtime.sessions, await request.body()
        keys = body_of(body, Interruption).withdraw if body else []
        withdrawn = await sessions.withdraw(session, keys)  # first, or the next turn takes them
        interrupted = await sessions.interrupt(session.id, "cli")
        return reply({"interrupted": interrupted, **({"withdrawn": withdrawn} if keys else {})})

    async def choose_model(self, request: Request) -> Response:
        session = await self._session(request)
        new = body_of(await request.body(), NewChoice)
        self._context.refresh_settings()
        choice = await self._runtime.model_selection.choose(
            session, new.model, new.effort, new.by, new.anyway
        )
        return reply(choice)

    async def rewind_report(self, request: Request) -> Response:
        given = msgspec.convert(dict(request.query_params), RewindBody, strict=False)
        session = await self._session(request)
        return reply(
            await self._runtime.session_history.rewind_report(session, given.message, given.back)
        )

    async def rewind(self, request: Request) -> Response:
        given = body_of(await request.body(), RewindBody)
        session = await self._session(request)
        history = self._runtime.session_history
        return reply(await history.rewind(session, given.message, given.back, given.by))

    async def branch(self, request: Request) -> Response:
        given = body_of(await request.body(), BranchBody)
        session = await self._session(request)
        history = self._runtime.session_history
        return reply(await history.branch(session, given.message, given.name, given.by))

    async def compare(self, request: Request) -> Response:
        session = await self._session(request)
        other = await self._store.session(request.query_params.get("with", ""))
        return reply(await self._runtime.session_history.compare(session, other))

    async def context(self, request: Request) -> Response:
        return reply(await self._runtime.session_history.context(await self._session(request)))

    async def compact(self, request: Request) -> Response:
        self._context.note_activity()
        return reply(await self._runtime.session_history.compact(await self._session(request)))

    async def test_model(self, request: Request) -> Response:
        asked = body_of(await request.body(), NewTrial)
        self._context.note_activity()
        self._context.refresh_settings()
        if not asked.ask:
            return reply({"model": self._runtime.completions.full_name(asked.model)})
        try:
            return reply(await self._runtime.model_selection.test(asked.model))
        except ModelError as error:  # before the call
            report = error.kind, error.message, error.hint
            return reply(ModelProbe(asked.model, False, "", None, 0.0, Usage(), None, (), *report))

    async def models_health(self, request: Request) -> Response:
        return reply(self._runtime.models.health())

    async def costs(self, request: Request) -> Response:
        look = msgspec.convert(dict(request.query_params), _Costs, strict=False)
        self._context.refresh_settings()
        session, store = look.session, self._store
        gone: NotFound | None = None
        try:
            session = (await store.session(session)).id if session else ""
        except NotFound as error:  # the costs of a deleted session are kept under its id
            gone = error
        found = await store.costs(look.by, look.since, look.until, session)
        if gone is not None and not found and not await store.costs("day", 0.0, None, session):
            raise gone
        budgets = self._context.settings.budgets
        today = await self._runtime.completions.spent_today()
        return reply({"costs": found, "today": today, "day_dollars": budgets.day_dollars})

    async def search(self, request: Request) -> Response:
        given = dict(request.query_params)
        query = given.pop("q", "")
        chosen = msgspec.convert(given, SearchFilter, strict=False)
        if chosen.session:
            session = await self._store.session(chosen.session)
            chosen = msgspec.structs.replace(chosen, session=session.id)
        return reply(await self._store.search(query, chosen))

    async def parked(self, request: Request) -> Response:
        return reply(await self._store.parked())

    async def decide(self, request: Request) -> Response:
        decided = body_of(await request.body(), ApprovalDecision)
        effect = request.path_params["id"]
        await self._runtime.sessions.decide(effect, decided.decision, decided.by)
        return reply({"effect": effect, "decision": decided.decision})

    async def questions(self, request: Request) -> Response:
        return reply(await self._store.questions())

    async def question(self, request: Request) -> Response:
        """With the view that every client shows."""
        id = request.path_params["id"]
        found = next((one for one in await self._store.questions() if one.id == id), None)
        if found is None:
            raise NotFound(f"no open question {id!r}", "`hermes approvals` lists the open ones")
        row = msgspec.to_builtins(found)
        return reply({**row, "view": consent_view(row)})

    async def answer(self, request: Request) -> Response:
        given = body_of(await request.body(), AnswerBody)
        id = request.path_params["id"]
        await self._runtime.sessions.answer(id, given.answer, given.by)
        return reply({"id": id, "answer": given.answer})

    async def judgements(self, request: Request) -> Response:
        look = msgspec.convert(dict(request.query_params), _Query, strict=False)
        session = (await self._store.session(look.session)).id if look.session else ""
        return reply(await self._store.judgements(look.since, session, look.limit))

    async def audit(self, request: Request) -> Response:
        look = msgspec.convert(dict(request.query_params), _Query, strict=False)
        return reply(await self._store.audit(look.since, look.session, look.limit, look.after))

    async def verify_audit(self, request: Request) -> Response:
        return reply(await self._store.verify_audit(request.query_params.get("head", "")))

    async def check(self, request: Request) -> Response:
        return reply(await self._store.check())

    async def backup(self, request: Request) -> Response:
        target = Path(request.query_params["to"])
        await self._store.backup(target)
        return reply({"database": str(target)})

    async def _session(self, request: Request) -> Session:
        return await self._store.session(request.path_params["id"])


async def runtime_status(runtime: Runtime) -> dict[str, Any]:
    """What `hermes status` shows of a runtime."""
    health = runtime.context.store.health
    well = health.state == "well"
    return {
        "pid": os.getpid(),
        "state": "stopping" if runtime.sessions.is_stopping else "running" if well else "degraded",
        "reason": health.reason,
        "hint": health.hint,
        "home": str(runtime.context.home.path),
        "model": runtime.context.settings.model,
        "model_variable": runtime.context.environ.get("HERMES_MODEL", ""),
        "policy": runtime.context.settings.policy,
        "uptime": round(runtime.context.clock() - runtime.context.started, 1),
        "working": sorted(runtime.sessions.working),
        "parked": len(await runtime.context.store.parked()) if well else None,
        "questions": len(await runtime.context.store.questions()) if well else None,
        "paused": await _paused(runtime) if well else None,
        "listeners": runtime.context.bus.listeners,
        "learning": await runtime.learning.status() if well else None,
        "watch": await runtime.incidents.status(),
        "jobs": await runtime.jobs.status() if well else None,
        **(await runtime.services.status()),
    }


async def _paused(runtime: Runtime) -> list[str]:
    """The latest sessions that paused at a limit."""
    latest = await runtime.context.store.sessions(LATEST, parent="")
    return [session.id for session in latest if session.state == "paused"]


def _drift_routes(runtime: Runtime) -> Sequence[Row]:
    """Routes of hermes-runtime-drift; when it is not installed, they say so."""
    try:
        routes = distributions.load("hermes_drift.routes")
    except distributions.NotInstalled as error:
        missing = error
    else:
        api = routes.DriftApi(runtime.context, runtime.shells, runtime.learning)
        table: Sequence[Row] = api.table()
        return table

    async def drift_missing(_request: Request) -> Response:
        raise missing

    paths = ("/v1/drift", "/v1/drift/{id}")
    return [(method, path, drift_missing) for method in ("GET", "POST") for path in paths]


def build_app(runtime: Runtime, stop: Callable[[], None]) -> Starlette:
    return Starlette(routes=LocalApi(runtime, stop).routes())


async def server_sent(recorded: AsyncGenerator[ev.Recorded]) -> AsyncIterator[bytes]:
    """Encode events as server-sent events, with keep-alive comments."""
    following: asyncio.Task[ev.Recorded] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(recorded))
            done, _ = await asyncio.wait({following}, timeout=KEEP_ALIVE_SECONDS)
            if not done:
                yield b": still here\n\n"
                continue
            try:
                one = following.result()
            except StopAsyncIteration:
                return
            following = None
            yield b"id: %d\ndata: %s\n\n" % (one.number, ev.encode(one))
    finally:
        if following is not None:
            following.cancel()
            await asyncio.wait({following})
        await recorded.aclose()
