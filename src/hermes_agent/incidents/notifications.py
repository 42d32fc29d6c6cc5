"""The ledger of notices: what is in it is sent once, tried again while it does not arrive, and
given up aloud."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import (
    NEVER,
    OPEN,
    Incident,
    NewNotice,
    Notice,
    NoticeKind,
    TimelineEntry,
)
from hermes_agent.core.protocols import Clock
from hermes_agent.core.supervise import backoff, supervise
from hermes_agent.incidents.notification_sinks import (
    NotificationSink,
    PermanentFailure,
    progress_text,
)
from hermes_agent.store.incidents.store import IncidentStore

log = logging.getLogger("hermes.incidents")

TRIES = 12
"""After so many tries a notice is given up: some two hours."""
FIRST_SECONDS = 2.0
MAX_SECONDS = 1_200.0
MINUTE = 60.0
POLL_SECONDS = 5.0
_TOLD = frozenset({"progress", "signal"})
"""Entries that are no news in a notice of progress."""


class ProgressNotice(Struct, frozen=True):
    """What was told of an incident in a notice of progress."""

    minute: int = 0
    read: int = 0
    """The last entry of its timeline that was looked at."""
    last: TimelineEntry | None = None


class IncidentNotifications:
    def __init__(
        self,
        store: IncidentStore,
        channels: Mapping[str, NotificationSink],
        *,
        notices: Callable[[Incident, NoticeKind, int, str], Sequence[NewNotice]],
        clock: Clock,
        random: Callable[[], float],
    ) -> None:
        self._store = store
        self._channels = channels
        self._notices = notices
        self._clock = clock
        self._random = random
        self._woken = asyncio.Event()
        self._dead: dict[int, str] | None = None
        self._news: dict[str, ProgressNotice] = {}
        self.open = 0
        """Incidents that somebody works on."""
        self.unsent = False
        """Whether something is left that the team is to hear."""

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Send what is due, and tell how it goes each minute."""
        await supervise("sending notices", self._round, self._pause)

    async def _round(self) -> None:
        self._woken.clear()
        if self._dead is None:
            given_up = [one for one in await self._store.notices() if one.due >= NEVER]
            self._dead = {one.id: f"{_name(one)}: {one.error}" for one in given_up}
        await self.send_due()
        if await self.notify_progress():
            await self.send_due()
        self.unsent = bool(await self._store.notices(due=NEVER))

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._woken.wait()

    @property
    def dead(self) -> list[str]:
        """What was given up, and why."""
        return list((self._dead or {}).values())

    async def send_due(self) -> None:
        """Each channel for itself: one that hangs keeps no other from being told."""
        by_channel: dict[str, list[Notice]] = {}
        for notice in await self._store.notices(due=NEVER):
            by_channel.setdefault(notice.channel, []).append(notice)
        await asyncio.gather(*map(self._send_all, by_channel.values()))

    async def _send_all(self, notices: Sequence[Notice]) -> None:
        """In order: while one of an incident has not arrived, later ones of it wait."""
        waiting: set[str] = set()
        for notice in notices:
            if notice.incident in waiting:
                continue
            if notice.due > self._clock() or not await self._send(notice):
                waiting.add(notice.incident)

    async def _send(self, notice: Notice) -> bool:
        """Whether it need not be sent again: it arrived, or was given up."""
        incident = await self._store.incident(notice.incident)
        try:
            channel = self._channels.get(notice.channel.partition(":")[0])
            if channel is None:
                raise HermesError(f"there is no channel {notice.channel!r}")
            await channel.send(notice, incident)
        except PermanentFailure as error:
            return await self._failed(notice, error.message, tries=1)
        except HermesError as error:
            return await self._failed(notice, error.message)
        await self._store.notice_sent(notice.id)
        return True

    async def _failed(self, notice: Notice, error: str, tries: int = TRIES) -> bool:
        """Whether it was given up."""
        attempts = notice.attempts + 1
        given_up = attempts >= tries
        wait = backoff(attempts, FIRST_SECONDS, MAX_SECONDS, self._random)
        due = NEVER if given_up else self._clock() + wait
        await self._store.notice_failed(notice.id, error, due)
        if given_up:
            self._dead = {**(self._dead or {}), notice.id: f"{_name(notice)}: {error}"}
            log.error("given up after try %d: %s: %s", attempts, _name(notice), error)
        else:
            log.warning("%s: %s; again in %.0f s", _name(notice), error, wait)
        return given_up

    async def notify_progress(self) -> bool:
        """What happened meanwhile, once for each minute that an incident is open. Minutes in which
        no runtime lived are not made up for. Says whether there is something to send."""
        now = self._clock()
        told_any = False
        incidents = await self._store.incidents(open=True, limit=1_000)
        self.open = len(incidents)
        self._news = {one.id: self._news.get(one.id, ProgressNotice()) for one in incidents}
        for incident in incidents:
            known = self._news[incident.id]
            minute = int((now - incident.opened) // MINUTE)
            if minute < 1 or known.minute >= minute:
                continue
            known = self._news[incident.id] = await self._read_on(incident.id, known, minute)
            told = await self._store.notices(incident=incident.id)
            if any(one.kind == "progress" and one.number >= minute for one in told):
                continue
            text = progress_text(incident, known.last, now)
            said = "; ".join(line.strip() for line in text.split("\n")[1:])
            try:
                await self._store.change(
                    incident.id,
                    [("progress", said, {"minute": minute})],
                    self._notices(incident, "progress", minute, text),
                    OPEN,
                )
                told_any = True
            except HermesError as error:  # it has just ended
                log.info("%s: %s", incident.id, error.message)
        return told_any

    async def _read_on(self, id: str, known: ProgressNotice, minute: int) -> ProgressNotice:
        """What is new on a timeline since it was last read."""
        entries = await self._store.timeline(id, after=known.read)
        news = [entry for entry in entries if entry.kind not in _TOLD]
        return ProgressNotice(
            minute, entries[-1].number if entries else known.read, news[-1] if news else known.last
        )


def _name(notice: Notice) -> str:
    return f"{notice.kind} of {notice.incident} on {notice.channel}"
