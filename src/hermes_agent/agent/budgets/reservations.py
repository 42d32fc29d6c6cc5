"""Reservations for calls in progress, so that concurrent calls together stay within a budget."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Literal
from weakref import WeakValueDictionary

from msgspec import Struct

from hermes_agent.core.messages import ModelFacts
from hermes_agent.core.protocols import Clock
from hermes_agent.core.tools import BudgetShare

LEAST_OUTPUT = 512
"""The shortest reply worth asking for, in tokens."""
WARN_AT = (0.5, 0.8)
"""The shares of a budget at which to warn."""

_DAY = 86_400.0

Unit = Literal["dollars", "tokens"]


class Budget(Struct, frozen=True):
    """Calls with the same `key` share the budget."""

    what: str
    key: str
    limit: float
    unit: Unit
    used: Callable[[], Awaitable[float]]
    shared: bool = False
    """Whether several sessions share it."""


class CostEstimate(Struct, frozen=True):
    """What a call can cost: each model that may answer it, with its most input tokens, and the
    wanted output."""

    ways: Sequence[tuple[ModelFacts, int]]
    output: int

    @property
    def input(self) -> int:
        return max(input for _, input in self.ways)

    @property
    def least(self) -> int:
        return min(self.output, LEAST_OUTPUT)

    def most(self, unit: Unit, output: int) -> float:
        if unit == "tokens":
            return float(self.input + output)
        return max((way.most(input, output) or 0.0) for way, input in self.ways)

    def output_within(self, unit: Unit, room: float) -> int:
        """How many of the wanted output tokens fit; negative when not even the input does."""
        if self.most(unit, self.output) <= room:
            return self.output
        before = self.most(unit, 0)
        if before > room:
            return -1
        each = (self.most(unit, self.output) - before) / self.output
        return min(self.output, int((room - before) / each))


class BudgetExceeded(Struct, frozen=True):
    """A budget that the call does not fit into."""

    account: Budget
    used: float
    needed: float


class Reservation(Struct):
    """What a call may use at most, held until `release`."""

    input: int = 0
    output: int | None = None
    """The output tokens it may ask for; None without a budget."""
    dollars: float | None = None
    """The most it can cost; None without a dollar budget."""
    accounts: Sequence[Budget] = ()
    amounts: dict[str, float] = {}
    on_release: Callable[["Reservation"], None] | None = None

    def release(self) -> None:
        if self.on_release is not None:
            self.on_release(self)
            self.on_release = None


class BudgetReservations:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._active: list[Reservation] = []
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._returned = asyncio.Event()
        self._warned: dict[str, float] = {}
        """For shared budgets: the last mark of each day that people were warned of."""

    async def reserve(
        self, accounts: Sequence[Budget], estimate: CostEstimate
    ) -> Reservation | BudgetExceeded:
        """Reserve what a call can cost. Near a limit its output is reduced, unless other calls hold
        part of the rest: then this waits for them. First come, first served, so that small calls
        do not starve a large one."""
        if not accounts:
            return Reservation()
        async with self._lock_budgets(accounts):
            while True:
                returned = self._returned  # read first, so that no release is missed
                found = await self._try_reserve(accounts, estimate)
                if found is not None:
                    return found
                await returned.wait()

    @asynccontextmanager
    async def _lock_budgets(self, accounts: Sequence[Budget]) -> AsyncIterator[None]:
        """Only one call at a time reserves from a budget."""
        async with AsyncExitStack() as locks:
            for key in sorted({account.key for account in accounts}):
                await locks.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
            yield

    async def _try_reserve(
        self, accounts: Sequence[Budget], estimate: CostEstimate
    ) -> Reservation | BudgetExceeded | None:
        output, others = estimate.output, False
        for account in accounts:
            # In this order, a call that ends meanwhile is counted twice rather than not at all.
            held = self._held(account)
            used = await account.used()
            self._last_mark(account, used)  # before this call
            left = account.limit - used
            if estimate.output_within(account.unit, left) < estimate.least:
                return BudgetExceeded(account, used, estimate.most(account.unit, estimate.least))
            fits = estimate.output_within(account.unit, left - held)
            others = others or (fits < estimate.output and held > 0.0)
            output = min(output, fits)
        if others:
            return None
        amounts = {account.key: estimate.most(account.unit, output) for account in accounts}
        dollars = [amounts[one.key] for one in accounts if one.unit == "dollars"]
        most = max(dollars, default=None)
        made = Reservation(estimate.input, output, most, accounts, amounts, self._on_release)
        self._active.append(made)
        return made

    async def reserve_share(self, accounts: Sequence[Budget], part: float) -> Reservation:
        """Reserve a part of what is left of each budget."""
        async with self._lock_budgets(accounts):
            amounts = {}
            for account in accounts:
                held = self._held(account)
                left = account.limit - await account.used() - held
                amounts[account.key] = max(0.0, left * part)
            made = Reservation(accounts=accounts, amounts=amounts, on_release=self._on_release)
            self._active.append(made)
            return made

    async def still_covers(self, held: Reservation) -> bool:
        """Whether the budgets still cover a whole reservation, after failed attempts."""
        for account in held.accounts:
            everybody = self._held(account)
            if await account.used() + everybody > account.limit:
                return False
        return True

    def crossed_mark(self, account: Budget, before: float, after: float) -> float | None:
        """The highest mark crossed between `before` and `after`; for a shared budget, since the
        last warning."""
        said, now = self._last_mark(account, before), _mark(account, after)
        if now <= said:
            return None
        if account.shared:
            self._warned[self._warning_key(account)] = now
        return now

    def _last_mark(self, account: Budget, before: float) -> float:
        """The last mark that people were warned of. For a shared budget it is kept: calls that end
        together look in any order. Another process warned of what was used before this one
        started."""
        mark = _mark(account, before)
        return self._warned.setdefault(self._warning_key(account), mark) if account.shared else mark

    def _warning_key(self, account: Budget) -> str:
        return f"{account.key}:{account.limit:g}:{today(self._clock()):.0f}"

    def _held(self, account: Budget) -> float:
        return sum(one.amounts.get(account.key, 0.0) for one in self._active)

    def _on_release(self, held: Reservation) -> None:
        self._active = [one for one in self._active if one is not held]
        self._returned.set()
        self._returned = asyncio.Event()


def today(now: float) -> float:
    """The start of the day (UTC)."""
    return now // _DAY * _DAY


def _mark(account: Budget, used: float) -> float:
    """The highest mark that this use has reached; 0 for none."""
    reached = [share for share in WARN_AT if 0 < account.limit * share <= used]
    return max(reached, default=0.0)


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
