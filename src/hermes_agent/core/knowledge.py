"""What is learned: notes, skills, evaluations, proposals and background tasks."""

from typing import Any, Literal

from msgspec import Struct

from hermes_agent.core.skills import SkillState

View = Literal["memory", "user"]
"""`MEMORY.md`: what is worth knowing. `USER.md`: who it is for."""
Author = Literal["person", "agent", "review", "shipped"]


class Note(Struct, frozen=True):
    """Something worth remembering. No note is deleted: one that is removed stays in the log."""

    id: int
    view: View
    text: str
    created: float
    updated: float
    by: Author
    source: str
    """Where it comes from: `cli`, `hand` (the file was edited), or `session ID` and what there."""
    model: str = ""
    """The model that wrote it, where one did."""
    confidence: float = 1.0
    used: int = 0
    """How often it was shown to a model or found by a search."""
    last_used: float = 0.0
    removed: bool = False


class NoteEdit(Struct, frozen=True):
    """A new note (`id` 0), another text for one, or its removal (`text` None). Setting a text on a
    removed note brings it back."""

    text: str | None
    id: int = 0
    view: View = "memory"
    confidence: float | None = None


class NoteChange(Struct, frozen=True):
    """One line of the log. Edits that were made together share `batch`."""

    batch: int
    time: float
    by: Author
    source: str
    note: int
    view: View
    before: str | None
    after: str | None
    undoes: int = 0
    """The batch that this takes back."""


DocKind = Literal["skill", "note", "session", "incident"]


class Doc(Struct, frozen=True):
    """Something that can be recalled whole. Higher `score` fits better."""

    kind: DocKind
    ref: str
    """The skill's name, the note's id, the session's id."""
    title: str
    text: str
    score: float = 0.0
    time: float = 0.0


class SkillVersion(Struct, frozen=True):
    """A skill's folder as it was at a time."""

    skill: str
    number: int
    digest: str
    time: float
    by: Author
    model: str = ""
    why: str = ""
    """What it was made for, with the evidence: sessions and events."""
    good: bool = False
    """It was proven, or given by a person: what can be gone back to."""


class SkillRecord(Struct, frozen=True):
    """A skill as the store knows it. The text is in the folder, every version of it here too."""

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
    """A turn that a skill fitted, and how it went. `opened` False: it was offered or held back and
    not opened, so that this is how it goes without."""

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
    """What made it good or bad."""


class EvaluationCase(Struct, frozen=True):
    """A task that a skill can be tried on, in a sandbox: `setup` is a shell script that prepares
    an empty workspace, `check` one that fails before the task is done and not after."""

    id: str
    skill: str
    task: str
    setup: str
    check: str
    held: bool = False
    """Held out: who writes or improves the skill never sees it."""
    source: str = ""
    """The session it was made from; `variation` of one."""


class Trial(Struct, frozen=True):
    """One case played once, with the skill or without."""

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
    """Something a review would change, waiting for a person's word."""

    id: int
    kind: Literal["note", "skill"]
    title: str
    body: dict[str, Any]
    """What is applied when it is accepted."""
    evidence: str
    time: float
    model: str = ""
    state: Literal["open", "accepted", "rejected"] = "open"
    by: str = ""


TaskKind = Literal["turn", "review", "summary", "proof", "remember"]
"""`turn`: to see what is to be learned from one that has ended. It is wanted as the turn ends, in
the same transaction, so that no death comes in between."""
AFTER_TURN = 60.0
"""Seconds until a turn's task falls due; the runtime that worked the turn does it at once."""
TRIALS = "proof"
"""The source of sessions from which nothing is learned."""


def turn_task(turn: int) -> str:
    """The key of a turn's task."""
    return f"turn {turn}"


class BackgroundTask(Struct, frozen=True):
    """Work to be done in the background, once for each key, by whichever runtime comes to it."""

    key: str
    kind: TaskKind
    body: dict[str, Any]
    due: float
    tries: int = 0
    state: Literal["due", "done", "given-up"] = "due"
    result: str = ""
