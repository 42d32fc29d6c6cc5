"""One turn: ask the model, settle its calls, until it has nothing more to do."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from hermes_agent.agent import budget, compact
from hermes_agent.agent.calls import Calls
from hermes_agent.agent.fold import Conversation
from hermes_agent.agent.parts import Parts
from hermes_agent.agent.people import People
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, Fenced, HermesError, ModelError
from hermes_agent.core.messages import Delta, Reply, Request, Retrying, ToolCall
from hermes_agent.core.records import Turn

log = logging.getLogger("hermes.turn")

T = TypeVar("T")

DAY = 86_400.0
RETRY_WRITE_SECONDS = 1.0
"""How long to wait before trying again to write what the store could not keep."""


class Interrupted(Exception):
    """The user wants the turn to stop at once."""


class TurnWorker:
    """Works one turn to its end. Everything it does is in the journal first, so another worker
    can go on from any point."""

    def __init__(self, parts: Parts, turn: Turn, talk: Conversation) -> None:
        self.talk = talk
        self.turn = turn
        self._parts = parts
        patience = parts.settings.approvals.timeout_seconds
        self.people = People(talk, self._write, parts.clock, patience)
        self._calls = Calls(parts, talk, self.people, self._write)
        self._interrupted = asyncio.Event()
        self._compaction_failed = False

    async def interrupt(self, by: str = "") -> bool:
        """Stop at once, and write down that this was asked for. False when it is over already."""
        self._interrupted.set()
        try:
            await self._write(ev.InterruptAsked(self.turn.id, by))
        except Fenced:
            return self.talk.interrupted
        return True

    def close(self) -> None:
        """The process is about to end: begin nothing that would leave doubt."""
        self._calls.closing = True

    @property
    def must_not_be_dropped(self) -> bool:
        """An effect is under way whose outcome would be unknown if the process ended now."""
        return bool(self._calls.traceless)

    async def run(self) -> ev.TurnFinished | None:
        """The end of the turn; None when another runtime has taken it."""
        try:
            return await self._run()
        except* Fenced:
            log.warning("turn %s was taken by another runtime; leaving it alone", self.turn.id)
        return None

    async def _run(self) -> ev.TurnFinished:
        if self.turn.resumed:
            left = sum(call.intended is not None for call in self.talk.unfinished)
            await self._write(ev.TurnResumed(self.turn.id, self.turn.fence, left))
        if self.talk.interrupted:
            self._interrupted.set()
        try:
            reason: ev.TurnEnd = await self._steps()
            return await self._end(reason)
        except Interrupted:
            await self._calls.give_up("the user interrupted", park=False)
            return await self._end("interrupted")
        except ModelError as error:
            return await self._end("failed", error)
        except Exception as error:
            if _lost_the_turn(error):
                raise
            log.exception("turn %s broke", self.turn.id)
            await self._calls.give_up("the turn broke", park=True)
            return await self._end("failed", as_told(error))

    async def _steps(self) -> ev.TurnEnd:
        while True:
            if self.talk.calls:
                await self._unless_interrupted(self._calls.settle())
            for recorded in await self._keep_trying(self._parts.journal.take_mail, self.turn):
                self._note(recorded)
            if self.talk.answered:
                return "done"
            if not await self._unless_interrupted(self._within_budget()):
                return "budget"
            if compact.due(self.talk, self._parts.settings.loop, self._parts.model.facts.context):
                await self._unless_interrupted(self._compact())
            await self._ask_model()

    # the model

    async def _ask_model(self) -> None:
        try:
            await self._one_reply()
        except ModelError as error:
            # A window that is smaller than we believed: make room once and try again.
            if error.kind != "context_too_long":
                raise
            if not await self._unless_interrupted(self._compact()):
                raise
            await self._one_reply()

    async def _one_reply(self) -> None:
        talk, model = self.talk, self._parts.model
        step = talk.turn.steps + 1
        request = Request(talk.prompt, tuple(talk.messages), session=talk.session)
        await self._write(ev.ModelRequested(step, model.name, len(request.messages), talk.digest))
        started = time.perf_counter()
        so_far: list[str] = []
        try:
            reply = await self._unless_interrupted(self._stream(request, so_far))
        except Interrupted:
            # What was said so far is kept: the user has read it.
            if so_far:
                await self._reply(step, Reply("".join(so_far), stop="interrupted"), started)
            raise
        await self._reply(step, reply, started)

    async def _reply(self, step: int, reply: Reply, started: float) -> None:
        await self._write(
            ev.Replied(
                step=step,
                text=self._parts.redact(reply.text),
                calls=tuple(self._without_secrets(call) for call in reply.calls),
                usage=reply.usage,
                stop=reply.stop,
                model=reply.model or self._parts.model.name,
                cost=reply.cost,
                seconds=round(time.perf_counter() - started, 6),
            )
        )

    def _without_secrets(self, call: ToolCall) -> ToolCall:
        """A call that carries a secret we know is refused later; the journal must not have it."""
        return replace(call, arguments=self._parts.redact.known(call.arguments))

    async def _stream(self, request: Request, so_far: list[str]) -> Reply:
        async for chunk in self._parts.model.stream(request):
            match chunk:
                case Delta(text=text):
                    so_far.append(text)
                    self._publish(ev.TextArrived(text))
                case Retrying() as again:
                    if so_far:
                        self._publish(ev.TextVoided(again.reason))
                        so_far.clear()
                    await self._write(
                        ev.ModelRetried(again.kind, again.reason, again.attempt, again.delay)
                    )
                case Reply() as reply:
                    return reply
        raise ModelError("broken_stream", f"{self._parts.model.name} ended without a reply")

    async def _compact(self) -> bool:
        """Summarise the middle; False when that gains nothing or the summary failed."""
        settings, model = self._parts.settings.loop, self._parts.model
        part = compact.middle(self.talk, settings, model.facts.context)
        if part is None or self._compaction_failed:
            return False
        request = compact.summary_request(self.talk, part[1])
        digest = hashlib.sha256(msgspec.json.encode(request.prompt))
        for message in request.messages:
            digest.update(msgspec.json.encode(message))
        await self._write(
            ev.ModelRequested(
                0, model.name, len(request.messages), digest.hexdigest(), "compaction"
            )
        )
        try:
            reply = await self._stream_quietly(request)
        except ModelError as error:
            self._compaction_failed = True
            await self._write(
                ev.Noted(f"the conversation could not be summarised: {error.message}", "warning")
            )
            return False
        await self._write(
            ev.Compacted(*part, self._parts.redact(reply.text), reply.usage, reply.cost)
        )
        return True

    async def _stream_quietly(self, request: Request) -> Reply:
        reply: Reply | None = None
        async for chunk in self._parts.model.stream(request):
            if isinstance(chunk, Reply):
                reply = chunk
        if reply is None or not reply.text.strip():
            raise ModelError("garbage", "the model wrote no summary")
        return reply

    # limits and people

    async def _within_budget(self) -> bool:
        """Go on? A budget that is used up is extended by the user or ends the turn."""
        model = self._parts.model
        priced = model.facts.price_input is not None
        budget.refuse_unpriced(self._parts.settings, model.name, priced)
        while True:
            spent = 0.0
            if self._parts.settings.budgets.day_dollars is not None:
                spent = await self._spent_today()
            full = budget.reached(self._parts.settings, self.talk, spent)
            if full is None:
                return True
            if self.talk.budget is None:
                await self._write(full)
            if not self.talk.interactive:
                return False
            if not await self._extension(full):
                return False

    async def _spent_today(self) -> float:
        while True:
            try:
                return await self._parts.journal.spent(self._parts.clock() // DAY * DAY)
            except Degraded:
                await asyncio.sleep(RETRY_WRITE_SECONDS)

    async def _extension(self, full: ev.BudgetReached) -> bool:
        already = self.talk.extensions.get(full.what, 0)
        question = ev.Asked(
            id=f"{self.talk.session}-t{self.turn.id}-{full.what.replace(' ', '-')}-{already}",
            purpose="budget",
            text=f"{full.what}: {full.used:g} used of {full.limit:g}. Go on for as much again?",
            choices=("yes", "no"),
        )
        return await self.people.ask(question) == "yes"

    async def _unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(work)
        bell = asyncio.create_task(self._interrupted.wait())
        try:
            await asyncio.wait({task, bell}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Interrupted
        finally:
            bell.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    # writing

    async def _end(self, reason: ev.TurnEnd, error: HermesError | None = None) -> ev.TurnFinished:
        spent = self.talk.turn
        end = ev.TurnFinished(
            turn=self.turn.id,
            reason=reason,
            text=self.talk.last_text,
            error=self._parts.redact(error.message) if error else "",
            hint=error.hint if error else "",
            steps=spent.steps,
            usage=spent.usage,
            cost=spent.cost,
            seconds=round(spent.seconds, 3),
        )
        await self._write(end)
        return end

    async def _write(self, *events: ev.Event) -> None:
        """Write down and apply. An interrupt waits for this: what is in the journal and what is
        in memory never differ."""
        writing = asyncio.create_task(self._write_now(*events))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})
            raise

    async def _write_now(self, *events: ev.Event) -> None:
        for recorded in await self._keep_trying(self._parts.journal.append, self.turn, *events):
            self._note(recorded)

    async def _keep_trying(
        self, write: Callable[..., Awaitable[Sequence[ev.Recorded]]], *arguments: Any
    ) -> Sequence[ev.Recorded]:
        """A store that cannot keep anything now does not end a turn: what has happened is held
        until it can be written down, and nothing new is begun."""
        while True:
            try:
                return await write(*arguments)
            except Degraded as trouble:
                self._publish(ev.RuntimeChanged("degraded", trouble.message))
                await asyncio.sleep(RETRY_WRITE_SECONDS)

    def _note(self, recorded: ev.Recorded) -> None:
        self.talk.apply(recorded)
        self._parts.publish(recorded)

    def _publish(self, event: ev.Passing) -> None:
        self._parts.publish(ev.Recorded(self.talk.session, 0, self._parts.clock(), event))


def _lost_the_turn(error: Exception) -> bool:
    group = error if isinstance(error, ExceptionGroup) else ExceptionGroup("one", [error])
    return group.subgroup(Fenced) is not None


def as_told(error: Exception) -> HermesError:
    """What went wrong, for the user; a bug of ours is called one."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, HermesError):
        return error
    return HermesError(
        f"Hermes itself failed: {type(error).__name__}: {error}", "`hermes logs` shows where"
    )
