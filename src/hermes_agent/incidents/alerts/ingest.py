"""The one entrance for signals, whatever raised them."""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.incidents import (
    Incident,
    IngestResult,
    MonitoredService,
    NewNotice,
    NoticeKind,
    Severity,
    Signal,
)
from hermes_agent.core.protocols import Clock
from hermes_agent.incidents.monitoring.config import Watched
from hermes_agent.incidents.monitoring.topology import named
from hermes_agent.incidents.notifications import ceased_text, declared_text
from hermes_agent.store.incidents.store import IncidentStore

log = logging.getLogger("hermes.incidents")

TITLE = 200
DETAIL = 4_000
LABELS = 50
LABEL = 300
OWNERS = ("owner", "team", "owner_team", "squad")
"""Labels that name the owner, in order of precedence."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\ud800-\udfff]")

Notices = Callable[[Incident, NoticeKind, int, str], Sequence[NewNotice]]
"""Makes a notice of this kind, number and text for each channel of an incident."""


class OutsideSignal(Struct, forbid_unknown_fields=True):
    """A signal from anybody who has the token."""

    title: str
    fingerprint: str = ""
    service: str = ""
    severity: Severity = "P2"
    firing: bool = True
    detail: str = ""
    owner: str = ""
    labels: dict[str, str] = {}

    def signal(self) -> Signal:
        if not self.title.strip():
            raise UsageError("the signal has no title", "say in a few words what looks wrong")
        same = self.fingerprint or sha256(f"{self.title}\0{self.service}".encode()).hexdigest()[:16]
        return Signal(
            "person", f"person:{same}", self.title, self.service,
            self.severity, self.firing, self.detail, 0.0, self.owner, self.labels,
        )  # fmt: skip


class Intake:
    def __init__(
        self,
        store: IncidentStore,
        *,
        window: Callable[[], float],
        topology: Callable[[str], Awaitable[Sequence[MonitoredService]]],
        checks: Callable[[], Awaitable[Sequence[Watched]]],
        notices: Notices,
        redact: Callable[[str], str],
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._store = store
        self._window = window
        self._topology = topology
        self._checks = checks
        self._notices = notices
        self._redact = redact
        self._wake = wake
        self._clock = clock

    async def raise_signal(self, signal: Signal) -> IngestResult:
        """Store a signal with the notices for it. Once this returns, it is not lost."""
        topology = await self._topology(signal.terminal)
        if signal.firing and signal.check is None and signal.source != "drill":
            from hermes_agent.incidents.alerts.matching import matched

            signal = matched(self._named(signal), topology, await self._checks())
        signal = self._clean(signal, named(topology, signal.service))

        def tell(incident: Incident) -> Sequence[NewNotice]:
            return self._notices(incident, "declared", 1, declared_text(incident, signal))

        taken = await self._store.take(signal, self._window(), topology, tell)
        if taken.new:
            log.warning("%s declared: %s %s", taken.incident, signal.severity, signal.title)
        if taken.incident and not signal.firing:
            await self._ceased(taken.incident)
        self._wake()
        return taken

    async def raise_alerts(self, kind: str, body: bytes) -> list[IngestResult]:
        """Raise the signals of another system's webhook."""
        from hermes_agent.incidents.alerts.formats import signals_of

        return [await self.raise_signal(signal) for signal in signals_of(kind, body)]

    def _named(self, signal: Signal) -> Signal:
        """With names and labels within limits: anybody's program may have written them."""
        labels = {
            self._line(key, LABEL): self._line(value, LABEL)
            for key, value in list(signal.labels.items())[:LABELS]
        }
        return replace(signal, service=self._line(signal.service, LABEL), labels=labels)

    def _clean(self, signal: Signal, service: MonitoredService | None) -> Signal:
        """Redacted, without control characters, within limits, and with its owner."""
        signal = self._named(signal)
        labels = signal.labels
        owner = signal.owner or next((labels[key] for key in OWNERS if labels.get(key)), "")
        return replace(
            signal,
            fingerprint=bounded_fingerprint(signal.fingerprint),
            title=self._line(signal.title, TITLE) or "something looks wrong",
            detail=self._text(signal.detail, DETAIL),
            owner=self._line(owner or (service.owner if service else ""), LABEL),
            terminal=signal.terminal or (service.terminal if service else ""),
        )

    def _line(self, text: str, most: int) -> str:
        return " ".join(self._text(text, 4 * most).split())[:most]

    def _text(self, text: str, most: int) -> str:
        """Cut in the middle: the beginning and the end say most."""
        seen = _CONTROLS.sub("", self._redact(text))
        if len(seen) <= most:
            return seen
        half = most // 2 - 10
        return f"{seen[:half]}\n[…]\n{seen[-half:]}"

    async def _ceased(self, id: str) -> None:
        """Resolve an escalated incident once none of its signals is firing."""
        incident = await self._store.incident(id)
        if incident.state != "escalated" or await self._store.firing(id):
            return
        ended = replace(incident, state="resolved", ended=self._clock())
        text = ceased_text(ended)
        try:
            await self._store.change(
                id,
                [("resolved", "all its signals have cleared", {})],
                self._notices(ended, "resolved", 1, text),
                frozenset({"escalated"}),
                state="resolved",
                ended=ended.ended,
            )
        except HermesError as error:  # somebody else changed it first
            log.info("%s: %s", id, error.message)


def bounded_fingerprint(fingerprint: str) -> str:
    """Unchanged where it is short and printable; a hash otherwise."""
    if len(fingerprint) <= TITLE and _CONTROLS.search(fingerprint) is None:
        return fingerprint
    return f"sha256:{sha256(fingerprint.encode(errors='replace')).hexdigest()}"
