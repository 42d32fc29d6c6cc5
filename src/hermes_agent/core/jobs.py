"""Jobs and their runs. A job is a turn that is due later or repeatedly; each slot of its schedule
has exactly one run, which many missed ones may share."""

from typing import Literal

from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import Severity

JOBS = "job"
"""The source of jobs' sessions."""
JOB_KEY = "job:"
"""Prefix of the key of a job's session, followed by the job's id and a slash."""

ScheduleKind = Literal["cron", "every", "once"]


class Schedule(Struct, frozen=True, omit_defaults=True):
    """When a job is due. Its meaning in words is derived, not stored."""

    kind: ScheduleKind
    given: str
    """As the person wrote it."""
    cron: str = ""
    """Five fields, if `cron`."""
    seconds: float = 0.0
    """The interval, if `every`; slots are at `start` plus a multiple of it."""
    start: float = 0.0
    """When an `every` schedule begins, or a `once` one is due."""
    zone: str = "UTC"
    """The IANA zone of a `cron` schedule."""


CatchUp = Literal["latest", "all", "none"]
"""What happens to slots missed while the runtime was down: the last is run and the others are
missed, all are run one after the other, or all are missed."""

Overlap = Literal["wait", "skip", "parallel"]
"""What happens to a slot that is due while the previous run continues: it waits, is missed, or runs
in parallel."""


REMINDER = "builtin:reminder"
"""The script of a job whose prompt is sent as it is, without a model."""


class JobSpec(Struct, frozen=True, omit_defaults=True):
    """Everything about a job except its schedule."""

    prompt: str = ""
    """The prompt. Empty for a job that is only a script."""
    name: str = ""
    deliver: tuple[str, ...] = ()
    """Targets: `telegram:CHAT`, `matrix`, `origin` (where it was made), `all`, `local` (only
    stored, shown by `hermes task history`). Empty means origin, else local."""
    on_failure: tuple[str, ...] = ()
    """Targets of alerts about late, missed or failed runs; empty means those of `deliver`."""
    quiet: bool = False
    """Deliver only if there is something to report."""
    script: str = ""
    """A command that runs first; its output goes to the agent. If it exits with 0 and prints
    nothing, or ends with `{"wake": false}`, the agent is not woken."""
    script_only: bool = False
    """The script's output is the result; no model is asked."""
    after: tuple[str, ...] = ()
    """Jobs whose last output is given to the agent."""
    skills: tuple[str, ...] = ()
    model: str = ""
    terminals: tuple[str, ...] = ()
    policy: str = ""
    folder: str = ""
    """Where it runs; empty means its own folder in the home."""
    dollars: float | None = None
    tokens: int | None = None
    """The budget of one run."""
    timeout: float = 3600.0
    """Seconds after which a run is stopped as failed."""
    overlap: Overlap = "wait"
    catch_up: CatchUp = "latest"
    grace: float = 300.0
    """Seconds after which a run that has not begun is late, and reported."""
    incident: Literal["", Severity] = ""
    """Severity of the incident signal that failures raise until a run succeeds; empty for none."""
    keep_session: bool = False
    """Run in one conversation instead of a new one each time."""

    @property
    def is_reminder(self) -> bool:
        return self.script == REMINDER

    @property
    def is_builtin(self) -> bool:
        """Whether it names a function of the runtime in place of a script."""
        return self.script.startswith("builtin:")


JobState = Literal["active", "paused", "done", "removed"]
"""`done`: it was due once, and has run. `removed`: stored so that its runs can be explained."""


class Job(Struct, frozen=True, omit_defaults=True):
    id: str
    """`job-7`."""
    spec: JobSpec
    schedule: Schedule
    state: JobState
    created: float
    by: str = ""
    """Who made it: `cli`, `telegram:HASH`, `agent:SESSION`."""
    origin: str = ""
    """The target of the chat it was made in."""
    planned: float = 0.0
    """Every slot up to and including this time has its row."""
    next: float | None = None
    """The first slot after `planned`; None if there is none or it is paused."""
    failures: int = 0
    """Consecutive failed runs."""
    version: int = 1
    """Counts changes: a write names the version it has read."""


class JobSpan(Struct, frozen=True):
    """A time in which one schedule of a job applied, for the consistency check. Slots with `begin <
    slot <= end` must have a row; `end` is None while it applies."""

    job: str
    schedule: Schedule
    begin: float
    end: float | None


RunState = Literal["due", "claimed", "running", "done", "failed", "missed", "parked"]
ENDED: frozenset[RunState] = frozenset({"done", "failed", "missed"})


class Run(Struct, frozen=True, omit_defaults=True):
    id: int
    job: str
    slot: float
    """When it was due, or, if triggered by hand, requested."""
    state: RunState
    trigger: Literal["schedule", "hand"] = "schedule"
    created: float = 0.0
    claimed: float | None = None
    fence: int = 0
    """Of the runtime that claimed it."""
    heartbeat: float | None = None
    """`began` plus the seconds worked since, which survive restarts and clock changes."""
    attempts: int = 0
    began: float | None = None
    ended: float | None = None
    session: str = ""
    after: int = 0
    """The session's last event number before the run's message."""
    output: str = ""
    """The result, redacted; a long one is shortened here and complete in the session."""
    said: bool = True
    """False: it had nothing to report, and nothing was delivered."""
    error: str = ""
    """Why it failed, was missed or is parked."""
    cost: float | None = None
    tokens: int = 0
    late: float = 0.0
    """Seconds between the slot and the beginning."""
    told: tuple[str, ...] = ()
    """Alerts already sent: `late`, `missed`, `failed`, `parked`."""
    slots: int = 1
    """How many slots it stands for, this one and earlier ones: many missed ones share a run."""
    sent_to: tuple[str, ...] = ()
    """The targets of its result."""
    unsent: str = ""
    """Why its result was not sent, or not everywhere."""


class NewRun(Struct, frozen=True, omit_defaults=True):
    slot: float
    state: RunState = "due"
    error: str = ""
    trigger: Literal["schedule", "hand"] = "schedule"
    slots: int = 1
    since: float | None = None
    """If it stands for more than one slot: the time after which they were due."""


class Outdated(HermesError):
    """A job was planned or changed since it was read: read it again."""
