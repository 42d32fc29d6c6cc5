"""A parent's budget cut up for its children."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from hermes_agent.agent.budgets.reservations import Budget, BudgetReservations
from hermes_agent.core.tools import BudgetShare

SplitBudget = Callable[[int, int], AbstractAsyncContextManager[BudgetShare]]
"""With the number of children, and of those calls (this one among them) that still have to get
their part."""

PART = 0.9
"""How much of what is left goes to the children: their parent must still read what they say."""


def split_for_children(
    reservations: BudgetReservations, accounts: Callable[[], Sequence[Budget]]
) -> SplitBudget:
    """`accounts` are the budgets of the turn; what all sessions share is not cut up: children draw
    on it themselves."""

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
