"""Where the team hears of incidents, and in which words: on the terminals that are attached, in a
file, by a webhook, and by the channels of the gateway."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import (
    CATEGORIES,
    Incident,
    NewNotice,
    Notice,
    NoticeKind,
    TimelineEntry,
)

ALWAYS = ("terminal", "log")
WEBHOOK = "webhook"
POST = "post"
"""Before a target of the gateway, as `post:telegram:CHAT`."""
WEBHOOK_SECONDS = 10.0
DETAIL = 300
LOG_BYTES = 5_000_000
"""How large the file grows before a new one is begun; one old one is kept."""
TAIL_BYTES = 200_000
"""How much of the file is looked through for a notice that may stand there already."""


def channels_for(incident: Incident, webhook: str, targets: Sequence[str]) -> tuple[str, ...]:
    """Where an incident is told. Of practice only who watches hears."""
    if incident.source == "drill":
        return ALWAYS
    posted = tuple(f"{POST}:{target}" for target in dict.fromkeys(targets))
    return (*ALWAYS, *([WEBHOOK] if webhook else []), *posted)


def notices_for(
    incident: Incident,
    kind: NoticeKind,
    text: str,
    number: int,
    webhook: str,
    targets: Sequence[str] = (),
) -> list[NewNotice]:
    return [(kind, number, channel, text) for channel in channels_for(incident, webhook, targets)]


def key_of(notice: Notice) -> str:
    """The same for the same notice, however often it is sent."""
    return f"{notice.incident}/{notice.kind}/{notice.number}"


# words


def span(seconds: float) -> str:
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _head(incident: Incident) -> str:
    practice = "drill: " if incident.source == "drill" else ""
    return f"{practice}{incident.id} {incident.severity} {incident.title}"


def declared_text(incident: Incident, detail: str = "") -> str:
    facts = [("service", incident.service), ("owner", incident.owner), ("seen", _short(detail))]
    return "\n".join([f"declared: {_head(incident)}", *_lines(facts)])


def progress_text(incident: Incident, last: TimelineEntry | None, now: float) -> str:
    believed = max(
        (one for one in incident.hypotheses if one.state != "refuted"),
        key=lambda one: one.confidence,
        default=None,
    )
    facts = [
        ("state", f"{incident.state} for {span(now - incident.opened)}"),
        ("last", _short(last.text) if last is not None else ""),
        ("believed", f"{believed.claim} ({believed.confidence:.0%})" if believed else ""),
        ("signals", str(incident.signals)),
    ]
    return "\n".join([f"progress: {_head(incident)}", *_lines(facts)])


def resolved_text(incident: Incident) -> str:
    took = incident.seconds
    facts = [("recovered after", span(took) if took is not None else ""), *_cause(incident)]
    return "\n".join([f"resolved: {_head(incident)}", *_lines(facts)])


def ceased_text(incident: Incident) -> str:
    """Of one that people took over: what was believed of it then is not what it was."""
    took = incident.seconds
    facts = [
        ("recovered after", span(took) if took is not None else ""),
        ("how", "people mended it, or it passed: every signal of it has ceased"),
        *_cause(incident, "believed before"),
    ]
    return "\n".join([f"resolved: {_head(incident)}", *_lines(facts)])


def escalated_text(incident: Incident, needed: str = "") -> str:
    facts = [("needed", needed), *_cause(incident, "believed"), ("owner", incident.owner)]
    return "\n".join([f"escalated: {_head(incident)}", *_lines(facts)])


def closed_text(incident: Incident, why: str) -> str:
    return "\n".join([f"closed: {_head(incident)}", *_lines([("why", why)])])


def _cause(incident: Incident, name: str = "cause") -> list[tuple[str, str]]:
    found = incident.diagnosis
    if found is None:
        return [("cause", "not known")]
    about = CATEGORIES.get(found.category, "")
    cause = f"{found.component}: {found.category}" + (f" ({about})" if about else "")
    return [(name, cause), ("where", found.locus), ("in short", _short(found.summary))]


def _lines(facts: Sequence[tuple[str, str]]) -> list[str]:
    return [f"  {name}: {text}" for name, text in facts if text]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DETAIL else f"{line[: DETAIL - 1]}…"


# ways

NOBODY = frozenset({404, 410})
"""Answers of a webhook that is not there, or no longer."""


class PermanentFailure(HermesError):
    """It does not arrive however often it is sent."""


class NotificationSink(Protocol):
    async def send(self, notice: Notice, incident: Incident, /) -> None:
        """Returns when it arrived; raises a `HermesError` that says why it did not, which is
        `PermanentFailure` where trying again is of no use."""
        ...


class LogChannel:
    """Lines of a file. One that stands there already is not written again."""

    def __init__(self, path: Path, most: int = LOG_BYTES) -> None:
        self._path = path
        self._most = most

    async def send(self, notice: Notice, _incident: Incident, /) -> None:
        try:
            await asyncio.to_thread(self._write, notice)
        except OSError as error:
            raise HermesError(f"cannot write {self._path}: {error.strerror}") from None

    def _write(self, notice: Notice) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = f"[{key_of(notice)}]".encode()
        if self._path.exists() and self._path.stat().st_size >= self._most:
            if _stands_in(mark, self._path.read_bytes()[-TAIL_BYTES:]):
                return
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        with self._path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            tail = file.read()
            if _stands_in(mark, tail):
                return
            text = notice.text.replace("\n", " | ")
            begin = b"" if not tail or tail.endswith(b"\n") else b"\n"  # killed in the middle
            file.write(begin + mark + f" {text}\n".encode())
            file.flush()
            os.fsync(file.fileno())


def _stands_in(mark: bytes, tail: bytes) -> bool:
    return any(line.startswith(mark) for line in tail.split(b"\n"))


class TerminalChannel:
    """Whoever listens to the runtime now."""

    def __init__(self, publish: Callable[[Notice], None]) -> None:
        self._publish = publish

    async def send(self, notice: Notice, _incident: Incident, /) -> None:
        self._publish(notice)


class PostChannel:
    """The ledger of the gateway, which sees to the rest."""

    def __init__(self, hand_in: Callable[[str, str, str], Awaitable[None]]) -> None:
        self._hand_in = hand_in

    async def send(self, notice: Notice, _incident: Incident, /) -> None:
        target = notice.channel.removeprefix(f"{POST}:")
        await self._hand_in(f"incident/{key_of(notice)}", target, notice.text)


class WebhookChannel:
    """A POST with the notice as JSON. Whoever gets it twice knows it by its `Idempotency-Key`."""

    def __init__(self, address: Callable[[], str]) -> None:
        self._address = address

    async def send(self, notice: Notice, incident: Incident, /) -> None:
        import httpx

        address = self._address()
        if not address:
            raise HermesError("no webhook is set any more", "`hermes config set watch.webhook`")
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
            raise HermesError(f"the webhook does not answer: {said}") from None
        if answer.status_code in NOBODY:
            said = f"the webhook answered {answer.status_code}, so nobody takes it there"
            raise PermanentFailure(said, "`hermes config set watch.webhook`")
        if answer.status_code >= 300:
            raise HermesError(f"the webhook answered {answer.status_code}")
