"""Finds the monitored service that an alert is about, and its check, by the alert's labels."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from hermes_agent.core.incidents import MonitoredService, Signal
from hermes_agent.incidents.alerts.formats import SERVICES, severity_in
from hermes_agent.incidents.monitoring.config import Watched
from hermes_agent.incidents.monitoring.topology import named

LABELS = (
    *SERVICES, "service_name", "app_kubernetes_io_name", "app_kubernetes_io_instance",
    "statefulset", "daemonset", "job_name", "name", "unit", "pod", "target", "instance",
    "hostname", "node", "nodename", "namespace",
)  # fmt: skip
"""Labels that may name a service, in order of precedence; the first ones are in `SERVICES`."""
PLACES = ("instance", "host", "hostname", "node", "nodename", "target")
"""Labels that name a machine."""
_HASHED = "[bcdfghjklmnpqrstvwxz2456789]"
"""Characters of the generated part of a pod's name."""
SPELLINGS = (
    re.compile(r"^(?:https?://)?/?([^/:]+)(?::\d+)?(?:/.*)?$"),  # an address, a container's name
    re.compile(r"^(.+)\.(?:service|socket|timer)$"),  # a systemd unit
    re.compile(rf"^(.+?)(?:-{_HASHED}{{6,10}})?-{_HASHED}{{5}}$"),  # a pod of a deployment
    re.compile(r"^(.+)-\d+$"),  # a pod of a stateful set, a numbered machine
    re.compile(r"^([^.]+)\..+$"),  # the first part of a domain
)
"""How other systems spell the name of a service."""
_WORD = re.compile(r"[a-z0-9]{3,}")


def matched(
    signal: Signal, topology: Sequence[MonitoredService], checks: Sequence[Watched]
) -> Signal:
    """The signal with the known service that it is about, that service's check and terminal, and
    its severity there. Unchanged where nothing is known about it."""
    checks = [one for one in checks if one.source != "drill"]
    own = [one for one in checks if _names_alert(one, signal.labels)]
    service = own[0].service if own else _service(signal, topology, checks)
    if not service:
        return signal
    own = own or [one for one in checks if service in (one.service, one.name)]
    known = named(topology, service)
    signal = replace(signal, service=service)
    if known is not None and known.vital and signal.labels:
        severity = severity_in(signal.labels, vital=True) or signal.severity
        signal = replace(signal, severity=min(signal.severity, severity))
    if not own or signal.check is not None:
        return signal
    best = min(own, key=lambda one: (-_shared(one, signal), one.check.severity, one.name))
    return replace(
        signal,
        check=best.check,
        terminal=signal.terminal or best.check.terminal,
        policy=signal.policy or best.policy,
        owner=signal.owner or best.check.owner,
    )


def _names_alert(watched: Watched, labels: Mapping[str, str]) -> bool:
    """Whether the check's own labels are all in the alert."""
    return bool(watched.labels) and watched.labels.items() <= labels.items()


def _service(
    signal: Signal, topology: Sequence[MonitoredService], checks: Sequence[Watched]
) -> str:
    """The known service whose name, or the name of whose check or only machine, is in a label."""
    names = {one.name.casefold(): one.name for one in topology}
    names |= {one.name.casefold(): one.service for one in checks}
    names |= {one.service.casefold(): one.service for one in checks}
    values = [signal.service, *(signal.labels[one] for one in LABELS if signal.labels.get(one))]
    for value in filter(None, values):
        for spelling in _spellings(value.casefold().strip()):
            if spelling in names:
                return names[spelling]
    hosted: dict[str, set[str]] = {}
    for name, terminal in (
        *((one.name, one.terminal) for one in topology),
        *((one.service, one.check.terminal) for one in checks),
    ):
        if terminal:
            hosted.setdefault(terminal.casefold(), set()).add(name)
    for label in PLACES:
        for spelling in _spellings(signal.labels.get(label, "").casefold().strip()):
            if len(there := hosted.get(spelling, set())) == 1:
                return min(there)
    return ""


def _spellings(value: str) -> Iterator[str]:
    """The value, then what it may stand for."""
    waiting = [value]
    seen: set[str] = set()
    while waiting:
        one = waiting.pop(0)
        if one and one not in seen:
            seen.add(one)
            yield one
            waiting += [found[1] for form in SPELLINGS if (found := form.match(one))]


def _shared(watched: Watched, signal: Signal) -> int:
    """How many words of the alert are in the check's name."""
    said = f"{signal.labels.get('alertname', '')} {signal.title}"
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", said).lower()
    return len({*_WORD.findall(apart)} & {*_WORD.findall(watched.name.lower())})
