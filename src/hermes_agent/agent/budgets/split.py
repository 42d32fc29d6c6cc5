"""Splits a parent's budget among its subagents."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from hermes_agent.agent.budgets.reservations import Budget, BudgetReservations
from hermes_agent.core.tools import BudgetShare

SplitBudget = Callable[[int, int], AbstractAsyncContextManager[BudgetShare]]
"""Takes the number of children, and of calls (including this one) that still need a share."""

PART = 0.9
"""The children's part of the rest; the parent must still read their answers."""


def split_for_children(
    reservations: BudgetReservations, accounts: Callable[[], Sequence[Budget]]
) -> SplitBudget:
    """`accounts` are the turn's budgets. Shared ones are not split: children use them directly."""

    @asynccontextmanager
    async def split(children: int, calls: int) -> AsyncIterator[BudgetShare]:
        own = [account for account in accounts() if not account.shared]
        held = await reservations.reserve_share(own, PART / calls)
        try:
            shares = [(account.unit, held.amounts[account.key] / children) for account in own]
            tokens = [int(share) for unit, share in shares if unit == "tokens"]
            dollars = [share for unit, share in shares if unit == "dollars"]
            yield BudgetShare(min(tokens, default=None), min(dollars, default=None))
        finally:
            held.release()

    return split
