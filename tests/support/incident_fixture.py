"""Incidents in a runtime: a service that is a file, its checks, and models that answer the
commander by what it says."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermes_agent.core import events as ev
from hermes_agent.core.incidents import (
    CATEGORIES,
    Incident,
    MonitoredService,
    Signal,
    TimelineEntry,
    WatchedCheck,
)
from hermes_agent.core.records import Session
from hermes_agent.core.skills import Check
from hermes_agent.incidents.backend import IncidentBackend, SkillOption
from hermes_agent.incidents.service import IncidentService
from tests.support.learning_fixture import LearningFixture, open_learning, skill_text
from tests.support.runtime_fixture import until
from tests.support.subagents import Line, call

BEGIN, NOT_OVER, OVER = "How to go about it", "The incident is not over", "The incident is over"
KNOWN = "Do this before step 1 below"
SAW = "web: cannot open items.db: No space left on device"

RUNBOOK = """\
when:
  - run: test -e {{service}}.log
steps:
  - run: touch {{service}}.up
verify:
  - run: test -e {{service}}.up
"""


def script(folder: Path, **turns: list[Line]) -> str:
    """`begin`, `not_over`, `over`: what is replied to the commander's messages; `known`, before
    `begin`, to one that names a known fix."""
    words = {
        "known": KNOWN,
        "begin": BEGIN,
        "not_over": NOT_OVER,
        "over": OVER,
        "child": "child of",
    }
    entries = [{"when": words[name], "replies": replies} for name, replies in turns.items()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "responder.json"
    path.write_text(json.dumps({"name": "scripted/responder", "turns": entries}))
    return f"scripted/{path}"


def act(action: str, **given: Any) -> Line:
    return {"calls": [call("incident", action=action, **given)]}


def resolve(**more: Any) -> Line:
    given = {
        "component": "web", "category": "service-crash", "locus": "/var/lib/web",
        "summary": "the disk was full", "evidence": [SAW], "prevent": ["rotate the logs"],
    }  # fmt: skip
    return act("resolve", **{**given, **more})


def prevention(name: str, book: str = RUNBOOK) -> dict[str, str]:
    """The files of a skill that came out of an incident."""
    own = name.replace("-", "")
    words = " ".join(f"{own}{number}" for number in range(60))  # no two are alike
    text = skill_text(
        name, f"Mends {own}. Use when a service is down.", words,
        hermes_parameters="service: what is down",
        hermes_incident=next((one for one in CATEGORIES if name.startswith(one)), ""),
    )  # fmt: skip
    return {"SKILL.md": text, "runbook.yaml": book}


class Response(LearningFixture):
    """A runtime in which incidents are raised."""

    async def incident(self, id: str = "inc-1") -> Incident:
        return await self.runtime.context.store.incidents.incident(id)

    async def timeline(self, id: str = "inc-1") -> list[TimelineEntry]:
        return list(await self.runtime.context.store.incidents.timeline(id))

    async def kinds(self, id: str = "inc-1") -> list[str]:
        return [entry.kind for entry in await self.timeline(id)]

    def check(self, service: str = "web") -> WatchedCheck:
        return WatchedCheck(service, Check(f"test -e {self.work}/{service}.up"), service)

    async def fail(self, service: str = "web", **more: Any) -> str:
        """The service goes down, and its check says so; the incident."""
        (self.work / f"{service}.up").unlink(missing_ok=True)
        (self.work / f"{service}.log").write_text(f"starting\n{SAW}\n")
        given: Mapping[str, Any] = {
            "source": "check", "fingerprint": f"check:{service}", "title": f"{service} is down",
            "service": service, "severity": "P1", "detail": "exit code 1",
            "check": self.check(service), **more,
        }  # fmt: skip
        taken = await self.runtime.incidents.intake.raise_signal(Signal(**given))
        return taken.incident

    async def watch(self, service: str) -> None:
        """A check beside, which holds."""
        (self.work / f"{service}.up").touch()
        folder = self.runtime.context.home.path / "checks"
        folder.mkdir(exist_ok=True)
        run = f"test -e {self.work}/{service}.up"
        given = {"name": service, "service": service, "run": run, "every": 3600}
        (folder / f"{service}.yaml").write_text(json.dumps(given))

    async def over(self, id: str = "inc-1") -> Incident:
        """Wait until nothing is left to be done for it."""

        async def reported() -> bool:
            return "report" in await self.kinds(id)

        await until(reported)
        return await self.incident(id)

    async def session(self, id: str = "inc-1") -> Session:
        return await self.runtime.context.store.session((await self.incident(id)).session)

    async def told(self, tool: str, id: str = "inc-1") -> list[ev.CallFinished]:
        return await self.calls(await self.session(id), tool)

    async def keys(self, id: str = "inc-1") -> list[str]:
        journal = await self.journal(await self.session(id))
        return [one.key for one in journal if isinstance(one, ev.MessageTaken)]

    async def notices(self, id: str = "inc-1") -> list[tuple[str, str]]:
        """Kind and channel of what the team was told, but for progress."""
        found = await self.runtime.context.store.incidents.notices(incident=id)
        return sorted((one.kind, one.channel) for one in found if one.kind != "progress")

    async def services(self) -> list[MonitoredService]:
        return list(await self.runtime.context.store.incidents.services())

    async def save_skill(self, name: str, state: Any, book: str, by: str = "person") -> None:
        book = book.replace("{{service}}", f"{self.work}/{{{{service}}}}")
        files = {path: text.encode() for path, text in prevention(name, book).items()}
        await self.runtime.learning.knowledge.skills.write(
            name, files, by="agent", state="candidate"
        )
        if state != "candidate":
            await self.runtime.learning.knowledge.skills.set_state(
                name, state, "as the test wants it", by
            )


class QuickBackend(IncidentBackend):
    """Waits a twentieth of the time, and leaves out the skills that ship with Hermes, whose checks
    take seconds for each incident."""

    def __init__(self, incidents: IncidentService) -> None:
        super().__init__(
            incidents._context, incidents._sessions, incidents._completions,
            incidents._switch_model, incidents._learning, incidents,
        )  # fmt: skip
        self.sleep = _hurried

    async def skills(self) -> Sequence[SkillOption]:
        return [one for one in await super().skills() if not one.shipped]


async def _hurried(seconds: float) -> None:
    await asyncio.sleep(seconds / 20)


@asynccontextmanager
async def response(
    folder: Path,
    *,
    quick: bool = True,
    clock: Callable[[], float] | None = None,
    more: Mapping[str, Any] | None = None,
    **turns: list[Line],
) -> AsyncIterator[Response]:
    """`{work}` in what a model says is the folder of its services; `more` are other options of the
    runtime."""
    work = str(folder / "work")
    text = json.dumps(turns).replace("{work}", work)
    model = script(folder, **json.loads(text))
    given = {"model": model, "policy": "sandbox", **(more or {})}
    async with open_learning(folder, clock=clock, **given) as h:
        if quick:
            h.runtime.incidents.backend = QuickBackend(h.runtime.incidents)
        yield Response(h.folder, h.runtime)
