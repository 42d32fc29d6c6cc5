"""Runs drift audits of a home. Live state is read on terminals, under policy."""

import asyncio
import errno
import logging
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from hermes_agent.core.effects import Actor
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.incidents import Incident
from hermes_agent.core.records import Session
from hermes_agent.core.skills import OFFERED
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.policy_shell import NotAllowed, PolicyShells, synthetic_session
from hermes_agent.learning.service import Learning
from hermes_drift.audit import AuditBaseline, Auditor, judge
from hermes_drift.history import DAYS
from hermes_drift.patterns import DriftPattern, learned_from
from hermes_drift.report import markdown
from hermes_drift.scopes.repository import Repository
from hermes_drift.store import Audits, no_room
from hermes_drift.values import SCOPES, WEIGHTS, Audit, CommandAnswer, Scope

log = logging.getLogger("hermes.drift")

INCIDENTS = 1000
"""How many earlier incidents an audit may refer to."""
POLICY = "observe"
"""The policy profile for reading live state."""
SECONDS = 120.0
"""The timeout of one command."""
ROOM = 1_000_000
"""Free bytes that the home must have for command output and the audit."""


class PolicyTerminal:
    """A terminal of the audit's own, under a policy that allows only reading."""

    def __init__(
        self, context: RuntimeContext, shells: PolicyShells, session: Session, name: str
    ) -> None:
        self.name = name
        self._context = context
        self._shell = shells.open(session, name, Actor("job", "drift", "drift"))

    async def ask(self, command: str) -> CommandAnswer:
        self._context.note_activity()
        try:
            done = await self._shell.run(command, SECONDS)
            if done.state != "exited":
                return CommandAnswer(None, refused=f"did not finish ({done.state}): {command[:80]}")
            out = done.stdout
            if done.stdout_size > len(out.encode(errors="surrogateescape")):
                terminal = self._shell.terminal
                spool = await terminal.resolve(done.spool)
                out = (await terminal.read(spool)).decode(errors="replace")
            return CommandAnswer(done.code, out, done.stderr)
        except NotAllowed as error:
            return CommandAnswer(None, refused=f"not allowed by policy: {error.reason}")
        except (HermesError, OSError) as error:
            message = error.message if isinstance(error, HermesError) else str(error)
            return CommandAnswer(None, refused=f"terminal {self.name!r}: {message}")

    async def close(self) -> None:
        try:
            await self._shell.close()
        except (HermesError, OSError) as error:
            log.warning("cannot remove the audit's terminal %s: %s", self.name, error)


class Drift:
    def __init__(self, context: RuntimeContext, shells: PolicyShells, learning: Learning) -> None:
        self._context = context
        self._shells = shells
        self._learning = learning
        self.audits = Audits(context.home.path / "drift")
        self._one = asyncio.Lock()

    async def run(
        self, folder: str, scopes: Sequence[str] = (), terminal: str = "", ref: str = "",
        policy: str = "",
    ) -> Audit:  # fmt: skip
        """Run an audit and save it."""
        context = self._context
        context.refresh_settings()
        repository = await Repository.open(folder, os.environ, ref)
        name = terminal or context.settings.terminal.default
        self._shells.terminals.place(name)
        lives: dict[str, PolicyTerminal] = {}
        id = f"drift-{uuid.uuid4().hex[:12]}"
        own = context.home.terminals / id
        await asyncio.to_thread(_make_room, context.home.path, own / "work")
        session = synthetic_session(id, "drift", str(own / "work"), policy or POLICY)

        def live(wanted: str) -> PolicyTerminal:
            chosen = wanted or name
            if chosen not in lives:
                lives[chosen] = PolicyTerminal(context, self._shells, session, chosen)
            return lives[chosen]

        try:
            results = await Auditor(repository, live, context.redact).run(chosen_scopes(scopes))
        finally:
            for one in lives.values():
                await one.close()
            await asyncio.to_thread(shutil.rmtree, own, ignore_errors=True)
        async with self._one:
            id = self.audits.next_id()
            now = context.clock()
            since = now - DAYS * 86_400
            earlier = await asyncio.to_thread(self.audits.earlier, repository.folder, since)
            known = AuditBaseline(
                self.audits.patterns(), earlier, await self._skills(), await self._incidents(), now
            )
            judged = await judge(id, results, repository, known, context.redact)
            audit = Audit(
                id, now, repository.folder, repository.commit,
                context.redact(repository.subject), tuple(judged),
            )  # fmt: skip
            self.audits.save(audit, markdown(audit))
        return audit

    async def _skills(self) -> dict[str, str]:
        rows = await self._learning.list_skills()
        return {row["name"]: row["description"] for row in rows if row["state"] in OFFERED}

    async def _incidents(self) -> dict[str, Incident]:
        """Incidents of earlier signals that were resolved, the latest of each fingerprint."""
        rows = await self._context.store.incidents.incidents(
            open=False, limit=INCIDENTS, source="person"
        )
        return {one.fingerprint: one for one in reversed(rows) if one.state == "resolved"}

    def listed(self) -> list[dict[str, Any]]:
        """Newest first."""
        return [summary(audit) for audit in self.audits.readable(self.audits.ids())]

    async def decide(
        self, id: str, says: Literal["accepted", "rejected"], why: str, by: str
    ) -> DriftPattern:
        """Learn a pattern from a person's decision on a finding."""
        async with self._one:
            _, finding = self.audits.finding(id)
            why = self._context.redact(why)
            pattern = learned_from(finding, says, why, by, self._context.clock())
            self.audits.learn(pattern)
            return pattern


def _make_room(home: Path, folder: Path) -> None:
    try:
        if shutil.disk_usage(home).free < ROOM:  # commands would wait, not fail
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise no_room("nothing was checked", error) from None


def summary(audit: Audit) -> dict[str, Any]:
    return {
        "id": audit.id,
        "at": audit.at,
        "repository": audit.repository,
        "commit": audit.commit,
        "findings": len(audit.findings),
        **{weight: audit.count(weight) for weight in WEIGHTS},
        "troubles": len(audit.troubles),
    }


def chosen_scopes(names: Sequence[str]) -> list[Scope]:
    for name in names:
        if name not in SCOPES:
            raise UsageError(f"no scope called {name!r}", f"scopes: {', '.join(SCOPES)}")
    return [scope for scope in SCOPES if scope in names]
