"""The skills of a home, with their authors, states and all versions."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.gateway import SessionPlace
from hermes_agent.core.knowledge import Author, SkillRecord, SkillVersion
from hermes_agent.core.protocols import Clock
from hermes_agent.core.skills import OFFERED, OpenedSkill, SkillState
from hermes_agent.learning.folder_lock import exclusive
from hermes_agent.learning.skills import rendering
from hermes_agent.learning.skills.file import SkillText, parse, problems
from hermes_agent.learning.skills.folder import (
    check_paths,
    decoded,
    digest,
    main_file,
)  # fmt: skip
from hermes_agent.learning.skills.frontmatter import plain_name, skill_error
from hermes_agent.learning.skills.prompt_index import SkillIndexEntry
from hermes_agent.learning.skills.rendering import ComparedWords, SkillPage, likeness
from hermes_agent.learning.skills.scanner import CachedFolder
from hermes_agent.learning.skills.sync import SkillFolderSync, initial_state
from hermes_agent.store.knowledge.store import KnowledgeStore

NOWHERE = SessionPlace()
DUPLICATE = 0.8
NEAR, NEAREST = 0.2, 5
"""How alike skills must be to be reported as similar, and how many are."""


class SkillRegistry:
    """`scan` says why a text looks dangerous, or nothing; `redact` removes secrets."""

    def __init__(
        self,
        folder: Path,
        knowledge: KnowledgeStore,
        *,
        shipped: Path,
        scan: Callable[[str], str],
        redact: Callable[[str], str],
        clock: Clock,
        platform: str,
    ) -> None:
        self._knowledge = knowledge
        self._folder_sync = SkillFolderSync(folder, knowledge, shipped, scan, clock)
        self.lock = self._folder_sync.lock
        self._redact = redact
        self._platform = platform
        self._words: dict[str, ComparedWords] = {}

    async def sync(self) -> Sequence[str]:
        """Import changes made by hand; what came of them since the last call, in sentences."""
        await self._refresh()
        return self._folder_sync.news()

    async def offered(
        self, tools: Collection[str], place: SessionPlace = NOWHERE
    ) -> Sequence[SkillIndexEntry]:
        """Skills that a session with these tools can use there, by name."""
        await self._refresh()
        have = frozenset(tools)
        found: list[SkillIndexEntry] = []
        for record in await self._knowledge.skills():
            known = self._folder_sync.known.get(record.name)
            if record.state not in OFFERED or known is None or known.broken:
                continue
            facts = known.facts
            fits = facts.belongs(place) and facts.fits(have, self._platform)
            if fits and known.digest == record.digest:
                about = facts.description, facts.category, record.state, record.digest
                found.append(SkillIndexEntry(record.name, *about, facts.incident, known.shipped))
        return sorted(found, key=lambda each: each.name)

    def elsewhere(self, place: SessionPlace) -> frozenset[str]:
        """Skills that are limited to other places."""
        known = self._folder_sync.known
        return frozenset(name for name, one in known.items() if not one.facts.belongs(place))

    def known(self) -> Mapping[str, CachedFolder]:
        """Every skill whose folder existed at the last scan."""
        return self._folder_sync.known

    async def open(
        self,
        name: str,
        arguments: str = "",
        *,
        run: bool = False,
        digest: str = "",
        facts: Mapping[str, str] | None = None,
        place: SessionPlace | None = None,
    ) -> OpenedSkill:
        """The skill with its values, and with its runbook if it is to `run`. With `digest`, as it
        was in that version. `facts`: of the service, during an incident. `place`: where; None if a
        person does it by name."""
        await self._refresh()
        record = await self._usable(name, place)
        if digest and digest != record.digest:
            same = [each for each in await self._knowledge.versions(name) if each.digest == digest]
            if same:
                record = replace(record, version=same[-1].number, digest=digest)
        files = await self._knowledge.files(name, record.version)
        skill = _parsed(files, name)
        if skill.broken:
            raise UsageError(
                f"the skill {name!r} cannot be used: {skill.broken}",
                f"`hermes skills check {name}` shows what is wrong",
            )
        text = SkillText(skill.facts, self._redact(skill.body), skill.bounds, skill.parameters)
        folder = str(self._folder_sync.scanner.place(name) or "")
        return rendering.opened(record, text, files, arguments, folder, run=run, facts=facts)

    def open_files(
        self, name: str, digest: str, files: Mapping[str, bytes], arguments: str
    ) -> OpenedSkill:
        """Any version, as a trial opens it."""
        record = SkillRecord(name, "candidate", 0, digest, 0.0, 0.0, "review")
        return rendering.opened(record, _parsed(files, name), files, arguments, "", run=False)

    async def read(self, name: str, path: str, place: SessionPlace = NOWHERE) -> bytes:
        """A file of a skill's current version."""
        await self._refresh()
        record = await self._usable(name, place)
        files = await self._knowledge.files(name, record.version)
        if path.removeprefix("./") not in files:
            there = ", ".join(sorted(files))
            raise NotFound(f"the skill {name!r} has no file {path!r}", f"it has {there}")
        return files[path.removeprefix("./")]

    async def facts(self, name: str) -> SkillPage:
        await self._refresh()
        record = await self._knowledge.skill(name)
        files = await self._knowledge.files(name, record.version)
        place = self._folder_sync.scanner.place(name)
        return SkillPage(
            record,
            _parsed(files, name),
            files,
            await asyncio.to_thread(problems, files if place is None else place, name),
            await self._knowledge.versions(name),
            str(place or ""),
        )

    async def near(self, name: str, description: str, body: str) -> Sequence[tuple[str, float]]:
        """Other skills much like this one, the most alike first; retired ones count, so that they
        are not written again."""
        wanted = ComparedWords(name, description, body)
        found: list[tuple[str, float]] = []
        for record in await self._knowledge.skills():
            if record.name == name or record.state == "quarantined":
                continue
            if record.digest not in self._words:
                files = await self._knowledge.files(record.name, record.version)
                skill = _parsed(files, record.name)
                self._words[record.digest] = ComparedWords(
                    record.name, skill.facts.description, skill.body
                )
            score = likeness(wanted, self._words[record.digest])
            if score >= NEAR:
                found.append((record.name, round(score, 3)))
        return sorted(found, key=lambda each: (-each[1], each[0]))[:NEAREST]

    @exclusive
    async def write(
        self,
        name: str,
        files: Mapping[str, bytes],
        *,
        by: Author,
        state: SkillState,
        model: str = "",
        why: str = "",
        base: str = "",
    ) -> SkillRecord:
        """Make these files the skill. With `base`, only if that is still the current version's
        digest."""
        await self._folder_sync.import_edits()
        name = plain_name(name)
        fit = await asyncio.to_thread(self._fit, name, files, by)
        record = await find_skill(self._knowledge, name)
        await self._agree(name, record, fit, base)
        if record is None and by in ("review", "agent"):
            await self._refuse_twins(name, fit)
        if record and record.digest == digest(fit) and self._folder_sync.scanner.place(name):
            return record
        good = state in ("given", "proven")
        return await self._folder_sync.write_folder(
            name,
            fit,
            lambda: self._knowledge.save_version(
                name, fit, digest(fit), by, state, model=model, why=why, good=good
            ),
        )

    async def check(self, name: str, files: Mapping[str, bytes], by: Author) -> None:
        """A `UsageError` says why these files cannot be written as a skill."""
        await asyncio.to_thread(self._fit, plain_name(name), files, by)

    @exclusive
    async def save_pending(
        self, name: str, files: Mapping[str, bytes], *, by: Author, model: str = "", why: str = ""
    ) -> SkillVersion:
        """Store a version beside the one in use, to be proven first. The folder stays as it is."""
        await self._folder_sync.import_edits()
        name = plain_name(name)
        fit = await asyncio.to_thread(self._fit, name, files, by)
        return await self._knowledge.save_version(
            name, fit, digest(fit), by, "candidate", model=model, why=why, pending=True
        )

    @exclusive
    async def adopt(
        self, name: str, version: int, *, state: SkillState, why: str, by: str
    ) -> SkillRecord:
        """Make a stored version the one in use."""
        return await self._go_to(name, version, state, why, by)

    @exclusive
    async def set_state(self, name: str, state: SkillState, why: str, by: str) -> SkillRecord:
        """`proven` marks the current version as one that can be reverted to."""
        await self._folder_sync.import_edits()
        good = True if state == "proven" else None
        await self._knowledge.set_skill(name, state, why, by, good=good)
        return await self._folder_sync.note(name)

    @exclusive
    async def restore(self, name: str, version: int = 0, by: str = "person") -> SkillRecord:
        """Bring a skill back, or one of its versions. A person may bring back what looks
        dangerous."""
        await self._folder_sync.import_edits()
        number = version or (await self._knowledge.skill(name)).version
        versions = await self._knowledge.versions(name)
        chosen = next((each for each in versions if each.number == number), None)
        if chosen is None:
            raise NotFound(
                f"the skill {name!r} has no version {number}", f"`hermes skills log {name}`"
            )
        why = f"restored version {version}" if version else "restored"
        return await self._go_to(name, number, initial_state(chosen), why, by)

    @exclusive
    async def revert(self, name: str, why: str, by: str) -> SkillRecord:
        """Back to the last good version before the current one, which is no longer good."""
        await self._folder_sync.import_edits()
        record = await self._knowledge.skill(name)
        others = await self._knowledge.versions(name)
        good = [each for each in others if each.good and each.number != record.version]
        if not good:
            raise UsageError(
                f"the skill {name!r} has no good version to go back to",
                f"`hermes skills log {name}` shows its versions",
            )
        await self._knowledge.set_skill(name, record.state, why, by, good=False)
        return await self._go_to(name, good[-1].number, initial_state(good[-1]), why, by)

    async def diff(self, name: str, a: int = 0, b: int = 0) -> str:
        """From version `a` to `b`; by default the change that made the current version."""
        after = b or (await self._knowledge.skill(name)).version
        before = a or after - 1
        one = await self._knowledge.files(name, before) if before else {}
        other = await self._knowledge.files(name, after)
        return rendering.diff(one, other, f"version {before}", f"version {after}")

    async def _go_to(
        self, name: str, version: int, state: SkillState, why: str, by: str
    ) -> SkillRecord:
        files = await self._knowledge.files(name, version)
        dangers = self._folder_sync.scanner.dangers
        danger = "" if by == "person" else await asyncio.to_thread(dangers, files)
        if danger:
            raise UsageError(
                f"version {version} of the skill {name!r} looks dangerous: {danger}",
                f"`hermes skills restore {name} {version}` restores it anyway",
            )
        good = True if by == "person" or state in ("given", "proven") else None
        return await self._folder_sync.restore_folder(
            name,
            files,
            lambda: self._knowledge.set_skill(name, state, why, by, version=version, good=good),
        )

    def _fit(self, name: str, files: Mapping[str, bytes], by: Author) -> Mapping[str, bytes]:
        """The files as they are stored; a `UsageError` says what is wrong with them."""
        if not name:
            raise UsageError("the skill has no name", "lower-case words separated by hyphens")
        check_paths(files)
        fit = dict(files)
        if by != "person":
            texts = {path: decoded(data) for path, data in files.items()}
            fit |= {path: self._redact(text).encode() for path, text in texts.items() if text}
        wrong = [each for each in problems(fit, name) if each.severity == "error"]
        if len(name.encode()) > 255:
            wrong.append(skill_error(f"the name {name!r} is too long for a folder"))
        if wrong:
            more = "; ".join(each.message for each in wrong[1:])
            raise UsageError(
                f"the skill {name!r} cannot be saved: {wrong[0].message}", more or wrong[0].hint
            )
        danger = self._folder_sync.scanner.dangers(fit)
        if danger:
            raise UsageError(f"the skill {name!r} cannot be saved: {danger}", "remove that part")
        return fit

    async def _agree(
        self, name: str, record: SkillRecord | None, files: Mapping[str, bytes], base: str
    ) -> None:
        if not base or (record is not None and record.digest == base):
            return
        if record is None:
            raise UsageError(f"the skill {name!r} no longer exists", "write it as a new skill")
        now = await self._knowledge.files(name, record.version)
        shown = rendering.diff(now, files, f"version {record.version}", "yours")
        raise UsageError(
            f"the skill {name!r} has changed: it is now at version {record.version}",
            f"take that one and change it; what differs:\n{shown}",
        )

    async def _refuse_twins(self, name: str, files: Mapping[str, bytes]) -> None:
        skill = _parsed(files, name)
        if skill.facts.incident:  # there is one for each cause and place, and they are much alike
            return
        for other, score in await self.near(name, skill.facts.description, skill.body):
            if score >= DUPLICATE:
                state = (await self._knowledge.skill(other)).state
                raise UsageError(
                    f"a similar skill exists: {other!r} ({state}), {score:.0%} alike",
                    f"improve {other!r} instead",
                )

    async def _refresh(self) -> None:
        await self.lock.run(self._folder_sync.import_edits)

    async def _usable(self, name: str, place: SessionPlace | None) -> SkillRecord:
        record = await self._knowledge.skill(name)
        if place is not None and name in self.elsewhere(place):
            limit = self._folder_sync.known[name].facts.places
            raise UsageError(f"the skill {name!r} is limited to {limit}", "use it there")
        if record.state in OFFERED:
            return record
        because = f": {record.reason}" if record.reason else ""
        raise UsageError(
            f"the skill {name!r} is {record.state}{because}",
            f"a person can restore it: `hermes skills restore {name}`",
        )


async def find_skill(knowledge: KnowledgeStore, name: str) -> SkillRecord | None:
    try:
        return await knowledge.skill(name)
    except NotFound:
        return None


def _parsed(files: Mapping[str, bytes], name: str) -> SkillText:
    main = main_file(files)
    return parse(decoded(files[main]) or "" if main else "", name)
