"""A runtime in this process, with models that are scripts in a folder."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermes_agent.core import events as ev
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.core.settings.root import BudgetSettings, ModelSettings, Settings, UseSettings
from hermes_agent.core.tools import Tool
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.runtime.services import ServiceFactory
from tests.support.patience import PATIENCE, pauses


class RuntimeFixture:
    def __init__(self, folder: Path, runtime: Runtime) -> None:
        self.folder = folder
        self.runtime = runtime
        self.work = folder / "work"
        self._sent = 0

    async def open(self, model: str, **more: Any) -> Session:
        return await self.runtime.sessions.open_session(
            workspace=str(self.work), model=model, policy=more.pop("policy", "sandbox"), **more
        )

    async def send(self, session: Session, text: str, *, interactive: bool = False) -> None:
        self._sent += 1
        await self.runtime.sessions.submit(
            session, SessionMessage(f"m{self._sent}", text, "test", interactive)
        )

    async def say(self, session: Session, text: str) -> list[ev.Event]:
        """Send and wait for the end of the turn; the journal."""
        await self.send(session, text)
        return await self.idle(session)

    async def idle(self, session: Session) -> list[ev.Event]:
        async def done() -> bool:
            resting = (await self.now(session)).state in ("idle", "paused")
            return resting and not self.is_busy(session)

        await until(done)
        return await self.journal(session)

    def is_busy(self, session: Session) -> bool:
        return session.id in self.runtime._turns.busy

    async def now(self, session: Session) -> Session:
        return await self.runtime.context.store.session(session.id)

    async def journal(self, session: Session) -> list[Any]:
        return [one.event for one in await self.runtime.context.store.events(session.id)]


async def until(met: Callable[[], Any]) -> None:
    pause = pauses()
    async with asyncio.timeout(PATIENCE):
        while not await met():
            await asyncio.sleep(next(pause))


def script(folder: Path, name: str, *replies: dict[str, Any], **facts: Any) -> str:
    """A model that says these in each turn."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    turns = [{"when": ".", "replies": list(replies)}]
    path.write_text(json.dumps({"turns": turns, **facts}))
    return f"scripted/{path}"


@asynccontextmanager
async def open_runtime(
    folder: Path,
    *,
    uses: UseSettings | None = None,
    models: ModelSettings | None = None,
    budgets: BudgetSettings | None = None,
    clock: Callable[[], float] | None = None,
    ticks: Callable[[], float] | None = None,
    tools: Sequence[Tool] | None = None,
    services: Sequence[ServiceFactory] = (),
    **more: Any,
) -> AsyncIterator[RuntimeFixture]:
    """`more` are other parts of the settings."""
    (folder / "work").mkdir(parents=True, exist_ok=True)
    settings = Settings(
        models=models or ModelSettings(uses=uses or UseSettings(), retries=0),
        budgets=budgets or BudgetSettings(),
        **more,
    )
    options: dict[str, Any] = {"clock": clock} if clock else {}
    options |= {"ticks": ticks} if ticks else {}
    runtime = Runtime(
        folder / "home", {}, settings=settings, tools=tools, services=services, **options
    )
    await runtime.start()
    try:
        yield RuntimeFixture(folder, runtime)
    finally:
        await runtime.stop()
