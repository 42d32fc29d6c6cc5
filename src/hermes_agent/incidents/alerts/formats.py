"""Reads the webhooks of Alertmanager, Grafana and PagerDuty as signals. Unknown fields are ignored;
what is not such a message is refused with a reason."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import TooMuch, UsageError
from hermes_agent.core.incidents import Severity, Signal, SignalSource

SEVERITIES: Mapping[str, tuple[Severity, Severity]] = {
    **dict.fromkeys(("p0", "emergency", "emerg", "disaster", "blocker", "fatal", "sev0"),
                    ("P0", "P0")),
    **dict.fromkeys(("critical", "crit", "page", "pager", "alert"), ("P1", "P0")),
    **dict.fromkeys(("p1", "error", "err", "high", "major", "urgent", "sev1"), ("P1", "P1")),
    **dict.fromkeys(("p2", "warning", "warn", "medium", "moderate", "minor", "average", "ticket",
                     "sev2"), ("P2", "P2")),
    **dict.fromkeys(("p3", "p4", "p5", "info", "information", "informational", "notice", "low",
                     "none", "ok", "debug", "pending", "sev3", "sev4", "sev5"), ("P3", "P3")),
}  # fmt: skip
"""Other systems' words for a severity (lower case, without dashes and blanks): ours for a service,
and for a vital one."""
SEVERITY_LABELS = ("severity", "priority", "urgency", "level")
"""Labels that have such a word, in order of precedence."""
SERVICES = ("service", "app", "application", "job", "deployment", "container", "component", "host")
"""Labels that name the service, in order of precedence."""
UNKNOWN: Severity = "P2"
"""The severity of an alert that states none."""
HEARTBEATS = frozenset({"Watchdog", "DeadMansSwitch", "InfoInhibitor"})
"""Alerts that always fire, to prove that alerts arrive."""
LATEST = 250_000_000_000.0
"""In the year 9892: later times cannot be written in every zone."""
MAX_ALERTS = 500
"""Of one message."""
_FIRING = frozenset(
    {
        "incident.triggered", "incident.reopened", "incident.escalated",
        "incident.unacknowledged", "incident.priority_updated",
    }
)  # fmt: skip


class _Alert(Struct):
    status: str = "firing"
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    fingerprint: str | None = None
    startsAt: str | None = None  # noqa: N815 - the sender's name
    generatorURL: str | None = None  # noqa: N815
    values: dict[str, Any] | None = None
    """Grafana: the values of the rule's expressions."""
    valueString: str | None = None  # noqa: N815
    """The same as text, in Grafana up to 10."""
    panelURL: str | None = None  # noqa: N815


class _Alerts(Struct):
    """A webhook of Alertmanager (version 4), or of Grafana, which follows its format."""

    alerts: list[_Alert]
    truncatedAlerts: int | None = None  # noqa: N815
    """How many the sender left out (`max_alerts`)."""


class _Named(Struct):
    id: str | None = None
    summary: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return self.summary or self.name or self.id or ""


class _Trouble(Struct):
    id: str | None = None
    title: str | None = None
    html_url: str | None = None
    status: str | None = None
    urgency: str | None = None
    created_at: str | None = None
    service: _Named | None = None
    priority: _Named | None = None
    escalation_policy: _Named | None = None
    teams: list[_Named] | None = None


class _Event(Struct):
    event_type: str
    data: msgspec.Raw
    """An incident, or the event's other subject: a note, a service, a ping."""


class _Page(Struct):
    """A PagerDuty webhook (version 3)."""

    event: _Event


def signals_of(kind: str, body: bytes) -> list[Signal]:
    """The signals of a webhook; none where it reports nothing firing or resolved."""
    if kind not in READERS:
        raise UsageError(f"no alert format called {kind!r}", f"available: {', '.join(READERS)}")
    try:
        return READERS[kind](body)
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"not a valid {kind} message: {error}", f"see the format of {kind}'s webhooks"
        ) from None
    except (UnicodeDecodeError, RecursionError):
        raise UsageError(f"not a valid {kind} message", "it must be JSON in UTF-8") from None


def _alerts(source: SignalSource, body: bytes) -> list[Signal]:
    message = msgspec.json.decode(body, type=_Alerts)
    if len(message.alerts) > MAX_ALERTS:
        raise TooMuch(
            f"{len(message.alerts):,} alerts in one message are too many",
            f"send at most {MAX_ALERTS} at a time, or group them at the source",
        )
    cut = f"{message.truncatedAlerts} more were left out" if message.truncatedAlerts else ""
    return [
        _alert(source, alert, cut)
        for alert in message.alerts
        if _texts(alert.labels).get("alertname") not in HEARTBEATS
    ]


def _alert(source: SignalSource, alert: _Alert, cut: str) -> Signal:
    labels, notes = _texts(alert.labels), _texts(alert.annotations)
    name = labels.get("alertname", "an alert")
    # A rule of Grafana that gets no data raises an alert of another name, with its own as a label.
    where = labels.get("instance") or labels.get("pod") or labels.get("rulename") or ""
    title = notes.get("summary") or notes.get("title") or f"{name} {where}".strip()
    lines = [
        notes.get("description") or notes.get("message") or "",
        alert.valueString or _listed(_texts(alert.values)),
        _listed(labels),
        f"since {alert.startsAt}" if alert.startsAt else "",
        f"runbook: {notes['runbook_url']}" if notes.get("runbook_url") else "",
        alert.generatorURL or "",
        alert.panelURL or "",
        cut,
    ]
    same = alert.fingerprint or sha256(msgspec.json.encode(sorted(labels.items()))).hexdigest()
    return Signal(
        source,
        f"{source}:{same}",
        title,
        next((labels[key] for key in SERVICES if labels.get(key)), ""),
        severity_in(labels) or UNKNOWN,
        alert.status.lower() != "resolved",
        "\n".join(line for line in lines if line),
        labels=labels,
        since=_seconds(alert.startsAt),
    )


def _page(body: bytes) -> list[Signal]:
    event = msgspec.json.decode(body, type=_Page).event
    if event.event_type not in {"incident.resolved", *_FIRING}:
        return []
    page = msgspec.json.decode(event.data, type=_Trouble)
    if not page.id:
        raise UsageError("the incident of this message has no id", "see PagerDuty's webhooks")
    # Events may arrive late: an incident that is resolved by now is over.
    over = "resolved" in (page.status, event.event_type.partition(".")[2])
    labels = {"priority": str(page.priority or ""), "urgency": page.urgency or "high"}
    labels = {key: word for key, word in labels.items() if word}
    team = page.teams[0] if page.teams else page.escalation_policy
    return [
        Signal(
            "pagerduty",
            f"pagerduty:{page.id}",
            page.title or f"PagerDuty incident {page.id}",
            str(page.service or ""),
            severity_in(labels) or UNKNOWN,
            not over,
            page.html_url or "",
            owner=str(team or ""),
            labels=labels,
            since=_seconds(page.created_at),
        )
    ]


def severity_in(labels: Mapping[str, str], *, vital: bool = False) -> Severity | None:
    """Our name for the severity that the labels of an alert state; None if they state none."""
    for label in SEVERITY_LABELS:
        word = re.sub(r"[\s_-]", "", labels.get(label, "").lower())
        if word in SEVERITIES:
            return SEVERITIES[word][vital]
    return None


def _seconds(stamp: str | None) -> float:
    """Seconds since the epoch; 0 where no time is given."""
    try:
        began = datetime.fromisoformat(stamp or "").timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return began if 0 <= began < LATEST else 0.0


def _texts(given: Mapping[str, Any] | None) -> dict[str, str]:
    """Labels as texts, whatever their type."""
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for key, value in (given or {}).items()
        if value is not None
    }


def _listed(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(texts.items()))


READERS: Mapping[str, Callable[[bytes], list[Signal]]] = {
    "alertmanager": lambda body: _alerts("alertmanager", body),
    "grafana": lambda body: _alerts("grafana", body),
    "pagerduty": _page,
}
