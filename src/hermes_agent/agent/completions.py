"""Model calls that belong to no turn, within budgets."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from hermes_agent.agent.budgets import limits
from hermes_agent.agent.budgets.reservations import (
    Budget,
    BudgetExceeded,
    BudgetReservations,
    CostEstimate,
    Reservation,
)
from hermes_agent.agent.conversation import most_tokens
from hermes_agent.agent.model_roles import ModelRoles
from hermes_agent.core.errors import HermesError, ModelError, OverBudget
from hermes_agent.core.messages import Chunk, FailedAttemptUsage, Reply, Request, Usage
from hermes_agent.core.protocols import Model
from hermes_agent.core.records import ModelRole
from hermes_agent.host.context import RuntimeContext
from hermes_agent.models.registry import ModelRegistry

Paid = FailedAttemptUsage | Reply
"""What of an answer has its price."""


class Completions:
    def __init__(
        self,
        context: RuntimeContext,
        models: ModelRegistry,
        roles: ModelRoles,
        reservations: BudgetReservations,
    ) -> None:
        self._context = context
        self.models = models
        self.roles = roles
        self._reservations = reservations

    def full_name(self, written: str, needed: bool = True) -> str:
        """The model of a new session, which can be had; empty where none can and none is needed."""
        try:
            name = self.models.resolve(written or self._context.settings.model)
            self.models.open([name])
        except HermesError:
            if needed:
                raise
            return ""
        return name

    async def paid_for(
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
                advance = await self._context.store.charge(model.name, use, Usage(), held.dollars)
                held.release()
                request = replace(request, max_output=held.output)
            async for chunk in model.stream(request):
                if isinstance(chunk, FailedAttemptUsage):
                    await pay(chunk if held.dollars is None else _at_most(chunk, model))
                    if not await self._reservations.covers(held):
                        raise ModelError("quota", "an attempt failed, and no budget is left")
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
            await self._context.store.refund(advance)

    async def _hold(
        self, model: Model, request: Request, accounts: Sequence[Budget]
    ) -> Reservation:
        limits.refuse_unpriced(self._context.settings, model)
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
        model = self.roles.route(use, chosen)
        if model is None:
            raise HermesError(f"no model is named for {use}", f"name one: models.uses.{use}")

        async def pay(part: Paid) -> None:
            if part.usage.total:
                await self._context.store.charge(
                    part.model or model.name, use, part.usage, part.cost
                )
                await paid(part.usage.total, part.cost)

        every = [*limits.day_accounts(self._context.settings, self.spent_today), *accounts]
        async with aclosing(self.paid_for(use, model, request, every, pay)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Reply):
                    return replace(chunk, text=self._context.redact(chunk.text))
        raise ModelError("broken_stream", f"{model.name} ended without a reply")

    async def spent_today(self) -> float:
        return await self._context.store.spent(limits.today(self._context.clock()))


def _at_most(wasted: FailedAttemptUsage, model: Model) -> FailedAttemptUsage:
    """What a try that failed can have cost, where nobody knows."""
    if wasted.most is None:
        return wasted
    cost = model.ways[wasted.model].most(wasted.most.input, wasted.most.output)
    return replace(wasted, usage=wasted.most, cost=cost)
