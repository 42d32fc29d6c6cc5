"""What learning does with a model: reviews, proofs and summaries."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from hermes_agent.agent.completions import Completions
from hermes_agent.core import events as ev
from hermes_agent.core.errors import NotFound, OverBudget
from hermes_agent.core.knowledge import TRIALS
from hermes_agent.core.messages import Prompt, Request, UserMessage
from hermes_agent.core.ports import Sessions
from hermes_agent.core.records import ModelRole
from hermes_agent.core.skills import OFFERED
from hermes_agent.host.context import RuntimeContext
from hermes_agent.learning.knowledge import Knowledge

if TYPE_CHECKING:
    from hermes_agent.learning.evaluation.evaluator import SkillEvaluator
    from hermes_agent.learning.evaluation.runner import TrialRunner
    from hermes_agent.learning.review.reviewer import Reviewer
    from hermes_agent.learning.review.transcript import ReviewTranscript
    from hermes_agent.learning.skills.lifecycle import SkillLifecycle
    from hermes_agent.learning.structured_output import StructuredAnswer


class NotYet(Exception):
    """It is too early for a chore."""


class TaskHandlers:
    def __init__(
        self,
        context: RuntimeContext,
        sessions: Sessions,
        completions: Completions,
        knowledge: Knowledge,
        trials: "Callable[[], TrialRunner]",
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._completions = completions
        self._knowledge = knowledge
        self._trials = trials

    @cached_property
    def reviewer(self) -> "Reviewer":
        from hermes_agent.learning.review.reviewer import Reviewer

        return Reviewer(
            ask=self._ask,
            knowledge=self._context.store.knowledge,
            memory=self._knowledge.memory,
            skills=self._knowledge.book,
            settings=lambda: self._knowledge.settings,
            clock=self._context.clock,
        )

    @cached_property
    def prover(self) -> "SkillEvaluator":
        from hermes_agent.learning.evaluation.evaluator import SkillEvaluator

        return SkillEvaluator(
            ask=self._ask,
            knowledge=self._context.store.knowledge,
            arena=self._trials(),
            settings=lambda: self._knowledge.settings,
        )

    @cached_property
    def standing(self) -> "SkillLifecycle":
        from hermes_agent.learning.skills.lifecycle import SkillLifecycle

        return SkillLifecycle(
            knowledge=self._context.store.knowledge,
            skills=self._knowledge.book,
            clock=self._context.clock,
        )

    async def _ask(self, use: ModelRole, system: str, prompt: str, most: int) -> "StructuredAnswer":
        """One question to a model of learning's own, within its own budget."""
        from hermes_agent.learning.structured_output import NoBudget, StructuredAnswer

        context, ledger = self._context, self._knowledge.ledger
        request = Request(Prompt(system), (UserMessage(context.redact(prompt)),), max_output=most)
        try:
            reply = await self._completions.answer(
                use, context.settings.model, request, ledger.accounts(), ledger.add
            )
        except OverBudget as error:
            raise NoBudget(error.message, error.hint) from None
        return StructuredAnswer(reply.text, reply.model, reply.usage, reply.cost)

    async def review(self, body: Mapping[str, Any]) -> str:
        from hermes_agent.learning.review.triggers import Trigger

        triggers: Sequence[Trigger] = ()
        if "over" in body:
            transcripts = await self._last_turns(body["last"])
        else:
            triggers = msgspec.convert(body["triggers"], list[Trigger])
            transcripts = [await self._transcript(body["session"], body["after"], body["upto"])]
        proposed = await self.reviewer.review(transcripts, triggers, over_all="over" in body)
        done = [one for one in await self.reviewer.apply(proposed) if one.state != "off"]
        return "; ".join(f"{one.state} {one.words}" for one in done) or "nothing to learn"

    async def _last_turns(self, many: int) -> list["ReviewTranscript"]:
        """The last turns of all sessions together."""
        from hermes_agent.learning.review.transcript import ReviewTranscript

        store = self._context.store
        found: list[tuple[float, ReviewTranscript]] = []
        for session in await store.sessions(many, parent=""):
            if session.source == TRIALS:
                continue
            turns: dict[int, list[ev.Recorded]] = {}
            turn = 0
            for one in await store.events(session.id):
                turn = one.event.turn if isinstance(one.event, ev.TurnStarted) else turn
                turns.setdefault(turn, []).append(one)
            found += [
                (events[0].time, ReviewTranscript(session.id, turn, events, session.title))
                for turn, events in turns.items()
                if turn
            ]
        found.sort(key=lambda one: one[0])
        return [transcript for _, transcript in found[-many:]]

    async def _transcript(self, session: str, after: int, upto: int) -> "ReviewTranscript":
        from hermes_agent.learning.review.transcript import ReviewTranscript

        events = [
            one for one in await self._context.store.events(session, after) if one.number <= upto
        ]
        turns = [one.event.turn for one in events if isinstance(one.event, ev.TurnStarted)]
        return ReviewTranscript(session, turns[-1] if turns else 0, events)

    async def prove(self, body: Mapping[str, Any]) -> str:
        """Find cases, play them, and do what comes of it."""
        from hermes_agent.learning.structured_output import NoBudget

        name, digest = body["skill"], body["digest"]
        if (await self._context.store.knowledge.skill(name)).state not in OFFERED:
            return "it is not in use any more"
        if body.get("session") in self._sessions.working:
            raise NotYet("the turn that it comes from is not over")
        if await self.prover.needs_cases(name):
            turn = body.get("session", ""), body.get("turn", 0)
            used = await self.prover.turn_for(name) or ("", 0)
            transcript = await self._turn(*(turn if turn[1] else used))
            if transcript is None:
                return "no cases: no turn is known in which it was of use"
            await self.prover.add_cases(name, transcript)
        verdict = await self.prover.prove(name, digest)
        if verdict.later:
            raise NoBudget(verdict.why)
        return await self.standing.decide(verdict) or verdict.why

    async def _turn(self, session: str, turn: int) -> "ReviewTranscript | None":
        """One turn of a session by its id; None where it is gone."""
        try:
            events = await self._context.store.events(session) if session else ()
        except NotFound:
            return None
        first, last = None, events[-1].number if events else 0
        for one in events:
            if isinstance(one.event, ev.TurnStarted) and one.event.turn == turn:
                first = one.number
            elif isinstance(one.event, ev.TurnFinished) and one.event.turn == turn:
                last = one.number
        return None if first is None else await self._transcript(session, first - 1, last)

    async def summarise(self, body: Mapping[str, Any]) -> str:
        """A session that rests as a whole; one that works on up to where it was asked for."""
        from hermes_agent.learning.review import summary as summaries

        id = body["session"]
        try:
            session = await self._context.store.session(id)
        except NotFound:
            return "the session is gone"
        if not body["nudge"] and (session.turns != body["turn"] or session.state != "idle"):
            return "the session went on"
        events = await self._context.store.events(id)
        before = [one.event for one in events if isinstance(one.event, ev.Summarised)]
        upto = before[-1].upto if before else 0
        since = [one for one in events if upto < one.number <= body["upto"]]
        summary = await summaries.summarise(self._ask, since, before[-1].summary if before else "")
        if summary is None:
            return "nothing was said"
        await self._sessions.add(session, ev.Summarised(summary.text, summary.upto, summary.model))
        await self._knowledge.index(id)
        return "summarised"
