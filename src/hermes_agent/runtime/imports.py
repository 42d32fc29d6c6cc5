"""Takes in what another agent's home had. Every step may be repeated: what was imported before is
known, also when it was changed or removed here since."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.jobs import JobSpec
from hermes_agent.core.knowledge import NoteEdit, View
from hermes_agent.core.messages import Prompt
from hermes_agent.core.ports import Sessions
from hermes_agent.core.records import ImportedTurn, NewSession, Session
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.responses import body_of, reply
from hermes_agent.jobs.service import JobService
from hermes_agent.learning.service import Learning

Peer = Literal["hermes-agent", "openclaw", "nanobot"]
FOLDER = "imported"
"""The folder in the home with the documents of other agents."""
ALL = 1_000_000


class ImportedNote(Struct, forbid_unknown_fields=True):
    text: str
    view: View = "memory"


class ImportedSkill(Struct, forbid_unknown_fields=True):
    name: str
    files: dict[str, bytes]


class ImportedJob(Struct, forbid_unknown_fields=True):
    key: str
    """The other agent's id of the job."""
    prompt: str
    when: str
    name: str = ""
    zone: str = ""


class ImportBody(Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/import`."""

    peer: Peer
    notes: tuple[ImportedNote, ...] = ()
    skills: tuple[ImportedSkill, ...] = ()
    jobs: tuple[ImportedJob, ...] = ()
    sessions: tuple[str, ...] = ()
    """Ids of sessions; they are only looked up here."""
    dry: bool = False
    """Only report what would happen."""


class ImportedSession(Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/import/session`: a conversation, or the next part of it."""

    peer: Peer
    id: str
    turns: tuple[ImportedTurn, ...]
    title: str = ""
    folder: str = ""
    """Where it worked."""
    dry: bool = False


class ImportOutcome(Struct, frozen=True):
    state: Literal["new", "known", "left out"]
    why: str = ""
    """Why it is left out, or what changed on the way."""


KNOWN = ImportOutcome("known")


@dataclass(eq=False, repr=False)
class Importer:
    _context: RuntimeContext
    _sessions: Sessions
    _learning: Learning
    _jobs: JobService
    _opened: dict[tuple[str, str], tuple[NewSession, Prompt]] = field(default_factory=dict)
    """By peer and workspace: how sessions are opened. All of them get the same prompt."""

    def table(self) -> tuple[tuple[str, str, Callable[[Request], Awaitable[Response]]], ...]:
        return (
            ("POST", "/v1/import", self.import_items),
            ("POST", "/v1/import/session", self.import_session),
        )

    async def import_items(self, request: Request) -> Response:
        return reply(await self.take(body_of(await request.body(), ImportBody)))

    async def import_session(self, request: Request) -> Response:
        part = body_of(await request.body(), ImportedSession)
        self._context.note_activity()
        session = await self._open(part.peer, part.id, part.folder)
        redact = self._context.redact
        turns = [
            replace(
                turn,
                text=redact(turn.text),
                replies=tuple((time, redact(text)) for time, text in turn.replies),
            )
            for turn in part.turns
        ]
        added, continued = await self._context.store.import_turns(
            session.id, redact(part.title), turns, part.dry
        )
        return reply({"session": session.id, "added": added, "continued": continued})

    async def take(self, body: ImportBody) -> dict[str, list[ImportOutcome]]:
        """Import the items, or with `dry` say what would become of each, in their order."""
        self._context.note_activity()
        self._opened.clear()
        dry, source = body.dry, f"import {body.peer}"
        log = await self._learning.knowledge.memory.log(ALL)
        taken = {change.after for change in log if change.source == source}
        store = self._context.store
        return {
            "notes": [await self._note(one, taken, source, dry=dry) for one in body.notes],
            "skills": [await self._skill(one, source, dry=dry) for one in body.skills],
            "jobs": [await self._job(one, source, dry=dry) for one in body.jobs],
            "sessions": [
                KNOWN
                if await store.sessions(1, key=_owner(body.peer, id))
                else ImportOutcome("new")
                for id in body.sessions
            ],
        }

    async def _note(
        self, note: ImportedNote, taken: set[str | None], source: str, *, dry: bool
    ) -> ImportOutcome:
        memory = self._learning.knowledge.memory
        text = self._context.redact(note.text).strip()
        if text in taken:
            return KNOWN
        try:
            if dry:
                memory.refuse_danger(text)
            else:
                await memory.edit([NoteEdit(text, 0, note.view)], "person", source)
        except UsageError as error:  # dangerous, too long, or much like another note
            return ImportOutcome("left out", error.message)
        taken.add(text)
        return ImportOutcome("new", "" if text == note.text.strip() else "secrets were redacted")

    async def _skill(self, skill: ImportedSkill, source: str, *, dry: bool) -> ImportOutcome:
        """Quarantined: nobody has read it here yet."""
        registry = self._learning.knowledge.skills
        try:
            await self._learning.knowledge.sync()
            records = {one.name: one for one in await self._context.store.knowledge.skills()}
            if (record := records.get(skill.name)) is not None:
                versions = await self._context.store.knowledge.versions(record.name)
                if versions[0].why == source:
                    return KNOWN
                return ImportOutcome("left out", "a skill of this name already exists")
            await registry.check(skill.name, skill.files, "agent")
            if not dry:
                await registry.write(
                    skill.name, skill.files, by="agent", state="quarantined", why=source
                )
        except UsageError as error:
            return ImportOutcome("left out", error.message)
        return ImportOutcome("new")

    async def _job(self, job: ImportedJob, source: str, *, dry: bool) -> ImportOutcome:
        """Paused: the other agent may still run it."""
        key = f"{source}/{job.key}"
        try:
            if await self._context.store.jobs.key_known(key):
                return KNOWN
            if dry:
                return ImportOutcome("new", self._jobs.foresee(job.when, job.zone))
            names = {one.spec.name for one in await self._context.store.jobs.jobs()}
            name = f"{job.name} ({source})" if job.name in names and job.name else job.name
            spec = JobSpec(self._context.redact(job.prompt), name)
            view = await self._jobs.add(spec, job.when, job.zone, source, key=key, paused=True)
        except HermesError as error:
            return ImportOutcome("left out", error.message)
        return ImportOutcome("new", view.meaning)

    async def _open(self, peer: Peer, id: str, folder: str) -> Session:
        """The session that an imported one is here, opened if it is new."""
        key = _owner(peer, id)
        workspace = await asyncio.to_thread(workspace_of, self._context.home.path, peer, folder)
        if (peer, workspace) not in self._opened:
            session = await self._sessions.open_session(
                workspace=workspace, source=peer, key=key, once=True, needs_model=False
            )
            prompt = await self._context.store.prompt(session.prompt)
            new = NewSession(
                session.workspace, session.policy, session.model, peer, once=True,
                terminals=session.terminals, effort=session.effort,
            )  # fmt: skip
            self._opened[peer, workspace] = new, prompt
            return session
        new, prompt = self._opened[peer, workspace]
        return await self._context.store.open_session(replace(new, key=key), prompt)


def workspace_of(home: Path, peer: Peer, folder: str) -> str:
    """Where an imported session works: as before in a folder of the user, else beside the other
    agent's documents, else in the user's home."""
    path, documents = Path(folder), home / FOLDER / peer
    with suppress(OSError, ValueError):
        mine = path.is_absolute() and path.is_dir() and path.stat().st_uid == os.getuid()
        if mine and path.resolve() != Path("/"):
            return str(path.resolve())
    return str(documents if (documents / "AGENTS.md").is_file() else Path.home())


def _owner(peer: Peer, id: str) -> str:
    return f"import:{peer}:{id}"
