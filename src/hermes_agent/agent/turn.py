"""One turn: ask the model, settle its calls, until it has nothing more to do."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from hermes_agent.agent import compaction, vision
from hermes_agent.agent.budgets import limits
from hermes_agent.agent.budgets.split import split_for_children
from hermes_agent.agent.conversation import ConversationState, most_tokens
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.human_input import HumanInput
from hermes_agent.agent.model_calls import ModelCaller, ReservationExhausted
from hermes_agent.agent.tools.executor import ToolExecutor
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, Fenced, HermesError, ModelError
from hermes_agent.core.messages import Reply, UserMessage
from hermes_agent.core.protocols import Model
from hermes_agent.core.records import Turn

log = logging.getLogger("hermes.turn")

T = TypeVar("T")

INSTRUCTION_TOKENS = 500
"""More than the words that ask for a summary can have."""
RETRY_WRITE_SECONDS = 1.0
"""How long to wait before trying again to write what the store could not keep."""
WRITTEN_WITHIN = 1.0
"""Seconds that an interrupt waits for the disk before it takes effect."""


class Interrupted(Exception):
    """The user wants the turn to stop at once."""


class TurnWorker:
    """Works one turn to its end. Everything it does is in the journal first, so another worker
    can go on from any point."""

    def __init__(
        self, parts: TurnDependencies, turn: Turn, conversation: ConversationState
    ) -> None:
        self.conversation = conversation
        self.turn = turn
        self._parts = parts
        patience = parts.settings.approvals.timeout_seconds
        self.people = HumanInput(conversation, self._write, parts.clock, patience)
        self._caller = ModelCaller(parts, conversation, turn.id, self._write, self._publish)
        split = split_for_children(parts.reservations, self._caller.accounts)
        self._calls = ToolExecutor(parts, conversation, self.people, self._write, split)
        self._interrupted = asyncio.Event()
        self._compaction_failed = False
        self._description_failed = False
        self._why_not_more: HermesError | None = None

    async def add(self, *events: ev.Event) -> None:
        """Write down what comes from outside: another model was chosen, a title was found."""
        await self._write(*events)

    async def interrupt(self, by: str = "") -> bool:
        """Write down that this was asked for, and stop. False when it is over already. Written
        first, because stopping tells children: none may know of it that a death lets its parent
        forget. A disk that takes long does not keep it from stopping."""
        writing = asyncio.ensure_future(self._write(ev.InterruptAsked(self.turn.id, by)))
        await asyncio.wait((writing,), timeout=WRITTEN_WITHIN)
        self._interrupted.set()
        try:
            await writing
        except Fenced:
            return self.conversation.interrupted
        return True

    def close(self) -> None:
        """The process is about to end: begin nothing that would leave doubt."""
        self._calls.closing = True

    @property
    def must_not_be_dropped(self) -> bool:
        """An effect is under way whose outcome would be unknown if the process ended now."""
        return bool(self._calls.unrecoverable)

    async def run(self) -> ev.TurnFinished | None:
        """The end of the turn; None when another runtime has taken it."""
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
        if self.conversation.interrupted:
            self._interrupted.set()
        try:
            reason: ev.TurnEnd = await self._steps()
            return await self._end(reason, self._why_not_more)
        except Interrupted:
            await self._caller.abort()
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
            if self.conversation.calls:
                await self._unless_interrupted(self._calls.settle())
            if (stuck := self.conversation.stuck) is not None:
                self._why_not_more = stuck
                return "failed"
            for recorded in await self._keep_trying(
                self._parts.journal.take_queued_messages, self.turn
            ):
                self._note(recorded)
            if self.conversation.answered:
                return "done"
            await self._unless_interrupted(self._describe())
            if compaction.due(
                self.conversation, self._parts.settings.loop, self._caller.main.facts.context
            ):
                await self._unless_interrupted(self._compact())
            if not await self._ask_model():
                return "budget"

    # the model

    async def _ask_model(self) -> bool:
        """The next reply; False when no budget is left for it."""
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
                continue  # with what is left, if that is enough
            except TimeoutError:
                await self._caller.abort(keep=False)
                continue  # the time that it may take is over: people are asked
            except ModelError as error:
                # A window that is smaller than we believed: make room once and try again.
                if error.kind != "context_too_long" or trouble is not None:
                    raise
                trouble = error
            if not await self._unless_interrupted(self._compact()):
                raise trouble

    def _seconds_left(self) -> float | None:
        """What is left of the time that this turn may take."""
        limit = self._parts.settings.budgets.turn_seconds
        if limit is None:
            return None
        extended = limit * (1 + self.conversation.extensions.get("seconds of this turn", 0))
        return max(0.0, extended - self.conversation.turn.seconds)

    async def _compact(self) -> bool:
        """Summarise the middle; False when that gains nothing or the summary failed."""
        model = self._parts.route("compaction", self.conversation.model)
        window = self._caller.main.facts.context
        part = compaction.middle(self.conversation, self._parts.settings.loop, window)
        if part is None or model is None or self._compaction_failed:
            return False

        def kept(reply: Reply) -> list[ev.Event]:
            summary = self._parts.redact(reply.text)
            return [ev.Compacted(*part, summary, reply.usage, reply.cost, reply.model)]

        def input(name: str) -> int:
            return self.conversation.most_tokens(name) + INSTRUCTION_TOKENS

        request = compaction.summary_request(self.conversation, part[1])
        try:
            done = await self._caller.side_call("compaction", model, request, input, kept)
        except ModelError as error:
            done = False
            await self._write(
                ev.NoticeIssued(f"cannot summarise the conversation: {error.message}", "warning")
            )
        self._compaction_failed = not done
        return done

    async def _describe(self) -> None:
        """Images for a model that cannot see are put into words by one that can."""
        model = self._parts.route("vision", self.conversation.model)
        if model is None or self._caller.main.facts.sees:
            return
        for position, message in enumerate(self.conversation.messages):
            if self._description_failed:
                return
            if isinstance(message, UserMessage) and any(f.is_image for f in message.files):
                await self._describe_one(model, position, message)

    async def _describe_one(self, model: Model, position: int, message: UserMessage) -> None:
        def kept(reply: Reply) -> list[ev.Event]:
            words = vision.words(message, self._parts.redact(reply.text), reply.model)
            return [
                ev.CostCharged(reply.model, "vision", reply.usage, reply.cost),
                ev.ImageDescribed(position, words, reply.model),
            ]

        request = vision.request(message, self.conversation.session)
        most = most_tokens(request)
        try:
            done = await self._caller.side_call("vision", model, request, lambda _: most, kept)
        except ModelError as error:
            done = False
            await self._write(
                ev.NoticeIssued(f"cannot describe the images: {error.message}", "warning")
            )
        self._description_failed = not done

    # limits and people

    async def _within_budget(self) -> Model | None:
        """The model that is asked next, with enough set aside for its reply. A budget that is
        used up is extended by the user, or there is no next call."""
        while True:
            model = self._caller.main
            full = limits.reached(self._parts.settings, self.conversation)
            if full is None:
                full = await self._caller.reserve(model, self.conversation.most_tokens)
            if full is None:
                if self._caller.main.name == model.name:
                    return model
                continue  # another one was chosen while we waited
            if self.conversation.budget is None or self.conversation.budget.what != full.what:
                await self._write(full)
            # What a run of a job may spend was said when the job was made.
            asks = self.conversation.interactive and self._parts.actor.kind != "job"
            if not asks or not full.limit or not await self._extension(full):
                self._why_not_more = HermesError(limits.said(full), limits.hint(full.what))
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
        spent = self.conversation.turn
        end = ev.TurnFinished(
            turn=self.turn.id,
            reason=reason,
            text=self.conversation.last_text,
            error=self._parts.redact(error.message) if error else "",
            hint=self._parts.redact.known(error.hint) if error else "",
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
        self.conversation.apply(recorded)
        self._parts.publish(recorded)

    def _publish(self, event: ev.TransientEvent) -> None:
        self._parts.publish(ev.Recorded(self.conversation.session, 0, self._parts.clock(), event))


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
        f"internal error: {type(error).__name__}: {error}", "`hermes logs` has the details"
    )
