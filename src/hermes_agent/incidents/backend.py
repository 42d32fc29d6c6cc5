"""What the commander needs of a runtime."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from hermes_agent.core import events as ev
from hermes_agent.core.command_results import CommandOutcome
from hermes_agent.core.incidents import (
    Incident,
    MonitoredService,
    NewNotice,
    NoticeKind,
    WatchedCheck,
)
from hermes_agent.core.records import Session
from hermes_agent.core.skills import ActivatedSkill, SkillState
from hermes_agent.store.incidents.store import IncidentStore
from hermes_agent.store.journal.store import Journal
from hermes_agent.store.knowledge.store import KnowledgeStore

SHIPPED, COPIES, WATCHING = "shipped-skill", "incident-copies", "incident-watch"
"""Sources of commands: checks of skills that ship with Hermes, copies before a change, and requests
to see whether a remedy lasts."""
KEY = "incident:"
"""How the key of an incident's session begins; there is one session of each."""


class SkillOption(Struct, frozen=True):
    """A skill that may help."""

    name: str
    state: SkillState
    description: str
    digest: str = ""
    incident: str = ""
    """The cause of incidents that it is for; empty where it is for other work."""
    shipped: bool = False
    """It lies where it was installed with Hermes."""
    record: int = 0
    """How often it helped, less how often it did not."""


class IncidentBackend(Protocol):
    @property
    def incidents(self) -> IncidentStore: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def knowledge(self) -> KnowledgeStore: ...

    @property
    def folder(self) -> Path:
        """Where reports are kept."""
        ...

    @property
    def results(self) -> Path:
        """Where large results of sessions are kept whole."""
        ...

    @property
    def parallel(self) -> int:
        """Incidents that are worked on at once."""
        ...

    def clock(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...

    def redact(self, text: str) -> str: ...

    # what is watched

    def notices(self, incident: Incident, kind: NoticeKind, text: str) -> Sequence[NewNotice]:
        """What the team is to hear, once on each channel that the incident is told on."""
        ...

    def wake_notices(self) -> None: ...

    async def topology(self, incident: Incident) -> Sequence[MonitoredService]:
        """What is known of the systems that it is in."""
        ...

    async def watched(self, incident: Incident) -> Sequence[WatchedCheck]:
        """All checks of the place where the incident is."""
        ...

    # the session

    async def open(self, incident: Incident) -> Session:
        """Its session: a new one, or the one that it has."""
        ...

    async def send(
        self,
        session: str,
        key: str,
        text: str,
        offered: Sequence[str],
        opened: ActivatedSkill | None,
    ) -> None:
        """Send it a message, once for each key. `offered`: skills that the message speaks of;
        `opened`: one whose runbook is worked through before a model is asked."""
        ...

    async def end(self, session: str, key: str) -> ev.TurnFinished:
        """Wait until the turn that took this message is over."""
        ...

    def events(self, session: str) -> AsyncIterator[ev.Recorded]:
        """What has happened in it, and what does."""
        ...

    async def interrupt(self, session: str, why: str) -> None: ...

    async def fall_back(self, session: str) -> str:
        """Let the model that is built in go on; its name, or nothing where it did already."""
        ...

    async def look(
        self,
        session: str,
        command: str,
        timeout: float | None,  # noqa: ASYNC109
        *,
        source: str = "",
    ) -> CommandOutcome:
        """Run a command where the incident is, in a shell of its own and through the gate.
        `source`: by which policies know what the runtime runs of its own accord."""
        ...

    # skills

    async def skills(self) -> Sequence[SkillOption]:
        """All that can be used by an incident's session."""
        ...

    async def runbook(
        self, skill: str, arguments: str, facts: Mapping[str, str]
    ) -> ActivatedSkill | None:
        """The skill as it is opened to be run, filled in with facts of the service; None where it
        has no runbook, or none for these arguments."""
        ...

    async def settle(self, skill: str) -> None:
        """See what its uses make of a skill."""
        ...

    async def settled(self) -> None:
        """Wait a moment for what comes after turns that have ended."""
        ...

    async def promote(self, skill: str, why: str) -> None: ...
