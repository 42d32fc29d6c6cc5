"""What a runtime remembers and learns: memory, skills, recall, reviews and proofs, put together.
Each part is made when it is first wanted."""

import logging
import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from hermes_agent.agent.completions import Completions
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, ModelError
from hermes_agent.core.incidents import INCIDENTS
from hermes_agent.core.knowledge import TRIALS, Outcome, SkillUse, turn_chore
from hermes_agent.core.ports import OutcomeOf, Sessions
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.core.settings.root import LearningSettings, MemorySettings
from hermes_agent.core.skills import OFFERED, ActivatedSkill, RecallResult
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.policy_shell import PolicyShells
from hermes_agent.learning.budget import LearningBudget
from hermes_agent.learning.skills.api import SkillsApi
from hermes_agent.learning.tasks import BackgroundTasks
from hermes_agent.learning.tool_backend import KnowledgeToolBackend

if TYPE_CHECKING:
    from hermes_agent.learning.evaluation.runner import TrialRunner
    from hermes_agent.learning.memory.memory import Memory
    from hermes_agent.learning.providers import Provider
    from hermes_agent.learning.recall.recall import Recall
    from hermes_agent.learning.skills.registry import SkillRegistry

log = logging.getLogger("hermes.learning")

SHIPPED = Path(__file__).parent.parent / "skills"
WEEK = 7 * 86_400.0
INDEXED = 5
"""Messages of a session by which it is found, beside its summary; and how often it is looked at
again once it has them."""
_SLASH = re.compile(r"/(?P<name>[\w-]{1,64})(?:\s+(?P<rest>.*))?\Z", re.DOTALL)


class Learning:
    def __init__(
        self,
        context: RuntimeContext,
        sessions: Sessions,
        completions: Completions,
        shells: PolicyShells,
        incident_outcome: OutcomeOf,
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._completions = completions
        self._shells = shells
        self._incident_outcome = incident_outcome
        self._troubles: dict[str, str] = {}
        self._providers: dict[MemorySettings, Provider] = {}
        self.ledger = LearningBudget(context.store.knowledge, lambda: self.settings, context.clock)
        self.chores = BackgroundTasks(context, sessions, completions, self)
        self.skills = SkillsApi(context, sessions, self)

    @property
    def settings(self) -> LearningSettings:
        return self._context.settings.learning

    @property
    def trouble(self) -> str:
        """What of it does not work now, in sentences; shown by `hermes status`."""
        return "; ".join(self._troubles.values())

    # parts

    @cached_property
    def memory(self) -> "Memory":
        from hermes_agent.learning.memory.memory import Memory

        def danger(text: str) -> str:
            from hermes_agent.learning.injection_scan.scan import (
                scan,  # most homes have nothing to look at yet
            )

            # Without the words themselves: what is withheld of a file is said in the prompt.
            found = scan(text, "memory")
            return f"it looks dangerous: {found[0].why}" if found else ""

        return Memory(
            self._context.home.path / "memories",
            self._context.store.knowledge,
            limits=lambda: self._context.settings.memory,
            scan=danger,
            redact=self._context.redact,
            clock=self._context.clock,
        )

    @cached_property
    def book(self) -> "SkillRegistry":
        from hermes_agent.learning.skills.registry import SkillRegistry

        return SkillRegistry(
            self._context.home.path / "skills",
            self._context.store.knowledge,
            shipped=SHIPPED,
            scan=_danger_of_skill,
            redact=self._context.redact,
            clock=self._context.clock,
            platform=os.uname().sysname.lower(),
        )

    @cached_property
    def recalling(self) -> "Recall":
        from hermes_agent.learning.recall.recall import Recall

        return Recall(
            self._context.store.knowledge,
            self._context.store,
            settings=lambda: self.settings,
            clock=self._context.clock,
        )

    @cached_property
    def arena(self) -> "TrialRunner":
        from hermes_agent.learning.evaluation.runner import TrialRunner

        return TrialRunner(
            self._context, self._sessions, self._completions, self._shells, self.ledger
        )

    @property
    def provider(self) -> "Provider | None":
        """The service that remembers beside us, where the settings name one now."""
        memory = self._context.settings.memory
        if not memory.provider:
            return None
        if memory not in self._providers:
            from hermes_agent.learning.providers import open_provider

            self._providers[memory] = open_provider(
                memory, self._context.secret, self._context.clock
            )
        return self._providers[memory]

    def lent(self, session: Session) -> KnowledgeToolBackend:
        """What a session's tools reach of it."""
        trial = self.arena.lent.get(session.id) if session.source == TRIALS else None
        return KnowledgeToolBackend(self, trial)

    # a session opens

    async def opening(self, tools: Sequence[str], parent: str, source: str) -> tuple[str, str]:
        """What the prompt of a new session says of memory and skills. What is wrong with them keeps
        no session from being opened."""
        if source == TRIALS:
            return "", ""
        try:
            memory = "" if parent or "memory" not in tools else (await self.memory.snapshot()).text
            skills = ""
            if "skill" in tools:
                await self.sync()
                # A candidate is offered where it fits, and there in half of the cases only.
                known = await self.book.offered(tools)
                skills = self.book.index([one for one in known if one.state != "candidate"])
        except HermesError as error:
            self.say("opening", f"memory and skills could not be read: {error.message}")
            return "", ""
        self.say("opening", "")
        return memory, skills

    async def sync(self) -> None:
        """Take in what was changed by hand in the skills, and say what came of it."""
        for words in await self.book.sync():
            log.warning("skills: %s", words)

    def say(self, part: str, trouble: str) -> None:
        """What is wrong with a part; empty when it is well again."""
        if trouble and trouble != self._troubles.get(part):
            log.warning("%s", trouble)
        self._troubles.pop(part, None)
        if trouble:
            self._troubles[part] = trouble

    # a message arrives

    async def arrived(self, session: Session, message: SessionMessage) -> SessionMessage:
        """The message with the skill that it names, or with what fits it."""
        if session.source == TRIALS or message.skills or message.recalled != RecallResult():
            return message
        slash = _SLASH.match(message.text.strip())
        if slash is not None and await self._knows(slash["name"]):
            return await self._with_skill(message, slash["name"], slash["rest"] or "")
        try:
            message = await self._with_recalled(session, message)
        except HermesError as error:
            self.say("recall", f"nothing could be recalled: {error.message}")
            return message
        self.say("recall", "")
        return message

    async def expect(self, text: str) -> None:
        """A message that names a skill wrongly is refused before a session is opened for it."""
        slash = _SLASH.match(text.strip())
        if slash is not None and await self._knows(slash["name"]):
            await self.book.open(slash["name"], (slash["rest"] or "").strip())

    async def _knows(self, name: str) -> bool:
        await self.sync()
        return any(record.name == name for record in await self._context.store.knowledge.skills())

    async def _with_skill(
        self, message: SessionMessage, name: str, arguments: str
    ) -> SessionMessage:
        return replace(message, skills=(await self.opened(name, arguments),))

    async def opened(self, name: str, arguments: str = "") -> ActivatedSkill:
        """A skill as a message opens it."""
        found = await self.book.open(name, arguments.strip())
        text = found.text
        if found.snippets:
            # What the commands in its text print is known only in a turn, where they are judged.
            given = f"name={name!r}, arguments={arguments.strip()!r}"
            text = f"[the user opens the skill {name}: begin with skill({given})]"
        return replace(found.opened, text=text)

    async def _with_recalled(self, session: Session, message: SessionMessage) -> SessionMessage:
        prompt = await self._context.store.prompt(session.prompt)
        tools = [spec.name for spec in prompt.tools]
        recalled = RecallResult()
        if self.settings.recall and "skill" in tools:
            offered = await self.book.offered(tools)
            recalled = await self.recalling.offer(
                message.text,
                skills={entry.name: entry.state for entry in offered},
                session=session.id,
                exclude={session.id, session.parent} - {""},
            )
        if not session.parent:
            recalled = await self._with_provider(message, recalled)
        return message if recalled == RecallResult() else replace(message, recalled=recalled)

    async def _with_provider(self, message: SessionMessage, recalled: RecallResult) -> RecallResult:
        name = self._context.settings.memory.provider
        try:
            if (provider := self.provider) is None:
                return recalled
            lines = await provider.recall(self._context.redact(message.text), 5)
        except HermesError as error:
            self.say("provider", f"{name} does not answer: {error.message}")
            return recalled
        self.say("provider", "")
        if not lines:
            return recalled
        from hermes_agent.learning.providers import fenced

        more = fenced(name, lines)
        return replace(recalled, text=f"{recalled.text}\n\n{more}".strip())

    # a turn has ended

    async def turn_ended(self, session: Session, talk: ConversationState) -> None:
        if session.source == TRIALS or self._context.store.health.state != "well":
            return
        events = await self._context.store.events(session.id, talk.turn_began - 1)
        ends = (at for at, one in enumerate(events) if isinstance(one.event, ev.TurnFinished))
        events = events[: next(ends) + 1]
        started = next(one.event for one in events if isinstance(one.event, ev.TurnStarted))
        await self._note_uses(session, talk, started.turn, events)
        if not session.parent:
            if talk.turns <= INDEXED or talk.turns % INDEXED == 0:
                await self.index(session.id)
            if session.source != INCIDENTS:  # those look back on themselves
                await self.chores.after(session, talk, events)
        await self._context.store.knowledge.drop_chore(turn_chore(started.turn))

    async def catch_up(self, id: str, turn: int) -> str:
        """A turn that ended just before its runtime did."""
        session = await self._context.store.session(id)
        prompt = await self._context.store.prompt(session.prompt)
        talk = ConversationState(id, prompt)
        for one in await self._context.store.events(id):
            talk.apply(one)
            if isinstance(one.event, ev.TurnFinished) and one.event.turn == turn:
                break
        await self.turn_ended(session, talk)
        return "caught up"

    async def _note_uses(
        self, session: Session, talk: ConversationState, turn: int, events: Sequence[ev.Recorded]
    ) -> None:
        """How the turn went, for each skill that fitted it; and what its message says of how the
        one before went."""
        opened = {one.skill: one.digest for one in talk.opened}
        fitting = {
            name: ""
            for one in talk.recalled
            for name in (*one.skills, *one.held_back)
            if name not in opened
        }
        names = {*opened, *fitting} | await self._judge_before(session, turn, events)
        if opened or fitting:
            went, why = await self._went(session, events)
            records = {one.name: one for one in await self._context.store.knowledge.skills()}
            await self._context.store.knowledge.add_uses(
                [
                    SkillUse(
                        name, digest or records[name].digest, session.id, turn,
                        self._context.clock(), name in opened, went, talk.turn.steps,
                        round(talk.turn.seconds, 3), talk.turn.usage.total, talk.turn.cost,
                        talk.model, why,
                    )
                    for name, digest in {**opened, **fitting}.items()
                    if name in records
                ]
            )  # fmt: skip
        for name in sorted(names):
            await self.chores.settle(name)

    async def _went(self, session: Session, events: Sequence[ev.Recorded]) -> tuple[Outcome, str]:
        """How a turn went: of an incident, its checks say that."""
        from hermes_agent.learning.review.triggers import outcome

        if session.source == INCIDENTS:
            return await self._incident_outcome(session)
        return outcome(events)

    async def _judge_before(
        self, session: Session, turn: int, events: Sequence[ev.Recorded]
    ) -> set[str]:
        """A correction says that the turn before went wrong, thanks that it went well."""
        from hermes_agent.learning.review.triggers import outcome_after

        said = [one.event.text for one in events if isinstance(one.event, ev.MessageTaken)]
        judged = outcome_after(said[0]) if said else None
        if judged is None:
            return set()
        uses = [
            one for one in await self._context.store.knowledge.uses() if one.session == session.id
        ]
        if not uses:
            return set()
        turns = [
            one.event.turn
            for one in await self._context.store.events(session.id)
            if isinstance(one.event, ev.TurnStarted) and one.event.turn < turn
        ]
        again = [
            replace(one, outcome=judged[0], why=judged[1])
            for one in uses
            if turns and one.turn == turns[-1]
        ]
        await self._context.store.knowledge.add_uses(again)
        return {one.skill for one in again}

    async def index(self, id: str) -> None:
        """A later message may fit this session."""
        recorded = await self._context.store.events(id)
        said = [one.event.text for one in recorded if isinstance(one.event, ev.MessageTaken)]
        summaries = [one.event.summary for one in recorded if isinstance(one.event, ev.Summarised)]
        ends = [one.event.text for one in recorded if isinstance(one.event, ev.TurnFinished)]
        title = (await self._context.store.session(id)).title
        await self.recalling.index_session(
            id, title, [*said[:INDEXED], *summaries[-1:]], ends[-1] if ends else ""
        )

    async def notify_provider(self, session: str, after: int) -> str:
        """Hand what was said in a turn to the service that remembers beside us."""
        if (provider := self.provider) is None:
            return "no service is named any more"
        said: list[tuple[Literal["user", "assistant"], str]] = []
        redact = self._context.redact
        for one in await self._context.store.events(session, after):
            if isinstance(one.event, ev.MessageTaken):
                said.append(("user", redact(one.event.text)))
            elif isinstance(one.event, ev.TurnFinished):
                said.append(("assistant", redact(one.event.text)))
                break
        try:
            await provider.remember(session, said)
        except HermesError as error:
            self.say("provider", f"{provider.name} could not be told: {error.message}")
            raise ModelError("overload", error.message, error.hint) from None
        self.say("provider", "")
        return f"{len(said)} messages"

    # how it is

    async def status(self) -> dict[str, object]:
        knowledge = self._context.store.knowledge
        skills = await knowledge.skills()
        week = self._context.clock() - WEEK
        return {
            "trouble": self.trouble,
            "proposals": len(await knowledge.proposals()),
            "skills": sum(record.state in OFFERED for record in skills),
            "quarantined": [one.name for one in skills if one.state == "quarantined"],
            "given_up": [f"{one.key}: {one.result}" for one in await knowledge.given_up(week)],
            "candidates": sum(record.state == "candidate" for record in skills),
            "chores": len(await knowledge.chores(self._context.clock())),
            "tokens_today": int(await self.ledger.tokens()),
            "dollars_today": await self.ledger.dollars(),
        }

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()


def _danger_of_skill(text: str) -> str:
    from hermes_agent.learning.injection_scan.scan import (
        reason,  # most homes have nothing to look at yet
    )

    return reason(text, "skill")
