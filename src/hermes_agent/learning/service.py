"""Learning as the runtime uses it: memory, skills, recall, reviews and proofs together."""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from hermes_agent.agent.completions import Completions
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.effects import Effect
from hermes_agent.core.errors import HermesError, ModelError
from hermes_agent.core.gateway import SessionPlace
from hermes_agent.core.incidents import INCIDENTS
from hermes_agent.core.knowledge import TRIALS, Outcome, SkillUse, turn_task
from hermes_agent.core.ports import OutcomeOf, Sessions
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.core.skills import OFFERED, ActivatedSkill, RecallResult
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.policy_shell import PolicyShells
from hermes_agent.learning.knowledge import INDEXED, MAX_USES, Knowledge
from hermes_agent.learning.tasks import BackgroundTasks
from hermes_agent.learning.tool_backend import KnowledgeToolBackend
from hermes_agent.policy.path_resolvers import on_disk

if TYPE_CHECKING:
    from hermes_agent.learning.evaluation.runner import TrialRunner

log = logging.getLogger("hermes.learning")

WEEK = 7 * 86_400.0
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
        self._store = context.store.knowledge
        self._incident_outcome = incident_outcome
        self._sessions = sessions
        self._completions = completions
        self._shells = shells
        self.knowledge = Knowledge(context)
        self.tasks = BackgroundTasks(
            context, sessions, completions, self.knowledge, lambda: self.trials, self.catch_up,
            self.notify_provider, self.may_learn,
        )  # fmt: skip

    @cached_property
    def trials(self) -> "TrialRunner":
        from hermes_agent.learning.evaluation.runner import TrialRunner

        return TrialRunner(
            self._context, self._sessions, self._completions, self._shells, self.knowledge.budget
        )

    def tool_backend(self, session: Session) -> KnowledgeToolBackend:
        trial = self.trials.under_test.get(session.id) if session.source == TRIALS else None
        return KnowledgeToolBackend(
            self.knowledge, self.tasks.save_skill, self.tasks.propose_note,
            partial(self.place, session), trial,
        )  # fmt: skip

    async def place(self, session: Session) -> SessionPlace:
        """Where a session talks to people; a subagent, where the one does that it works for."""
        root = await self._context.store.root_session(session.id)
        binding = await self._context.store.gateway.binding_of(root.id)
        return SessionPlace(root.source, None if binding is None else binding.chat)

    # a session opens

    async def opening(
        self, tools: Sequence[str], parent: str, place: SessionPlace
    ) -> tuple[str, str]:
        """What the prompt of a new session says of memory and skills. Trouble with them does not
        keep a session from opening."""
        if place.source == TRIALS:
            return "", ""
        try:
            memory = skills = ""
            if "memory" in tools and not parent:
                memory = (await self.knowledge.memory.snapshot()).text
            if "skill" in tools:
                from hermes_agent.learning.skills.prompt_index import index

                await self.knowledge.sync()
                # Candidates are offered only where they fit, in half of the cases.
                if parent:
                    place = await self.place(await self._context.store.session(parent))
                known = await self.knowledge.skills.offered(tools, place)
                skills = index([one for one in known if one.state != "candidate"])
        except HermesError as error:
            self.knowledge.report(
                "opening", f"memory and skills could not be read: {error.message}"
            )
            return "", ""
        self.knowledge.report("opening", "")
        return memory, skills

    # a message arrives

    async def arrived(self, session: Session, message: SessionMessage) -> SessionMessage:
        """The message with the skill that it names, or with what was recalled for it."""
        if session.source == TRIALS or message.skills or message.recalled != RecallResult():
            return message
        slash = _SLASH.match(message.text.strip())
        if slash is not None and await self._knows(slash["name"]):
            place = await self.place(session)
            opened = await self.opened(slash["name"], slash["rest"] or "", place)
            return replace(message, skills=(opened,))
        try:
            message = await self._with_recalled(session, message)
        except HermesError as error:
            self.knowledge.report("recall", f"nothing could be recalled: {error.message}")
            return message
        self.knowledge.report("recall", "")
        return message

    async def expect(self, text: str, place: SessionPlace | None) -> None:
        """Refuse a message that opens a skill wrongly before a session is opened for it."""
        slash = _SLASH.match(text.strip())
        if slash is not None and await self._knows(slash["name"]):
            given = (slash["rest"] or "").strip()
            await self.knowledge.skills.open(slash["name"], given, place=place)

    async def _knows(self, name: str) -> bool:
        await self.knowledge.sync()
        return any(record.name == name for record in await self._store.skills())

    async def opened(self, name: str, arguments: str, place: SessionPlace) -> ActivatedSkill:
        """A skill as a message opens it there."""
        found = await self.knowledge.skills.open(name, arguments.strip(), place=place)
        text = found.text
        if found.snippets:
            # Commands in its text run only in a turn, where the gate judges them.
            given = f"name={name!r}, arguments={arguments.strip()!r}"
            text = f"[the user opens the skill {name}: begin with skill({given})]"
        return replace(found.opened, text=text)

    async def _with_recalled(self, session: Session, message: SessionMessage) -> SessionMessage:
        prompt = await self._context.store.prompt(session.prompt)
        tools = [spec.name for spec in prompt.tools]
        recalled = RecallResult()
        if self.knowledge.settings.recall and "skill" in tools:
            offered = await self.knowledge.skills.offered(tools, await self.place(session))
            recalled = await self.knowledge.recall.offer(
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
            if (provider := self.knowledge.provider) is None:
                return recalled
            lines = await provider.recall(self._context.redact(message.text), 5)
        except HermesError as error:
            self.knowledge.report("provider", f"{name} does not answer: {error.message}")
            return recalled
        self.knowledge.report("provider", "")
        if not lines:
            return recalled
        from hermes_agent.learning.providers.registry import fenced

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
                await self.knowledge.index(session.id)
            if session.source != INCIDENTS:  # those are reviewed by incidents
                await self.tasks.after(session, talk, events)
        await self._store.drop_task(turn_task(started.turn))

    async def may_learn(self, session: Session) -> bool:
        """Whether the session's profile lets anything be remembered or written down."""
        effect = Effect(f"{session.id}-learning", "memory", {}, session.id, session.workspace)
        verdict = await self._shells.gate(session).judge(effect, on_disk)
        return verdict.action != "deny"

    async def catch_up(self, id: str, turn: int) -> str:
        """Process a turn that ended just before its runtime did."""
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
        """Record how the turn went for each skill that fitted it, and what its message says of the
        turn before."""
        opened = {one.skill: one.digest for one in talk.active_skills}
        fitting = {
            name: ""
            for one in talk.recalled
            for name in (*one.skills, *one.held_back)
            if name not in opened
        }
        names = {*opened, *fitting} | await self._judge_before(session, turn, events)
        if opened or fitting:
            went, why = await self._went(session, events)
            records = {one.name: one for one in await self._store.skills()}
            await self._store.add_uses(
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
            await self.tasks.settle(name)

    async def _went(self, session: Session, events: Sequence[ev.Recorded]) -> tuple[Outcome, str]:
        """How a turn went; in an incident, its checks decide."""
        from hermes_agent.learning.review.triggers import outcome

        if session.source == INCIDENTS:
            return await self._incident_outcome(session)
        return outcome(events)

    async def _judge_before(
        self, session: Session, turn: int, events: Sequence[ev.Recorded]
    ) -> set[str]:
        """Judge the turn before by a correction or praise; the skills concerned."""
        from hermes_agent.learning.review.triggers import outcome_after

        said = [one.event.text for one in events if isinstance(one.event, ev.MessageTaken)]
        judged = outcome_after(said[0]) if said else None
        if judged is None:
            return set()
        uses = [one for one in await self._store.uses() if one.session == session.id]
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
        await self._store.add_uses(again)
        return {one.skill for one in again}

    async def notify_provider(self, session: str, after: int) -> str:
        """Send a turn to the external memory service."""
        if (provider := self.knowledge.provider) is None:
            return "no memory service is configured"
        turn: list[tuple[Literal["user", "assistant"], str]] = []
        redact = self._context.redact
        for one in await self._context.store.events(session, after):
            if isinstance(one.event, ev.MessageTaken):
                turn.append(("user", redact(one.event.text)))
            elif isinstance(one.event, ev.TurnFinished):
                turn.append(("assistant", redact(one.event.text)))
                break
        try:
            await provider.remember(session, turn)
        except HermesError as error:
            self.knowledge.report(
                "provider", f"{provider.name} did not store a turn: {error.message}"
            )
            raise ModelError("overload", error.message, error.hint) from None
        self.knowledge.report("provider", "")
        return f"{len(turn)} messages"

    # status

    async def list_skills(self) -> list[dict[str, Any]]:
        await self.knowledge.sync()
        uses = Counter(one.skill for one in await self._store.uses(limit=MAX_USES) if one.opened)
        known = self.knowledge.skills.known()
        return [
            {
                "name": record.name,
                "description": cached.facts.description if cached else "",
                "category": cached.facts.category if cached else "",
                "state": record.state,
                "version": record.version,
                "by": record.by,
                "model": record.model,
                "reason": record.reason,
                "uses": uses[record.name],
                "runbook": bool(cached and cached.runbook),
                "broken": cached.broken if cached else "",
            }
            for record in await self._store.skills()
            for cached in (known.get(record.name),)
        ]

    async def status(self) -> dict[str, object]:
        skills = await self._store.skills()
        week = self._context.clock() - WEEK
        return {
            "trouble": self.knowledge.trouble,
            "proposals": len(await self._store.proposals()),
            "skills": sum(record.state in OFFERED for record in skills),
            "quarantined": [one.name for one in skills if one.state == "quarantined"],
            "given_up": [f"{one.key}: {one.result}" for one in await self._store.given_up(week)],
            "candidates": sum(record.state == "candidate" for record in skills),
            "tasks": len(await self._store.due_tasks(self._context.clock())),
            "tokens_today": int(await self.knowledge.budget.tokens()),
            "dollars_today": await self.knowledge.budget.dollars(),
        }

    async def close(self) -> None:
        await self.knowledge.close()
