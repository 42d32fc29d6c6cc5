"""Synchronises the folder of skills with the store. The folder is authoritative: whatever people
change there by hand becomes a version."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from hermes_agent.core.errors import NotFound
from hermes_agent.core.knowledge import Author, Doc, SkillRecord, SkillVersion
from hermes_agent.core.protocols import Clock
from hermes_agent.core.skills import OFFERED, SkillState
from hermes_agent.learning.folder_lock import LOCK_SECONDS, FolderLock
from hermes_agent.learning.skills import folder as folders
from hermes_agent.learning.skills.file import SkillText, section
from hermes_agent.learning.skills.folder import Leftover, Signature, SkillFolder, digest
from hermes_agent.learning.skills.scanner import (
    INDEX,
    CachedFolder,
    ChangedFolder,
    FolderScanner,
    read_index,
    write_index,
)
from hermes_agent.store.knowledge.store import KnowledgeStore

REMOVED = "removed by hand"
KEPT_SECONDS, KEPT = 60.0, 16
"""How long, and how many, replaced folders stay: an editor may still have a file of one open."""
DOC_CHARS = 2_000
NEWS = 100

Keep = Callable[[], Awaitable[object]]


class SkillFolderSync:
    def __init__(
        self,
        folder: Path,
        knowledge: KnowledgeStore,
        shipped: Path,
        scan: Callable[[str], str],
        clock: Clock,
        patience: float = LOCK_SECONDS,
    ) -> None:
        self.lock = FolderLock(folder, "skills", patience)
        self.known: dict[str, CachedFolder] = {}
        self.scanner = FolderScanner(folder, shipped, scan)
        self._folder = folder
        self._knowledge = knowledge
        self._clock = clock
        self._news: dict[str, None] = {}
        self._checked_leftovers: dict[Path, Signature] = {}
        self._fresh = True

    # The caller of these holds the lock.

    def news(self) -> Sequence[str]:
        """What came of changes by hand since the last call, in sentences."""
        news, self._news = list(self._news), {}
        return news

    async def import_edits(self) -> None:
        """Import what was changed by hand."""
        for each in await self._import():
            self._news[each] = None
        while len(self._news) > NEWS:
            del self._news[next(iter(self._news))]

    async def _import(self) -> Sequence[str]:
        if self._fresh:
            await self._begin()
        said = await self._tidy()
        looked = await asyncio.to_thread(self.scanner.scan, self.known)
        gone = self.known.keys() - looked.there.keys()
        if not (self._fresh or looked.seen or looked.settled or gone):
            return [*said, *looked.odd]
        before, records = dict(self.known), await self._records()
        self.known |= looked.settled
        for seen in looked.seen:
            said += await self._take(seen, records.get(seen.name))
        await self._document(looked.seen)
        for name in sorted(records.keys() - looked.there.keys()):
            if records[name].state != "retired":
                await self._knowledge.set_skill(name, "retired", REMOVED, "person")
                said.append(f"the skill {name!r} was {REMOVED}")
        await self._knowledge.drop_docs("skill", sorted(gone))
        for name in gone:
            del self.known[name]
        if self.known != before:
            await self._remember()
        self._fresh = False
        return [*said, *looked.odd]

    async def _begin(self) -> None:
        """Use the saved index where the store agrees: a crash may have come between the two."""
        records = await self._records()
        self.known = {
            name: known
            for name, known in read_index(self._folder / INDEX).items()
            if name in records and records[name].digest == known.digest
        }

    async def _records(self) -> Mapping[str, SkillRecord]:
        return {record.name: record for record in await self._knowledge.skills()}

    async def write_folder(self, name: str, files: Mapping[str, bytes], keep: Keep) -> SkillRecord:
        """Make new files the skill's folder. They are stored before the folder changes, so that
        what a crash leaves there is never taken for an edit by hand."""
        draft = await asyncio.to_thread(folders.prepare, self._folder, name, files)
        self.known.pop(name, None)  # whatever happens now, the folder is read again
        await keep()
        await self._put(name, draft, digest(files))
        return await self.note(name)

    async def restore_folder(
        self, name: str, files: Mapping[str, bytes], keep: Keep
    ) -> SkillRecord:
        """Make a stored version the skill's folder. The folder changes first: after a crash the
        next import completes it."""
        place = self.scanner.place(name)
        wanted = digest(files)
        if place is None or digest((await self._read(place)).files) != wanted:
            draft = await asyncio.to_thread(folders.prepare, self._folder, name, files)
            await self._put(name, draft, wanted)
        await keep()
        return await self.note(name)

    async def _put(self, name: str, draft: Path, wanted: str) -> None:
        target = self.scanner.target(name)
        old = await asyncio.to_thread(folders.put_in_place, draft, target)
        if old is not None:
            await self._check_leftover(folders.leftover(old, wanted))

    async def _read(self, place: Path) -> SkillFolder:
        return await asyncio.to_thread(folders.read_folder, place)

    async def note(self, name: str) -> SkillRecord:
        """Read one skill's folder again and update the search index."""
        self.known.pop(name, None)
        seen = await asyncio.to_thread(self.scanner.read_one, name)
        if seen is None:
            await self._knowledge.drop_docs("skill", [name])
        else:
            await self._take(seen, await self._knowledge.skill(name))
            await self._document([seen])
            await self._remember()
        return await self._knowledge.skill(name)

    async def _document(self, looked: Sequence[ChangedFolder]) -> None:
        """Update the search index for these folders. From then on they are known."""
        if not looked:
            return
        records = await self._records()
        fit = {
            seen.name
            for seen in looked
            if records[seen.name].state in OFFERED and not seen.text.broken
        }
        await self._knowledge.drop_docs("skill", sorted({seen.name for seen in looked} - fit))
        await self._knowledge.save_documents(
            [document(seen.text, records[seen.name].changed) for seen in looked if seen.name in fit]
        )
        self.known |= {seen.name: seen.known for seen in looked}

    async def _take(self, seen: ChangedFolder, record: SkillRecord | None) -> Sequence[str]:
        """Make a folder the current version, unless it is."""
        broken, said = seen.text.broken, list[str]()
        before = self.known.get(seen.name)
        if record is None or record.digest != seen.digest:
            said += await self._another(seen, record)
        elif record.state == "retired" and record.reason == REMOVED:
            said += await self._again(seen)
        if broken and (before is None or before.digest != seen.digest):
            said.append(f"the skill {seen.name!r} is not available: {broken}")
        return said

    async def _again(self, seen: ChangedFolder) -> Sequence[str]:
        """Restore a skill whose folder was removed and came back unchanged."""
        name, state, why = seen.name, *await self._before_removal(seen.name)
        version = await self._version(name, seen.digest)
        if seen.danger and not (version and version.good):
            state, why = "quarantined", seen.danger
        still = "" if state in OFFERED else f", still {state}"
        await self._knowledge.set_skill(name, state, why if still else "restored by hand", "person")
        return [f"the skill {name!r} was restored by hand{still}"]

    async def _before_removal(self, name: str) -> tuple[SkillState, str]:
        log = await self._knowledge.skill_changes(name)  # the newest first
        gone = next(at for at, each in enumerate(log) if each.why == REMOVED)
        states = {state: state for state in get_args(SkillState)}
        found = ((states[each.what], each.why) for each in log[gone + 1 :] if each.what in states)
        return next(found)

    async def _another(self, seen: ChangedFolder, record: SkillRecord | None) -> Sequence[str]:
        by: Author = "shipped" if seen.shipped else "person"
        earlier = await self._version(seen.name, seen.digest)
        if earlier is not None:
            why = "its text is that of an earlier version again"
            if seen.danger and not earlier.good:
                await self._knowledge.set_skill(
                    seen.name, "quarantined", seen.danger, by, version=earlier.number
                )
                return [f"the skill {seen.name!r} is quarantined: {seen.danger}"]
            await self._knowledge.set_skill(
                seen.name, initial_state(earlier), why, by, version=earlier.number
            )
            return [f"the skill {seen.name!r} was restored to version {earlier.number} by hand"]
        state: SkillState = "given"
        why = "shipped with Hermes" if seen.shipped else "written by hand"
        if record is not None and not seen.shipped:
            why = "edited by hand"
        if record is not None and seen.shipped and record.state == "retired":
            state, why = ("retired", record.reason) if record.reason != REMOVED else ("given", why)
        if seen.danger:
            state, why = "quarantined", seen.danger
        good = state == "given" and not seen.text.broken
        version = await self._knowledge.save_version(
            seen.name, seen.folder.files, seen.digest, by, state, why=why, good=good
        )
        if seen.danger:
            return [f"the skill {seen.name!r} is quarantined: {seen.danger}"]
        if seen.shipped:
            return []
        return [f"the skill {seen.name!r} was {why}: version {version.number}"]

    async def _version(self, name: str, wanted: str) -> SkillVersion | None:
        found = [each for each in await self._knowledge.versions(name) if each.digest == wanted]
        return found[-1] if found else None

    # Leftovers of earlier writes.

    async def _tidy(self) -> list[str]:
        left = await asyncio.to_thread(folders.leftovers, self._folder)
        said: list[str] = []
        for at, each in enumerate(left, 1):
            if self._checked_leftovers.get(each.place) != each.signature:
                said += await self._check_leftover(each)
            if self._clock() - each.since > KEPT_SECONDS or at <= len(left) - KEPT:
                self._checked_leftovers.pop(each.place, None)
                await asyncio.to_thread(folders.remove, each.place)
        return said

    async def _check_leftover(self, left: Leftover) -> Sequence[str]:
        """Store an edit that went into a folder while it was replaced as a version."""
        self._checked_leftovers[left.place] = left.signature
        found = await self._read(left.folder)
        now = digest(found.files)
        target = self.scanner.target(left.name)
        if now == left.draft and not target.exists():
            if await self._version(left.name, now) is not None:
                await asyncio.to_thread(folders.put_in_place, left.folder, target)
            return ()
        if now == left.draft or not found.files or await self._version(left.name, now) is not None:
            return ()
        try:
            version = await self._knowledge.save_version(
                left.name, found.files, now, "person", "given",
                why="edited by hand while it was replaced", pending=True,
            )  # fmt: skip
        except NotFound:  # a draft that was never used
            return ()
        edited = f"the skill {left.name!r} was edited by hand while it was replaced"
        return [f"{edited}: that is version {version.number}, which is not in use"]

    async def _remember(self) -> None:
        await asyncio.to_thread(write_index, self._folder / INDEX, self.known)


def initial_state(version: SkillVersion) -> SkillState:
    """The state of a version by its author and proof."""
    if version.by in ("person", "shipped"):
        return "given"
    return "proven" if version.good else "candidate"


def document(text: SkillText, time: float) -> Doc:
    facts = text.facts
    parts = [facts.description, section(text.body, "When to Use"), " ".join(facts.tags)]
    words = "\n".join(part for part in parts if part)[:DOC_CHARS]
    title = facts.name.replace("-", " ")
    return Doc("skill", facts.name, f"{facts.name} {title}" if title != facts.name else title,
               words, time=time)  # fmt: skip
