"""Notices of incidents: their texts, where they go (attached terminals, a log file, a webhook, the
gateway's outbox), and the queue that retries each one until it arrives or is given up."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import (
    CATEGORIES,
    NEVER,
    OPEN,
    Incident,
    NewNotice,
    Notice,
    NoticeKind,
    Signal,
    TimelineEntry,
)
from hermes_agent.core.protocols import Clock
from hermes_agent.core.supervise import backoff, supervise
from hermes_agent.core.text.format import shortened, span
from hermes_agent.store.incidents.store import IncidentStore

log = logging.getLogger("hermes.incidents")

ALWAYS = ("terminal", "log")
WEBHOOK = "webhook"
POST = "post"
"""Prefix of a gateway target, as `post:telegram:CHAT`."""
WEBHOOK_SECONDS = 10.0
NOT_THERE = frozenset({404, 410})
"""Statuses of a webhook that does not exist (any more)."""
DETAIL = 300
LOG_BYTES = 5_000_000
"""Size at which the log is rotated; one old file is kept."""
TAIL_BYTES = 200_000
"""How much of the log is searched for a notice that may already be in it."""
TRIES = 12
"""A notice is given up after so many tries: about two hours."""
FIRST_SECONDS = 2.0
MAX_SECONDS = 1_200.0
MINUTE = 60.0
POLL_SECONDS = 5.0
_NO_NEWS = frozenset({"progress", "signal"})
"""Kinds of timeline entries that a progress notice does not report."""


def notices_for(
    incident: Incident, kind: NoticeKind, number: int, text: str, webhook: str,
    targets: Sequence[str] = (),
) -> list[NewNotice]:  # fmt: skip
    """A notice for each channel. Drills are only announced on terminals and in the log."""
    channels = [*ALWAYS]
    if incident.source != "drill":
        channels += [WEBHOOK] if webhook else []
        channels += [f"{POST}:{target}" for target in dict.fromkeys(targets)]
    return [(kind, number, channel, text) for channel in channels]


def key_of(notice: Notice) -> str:
    """The same for the same notice, however often it is sent."""
    return f"{notice.incident}/{notice.kind}/{notice.number}"


# texts


def _text(
    what: str, incident: Incident, facts: Sequence[tuple[str, str]], since: float = 0.0
) -> str:
    """The first line alone says how bad it is, what happened to it, and what it is."""
    drill = "drill: " if incident.source == "drill" else ""
    named = incident.service.casefold() in incident.title.casefold()
    service = "" if named else f" ({incident.service})"
    began = f", since {datetime.fromtimestamp(since, UTC):%a %H:%M} UTC" if since else ""
    head = f"{drill}{incident.severity} {what}: {incident.title}{service}{began} [{incident.id}]"
    facts = [*facts, ("owner", incident.owner)]
    return "\n".join([head, *(f"  {name}: {text}" for name, text in facts if text)])


def declared_text(incident: Incident, signal: Signal) -> str:
    checks = ", ".join(check.name for check in incident.checks)
    facts = [
        ("seen", shortened(signal.detail, DETAIL)),
        ("source", incident.source),
        ("check", checks or "none yet; Hermes looks for one"),
        ("next", "Hermes investigates, and reports each minute"),
    ]
    return _text("DECLARED", incident, facts, signal.since or signal.at or incident.opened)


def progress_text(incident: Incident, last: TimelineEntry | None, now: float) -> str:
    believed = max(
        (one for one in incident.hypotheses if one.state != "refuted"),
        key=lambda one: one.confidence,
        default=None,
    )
    facts = [
        ("state", incident.state),
        ("last", shortened(last.text, DETAIL) if last is not None else ""),
        ("likely cause", f"{believed.claim} ({believed.confidence:.0%})" if believed else ""),
        ("signals", str(incident.signals)),
    ]
    return _text(f"ONGOING for {span(now - incident.opened)}", incident, facts)


def resolved_text(incident: Incident) -> str:
    return _text(_resolved(incident), incident, _cause(incident))


def ceased_text(incident: Incident) -> str:
    """For an escalated incident: the diagnosis made before the escalation may be wrong."""
    how = "people fixed it, or it passed: all its signals have cleared"
    return _text(_resolved(incident), incident, [("how", how), *_cause(incident, "earlier guess")])


def escalated_text(incident: Incident, needed: str = "") -> str:
    facts = [("needed", needed), *_cause(incident, "likely cause")]
    return _text("NEEDS A PERSON", incident, facts, incident.opened)


def closed_text(incident: Incident, why: str) -> str:
    return _text("CLOSED", incident, [("why", why)])


def _resolved(incident: Incident) -> str:
    took = incident.seconds
    return "RESOLVED" if took is None else f"RESOLVED after {span(took)}"


def _cause(incident: Incident, name: str = "cause") -> list[tuple[str, str]]:
    found = incident.diagnosis
    if found is None:
        return [("cause", "unknown")]
    about = CATEGORIES.get(found.category, "")
    cause = f"{found.component}: {found.category}" + (f" ({about})" if about else "")
    if found.category == "unknown":
        name, cause = "cause", f"unknown, in {found.component}"
    return [(name, cause), ("where", found.locus), ("summary", shortened(found.summary, DETAIL))]


# where they are sent


class PermanentFailure(HermesError):
    """Trying again does not help."""


SendNotice = Callable[[Notice, Incident], Awaitable[None]]
"""Returns when the notice has arrived; otherwise raises a `HermesError` with the reason, or a
`PermanentFailure`."""


class NoticeLog:
    """A file with a line for each notice. A line that is in it is not written again."""

    def __init__(self, path: Path, most: int = LOG_BYTES) -> None:
        self._path = path
        self._most = most

    async def send(self, notice: Notice, _incident: Incident) -> None:
        try:
            await asyncio.to_thread(self._write, notice)
        except OSError as error:
            raise HermesError(f"cannot write {self._path}: {error.strerror}") from None

    def _write(self, notice: Notice) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = f"[{key_of(notice)}]".encode()
        if self._path.exists() and self._path.stat().st_size >= self._most:
            if _has_line(mark, self._path.read_bytes()[-TAIL_BYTES:]):
                return
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        with self._path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            tail = file.read()
            if _has_line(mark, tail):
                return
            text = notice.text.replace("\n", " | ")
            begin = b"" if not tail or tail.endswith(b"\n") else b"\n"  # killed in the middle
            file.write(begin + mark + f" {text}\n".encode())
            file.flush()
            os.fsync(file.fileno())


def _has_line(mark: bytes, tail: bytes) -> bool:
    return any(line.startswith(mark) for line in tail.split(b"\n"))


class NoticeWebhook:
    """A POST with the notice as JSON. Its `Idempotency-Key` identifies a repeat."""

    def __init__(self, address: Callable[[], str]) -> None:
        self._address = address

    async def send(self, notice: Notice, incident: Incident) -> None:
        import httpx

        address = self._address()
        if not address:
            raise HermesError("no webhook is set", "`hermes config set watch.webhook`")
        body = msgspec.json.encode({
            "key": key_of(notice), "kind": notice.kind, "text": notice.text,
            "incident": incident.id, "severity": incident.severity, "state": incident.state,
            "title": incident.title, "service": incident.service, "owner": incident.owner,
            "opened": incident.opened, "ended": incident.ended, "seconds": incident.seconds,
            "diagnosis": incident.diagnosis,
        })  # fmt: skip
        headers = {"Content-Type": "application/json", "Idempotency-Key": key_of(notice)}
        try:
            async with httpx.AsyncClient(timeout=WEBHOOK_SECONDS) as client:
                answer = await client.post(address, content=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = str(error) or type(error).__name__
            raise HermesError(f"the webhook is not responding: {said}") from None
        if answer.status_code in NOT_THERE:
            said = f"the webhook answered {answer.status_code}, so nothing accepts notices there"
            raise PermanentFailure(said, "`hermes config set watch.webhook`")
        if answer.status_code >= 300:
            raise HermesError(f"the webhook answered {answer.status_code}")


# the queue


class ProgressNotice(Struct, frozen=True):
    """What the last progress notice of an incident reported."""

    minute: int = 0
    read: int = 0
    """The last entry of its timeline that was read."""
    last: TimelineEntry | None = None


class IncidentNotifications:
    def __init__(
        self,
        store: IncidentStore,
        channels: Mapping[str, SendNotice],
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
        self._progress: dict[str, ProgressNotice] = {}
        self.open = 0
        """Number of open incidents."""
        self.unsent = False
        """Whether notices are waiting to be sent."""

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Send what is due, and report progress each minute."""
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
        """Channels are independent: one that hangs does not delay another."""
        by_channel: dict[str, list[Notice]] = {}
        for notice in await self._store.notices(due=NEVER):
            by_channel.setdefault(notice.channel, []).append(notice)
        await asyncio.gather(*map(self._send_all, by_channel.values()))

    async def _send_all(self, notices: Sequence[Notice]) -> None:
        """In order: while a notice has not arrived, later ones of its incident wait."""
        waiting: set[str] = set()
        for notice in notices:
            if notice.incident in waiting:
                continue
            if notice.due > self._clock() or not await self._send(notice):
                waiting.add(notice.incident)

    async def _send(self, notice: Notice) -> bool:
        """Whether it is done with: it arrived, or was given up."""
        incident = await self._store.incident(notice.incident)
        try:
            send = self._channels.get(notice.channel.partition(":")[0])
            if send is None:
                raise HermesError(f"there is no channel {notice.channel!r}")
            await send(notice, incident)
        except HermesError as error:
            tries = 1 if isinstance(error, PermanentFailure) else TRIES
            return await self._failed(notice, error.message, tries)
        await self._store.notice_sent(notice.id)
        return True

    async def _failed(self, notice: Notice, error: str, tries: int) -> bool:
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
        """Report what happened, once for each minute that an incident is open. Minutes in which no
        runtime ran are skipped. Returns whether there is something to send."""
        now = self._clock()
        added = False
        incidents = await self._store.incidents(open=True, limit=1_000)
        self.open = len(incidents)
        self._progress = {one.id: self._progress.get(one.id, ProgressNotice()) for one in incidents}
        for incident in incidents:
            known = self._progress[incident.id]
            minute = int((now - incident.opened) // MINUTE)
            if minute < 1 or known.minute >= minute:
                continue
            known = self._progress[incident.id] = await self._read_on(incident.id, known, minute)
            sent = await self._store.notices(incident=incident.id)
            if any(one.kind == "progress" and one.number >= minute for one in sent):
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
                added = True
            except HermesError as error:  # it has just ended
                log.info("%s: %s", incident.id, error.message)
        return added

    async def _read_on(self, id: str, known: ProgressNotice, minute: int) -> ProgressNotice:
        """Read the timeline's new entries."""
        entries = await self._store.timeline(id, after=known.read)
        news = [entry for entry in entries if entry.kind not in _NO_NEWS]
        return ProgressNotice(
            minute, entries[-1].number if entries else known.read, news[-1] if news else known.last
        )


def _name(notice: Notice) -> str:
    return f"{notice.kind} of {notice.incident} on {notice.channel}"
