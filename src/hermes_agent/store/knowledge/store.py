"""What is learned: `core.lore.Lore` in the same database, behind the same writer and readers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import apsw

from hermes_agent.core.knowledge import (
    Author,
    BackgroundTask,
    Doc,
    DocKind,
    EvaluationCase,
    KnowledgeStore,
    Note,
    NoteChange,
    NoteEdit,
    Proposal,
    SkillChange,
    SkillRecord,
    SkillUse,
    SkillVersion,
    Trial,
)
from hermes_agent.core.protocols import Clock
from hermes_agent.core.skills import SkillState
from hermes_agent.store.knowledge import documents, notes, skills, tasks

T = TypeVar("T")


class WriteFn(Protocol):
    def __call__(self, name: str, work: Callable[[apsw.Connection], T]) -> Awaitable[T]: ...


class ReadFn(Protocol):
    def __call__(self, work: Callable[[apsw.Connection], T]) -> Awaitable[T]: ...


class SqliteKnowledgeStore(KnowledgeStore):
    """Made by the store, which hands in its writer and its readers."""

    def __init__(self, write: WriteFn, read: ReadFn, clock: Clock) -> None:
        self._write = write
        self._read = read
        self._clock = clock

    # notes
    async def notes(self, *, removed: bool = False) -> Sequence[Note]:
        return await self._read(lambda db: notes.notes(db, removed))

    async def edit_notes(
        self,
        edits: Sequence[NoteEdit],
        by: Author,
        source: str,
        *,
        model: str = "",
        undoes: int = 0,
    ) -> Sequence[Note]:
        def work(db: apsw.Connection) -> Sequence[Note]:
            batch = notes.Batch(db, self._clock(), by, source, model, undoes)
            return [batch.make(edit) for edit in edits]

        return await self._write("edit_notes", work)

    async def note_changes(self, limit: int = 100, *, note: int = 0) -> Sequence[NoteChange]:
        return await self._read(lambda db: notes.changes(db, limit, note))

    async def notes_used(self, ids: Sequence[int]) -> None:
        await self._write("notes_used", lambda db: notes.used(db, ids, self._clock()))

    # recall
    async def save_documents(self, docs: Sequence[Doc]) -> None:
        await self._write("put_docs", lambda db: documents.put(db, docs))

    async def drop_docs(self, kind: DocKind, refs: Sequence[str]) -> None:
        await self._write("drop_docs", lambda db: documents.drop(db, kind, refs))

    async def docs(self, kind: DocKind) -> Sequence[Doc]:
        return await self._read(lambda db: documents.listed(db, kind))

    async def get_docs(self, wanted: Sequence[tuple[DocKind, str]]) -> Sequence[Doc]:
        return await self._read(lambda db: documents.get(db, wanted))

    async def find_docs(
        self, words: Sequence[str], kinds: Sequence[DocKind], limit: int = 20
    ) -> Sequence[Doc]:
        return await self._read(lambda db: documents.find(db, words, kinds, limit))

    async def count_docs(
        self, groups: Sequence[Sequence[str]], kinds: Sequence[DocKind]
    ) -> Sequence[int]:
        return await self._read(lambda db: documents.count(db, groups, kinds))

    async def save_vectors(self, model: str, vectors: Mapping[tuple[DocKind, str], bytes]) -> None:
        await self._write("put_vectors", lambda db: documents.save_vectors(db, model, vectors))

    async def vectors(
        self, model: str, kinds: Sequence[DocKind]
    ) -> Sequence[tuple[DocKind, str, bytes]]:
        return await self._read(lambda db: documents.vectors(db, model, kinds))

    async def without_vector(self, model: str, limit: int) -> Sequence[Doc]:
        return await self._read(lambda db: documents.without_vector(db, model, limit))

    # skills
    async def skills(self) -> Sequence[SkillRecord]:
        return await self._read(skills.skills)

    async def skill(self, name: str) -> SkillRecord:
        return await self._read(lambda db: skills.skill(db, name))

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
        def work(db: apsw.Connection) -> SkillVersion:
            new = SkillVersion(name, 0, digest, self._clock(), by, model, why, good)
            if pending:
                return skills.save_pending(db, new, files)
            return skills.keep(db, new, files, state)

        return await self._write("keep_version", work)

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
        return await self._write(
            "set_skill",
            lambda db: skills.set_skill(db, name, state, why, by, self._clock(), version, good),
        )

    async def versions(self, name: str) -> Sequence[SkillVersion]:
        return await self._read(lambda db: skills.versions(db, name))

    async def files(self, name: str, version: int) -> Mapping[str, bytes]:
        return await self._read(lambda db: skills.files(db, name, version))

    async def skill_changes(self, name: str) -> Sequence[SkillChange]:
        return await self._read(lambda db: skills.changes(db, name))

    async def add_uses(self, uses: Sequence[SkillUse]) -> None:
        await self._write("add_uses", lambda db: skills.add_uses(db, uses))

    async def uses(self, skill: str = "", limit: int = 1000) -> Sequence[SkillUse]:
        return await self._read(lambda db: skills.uses(db, skill, limit))

    async def add_cases(self, cases: Sequence[EvaluationCase]) -> None:
        await self._write("add_cases", lambda db: skills.add_cases(db, cases))

    async def cases(self, skill: str) -> Sequence[EvaluationCase]:
        return await self._read(lambda db: skills.cases(db, skill))

    async def add_trials(self, trials: Sequence[Trial]) -> None:
        await self._write("add_trials", lambda db: skills.add_trials(db, trials))

    async def trials(self, skill: str = "", digest: str = "") -> Sequence[Trial]:
        return await self._read(lambda db: skills.trials(db, skill, digest))

    # proposals and chores
    async def propose(
        self, kind: str, title: str, body: Mapping[str, Any], evidence: str, model: str = ""
    ) -> Proposal:
        return await self._write(
            "propose",
            lambda db: tasks.propose(db, kind, title, body, evidence, self._clock(), model),
        )

    async def proposals(self, *, state: str = "open") -> Sequence[Proposal]:
        return await self._read(lambda db: tasks.proposals(db, state))

    async def decide_proposal(self, id: int, state: str, by: str) -> Proposal:
        return await self._write("decide_proposal", lambda db: tasks.decide(db, id, state, by))

    async def reopen_proposal(self, id: int) -> None:
        await self._write("reopen_proposal", lambda db: tasks.reopen(db, id))

    async def want(self, chore: BackgroundTask) -> bool:
        return await self._write("want", lambda db: tasks.want(db, chore))

    async def chores(self, now: float) -> Sequence[BackgroundTask]:
        return await self._read(lambda db: tasks.chores(db, now))

    async def postpone(self, key: str, until: float, why: str, *, tried: bool = True) -> None:
        await self._write("put_off", lambda db: tasks.postpone(db, key, until, why, tried))

    async def drop_chore(self, key: str) -> None:
        await self._write("drop_chore", lambda db: tasks.drop(db, key))

    async def given_up(self, since: float) -> Sequence[BackgroundTask]:
        return await self._read(lambda db: tasks.given_up(db, since))

    async def forget_chores(self, before: float) -> None:
        await self._write("forget_chores", lambda db: tasks.forget(db, before))

    async def close_chore(self, key: str, state: str, result: str = "") -> None:
        await self._write("close_chore", lambda db: tasks.close(db, key, state, result))

    async def count(self, name: str, add: int = 0) -> int:
        if not add:
            return await self._read(lambda db: tasks.counted(db, name))
        return await self._write("count", lambda db: tasks.count(db, name, add))
