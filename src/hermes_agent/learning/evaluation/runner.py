"""Plays a case in a sandbox, with a skill or without, as an ordinary session that nobody sees."""

import asyncio
import logging
import shutil
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from hermes_agent.agent.completions import Completions
from hermes_agent.core import events as ev
from hermes_agent.core.effects import Actor
from hermes_agent.core.errors import HermesError, ModelError, UsageError
from hermes_agent.core.knowledge import TRIALS, Doc, EvaluationCase, Trial
from hermes_agent.core.ports import Sessions
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.core.settings.terminals import SandboxPlace
from hermes_agent.core.skills import RecallResult
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.policy_shell import NotAllowed, PolicyShells
from hermes_agent.learning.budget import LearningBudget
from hermes_agent.learning.recall.formatting import offered
from hermes_agent.learning.skills.file import parse
from hermes_agent.learning.skills.folder import main_file
from hermes_agent.learning.structured_output import NoBudget

log = logging.getLogger("hermes.learning")

PLACE = "sandbox"
TOOLS = (
    "terminal", "process", "read_file", "write_file", "patch", "search_files", "read_on", "todo",
)  # fmt: skip
"""Tools of a trial, beside `skill`."""
MANY = 1_000
SCRIPT_SECONDS = 60.0
NO_BUDGET = "what one proof may use of learning's budget today is used up"
CASE_SECONDS = 600.0
"""A longer trial has failed."""


class SkillUnderTest(NamedTuple):
    """The one skill that a trial may open."""

    name: str
    digest: str
    files: Mapping[str, bytes]

    @property
    def about(self) -> str:
        main = main_file(self.files)
        return parse(self.files[main].decode(errors="replace")).facts.description if main else ""


class TrialRunner:
    def __init__(
        self,
        context: RuntimeContext,
        sessions: Sessions,
        completions: Completions,
        shells: PolicyShells,
        budget: LearningBudget,
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._completions = completions
        self._shells = shells
        self._budget = budget
        self.under_test: dict[str, SkillUnderTest] = {}
        """The skill of each running trial, by session."""

    async def play(
        self, case: EvaluationCase, files: Mapping[str, bytes] | None, round: int, digest: str
    ) -> Trial | None:
        """Play a case once. None if the case is unusable: it cannot be set up, or there is nothing
        to do."""
        folder = self._context.home.path / "proofs" / uuid.uuid4().hex
        await asyncio.to_thread(folder.mkdir, parents=True, mode=0o700)
        session: Session | None = None
        try:
            session = await self._open(case, str(folder), files, digest)
            if not await self._holds(session, case.setup):
                return None
            if await self._holds(session, case.check) is not False:
                return None
            end, opened = await self._work(session, case)
            if end.reason == "budget":
                raise NoBudget(end.error or NO_BUDGET)
            if end.reason == "failed" and not end.steps:
                raise ModelError("unreachable", f"no trial could be run: {end.error}", end.hint)
            ok = end.reason == "done" and await self._holds(session, case.check) is True
            return Trial(
                case.skill, digest, case.id, "without" if files is None else "with", round,
                self._context.clock(), ok, end.steps, end.seconds, end.usage.total, end.cost,
                session.model, session.id, opened,
            )  # fmt: skip
        finally:
            if session is not None:
                await self._leave(session, case.skill)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _open(
        self, case: EvaluationCase, folder: str, files: Mapping[str, bytes] | None, digest: str
    ) -> Session:
        place = self._context.settings.places[PLACE]
        if not isinstance(place, SandboxPlace) or place.network or place.write:
            raise UsageError(
                f"no trials: the terminal {PLACE!r} of the settings has network or write access",
                "rename that terminal in the settings",
            )
        share = await self._budget.left(case.skill)
        if share is None:
            raise NoBudget(NO_BUDGET)
        model = self._completions.full_name("")
        if not self._completions.models.facts(model).priced:  # its cost is unknown
            share = replace(share, dollars=None)
        session = await self._sessions.open_session(
            workspace=folder,
            policy="sandbox",
            source=TRIALS,
            key=f"{TRIALS}:{case.skill}",
            terminals=(PLACE,),
            use=(*TOOLS, *(("skill",) if files is not None else ())),
            share=share,
        )
        if files is not None:
            self.under_test[session.id] = SkillUnderTest(case.skill, digest, files)
        return session

    async def _work(self, session: Session, case: EvaluationCase) -> tuple[ev.TurnFinished, bool]:
        recalled = RecallResult()
        if (trialled := self.under_test.get(session.id)) is not None:
            offer = offered([Doc("skill", trialled.name, trialled.name, trialled.about)])
            recalled = RecallResult(offer, (trialled.name,))
        await self._sessions.submit(
            session, SessionMessage("task", case.task, TRIALS, recalled=recalled)
        )
        try:
            async with asyncio.timeout(CASE_SECONDS):
                end = await self._sessions.finished(session.id, "task")
        except TimeoutError:
            await self._sessions.interrupt(session.id, "it took too long")
            end = await self._sessions.finished(session.id, "task")
        events = await self._context.store.events(session.id)
        intended = [one.event for one in events if isinstance(one.event, ev.CallIntended)]
        return end, any(event.tool == "skill" for event in intended)

    async def _leave(self, session: Session, proof: str = "") -> None:
        """Count the cost of a trial, however it ended, and remove it."""
        self.under_test.pop(session.id, None)
        try:
            await self._sessions.interrupt(session.id, "the trial is over")
            await self._sessions.wait_idle(session.id)
            dollars, tokens = await self._context.store.spent_by(session.id)
            await self._budget.add(tokens, dollars, proof)
            await self._sessions.delete_session(session)
        except HermesError as error:
            log.warning("trial %s could not be removed: %s", session.id, error.message)

    async def _holds(self, session: Session, script: str) -> bool | None:
        """Whether a script of the case succeeds; None if the gate refuses it. It gets a new shell
        each time, so that a trial cannot influence it."""
        shell = self._shells.open(session, PLACE, Actor("agent", TRIALS, TRIALS))
        try:
            done = await shell.run(script, SCRIPT_SECONDS)
            return done.state == "exited" and done.code == 0
        except NotAllowed as error:
            log.warning("the gate refused a case of a proof: %s", error.reason)
            return None
        finally:
            await shell.close()

    async def clear(self) -> None:
        """Remove trials that a dead runtime left behind."""
        for session in await self._context.store.sessions(MANY):
            if session.source == TRIALS:
                await self._leave(session)
        left = self._context.home.path / "proofs"
        await asyncio.to_thread(shutil.rmtree, left, ignore_errors=True)
