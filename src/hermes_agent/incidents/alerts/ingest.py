"""Where signals come in: whatever raised them, they become incidents one way."""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import (
    Incident,
    IngestResult,
    MonitoredService,
    NewNotice,
    NoticeKind,
    Signal,
)
from hermes_agent.core.protocols import Clock
from hermes_agent.incidents.monitoring.topology import named
from hermes_agent.incidents.notification_sinks import ceased_text, declared_text
from hermes_agent.store.incidents.store import IncidentStore

log = logging.getLogger("hermes.incidents")

TITLE = 200
DETAIL = 4_000
LABELS = 50
LABEL = 300
OWNERS = ("owner", "team", "owner_team", "squad")
"""Labels that say whose it is, the first that is there."""

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\ud800-\udfff]")

Notices = Callable[[Incident, NoticeKind, int, str], Sequence[NewNotice]]
"""What the team is to hear of an incident: kind, number and text, on each of its channels."""


class Intake:
    def __init__(
        self,
        store: IncidentStore,
        *,
        window: Callable[[], float],
        topology: Callable[[str], Awaitable[Sequence[MonitoredService]]],
        notices: Notices,
        redact: Callable[[str], str],
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._store = store
        self._window = window
        self._topology = topology
        self._notices = notices
        self._redact = redact
        self._wake = wake
        self._clock = clock

    async def raise_signal(self, signal: Signal) -> IngestResult:
        """Keep a signal and see that somebody hears of it. Once this returns, it is not lost."""
        topology = await self._topology(signal.terminal)
        signal = self._clean(signal, named(topology, signal.service))

        def tell(incident: Incident) -> Sequence[NewNotice]:
            return self._notices(incident, "declared", 1, declared_text(incident, signal.detail))

        taken = await self._store.take(signal, self._window(), topology, tell)
        if taken.new:
            log.warning("%s declared: %s %s", taken.incident, signal.severity, signal.title)
        if taken.incident and not signal.firing:
            await self._ceased(taken.incident)
        self._wake()
        return taken

    def _clean(self, signal: Signal, service: MonitoredService | None) -> Signal:
        """Without secrets and unseen letters, in bounds, and with its owner."""
        labels = dict(list(signal.labels.items())[:LABELS])
        owner = signal.owner or next((labels[key] for key in OWNERS if labels.get(key)), "")
        return replace(
            signal,
            fingerprint=_bounded(signal.fingerprint),
            title=self._line(signal.title, TITLE) or "something looks wrong",
            service=self._line(signal.service, LABEL),
            detail=self._text(signal.detail, DETAIL),
            owner=self._line(owner or (service.owner if service else ""), LABEL),
            labels={self._line(k, LABEL): self._line(v, LABEL) for k, v in labels.items()},
            terminal=signal.terminal or (service.terminal if service else ""),
        )

    def _line(self, text: str, most: int) -> str:
        return " ".join(self._text(text, 4 * most).split())[:most]

    def _text(self, text: str, most: int) -> str:
        """What is cut is cut in the middle: the beginning and the end say most."""
        seen = _UNSEEN.sub("", self._redact(text))
        if len(seen) <= most:
            return seen
        half = most // 2 - 10
        return f"{seen[:half]}\n[…]\n{seen[-half:]}"

    async def _ceased(self, id: str) -> None:
        """One that people took over is resolved when nothing of it is left."""
        incident = await self._store.incident(id)
        if incident.state != "escalated" or await self._store.firing(id):
            return
        ended = replace(incident, state="resolved", ended=self._clock())
        text = ceased_text(ended)
        try:
            await self._store.change(
                id,
                [("resolved", "every signal of it has ceased", {})],
                self._notices(ended, "resolved", 1, text),
                frozenset({"escalated"}),
                state="resolved",
                ended=ended.ended,
            )
        except HermesError as error:  # somebody was quicker
            log.info("%s: %s", id, error.message)


def _bounded(fingerprint: str) -> str:
    """As it came, for it tells one trouble from another, but no longer than it need be."""
    if len(fingerprint) <= TITLE and _UNSEEN.search(fingerprint) is None:
        return fingerprint
    return f"sha256:{sha256(fingerprint.encode(errors='replace')).hexdigest()}"
