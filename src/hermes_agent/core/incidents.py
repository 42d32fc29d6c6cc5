"""Signals, incidents and what is found out about them. A signal says that something looks wrong; an
incident is what we do about it."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from hermes_agent.core.skills import Check

Severity = Literal["P0", "P1", "P2", "P3"]
"""P0: people cannot work. P1: soon they cannot. P2: something is broken that few need. P3: odd."""

SignalSource = Literal[
    "check", "alertmanager", "grafana", "pagerduty", "log", "job", "person", "drill"
]

IncidentState = Literal[
    "declared", "investigating", "mitigating", "verifying", "resolved", "escalated", "closed"
]
"""`resolved`: verified. `escalated`: people must go on, with a diagnosis at hand. `closed`: nothing
was wrong, or a person ended it."""
OPEN: frozenset[IncidentState] = frozenset({"declared", "investigating", "mitigating", "verifying"})
"""States in which somebody works on it."""

INCIDENTS = "incident"
"""The source of sessions in which incidents are worked on."""

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
"""What causes are called: one closed list, so that what is said can be compared."""


class WatchedCheck(Struct, frozen=True, omit_defaults=True):
    """A health check: a command on a terminal, and what it must come to."""

    name: str
    check: Check
    service: str = ""
    """What it is the health of; its own name where it is empty."""
    terminal: str = ""
    """Where it runs; the settings' default where it is empty."""
    severity: Severity = "P2"
    owner: str = ""
    """Who is told, and whose it is."""


class Signal(Struct, frozen=True, omit_defaults=True):
    source: SignalSource
    fingerprint: str
    """The same for the same trouble at the same place: what is seen twice is one signal."""
    title: str
    service: str = ""
    severity: Severity = "P2"
    firing: bool = True
    """False: whoever raised it says that it is over."""
    detail: str = ""
    """What was seen, in its own words: the output of the check, the text of the alert. Data, never
    an instruction."""
    at: float = 0.0
    owner: str = ""
    labels: Mapping[str, str] = {}
    check: WatchedCheck | None = None
    """What can be run to see whether it is still so."""
    terminal: str = ""
    """Where to look, where it says so itself."""
    policy: str = ""
    """The policy profile under which it is worked on; the settings' own where it is empty."""
    id: int = 0
    """Given by the store."""


class Evidence(Struct, frozen=True, omit_defaults=True):
    """What a tool returned, word for word."""

    effect: str
    """The call, in the journal of `session`."""
    quote: str
    session: str = ""
    """Where it was seen, where that is a child of the incident's session."""


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
    """What was the matter, one value each: what can be compared with the truth."""

    component: str
    """The service, unit or machine that was at fault, by its name."""
    category: str
    """One of `CATEGORIES`."""
    locus: str = ""
    """Where exactly: a file and line, a process id, a port, a release, a table."""
    summary: str = ""
    evidence: tuple[Evidence, ...] = ()
    prevent: tuple[str, ...] = ()
    """What would keep it from happening again."""


EntryKind = Literal[
    "signal", "declared", "state", "hypothesis", "action", "verified", "worse", "rolled-back",
    "progress", "resolved", "escalated", "closed", "note", "report", "learned",
]  # fmt: skip


NewEntry = tuple[EntryKind, str, Mapping[str, Any]]
"""Kind, text and data of an entry that is to be added to a timeline."""


class TimelineEntry(Struct, frozen=True, omit_defaults=True):
    """One line of an incident's timeline. It is never changed."""

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
    """Of the first signal. What a drill raised is practice: the team is not told on channels."""
    fingerprint: str
    service: str = ""
    owner: str = ""
    opened: float = 0.0
    changed: float = 0.0
    ended: float | None = None
    session: str = ""
    """Where it is worked on; empty until somebody does."""
    terminal: str = ""
    policy: str = ""
    checks: tuple[WatchedCheck, ...] = ()
    """What must hold again before it counts as resolved."""
    signals: int = 1
    """How many were raised, repeats counted."""
    related: tuple[str, ...] = ()
    """Services whose signals were taken to be of the same trouble."""
    hypotheses: tuple[Hypothesis, ...] = ()
    diagnosis: Diagnosis | None = None
    skill: str = ""
    """The skill by which it was healed, where one was."""

    @property
    def seconds(self) -> float | None:
        """Time to recover."""
        return None if self.ended is None else self.ended - self.opened


NoticeKind = Literal["declared", "progress", "resolved", "escalated", "closed"]


class Notice(Struct, frozen=True, omit_defaults=True):
    """Something that the team is to hear, on one channel. One row for each incident, kind, number
    and channel: it is sent once however often the runtime dies."""

    id: int
    incident: str
    kind: NoticeKind
    number: int
    """The n-th of its kind: progress has many."""
    channel: str
    text: str
    created: float
    sent: float | None = None
    attempts: int = 0
    due: float = 0.0
    """When it is to be tried next; `NEVER` once it was given up."""
    error: str = ""


NEVER = 253_402_300_800.0
"""The year 10,000: when a notice that was given up is tried again."""

NewNotice = tuple[NoticeKind, int, str, str]
"""Kind, number, channel and text of a notice that is to be kept."""


class CheckState(Struct, frozen=True, omit_defaults=True):
    """How a check stands: what survives a restart of the runtime."""

    name: str
    ok: bool | None = None
    since: float = 0.0
    last: float = 0.0
    failures: int = 0
    """In a row."""
    detail: str = ""
    seconds: float = 0.0
    """How long the last run took."""


class CheckHourStats(Struct, frozen=True):
    """What a check came to in one hour: trends are read from these."""

    name: str
    hour: float
    """When it began."""
    runs: int
    failures: int
    seconds: float
    """Of all its runs together."""


class LogCursor(Struct, frozen=True):
    """How far a log was read: what survives a restart of the runtime."""

    path: str
    file: str
    """Which file it was: a rotated one is another."""
    offset: int


class MonitoredService(Struct, frozen=True, omit_defaults=True):
    """A part of the systems that are looked after: what is known of the topology."""

    name: str
    needs: tuple[str, ...] = ()
    """Services that it cannot work without."""
    owner: str = ""
    about: str = ""
    """How it is run, where its configuration and logs are."""
    terminal: str = ""
    learned: bool = False
    """Found out in an incident, not written down by a person."""


class IngestResult(Struct, frozen=True):
    """What became of a signal."""

    signal: int
    incident: str
    """Empty where it was over and nothing was open."""
    new: bool
    """It opened the incident."""
    repeated: bool = False
    """The incident had this fingerprint already."""
