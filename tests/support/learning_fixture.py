"""Runtimes that learn: a clock that is set, the local API without a socket, and what was kept."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.records import Session
from hermes_agent.core.settings.root import LearningSettings, UseSettings
from hermes_agent.runtime.api.app import build_app
from tests.support.runtime_fixture import RuntimeFixture, open_runtime, until

NOON = 1_800_000_000.0 // 86_400 * 86_400 + 43_200


class Clock:
    """Says what it is set to."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class LearningFixture(RuntimeFixture):
    """A runtime that can be asked over its API, and waited for."""

    async def get(self, path: str, **query: str) -> Any:
        return (await self._ask("GET", path, params=query)).json()

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return (await self._ask("POST", path, json=dict(body))).json()

    async def refused(self, path: str, body: Mapping[str, Any]) -> tuple[int, dict[str, str]]:
        """What is answered to something that cannot be."""
        answer = await self._send("POST", path, json=dict(body))
        assert answer.status_code >= 400, answer.text
        return answer.status_code, answer.json()

    async def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        answer = await self._send(method, path, **more)
        assert answer.status_code < 300, answer.text
        return answer

    async def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        app = httpx.ASGITransport(build_app(self.runtime, lambda: None))
        async with httpx.AsyncClient(transport=app, base_url="http://hermes") as client:
            return await client.request(method, path, **more)

    async def idle(self, session: Session) -> list[ev.Event]:
        """Also when what comes after the turn is done."""
        await super().idle(session)

        async def settled() -> bool:
            return not self.runtime._turns._follow_ups

        await until(settled)
        return await self.journal(session)

    async def learned(self) -> None:
        """Look for work that has become due, and wait until it is done or put off."""
        tasks = self.runtime.learning.tasks
        tasks._woken.set()

        async def done() -> bool:
            due = await self.runtime.context.store.knowledge.due_tasks(self.runtime.context.clock())
            return not due and not tasks.busy and not tasks._woken.is_set()

        await until(done)

    async def tasks(self, kind: str = "") -> dict[str, tuple[str, str]]:
        """All there ever were: key, state and result."""
        rows = await self.runtime.context.store._engine.read(
            lambda db: list(db.execute("select key, kind, state, result from tasks"))
        )
        return {key: (state, told) for key, of, state, told in rows if kind in ("", of)}

    async def shown(self, session: Session) -> list[str]:
        """The messages as the model reads them."""
        prompt = await self.runtime.context.store.prompt((await self.now(session)).prompt)
        talk = ConversationState(session.id, prompt)
        talk.apply_all(await self.runtime.context.store.events(session.id))
        return [message.text for message in talk.messages]

    async def prompt(self, session: Session) -> str:
        return (await self.runtime.context.store.prompt((await self.now(session)).prompt)).system

    async def calls(self, session: Session, tool: str = "") -> list[ev.CallFinished]:
        found = [one for one in await self.journal(session) if isinstance(one, ev.CallFinished)]
        return [one for one in found if tool in ("", one.tool)]

    async def skill(self, name: str, text: str, **files: str) -> None:
        """Put a skill into the home, as somebody would by hand."""
        folder = self.runtime.context.home.path / "skills" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(text)
        for path, content in files.items():
            (folder / path.replace("_", ".")).write_text(content)
        await self.runtime.learning.knowledge.skills.sync()


@asynccontextmanager
async def open_learning(folder: Path, **more: Any) -> AsyncIterator[LearningFixture]:
    """As `open_runtime`. It learns nothing by itself unless a model for reviews is named."""
    async with open_runtime(folder, **more) as h:
        made = LearningFixture(h.folder, h.runtime)
        for _ in range(2):  # the first look clears away what the last runtime left
            await made.learned()
        yield made


def reviewing(look: str, **more: Any) -> dict[str, Any]:
    """Settings for a runtime that looks back with this model."""
    uses = UseSettings(review=(look,), judge=(look,))
    return {"uses": uses, "learning": LearningSettings(**{"every": 1_000, **more})}


def looker(folder: Path, *turns: tuple[str, Any], **facts: Any) -> str:
    """A model that answers what it is asked with JSON, by a word in the question."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"look-{len(list(folder.glob('look-*.json')))}.json"
    entries = [
        {"when": when, "replies": [{"say": said if isinstance(said, str) else json.dumps(said)}]}
        for when, said in turns
    ]
    path.write_text(json.dumps({"turns": entries, **facts}))
    return f"scripted/{path}"


def skill_text(name: str, description: str = "", body: str = "", **front: str) -> str:
    """A SKILL.md; `front` are further fields, `metadata` ones by their own names."""
    ours = {key: value for key, value in front.items() if key.startswith("hermes")}
    lines = [f"name: {name}", f"description: {description or f'Does {name}.'}"]
    lines += [
        f"{key.replace('_', '-')}: {value}" for key, value in front.items() if key not in ours
    ]
    lines += ["metadata:"] if ours else []
    lines += [f"  {key.replace('_', '-')}: {json.dumps(value)}" for key, value in ours.items()]
    head = "\n".join(lines)
    return (
        f"---\n{head}\n---\n\n# {name}\n\n## When to Use\nWhen it fits.\n\n"
        f"## Procedure\n{body or 'Look, then act.'}\n\n## Pitfalls\nNone.\n\n"
        "## Verification\nLook again.\n"
    )
