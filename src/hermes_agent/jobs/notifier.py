"""Sends results where the job says, and alerts where somebody will see them."""

import logging
from collections.abc import Sequence
from typing import Literal

from hermes_agent.core.errors import Degraded, HermesError
from hermes_agent.core.gateway import Chat, DeliveryState
from hermes_agent.core.jobs import Job, Run
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import ALL, LOCAL, ORIGIN, OutboundMessages, is_on

log = logging.getLogger("hermes.jobs")

Alert = Literal["late", "missed", "failed", "parked", "well"]


_STATES: dict[DeliveryState, str] = {
    "waiting": "waiting to be sent to",
    "sending": "waiting to be sent to",
    "sent": "sent to",
    "dead": "not sent to",
    "dropped": "discarded by a person, not sent to",
}
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
        if wanted := [one for one in job.spec.deliver if one != LOCAL]:
            return f"cannot be sent to {', '.join(wanted)} yet; until then {kept}"
        if job.spec.deliver:
            return kept
        target = min(self._context.settings.channels, default="CHANNEL")
        return f"{kept}; `hermes task edit {job.id} --deliver {target}` sends them"

    def troubles(self, job: Job) -> list[str]:
        """Targets of a job that lead nowhere. Nobody asked for a built-in job, so it may
        have no chat to go to."""
        optional = {ALL} if job.spec.is_builtin else set()
        asked = [one for one in (*job.spec.deliver, *job.spec.on_failure) if one not in optional]
        chats, wrong = self._found(job, tuple(dict.fromkeys(asked)))
        channels = self._context.settings.channels
        names = dict.fromkeys(chat.channel for chat in chats)
        off = [name for name in names if name in channels and not is_on(channels[name])]
        return wrong + [
            f"{one} is switched off (`hermes gateway setup {one} --set enabled=true`)"
            for one in off
        ]

    def _found(self, job: Job, targets: Sequence[str]) -> tuple[list[Chat], list[str]]:
        found: dict[Chat, None] = {}
        wrong = []
        for target in targets:
            try:
                chats = self._outbound.chats([target], job.origin)
            except HermesError as error:
                channel = target.partition(":")[0]
                title = self._outbound.titles().get(channel)
                if title and channel not in self._context.settings.channels:
                    wrong.append(f"{title} is not set up (`hermes gateway setup {channel}`)")
                else:
                    wrong.append(f"{error.message} ({error.hint})")
                continue
            found |= dict.fromkeys(chats)
            if not chats and target in _NOWHERE:
                wrong.append(_NOWHERE[target])
        return list(found), wrong

    async def result(self, job: Job, run: Run, text: str) -> tuple[tuple[str, ...], str]:
        """Send the result; returns the targets, and why it was not sent to others."""
        chats, wrong = self._found(job, job.spec.deliver or (ORIGIN,) * bool(job.origin))
        for why in wrong:
            log.warning("run %s was not reported everywhere: %s", run.id, why)
        if error := await self._send(f"{_key(run)}result", chats, text, "result"):
            return (), error
        return tuple(chat.target for chat in chats), "; ".join(wrong)

    async def report(self, run: Run) -> str:
        """Where the result of a run went, or why it did not; empty if there is none."""
        if run.state != "done" or not run.said:
            return ""
        entries = {}
        if run.sent_to:
            queued = await self._context.store.gateway.deliveries(key=f"{_key(run)}result/")
            entries = {one.outgoing.chat.target: one for one in queued}
        found: dict[str, list[str]] = {}
        for target in run.sent_to:
            entry = entries.get(target)  # old ones are deleted
            said = _STATES["sent" if entry is None else entry.state]
            error = f" ({entry.error})" if entry is not None and entry.error else ""
            found.setdefault(said, []).append(f"{target}{error}")
        parts = [f"{said} {', '.join(targets)}" for said, targets in found.items()]
        if run.unsent:
            parts.append(f"not sent: {run.unsent}")
        return "; ".join(parts) or "saved here"

    async def alert(self, job: Job, run: Run, kind: Alert, text: str) -> None:
        """Sent once per kind and run, however often this is called."""
        log.log(logging.INFO if kind == "well" else logging.WARNING, "%s", text)
        await self._send(f"{_key(run)}{kind}", self._alerted(job), text, "notice")

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
    ) -> str:
        """Returns why it was not queued."""
        try:
            if chats:
                await self._outbound.send(key, chats, text, kind=kind)
        except Degraded:
            raise
        except HermesError as error:
            log.error("%s was not queued: %s", key, error.message)
            return error.message
        return ""


def _key(run: Run) -> str:
    return f"run:{run.id}/"
