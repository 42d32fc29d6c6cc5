"""Turns a review's ideas into proposals: backed by lines that exist, new, and improvements where
such a skill exists."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from hermes_agent.core import events as ev
from hermes_agent.core.knowledge import Note, SkillRecord
from hermes_agent.learning.review.prompt import SKILL_CHARS, NearSkill, NoteIdea, SkillIdea
from hermes_agent.learning.review.transcript import (
    ReviewTranscript,
    ShownTranscript,
    TranscriptLine,
    evidence,
)
from hermes_agent.learning.skills.frontmatter import read_front
from hermes_agent.learning.skills.registry import SkillRegistry, find_skill
from hermes_agent.store.knowledge.store import KnowledgeStore

log = logging.getLogger("hermes.learning")

DUPLICATE = 0.8
NEAREST = 6
WHOLE = 2
"""The nearest skills that are shown with their text."""
MAX_CANDIDATES = 20
"""While so many wait to be proven, no new skill is proposed."""
FILES_CHARS = 30_000
QUERY_WORDS = 40
TITLE_CHARS = 80
HEARSAY = 0.5
"""The most confidence in what only tool output shows."""
MAIN = "SKILL.md"
_PATH = re.compile(r"SKILL\.md|runbook\.yaml|(?:references|scripts|templates|assets)/[\w.-]+")
_WORD = re.compile(r"[^\W\d_][\w-]{2,}")
_NAME_LINE = re.compile(r"^name:.*$", re.MULTILINE)


class Proposed(Struct, frozen=True):
    kind: Literal["note", "skill"]
    title: str
    body: dict[str, Any]
    evidence: str
    model: str = ""
    hearsay: bool = False
    """It may be anybody's words: nobody who counts has said it."""


async def nearest(
    knowledge: KnowledgeStore, transcripts: Sequence[ReviewTranscript]
) -> list[NearSkill]:
    """The skills that fit what was said; the nearest with their whole text."""
    said = " ".join(
        one.event.text
        for transcript in transcripts
        for one in transcript.events
        if isinstance(one.event, ev.MessageTaken | ev.Replied)
    )
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(said)))[:QUERY_WORDS]
    near: list[NearSkill] = []
    for doc in await knowledge.find_docs(words, ["skill"], NEAREST) if words else ():
        record = await find_skill(knowledge, doc.ref)
        if record is None or record.state in {"quarantined", "retired"}:
            continue
        files = await knowledge.files(record.name, record.version)
        text = files.get(MAIN, b"").decode("utf-8", "replace")
        description = read_front(text).text("description")
        room = sum(bool(one.text) for one in near) < WHOLE and len(text) <= SKILL_CHARS
        near.append(NearSkill(record.name, description, text if room else ""))
    return near


def note_of(
    idea: NoteIdea, seen: ShownTranscript, notes: Sequence[Note], model: str
) -> Proposed | None:
    """None if no line shows it, or it says nothing new. Notes about the user must come from the
    user: tool output may be written by anybody."""
    lines = seen.lines_of(idea.evidence)
    text = " ".join(idea.text.split())
    same = any(note.text.casefold() == text.casefold() for note in notes)
    old = next((note for note in notes if note.id == idea.replaces), None)
    if not lines or not text or same or (idea.replaces and old is None):
        return None
    view = old.view if old else idea.view
    if view == "user" and not any(line.by_user for line in lines):
        return None
    seen_only = all(line.by_tool for line in lines)
    body = {
        "view": view,
        "text": text,
        "confidence": min(idea.confidence, HEARSAY) if seen_only else idea.confidence,
        "id": idea.replaces,
    }
    title = text if len(text) <= TITLE_CHARS else text[: TITLE_CHARS - 1] + "…"
    hearsay = seen.sources.doubts(text)
    return Proposed("note", title, body, evidence(lines), model, hearsay)


async def skill_of(
    idea: SkillIdea,
    seen: ShownTranscript,
    near: Sequence[NearSkill],
    model: str,
    knowledge: KnowledgeStore,
    skills: SkillRegistry,
) -> Proposed | None:
    """None if no line shows it or it cannot be a skill. A near duplicate becomes an improvement of
    the existing skill."""
    lines = seen.lines_of(idea.evidence)
    front = read_front(idea.files.get(MAIN, ""))
    described = front.text("description")
    whole = sum(map(len, idea.files.values())) <= FILES_CHARS
    if not lines or not described or not whole or not all(map(_PATH.fullmatch, idea.files)):
        return None
    record = await find_skill(knowledge, idea.name)
    if record is None:
        alike = await skills.near(idea.name, described, front.body)
        if alike and alike[0][1] >= DUPLICATE:
            record = await knowledge.skill(alike[0][0])
    if record is not None and not any(one.name == record.name and one.text for one in near):
        log.info("%s is dropped: its review has not seen %s", idea.name, record.name)
        return None
    if record is None and await _too_many_wait(knowledge):
        return None
    if record is not None and record.state in {"quarantined", "retired"}:
        return None
    hearsay = seen.sources.remote or all(line.by_tool for line in lines)
    return _proposed(idea, record, lines, model, hearsay)


def _proposed(
    idea: SkillIdea,
    record: SkillRecord | None,
    lines: Sequence[TranscriptLine],
    model: str,
    hearsay: bool,
) -> Proposed:
    name = record.name if record else idea.name
    action = "improve" if record else "create"
    body = {
        "action": action,
        "name": name,
        "files": {**idea.files, MAIN: _renamed(idea.files[MAIN], name)},
        "why": idea.why,
        "base": record.digest if record else "",
        "session": lines[-1].session,
        "turn": lines[-1].turn,
    }
    return Proposed("skill", f"{action} the skill {name}", body, evidence(lines), model, hearsay)


async def new_only(proposed: Sequence[Proposed], knowledge: KnowledgeStore) -> list[Proposed]:
    """Without what a person rejected or has yet to decide."""
    before = [
        *await knowledge.proposals(state="open"),
        *await knowledge.proposals(state="rejected"),
    ]
    said = {_gist(one.body) for one in before}
    return [one for one in proposed if _gist(one.body) not in said]


def _gist(body: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for proposals of the same thing."""
    if "text" in body:
        return ("note", (body["text"] or "").casefold(), body["id"])
    texts = tuple(sorted(body["files"].items())) if body["action"] == "improve" else ()
    return (body["action"], body["name"], texts)


async def _too_many_wait(knowledge: KnowledgeStore) -> bool:
    return sum(one.state == "candidate" for one in await knowledge.skills()) >= MAX_CANDIDATES


def _renamed(text: str, name: str) -> str:
    """SKILL.md with this name; the first `name:` line is that of the frontmatter."""
    return _NAME_LINE.sub(f"name: {name}", text, count=1)
