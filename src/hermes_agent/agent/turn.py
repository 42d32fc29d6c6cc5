"""One turn: call the model, run its tool calls, repeat until it is done."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from hermes_agent.agent import compaction, vision
from hermes_agent.agent.budgets import limits
from hermes_agent.agent.budgets.reservations import split_for_children
from hermes_agent.agent.conversation import ConversationState, max_tokens
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.human_input import HumanInput
from hermes_agent.agent.model_calls import ModelCaller, ReservationExhausted
from hermes_agent.agent.tools.executor import ToolExecutor, waiting_notice
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, Fenced, HermesError, ModelError, ModelTrouble
from hermes_agent.core.messages import Reply, UserMessage
from hermes_agent.core.protocols import Model
from hermes_agent.core.records import Turn

log = logging.getLogger("hermes.turn")

T = TypeVar("T")

INSTRUCTION_TOKENS = 500
"""An upper bound for the summary instruction."""
RETRY_WRITE_SECONDS = 1.0
RETRY_MODEL_SECONDS = 2.0
MAX_WAIT_SECONDS = 60.0
WAITED_FOR: frozenset[ModelTrouble] = frozenset({"auth", "unreachable", "timeout"})
"""Trouble with the model that a resumed turn waits out: no key, or no network."""
INTERRUPT_WRITE_SECONDS = 1.0
"""How long an interrupt waits for the disk before it takes effect."""


class Interrupted(Exception):
    """The user interrupted the turn."""


class TurnWorker:
    """Runs one turn to its end. Each step is journaled first, so another worker can resume it
    at any point."""

    def __init__(self, deps: TurnDependencies, turn: Turn, conversation: ConversationState) -> None:
        self.conversation = conversation
        self.turn = turn
        self._deps = deps
        timeout_seconds = deps.settings.approvals.timeout_seconds
        self.human_input = HumanInput(conversation, self._write, deps.clock, timeout_seconds)
        self._caller = ModelCaller(deps, conversation, turn.id, self._write, self._publish)
        split = split_for_children(deps.reservations, self._caller.accounts)
        self._calls = ToolExecutor(deps, conversation, self.human_input, self._write, split)
        self._interrupted = asyncio.Event()
        self._noted = deps.ticks()
        self._compaction_failed = False
        self._description_failed = False
        self._stop_error: HermesError | None = None
        self._waits_for = ""
        self._wait_seconds = RETRY_MODEL_SECONDS

    async def add(self, *events: ev.Event) -> None:
        """Journal events from outside the turn, such as a chosen model or a title."""
        await self._write(*events)

    async def interrupt(self, by: str = "") -> bool:
        """Journal the request, then stop; False when the turn is already over. Journaled first:
        a subagent must not hear of an interrupt that its parent would forget in a crash. A slow
        disk delays it only briefly."""
        writing = asyncio.ensure_future(self._write(ev.InterruptAsked(self.turn.id, by)))
        await asyncio.wait((writing,), timeout=INTERRUPT_WRITE_SECONDS)
        self._interrupted.set()
        try:
            await writing
        except Fenced:
            return self.conversation.interrupted
        return True

    def close(self) -> None:
        """Start no more effects whose outcome would be unknown if the process ended."""
        self._calls.closing = True

    @property
    def must_not_be_dropped(self) -> bool:
        """Whether an effect runs whose outcome would be unknown if the process ended now."""
        return bool(self._calls.unrecoverable)

    async def run(self) -> ev.TurnFinished | None:
        """Return the end of the turn; None when another runtime has taken it over."""
        try:
            return await self._run()
        except* Fenced:
            log.warning("turn %s was taken by another runtime; leaving it alone", self.turn.id)
        finally:
            self._caller.release()
        return None

    async def _run(self) -> ev.TurnFinished:
        if self.turn.resumed:
            left = sum(call.intended is not None for call in self.conversation.unfinished)
            await self._write(ev.TurnResumed(self.turn.id, self.turn.fence, left))
            await self._caller.charge_lost_call()
        elif (trouble := self._deps.trouble) is not None:
            notice = f"{trouble.message}\nhint: {trouble.hint}"
            await self._write(ev.NoticeIssued(notice, "warning"))
        if self.conversation.interrupted:
            self._interrupted.set()
        try:
            reason: ev.TurnEnd = await self._steps()
            return await self._end(reason, self._stop_error)
        except Interrupted:
            await self._caller.abort()
            await self._calls.abandon("the user interrupted", park=False)
            return await self._end("interrupted")
        except ModelError as error:
            return await self._end("failed", error)
        except Exception as error:
            if _is_fenced(error):
                raise
            log.exception("turn %s failed", self.turn.id)
            await self._calls.abandon("the turn broke", park=True)
            return await self._end("failed", user_error(error))

    async def _steps(self) -> ev.TurnEnd:
        while True:
            if self.conversation.calls:
                await self._unless_interrupted(self._calls.settle())
            if (stuck := self.conversation.stuck) is not None:
                self._stop_error = stuck
                return "failed"
            for recorded in await self._retry_write(
                self._deps.journal.take_queued_messages, self.turn
            ):
                self._note(recorded)
            if self.conversation.answered:
                return "done"
            await self._unless_interrupted(self._describe())
            if compaction.due(
                self.conversation, self._deps.settings.loop, self._caller.main.facts.context
            ):
                await self._unless_interrupted(self._compact())
            if not await self._ask_model():
                return "budget"

    # the model

    async def _ask_model(self) -> bool:
        """Get the next reply; False when no budget is left for it."""
        trouble: ModelError | None = None
        while True:
            model = await self._unless_interrupted(self._within_budget())
            if model is None:
                return False
            try:
                async with asyncio.timeout(self._seconds_left()):
                    await self._unless_interrupted(self._caller.reply(model))
                return True
            except ReservationExhausted:
                continue  # with the remaining budget, if it is enough
            except TimeoutError:
                await self._caller.abort(keep=False)
                continue  # the turn's time is used up: ask for an extension
            except ModelError as error:
                if self.turn.resumed and error.kind in WAITED_FOR:
                    await self._wait_for_model(error)
                    continue
                # The context window is smaller than expected: compact once and retry.
                if error.kind != "context_too_long" or trouble is not None:
                    raise
                trouble = error
            if not await self._unless_interrupted(self._compact()):
                raise trouble

    async def _wait_for_model(self, trouble: ModelError) -> None:
        """Wait, longer each time, for a key or a connection that the turn had when it began."""
        if trouble.message != self._waits_for:
            self._waits_for, self._wait_seconds = trouble.message, RETRY_MODEL_SECONDS
            await self._write(waiting_notice(trouble))
        await self._unless_interrupted(asyncio.sleep(self._wait_seconds))
        self._wait_seconds = min(2 * self._wait_seconds, MAX_WAIT_SECONDS)

    def _seconds_left(self) -> float | None:
        """The rest of the turn's time budget."""
        limit = self._deps.settings.budgets.turn_seconds
        if limit is None:
            return None
        extended = limit * (1 + self.conversation.extensions.get("seconds of this turn", 0))
        return max(0.0, extended - self.conversation.turn.seconds)

    async def _compact(self) -> bool:
        """Summarise the middle of the conversation; False when that gains nothing or fails."""
        model = self._deps.route("compaction", self.conversation.model)
        window = self._caller.main.facts.context
        part = compaction.middle(self.conversation, self._deps.settings.loop, window)
        if part is None or model is None or self._compaction_failed:
            return False

        def events_for(reply: Reply) -> list[ev.Event]:
            summary = self._deps.redact(reply.text)
            return [ev.Compacted(*part, summary, reply.usage, reply.cost, reply.model)]

        def input(name: str) -> int:
            return self.conversation.max_tokens(name) + INSTRUCTION_TOKENS

        request = compaction.summary_request(self.conversation, part[1])
        failed = "cannot summarise the conversation"
        done = await self._caller.side_call("compaction", model, request, input, events_for, failed)
        self._compaction_failed = not done
        return done

    async def _describe(self) -> None:
        """Have a vision model describe images for a main model that cannot see."""
        model = self._deps.route("vision", self.conversation.model)
        if model is None or self._caller.main.facts.sees:
            return
        for position, message in enumerate(self.conversation.messages):
            if self._description_failed:
                return
            if isinstance(message, UserMessage) and any(f.is_image for f in message.files):
                await self._describe_one(model, position, message)

    async def _describe_one(self, model: Model, position: int, message: UserMessage) -> None:
        def events_for(reply: Reply) -> list[ev.Event]:
            words = vision.words(message, self._deps.redact(reply.text), reply.model)
            return [
                ev.CostCharged(reply.model, "vision", reply.usage, reply.cost),
                ev.ImageDescribed(position, words, reply.model),
            ]

        request = vision.request(message, self.conversation.session)
        most = max_tokens(request)
        self._description_failed = not await self._caller.side_call(
            "vision", model, request, lambda _: most, events_for, "cannot describe the images"
        )

    # budgets and interrupts

    async def _within_budget(self) -> Model | None:
        """Reserve the budget for the next call and return its model. When a limit is reached, the
        user may extend it; otherwise None: the turn pauses, and the next message continues."""
        while True:
            model = self._caller.main
            full = limits.reached(self._deps.settings, self.conversation)
            if full is None:
                full = await self._caller.reserve(model, self.conversation.max_tokens)
            if full is None:
                if self._caller.main.name == model.name:
                    return model
                continue  # the user chose another model meanwhile
            if self.conversation.budget is None or self.conversation.budget.what != full.what:
                await self._write(full)
            # A job's budget was fixed when it was created; the limits of the loop were not.
            asks = self.conversation.interactive and (
                self._deps.actor.kind != "job" or limits.is_of_loop(full.what)
            )
            if not asks or not full.limit or not await self._extension(full):
                hint = limits.hint(full.what)
                if self._deps.actor.kind == "user":
                    resume = f"`hermes sessions resume {self.conversation.session}` continues"
                    hint = f"{resume}; {hint} raises the limit"
                self._stop_error = HermesError(limits.describe(full), hint)
                return None

    async def _extension(self, full: ev.BudgetReached) -> bool:
        already = self.conversation.extensions.get(full.what, 0)
        question = ev.QuestionAsked(
            id=f"{self.conversation.session}-t{self.turn.id}-"
            f"{full.what.replace(' ', '-')}-{already}",
            purpose="budget",
            text=limits.question(full, already),
            choices=("yes", "no"),
        )
        return await self.human_input.ask(question) == "yes"

    async def _unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(work)
        interrupted = asyncio.create_task(self._interrupted.wait())
        try:
            await asyncio.wait({task, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Interrupted
        finally:
            interrupted.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    # writing

    async def _end(self, reason: ev.TurnEnd, error: HermesError | None = None) -> ev.TurnFinished:
        spent = self.conversation.turn
        end = ev.TurnFinished(
            turn=self.turn.id,
            reason=reason,
            text=self.conversation.last_text,
            error=self._deps.redact(error.message) if error else "",
            hint=self._deps.redact.known(error.hint) if error else "",
            steps=spent.steps,
            usage=spent.usage,
            cost=spent.cost,
            seconds=round(spent.seconds, 3),
        )
        await self._write(end)
        return end

    async def _write(self, *events: ev.Event) -> None:
        """Journal and apply events. Cancellation waits for this, so that the journal and memory
        never differ."""
        writing = asyncio.create_task(self._write_now(*events))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})
            raise

    async def _write_now(self, *events: ev.Event) -> None:
        for recorded in await self._retry_write(self._deps.journal.append, self.turn, *events):
            self._note(recorded)

    async def _retry_write(
        self, write: Callable[..., Awaitable[Sequence[ev.Recorded]]], *arguments: Any
    ) -> Sequence[ev.Recorded]:
        """Retry while the store is degraded: the turn waits and starts nothing new."""
        while True:
            try:
                return await write(*arguments)
            except Degraded as trouble:
                self._publish(ev.RuntimeChanged("degraded", trouble.message))
                await asyncio.sleep(RETRY_WRITE_SECONDS)

    def _note(self, recorded: ev.Recorded) -> None:
        before, self._noted = self._noted, self._deps.ticks()
        self.conversation.apply(recorded, self._noted - before)
        self._deps.publish(recorded)

    def _publish(self, event: ev.TransientEvent) -> None:
        self._deps.publish(ev.Recorded(self.conversation.session, 0, self._deps.clock(), event))


def _is_fenced(error: Exception) -> bool:
    group = error if isinstance(error, ExceptionGroup) else ExceptionGroup("one", [error])
    return group.subgroup(Fenced) is not None


def user_error(error: Exception) -> HermesError:
    """The error as the user sees it; anything unexpected is an internal error."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, HermesError):
        return error
    return HermesError(
        f"internal error: {type(error).__name__}: {error}", "`hermes logs` has the details"
    )
