"""Waiting for people: questions and decisions are written down and survive a restart."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.protocols import Clock

Write = Callable[..., Awaitable[None]]
Adopt = Callable[[str, str], None]
"""Adds a proposed rule in somebody's name."""

DECISIONS: tuple[ev.Decision, ...] = ("retry", "skip", "it-happened")


class HumanInput:
    """The one place where a turn waits for somebody."""

    def __init__(
        self, conversation: ConversationState, write: Write, clock: Clock, patience: float
    ) -> None:
        self._conversation = conversation
        self._write = write
        self._clock = clock
        self._patience = patience
        self._changed = asyncio.Condition()
        self._one_question = asyncio.Lock()
        self._one_answer = asyncio.Lock()
        self._settled: set[str] = set()
        """What somebody has answered or decided, also while that is being written."""

    async def ask(self, question: ev.QuestionAsked) -> str | None:
        """The answer, or None when it did not come in time; the time begins when the question is
        put. One that the journal holds already is not put again, only waited for."""
        async with self._one_question:
            id = question.id
            if id not in self._conversation.questions and id not in self._conversation.answers:
                patience = question.consent.seconds or self._patience
                await self._write(replace(question, expires=self._clock() + patience))
            put = self._conversation.questions.get(id)
            left = put.expires - self._clock() if put else 0.0
            try:
                async with asyncio.timeout(max(0.0, left)):
                    await self._until(lambda: id in self._conversation.answers)
            except TimeoutError:
                if id in self._settled:  # it came in time and is being written
                    await self._until(lambda: id in self._conversation.answers)
                else:
                    self._settled.add(id)
                    await self._write(ev.QuestionAnswered(id, None, "nobody"))
            return self._conversation.answers[id].answer

    async def answer(
        self,
        id: str,
        answer: str,
        by: str,
        adopt: Adopt | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """Answer a question. For "always", `adopt` first adds the rule that it proposes. `names`
        are others that rules may know the same person by."""
        async with self._one_answer:
            await self._answer(id, answer, by, adopt, names)

    async def _answer(
        self, id: str, answer: str, by: str, adopt: Adopt | None, names: Sequence[str]
    ) -> None:
        question = self._conversation.questions.get(id)
        if question is None or id in self._settled:
            raise NotFound(f"no open question {id!r}", "`hermes approvals` lists the open ones")
        if question.choices and question.purpose != "question" and answer not in question.choices:
            raise UsageError(
                f"{answer!r} is no answer to this question",
                f"answer one of: {', '.join(question.choices)}",
            )
        self._entitled(question, by, names)
        agreed = (*self._conversation.agreed.get(id, ()), by)
        if answer == "yes" and len(agreed) < question.consent.count:
            return await self._write(ev.ApprovalGiven(id, by))
        if answer == "always" and question.purpose == "approval" and adopt is not None:
            adopt(question.proposal, by)
        self._settled.add(id)
        await self._write(
            ev.QuestionAnswered(id, answer, ", ".join(agreed) if answer == "yes" else by)
        )
        return await self._wake()

    def _entitled(self, question: ev.QuestionAsked, by: str, names: Sequence[str]) -> None:
        wanted = question.consent.by
        if wanted and not any(fnmatchcase(one, name) for one in (by, *names) for name in wanted):
            raise UsageError(
                f"{by!r} may not answer this question", f"these may: {', '.join(wanted)}"
            )
        if by in self._conversation.agreed.get(question.id, ()):
            raise UsageError(
                f"{by!r} has already agreed", f"{question.consent.count} different people must"
            )

    async def decision(self, effect: str) -> ev.Decision:
        """What to do with a parked effect. There is no time limit: nothing is guessed."""

        def decided() -> ev.ParkDecided | None:
            return next((c.decided for c in self._conversation.every if c.effect == effect), None)

        await self._until(lambda: decided() is not None)
        verdict = decided()
        assert verdict is not None
        return verdict.decision

    async def decide(self, effect: str, decision: str, by: str) -> None:
        chosen = as_decision(decision)
        call = next((c for c in self._conversation.every if c.effect == effect), None)
        if call is None or call.parked is None or call.decided or effect in self._settled:
            raise NotFound(f"no parked effect {effect!r}", "`hermes parked` lists them")
        self._settled.add(effect)
        try:
            await self._write(ev.ParkDecided(effect, chosen, by))
        finally:  # a retry may be parked again
            self._settled.discard(effect)
        await self._wake()

    async def _until(self, met: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(met)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def as_decision(text: str) -> ev.Decision:
    for decision in DECISIONS:
        if decision == text:
            return decision
    raise UsageError(f"no decision {text!r}", f"decide one of: {', '.join(DECISIONS)}")
