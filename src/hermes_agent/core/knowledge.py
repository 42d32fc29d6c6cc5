"""What is learned: notes, skills, evaluations, proposals and background tasks."""

from typing import Any, Literal

from msgspec import Struct

from hermes_agent.core.skills import SkillState

View = Literal["memory", "user"]
"""`MEMORY.md`: what is worth knowing. `USER.md`: who it is for."""
Author = Literal["person", "agent", "review", "shipped", "runtime"]


class Note(Struct, frozen=True):
    """Something worth remembering. A removed note stays in the log."""

    id: int
    view: View
    text: str
    created: float
    updated: float
    by: Author
    source: str
    """Where it comes from: `cli`, `hand` (an edit of the file), or `session ID` and the effect."""
    model: str = ""
    """The model that wrote it, if any."""
    confidence: float = 1.0
    used: int = 0
    """How often it was shown to a model or found by a search."""
    last_used: float = 0.0
    removed: bool = False


class NoteEdit(Struct, frozen=True):
    """A new note (`id` 0), a new text, or a removal (`text` None). A text restores a removed
    note."""

    text: str | None
    id: int = 0
    view: View = "memory"
    confidence: float | None = None


class NoteChange(Struct, frozen=True):
    """One line of the log. Edits made together share a `batch`."""

    batch: int
    time: float
    by: Author
    source: str
    note: int
    view: View
    before: str | None
    after: str | None
    undoes: int = 0
    """The batch that this undoes."""


DocKind = Literal["skill", "note", "session", "incident"]


class Doc(Struct, frozen=True):
    """A document for recall. A higher `score` is a better match."""

    kind: DocKind
    ref: str
    """The skill's name, the note's id, the session's id."""
    title: str
    text: str
    score: float = 0.0
    time: float = 0.0


class SkillVersion(Struct, frozen=True):
    """A version of a skill's folder."""

    skill: str
    number: int
    digest: str
    time: float
    by: Author
    model: str = ""
    why: str = ""
    """Why it was made, with the evidence: sessions and events."""
    good: bool = False
    """Proven, or given by a person: a version to revert to."""


class SkillRecord(Struct, frozen=True):
    """A skill in the store, which has every version; the current text is in the folder."""

    name: str
    state: SkillState
    version: int
    """The current one's number."""
    digest: str
    created: float
    changed: float
    """When its state or version last changed."""
    by: Author
    model: str = ""
    reason: str = ""
    """Why it is in this state."""


class SkillChange(Struct, frozen=True):
    """One line of a skill's log."""

    skill: str
    time: float
    what: str
    """`version 3`, `proven`, `demoted`, `reverted to version 2`, …"""
    why: str
    by: str


Outcome = Literal["good", "bad", "unknown"]


class SkillUse(Struct, frozen=True):
    """A turn that a skill matched, and its outcome. `opened` False: the skill was offered or held
    back but not opened, which shows how it goes without it."""

    skill: str
    digest: str
    session: str
    turn: int
    time: float
    opened: bool
    outcome: Outcome
    steps: int = 0
    seconds: float = 0.0
    tokens: int = 0
    dollars: float | None = None
    model: str = ""
    why: str = ""
    """The reason for the outcome."""


class EvaluationCase(Struct, frozen=True):
    """A task to evaluate a skill with, in a sandbox: `setup` is a shell script that prepares an
    empty workspace; `check` is one that fails before the task is done and passes after."""

    id: str
    skill: str
    task: str
    setup: str
    check: str
    held: bool = False
    """Held out: never shown to whoever writes or improves the skill."""
    source: str = ""
    """The session it was made from, or `variation`."""


class Trial(Struct, frozen=True):
    """One run of a case, with the skill or without it."""

    skill: str
    digest: str
    case: str
    arm: Literal["with", "without"]
    round: int
    time: float
    ok: bool
    steps: int
    seconds: float
    tokens: int
    dollars: float | None
    model: str = ""
    session: str = ""
    opened: bool = False
    """The skill was opened."""


class Proposal(Struct, frozen=True):
    """A change proposed by a review, waiting for a person's decision."""

    id: int
    kind: Literal["note", "skill"]
    title: str
    body: dict[str, Any]
    """What to apply when it is accepted."""
    evidence: str
    time: float
    model: str = ""
    state: Literal["open", "accepted", "rejected"] = "open"
    by: str = ""


TaskKind = Literal["turn", "review", "summary", "proof", "remember"]
"""`turn`: find out what to learn from an ended turn. Added in the transaction that ends the turn,
so that it cannot be lost."""
AFTER_TURN = 60.0
"""Seconds until a turn's task is due; the runtime that ran the turn does it at once."""
TRIALS = "proof"
"""The source of sessions from which nothing is learned."""


def turn_task(turn: int) -> str:
    """The key of a turn's task."""
    return f"turn {turn}"


class BackgroundTask(Struct, frozen=True):
    """Background work, done once per key by whichever runtime gets to it."""

    key: str
    kind: TaskKind
    body: dict[str, Any]
    due: float
    tries: int = 0
    state: Literal["due", "done", "given-up"] = "due"
    result: str = ""
