"""Skills for tests: their text, and a book of them on a real store."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from hermes_agent.learning.skills.registry import SkillRegistry
from hermes_agent.store.knowledge.store import KnowledgeStore
from hermes_agent.store.store import Store

BUNDLED = Path(__file__).parents[2] / "src" / "hermes_agent" / "skills"


def skill_text(
    name: str,
    description: str = "Mend the thing. Use when the thing is broken.",
    body: str = "Look at it.",
    **fields: str,
) -> str:
    """A `SKILL.md` that is well; `metadata` fields are given with underscores."""
    lines = [
        f"{key.replace('_', '-')}: {value}" for key, value in fields.items() if key[:6] != "hermes"
    ]
    ours = [
        f"  {key.replace('_', '-')}: {value}"
        for key, value in fields.items()
        if key[:6] == "hermes"
    ]
    head = [f"name: {name}", f"description: {description}", *lines]
    head += ["metadata:", *ours] if ours else []
    sections = f"## When to Use\n\nWhen {name} is needed.\n\n## Procedure\n\n{body}\n"
    return "---\n" + "\n".join(head) + f"\n---\n\n{sections}\n## Verification\n\nIt works.\n"


def skill_files(name: str, *args: str, **fields: str) -> dict[str, bytes]:
    return {"SKILL.md": skill_text(name, *args, **fields).encode()}


def put_skill(folder: Path, name: str, text: str = "", **more: str) -> Path:
    """Write a skill by hand; `more` are other files, with `__` for the slash."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "SKILL.md").write_text(text or skill_text(name))
    for path, content in more.items():
        whole = place / path.replace("__", "/").replace("_", ".")
        whole.parent.mkdir(exist_ok=True)
        whole.write_text(content)
    return place


def suspicious(text: str) -> str:
    return "it tells the agent to ignore its rules" if "ignore your rules" in text else ""


def a_book(
    folder: Path,
    knowledge: KnowledgeStore,
    shipped: Path,
    *,
    platform: str = "linux",
    clock: Callable[[], float] = lambda: 0.0,
) -> SkillRegistry:
    return SkillRegistry(
        folder,
        knowledge,
        shipped=shipped,
        scan=suspicious,
        redact=lambda text: text.replace("hunter2", "[secret]"),
        clock=clock,
        platform=platform,
    )


@asynccontextmanager
async def skill_home(
    tmp_path: Path, shipped: Path | None = None
) -> AsyncIterator[tuple[SkillRegistry, Path, KnowledgeStore]]:
    """A book over an empty folder, on a real store."""
    (tmp_path / "shipped").mkdir(parents=True, exist_ok=True)
    store = await Store.open(tmp_path / "store")
    try:
        book = a_book(tmp_path / "skills", store.knowledge, shipped or tmp_path / "shipped")
        yield book, tmp_path / "skills", store.knowledge
    finally:
        await store.close()
