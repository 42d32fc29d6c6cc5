"""Choosing models: for a session that goes on, for a try, and for its title."""

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.agent import titles
from hermes_agent.agent.budgets import limits
from hermes_agent.agent.budgets.reservations import (
    Budget,
    BudgetExceeded,
    BudgetReservations,
    CostEstimate,
    Reservation,
)
from hermes_agent.agent.conversation import most_tokens
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, ModelError, NotFound, OverBudget, UsageError
from hermes_agent.core.jobs import JOBS
from hermes_agent.core.messages import (
    EFFORTS,
    Chunk,
    Delta,
    FailedAttemptUsage,
    Prompt,
    Reply,
    Request,
    RetryEvent,
    RoutingEvent,
    Thinking,
    Usage,
    UserMessage,
)
from hermes_agent.core.protocols import Clock, Model
from hermes_agent.core.records import ModelRole, Session
from hermes_agent.core.settings.root import Settings
from hermes_agent.models.registry import ModelRegistry
from hermes_agent.runtime.models.roles import ModelRoles
from hermes_agent.runtime.turns.scheduler import TurnScheduler
from hermes_agent.store.store import Store

log = logging.getLogger("hermes.models")

WARM_SECONDS = 300.0
"""How long services keep what they have read, at least."""
WARM_TOKENS = 1_024
"""Less than this is in no service's cache."""

TRY = Request(Prompt("Answer with one word."), (UserMessage("Say OK."),), max_output=256)

Paid = FailedAttemptUsage | Reply
"""What of an answer has its price."""


def check_effort(effort: str) -> str:
    if effort and effort not in EFFORTS:
        steps = ", ".join(EFFORTS)
        raise UsageError(f"no reasoning effort is called {effort!r}", f"one of {steps}")
    return effort


class ModelSwitch(Struct, frozen=True):
    model: str
    effort: str
    switched: bool
    warning: str = ""
    """What the switch costs; it is not made until somebody says so."""


class ModelProbe(Struct, frozen=True):
    """A round trip to a model."""

    model: str
    ok: bool
    text: str = ""
    first_seconds: float | None = None
    """Until the first piece of the answer."""
    seconds: float = 0.0
    usage: Usage = Usage()
    cost: float | None = None
    steps: tuple[str, ...] = ()
    """What had to be done on the way."""
    trouble: str = ""
    error: str = ""
    hint: str = ""


class ModelSelection:
    def __init__(
        self,
        models: ModelRegistry,
        uses: ModelRoles,
        store: Store,
        turns: TurnScheduler,
        reservations: BudgetReservations,
        clock: Clock,
        settings: Callable[[], Settings],
        redact: Callable[[str], str],
    ) -> None:
        self._models = models
        self._uses = uses
        self._store = store
        self._turns = turns
        self._reservations = reservations
        self._clock = clock
        self._settings = settings
        self._redact = redact

    def full_name(self, written: str, needed: bool = True) -> str:
        """The model of a new session, which can be had; empty where none can and none is needed."""
        try:
            name = self._models.resolve(written or self._settings().model)
            self._models.open([name])
        except HermesError:
            if needed:
                raise
            return ""
        return name

    async def choose(
        self, session: Session, model: str, effort: str, by: str, anyway: bool
    ) -> ModelSwitch:
        """Let another model answer from the next request on. One that would throw a warm cache
        away is chosen only `anyway`."""
        name = self._models.resolve(model or session.model)
        effort = check_effort(effort or session.effort)
        self._models.check(name)
        warning = "" if anyway or name == session.model else await self._loss(session, name)
        if warning:
            return ModelSwitch(name, effort, False, warning)
        if (name, effort) != (session.model, session.effort):
            await self._turns.add(session, ev.ModelChosen(name, effort, by))
        return ModelSwitch(name, effort, True)

    async def _loss(self, session: Session, name: str) -> str:
        """What it costs that another service has to read the conversation afresh."""
        recorded = await self._store.events(session.id)
        last = next((one for one in reversed(recorded) if isinstance(one.event, ev.Replied)), None)
        if last is None or self._clock() - last.time > WARM_SECONDS:
            return ""
        reply = last.event
        assert isinstance(reply, ev.Replied)
        try:
            old = self._models.facts(reply.model)
        except HermesError:  # it is gone, and its cache with it
            return ""
        tokens = reply.usage.total
        cached = any(rates.cached is not None for rates in old.rates)
        if tokens < WARM_TOKENS or reply.model == name or not (cached or reply.usage.cached):
            return ""
        stay, move = old.cost(Usage(tokens, 0, tokens)), self._models.facts(name).most(tokens, 0)
        price = (
            f"about ${move:.3g} instead of ${stay:.3g}"
            if move is not None and stay is not None
            else "the price is not known"
        )
        return (
            f"{reply.model} has {tokens:,} tokens of this conversation in its cache; {name} reads "
            f"them afresh: {price} for the next request"
        )

    # a try

    async def test(self, written: str) -> ModelProbe:
        """One small question to one model, without those that would take over."""
        name = self._models.resolve(written or self._settings().model)
        model = self._models.open([name])
        accounts = limits.day_accounts(self._settings(), self.spent_today)

        async def pay(part: Paid) -> None:
            if part.usage.total:
                await self._store.charge(part.model or name, "test", part.usage, part.cost)

        async with aclosing(self._paid_for("test", model, TRY, accounts, pay)) as chunks:
            return self._without_secrets(await _try(name, chunks))

    def _without_secrets(self, trial: ModelProbe) -> ModelProbe:
        return replace(
            trial,
            text=self._redact(trial.text),
            error=self._redact(trial.error),
            hint=self._redact(trial.hint),
            steps=tuple(map(self._redact, trial.steps)),
        )

    async def _paid_for(
        self,
        use: ModelRole,
        model: Model,
        request: Request,
        accounts: Sequence[Budget],
        pay: Callable[[Paid], Awaitable[None]],
    ) -> AsyncGenerator[Chunk]:
        """An answer that is no longer than the budgets allow. Where one is in dollars, the most it
        can cost is paid in advance and taken back when its price is known: no journal remembers
        this call if the runtime dies."""
        held = await self._hold(model, request, accounts)
        advance: int | None = None
        try:
            if held.dollars is not None:
                advance = await self._store.charge(model.name, use, Usage(), held.dollars)
                held.release()
                request = replace(request, max_output=held.output)
            async for chunk in model.stream(request):
                if isinstance(chunk, FailedAttemptUsage):
                    await pay(chunk if held.dollars is None else _at_most(chunk, model))
                    if not await self._reservations.covers(held):
                        raise ModelError("quota", "a try failed, and no budget is left for another")
                elif isinstance(chunk, Reply):
                    await pay(chunk)
                    await self._settle(advance)
                    advance = None
                yield chunk
        except ModelError:
            await self._settle(advance)
            raise
        finally:
            held.release()

    async def _settle(self, advance: int | None) -> None:
        if advance is not None:
            await self._store.refund(advance)

    async def _hold(
        self, model: Model, request: Request, accounts: Sequence[Budget]
    ) -> Reservation:
        limits.refuse_unpriced(self._settings(), model)
        input, output = most_tokens(request), request.max_output
        assert output is not None
        bill = CostEstimate([(facts, input) for facts in model.ways.values()], output)
        held = await self._reservations.reserve(accounts, bill)
        if isinstance(held, BudgetExceeded):
            limit, what = held.account.limit, held.account.what
            raise OverBudget(
                f"{what}: {held.used:g} used of {limit:g}, and this may take {held.needed:g}",
                limits.hint(what),
            )
        return held

    async def answer(
        self,
        use: ModelRole,
        chosen: str,
        request: Request,
        accounts: Sequence[Budget],
        paid: Callable[[int, float | None], Awaitable[None]],
    ) -> Reply:
        """One reply to a question that belongs to no session, within these budgets and the day's.
        `paid` hears of all tokens and dollars, those of tries that failed among them."""
        model = self._uses.route(use, chosen)
        if model is None:
            raise HermesError(f"no model is named for {use}", f"name one: models.uses.{use}")

        async def pay(part: Paid) -> None:
            if part.usage.total:
                await self._store.charge(part.model or model.name, use, part.usage, part.cost)
                await paid(part.usage.total, part.cost)

        every = [*limits.day_accounts(self._settings(), self.spent_today), *accounts]
        async with aclosing(self._paid_for(use, model, request, every, pay)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Reply):
                    return replace(chunk, text=self._redact(chunk.text))
        raise ModelError("broken_stream", f"{model.name} ended without a reply")

    async def spent_today(self) -> float:
        return await self._store.spent(limits.today(self._clock()))

    # titles

    async def entitle(self, session: Session, said: str) -> None:
        """The title of a session whose first message begins with words that nobody has said."""
        lines = self._redact(said).strip().splitlines()
        if lines and not session.title:
            await self._turns.add(session, ev.SessionTitled(lines[0].strip()))

    async def set_title(self, session: Session, talk_start: tuple[str, str]) -> None:
        """A title from how the session began, where a model for titles is named. What goes wrong
        with it is only logged: the first line of the first message stays."""
        model = self._uses.route("titles", session.model)
        if model is None or session.source == JOBS:  # a job has its name
            return
        try:
            await self._give_title(session, model, titles.request(*talk_start))
        except HermesError as error:
            log.warning("session %s gets no title: %s", session.id, error.message)

    async def _give_title(self, session: Session, model: Model, request: Request) -> None:
        def here() -> Awaitable[tuple[float, int]]:
            return self._store.spent_by(session.id)

        async def pay(part: Paid) -> None:
            paid = ev.CostCharged(part.model, "titles", part.usage, part.cost)
            title = titles.title_of(self._redact(part.text)) if isinstance(part, Reply) else ""
            try:
                await self._turns.add(session, paid, *([ev.SessionTitled(title)] if title else []))
            except NotFound:  # deleted meanwhile, which makes it no cheaper
                await self._store.charge(part.model, "titles", part.usage, part.cost)

        accounts = limits.accounts_beside(self._settings(), session.id, here, self.spent_today)
        async with aclosing(self._paid_for("titles", model, request, accounts, pay)) as chunks:
            async for _ in chunks:
                pass


def _at_most(wasted: FailedAttemptUsage, model: Model) -> FailedAttemptUsage:
    """What a try that failed can have cost, where nobody knows."""
    if wasted.most is None:
        return wasted
    cost = model.ways[wasted.model].most(wasted.most.input, wasted.most.output)
    return replace(wasted, usage=wasted.most, cost=cost)


async def _try(name: str, chunks: AsyncIterator[Chunk]) -> ModelProbe:
    started = time.perf_counter()
    first: float | None = None
    steps: list[str] = []
    used, spent = Usage(), 0.0
    try:
        async for chunk in chunks:
            match chunk:
                case Delta() | Thinking():
                    first = first if first is not None else time.perf_counter() - started
                case RetryEvent():
                    steps.append(f"tried again after {chunk.delay:.1f} s: {chunk.reason}")
                case RoutingEvent():
                    steps.append(f"{chunk.step}: {chunk.reason}")
                case FailedAttemptUsage():
                    used, spent = used + chunk.usage, spent + (chunk.cost or 0.0)
                case Reply():
                    return ModelProbe(
                        chunk.model, True, chunk.text.strip(), first,
                        time.perf_counter() - started, used + chunk.usage,
                        None if chunk.cost is None else chunk.cost + spent, tuple(steps),
                    )  # fmt: skip
    except ModelError as error:
        return ModelProbe(
            name, False, "", first, time.perf_counter() - started, used, spent,
            tuple(steps), error.kind, error.message, error.hint,
        )  # fmt: skip
    raise ModelError("broken_stream", f"{name} ended without a reply")
