"""The purse: calls at the same time share what is left, in turn, and nothing is lost or made."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.agent.budgets.reservations import (
    LEAST_OUTPUT,
    Budget,
    BudgetExceeded,
    BudgetReservations,
    CostEstimate,
    Reservation,
)
from hermes_agent.core.messages import ModelFacts, Rates
from tests.support.fake_time import MovedTime
from tests.support.patience import PATIENCE

CENT = 10_000.0
"""Dollars per million tokens: a token for a cent."""
FREE = ModelFacts(rates=(Rates(0.0, 0.0),))


class Ledger:
    """What was spent. `look` runs while somebody reads it."""

    def __init__(self, limit: float = 1.0, spent: float = 0.0) -> None:
        self.limit = limit
        self.spent = spent
        self.look: Callable[[], Awaitable[object]] | None = None

    async def used(self) -> float:
        spent = self.spent
        if self.look is not None:
            look, self.look = self.look, None
            await look()
        return spent

    def account(self, key: str = "day", *, shared: bool = False) -> Budget:
        return Budget("dollars of this day", key, self.limit, "dollars", self.used, shared)


def bill(input: int = 10, output: int = 20, price: float = CENT) -> CostEstimate:
    return CostEstimate([(ModelFacts(rates=(Rates(price, price),)), input)], output)


async def held(
    reservations: BudgetReservations, account: Budget, wanted: CostEstimate
) -> Reservation:
    found = await reservations.reserve([account], wanted)
    assert isinstance(found, Reservation)
    return found


async def waiting(
    reservations: BudgetReservations, account: Budget, wanted: CostEstimate
) -> asyncio.Task[Reservation | BudgetExceeded]:
    """A hold that cannot be had yet."""
    task = asyncio.create_task(reservations.reserve([account], wanted))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_without_budgets_nothing_is_set_aside() -> None:
    found = await BudgetReservations(MovedTime()).reserve([], bill())
    assert isinstance(found, Reservation)
    assert (found.output, found.dollars) == (None, None)
    found.release()


async def test_a_call_waits_for_what_others_hold_and_takes_what_they_left() -> None:
    reservations, ledger = BudgetReservations(MovedTime()), Ledger()
    first = await held(reservations, ledger.account(), bill(10, 60))
    second = await waiting(reservations, ledger.account(), bill(10, 60))
    ledger.spent = 0.1
    first.release()
    found = await second
    assert isinstance(found, Reservation)
    assert (found.output, found.dollars) == (60, pytest.approx(0.7))


async def test_near_the_limit_a_call_is_made_shorter_and_then_refused() -> None:
    reservations = BudgetReservations(MovedTime())
    price, output = 100.0, 2_000
    most = bill(1_000, output, price).most("dollars", output)
    for room, expected in ((most, output), (0.25, 1_500), (0.1512, LEAST_OUTPUT), (0.15, None)):
        ledger = Ledger(limit=room + 0.5, spent=0.5)
        found = await reservations.reserve([ledger.account()], bill(1_000, output, price))
        if expected is None:
            assert isinstance(found, BudgetExceeded)
            assert found.needed == pytest.approx(0.1512)
        else:
            assert isinstance(found, Reservation)
            assert found.output == pytest.approx(expected, abs=1)
            found.release()


async def test_who_cannot_fit_whatever_comes_back_is_told_at_once() -> None:
    reservations, ledger = BudgetReservations(MovedTime()), Ledger(spent=0.5)
    await held(reservations, ledger.account(), bill(10, 20))
    found = await reservations.reserve([ledger.account()], bill(60, 20))
    assert isinstance(found, BudgetExceeded)
    assert (found.used, found.needed) == (0.5, pytest.approx(0.8))


async def test_what_comes_back_during_a_look_is_not_missed() -> None:
    """Nobody holds anything any more, so nobody would wake the one who waits."""
    reservations, ledger, other = BudgetReservations(MovedTime()), Ledger(), Ledger()
    first = await held(reservations, ledger.account(), bill(10, 60))

    async def give_back() -> None:
        first.release()

    other.look = give_back
    accounts = [ledger.account(), other.account("session")]
    async with asyncio.timeout(PATIENCE):
        found = await reservations.reserve(accounts, bill(10, 60))
    assert isinstance(found, Reservation)


async def test_a_call_that_is_paid_for_during_a_look_is_not_overlooked() -> None:
    """What is used is read before the payment, what is held after it was given back."""
    reservations, ledger = BudgetReservations(MovedTime()), Ledger()
    first = await held(reservations, ledger.account(), bill(10, 60))

    async def pay() -> None:
        ledger.spent = 0.7
        first.release()

    ledger.look = pay
    found = await reservations.reserve([ledger.account()], bill(10, 40))
    assert isinstance(found, BudgetExceeded)
    assert (found.used, found.needed) == (0.7, pytest.approx(0.5))


async def test_small_calls_do_not_overtake_a_large_one() -> None:
    reservations, ledger = BudgetReservations(MovedTime()), Ledger()
    first = await held(reservations, ledger.account(), bill(10, 40))
    large = await waiting(reservations, ledger.account(), bill(10, 80))
    small = await waiting(reservations, ledger.account(), bill(1, 1))
    first.release()
    taken = await large
    assert isinstance(taken, Reservation)
    taken.release()
    assert isinstance(await small, Reservation)


async def test_one_who_stops_waiting_lets_the_next_go_on() -> None:
    reservations, ledger = BudgetReservations(MovedTime()), Ledger()
    await held(reservations, ledger.account(), bill(10, 40))
    large = await waiting(reservations, ledger.account(), bill(10, 80))
    small = await waiting(reservations, ledger.account(), bill(1, 1))
    large.cancel()
    async with asyncio.timeout(PATIENCE):
        assert isinstance(await small, Reservation)


async def test_calls_of_free_models_leave_nothing_behind() -> None:
    reservations, ledger = BudgetReservations(MovedTime()), Ledger(limit=0.0)
    free = CostEstimate([(FREE, 1_000)], 1_000)
    calls = [await held(reservations, ledger.account(), free) for _ in range(3)]
    for call in calls:
        call.release()
        call.release()
    assert isinstance(await reservations.reserve([ledger.account()], bill()), BudgetExceeded)


async def test_a_try_that_was_lost_may_leave_too_little_for_another() -> None:
    reservations, ledger = BudgetReservations(MovedTime()), Ledger()
    call = await held(reservations, ledger.account(), bill(10, 30))
    ledger.spent = 0.4
    assert await reservations.still_covers(call)
    other = await held(reservations, ledger.account(), bill(5, 10))
    ledger.spent = 0.5
    assert not await reservations.still_covers(call)
    other.release()
    assert await reservations.still_covers(call)


async def test_marks_are_passed_once_even_when_a_call_jumps_over_both() -> None:
    reservations, own = BudgetReservations(MovedTime()), Ledger().account()
    assert reservations.crossed_mark(own, 0.1, 0.49) is None
    assert reservations.crossed_mark(own, 0.49, 0.5) == 0.5
    assert reservations.crossed_mark(own, 0.5, 0.79) is None
    assert reservations.crossed_mark(own, 0.79, 0.9) == 0.8
    assert reservations.crossed_mark(own, 0.1, 0.9) == 0.8


async def test_marks_of_a_shared_budget_are_told_once_whoever_passes_them() -> None:
    """Two calls are paid for before either is looked at; each sees what both have used."""
    now, ledger = MovedTime(), Ledger(spent=0.4)
    reservations = BudgetReservations(now)
    for _ in range(2):
        (await held(reservations, ledger.account(shared=True), bill(1, 1))).release()
    shared = ledger.account(shared=True)
    assert reservations.crossed_mark(shared, 0.55, 0.7) == 0.5
    assert reservations.crossed_mark(shared, 0.55, 0.7) is None
    assert reservations.crossed_mark(shared, 0.7, 0.95) == 0.8
    assert reservations.crossed_mark(shared, 0.55, 0.7) is None, "read before, looked at after"
    assert reservations.crossed_mark(shared, 0.55, 0.95) is None
    now.now += 86_400
    assert reservations.crossed_mark(shared, 0.0, 0.1) is None, "a new day"
    assert reservations.crossed_mark(shared, 0.1, 0.6) == 0.5


async def test_what_another_process_has_told_is_not_told_again() -> None:
    reservations = BudgetReservations(MovedTime())
    assert reservations.crossed_mark(Ledger().account(shared=True), 0.6, 0.7) is None
    assert reservations.crossed_mark(Ledger().account(shared=True), 0.7, 0.8) == 0.8


calls = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(0, 3)), max_size=12)


@settings(max_examples=150, deadline=None)
@given(calls, st.integers(0, 10_000))
def test_calls_in_any_order_stay_within_the_limit_and_all_come_to_their_end(
    wanted: list[tuple[int, int, int]], seed: int
) -> None:
    """Some are cancelled while they wait or work; each pays the most it may."""
    chance, ledger = random.Random(seed), Ledger()

    async def breathe() -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)

    async def call(reservations: BudgetReservations, input: int, output: int, pauses: int) -> None:
        ledger.look = breathe
        found = await reservations.reserve([ledger.account()], bill(input, output))
        if isinstance(found, BudgetExceeded):
            return
        try:
            for _ in range(pauses):
                await breathe()
            ledger.spent += found.dollars or 0.0
        finally:
            found.release()

    async def all_of_them() -> None:
        reservations = BudgetReservations(MovedTime())
        tasks = [asyncio.create_task(call(reservations, *one)) for one in wanted]
        for task in tasks:
            await breathe()
            if chance.random() < 0.2:
                task.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*tasks, return_exceptions=True)
        assert ledger.spent <= ledger.limit + 1e-9
        left = await reservations.reserve([Ledger(100.0).account()], bill(9_000, 900))
        assert isinstance(left, Reservation), "nothing is held any more"

    asyncio.run(all_of_them())
