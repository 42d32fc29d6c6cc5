"""Builds and runs the parts for incidents: monitoring, alerts, notices and the commander. No part
is built before there is a check, a listener or a signal."""

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hermes_agent.agent.completions import Completions
from hermes_agent.core import events as ev
from hermes_agent.core.effects import Actor
from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import (
    NEVER,
    Incident,
    MonitoredService,
    NewNotice,
    Notice,
    NoticeKind,
    WatchedCheck,
)
from hermes_agent.core.messages import Prompt, Request, UserMessage
from hermes_agent.core.ports import Sessions, SwitchModel
from hermes_agent.core.supervise import every, supervise
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import ALL, LOCAL, OutboundMessages
from hermes_agent.host.policy_shell import PolicyShells
from hermes_agent.learning.service import Learning

if TYPE_CHECKING:
    from hermes_agent.incidents.alerts.ingest import Intake
    from hermes_agent.incidents.alerts.listener import AlertListener
    from hermes_agent.incidents.backend import IncidentBackend
    from hermes_agent.incidents.commander import Commander
    from hermes_agent.incidents.monitoring.config import Watched
    from hermes_agent.incidents.monitoring.logs import LogReader
    from hermes_agent.incidents.monitoring.proposals import CheckProposals
    from hermes_agent.incidents.monitoring.runner import CheckRunner
    from hermes_agent.incidents.monitoring.scheduler import CheckOutcome, CheckScheduler
    from hermes_agent.incidents.monitoring.wording import ProposedCheck
    from hermes_agent.incidents.notifications import IncidentNotifications
    from hermes_agent.incidents.reports.daily import Briefing
    from hermes_agent.policy.files.schema import PolicyProblem

log = logging.getLogger("hermes.incidents")

POLL_SECONDS = 1.0
"""How often a home without checks is polled for them."""
RETRY_SECONDS = 5.0
HEALTH, AUDIT, BRIEFING = "builtin:health", "builtin:audit", "builtin:briefing"
WATCH_JOBS = {
    HEALTH: ("every 5m", LOCAL), AUDIT: ("0 * * * *", LOCAL), BRIEFING: ("0 8 * * *", ALL),
}  # fmt: skip
"""The three levels of checks: when they run, and where their results go."""


async def _charged(_tokens: int, _dollars: float | None) -> None:
    """The day's budget is the only one."""


class IncidentService:
    def __init__(
        self,
        context: RuntimeContext,
        sessions: Sessions,
        completions: Completions,
        switch_model: SwitchModel,
        shells: PolicyShells,
        outbound: OutboundMessages,
        learning: Learning,
        have_jobs: Callable[[Mapping[str, tuple[str, str]]], Awaitable[None]],
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._completions = completions
        self._switch_model = switch_model
        self._shells = shells
        self._outbound = outbound
        self._learning = learning
        self._add_jobs = have_jobs
        self._wanted = False
        self._store_checked = False
        self._woken = asyncio.Event()
        self._topology_problems: tuple[PolicyProblem, ...] = ()

    # parts

    @cached_property
    def _runner(self) -> "CheckRunner":
        from hermes_agent.incidents.monitoring.runner import CheckRunner

        return CheckRunner(self._context, self._shells)

    @cached_property
    def scheduler(self) -> "CheckScheduler":
        from hermes_agent.incidents.monitoring.config import CheckFiles
        from hermes_agent.incidents.monitoring.scheduler import CheckScheduler

        return CheckScheduler(
            CheckFiles(self._context.home.path / "checks"),
            self._context.store.incidents,
            run=self.run_check,
            raise_signal=self.intake.raise_signal,
            redact=self._context.redact,
            clock=self._context.clock,
        )

    @cached_property
    def proposals(self) -> "CheckProposals":
        from hermes_agent.incidents.monitoring.proposals import CheckProposals

        return CheckProposals(self._runner, self._ask_for_check)

    async def _ask_for_check(self, words: str) -> "ProposedCheck":
        """One completion of the configured model."""
        from hermes_agent.incidents.monitoring import proposals

        self._context.refresh_settings()
        try:
            model = self._completions.full_name("")
        except HermesError as error:
            raise proposals.no_model(words, error) from None
        asked = UserMessage(self._context.redact(words))
        request = Request(Prompt(proposals.PROMPT), (asked,), max_output=proposals.ANSWER_TOKENS)
        reply = await self._completions.answer("main", model, request, (), _charged)
        return proposals.answered(words, reply.text, reply.model or model)

    @cached_property
    def intake(self) -> "Intake":
        from hermes_agent.incidents.alerts.ingest import Intake

        return Intake(
            self._context.store.incidents,
            window=lambda: self._context.settings.watch.window,
            topology=self.topology,
            checks=self._checks,
            notices=self.notices_for,
            redact=self._context.redact,
            wake=self.wake,
            clock=self._context.clock,
        )

    @cached_property
    def notices(self) -> "IncidentNotifications":
        from hermes_agent.incidents.notifications import (
            IncidentNotifications,
            NoticeLog,
            NoticeWebhook,
        )

        log_file = self._context.home.path / "incidents" / "notices.log"
        return IncidentNotifications(
            self._context.store.incidents,
            {
                "terminal": self._publish,
                "log": NoticeLog(log_file).send,
                "webhook": NoticeWebhook(lambda: self._context.settings.watch.webhook).send,
                "post": self._enqueue,
            },
            notices=self.notices_for,
            clock=self._context.clock,
            random=random.random,
        )

    @cached_property
    def logs(self) -> "LogReader":
        from hermes_agent.incidents.monitoring.logs import LogReader

        return LogReader(
            self._context.store.incidents,
            patterns=lambda: self.scheduler.loaded.logs,
            raise_signal=self.intake.raise_signal,
            refusal=self._runner.refusal,
            clock=self._context.clock,
        )

    @cached_property
    def briefing(self) -> "Briefing":
        from hermes_agent.incidents.reports.daily import Briefing

        return Briefing(
            self._context.home.path / "incidents",
            self._context.store.incidents,
            statuses=self.scheduler.statuses,
            troubles=lambda: self.troubles,
            clock=self._context.clock,
        )

    @cached_property
    def listener(self) -> "AlertListener":
        from hermes_agent.incidents.alerts.listener import AlertListener

        return AlertListener(self._context, self.intake)

    @cached_property
    def backend(self) -> "IncidentBackend":
        from hermes_agent.incidents.backend import IncidentBackend

        return IncidentBackend(
            self._context, self._sessions, self._completions, self._switch_model, self._learning,
            self,
        )  # fmt: skip

    @cached_property
    def commander(self) -> "Commander":
        from hermes_agent.incidents.commander import Commander

        return Commander(self.backend)

    # life

    async def run(self) -> None:
        """Wait until there is something to do, then run all parts."""
        while not await self._is_wanted():
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._woken.wait()
        await self._runner.clear()
        parts = (
            self.scheduler.run, self.logs.run, self.notices.run, self._have_jobs,
            self.listener.run, self.commander.run,
        )  # fmt: skip
        await asyncio.gather(
            *(supervise("a part of the monitoring", one, every(RETRY_SECONDS)) for one in parts)
        )

    async def _have_jobs(self) -> None:
        await self.add_jobs()
        await asyncio.Event().wait()

    async def add_jobs(self) -> None:
        """The schedules are jobs, which people may change, pause and remove."""
        self._wanted = True
        self._woken.set()
        await self._add_jobs(WATCH_JOBS)

    def builtins(self) -> dict[str, Callable[[], Awaitable[str]]]:
        """The functions of those jobs."""

        async def with_checks(level: str, write: Callable[[], Awaitable[str]]) -> str:
            checked = await self.scheduler.run_level(level)
            return "\n\n".join(filter(None, (checked, await write())))

        return {
            HEALTH: lambda: self.scheduler.run_level("critical"),
            AUDIT: lambda: with_checks("hourly", self.briefing.write_audit),
            BRIEFING: lambda: with_checks("daily", self.briefing.write_briefing),
        }

    async def _is_wanted(self) -> bool:
        if not self._wanted and await self._something_to_do():
            self._wanted = True
        return self._wanted  # `wake` may have been called meanwhile

    async def _something_to_do(self) -> bool:
        self._context.reload_if_changed()
        if self._context.settings.watch.listen:
            return True
        checks = self._context.home.path / "checks"
        if checks.is_dir() and any(checks.iterdir()):
            return True
        if self._store_checked:  # new signals wake us
            return False
        try:
            store = self._context.store.incidents
            left = bool(await store.notices(due=NEVER) or await store.incidents(limit=1))
            self._store_checked = True
        except HermesError:  # the store is degraded, which is reported elsewhere
            return False
        return left

    def wake(self) -> None:
        """Something was raised or changed."""
        self._wanted = True
        self._woken.set()
        self.notices.wake()
        self.commander.wake()

    def wake_notices(self) -> None:
        self.notices.wake()

    @property
    def busy(self) -> bool:
        """Whether the runtime is needed: something is watched or in progress."""
        if not self._wanted:
            return False
        loaded = self.scheduler.loaded
        listening = bool(self._context.settings.watch.listen)
        open = self.notices.open > 0 or self.notices.unsent or self.commander.busy
        return bool(loaded.checks or loaded.logs) or listening or open

    # for other parts

    async def run_check(
        self, check: WatchedCheck, policy: str = "", actor: Actor | None = None
    ) -> "CheckOutcome":
        """Run a check now, in a new shell on its terminal, through the gate."""
        return await self._runner.run(check, policy, actor)

    async def topology(self, terminal: str = "") -> Sequence[MonitoredService]:
        """Services from the topology file, the checks, and earlier incidents. For the terminal of a
        drill: only the services of that drill."""
        from hermes_agent.incidents.monitoring.topology import DRILL, load_drill, together

        home, said = self._context.home.path, self.scheduler.loaded.services
        if terminal.startswith(DRILL):
            inside = await asyncio.to_thread(load_drill, home, terminal)
            return together(inside, [one for one in said if one.terminal == terminal])
        declared = await self._declared()
        real = [one for one in said if not one.terminal.startswith(DRILL)]
        return together(declared, real, await self._context.store.incidents.services())

    async def _declared(self) -> Sequence[MonitoredService]:
        from hermes_agent.incidents.monitoring.topology import load

        declared, self._topology_problems = await asyncio.to_thread(load, self._context.home.path)
        return declared

    async def problems(self) -> "list[PolicyProblem]":
        """Problems in the check files and the topology, with paths relative to the home."""
        await self.scheduler.reload()
        await self._declared()
        return self._problems()

    def _problems(self) -> "list[PolicyProblem]":
        checks = [replace(one, path=f"checks/{one.path}") for one in self.scheduler.loaded.problems]
        return [*checks, *self._topology_problems]

    async def watched(self) -> Sequence[WatchedCheck]:
        """All current checks."""
        return [one.check for one in await self._checks()]

    async def _checks(self) -> "Sequence[Watched]":
        return (await self.scheduler.reload()).checks

    def notices_for(
        self, incident: Incident, kind: NoticeKind, number: int, text: str
    ) -> Sequence[NewNotice]:
        """A notice for each channel of an incident."""
        from hermes_agent.incidents.notifications import notices_for

        settings = self._context.settings.watch
        return notices_for(incident, kind, number, text, settings.webhook, settings.notify)

    async def _enqueue(self, notice: Notice, _incident: Incident) -> None:
        """Put a notice in the gateway's outbox, where its key is there at most once."""
        from hermes_agent.incidents.notifications import POST, key_of

        chats = self._outbound.chats([notice.channel.removeprefix(f"{POST}:")])
        await self._outbound.send(f"incident/{key_of(notice)}", chats, notice.text, kind="notice")

    async def _publish(self, notice: Notice, _incident: Incident) -> None:
        event = ev.NoticeIssued(notice.text, "info" if notice.kind == "progress" else "warning")
        self._context.bus.publish(ev.Recorded("", 0, self._context.clock(), event))

    # status

    @property
    def troubles(self) -> list[str]:
        """What does not work now, in sentences."""
        wrong = self._problems() if self._wanted else self._topology_problems
        found = [f"{one} ({one.hint})" for one in wrong]
        if not self._wanted:
            return found
        found += [f"the log {path}: {why}" for path, why in self.logs.missing.items()]
        found += [f"the log of {name}: {why}" for name, why in self.logs.refused.items()]
        found += [self.listener.trouble] if self.listener.trouble else []
        found += [f"the team was not notified: {dead}" for dead in self.notices.dead]
        return found

    async def status(self) -> dict[str, Any]:
        if os.path.lexists(self._context.home.path / "topology.yaml"):
            await self._declared()
        if not await self._is_wanted():
            return {"checks": 0, "failing": [], "open": 0, "troubles": self.troubles}
        store = self._context.store.incidents
        try:
            checks = await self.scheduler.statuses()
            open = await store.incidents(open=True, limit=1_000)
            ended = await store.incidents(open=False, limit=1_000)
        except HermesError:  # the store cannot be read, which is reported elsewhere
            count = len((await self.scheduler.reload()).checks)
            return {"checks": count, "failing": None, "open": None, "troubles": self.troubles}
        return {
            "checks": len(checks),
            "failing": [one.name for one in checks if one.state.ok is False],
            "open": len(open),
            "incidents": [one.id for one in open],
            "escalated": [
                one.id for one in ended if one.state == "escalated" and one.source != "drill"
            ],
            "logs": len(self.scheduler.loaded.logs),
            "listening": self.listener.address,
            "given_up": len(self.notices.dead),
            "troubles": self.troubles,
        }
