"""Budgets hold: whoever calls, however many at once, and whatever happens in between."""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_agent.agent.turn import TurnWorker
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Fenced
from hermes_agent.core.messages import Chunk, FailedAttemptUsage, Media, ModelFacts, Request, Usage
from hermes_agent.core.records import NewSession, SessionMessage, Turn
from hermes_agent.core.settings.root import BudgetSettings, LoopSettings, Settings
from hermes_agent.store.store import Store
from tests.support.awake_loop import pass_time
from tests.support.billing_model import LOOK, Paid, facts
from tests.support.fake_time import MovedTime
from tests.support.patience import PATIENCE
from tests.support.turns import Bench, bench

SLACK = 1e-9
"""What sums of fractions may be off by."""
IMAGE = Media("image/png", b"\x89PNG" + bytes(100), "shot.png")


def budget(**limits: float | None) -> Settings:
    return Settings(budgets=BudgetSettings(**limits))


async def open_detached(b: Bench) -> Bench:
    """Another session on the same store, with the same purse."""
    prompt = await b.store.prompt(b.session.prompt)
    new = NewSession(b.session.workspace, b.session.policy, b.model.name)
    return replace(b, session=await b.store.open_session(new, prompt), published=[], sent=0)


async def answered(worker: TurnWorker, *answers: str) -> ev.TurnFinished | None:
    """Work the turn, with these answers to its questions."""
    running = asyncio.create_task(worker.run())
    for answer in answers:
        while not worker.conversation.questions:
            assert not running.done(), f"nothing was asked: {running.result()}"
            await asyncio.sleep(0.002)
        await worker.human_input.answer(next(iter(worker.conversation.questions)), answer, "test")
    return await running


# at the same time


@pytest.mark.parametrize("sessions", [8, 30])
async def test_a_day_of_one_dollar_is_not_overshot_by_many_at_once(
    tmp_path: Path, sessions: int
) -> None:
    """Each call may take a tenth of the day, and nobody knows what it took until it is over. Some
    conversations are summarised, some have images that another model describes."""

    async def slowly() -> None:
        await asyncio.sleep(chance.random() / 50)

    chance = random.Random(sessions)
    model = Paid(facts(5.0, 45.0, context=3_000, max_output=2_000), steps=6, pause=slowly)
    eyes = Paid(facts(9.0, 30.0, max_output=1_500, sees=True), name="paid/eyes", pause=slowly)
    chosen = msgspec.structs.replace(
        budget(day_dollars=1.0), loop=LoopSettings(keep_first=1, keep_last=2)
    )
    async with bench(tmp_path, model, tools=[LOOK], settings=chosen) as b:
        b.uses["vision"] = eyes
        benches = [b, *[await open_detached(b) for _ in range(sessions - 1)]]
        for number, one in enumerate(benches):
            files = (IMAGE,) if number % 3 == 0 else ()
            await b.store.receive(
                one.session.id, SessionMessage("m", "go " * 300, "test", False, files)
            )
        workers = [await one.worker() for one in benches]
        async with asyncio.timeout(PATIENCE):
            ends = await asyncio.gather(*(worker.run() for worker in workers))
        uses = {cost.name: cost for cost in await b.store.costs("use")}
        spent = await b.store.spent(0.0)
    assert {end.reason for end in ends if end} <= {"done", "budget"}
    assert "budget" in {end.reason for end in ends if end}
    assert model.dollars + eyes.dollars <= 1.0 + SLACK
    assert spent == pytest.approx(model.dollars + eyes.dollars)
    assert spent > 0.8, "what is there can be used"
    assert model.at_once + eyes.at_once > 2
    assert set(uses) >= {"main", "vision"}


async def test_a_summary_draws_on_the_budget_until_it_is_written_down(tmp_path: Path) -> None:
    model = Paid(facts(10.0, 50.0, context=3_000, max_output=3_000), steps=12)
    chosen = msgspec.structs.replace(
        budget(day_dollars=1.0), loop=LoopSettings(keep_first=1, keep_last=2)
    )
    async with bench(tmp_path, model, tools=[LOOK], settings=chosen) as b:
        end = await b.say("look at everything")
        uses = {cost.name: cost.calls for cost in await b.store.costs("use")}
    assert end.reason == "budget"
    assert uses["compaction"] >= 1
    assert model.dollars <= 1.0 + SLACK


class Watching:
    """A store that looks into the purse whenever a payment is written down."""

    def __init__(self, b: Bench) -> None:
        self._store = b.store
        self._reservations = b.reservations
        self.seen: list[tuple[str, bool]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, turn: Turn, *events: ev.Event) -> Sequence[ev.Recorded]:
        recorded = await self._store.append(turn, *events)
        paid = [
            one for one in events if isinstance(one, ev.Replied | ev.CostCharged | ev.Compacted)
        ]
        self.seen += [(ev.kind_of(one), bool(self._reservations._active)) for one in paid]
        return recorded


async def test_what_is_set_aside_is_given_back_after_the_payment_is_written(
    tmp_path: Path,
) -> None:
    """In between it would be counted nowhere, and another call could take it."""
    model = Paid(facts(1.0, 1.0, context=3_000), steps=12, most=600, fails=1)
    chosen = msgspec.structs.replace(
        budget(day_dollars=9.0), loop=LoopSettings(keep_first=1, keep_last=2)
    )
    async with bench(tmp_path, model, tools=[LOOK], settings=chosen) as b:
        b.uses["vision"] = Paid(facts(1.0, 1.0, sees=True), name="paid/eyes")
        store, b.store = b.store, Watching(b)
        await store.receive(b.session.id, SessionMessage("m", "go", "test", False, (IMAGE,)))
        await (await b.worker()).run()
        seen, b.store = b.store.seen, store
    assert {kind for kind, _ in seen} == {"replied", "cost_charged", "compacted"}
    assert all(held for _, held in seen)
    assert b.reservations._active == []


amounts = st.integers(1, 40).map(lambda cents: cents / 100)
limits = st.fixed_dictionaries(
    {
        "turn_tokens": st.none() | st.integers(1, 60_000),
        "turn_dollars": st.none() | amounts,
        "session_tokens": st.none() | st.integers(1, 90_000),
        "session_dollars": st.none() | amounts,
        "day_dollars": st.none() | amounts,
    }
)
prices = st.tuples(st.integers(0, 60), st.integers(0, 120)).map(lambda two: facts(*map(float, two)))
shapes = st.fixed_dictionaries(
    {
        "bytes_per_token": st.sampled_from([1.0, 2.5, 4.0]),
        "most": st.sampled_from([10, 900, 1_000_000]),
        "steps": st.integers(1, 3),
        "fails": st.sampled_from([0, 0, 0, 1, 2]),
    }
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    prices, prices, st.integers(600, 9_000), shapes, limits, st.integers(1, 6), st.integers(0, 999)
)
def test_no_budget_is_overshot_whatever_the_prices_sizes_and_delays(
    price: ModelFacts,
    other: ModelFacts,
    most: int,
    shape: dict[str, float],
    chosen: dict[str, float | None],
    sessions: int,
    seed: int,
) -> None:
    """Turns are interrupted and models are changed on the way. The model counts for itself."""
    chance = random.Random(seed)

    async def pause() -> None:
        await asyncio.sleep(chance.choice([0, 0, 0.001, 0.003]))

    def model(name: str, price: ModelFacts) -> Paid:
        known = msgspec.structs.replace(price, max_output=most)
        return Paid(known, name=name, pause=pause, **shape)

    async def disturb(worker: TurnWorker, end: asyncio.Task[object]) -> None:
        for _ in range(chance.randrange(6)):
            await pause()
        if chance.random() < 0.3:
            await worker.interrupt()
        elif chance.random() < 0.3 and not end.done():
            await worker.add(ev.ModelChosen("paid/two"))

    async def check(folder: Path) -> None:
        one, two = model("paid/one", price), model("paid/two", other)
        async with bench(folder, one, tools=[LOOK], settings=budget(**chosen)) as b:
            benches = [b, *[await open_detached(b) for _ in range(sessions - 1)]]
            for own in benches:
                own.models = {"paid/one": one, "paid/two": two}
            for turn in range(2):
                before = {name: dict(which.of) for name, which in (("1", one), ("2", two))}
                await asyncio.gather(*(conversation(own, turn) for own in benches))
                check_turns(one, before["1"], two, before["2"])
            spent = await b.store.spent(0.0)
            if any(chosen[f"{scope}_dollars"] for scope in ("turn", "session", "day")):
                assert one.dollars + two.dollars <= spent + SLACK, "all that was paid is counted"

    async def conversation(own: Bench, turn: int) -> None:
        await own.receive("please " * chance.randrange(400), interactive=False)
        worker = await own.worker()
        end = asyncio.create_task(worker.run())
        try:
            await disturb(worker, end)
        except Fenced:
            pass  # it was over before
        async with asyncio.timeout(PATIENCE):
            finished = await end
        assert finished is not None
        assert finished.reason in ("done", "budget", "interrupted"), finished.error

    def check_turns(one: Paid, old_one: dict, two: Paid, old_two: dict) -> None:
        nothing = (0, 0.0)
        for session in {*one.of, *two.of}:
            now = [which.of.get(session, nothing) for which in (one, two)]
            old = [which.get(session, nothing) for which in (old_one, old_two)]
            tokens, dollars = (sum(part[n] for part in now) for n in (0, 1))
            tokens_before, dollars_before = (sum(part[n] for part in old) for n in (0, 1))
            for used, limit in (
                (tokens, chosen["session_tokens"]),
                (dollars, chosen["session_dollars"]),
                (tokens - tokens_before, chosen["turn_tokens"]),
                (dollars - dollars_before, chosen["turn_dollars"]),
            ):
                assert limit is None or used <= limit + SLACK
        day = chosen["day_dollars"]
        assert day is None or one.dollars + two.dollars <= day + SLACK

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


# one after the other


@pytest.mark.parametrize(
    "limit",
    [
        {"turn_tokens": 20_000},
        {"turn_dollars": 0.05},
        {"session_tokens": 20_000},
        {"session_dollars": 0.05},
        {"day_dollars": 0.05},
    ],
)
async def test_token_and_dollar_budgets_hold(tmp_path: Path, limit: dict[str, float]) -> None:
    model = Paid(facts(1.0, 5.0, max_output=1_000), steps=50)
    async with bench(tmp_path, model, tools=[LOOK], settings=budget(**limit)) as b:
        end = await b.say("go")
        (reached,) = await b.events(ev.BudgetReached)
    ((tokens, dollars),) = model.of.values()
    (what,) = limit
    scope, unit = what.split("_")
    assert (end.reason, reached.what) == ("budget", f"{unit} of this {scope}")
    assert end.steps == len(model.requests) > 2
    used = tokens if unit == "tokens" else dollars
    assert used <= limit[what] < reached.used + reached.next
    assert f"limit for this {scope}" in end.error
    assert "the next call may take" in end.error
    assert f"budgets.{what}" in end.hint


async def test_near_the_limit_replies_are_made_shorter_and_said_to_be_cut(tmp_path: Path) -> None:
    model = Paid(facts(0.0, 100.0, max_output=2_000), steps=9)
    async with bench(tmp_path, model, tools=[LOOK], settings=budget(turn_dollars=0.5)) as b:
        end = await b.say("go")
        notes = await b.events(ev.NoticeIssued)
    assert end.reason == "budget"
    wanted = [request.max_output for request in model.requests]
    assert wanted == pytest.approx([2_000, 2_000, 1_000], abs=1)
    async with bench(tmp_path, Paid(facts(0.0, 100.0), most=9_000)) as b:
        b.settings = budget(turn_dollars=0.06)
        end = await b.say("go")
        notes = await b.events(ev.NoticeIssued)
    assert end.reason == "done"
    assert [note.text for note in notes] == ["the reply was cut off at its limit of 600 tokens"]


async def test_the_user_extends_a_budget_or_does_not(tmp_path: Path) -> None:
    model = Paid(facts(0.0, 100.0, max_output=1_000), steps=9)
    async with bench(tmp_path, model, tools=[LOOK], settings=budget(turn_dollars=0.25)) as b:
        await b.receive("go", interactive=True)
        end = await answered(await b.worker(), "yes", "no")
        asked = await b.events(ev.QuestionAsked)
    assert end is not None
    assert end.reason == "budget"
    assert model.dollars == pytest.approx(0.5, abs=0.001)
    assert [question.text for question in asked] == [
        f"limit for this turn: {used} of $0.25 used, and the next call may take $0.0512. "
        "Continue with another $0.25?"
        for used in ("$0.2", "$0.4999")
    ]


async def test_one_yes_is_enough_for_a_call_that_takes_several_times_the_budget(
    tmp_path: Path,
) -> None:
    model = Paid(facts(0.0, 100.0, max_output=1_000))
    async with bench(tmp_path, model, settings=budget(day_dollars=0.02)) as b:
        await b.receive("go", interactive=True)
        end = await answered(await b.worker(), "yes")
        (asked,) = await b.events(ev.QuestionAsked)
    assert end is not None
    assert end.reason == "done"
    assert asked.text.endswith("$0.00 of $0.02 used, and the next call may take $0.0512. "
                               "Continue with another $0.04?")  # fmt: skip
    assert model.dollars <= 0.06


async def test_a_budget_of_nothing_lets_free_models_work_and_asks_nobody(tmp_path: Path) -> None:
    async with bench(tmp_path, Paid(facts(0.0, 0.0)), settings=budget(day_dollars=0.0)) as b:
        assert (await b.say("go", interactive=True)).reason == "done"
        b.model = Paid(facts(1.0, 1.0))
        assert (await b.say("go", interactive=True)).reason == "budget"
        assert await b.events(ev.QuestionAsked) == []


async def test_an_extension_of_the_day_holds_for_the_turn_that_was_asked(tmp_path: Path) -> None:
    model = Paid(facts(0.0, 100.0, max_output=1_000), steps=9)
    async with bench(tmp_path, model, tools=[LOOK], settings=budget(day_dollars=0.3)) as b:
        await b.receive("go", interactive=True)
        end = await answered(await b.worker(), "yes", "no")
        assert end is not None
        assert (end.reason, model.dollars) == ("budget", pytest.approx(0.6, abs=0.001))
        other = await (await open_detached(b)).say("me too")
        assert (other.reason, other.steps) == ("budget", 0)


async def test_a_question_of_another_budget_after_a_restart_extends_that_one(
    tmp_path: Path,
) -> None:
    """The day was used up when the runtime died; in the next one it is the turn."""
    model = Paid(facts(0.0, 100.0, max_output=1_000))
    async with bench(tmp_path, model, settings=budget(turn_dollars=0.02)) as b:
        await b.receive("go", interactive=True)
        turn = await b.store.start_turn(b.session.id)
        assert turn is not None
        await b.store.append(turn, ev.BudgetReached("dollars of this day", 1.0, 1.0, 0.5))
        (turn,) = await b.store.claim_unfinished()
        worker = await b.worker(turn)
        end = await answered(worker, "yes")
    assert end is not None
    assert end.reason == "done"
    assert set(worker.conversation.extensions) == {"dollars of this turn"}


# warnings


async def test_half_and_four_fifths_of_each_budget_are_told_once(tmp_path: Path) -> None:
    model = Paid(facts(0.0, 100.0, max_output=1_000), steps=10)
    limits = budget(
        turn_dollars=1.0, session_dollars=1.25, day_dollars=100.0, session_tokens=40_000
    )
    async with bench(tmp_path, model, tools=[LOOK], settings=limits) as b:
        await b.say("go")
        warned = [(one.what, one.share) for one in await b.events(ev.BudgetWarned)]
    assert warned.count(("dollars of this turn", 0.5)) == 1
    assert warned.count(("dollars of this turn", 0.8)) == 1
    assert warned.count(("dollars of this session", 0.5)) == 1
    assert warned.count(("tokens of this session", 0.8)) <= 1
    assert len(set(warned)) == len(warned)
    assert not any(what == "dollars of this day" for what, _ in warned)


async def test_marks_of_the_day_are_told_once_among_all_sessions(tmp_path: Path) -> None:
    model = Paid(facts(0.0, 100.0, max_output=1_000))
    async with bench(tmp_path, model, settings=budget(day_dollars=1.0)) as b:
        benches = [b, *[await open_detached(b) for _ in range(9)]]
        await asyncio.gather(*(one.say("go") for one in benches))
        warned = [w.share for one in benches for w in await one.events(ev.BudgetWarned)]
    assert sorted(warned) in ([0.5, 0.8], [0.8]), "one call may jump over a mark, none repeats it"


# what is not seen


async def interrupted(b: Bench, model: Paid) -> tuple[ev.TurnFinished, TurnWorker]:
    await b.receive("go")
    worker = await b.worker()
    running = asyncio.create_task(worker.run())
    while not model.under_way:
        await asyncio.sleep(0.002)
    await worker.interrupt()
    end = await running
    assert end is not None
    return end, worker


async def never() -> None:
    await asyncio.Event().wait()


async def test_what_an_interrupted_call_can_have_cost_is_counted_and_the_rest_given_back(
    tmp_path: Path,
) -> None:
    model = Paid(facts(10.0, 100.0, max_output=1_000), pause=never)
    async with bench(tmp_path, model, settings=budget(day_dollars=0.5)) as b:
        end, _ = await interrupted(b, model)
        (replied,) = await b.events(ev.Replied)
        (charged,) = await b.events(ev.CostCharged)
        spent = await b.store.spent(0.0)
    assert (end.reason, replied.text, replied.stop) == ("interrupted", "word", "interrupted")
    assert charged.reason == "interrupted: worst-case cost"
    assert end.cost == pytest.approx(spent)
    assert model.dollars <= spent <= 0.5
    assert replied.cost < 0.01, "what was read is priced by what was read"


async def test_without_a_budget_an_interrupted_call_is_estimated(tmp_path: Path) -> None:
    model = Paid(facts(10.0, 100.0), pause=never)
    async with bench(tmp_path, model) as b:
        end, _ = await interrupted(b, model)
        charged = await b.events(ev.CostCharged)
        (replied,) = await b.events(ev.Replied)
    assert charged == []
    assert end.usage == replied.usage
    assert end.usage.input > 0
    assert end.cost == replied.cost == model.facts.cost(end.usage)


async def test_an_interrupted_summary_is_paid_for(tmp_path: Path) -> None:
    quick = Paid(facts(10.0, 10.0, context=2_000, max_output=600), steps=20)
    slow = Paid(facts(10.0, 10.0), name="paid/slow", pause=never)
    chosen = msgspec.structs.replace(
        budget(day_dollars=5.0), loop=LoopSettings(keep_first=1, keep_last=2)
    )
    async with bench(tmp_path, quick, tools=[LOOK], settings=chosen) as b:
        b.uses["compaction"] = slow
        end, _ = await interrupted(b, slow)
        (charged,) = await b.events(ev.CostCharged)
        spent = await b.store.spent(0.0)
    assert end.reason == "interrupted"
    assert (charged.use, charged.model) == ("compaction", "paid/slow")
    assert quick.dollars + slow.dollars <= spent + SLACK


async def test_a_cancelled_turn_gives_back_what_it_held(tmp_path: Path) -> None:
    model = Paid(facts(0.0, 100.0, max_output=1_000), pause=never)
    async with bench(tmp_path, model, settings=budget(day_dollars=0.15)) as b:
        await b.receive("go")
        running = asyncio.create_task((await b.worker()).run())
        while not model.under_way:
            await asyncio.sleep(0.002)
        other = await open_detached(b)
        other.model = quick = Paid(facts(0.0, 100.0, max_output=1_000))
        waits = asyncio.create_task(other.say("me too"))
        while len(await other.events()) < 3:
            await asyncio.sleep(0.002)
        assert quick.requests == []
        running.cancel()
        async with asyncio.timeout(PATIENCE):
            assert (await waits).reason == "done"


async def test_an_interrupt_while_waiting_for_room_ends_the_turn(tmp_path: Path) -> None:
    model = Paid(facts(0.0, 100.0, max_output=1_000), pause=never)
    async with bench(tmp_path, model, settings=budget(day_dollars=0.15)) as b:
        await b.receive("go")
        first = await b.worker()
        running = asyncio.create_task(first.run())
        while not model.under_way:
            await asyncio.sleep(0.002)
        other = await open_detached(b)
        await other.receive("me too")
        second = await other.worker()
        waits = asyncio.create_task(second.run())
        await second.interrupt()
        end = await waits
        await first.interrupt()
        await running
    assert end is not None
    assert (end.reason, end.cost) == ("interrupted", 0.0)
    assert len(model.requests) == 1


async def test_tries_that_failed_are_counted_and_end_the_call_when_they_have_used_it_up(
    tmp_path: Path,
) -> None:
    model = Paid(facts(0.0, 100.0, max_output=1_000), fails=2)
    async with bench(tmp_path, model) as b:
        end = await b.say("go")
        charged = await b.events(ev.CostCharged)
        assert (end.reason, end.cost) == ("done", pytest.approx(0.3))
        assert [(one.use, one.again, one.reason) for one in charged] == [
            ("main", True, "an attempt failed")
        ] * 2
        b.settings = budget(turn_dollars=0.25)
        end = await b.say("go")
    assert end.reason == "budget"
    assert end.cost == pytest.approx(model.dollars - 0.3)
    assert end.cost <= 0.25


class DiesBefore:
    """A store of a runtime that dies before it can write an event of a kind."""

    def __init__(self, store: Store, kind: type) -> None:
        self._store = store
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, turn: Turn, *events: ev.Event) -> Sequence[ev.Recorded]:
        if any(isinstance(event, self._kind) for event in events):
            raise Fenced("dead")
        return await self._store.append(turn, *events)


async def test_a_runtime_that_dies_in_a_call_counts_it_once(tmp_path: Path) -> None:
    """Also when the next one dies before it has counted it, and the third as soon as it has."""
    model = Paid(facts(10.0, 100.0, max_output=1_000), pause=never)
    async with bench(tmp_path, model, settings=budget(day_dollars=9.0, turn_tokens=90_000)) as b:
        await b.receive("go")
        running = asyncio.create_task((await b.worker()).run())
        while not model.under_way:
            await asyncio.sleep(0.002)
        running.cancel()
        store = b.store
        for kind in (ev.CostCharged, ev.ModelRequested):
            (turn,) = await store.claim_unfinished()
            b.store = DiesBefore(store, kind)
            assert await (await b.worker(turn)).run() is None
        b.store = store
        (turn,) = await store.claim_unfinished()
        running = asyncio.create_task((await b.worker(turn)).run())
        while len(model.requests) < 2:
            await asyncio.sleep(0.002)
        (charged,) = await b.events(ev.CostCharged)
        first, _ = await b.events(ev.ModelRequested)
        spent = await b.store.spent(0.0)
        running.cancel()
        await asyncio.wait({running})
    assert charged.reason == "the runtime died during this call: worst-case cost"
    assert charged.usage == Usage(first.input, first.output)
    assert spent == charged.cost == first.most


# prices


async def test_a_fallback_without_a_price_is_refused_before_the_first_call(tmp_path: Path) -> None:
    model = Paid(facts(1.0, 1.0), others={"paid/unknown": ModelFacts()})
    async with bench(tmp_path, model, settings=budget(day_dollars=1.0)) as b:
        end = await b.say("go")
        assert (end.reason, model.requests) == ("failed", [])
        assert "no price is known for 'paid/unknown'" in end.error
        assert "models.prices" in end.hint
        b.settings = budget(turn_tokens=90_000)
        assert (await b.say("go")).reason == "done"
        b.settings = Settings()
        assert (await b.say("go")).reason == "done"


async def test_the_dearest_fallback_and_the_finest_count_of_tokens_are_set_aside(
    tmp_path: Path,
) -> None:
    """A model that has not counted the conversation yet may find a token in each byte."""
    model = Paid(
        facts(10.0, 0.0), bytes_per_token=4.0, most=9, others={"paid/dear": facts(20.0, 0.0)}
    )
    async with bench(tmp_path, model, settings=budget(day_dollars=9.0)) as b:
        await b.say("word " * 1_000)
        await b.say("go on")
        first, second = await b.events(ev.ModelRequested)
        size = model.count(model.requests[1]) * 4
    assert first.most == pytest.approx(first.input * 20.0 / 1e6)
    assert second.most == pytest.approx(second.input * 20.0 / 1e6)
    assert second.input >= size


async def test_another_model_is_asked_with_what_was_set_aside_for_it(tmp_path: Path) -> None:
    """It was chosen while the turn waited for room for the first."""
    first = Paid(facts(0.0, 100.0, max_output=1_000), name="paid/first", pause=never)
    dear = Paid(facts(0.0, 120.0, max_output=1_000), name="paid/dear")
    async with bench(tmp_path, first, settings=budget(day_dollars=0.15)) as b:
        await b.receive("go")
        holder = await b.worker()
        running = asyncio.create_task(holder.run())
        while not first.under_way:
            await asyncio.sleep(0.002)
        other = await open_detached(b)
        other.models = {"paid/dear": dear}
        await other.receive("me too", interactive=False)
        worker = await other.worker()
        waits = asyncio.create_task(worker.run())
        while len(await other.events()) < 3:
            await asyncio.sleep(0.002)
        await worker.add(ev.ModelChosen("paid/dear"))
        running.cancel()
        end = await waits
        (requested,) = await other.events(ev.ModelRequested)
    assert end is not None
    assert (end.reason, requested.model) == ("done", "paid/dear")
    assert requested.most == pytest.approx(0.12)
    assert (len(dear.requests), dear.dollars) == (1, pytest.approx(0.12))


async def test_a_call_that_takes_longer_than_the_turn_may_is_ended(tmp_path: Path) -> None:
    clock = MovedTime()

    async def late() -> None:
        clock.now += 900.0
        await pass_time(900.0)
        await never()

    model = Paid(facts(1.0, 1.0), pause=late)
    async with bench(tmp_path, model, settings=budget(turn_seconds=900.0), clock=clock) as b:
        end = await b.say("go")
        charged = await b.events(ev.CostCharged)
        replied = await b.events(ev.Replied)
    assert (end.reason, end.steps) == ("budget", 0)
    assert "limit for this turn: 15 min" in end.error
    assert [one.use for one in charged] == ["main"]
    assert replied == []


async def test_waiting_for_room_is_told(tmp_path: Path) -> None:
    release = asyncio.Event()
    slow = Paid(facts(1.0, 1_000.0, max_output=900), pause=release.wait)
    async with bench(tmp_path, slow, settings=budget(day_dollars=1.0)) as b:
        other = await open_detached(b)
        first = asyncio.create_task(b.say("one"))
        while not slow.under_way:
            await asyncio.sleep(0.005)
        second = asyncio.create_task(other.say("two"))
        while not (told := await other.events(ev.NoticeIssued)):
            await asyncio.sleep(0.02)
        release.set()
        await asyncio.gather(first, second)
    assert "have reserved the rest of a budget" in told[0].text


class Unknown(Paid):
    """Its first try breaks, and nobody knows what it cost."""

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        most = Usage(self.count(request), request.max_output or 0)
        self.dollars += self.facts.cost(most) or 0.0
        yield FailedAttemptUsage(self.name, Usage(), 0.0, most)
        async for chunk in super().stream(request):
            yield chunk


async def test_a_try_of_unknown_price_counts_as_the_most_where_a_budget_depends_on_it(
    tmp_path: Path,
) -> None:
    for folder, limit, counted in (("with", 1.0, True), ("without", None, False)):
        (tmp_path / folder).mkdir()
        model = Unknown(facts(1.0, 100.0, max_output=2_000))
        settings = budget(day_dollars=limit)
        async with bench(tmp_path / folder, model, settings=settings) as b:
            end = await b.say("go")
            spent = await b.store.spent(0.0)
        assert end.reason == "done"
        assert (spent >= model.dollars) is counted
