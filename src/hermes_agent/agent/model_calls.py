"""The model calls of a turn: within its budgets, journaled before and after."""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.agent.budgets import limits
from hermes_agent.agent.budgets.reservations import (
    Budget,
    BudgetExceeded,
    CostEstimate,
    Reservation,
    today,
)
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.journal_redaction import redact_call, redact_thoughts
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, ModelError
from hermes_agent.core.messages import (
    Delta,
    Effort,
    FailedAttemptUsage,
    ModelFacts,
    Reply,
    Request,
    RetryEvent,
    RoutingEvent,
    Thinking,
    Usage,
)
from hermes_agent.core.protocols import Model
from hermes_agent.core.records import ModelRole

log = logging.getLogger("hermes.models")

BUDGETED_OUTPUT = 16_000
"""Output tokens to reserve for one call under a budget, when no limit is set for the reply."""
RETRY_SECONDS = 1.0
SILENT_SECONDS = 2.0
WAITING = "waiting: calls in progress have reserved the rest of a budget"
CHARS_PER_TOKEN = 4
_NOTHING = Usage()
A = TypeVar("A")
T = TypeVar("T")


class ReservationExhausted(Exception):
    """Failed attempts used up so much that the reservation does not cover another."""


class PendingModelCall(Struct):
    use: ModelRole
    model: Model
    pieces: list[str] = []
    """The text received so far."""
    bytes: int = 0
    """Bytes of text and reasoning received in this attempt."""
    started: float = msgspec.field(default_factory=time.perf_counter)


@dataclass(eq=False, repr=False)
class ModelCaller:
    """Makes the model calls of one turn, one at a time: `reserve`, then the call. `write` appends
    events to the journal; `publish` only streams them. A cancelled call stays open until `abort` or
    `release`."""

    _deps: TurnDependencies
    _conversation: ConversationState
    _turn: int
    _write: Callable[..., Awaitable[None]]
    _publish: Callable[[ev.TransientEvent], None]
    _reservation: Reservation = field(default_factory=Reservation, init=False)
    _call: PendingModelCall | None = field(default=None, init=False)

    @property
    def main(self) -> Model:
        model = self._deps.route("main", self._conversation.model)
        assert model is not None
        if (runbook := self._conversation.runbook) is None:
            return model
        from hermes_agent.models.runbook import RunbookModel

        return RunbookModel(runbook[1], runbook[0], model if self._conversation.model else None)

    @property
    def effort(self) -> Effort | None:
        chosen = self._conversation.effort or self._deps.settings.models.reasoning_effort
        return msgspec.convert(chosen, Effort) if chosen else None

    # budgets

    async def reserve(self, model: Model, input: Callable[[str], int]) -> ev.BudgetReached | None:
        """Reserve the most that a call can cost, or return the budget it does not fit into.
        `input` gives the most input tokens for a model's name."""
        self.release()
        limits.refuse_unpriced(self._deps.settings, model)
        ways = [(facts, input(name)) for name, facts in model.ways.items()]
        wanted = min(model.facts.max_output, BUDGETED_OUTPUT)
        reservation = await self._reserve_or_warn(CostEstimate(ways, wanted))
        if not isinstance(reservation, BudgetExceeded):
            self._reservation = reservation
            return None
        account = reservation.account
        limit = account.limit / (1 + self._conversation.extensions.get(account.what, 0))
        return ev.BudgetReached(
            account.what, round(reservation.used, 6), limit, round(reservation.needed, 6)
        )

    async def _reserve_or_warn(self, estimate: CostEstimate) -> Reservation | BudgetExceeded:
        """Reserve; warn when that has to wait for other calls."""
        reserving = asyncio.create_task(self._deps.reservations.reserve(self.accounts(), estimate))
        try:
            await asyncio.wait({reserving}, timeout=SILENT_SECONDS)
            if not reserving.done():
                await self._write(ev.NoticeIssued(WAITING, "warning"))
            await asyncio.wait({reserving})
        except asyncio.CancelledError:
            reserving.cancel()
            await asyncio.wait({reserving})
            if not reserving.cancelled() and isinstance(
                reservation := reserving.result(), Reservation
            ):
                reservation.release()  # made at the moment of cancellation
            raise
        return reserving.result()

    def release(self) -> None:
        self._call = None
        self._reservation.release()
        self._reservation = Reservation()

    def accounts(self) -> list[Budget]:
        """The budgets of this turn."""
        return limits.accounts(
            self._deps.settings,
            self._conversation,
            self._turn,
            self._spent_here,
            self._spent_today,
        )

    async def _spent_here(self) -> tuple[float, int]:
        return await _retry_degraded(self._deps.journal.spent_by, self._conversation.session)

    async def _spent_today(self) -> float:
        return await _retry_degraded(self._deps.journal.spent, today(self._deps.clock()))

    async def _warn(self, usage: Usage, cost: float | None) -> None:
        """Warn when this call took a budget past one of its marks."""
        for account in self.accounts():
            after = await account.used()
            before = after - (usage.total if account.unit == "tokens" else cost or 0.0)
            share = self._deps.reservations.crossed_mark(account, before, after)
            if share is not None:
                await self._write(
                    ev.BudgetWarned(account.what, round(after, 6), account.limit, share)
                )

    # calls

    async def reply(self, model: Model) -> None:
        """Get the next reply of the conversation and journal it."""
        conversation, output = self._conversation, self._reservation.output
        step = conversation.turn.steps + 1
        request = Request(
            conversation.prompt,
            tuple(conversation.messages),
            conversation.session,
            output,
            self.effort,
        )
        async with self._in_progress(PendingModelCall("main", model)) as call:
            await self._requested(
                call, step, request, conversation.digest, conversation.context_tokens
            )
            reply = await self._stream(call, request)
            await self._write(self._replied(call, step, reply))
        if reply.stop == "length":
            limit = f" of {output} tokens" if output else ""
            await self._write(
                ev.NoticeIssued(f"the reply was cut off at its limit{limit}", "warning")
            )
        elif reply.stop == "end" and not (reply.text.strip() or reply.calls):
            await self._write(ev.NoticeIssued(f"{reply.model} gave an empty reply", "warning"))
        await self._warn(reply.usage, reply.cost)

    async def side_call(
        self,
        use: ModelRole,
        model: Model,
        request: Request,
        input: Callable[[str], int],
        events_for: Callable[[Reply], Sequence[ev.Event]],
        failed: str,
    ) -> bool:
        """Make a side call within the same budgets. `events_for` gives the events to journal for
        its reply, including the charge. False, with a notice, when it failed or no budget is
        left."""
        try:
            full = await self.reserve(model, input)
            if full is None:
                call = PendingModelCall(use, model)
                await self._run_side_call(call, request, input(model.name), events_for)
                return True
            notice = f"no budget left for {use}: {full.what}"
        except ReservationExhausted:
            notice = f"no budget left for {use}"
        except ModelError as error:
            notice = f"{failed}: {error.message}"
        await self._write(ev.NoticeIssued(notice, "warning"))
        return False

    async def _run_side_call(
        self,
        call: PendingModelCall,
        request: Request,
        input: int,
        events_for: Callable[[Reply], Sequence[ev.Event]],
    ) -> None:
        request = replace(request, max_output=self._reservation.output)
        async with self._in_progress(call):
            await self._requested(call, 0, request, digest_of(request), input // CHARS_PER_TOKEN)
            try:
                reply = await self._stream(call, request)
            except (ModelError, ReservationExhausted):
                await self._write(
                    ev.CostCharged(call.model.name, call.use, Usage(), 0.0, "it failed")
                )
                raise
            if not reply.text.strip():
                reason = "empty reply"
                await self._write(
                    ev.CostCharged(reply.model, call.use, reply.usage, reply.cost, reason)
                )
                raise ModelError("garbage", f"{call.model.name} gave an empty reply")
            await self._write(*events_for(reply))
        await self._warn(reply.usage, reply.cost)

    @asynccontextmanager
    async def _in_progress(self, call: PendingModelCall) -> AsyncIterator[PendingModelCall]:
        """What is set aside is given back when the payment is in the journal, not before."""
        self._call = call
        try:
            yield call
        except asyncio.CancelledError:
            raise  # whoever cancelled it says what becomes of it
        except BaseException:
            self.release()
            raise
        self.release()

    async def _requested(
        self, call: PendingModelCall, step: int, request: Request, digest: str, input: int
    ) -> None:
        reservation = self._reservation
        await self._write(
            ev.ModelRequested(
                step,
                call.model.name,
                len(request.messages),
                digest,
                call.use,
                reservation.input or input,
                reservation.dollars,
                reservation.output or 0,
                call.model.facts.context or 0,
            )
        )

    async def abort(self, *, keep: bool = True) -> None:
        """End a call before its reply is complete. With `keep`, the text that the user has seen is
        journaled. The request and that text are charged; under a dollar budget, so is the most that
        the call can have cost, because its reasoning and tool calls are unknown."""
        call, asked = self._call, self._conversation.asked
        if call is not None and asked is not None:
            model, text = call.model, "".join(call.pieces)
            if not keep:
                self._void_text(call, "it took too long")
            if text and keep:
                seen = Usage(self._conversation.context_tokens, call.bytes // CHARS_PER_TOKEN)
                reply = Reply(text, (), seen, "interrupted", model.name, model.facts.cost(seen))
                replied = self._replied(call, asked.step, reply)
                await self._charge_estimate(asked, "interrupted", seen, replied)
            else:
                await self._charge_estimate(asked, "interrupted")
        self.release()

    async def charge_lost_call(self) -> None:
        """Charge a call that was in progress when the last runtime died."""
        if self._conversation.asked is not None:
            await self._charge_estimate(
                self._conversation.asked, "the runtime died during this call"
            )

    async def _charge_estimate(
        self, asked: ev.ModelRequested, reason: str, seen: Usage = _NOTHING, *events: ev.Event
    ) -> None:
        """Charge a call of unknown cost: an estimate, or the maximum under a dollar budget, minus
        `seen`, which is counted with `events`."""
        model = self._deps.route("main", asked.model)
        facts = model.facts if model is not None else ModelFacts()
        rest = Usage(max(0, asked.input - seen.input), max(0, asked.output - seen.output))
        counted, cost = facts.cost(seen) or 0.0, facts.cost(rest)
        if asked.most is not None:
            cost = max(0.0, asked.most - counted)
            reason = f"{reason}: worst-case cost"
        if rest.total or cost:
            events = (*events, ev.CostCharged(asked.model, asked.use, rest, cost, reason))
        await self._write(*events)
        await self._warn(seen + rest, counted + (cost or 0.0))

    def _replied(self, call: PendingModelCall, step: int, reply: Reply) -> ev.Replied:
        return ev.Replied(
            step=step,
            text=self._deps.redact(reply.text),
            calls=tuple(redact_call(one, self._deps.redact) for one in reply.calls),
            usage=reply.usage,
            stop=reply.stop,
            model=reply.model or call.model.name,
            cost=reply.cost,
            seconds=round(time.perf_counter() - call.started, 6),
            thoughts=redact_thoughts(reply, self._deps.redact),
        )

    async def _stream(self, call: PendingModelCall, request: Request) -> Reply:
        """Stream one reply; only the main model's text is published."""
        stream, shown = call.model.stream(request), call.use == "main"
        try:
            async for chunk in stream:
                match chunk:
                    case Delta(text=text):
                        call.bytes += len(text.encode())
                        if shown:
                            call.pieces.append(text)
                            self._publish(ev.TextArrived(text))
                    case Thinking(text=text):
                        call.bytes += len(text.encode())
                        if shown:
                            self._publish(ev.ThoughtArrived(text))
                    case Reply() as reply:
                        return reply
                    case step:
                        await self._handle_event(call, step)
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()
        raise ModelError("broken_stream", f"{call.model.name} ended without a reply")

    async def _handle_event(
        self, call: PendingModelCall, step: RetryEvent | RoutingEvent | FailedAttemptUsage
    ) -> None:
        match step:
            case RetryEvent():
                self._void_text(call, step.reason)
                reason = self._deps.redact.known(step.reason)
                await self._write(ev.ModelRetried(step.kind, reason, step.attempt, step.delay))
            case RoutingEvent():
                await self._rerouted(call, step)
            case FailedAttemptUsage():
                await self._charge_failed_attempt(call, step)

    async def _charge_failed_attempt(
        self, call: PendingModelCall, attempt: FailedAttemptUsage
    ) -> None:
        usage, cost, reason = attempt.usage, attempt.cost, "an attempt failed"
        if attempt.most is not None and self._reservation.dollars is not None:
            usage, reason = attempt.most, f"{reason}: worst-case cost"
            cost = call.model.ways[attempt.model].most(usage.input, usage.output)
        if not usage.total:
            return  # the cost is unknown, and no budget depends on it
        await self._write(ev.CostCharged(attempt.model, call.use, usage, cost, reason, again=True))
        call.bytes = 0  # counted with this
        await self._warn(usage, cost)
        if not await self._deps.reservations.still_covers(self._reservation):
            raise ReservationExhausted

    async def _rerouted(self, call: PendingModelCall, step: RoutingEvent) -> None:
        if step.step in ("key", "model"):
            self._void_text(call, step.reason)
        reason = self._deps.redact.known(step.reason)
        log.warning(
            "%s: %s %s %s (%s)", self._conversation.session, step.step, step.model, step.to, reason
        )
        await self._write(ev.ModelRouted(step.step, step.model, step.to, step.kind, reason))

    def _void_text(self, call: PendingModelCall, reason: str) -> None:
        if call.pieces:
            self._publish(ev.TextVoided(reason))
            call.pieces.clear()


async def _retry_degraded(read: Callable[[A], Awaitable[T]], what: A) -> T:
    """Retry a read while the store is degraded."""
    while True:
        try:
            return await read(what)
        except Degraded:
            await asyncio.sleep(RETRY_SECONDS)


def digest_of(request: Request) -> str:
    digest = hashlib.sha256(msgspec.json.encode(request.prompt))
    for message in request.messages:
        digest.update(msgspec.json.encode(message))
    return digest.hexdigest()
