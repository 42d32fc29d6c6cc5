"""API routes for incidents, signals and checks."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import UsageError
from hermes_agent.core.incidents import (
    OPEN,
    Signal,
    TimelineEntry,
    WatchedCheck,
)
from hermes_agent.core.ports import Sessions
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.responses import body_of, reply
from hermes_agent.incidents.alerts.ingest import OutsideSignal

if TYPE_CHECKING:
    from hermes_agent.incidents.monitoring.wording import ProposedCheck
    from hermes_agent.incidents.service import IncidentService

Handler = Callable[[Request], Awaitable[Response]]

MAX_WAIT = 60.0
POLL_SECONDS = 0.2
MAX_COUNT = 1_000


class NewSignal(OutsideSignal, forbid_unknown_fields=True):
    """A signal from the owner of the home, who may also name a terminal, a policy and a check."""

    terminal: str = ""
    policy: str = ""
    source: Literal["person", "drill"] = "person"
    check: WatchedCheck | None = None

    def signal(self) -> Signal:
        made = super().signal()
        return replace(
            made, source=self.source, terminal=self.terminal, policy=self.policy,
            check=self.check, fingerprint=self.fingerprint or made.fingerprint,
        )  # fmt: skip


class Closing(Struct, forbid_unknown_fields=True):
    why: str
    by: str = "cli"


class Proposing(Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/checks/propose`: without words, what runs is looked at."""

    words: str = ""
    name: str = ""
    terminal: str = ""


class IncidentApi:
    def __init__(
        self, context: RuntimeContext, sessions: Sessions, incidents: "IncidentService"
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._service = incidents

    def table(self) -> tuple[tuple[str, str, Handler], ...]:
        one = "/v1/incidents/{id}"
        return (
            ("GET", "/v1/incidents", self.list_incidents),
            ("POST", "/v1/incidents", self.declare),
            ("GET", one, self.incident),
            ("GET", f"{one}/timeline", self.timeline),
            ("POST", f"{one}/close", self.close),
            ("GET", f"{one}/report", self.report),
            ("POST", f"{one}/outcome", self.outcome),
            ("POST", "/v1/signals", self.signal),
            ("POST", "/v1/signals/{kind}", self.alerts),
            ("GET", "/v1/checks", self.checks),
            ("POST", "/v1/checks/propose", self.propose),
            ("POST", "/v1/checks/jobs", self.add_jobs),
            ("POST", "/v1/checks/{name}/run", self.run_check),
        )

    @property
    def _incidents(self) -> "IncidentService":
        self._context.note_activity()
        return self._service

    async def list_incidents(self, request: Request) -> Response:
        asked = request.query_params
        open = {"true": True, "false": False}.get(asked.get("open", ""))
        limit = min(max(int(asked.get("limit", "50")), 1), MAX_COUNT)
        store = self._context.store.incidents
        return reply(await store.incidents(open=open, limit=limit, source=asked.get("source", "")))

    async def declare(self, request: Request) -> Response:
        signal = body_of(await request.body(), NewSignal).signal()
        taken = await self._incidents.intake.raise_signal(signal)
        return reply(await self._context.store.incidents.incident(taken.incident), 202)

    async def incident(self, request: Request) -> Response:
        id, store = request.path_params["id"], self._context.store.incidents
        return reply(
            {
                "incident": await store.incident(id),
                "timeline": await store.timeline(id),
                "notices": await store.notices(incident=id),
                "signals": await store.signals(incident=id),
            }
        )

    async def timeline(self, request: Request) -> Response:
        """Entries after a number; with `wait`, waits for the first."""
        asked = request.query_params
        id, after = request.path_params["id"], int(asked.get("after", "0"))
        wait = min(max(float(asked.get("wait", "0")), 0.0), MAX_WAIT)
        store, deadline = self._context.store.incidents, time.monotonic() + wait
        self._context.note_activity()
        found: list[TimelineEntry] = list(await store.timeline(id, after))
        while not found and time.monotonic() < deadline and not self._sessions.is_stopping:
            await asyncio.sleep(POLL_SECONDS)
            found = list(await store.timeline(id, after))
        return reply({"incident": await store.incident(id), "timeline": found})

    async def close(self, request: Request) -> Response:
        from hermes_agent.incidents.notifications import closed_text

        closing = body_of(await request.body(), Closing)
        why = self._context.redact(closing.why.strip())
        if not why:
            raise UsageError("say why it is closed", "`hermes incidents close ID --why …`")
        id, incidents = request.path_params["id"], self._incidents
        before = await self._context.store.incidents.incident(id)
        if before.state not in OPEN | {"escalated"}:
            raise UsageError(f"{id} is {before.state} already", "`hermes incidents` lists them")
        closed = await self._context.store.incidents.change(
            id,
            [("closed", f"closed by {closing.by}: {why}", {"by": closing.by, "why": why})],
            incidents.notices_for(before, "closed", 1, closed_text(before, why)),
            OPEN | {"escalated"},
            state="closed",
        )
        incidents.wake()
        return reply(closed)

    async def report(self, request: Request) -> Response:
        from hermes_agent.incidents.reports.markdown import markdown
        from hermes_agent.incidents.reports.report import report

        made = await report(self._incidents.backend, request.path_params["id"])
        if request.query_params.get("form") == "markdown":
            text = self._context.redact(markdown(made))
            return reply({"incident": made.incident, "text": text})
        return reply(made)

    async def outcome(self, request: Request) -> Response:
        from hermes_agent.incidents.reports.closeout import DrillOutcome, drilled

        outcome = body_of(await request.body(), DrillOutcome)
        return reply(await drilled(self._incidents.backend, request.path_params["id"], outcome))

    async def signal(self, request: Request) -> Response:
        signal = body_of(await request.body(), NewSignal).signal()
        return reply(await self._incidents.intake.raise_signal(signal), 202)

    async def alerts(self, request: Request) -> Response:
        kind, body = request.path_params["kind"], await request.body()
        return reply({"taken": await self._incidents.intake.raise_alerts(kind, body)}, 202)

    async def checks(self, request: Request) -> Response:
        scheduler = self._incidents.scheduler
        checks = await scheduler.statuses()
        loaded = scheduler.loaded
        return reply(
            {
                "checks": checks,
                "logs": loaded.logs,
                "problems": await self._incidents.problems(),
                "troubles": self._incidents.troubles,
            }
        )

    async def propose(self, request: Request) -> Response:
        """Checks that a person may agree to; each was tried."""
        asked, incidents = body_of(await request.body(), Proposing), self._incidents
        proposals = incidents.proposals
        found: list[ProposedCheck]
        skipped: list[str] = []
        if asked.words:
            found = [await proposals.read(asked.words, asked.terminal, asked.name)]
        else:
            known = await incidents.watched()
            found, skipped = await proposals.discover(known, asked.terminal)
        redact = self._context.redact
        found = [replace(one, detail=redact(one.detail)) for one in found]
        return reply({"checks": found, "skipped": [redact(one) for one in skipped]})

    async def add_jobs(self, request: Request) -> Response:
        """Have the jobs that run the checks, if nobody removed them."""
        await self._incidents.add_jobs()
        return reply({})

    async def run_check(self, request: Request) -> Response:
        done = await self._incidents.scheduler.run_check(request.path_params["name"])
        redact = self._context.redact
        return reply(replace(done, detail=redact(done.detail), output=redact(done.output)))
