"""The model calls of a turn: within the budgets, written down before and after, whoever answers."""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from hermes_agent.agent.budgets import limits
from hermes_agent.agent.budgets.reservations import (
    Budget,
    BudgetExceeded,
    CostEstimate,
    Reservation,
)
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.journal_redaction import call_to_keep, thoughts_to_keep
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
"""Tokens of output that are set aside for one call, where a budget must hold and nobody has said
how long the reply may be."""
RETRY_SECONDS = 1.0
SILENT_SECONDS = 2.0
WAITS = "waiting: calls in progress have reserved the rest of a budget"
CHARS_PER_TOKEN = 4
_NOTHING = Usage()
A = TypeVar("A")
T = TypeVar("T")


class ReservationExhausted(Exception):
    """Tries that failed were not free, and what is left does not cover another."""


@dataclass
class PendingModelCall:
    """A call under way."""

    use: ModelRole
    model: Model
    pieces: list[str] = field(default_factory=list)
    """What has arrived of the text."""
    bytes: int = 0
    """What has arrived of anything, in this try."""
    started: float = field(default_factory=time.perf_counter)


class ModelCaller:
    """Makes the model calls of one turn, one at a time: `reserve`, then the call. `write` appends
    events to the journal; `tell` only streams them. A cancelled call stays open until `abort` or
    `release`."""

    def __init__(
        self,
        parts: TurnDependencies,
        conversation: ConversationState,
        turn: int,
        write: Callable[..., Awaitable[None]],
        tell: Callable[[ev.TransientEvent], None],
    ) -> None:
        self._parts = parts
        self._conversation = conversation
        self._turn = turn
        self._write = write
        self._tell = tell
        self._held = Reservation()
        self._call: PendingModelCall | None = None

    @property
    def main(self) -> Model:
        model = self._parts.route("main", self._conversation.model)
        assert model is not None
        if (runbook := self._conversation.runbook) is None:
            return model
        from hermes_agent.models.runbook import RunbookModel

        return RunbookModel(runbook[1], runbook[0], model if self._conversation.model else None)

    @property
    def effort(self) -> Effort | None:
        chosen = self._conversation.effort or self._parts.settings.models.reasoning_effort
        return msgspec.convert(chosen, Effort) if chosen else None

    # budgets

    async def reserve(self, model: Model, input: Callable[[str], int]) -> ev.BudgetReached | None:
        """Set aside the most that a call can come to, or say which budget it does not fit in.
        `input` is the most tokens that the model of a name can find in it."""
        self.release()
        limits.refuse_unpriced(self._parts.settings, model)
        ways = [(facts, input(name)) for name, facts in model.ways.items()]
        wanted = min(model.facts.max_output, BUDGETED_OUTPUT)
        held = await self._hold(CostEstimate(ways, wanted))
        if not isinstance(held, BudgetExceeded):
            self._held = held
            return None
        account = held.account
        limit = account.limit / (1 + self._conversation.extensions.get(account.what, 0))
        return ev.BudgetReached(account.what, round(held.used, 6), limit, round(held.needed, 6))

    async def _hold(self, estimate: CostEstimate) -> Reservation | BudgetExceeded:
        """Never wait for others in silence."""
        holding = asyncio.create_task(self._parts.reservations.reserve(self.accounts(), estimate))
        try:
            await asyncio.wait({holding}, timeout=SILENT_SECONDS)
            if not holding.done():
                await self._write(ev.NoticeIssued(WAITS, "warning"))
            await asyncio.wait({holding})
        except asyncio.CancelledError:
            holding.cancel()
            await asyncio.wait({holding})
            if not holding.cancelled() and isinstance(held := holding.result(), Reservation):
                held.release()  # it was had in the same moment
            raise
        return holding.result()

    def release(self) -> None:
        """Give back what was set aside."""
        self._call = None
        self._held.release()
        self._held = Reservation()

    def accounts(self) -> list[Budget]:
        """The budgets that this turn draws on."""
        return limits.accounts(
            self._parts.settings,
            self._conversation,
            self._turn,
            self._spent_here,
            self._spent_today,
        )

    async def _spent_here(self) -> tuple[float, int]:
        return await _patiently(self._parts.journal.spent_by, self._conversation.session)

    async def _spent_today(self) -> float:
        return await _patiently(self._parts.journal.spent, limits.today(self._parts.clock()))

    async def _warn(self, usage: Usage, cost: float | None) -> None:
        """Say it when this call took a budget past one of the marks."""
        for account in self.accounts():
            after = await account.used()
            before = after - (usage.total if account.unit == "tokens" else cost or 0.0)
            share = self._parts.reservations.passed(account, before, after)
            if share is not None:
                await self._write(
                    ev.BudgetWarned(account.what, round(after, 6), account.limit, share)
                )

    # calls

    async def reply(self, model: Model) -> None:
        """The next reply of the conversation, in the journal."""
        conversation, output = self._conversation, self._held.output
        step = conversation.turn.steps + 1
        request = Request(
            conversation.prompt,
            tuple(conversation.messages),
            conversation.session,
            output,
            self.effort,
        )
        async with self._under_way(PendingModelCall("main", model)) as call:
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
        kept: Callable[[Reply], Sequence[ev.Event]],
    ) -> bool:
        """A call on the side, paid for by the same budgets. `kept` is what the journal keeps of
        its reply, the payment among it. False when no budget is left for it, which is noted."""
        full = await self.reserve(model, input)
        try:
            if full is None:
                await self._aside(PendingModelCall(use, model), request, input(model.name), kept)
                return True
        except ReservationExhausted:
            pass
        why = f": {full.what}" if full is not None else ""
        await self._write(ev.NoticeIssued(f"no budget left for {use}{why}", "warning"))
        return False

    async def _aside(
        self,
        call: PendingModelCall,
        request: Request,
        input: int,
        kept: Callable[[Reply], Sequence[ev.Event]],
    ) -> None:
        request = replace(request, max_output=self._held.output)
        async with self._under_way(call):
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
            await self._write(*kept(reply))
        await self._warn(reply.usage, reply.cost)

    @asynccontextmanager
    async def _under_way(self, call: PendingModelCall) -> AsyncIterator[PendingModelCall]:
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
        held = self._held
        await self._write(
            ev.ModelRequested(
                step,
                call.model.name,
                len(request.messages),
                digest,
                call.use,
                held.input or input,
                held.dollars,
                held.output or 0,
            )
        )

    async def abort(self, *, keep: bool = True) -> None:
        """The call was ended before its reply was whole. What the user has read so far is kept
        where it is to stand, and both that and the question are paid for. Where a budget depends
        on it, so is all that the call can have cost: its reasoning and the arguments of its calls
        nobody has seen."""
        call, asked = self._call, self._conversation.asked
        if call is not None and asked is not None:
            model, text = call.model, "".join(call.pieces)
            if not keep:
                self._void(call, "it took too long")
            if text and keep:
                seen = Usage(self._conversation.context_tokens, call.bytes // CHARS_PER_TOKEN)
                reply = Reply(text, (), seen, "interrupted", model.name, model.facts.cost(seen))
                replied = self._replied(call, asked.step, reply)
                await self._owe(asked, "interrupted", seen, replied)
            else:
                await self._owe(asked, "interrupted")
        self.release()

    async def charge_lost_call(self) -> None:
        """The last runtime died while a call was under way."""
        if self._conversation.asked is not None:
            await self._owe(self._conversation.asked, "the runtime died during this call")

    async def _owe(
        self, asked: ev.ModelRequested, reason: str, seen: Usage = _NOTHING, *events: ev.Event
    ) -> None:
        """Count a call that nobody knows the cost of: an estimate, or the most where a budget
        depends on it, less what was seen and is counted with the `events`."""
        model = self._parts.route("main", asked.model)
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
            text=self._parts.redact(reply.text),
            calls=tuple(call_to_keep(one, self._parts.redact) for one in reply.calls),
            usage=reply.usage,
            stop=reply.stop,
            model=reply.model or call.model.name,
            cost=reply.cost,
            seconds=round(time.perf_counter() - call.started, 6),
            thoughts=thoughts_to_keep(reply, self._parts.redact),
        )

    async def _stream(self, call: PendingModelCall, request: Request) -> Reply:
        """One answer; only pieces of the conversation's own are shown."""
        stream, shown = call.model.stream(request), call.use == "main"
        try:
            async for chunk in stream:
                match chunk:
                    case Delta(text=text):
                        call.bytes += len(text.encode())
                        if shown:
                            call.pieces.append(text)
                            self._tell(ev.TextArrived(text))
                    case Thinking(text=text):
                        call.bytes += len(text.encode())
                        if shown:
                            self._tell(ev.ThoughtArrived(text))
                    case Reply() as reply:
                        return reply
                    case step:
                        await self._on_the_way(call, step)
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()
        raise ModelError("broken_stream", f"{call.model.name} ended without a reply")

    async def _on_the_way(
        self, call: PendingModelCall, step: RetryEvent | RoutingEvent | FailedAttemptUsage
    ) -> None:
        match step:
            case RetryEvent():
                self._void(call, step.reason)
                reason = self._parts.redact.known(step.reason)
                await self._write(ev.ModelRetried(step.kind, reason, step.attempt, step.delay))
            case RoutingEvent():
                await self._rerouted(call, step)
            case FailedAttemptUsage():
                await self._wasted(call, step)

    async def _wasted(self, call: PendingModelCall, wasted: FailedAttemptUsage) -> None:
        usage, cost, reason = wasted.usage, wasted.cost, "a try failed"
        if wasted.most is not None and self._held.dollars is not None:
            usage, reason = wasted.most, f"{reason}: worst-case cost"
            cost = call.model.ways[wasted.model].most(usage.input, usage.output)
        if not usage.total:
            return  # it may have cost something, and no budget depends on it
        await self._write(ev.CostCharged(wasted.model, call.use, usage, cost, reason, again=True))
        call.bytes = 0  # counted with this
        await self._warn(usage, cost)
        if not await self._parts.reservations.covers(self._held):
            raise ReservationExhausted

    async def _rerouted(self, call: PendingModelCall, step: RoutingEvent) -> None:
        if step.step in ("key", "model"):
            self._void(call, step.reason)
        reason = self._parts.redact.known(step.reason)
        log.warning(
            "%s: %s %s %s (%s)", self._conversation.session, step.step, step.model, step.to, reason
        )
        await self._write(ev.ModelRouted(step.step, step.model, step.to, step.kind, reason))

    def _void(self, call: PendingModelCall, reason: str) -> None:
        if call.pieces:
            self._tell(ev.TextVoided(reason))
            call.pieces.clear()


async def _patiently(read: Callable[[A], Awaitable[T]], what: A) -> T:
    """What the store knows, as soon as it can be read."""
    while True:
        try:
            return await read(what)
        except Degraded:
            await asyncio.sleep(RETRY_SECONDS)


def digest_of(request: Request) -> str:
    """The hash of the prompt and the messages of a request."""
    digest = hashlib.sha256(msgspec.json.encode(request.prompt))
    for message in request.messages:
        digest.update(msgspec.json.encode(message))
    return digest.hexdigest()
