"""The purse: what calls under way may still use, so that several at once stay within a budget that
none of them overshoots alone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal
from weakref import WeakValueDictionary

from hermes_agent.core.messages import ModelFacts

LEAST_OUTPUT = 512
"""A reply that may not even have so many tokens is not worth asking for."""
WARN_AT = (0.5, 0.8)
"""The shares of a budget at which people are told."""

Unit = Literal["dollars", "tokens"]


@dataclass(frozen=True)
class Budget:
    """One budget. Calls that draw on the same `key` share it."""

    what: str
    key: str
    limit: float
    unit: Unit
    used: Callable[[], Awaitable[float]]
    shared: bool = False
    """Several draw on it at the same time."""


@dataclass(frozen=True)
class CostEstimate:
    """What a call can come to: whoever may answer it, with the most input tokens each of them can
    find in it, and the output it wants."""

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
        """How many tokens of output fit into the room, up to what is wanted; negative when not
        even the input does."""
        if self.most(unit, self.output) <= room:
            return self.output
        before = self.most(unit, 0)
        if before > room:
            return -1
        each = (self.most(unit, self.output) - before) / self.output
        return min(self.output, int((room - before) / each))


@dataclass(frozen=True)
class BudgetExceeded:
    """A budget that the call does not fit into."""

    account: Budget
    used: float
    needed: float


@dataclass
class Reservation:
    """What a call may use at most, set aside until `release`."""

    input: int = 0
    """Tokens of input it can have at most."""
    output: int | None = None
    """Tokens of output it may ask for; None where no budget says."""
    dollars: float | None = None
    """Dollars it can come to, where a budget is in dollars."""
    accounts: Sequence[Budget] = ()
    amounts: dict[str, float] = field(default_factory=dict)
    give_back: Callable[["Reservation"], None] | None = None

    def release(self) -> None:
        if self.give_back is not None:
            self.give_back(self)
            self.give_back = None


class BudgetReservations:
    def __init__(self) -> None:
        self._out: list[Reservation] = []
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._returned = asyncio.Event()
        self._told: dict[str, tuple[float, float]] = {}
        """For shared budgets: what was used when last seen, and the mark people know of."""

    async def reserve(
        self, accounts: Sequence[Budget], estimate: CostEstimate
    ) -> Reservation | BudgetExceeded:
        """Set aside what a call can come to. Near a limit the call is made smaller, as long as
        nobody else holds a part of what is left; otherwise that is waited for. First come, first
        served: small calls do not keep a large one waiting for ever."""
        if not accounts:
            return Reservation()
        async with self._line(accounts):
            while True:
                returned = self._returned  # before the look: what comes back meanwhile counts
                found = await self._look(accounts, estimate)
                if found is not None:
                    return found
                await returned.wait()

    @asynccontextmanager
    async def _line(self, accounts: Sequence[Budget]) -> AsyncIterator[None]:
        """One call at a time looks at a budget; those that draw on others need not wait for it."""
        async with AsyncExitStack() as lines:
            for key in sorted({account.key for account in accounts}):
                await lines.enter_async_context(self._lines.setdefault(key, asyncio.Lock()))
            yield

    async def _look(
        self, accounts: Sequence[Budget], estimate: CostEstimate
    ) -> Reservation | BudgetExceeded | None:
        output, others = estimate.output, False
        for account in accounts:
            # In this order: a call that ends meanwhile is counted twice rather than not at all.
            held = self._held(account)
            used = await account.used()
            self._see(account, used, used)
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
        made = Reservation(estimate.input, output, most, accounts, amounts, self._give_back)
        self._out.append(made)
        return made

    async def reserve_share(self, accounts: Sequence[Budget], part: float) -> Reservation:
        """Set a part of what is left of each budget aside, for others to use."""
        async with self._line(accounts):
            amounts = {}
            for account in accounts:
                held = self._held(account)
                left = account.limit - await account.used() - held
                amounts[account.key] = max(0.0, left * part)
            made = Reservation(accounts=accounts, amounts=amounts, give_back=self._give_back)
            self._out.append(made)
            return made

    async def covers(self, held: Reservation) -> bool:
        """Whether a call may still use all that was set aside for it, after it has used some for
        nothing."""
        for account in held.accounts:
            everybody = self._held(account)
            if await account.used() + everybody > account.limit:
                return False
        return True

    def passed(self, account: Budget, before: float, after: float) -> float | None:
        """The highest mark that was passed on the way from `before` to `after`. For a shared
        budget: since people were last told, whoever used it."""
        said = self._see(account, before, after) if account.shared else _mark(account, before)
        now = _mark(account, after)
        if now <= said:
            return None
        if account.shared:
            self._told[_named(account)] = (after, now)
        return now

    def _see(self, account: Budget, before: float, now: float) -> float:
        """The mark of a shared budget that people know of. What was used before this process
        began to look they were told by another."""
        if not account.shared:
            return 0.0
        last, said = self._told.get(_named(account), (before, _mark(account, before)))
        if now < last:  # a new day
            said = _mark(account, min(before, now))
        self._told[_named(account)] = (now, said)
        return said

    def _held(self, account: Budget) -> float:
        return sum(one.amounts.get(account.key, 0.0) for one in self._out)

    def _give_back(self, held: Reservation) -> None:
        self._out = [one for one in self._out if one is not held]
        self._returned.set()
        self._returned = asyncio.Event()


def _named(account: Budget) -> str:
    return f"{account.key}:{account.limit:g}"


def _mark(account: Budget, used: float) -> float:
    """The highest of the marks that so much has reached; 0 for none."""
    reached = [share for share in WARN_AT if 0 < account.limit * share <= used]
    return max(reached, default=0.0)
