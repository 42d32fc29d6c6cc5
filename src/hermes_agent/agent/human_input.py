"""Questions to people and their decisions: journaled, so they survive a restart."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from hermes_agent.agent.conversation import ConversationState, PendingCall
from hermes_agent.core import events as ev
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.protocols import Clock

Write = Callable[..., Awaitable[None]]
Adopt = Callable[[str, str], None]
"""Adds a proposed rule on behalf of a person."""

DECISIONS: tuple[ev.Decision, ...] = ("retry", "skip", "it-happened")


class HumanInput:
    """The only place where a turn waits for people."""

    def __init__(
        self, conversation: ConversationState, write: Write, clock: Clock, timeout_seconds: float
    ) -> None:
        self._conversation = conversation
        self._write = write
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._changed = asyncio.Condition()
        self._question_lock = asyncio.Lock()
        self._answer_lock = asyncio.Lock()
        self._settled: set[str] = set()
        """Questions and effects with an answer, including one that is still being written."""

    async def ask(self, question: ev.QuestionAsked) -> str | None:
        """Return the answer, or None on a timeout, which starts when the question is asked. A
        question that is already in the journal is only waited for. Whether to go beyond a budget
        has no timeout: work that somebody walked away from waits for them."""
        async with self._question_lock:
            id = question.id
            if id not in self._conversation.questions and id not in self._conversation.answers:
                timeout_seconds = question.consent.seconds or self._timeout_seconds
                expires = 0.0 if question.purpose == "budget" else self._clock() + timeout_seconds
                await self._write(replace(question, expires=expires))
            asked = self._conversation.questions.get(id)
            left = asked.expires - self._clock() if asked else 0.0
            try:
                async with asyncio.timeout(None if asked and not asked.expires else max(0.0, left)):
                    await self._wait_until(lambda: id in self._conversation.answers)
            except TimeoutError:
                if id in self._settled:  # answered in time, and being written
                    await self._wait_until(lambda: id in self._conversation.answers)
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
        """Answer a question. For "always", `adopt` first adds the proposed rule. `names` are other
        names under which rules may know the person."""
        async with self._answer_lock:
            await self._answer(id, answer, by, adopt, names)

    async def _answer(
        self, id: str, answer: str, by: str, adopt: Adopt | None, names: Sequence[str]
    ) -> None:
        question = self._conversation.questions.get(id)
        if question is None or id in self._settled:
            raise NotFound(f"no open question {id!r}", "`hermes approvals` lists the open ones")
        if question.choices and question.purpose != "question" and answer not in question.choices:
            raise UsageError(
                f"not a valid answer: {answer!r}",
                f"answer with one of: {', '.join(question.choices)}",
            )
        self._check_entitled(question, by, names)
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

    def _check_entitled(self, question: ev.QuestionAsked, by: str, names: Sequence[str]) -> None:
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
        """Wait, without a timeout, for the decision on a parked effect."""

        def decided() -> ev.ParkDecided | None:
            call = self._find_call(effect)
            return call.decided if call is not None else None

        await self._wait_until(lambda: decided() is not None)
        verdict = decided()
        assert verdict is not None
        return verdict.decision

    def settle(self, effect: str) -> bool:
        """Let nobody decide on a parked effect any more; False if somebody has."""
        if effect in self._settled or ((call := self._find_call(effect)) and call.decided):
            return False
        self._settled.add(effect)
        return True

    def reopen(self, effect: str) -> None:
        """Let people decide: the effect has been parked anew."""
        self._settled.discard(effect)

    def _find_call(self, effect: str) -> PendingCall | None:
        return next((c for c in self._conversation.all_calls if c.effect == effect), None)

    async def decide(self, effect: str, decision: str, by: str) -> None:
        chosen = parse_decision(decision)
        call = self._find_call(effect)
        if call is None or call.parked is None or call.decided or effect in self._settled:
            raise NotFound(f"no parked effect {effect!r}", "`hermes parked` lists them")
        self._settled.add(effect)
        try:
            await self._write(ev.ParkDecided(effect, chosen, by))
        finally:  # a retry may be parked again
            self._settled.discard(effect)
        await self._wake()

    async def _wait_until(self, met: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(met)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def parse_decision(text: str) -> ev.Decision:
    for decision in DECISIONS:
        if decision == text:
            return decision
    raise UsageError(f"not a valid decision: {text!r}", f"choose one of: {', '.join(DECISIONS)}")
