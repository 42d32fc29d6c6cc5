"""Reviews turns with a cheap model for notes and skills that will be needed again, and applies or
proposes them, by the settings."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from hermes_agent.core.errors import Degraded, HermesError, UsageError
from hermes_agent.core.knowledge import Author, BackgroundTask, NoteEdit, Proposal, SkillRecord
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.root import Consent, LearningSettings
from hermes_agent.learning.memory.memory import Memory
from hermes_agent.learning.review.prompt import (
    MAX_NOTES,
    MAX_OUTPUT,
    MAX_SKILLS,
    MAX_SKILLS_OVER_ALL,
    PROMPTS,
    Ideas,
    question,
)
from hermes_agent.learning.review.proposals import (
    Proposed,
    nearest,
    new_only,
    note_of,
    skill_of,
)
from hermes_agent.learning.review.transcript import ReviewTranscript, shown
from hermes_agent.learning.review.triggers import Trigger
from hermes_agent.learning.skills.file import parse, widens
from hermes_agent.learning.skills.folder import MAIN, main_file
from hermes_agent.learning.skills.registry import SkillRegistry, find_skill
from hermes_agent.learning.structured_output import Ask, ask_for
from hermes_agent.store.knowledge.store import KnowledgeStore


class Applied(Struct, frozen=True):
    proposed: Proposed
    state: Literal["kept", "asked", "refused", "off"]
    words: str = ""


class Reviewer:
    def __init__(
        self,
        *,
        ask: Ask,
        knowledge: KnowledgeStore,
        memory: Memory,
        skills: SkillRegistry,
        settings: Callable[[], LearningSettings],
        clock: Clock,
    ) -> None:
        self._ask = ask
        self._knowledge = knowledge
        self._memory = memory
        self._skills = skills
        self._settings = settings
        self._clock = clock

    async def review(
        self,
        transcripts: Sequence[ReviewTranscript],
        triggers: Sequence[Trigger] = (),
        *,
        over_all: bool = False,
    ) -> Sequence[Proposed]:
        """Proposals from these turns; usually none. Raises `NoBudget` or `ModelError`."""
        settings = self._settings()
        if settings.notes == settings.skills == "off":
            return []
        seen = shown(transcripts)
        notes = await self._knowledge.notes()
        near = await nearest(self._knowledge, transcripts)
        prompt = question(seen, triggers, notes, near, settings, over_all=over_all)
        ideas, answer = await ask_for(
            self._ask, "review", PROMPTS["system"], prompt, MAX_OUTPUT, Ideas
        )
        proposed: list[Proposed] = []
        if settings.notes != "off":
            made = [note_of(idea, seen, notes, answer.model) for idea in ideas.notes]
            proposed += [note for note in made if note is not None][:MAX_NOTES]
        if settings.skills != "off":
            most = MAX_SKILLS_OVER_ALL if over_all else MAX_SKILLS
            found = [
                await skill_of(idea, seen, near, answer.model, self._knowledge, self._skills)
                for idea in ideas.skills
            ]
            proposed += [skill for skill in found if skill is not None][:most]
        return await new_only(proposed, self._knowledge)

    async def apply(self, proposed: Sequence[Proposed]) -> Sequence[Applied]:
        """Apply or propose each, by the settings. What a person wrote is not changed without their
        consent."""
        return [await self._apply(one) for one in proposed]

    async def _apply(self, one: Proposed) -> Applied:
        try:
            consent = await self._consent(one)
            if consent == "off":
                return Applied(one, "off")
            if consent == "automatic":
                return Applied(one, "kept", await self._do(one))
            if one.kind == "note":
                self._memory.refuse_danger(one.body["text"])
            made = await self._knowledge.propose(
                one.kind, one.title, one.body, one.evidence, one.model
            )
        except Degraded:
            raise  # the others would fail too: the task is repeated
        except HermesError as error:
            return Applied(one, "refused", error.message)
        return Applied(one, "asked", f"proposal {made.id}: {one.title}")

    async def accept(self, proposal: Proposal, by: str) -> str:
        """Apply a proposal; what was done. It is closed first, so that nobody rejects it meanwhile,
        and reopened if it fails."""
        await self._knowledge.decide_proposal(proposal.id, "accepted", by)
        one = Proposed(
            proposal.kind, proposal.title, proposal.body, proposal.evidence, proposal.model
        )
        try:
            return await self._do(one)
        except Exception:
            await self._knowledge.reopen_proposal(proposal.id)
            raise

    async def save_skill(
        self,
        name: str,
        files: Mapping[str, bytes],
        *,
        by: Author,
        model: str,
        why: str,
        session: str = "",
        turn: int = 0,
    ) -> str:
        """Store a learned skill as a candidate and have it proven; its state in words. A version of
        a skill that works is pending until then. Cases are made from the turn."""
        before = await find_skill(self._knowledge, name)
        if before is not None and before.state in {"retired", "quarantined"}:
            raise UsageError(
                f"the skill {name!r} is {before.state}: {before.reason or 'archived'}",
                f"choose another name, or `hermes skills restore {name}`",
            )
        if before is not None and before.state in {"given", "proven"}:
            version = await self._skills.save_pending(name, files, by=by, model=model, why=why)
            digest, words = version.digest, f"candidate (version {version.number}, pending)"
        else:
            base = before.digest if before else ""
            now = await self._skills.write(
                name, files, by=by, state="candidate", model=model, why=why, base=base
            )
            digest, words = now.digest, f"candidate (version {now.version})"
        body = {"skill": name, "digest": digest, "session": session, "turn": turn}
        await self._knowledge.add_task(
            BackgroundTask(f"proof {name} {digest}", "proof", body, self._clock())
        )
        return words

    async def _consent(self, one: Proposed) -> Consent:
        settings = self._settings()
        chosen = settings.notes if one.kind == "note" else settings.skills
        if chosen != "automatic":
            return chosen
        asks = one.hearsay or await self._is_a_persons(one) or await self._widens(one)
        return "ask" if asks else "automatic"

    async def _widens(self, one: Proposed) -> bool:
        """Whether a skill would have fewer limits than the one that it improves."""
        if one.kind == "note" or one.body["action"] == "create":
            return False
        return await self.widens(one.body["name"], one.body["files"].get(MAIN, ""))

    async def widens(self, name: str, text: str) -> bool:
        """Whether this text has fewer limits than the skill has now."""
        record = await self._knowledge.skill(name)
        files = await self._knowledge.files(name, record.version)
        main = main_file(files)
        before = parse(files[main].decode(errors="replace")) if main else None
        return before is not None and widens(before.bounds, parse(text).bounds)

    async def _is_a_persons(self, one: Proposed) -> bool:
        if one.kind == "note":
            notes = await self._knowledge.notes()
            return any(note.id == one.body["id"] and note.by == "person" for note in notes)
        if one.body["action"] == "create":
            return False
        return (await self._knowledge.skill(one.body["name"])).by == "person"

    async def _do(self, one: Proposed) -> str:
        body = one.body
        if one.kind == "note":
            edit = NoteEdit(body["text"], body["id"], body["view"], body["confidence"])
            await self._memory.edit([edit], "review", one.evidence, model=one.model)
            return f"noted: {one.title}"
        if number := body.get("version"):
            await self._unchanged(body["name"], body["base"])
            await self._skills.adopt(
                body["name"], number, state="proven", why=body["why"], by="review"
            )
            return f"{body['name']}: version {number} is in use"
        kept = await self.save_skill(
            body["name"],
            await self._files(body["name"], body["files"], body["base"]),
            by="review",
            model=one.model,
            why=f"{body['why']} ({one.evidence})",
            session=body["session"],
            turn=body["turn"],
        )
        return f"{body['name']}: {kept}"

    async def _files(self, name: str, texts: Mapping[str, str], base: str) -> Mapping[str, bytes]:
        """The new files, with the unchanged ones of the version that they improve."""
        files = {path: text.encode() for path, text in texts.items()}
        if not base:
            return files
        record = await self._unchanged(name, base)
        return {**await self._knowledge.files(name, record.version), **files}

    async def _unchanged(self, name: str, base: str) -> SkillRecord:
        record = await self._knowledge.skill(name)
        if record.digest != base:
            raise UsageError(
                f"the skill {name!r} has changed since this was proposed",
                "reject it; a later review sees the skill as it is now",
            )
        return record
