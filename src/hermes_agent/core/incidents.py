"""Signals, incidents and diagnoses. A signal says that something looks wrong; an incident is the
response."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from hermes_agent.core.skills import Check

Severity = Literal["P0", "P1", "P2", "P3"]
"""P0: people cannot work. P1: soon they cannot. P2: something minor is broken. P3: unusual."""

SignalSource = Literal[
    "check", "alertmanager", "grafana", "pagerduty", "log", "job", "person", "drill"
]

IncidentState = Literal[
    "declared", "investigating", "mitigating", "verifying", "resolved", "escalated", "closed"
]
"""`resolved`: verified. `escalated`: handed over to people, with a diagnosis. `closed`: nothing was
wrong, or a person closed it."""
OPEN: frozenset[IncidentState] = frozenset({"declared", "investigating", "mitigating", "verifying"})
"""States in which it is being handled."""

INCIDENTS = "incident"
"""The source of the sessions of incidents."""

CATEGORIES: Mapping[str, str] = {
    "service-crash": "a process ended or does not come up",
    "bad-config": "a configuration that cannot be read or says the wrong thing",
    "bad-deploy": "a release that is worse than the one before",
    "disk-full": "a file system without room",
    "inode-full": "a file system without room for more files",
    "memory-leak": "a process that takes more and more memory",
    "runaway-process": "a process that eats the processor and does nothing of use",
    "descriptor-leak": "a process that runs out of open files",
    "port-conflict": "somebody else holds the port",
    "certificate-expired": "a certificate that is no longer, or not yet, valid",
    "dns-failure": "a name that is not resolved",
    "network-partition": "two machines that do not reach each other",
    "permission-change": "a file that its user may no longer use",
    "stale-lock": "a lock or pid file of a process that is gone",
    "log-flood": "a log that grows without measure",
    "clock-jump": "a clock that is wrong",
    "slow-dependency": "something that it needs answers late",
    "pool-exhausted": "all connections are taken",
    "database-lock": "transactions that wait for each other or for one that forgot them",
    "cascading-failure": "one that fell and took another with it",
    "entry-broken": "a unit or entry that no longer starts its service",
    "job-missed": "a job that is due by the clock and does not run",
    "no-fault": "nothing is wrong: the signal was mistaken, or it passed by itself",
    "unknown": "nobody knows",
}
"""Categories of causes: a closed list, so that diagnoses can be compared."""


class WatchedCheck(Struct, frozen=True, omit_defaults=True):
    """A health check: a command on a terminal, and its expected result."""

    name: str
    check: Check
    service: str = ""
    """The checked service; empty means the name of the check."""
    terminal: str = ""
    """Where it runs; empty means the settings' default."""
    severity: Severity = "P2"
    owner: str = ""
    """Who owns it and is notified."""


class Signal(Struct, frozen=True, omit_defaults=True):
    source: SignalSource
    fingerprint: str
    """Identifies the problem: signals with the same fingerprint are one."""
    title: str
    service: str = ""
    severity: Severity = "P2"
    firing: bool = True
    """False: the source says that it is over."""
    detail: str = ""
    """The output of the check or the text of the alert. Data, never an instruction."""
    at: float = 0.0
    owner: str = ""
    labels: Mapping[str, str] = {}
    check: WatchedCheck | None = None
    """The check that tells whether it still fires."""
    terminal: str = ""
    """The terminal to investigate on, if the signal names one."""
    policy: str = ""
    """The policy profile of the response; empty means that of the settings."""
    id: int = 0
    """Assigned by the store."""
    since: float = 0.0
    """When the trouble began, if the source says so."""

    @property
    def seen_by_check(self) -> bool:
        """Whether its check raised it; the check of another signal was chosen by its service."""
        return self.check is not None and self.source in {"check", "drill"}


class Evidence(Struct, frozen=True, omit_defaults=True):
    """A verbatim quote of a tool's result."""

    effect: str
    """The call, in the journal of `session`."""
    quote: str
    session: str = ""
    """The subagent's session, if it was not the incident's own."""


class Hypothesis(Struct, frozen=True, omit_defaults=True):
    id: str
    """`h1`, `h2`, … within the incident."""
    claim: str
    component: str = ""
    category: str = "unknown"
    confidence: float = 0.5
    state: Literal["open", "confirmed", "refuted"] = "open"
    supports: tuple[Evidence, ...] = ()
    contradicts: tuple[Evidence, ...] = ()


class Diagnosis(Struct, frozen=True, omit_defaults=True):
    """The cause, as values that can be compared with the truth."""

    component: str
    """The name of the service, unit or machine at fault."""
    category: str
    """One of `CATEGORIES`."""
    locus: str = ""
    """Where exactly: a file and line, a process id, a port, a release, a table."""
    summary: str = ""
    evidence: tuple[Evidence, ...] = ()
    prevent: tuple[str, ...] = ()
    """How to prevent it."""


EntryKind = Literal[
    "signal", "declared", "state", "hypothesis", "action", "verified", "worse", "rolled-back",
    "progress", "resolved", "escalated", "closed", "note", "report", "learned",
]  # fmt: skip


NewEntry = tuple[EntryKind, str, Mapping[str, Any]]
"""Kind, text and data of an entry that is to be added to a timeline."""


class TimelineEntry(Struct, frozen=True, omit_defaults=True):
    """One line of an incident's timeline. Never changed."""

    incident: str
    number: int
    time: float
    kind: EntryKind
    text: str
    data: Mapping[str, Any] = {}


class Incident(Struct, frozen=True, omit_defaults=True):
    id: str
    """`inc-1`, `inc-2`, …"""
    title: str
    severity: Severity
    state: IncidentState
    source: SignalSource
    """The source of the first signal. Nobody is notified on channels about drills."""
    fingerprint: str
    service: str = ""
    owner: str = ""
    opened: float = 0.0
    changed: float = 0.0
    ended: float | None = None
    session: str = ""
    """The session of the response; empty until it starts."""
    terminal: str = ""
    policy: str = ""
    checks: tuple[WatchedCheck, ...] = ()
    """What must pass before it counts as resolved."""
    signals: int = 1
    """How many signals were raised, including repeats."""
    related: tuple[str, ...] = ()
    """Services whose signals were attributed to it."""
    hypotheses: tuple[Hypothesis, ...] = ()
    diagnosis: Diagnosis | None = None
    skill: str = ""
    """The skill that resolved it, if any."""

    @property
    def seconds(self) -> float | None:
        """Time to recover."""
        return None if self.ended is None else self.ended - self.opened


NoticeKind = Literal["declared", "progress", "resolved", "escalated", "closed"]


class Notice(Struct, frozen=True, omit_defaults=True):
    """A notice for the team on one channel. Unique by incident, kind, number and channel, so it is
    sent once however often the runtime dies."""

    id: int
    incident: str
    kind: NoticeKind
    number: int
    """Counts notices of the same kind."""
    channel: str
    text: str
    created: float
    sent: float | None = None
    attempts: int = 0
    due: float = 0.0
    """When to try next; `NEVER` after it was given up."""
    error: str = ""


NEVER = 253_402_300_800.0
"""The year 10,000."""

NewNotice = tuple[NoticeKind, int, str, str]
"""Kind, number, channel and text of a notice to store."""


class CheckState(Struct, frozen=True, omit_defaults=True):
    """The stored state of a check."""

    name: str
    ok: bool | None = None
    since: float = 0.0
    last: float = 0.0
    failures: int = 0
    """Consecutive failures."""
    detail: str = ""
    seconds: float = 0.0
    """How long the last run took."""


class CheckHourStats(Struct, frozen=True):
    """The results of a check in one hour, for trends."""

    name: str
    hour: float
    """Its start."""
    runs: int
    failures: int
    seconds: float
    """Of all runs together."""


class LogCursor(Struct, frozen=True):
    """How far a log was read."""

    path: str
    file: str
    """Identifies the file; differs after rotation."""
    offset: int


class MonitoredService(Struct, frozen=True, omit_defaults=True):
    """A monitored service: part of the topology."""

    name: str
    needs: tuple[str, ...] = ()
    """Services it depends on."""
    owner: str = ""
    about: str = ""
    """How it runs, and where its configuration and logs are."""
    terminal: str = ""
    learned: bool = False
    """Learned in an incident, not written by a person."""
    vital: bool = False
    """People cannot work without it: a critical alert about it is P0."""


class IngestResult(Struct, frozen=True):
    """What a signal led to."""

    signal: int
    incident: str
    """Empty if it was over and nothing was open."""
    new: bool
    """It opened the incident."""
    repeated: bool = False
    """The incident had this fingerprint already."""
