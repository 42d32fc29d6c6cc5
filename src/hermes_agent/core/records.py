"""What the journal stores and returns: sessions, turns, questions, judgements, costs."""

from typing import Literal

from msgspec import Struct

from hermes_agent.core.effects import ApprovalRequirement, Risk
from hermes_agent.core.events import CallJudged, CommandEnded
from hermes_agent.core.messages import Media, Usage
from hermes_agent.core.skills import ActivatedSkill, RecallResult, SkillLimits


class ChildLimits(Struct, frozen=True, omit_defaults=True):
    """A subagent's share of its parent's budget, and the skill limits it inherits."""

    tokens: int | None = None
    dollars: float | None = None
    steps: int | None = None
    bounds: tuple[SkillLimits, ...] = ()
    """Limits of the skills that were active when it started."""


NO_SHARE = ChildLimits()


class NewSession(Struct, frozen=True):
    workspace: str
    policy: str
    model: str
    source: str = "cli"
    name: str = ""
    key: str = ""
    """Whose conversation it is, for instance `library:research_agent`."""
    once: bool = False
    """The key is unique: opening it again returns the same session."""
    terminals: tuple[str, ...] = ("local",)
    """Names of its terminals; commands run on the first unless a call names another."""
    effort: str = ""
    """The reasoning effort; empty leaves it to the settings."""
    parent: str = ""
    """The session it works for, if it is a subagent."""
    share: ChildLimits = ChildLimits()


class ImportedTurn(Struct, frozen=True):
    """A message to another agent, with what it answered."""

    key: str
    """The other agent's id of the message, unique in its session."""
    time: float
    text: str
    replies: tuple[tuple[float, str], ...] = ()
    """The time and text of each reply; calls of tools are part of the text."""
    model: str = ""


class Session(Struct, frozen=True):
    id: str
    name: str
    """Chosen by the user; empty until then."""
    title: str
    """The first line of the first message."""
    key: str
    source: str
    workspace: str
    policy: str
    model: str
    prompt: str
    created: float
    updated: float
    state: Literal["idle", "running", "waiting", "parked", "paused"]
    """What its turn is doing: nothing, running, waiting for an answer, parked, or paused at a
    limit, from where the next message continues."""
    messages: int
    turns: int
    usage: Usage
    cost: float | None
    """Dollars so far; None if no price is known."""
    terminals: tuple[str, ...] = ("local",)
    effort: str = ""
    parent: str = ""
    """The session it works for; empty unless it is a subagent."""
    depth: int = 0
    """How many ancestors it has."""
    share: ChildLimits = ChildLimits()
    branch_of: str = ""
    """The session whose beginning it shares; empty unless it is a branch."""
    branch_at: int = 0
    """How many events it shares with that session."""


class SessionMessage(Struct, frozen=True):
    """An incoming message. `key` is the sender's id for it; the same key is stored once."""

    key: str
    text: str
    source: str = "cli"
    interactive: bool = False
    """Somebody can answer questions."""
    files: tuple[Media, ...] = ()
    recalled: RecallResult = RecallResult()
    skills: tuple[ActivatedSkill, ...] = ()
    waits: bool = False
    """Waits for the current turn to end instead of joining it at its next step."""


class AfterCommand(Struct, frozen=True):
    """A message to send when a background command ends."""

    key: str
    target: str
    text: str


class BackgroundCommand(Struct, frozen=True):
    """A background command whose end has not been reported everywhere."""

    id: str
    session: str
    terminal: str
    wake: bool
    """Its end starts a turn."""
    known: bool
    """The model has read how it ended."""
    ended: CommandEnded | None
    messages: tuple[AfterCommand, ...]


class Turn(Struct, frozen=True):
    """A turn, with the fence that lets its holder write to it."""

    id: int
    session: str
    fence: int
    resumed: bool = False


class Parked(Struct, frozen=True):
    """An effect whose outcome is unknown."""

    effect: str
    session: str
    tool: str
    input: str
    reason: str
    since: float


class Question(Struct, frozen=True):
    id: str
    session: str
    purpose: Literal["approval", "question", "budget"]
    text: str
    choices: tuple[str, ...]
    effect: str
    asked: float
    expires: float
    consent: ApprovalRequirement = ApprovalRequirement()
    agreed: tuple[str, ...] = ()
    """Who has agreed so far, if several must."""
    grants: tuple[str, ...] = ()
    proposal: str = ""
    reason: str = ""
    change: str = ""
    risks: tuple[Risk, ...] = ()
    where: str = ""


class Judgement(Struct, frozen=True):
    """A judged call, with what is needed to judge it again."""

    session: str
    policy: str
    time: float
    input: str
    """The arguments as the model wrote them: JSON."""
    judged: CallJudged


class AuditEntry(Struct, frozen=True):
    """One link of the audit log. `hash` covers `body` and the hash before it."""

    number: int
    time: float
    session: str
    body: str
    hash: str


class AuditReport(Struct, frozen=True):
    entries: int
    head: str
    """The last entry as `NUMBER:HASH`; keep it elsewhere to detect truncation."""
    troubles: tuple[str, ...] = ()


ModelRole = Literal["main", "cheap", "compaction", "review", "titles", "vision", "judge", "test"]
"""What a model is used for; each role has its own list of models."""

CostKey = Literal["day", "session", "job", "model", "service", "use"]


class Cost(Struct, frozen=True):
    """What was spent under one name."""

    name: str
    calls: int
    usage: Usage
    cost: float
    """Dollars, as far as prices are known."""
    unpriced: int = 0
    """Calls with an unknown price."""
    title: str = ""
    """The session's title, if the name is a session."""


class SearchFilter(Struct, frozen=True):
    session: str = ""
    role: Literal["", "user", "assistant", "tool"] = ""
    tool: str = ""
    source: str = ""
    ok: bool | None = None
    since: float | None = None
    until: float | None = None
    limit: int = 20
    around: int = 0
    """How many messages to include before and after each hit."""


class FoundMessage(Struct, frozen=True):
    number: int
    role: str
    text: str


class Found(Struct, frozen=True):
    """A search hit. `snippet` marks the matched words as «word»."""

    session: str
    title: str
    number: int
    time: float
    role: str
    tool: str
    snippet: str
    score: float
    around: tuple[FoundMessage, ...] = ()
    rewound: bool = False
    """The conversation has since gone back to before this message."""


class Health(Struct, frozen=True):
    state: Literal["well", "degraded"] = "well"
    reason: str = ""
    hint: str = ""
