"""What learning works with: a real store and skill book, a clock that is set, and a model whose
answers are written down beforehand."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_agent.core.knowledge import EvaluationCase, Trial
from hermes_agent.core.records import ModelRole
from hermes_agent.core.settings.root import MemorySettings
from hermes_agent.learning.memory.memory import Memory
from hermes_agent.learning.skills.registry import SkillRegistry
from hermes_agent.learning.structured_output import NoBudget, StructuredAnswer
from hermes_agent.store.knowledge.store import KnowledgeStore
from hermes_agent.store.store import Store


@dataclass
class Scripted:
    """Answers in order, and keeps what it was asked."""

    answers: list[str] = field(default_factory=list)
    asked: list[tuple[ModelRole, str, str]] = field(default_factory=list)

    async def __call__(
        self, use: ModelRole, system: str, prompt: str, most: int
    ) -> StructuredAnswer:
        self.asked.append((use, system, prompt))
        assert most > 0
        if not self.answers:
            raise NoBudget("the budget for learning is used up", "it is renewed tomorrow")
        return StructuredAnswer(self.answers.pop(0), f"scripted/{use}")


@dataclass
class Learned:
    folder: Path
    store: Store
    skills: SkillRegistry
    memory: Memory
    now: float = 1_000_000.0

    @property
    def knowledge(self) -> KnowledgeStore:
        return self.store.knowledge

    def clock(self) -> float:
        return self.now


@asynccontextmanager
async def learned(folder: Path) -> AsyncIterator[Learned]:
    made: list[Learned] = []

    def clock() -> float:
        return made[0].now if made else 0.0

    store = await Store.open(folder, clock=clock)
    (folder / "shipped").mkdir()

    def scan(text: str) -> str:
        return "it says evil" if "evil" in text else ""

    def redact(text: str) -> str:
        return text

    memory = Memory(
        folder / "memories",
        store.knowledge,
        limits=MemorySettings,
        scan=scan,
        redact=redact,
        clock=clock,
    )
    skills = SkillRegistry(
        folder / "skills",
        store.knowledge,
        scan=scan,
        redact=redact,
        clock=clock,
        platform="linux",
        shipped=folder / "shipped",
    )
    made.append(Learned(folder, store, skills, memory))
    try:
        yield made[0]
    finally:
        await store.close()


def skill_text(name: str, description: str = "", steps: str = "") -> str:
    return (
        f"---\nname: {name}\n"
        f"description: {description or f'Does {name}. Use when {name} is asked for.'}\n---\n"
        f"# {name}\n\n## When to Use\nWhen {name} is needed.\n\n## Procedure\n"
        f"{steps or f'1. Run `{name} --all`.'}\n\n## Pitfalls\nNone.\n\n"
        f"## Verification\n`{name} --check` ends with 0.\n"
    )


def skill_files(name: str, **more: str) -> dict[str, bytes]:
    return {"SKILL.md": skill_text(name, **more).encode()}


def as_json(**parts: Any) -> str:
    return json.dumps(parts)


@dataclass
class Ring:
    """An arena whose trials are worked out and not played."""

    how: Callable[[EvaluationCase, str, int], tuple[bool, int] | None]
    """From the case, the text of the skill (empty without one) and the round: success, steps."""
    played: list[tuple[str, str, int]] = field(default_factory=list)
    budget: int = 10_000
    opens: bool = True

    async def play(
        self, case: EvaluationCase, files: Mapping[str, bytes] | None, round: int, digest: str
    ) -> Trial | None:
        if len(self.played) >= self.budget:
            raise NoBudget("the budget for learning is used up", "it is renewed tomorrow")
        text = files["SKILL.md"].decode() if files is not None else ""
        self.played.append((case.id, text, round))
        result = self.how(case, text, round)
        if result is None:
            return None
        ok, steps = result
        return Trial(
            case.skill, digest, case.id, "without" if files is None else "with", round, 0.0, ok,
            steps, seconds=steps * 2.0, tokens=steps * 100, dollars=None,
            opened=self.opens and files is not None,
        )  # fmt: skip


def cases(skill: str, many: int) -> list[EvaluationCase]:
    """The first is not held out."""
    return [
        EvaluationCase(f"{skill}-{n}", skill, f"task {n}", "true", "test -e done", held=n > 0)
        for n in range(many)
    ]
