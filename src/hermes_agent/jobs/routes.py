"""HTTP routes of jobs and runs."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import NotFound
from hermes_agent.core.jobs import ENDED, JobSpec, Run
from hermes_agent.core.ports import Sessions
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.responses import body_of, reply

if TYPE_CHECKING:
    from hermes_agent.jobs.service import Decision, JobService

Handler = Callable[[Request], Awaitable[Response]]

MAX_WAIT = 60.0
POLL_SECONDS = 0.1
MAX_COUNT = 10_000


class NewJob(Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/jobs`."""

    spec: JobSpec
    when: str
    """A cron expression, `every 2h`, `30m`, a time, or plain words."""
    zone: str = ""
    by: str = "cli"
    origin: str = ""
    key: str = ""
    reads_delivery: bool = False
    """The prompt says where results go, unless the spec does."""


class JobChange(Struct, forbid_unknown_fields=True):
    """The body of `PATCH /v1/jobs/{id}`: fields of the job, its schedule, or its state."""

    spec: dict[str, Any] = {}
    when: str = ""
    zone: str = ""
    paused: bool | None = None


class RunDecision(Struct, forbid_unknown_fields=True):
    decision: str
    by: str = "cli"


class JobApi:
    def __init__(self, context: RuntimeContext, sessions: Sessions, jobs: "JobService") -> None:
        self._context = context
        self._sessions = sessions
        self._jobs = jobs

    def table(self) -> tuple[tuple[str, str, Handler], ...]:
        one = "/v1/jobs/{id}"
        return (
            ("GET", "/v1/jobs", self.list_jobs),
            ("POST", "/v1/jobs", self.add),
            ("POST", "/v1/jobs/read", self.read),
            ("GET", "/v1/jobs/check", self.check_jobs),
            ("GET", one, self.job),
            ("PATCH", one, self.change),
            ("DELETE", one, self.remove),
            ("POST", f"{one}/run", self.run_job),
            ("GET", "/v1/runs", self.history),
            ("GET", "/v1/runs/{id}", self.run_of_job),
            ("POST", "/v1/runs/{id}/decide", self.decide_run),
        )

    @property
    def _service(self) -> "JobService":
        self._context.note_activity()
        return self._jobs

    async def list_jobs(self, request: Request) -> Response:
        removed = request.query_params.get("removed") == "true"
        return reply(await self._service.all(removed=removed))

    async def add(self, request: Request) -> Response:
        new = body_of(await request.body(), NewJob)
        shown = await self._service.add(
            new.spec, new.when, new.zone, new.by, new.origin, new.key,
            reads_delivery=new.reads_delivery,
        )  # fmt: skip
        return reply(shown, 201)

    async def read(self, request: Request) -> Response:
        """How `add` would understand the same body; nothing is added."""
        new = body_of(await request.body(), NewJob)
        return reply(self._service.read(new.spec, new.when, new.zone, new.origin))

    async def check_jobs(self, request: Request) -> Response:
        return reply({"faults": await self._service.check()})

    async def job(self, request: Request) -> Response:
        return reply(await self._service.show(request.path_params["id"]))

    async def change(self, request: Request) -> Response:
        change = body_of(await request.body(), JobChange)
        id, service = request.path_params["id"], self._service
        if change.spec or change.when or change.zone:
            shown = await service.edit(id, change.spec, change.when, change.zone)
            id = shown.job.id
        if change.paused is not None:
            await service.set_state(id, "paused" if change.paused else "active")
        return reply(await service.show(id))

    async def remove(self, request: Request) -> Response:
        return reply(await self._service.remove(request.path_params["id"]))

    async def run_job(self, request: Request) -> Response:
        return reply(await self._service.ask(request.path_params["id"]), 202)

    async def history(self, request: Request) -> Response:
        asked = request.query_params
        limit = min(max(int(asked.get("limit", "50")), 1), MAX_COUNT)
        return reply(await self._service.history(asked.get("job", ""), limit))

    async def run_of_job(self, request: Request) -> Response:
        """A run; on request, waits for its end or its session."""
        asked, id = request.query_params, _number(request)
        wait = min(max(float(asked.get("wait", "0")), 0.0), MAX_WAIT)
        deadline, session = time.monotonic() + wait, asked.get("for") == "session"
        self._context.note_activity()
        run = await self._context.store.jobs.run(id)
        while not _is_there(run, session) and time.monotonic() < deadline:
            if self._sessions.is_stopping:
                break
            await asyncio.sleep(POLL_SECONDS)
            run = await self._context.store.jobs.run(id)
        return reply(await self._service.report(run))

    async def decide_run(self, request: Request) -> Response:
        decided = body_of(await request.body(), RunDecision)
        decision: Decision = decided.decision
        return reply(await self._service.decide(_number(request), decision, decided.by))


def _is_there(run: Run, session: bool) -> bool:
    return run.state in ENDED | {"parked"} or (session and bool(run.session))


def _number(request: Request) -> int:
    given = request.path_params["id"]
    if not (given.isascii() and given.isdigit() and len(given) < 18):
        raise NotFound(f"no run {given!r}", "`hermes task history` lists them")
    return int(given)
