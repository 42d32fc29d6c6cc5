"""Jobs and their runs, as values, and the part of the store that keeps them. A job is a turn that
is due later or again; a run is one row of it, and each slot of a schedule has exactly one."""

from typing import Literal

from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import Severity

JOBS = "job"
"""The source of sessions in which jobs are worked on."""
JOB_KEY = "job:"
"""Begins the key of a job's session; its id and a slash follow."""

ScheduleKind = Literal["cron", "every", "once"]


class Schedule(Struct, frozen=True, omit_defaults=True):
    """When a job is due. What it means in words is worked out from it, not kept."""

    kind: ScheduleKind
    given: str
    """As the person wrote it."""
    cron: str = ""
    """Five fields, of a `cron` one."""
    seconds: float = 0.0
    """Of an `every` one; slots lie at `start` plus a multiple of it."""
    start: float = 0.0
    """When an `every` one begins to count; when a `once` one is due."""
    zone: str = "UTC"
    """The IANA zone whose wall clock a `cron` one follows."""


CatchUp = Literal["latest", "all", "none"]
"""What becomes of slots that nobody was there for: the last of them is run and the others are
missed, all are run one after the other, or all are missed."""

Overlap = Literal["wait", "skip", "parallel"]
"""What becomes of a slot that is due while the run before goes on: it waits, it is missed, or it
runs beside it."""


class JobSpec(Struct, frozen=True, omit_defaults=True):
    """All that a person says of a job, beside when it is due."""

    prompt: str = ""
    """What the agent is told. Empty for a job that is a script alone."""
    name: str = ""
    deliver: tuple[str, ...] = ()
    """Targets: `telegram:CHAT`, `matrix`, `origin` (where it was made), `all`, `local` (kept and
    shown by `hermes task history`, sent nowhere). Empty means origin, else local."""
    on_failure: tuple[str, ...] = ()
    """Where it is told that a run was late, missed or failed; empty means where it delivers to."""
    quiet: bool = False
    """Deliver only when there is something to say."""
    script: str = ""
    """A command that runs first: its output goes to the agent; one that ends with 0 and prints
    nothing (or prints `{"wake": false}` last) wakes nobody."""
    script_only: bool = False
    """The script's output is the result; no model is asked."""
    after: tuple[str, ...] = ()
    """Jobs whose last output is put before the prompt."""
    skills: tuple[str, ...] = ()
    model: str = ""
    terminals: tuple[str, ...] = ()
    policy: str = ""
    workspace: str = ""
    """Empty: a folder of its own in the home."""
    dollars: float | None = None
    tokens: int | None = None
    """What one run may spend."""
    timeout: float = 3600.0
    """Seconds until a run is stopped and has failed."""
    overlap: Overlap = "wait"
    catch_up: CatchUp = "latest"
    grace: float = 300.0
    """A run that begins so many seconds after its slot is late, and that is said."""
    incident: Literal["", Severity] = ""
    """A run that fails is a signal of an incident of this severity, as long as none is good."""
    keep_session: bool = False
    """All runs in one conversation; otherwise each begins a new one."""

    @property
    def is_builtin(self) -> bool:
        """Whether the runtime itself does the work, in place of a script."""
        return self.script.startswith("builtin:")


JobState = Literal["active", "paused", "done", "removed"]
"""`done`: it was due once, and that is over. `removed`: kept so that its runs can be explained."""


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
    """Every slot up to and including this moment has its row."""
    next: float | None = None
    """The first slot after `planned`; None when there is none or it is paused."""
    failures: int = 0
    """Runs that failed in a row."""
    version: int = 1
    """Counts changes: who writes says which one it read."""


class JobSpan(Struct, frozen=True):
    """A time during which one schedule of a job held: what the checker compares with the rows.
    Slots with `begin < slot <= end` must have a row; `end` is None as long as it holds."""

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
    """When it was due. One by hand has the moment it was asked for."""
    state: RunState
    trigger: Literal["schedule", "hand"] = "schedule"
    created: float = 0.0
    claimed: float | None = None
    fence: int = 0
    """Of the runtime that claimed it; another one's claim is void."""
    heartbeat: float | None = None
    """`began` and the seconds that it has worked since: how far it is is known after a restart,
    too, whatever the clock was set to."""
    attempts: int = 0
    began: float | None = None
    ended: float | None = None
    session: str = ""
    after: int = 0
    """The last journal number of the session before the run's message."""
    output: str = ""
    """What it said, redacted; long ones are cut and stand whole in the session."""
    said: bool = True
    """False: it had nothing to say, and nothing was delivered."""
    error: str = ""
    """Why it failed, was missed or parked, in a sentence."""
    cost: float | None = None
    tokens: int = 0
    late: float = 0.0
    """Seconds between the slot and the beginning."""
    told: tuple[str, ...] = ()
    """Alerts that were written for it: `late`, `missed`, `failed`, `parked`. Each once."""


class NewRun(Struct, frozen=True, omit_defaults=True):
    slot: float
    state: RunState = "due"
    error: str = ""
    trigger: Literal["schedule", "hand"] = "schedule"


class Outdated(HermesError):
    """A job was planned or changed since it was read: whoever sees this reads it again."""
