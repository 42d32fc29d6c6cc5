"""A family of tasks that are alike, done one after the other, with learning and without. The model
is a script: it looks around for long when it knows nothing, and is quick when a skill tells it how.
So this shows that the loop works, from the first turn to the skill that is offered; it cannot show
that a real model writes good skills, or follows them."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes_agent.core.records import SessionMessage
from hermes_agent.core.settings.root import (
    LearningSettings,
    ModelSettings,
    RuntimeSettings,
    Settings,
    UseSettings,
)
from hermes_agent.runtime.runtime import Runtime

SKILL = "mend-port"
PROBE = 'test "$(cat service.conf)" = "port=$(cat wanted)"'
SETUP = "echo port=1 > service.conf; echo {port} > wanted"
FIX = 'echo "port=$(cat wanted)" > service.conf'
WAIT = 0.02
"""Seconds that the model takes for each reply."""


class Task(Struct, frozen=True):
    number: int
    ok: bool
    steps: int
    seconds: float
    tokens: int
    opened: bool


def _shell(command: str) -> dict[str, Any]:
    return {"calls": [{"tool": "terminal", "with": {"command": command}}], "wait": WAIT}


def skill_text(name: str, description: str, procedure: str) -> str:
    return (
        f"---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n\n"
        f"## When to Use\n{description}\n\n## Procedure\n{procedure}\n\n"
        f"## Pitfalls\nThe number in service.conf is not the one to keep.\n\n"
        f"## Verification\n`{PROBE}` ends with 0.\n"
    )


DESCRIPTION = (
    "Mend a service that does not answer because the port in its service.conf is not the wanted "
    "one. Use it when a service is down and its port is in doubt."
)


def models(folder: Path, *, procedure: str = FIX, helps: bool = True) -> tuple[str, str]:
    """The model that works and the one that looks back. With `helps` False the skill is opened and
    changes nothing."""
    long_way = [
        _shell("ls"),
        _shell("cat service.conf"),
        _shell(f"{PROBE} || echo down"),
        _shell("env | sort | head -3"),
        _shell("echo port=80 > service.conf"),
        _shell(f"{PROBE} || echo still down"),
        _shell("cat wanted"),
        _shell("ls -l wanted"),
        _shell(FIX),
        _shell(PROBE),
        {"say": "It answers again.", "wait": WAIT},
    ]
    opening = {"calls": [{"tool": "skill", "with": {"name": SKILL}}], "wait": WAIT}
    short_way = [opening, _shell(procedure), _shell(PROBE), long_way[-1]]
    with_skill = short_way if helps else [opening, *long_way]
    work = folder / "work.json"
    turns = [{"when": rf"skill {SKILL}", "replies": with_skill}, {"when": ".", "replies": long_way}]
    work.write_text(json.dumps({"name": "scripted/worker", "turns": turns}))
    skill = {
        "name": SKILL,
        "why": "the port was wrong again",
        "evidence": [1],
        "files": {"SKILL.md": skill_text(SKILL, DESCRIPTION, f"Run `{procedure}`.")},
    }
    cases = [
        {
            "task": f"The service {name} is down and does not answer. Mend its port.",
            "setup": SETUP.format(port=8000 + at),
            "check": PROBE,
            "kind": "turn" if at == 0 else "variation",
        }
        for at, name in enumerate(("web", "db", "mail", "queue", "cache", "auth", "proxy", "feed"))
    ]
    look = folder / "look.json"
    said = {"review": {"notes": [], "skills": [skill]}, "judge": {"cases": cases}}
    look.write_text(
        json.dumps(
            {
                "name": "scripted/reviewer",
                "turns": [
                    {"when": '"cases"', "replies": [{"say": json.dumps(said["judge"])}]},
                    {"when": ".", "replies": [{"say": json.dumps(said["review"])}]},
                ],
            }
        )
    )
    return f"scripted/{work}", f"scripted/{look}"


class Family:
    """A runtime that does the tasks."""

    def __init__(self, folder: Path, *, learns: bool, **script: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        work, look = models(folder, **script)
        uses = UseSettings(review=(look,), judge=(look,))
        mode: Any = "automatic" if learns else "off"
        self.settings = Settings(
            model=work,
            policy="sandbox",
            models=ModelSettings(uses=uses, retries=0),
            learning=LearningSettings(
                notes=mode, skills=mode, rounds=1, cases=6, every=1000, proof_share=1.0
            ),
            runtime=RuntimeSettings(idle_seconds=0),
        )
        self.runtime = Runtime(folder / "home", {}, settings=self.settings)

    async def __aenter__(self) -> "Family":
        await self.runtime.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runtime.stop()

    async def do(self, number: int) -> Task:
        """One task of the family, and whatever is to be learned from it."""
        place = self.folder / f"task-{number}"
        place.mkdir()
        (place / "service.conf").write_text("port=1\n")
        (place / "wanted").write_text(f"{9000 + number}\n")
        session = await self.runtime.sessions.open_session(
            workspace=str(place), terminals=("sandbox",)
        )
        text = f"The service number-{number} is down and does not answer. Mend its port."
        began = time.perf_counter()
        await self.runtime.sessions.submit(session, SessionMessage("task", text, "test"))
        end = None
        async for recorded in self.runtime.sessions.events(session.id):
            if type(recorded.event).__name__ == "TurnFinished":
                end = recorded.event
                break
        seconds = time.perf_counter() - began
        await self.learned()
        opened = any(
            getattr(one.event, "tool", "") == "skill"
            for one in await self.runtime.context.store.events(session.id)
        )
        right = (place / "service.conf").read_text() == f"port={9000 + number}\n"
        return Task(number, right, end.steps, seconds, end.usage.total, opened)

    async def learned(self) -> None:
        """Wait until nothing is left to be learned now."""
        runtime = self.runtime
        async with asyncio.timeout(240):
            while runtime._turns.busy or runtime._turns._follow_ups:
                await asyncio.sleep(0.01)
            while runtime.learning.tasks.busy or [
                task
                for task in await runtime.context.store.knowledge.due_tasks(runtime.context.clock())
                if task.kind != "summary"
            ]:
                await asyncio.sleep(0.02)
