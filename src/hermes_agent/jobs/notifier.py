"""Sends results where the job says, and alerts where somebody will see them."""

import logging
from collections.abc import Sequence
from typing import Literal

from hermes_agent.core.errors import Degraded, HermesError
from hermes_agent.core.gateway import Chat
from hermes_agent.core.jobs import Job, Run
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import ALL, LOCAL, ORIGIN, OutboundMessages
from hermes_agent.jobs.messages import title

log = logging.getLogger("hermes.jobs")

Alert = Literal["late", "missed", "failed", "parked", "well"]


_NOWHERE = {
    ORIGIN: "`origin` has no target: the job was not created in a chat (name one: telegram:CHAT)",
    ALL: "`all` has no target: no channel has a home chat (set channels.CHANNEL.home)",
}


class JobNotifier:
    def __init__(self, context: RuntimeContext, outbound: OutboundMessages) -> None:
        self._context = context
        self._outbound = outbound

    def chats(self, job: Job) -> list[Chat]:
        """The chats that get its results."""
        return self._found(job, job.spec.deliver or (ORIGIN,))[0]

    def asked(self, job: Job) -> list[Chat]:
        """The chats in which a run may ask people: those of its results, else the home chats."""
        return self.chats(job) or self._found(job, (ALL,))[0]

    def results(self, job: Job) -> str:
        """Where its results go, in words."""
        if chats := self.chats(job):
            return f"sent to {', '.join(chat.target for chat in chats)}"
        kept = "saved here: `hermes task history` shows them"
        if job.spec.deliver:
            return kept
        channels = sorted(self._context.settings.channels)
        named = [one for one in channels if one in job.spec.prompt.casefold()]
        target = next(iter(named or channels), "CHANNEL")
        return f"{kept}; `hermes task edit {job.id} --deliver {target}` sends them"

    def troubles(self, job: Job) -> list[str]:
        """Targets of a job that lead nowhere. Nobody asked for a built-in job, so it may
        have no chat to go to."""
        optional = {ALL} if job.spec.is_builtin else set()
        asked = [one for one in (*job.spec.deliver, *job.spec.on_failure) if one not in optional]
        return [
            f"job {title(job)}: {why}" for why in self._found(job, tuple(dict.fromkeys(asked)))[1]
        ]

    def _found(self, job: Job, targets: Sequence[str]) -> tuple[list[Chat], list[str]]:
        found: dict[Chat, None] = {}
        wrong = []
        for target in targets:
            try:
                chats = self._outbound.chats([target], job.origin)
            except HermesError as error:
                wrong.append(f"{error.message} ({error.hint})")
                continue
            found |= dict.fromkeys(chats)
            if not chats and target in _NOWHERE:
                wrong.append(_NOWHERE[target])
        return list(found), wrong

    async def result(self, job: Job, run: Run, text: str) -> None:
        for why in self.troubles(job):
            log.warning("run %s was not reported everywhere: %s", run.id, why)
        await self._send(f"run:{run.id}/result", self.chats(job), text, "result")

    async def alert(self, job: Job, run: Run, kind: Alert, text: str) -> None:
        """Sent once per kind and run, however often this is called."""
        log.log(logging.INFO if kind == "well" else logging.WARNING, "%s", text)
        await self._send(f"run:{run.id}/{kind}", self._alerted(job), text, "notice")

    def _alerted(self, job: Job) -> list[Chat]:
        """The chats for alerts. A target that is gone, or results that are only stored, are no
        reason to alert nobody."""
        spec, settings = job.spec, self._context.settings
        origin = (ORIGIN,) if job.origin else ()
        deliver = tuple(one for one in spec.deliver if one != LOCAL)
        own = (spec.on_failure, settings.jobs.alert, deliver, origin)
        for targets in (*own, settings.watch.notify, settings.gateway.announce, (ALL,)):
            found, wrong = self._found(job, targets)
            if found or (targets and not wrong):
                return found
        return []

    async def _send(
        self, key: str, chats: Sequence[Chat], text: str, kind: Literal["result", "notice"]
    ) -> None:
        if not chats:
            return
        try:
            await self._outbound.send(key, chats, text, kind=kind)
        except Degraded:
            raise
        except HermesError as error:
            log.error("%s was not queued: %s", key, error.message)
