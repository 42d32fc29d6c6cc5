"""What is learned, as rows, and the part of the store that keeps them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

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


ChoreKind = Literal["turn", "review", "summary", "proof", "remember"]
"""`turn`: to see what is to be learned from one that has ended. It is wanted as the turn ends, in
the same transaction, so that no death comes in between."""
AFTER_TURN = 60.0
"""Seconds until a turn's chore falls due; the runtime that worked the turn does it at once."""
TRIALS = "proof"
"""The source of sessions from which nothing is learned."""


def turn_chore(turn: int) -> str:
    """The key of a turn's chore."""
    return f"turn {turn}"


class BackgroundTask(Struct, frozen=True):
    """Work to be done in the background, once for each key, by whichever runtime comes to it."""

    key: str
    kind: ChoreKind
    body: dict[str, Any]
    due: float
    tries: int = 0
    state: Literal["due", "done", "given-up"] = "due"
    result: str = ""


class KnowledgeStore(Protocol):
    """Every method that writes returns when it is on disk; each is one transaction."""

    # notes
    async def notes(self, *, removed: bool = False) -> Sequence[Note]:
        """All of them, oldest first; those that were removed only when asked for."""
        ...

    async def edit_notes(
        self,
        edits: Sequence[NoteEdit],
        by: Author,
        source: str,
        *,
        model: str = "",
        undoes: int = 0,
    ) -> Sequence[Note]:
        """Make the edits as one batch; the notes as they are then. Editing what is not there
        raises `NotFound`, and nothing is changed."""
        ...

    async def note_changes(self, limit: int = 100, *, note: int = 0) -> Sequence[NoteChange]:
        """The newest first."""
        ...

    async def notes_used(self, ids: Sequence[int]) -> None: ...

    # recall
    async def save_documents(self, docs: Sequence[Doc]) -> None:
        """Add or replace what can be recalled, by kind and ref."""
        ...

    async def drop_docs(self, kind: DocKind, refs: Sequence[str]) -> None: ...

    async def docs(self, kind: DocKind) -> Sequence[Doc]: ...

    async def get_docs(self, wanted: Sequence[tuple[DocKind, str]]) -> Sequence[Doc]:
        """Those of these kinds and refs that are there, in this order."""
        ...

    async def find_docs(
        self, words: Sequence[str], kinds: Sequence[DocKind], limit: int = 20
    ) -> Sequence[Doc]:
        """Those in which any of the words is found, best first (BM25, titles count more)."""
        ...

    async def count_docs(
        self, groups: Sequence[Sequence[str]], kinds: Sequence[DocKind]
    ) -> Sequence[int]:
        """For each group of words, in how many documents any of them is found; for an empty
        group, how many documents there are."""
        ...

    async def save_vectors(self, model: str, vectors: Mapping[tuple[DocKind, str], bytes]) -> None:
        """A vector goes when its document changes."""
        ...

    async def vectors(
        self, model: str, kinds: Sequence[DocKind]
    ) -> Sequence[tuple[DocKind, str, bytes]]: ...

    async def without_vector(self, model: str, limit: int) -> Sequence[Doc]: ...

    # skills
    async def skills(self) -> Sequence[SkillRecord]: ...

    async def skill(self, name: str) -> SkillRecord:
        """`NotFound` with near names when there is none."""
        ...

    async def save_version(
        self,
        name: str,
        files: Mapping[str, bytes],
        digest: str,
        by: Author,
        state: SkillState,
        *,
        model: str = "",
        why: str = "",
        good: bool = False,
        pending: bool = False,
    ) -> SkillVersion:
        """The folder as it is now becomes the current version. The same digest as the current one
        changes nothing. A `pending` one is kept beside the current version of a skill that is
        there, whose state and version stay: what works is not replaced before it is proven."""
        ...

    async def set_skill(
        self,
        name: str,
        state: SkillState,
        why: str,
        by: str,
        *,
        version: int = 0,
        good: bool | None = None,
    ) -> SkillRecord:
        """Another state, and another version when one is named; `good` marks that version."""
        ...

    async def versions(self, name: str) -> Sequence[SkillVersion]: ...

    async def files(self, name: str, version: int) -> Mapping[str, bytes]: ...

    async def skill_changes(self, name: str) -> Sequence[SkillChange]: ...

    async def add_uses(self, uses: Sequence[SkillUse]) -> None:
        """Once for each skill and turn; a later outcome replaces an earlier one."""
        ...

    async def uses(self, skill: str = "", limit: int = 1000) -> Sequence[SkillUse]:
        """The newest first."""
        ...

    async def add_cases(self, cases: Sequence[EvaluationCase]) -> None: ...

    async def cases(self, skill: str) -> Sequence[EvaluationCase]: ...

    async def add_trials(self, trials: Sequence[Trial]) -> None: ...

    async def trials(self, skill: str = "", digest: str = "") -> Sequence[Trial]: ...

    # proposals and chores
    async def propose(
        self, kind: str, title: str, body: Mapping[str, Any], evidence: str, model: str = ""
    ) -> Proposal: ...

    async def proposals(self, *, state: str = "open") -> Sequence[Proposal]: ...

    async def decide_proposal(self, id: int, state: str, by: str) -> Proposal:
        """Once: one that is decided already raises `UsageError`."""
        ...

    async def reopen_proposal(self, id: int) -> None:
        """What was accepted could not be done: it waits for a person's word again."""
        ...

    async def want(self, chore: BackgroundTask) -> bool:
        """Keep work to be done. False when the key is known: it is done once."""
        ...

    async def chores(self, now: float) -> Sequence[BackgroundTask]:
        """Those that are due, oldest first."""
        ...

    async def postpone(self, key: str, until: float, why: str, *, tried: bool = True) -> None:
        """It is to be done later; `tried` counts as a try that failed."""
        ...

    async def drop_chore(self, key: str) -> None:
        """It is done, and never comes again."""
        ...

    async def given_up(self, since: float) -> Sequence[BackgroundTask]:
        """Those that were given up and were due since then, newest first."""
        ...

    async def forget_chores(self, before: float) -> None:
        """Forget those that were done or given up and were due before."""
        ...

    async def close_chore(self, key: str, state: str, result: str = "") -> None: ...

    async def count(self, name: str, add: int = 0) -> int:
        """A counter by name, after adding."""
        ...
