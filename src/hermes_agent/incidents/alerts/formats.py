"""Reads the webhooks of Alertmanager, Grafana and PagerDuty as signals. Unknown fields are ignored;
what is not such a message is refused with a reason."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import TooMuch, UsageError
from hermes_agent.core.incidents import Severity, Signal, SignalSource

SEVERITIES: Mapping[str, Severity] = {
    **dict.fromkeys(("p0", "emergency", "disaster", "blocker", "fatal", "sev0"), "P0"),
    **dict.fromkeys(("p1", "critical", "page", "error", "high", "major", "sev1"), "P1"),
    **dict.fromkeys(("p2", "warning", "warn", "medium", "minor", "average", "sev2"), "P2"),
    **dict.fromkeys(("p3", "p4", "p5", "info", "information", "low", "none", "sev3"), "P3"),
}
SERVICES = ("service", "app", "application", "job", "deployment", "container", "component", "host")
"""Labels that name the service, in order of precedence."""
HEARTBEATS = frozenset({"Watchdog", "DeadMansSwitch", "InfoInhibitor"})
"""Alerts that always fire, to prove that alerts arrive."""
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
        severity_of(labels.get("severity") or labels.get("priority") or ""),
        alert.status.lower() != "resolved",
        "\n".join(line for line in lines if line),
        labels=labels,
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
    urgency: Severity = "P1" if (page.urgency or "high") == "high" else "P3"
    team = page.teams[0] if page.teams else page.escalation_policy
    return [
        Signal(
            "pagerduty",
            f"pagerduty:{page.id}",
            page.title or f"PagerDuty incident {page.id}",
            str(page.service or ""),
            severity_of(str(page.priority)) if page.priority else urgency,
            not over,
            page.html_url or "",
            owner=str(team or ""),
            labels={"urgency": page.urgency} if page.urgency else {},
        )
    ]


def severity_of(word: str) -> Severity:
    """Our name for another system's severity; P2 if it is unknown."""
    return SEVERITIES.get(word.strip().lower(), "P2")


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
