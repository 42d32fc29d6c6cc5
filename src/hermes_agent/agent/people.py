"""Waiting for people: questions and decisions are written down and survive a restart."""

import asyncio
from collections.abc import Awaitable, Callable

from hermes_agent.agent.fold import Conversation
from hermes_agent.core import events as ev
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.protocols import Clock

Write = Callable[..., Awaitable[None]]

DECISIONS: tuple[ev.Decision, ...] = ("retry", "skip", "it-happened")


class People:
    """The one place where a turn waits for somebody."""

    def __init__(self, talk: Conversation, write: Write, clock: Clock) -> None:
        self._talk = talk
        self._write = write
        self._clock = clock
        self._changed = asyncio.Condition()
        self._one_question = asyncio.Lock()

    async def ask(self, question: ev.Asked) -> str | None:
        """The answer, or None when it did not come in time. A question that the journal holds
        already is not put again, only waited for."""
        async with self._one_question:
            known = self._talk.questions.get(question.id)
            if known is None and question.id not in self._talk.answers:
                await self._write(question)
            expires = known.expires if known else question.expires
            try:
                async with asyncio.timeout(max(0.0, expires - self._clock())):
                    await self._until(lambda: question.id in self._talk.answers)
            except TimeoutError:
                await self._write(ev.Answered(question.id, None, "nobody"))
            return self._talk.answers[question.id].answer

    async def answer(self, id: str, answer: str, by: str) -> None:
        question = self._talk.questions.get(id)
        if question is None:
            raise NotFound(f"no open question {id!r}", "`hermes approvals` lists the open ones")
        if question.choices and question.purpose != "question" and answer not in question.choices:
            raise UsageError(
                f"{answer!r} is no answer to this question",
                f"answer one of: {', '.join(question.choices)}",
            )
        await self._write(ev.Answered(id, answer, by))
        await self._wake()

    async def decision(self, effect: str) -> ev.Decision:
        """What to do with a parked effect. There is no time limit: nothing is guessed."""

        def decided() -> ev.ParkDecided | None:
            return next((c.decided for c in self._talk.calls if c.effect == effect), None)

        await self._until(lambda: decided() is not None)
        verdict = decided()
        assert verdict is not None
        return verdict.decision

    async def decide(self, effect: str, decision: str, by: str) -> None:
        call = next((c for c in self._talk.calls if c.effect == effect), None)
        if call is None or call.parked is None or call.decided is not None:
            raise NotFound(f"no parked effect {effect!r}", "`hermes parked` lists them")
        await self._write(ev.ParkDecided(effect, as_decision(decision), by))
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
