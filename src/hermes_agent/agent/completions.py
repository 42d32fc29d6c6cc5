"""Model calls outside turns, within budgets."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from msgspec.structs import replace

from hermes_agent.agent.budgets import limits
from hermes_agent.agent.budgets.reservations import (
    Budget,
    BudgetExceeded,
    BudgetReservations,
    CostEstimate,
    Reservation,
    today,
)
from hermes_agent.agent.conversation import max_tokens
from hermes_agent.core.errors import HermesError, ModelError, OverBudget
from hermes_agent.core.messages import Chunk, FailedAttemptUsage, Reply, Request, Usage
from hermes_agent.core.protocols import Model
from hermes_agent.core.records import ModelRole
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.unavailable import UnavailableModel
from hermes_agent.models.registry import ModelRegistry


def names_for(use: ModelRole, chosen: str, settings: ModelSettings) -> tuple[str, ...]:
    """The models for a role, in order of preference; empty when none is configured."""
    uses, main = settings.uses, (chosen, *settings.fallbacks)
    cheap = uses.cheap or main
    return {
        "main": main,
        "test": (chosen,),
        "cheap": cheap,
        "compaction": uses.compaction or main,
        "review": uses.review or cheap,
        "titles": uses.titles,
        "vision": uses.vision,
        "judge": uses.judge or main,
    }[use]


class ModelRoles:
    """Opens each combination once. An unavailable model raises its error when it is called."""

    def __init__(self, models: ModelRegistry) -> None:
        self._models = models
        self._settings = models.settings
        self._open: dict[tuple[str, ...], Model] = {}

    def route(self, use: ModelRole, chosen: str) -> Model | None:
        if self._models.settings is not self._settings:
            self._settings, self._open = self._models.settings, {}
        names = names_for(use, chosen, self._settings)
        if not names:
            return None
        if names not in self._open:
            try:
                self._open[names] = self._models.open(names)
            except HermesError as error:  # not cached: it may work next time
                return UnavailableModel(names[0], error)
        return self._open[names]


Billed = FailedAttemptUsage | Reply
"""The parts of a stream that are charged."""


@dataclass(eq=False, repr=False)
class Completions:
    _context: RuntimeContext
    models: ModelRegistry
    roles: ModelRoles
    _reservations: BudgetReservations

    def full_name(self, written: str, needed: bool = True) -> str:
        """Resolve the model of a new session; empty when none is available and none is `needed`."""
        try:
            name = self.models.resolve(written or self._context.settings.model)
            self.models.open([name])
        except HermesError:
            if needed:
                raise
            return ""
        return name

    async def budgeted_stream(
        self,
        use: ModelRole,
        model: Model,
        request: Request,
        accounts: Sequence[Budget],
        pay: Callable[[Billed], Awaitable[None]],
    ) -> AsyncGenerator[Chunk]:
        """Stream an answer within the budgets. Under a dollar budget, the most it can cost is
        charged in advance and refunded once the price is known: no journal would remember the
        call if the runtime died."""
        reservation = await self._reserve(model, request, accounts)
        advance: int | None = None
        try:
            if reservation.dollars is not None:
                advance = await self._context.store.charge(
                    model.name, use, Usage(), reservation.dollars
                )
                reservation.release()
                request = replace(request, max_output=reservation.output)
            async for chunk in model.stream(request):
                if isinstance(chunk, FailedAttemptUsage):
                    await pay(chunk if reservation.dollars is None else _worst_case(chunk, model))
                    if not await self._reservations.still_covers(reservation):
                        raise ModelError("quota", "an attempt failed, and no budget is left")
                elif isinstance(chunk, Reply):
                    await pay(chunk)
                    await self._refund(advance)
                    advance = None
                yield chunk
        except ModelError:
            await self._refund(advance)
            raise
        finally:
            reservation.release()

    async def _refund(self, advance: int | None) -> None:
        if advance is not None:
            await self._context.store.refund(advance)

    async def _reserve(
        self, model: Model, request: Request, accounts: Sequence[Budget]
    ) -> Reservation:
        limits.refuse_unpriced(self._context.settings, model)
        input, output = max_tokens(request), request.max_output
        assert output is not None
        bill = CostEstimate([(facts, input) for facts in model.ways.values()], output)
        found = await self._reservations.reserve(accounts, bill)
        if isinstance(found, BudgetExceeded):
            limit, what = found.account.limit, found.account.what
            raise OverBudget(
                f"{what}: {found.used:g} used of {limit:g}, and this may take {found.needed:g}",
                limits.hint(what),
            )
        return found

    async def answer(
        self,
        use: ModelRole,
        chosen: str,
        request: Request,
        accounts: Sequence[Budget],
        paid: Callable[[int, float | None], Awaitable[None]],
    ) -> Reply:
        """Get one reply outside any session, within these budgets and the day's. `paid` is told all
        tokens and dollars, including those of failed attempts."""
        model = self.roles.route(use, chosen)
        if model is None:
            raise HermesError(f"no model is set for {use}", f"set one: models.uses.{use}")

        async def pay(part: Billed) -> None:
            if part.usage.total:
                await self._context.store.charge(
                    part.model or model.name, use, part.usage, part.cost
                )
                await paid(part.usage.total, part.cost)

        every = [*limits.day_accounts(self._context.settings, self.spent_today), *accounts]
        async with aclosing(self.budgeted_stream(use, model, request, every, pay)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Reply):
                    return replace(chunk, text=self._context.redact(chunk.text))
        raise ModelError("broken_stream", f"{model.name} ended without a reply")

    async def spent_today(self) -> float:
        return await self._context.store.spent(today(self._context.clock()))


def _worst_case(wasted: FailedAttemptUsage, model: Model) -> FailedAttemptUsage:
    """A failed attempt with the most it can have cost, when its cost is unknown."""
    if wasted.most is None:
        return wasted
    cost = model.ways[wasted.model].most(wasted.most.input, wasted.most.output)
    return replace(wasted, usage=wasted.most, cost=cost)
