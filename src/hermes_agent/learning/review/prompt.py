"""The prompt of a review, and the shape of its answer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from hermes_agent.core.knowledge import Note, View
from hermes_agent.core.settings.root import LearningSettings
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.learning.review.transcript import ShownTranscript
from hermes_agent.learning.review.triggers import Trigger
from hermes_agent.learning.tables import read_prompts

MAX_OUTPUT = 6_000
NOTES_CHARS = 5_000
SKILL_CHARS = 6_000
"""The longest skill that is shown whole."""
MAX_NOTES = 3
MAX_SKILLS = 1
MAX_SKILLS_OVER_ALL = 2

PROMPTS = read_prompts(Path(__file__).with_name("review.md"))
NOTHING = 'Nothing to keep: {"notes": [], "skills": []}'


class NoteIdea(Struct, frozen=True):
    view: View
    text: Annotated[str, Meta(min_length=1, max_length=1_000)]
    evidence: list[int]
    confidence: Annotated[float, Meta(ge=0, le=1)] = 0.7
    replaces: int = 0


class SkillIdea(Struct, frozen=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]
    why: str
    evidence: list[int]
    files: dict[str, str]


class Ideas(Struct, frozen=True):
    notes: list[NoteIdea]
    skills: list[SkillIdea]


class NearSkill(Struct, frozen=True):
    """An existing skill as the review is shown it."""

    name: str
    description: str
    text: str = ""
    """SKILL.md, if it is shown whole."""


def question(
    shown: ShownTranscript,
    triggers: Sequence[Trigger],
    notes: Sequence[Note],
    near: Sequence[NearSkill],
    settings: LearningSettings,
    *,
    over_all: bool,
) -> str:
    wanted, rules = [], []
    if settings.notes == "off":
        wanted.append("Keep no notes: leave that list empty.")
    else:
        rules.append(PROMPTS["notes"].format(most=MAX_NOTES))
    if settings.skills == "off":
        wanted.append("Keep no skills: leave that list empty.")
    else:
        most = MAX_SKILLS_OVER_ALL if over_all else MAX_SKILLS
        rules.append(PROMPTS["skills"].format(most=most, s="s" if most > 1 else ""))
    return PROMPTS["question"].format(
        why=_why(triggers, over_all=over_all),
        wanted="\n".join([*wanted, NOTHING]),
        rules="\n".join(rules),
        context="\n\n".join([*_notes(notes), *_skills(near)]),
        transcripts=shown.text,
    )


def _why(triggers: Sequence[Trigger], *, over_all: bool) -> str:
    if over_all:
        return (
            "These are the last turns, of several sessions. Look for what comes again over them: "
            "the same kind of task, the same mistake, the same wish. What was seen once is not it."
        )
    reasons = {
        "calls": "it took many tool calls",
        "recovered": "an error was met and put right",
        "correction": "the user corrected the agent",
        "remember": "the user asked to remember something",
    }
    named = dict.fromkeys(reasons[trigger.kind] for trigger in triggers)
    return "This turn is shown to you because " + " and ".join(named or ["it has ended"]) + "."


def _notes(notes: Sequence[Note]) -> list[str]:
    lines: list[str] = []
    left = NOTES_CHARS
    for note in sorted(notes, key=lambda note: (-note.used, -note.updated)):
        line = f"#{note.id} ({note.view}) {note.text}"
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    return [wrap_untrusted("notes", "memory", "\n".join(lines))] if lines else []


def _skills(near: Sequence[NearSkill]) -> list[str]:
    if not near:
        return []
    listed = "\n".join(f"{skill.name}: {skill.description}" for skill in near)
    whole = [wrap_untrusted("skill", skill.name, skill.text) for skill in near if skill.text]
    return [wrap_untrusted("skills", "the skills that fit best", listed), *whole]
