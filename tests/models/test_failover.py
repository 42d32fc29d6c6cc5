import asyncio
from collections.abc import AsyncIterator

import pytest

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.messages import (
    Chunk,
    Delta,
    FailedAttemptUsage,
    Media,
    ModelFacts,
    Prompt,
    Rates,
    Reply,
    Request,
    RetryEvent,
    RoutingEvent,
    Thinking,
    Usage,
    UserMessage,
)
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.models.wires.base import Credential
from tests.support.failing_models import GO, USED, Roads

SETTINGS = ModelSettings(retries=3, retry_seconds=1.0, retry_most_seconds=10.0, circuit_failures=9)


def trouble(kind: ModelTrouble = "overload", after: float | None = None) -> ModelError:
    return ModelError(kind, f"{kind}!", "later", after)


def rerouted(got: list[Chunk]) -> list[tuple[str, str, str, str]]:
    return [(c.step, c.model, c.to, c.kind) for c in got if isinstance(c, RoutingEvent)]


# one way


async def test_passing_trouble_is_tried_again_with_doubling_pauses() -> None:
    roads = Roads(SETTINGS, [trouble(), trouble(), trouble()])
    got = await roads.call()
    assert RetryEvent("overload", "overload!", 1, 1.0) in got
    assert [c.attempt for c in got if isinstance(c, RetryEvent)] == [1, 2, 3]
    assert got[-1] == Reply("half", usage=USED, model="a/m")
    assert roads.time.pauses == [1.0, 2.0, 4.0]


async def test_jitter_shortens_a_pause_by_up_to_a_half() -> None:
    roads = Roads(SETTINGS, [trouble(), trouble()], chance=0.0)
    await roads.call()
    assert roads.time.pauses == [0.5, 1.0]


async def test_pauses_do_not_grow_beyond_the_most() -> None:
    settings = ModelSettings(
        retries=6, retry_seconds=4.0, retry_most_seconds=10.0, circuit_failures=9
    )
    roads = Roads(settings, [trouble()] * 4)
    await roads.call()
    assert roads.time.pauses == [4.0, 8.0, 10.0, 10.0]


async def test_the_last_failure_is_raised_with_the_number_of_tries() -> None:
    roads = Roads(SETTINGS, [trouble("timeout")] + [trouble()] * 9)
    with pytest.raises(ModelError) as raised:
        await roads.call()
    assert raised.value.message == "overload! (given up after 4 tries)"
    assert (raised.value.kind, raised.value.hint) == ("overload", "later")
    assert len(roads.time.pauses) == 3


@pytest.mark.parametrize("kind", ["auth", "quota", "bad_request", "context_too_long", "refused"])
async def test_trouble_that_stays_is_raised_at_once(kind: ModelTrouble) -> None:
    roads = Roads(SETTINGS, [trouble(kind)])
    with pytest.raises(ModelError) as raised:
        await roads.call()
    assert (raised.value.kind, raised.value.message) == (kind, f"{kind}!")
    assert roads.time.pauses == []


@pytest.mark.parametrize("kind", ["rate_limit", "overload"])
@pytest.mark.parametrize("asked", [0.0, 5.0, 10.0])
async def test_a_pause_the_service_names_is_honoured(kind: ModelTrouble, asked: float) -> None:
    roads = Roads(SETTINGS, [trouble(kind, asked)], chance=0.0)
    assert isinstance((await roads.call())[-1], Reply)
    assert roads.time.pauses == [asked]


async def test_a_service_is_asked_a_little_later_than_it_said_and_never_sooner() -> None:
    roads = Roads(SETTINGS, [trouble("rate_limit", 5.0)], chance=1.0)
    await roads.call()
    assert 5.0 < roads.time.pauses[0] <= 5.5


async def test_a_service_that_asks_for_too_long_a_pause_is_given_up() -> None:
    roads = Roads(SETTINGS, [trouble("rate_limit", 10.5)])
    with pytest.raises(ModelError) as raised:
        await roads.call()
    assert (raised.value.message, raised.value.retry_after) == ("rate_limit!", 10.5)
    assert roads.time.pauses == []


async def test_a_service_that_asked_for_a_pause_gets_it_from_the_next_call_too() -> None:
    roads = Roads(SETTINGS, [trouble("rate_limit", 100.0)])
    with pytest.raises(ModelError):
        await roads.call()
    roads.time.now = 50.0
    with pytest.raises(ModelError, match="rate_limit!") as raised:
        await roads.call()
    assert raised.value.retry_after == 50.0
    roads.time.now = 95.0
    got = await roads.call()
    assert got[0] == RetryEvent("rate_limit", "rate_limit!", 0, 5.5)
    assert isinstance(got[-1], Reply)
    assert [one.at for one in roads.log] == [0.0, 100.5]


async def test_a_listener_that_leaves_early_closes_the_stream_below() -> None:
    roads = Roads(SETTINGS, [])
    stream = roads.model.stream(GO)
    assert await anext(stream) == Delta("ha")
    await stream.aclose()  # type: ignore[attr-defined]  # a generator
    assert roads.speakers[0].left == 1


async def test_a_call_that_is_cancelled_closes_the_stream_below_and_frees_the_probe() -> None:
    settings = ModelSettings(retries=0, circuit_failures=1, circuit_seconds=30.0)
    roads = Roads(settings, [trouble()])
    with pytest.raises(ModelError):
        await roads.call()
    roads.time.now = 30.0
    stream = roads.model.stream(GO)
    await anext(stream)
    assert roads.ways[0].circuit.probe is not None
    await stream.aclose()  # type: ignore[attr-defined]
    assert roads.ways[0].circuit.probe is None
    assert roads.speakers[0].left == 2


# several keys


@pytest.mark.parametrize("kind", ["rate_limit", "quota", "auth"])
async def test_the_next_key_is_used_before_the_next_model(kind: ModelTrouble) -> None:
    roads = Roads(SETTINGS, [trouble(kind)], [], keys=[2, 1])
    got = await roads.call()
    assert roads.asked == "a0 a1"
    assert rerouted(got) == [("key", "a/m", "a1", kind)]
    assert roads.time.pauses == []
    await roads.call()
    assert roads.asked == "a0 a1 a1"


async def test_when_all_keys_are_turned_away_the_next_model_is_asked() -> None:
    roads = Roads(SETTINGS, [trouble("auth"), trouble("quota")], [], keys=[2, 1])
    got = await roads.call()
    assert roads.asked == "a0 a1 b0"
    assert rerouted(got) == [("key", "a/m", "a1", "auth"), ("model", "a/m", "b/m", "quota")]
    got = await roads.call()
    assert roads.asked == "a0 a1 b0 b0"
    assert rerouted(got) == [("skipped", "a/m", "b/m", "auth")]


async def test_rate_limits_of_a_key_do_not_open_the_circuit_while_another_key_is_there() -> None:
    settings = ModelSettings(circuit_failures=1, retries=0)
    roads = Roads(settings, [trouble("rate_limit")] * 3, [], keys=[3, 1])
    got = await roads.call()
    assert [step for step, *_ in rerouted(got)] == ["key", "key", "opened", "model"]


async def test_a_key_that_was_exchanged_meanwhile_is_used_at_once() -> None:
    roads = Roads(SETTINGS, [trouble("auth")])
    roads.keys[0][0].secrets = ["old", "new"]
    got = await roads.call()
    assert rerouted(got) == [("key", "a/m", "a0", "auth")]
    assert isinstance(got[-1], Reply)


async def test_a_source_that_gives_another_bad_key_each_time_comes_to_an_end() -> None:
    roads = Roads(SETTINGS, [trouble("auth")] * 100)
    roads.keys[0][0].secrets = [str(number) for number in range(100)]
    with pytest.raises(ModelError, match="auth!"):
        await roads.call()
    assert len(roads.log) == 3


async def test_a_key_that_cannot_be_had_leads_to_the_next_model() -> None:
    roads = Roads(SETTINGS, [], [])
    roads.keys[0][0].error = ModelError("auth", "A_KEY is not set", "set it")
    got = await roads.call()
    assert rerouted(got) == [("model", "a/m", "b/m", "auth")]
    roads = Roads(SETTINGS, [])
    roads.keys[0][0].error = ModelError("auth", "A_KEY is not set", "set it")
    with pytest.raises(ModelError) as raised:
        await roads.call()
    assert (raised.value.message, raised.value.hint) == ("A_KEY is not set", "set it")


async def test_a_refused_key_is_tried_again_by_the_next_call_where_nothing_else_is_left() -> None:
    roads = Roads(SETTINGS, [trouble("quota")])
    with pytest.raises(ModelError):
        await roads.call()
    assert isinstance((await roads.call())[-1], Reply), "credit was added meanwhile"
    assert roads.ways[0].pool.resting(0.0) == ()


# several models


async def test_one_more_try_is_made_where_the_pause_is_short_then_the_next_model_is_asked() -> None:
    roads = Roads(SETTINGS, [trouble(), trouble("timeout")], [])
    got = await roads.call()
    assert roads.asked == "a0 a0 b0"
    assert roads.time.pauses == [1.0]
    told = [c for c in got if isinstance(c, RetryEvent | RoutingEvent)]
    assert told == [
        RetryEvent("overload", "overload!", 1, 1.0),
        RoutingEvent("model", "a/m", "b/m", "timeout", "timeout!"),
    ]
    assert got[-1] == Reply("half", usage=USED, model="b/m")


@pytest.mark.parametrize(
    "error", [trouble("overload", 2.5), trouble("rate_limit"), trouble("timeout")]
)
async def test_a_longer_pause_is_not_worth_it_where_another_model_is(error: ModelError) -> None:
    roads = Roads(SETTINGS, [error], [])
    await roads.call()
    assert roads.asked == "a0 b0"
    assert roads.time.pauses == []


async def test_without_retries_the_next_model_is_asked_at_once() -> None:
    roads = Roads(ModelSettings(retries=0), [trouble()], [])
    await roads.call()
    assert roads.asked == "a0 b0"


async def test_a_model_that_is_gone_at_one_service_is_asked_for_at_the_next() -> None:
    roads = Roads(SETTINGS, [trouble("bad_request")], [trouble("quota")], [])
    got = await roads.call()
    assert [step[:3] for step in rerouted(got)] == [
        ("model", "a/m", "b/m"),
        ("model", "b/m", "c/m"),
    ]


async def test_when_all_fail_the_first_error_is_raised_and_all_are_named() -> None:
    roads = Roads(SETTINGS, [trouble("bad_request")], [trouble("auth")], [trouble()] * 9)
    with pytest.raises(ModelError) as raised:
        await roads.call()
    assert raised.value.kind == "bad_request"
    assert raised.value.message == (
        "bad_request! (given up after 6 tries: "
        "a/m: bad_request, b/m: auth, c/m: overload (4 times))"
    )


async def test_a_refusal_is_not_taken_to_another_model() -> None:
    roads = Roads(SETTINGS, [trouble("refused")], [])
    with pytest.raises(ModelError) as raised:
        await roads.call()
    assert raised.value.message == "refused!"
    assert roads.asked == "a0"


async def test_a_conversation_that_is_too_long_goes_to_a_larger_window_only() -> None:
    facts = [ModelFacts(context=10), ModelFacts(context=10), ModelFacts(context=20)]
    roads = Roads(SETTINGS, [trouble("context_too_long")], [], [], facts=facts)
    await roads.call()
    assert roads.asked == "a0 c0"
    roads = Roads(SETTINGS, [trouble("context_too_long")], [], facts=facts[:2])
    with pytest.raises(ModelError) as raised:
        await roads.call()
    assert raised.value.kind == "context_too_long"
    assert roads.asked == "a0"


async def test_a_fallback_with_a_small_window_leads_back_to_the_first_then_to_a_summary() -> None:
    facts = [ModelFacts(context=20), ModelFacts(context=10)]
    errors = [trouble()] * 2, [trouble("context_too_long")]
    roads = Roads(SETTINGS, *errors, facts=facts)
    await roads.call()
    assert roads.asked == "a0 a0 b0 a0"
    roads = Roads(SETTINGS, [trouble()] * 9, [trouble("context_too_long")], facts=facts)
    with pytest.raises(ModelError) as raised:
        await roads.call()
    assert raised.value.kind == "context_too_long", "it can be shortened, and then one answers"


async def test_when_all_have_failed_they_are_asked_again_in_turn() -> None:
    settings = ModelSettings(retries=3, retry_seconds=4.0, circuit_failures=9)
    roads = Roads(settings, [trouble()] * 2, [trouble()] * 2)
    got = await roads.call()
    assert roads.asked == "a0 b0 a0 b0 a0"
    assert roads.time.pauses == [4.0, 8.0, 16.0]
    assert [step for step, *_ in rerouted(got)] == ["model"] * 4


async def test_a_service_that_names_a_pause_is_waited_for_where_others_are_out() -> None:
    roads = Roads(SETTINGS, [trouble("rate_limit", 6.0)], [trouble("bad_request")], chance=0.0)
    await roads.call()
    assert roads.asked == "a0 b0 a0"
    assert roads.time.pauses == [6.0]


# circuits


async def test_a_model_that_keeps_failing_is_passed_over_and_comes_back() -> None:
    settings = ModelSettings(retries=3, retry_seconds=1.0, circuit_failures=3, circuit_seconds=30.0)
    roads = Roads(settings, [trouble()] * 4, [])
    await roads.call()
    got = await roads.call()
    assert rerouted(got) == [
        ("opened", "a/m", "", "overload"),
        ("model", "a/m", "b/m", "overload"),
    ]
    got = await roads.call()
    assert rerouted(got) == [("skipped", "a/m", "b/m", "overload")]
    assert roads.asked == "a0 a0 b0 a0 b0 b0"
    roads.time.now += 30.0
    got = await roads.call()
    assert rerouted(got)[0] == ("opened", "a/m", "", "overload"), "the probe failed"
    roads.time.now += 59.0
    await roads.call()
    roads.time.now += 1.0
    got = await roads.call()
    assert rerouted(got) == [("closed", "a/m", "", "")]
    assert roads.asked == "a0 a0 b0 a0 b0 b0 a0 b0 b0 a0"


async def test_the_last_way_out_is_not_barred_by_its_circuit() -> None:
    settings = ModelSettings(retries=4, circuit_failures=2)
    roads = Roads(settings, [trouble()] * 4)
    got = await roads.call()
    assert [step for step, *_ in rerouted(got)] == ["opened", "closed"]
    assert isinstance(got[-1], Reply)


async def test_when_all_circuits_are_open_the_one_that_opened_first_is_tried() -> None:
    settings = ModelSettings(retries=0, circuit_failures=1, circuit_seconds=30.0)
    roads = Roads(settings, [trouble()] * 2, [trouble()], [trouble()])
    order = (1, 0, 2)
    for number in order:
        roads.ways[number].circuit.failed(roads.time.now, trouble(), None)
        roads.time.now += 1.0
    roads.speakers[1].errors = []
    got = await roads.call()
    assert roads.asked == "b0"
    assert rerouted(got) == [("skipped", "a/m", "b/m", "overload"), ("closed", "b/m", "", "")]


class Gate:
    """A speaker that answers, or fails, when it is told to."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.error: ModelError | None = None
        self.asked = 0

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        self.asked += 1
        await self.opened.wait()
        if self.error is not None:
            raise self.error
        yield Reply("ok", model="gate")

    async def close(self) -> None:
        """Nothing is held."""


def gated(roads: Roads, number: int) -> Gate:
    """Put a gate in the place of a speaker, behind a circuit whose time is just over."""
    gate = Gate()
    roads.ways[number].circuit.failed(roads.time.now - 30.0, trouble(), None)
    roads.put(number, gate)
    return gate


async def test_one_call_probes_while_the_others_go_elsewhere() -> None:
    settings = ModelSettings(retries=0, circuit_failures=1, circuit_seconds=30.0)
    roads = Roads(settings, [], [])
    gate = gated(roads, 0)
    probing = asyncio.create_task(roads.call())
    while not gate.asked:
        await asyncio.sleep(0)
    others = await asyncio.gather(*(roads.call() for _ in range(20)))
    assert gate.asked == 1
    for got in others:
        assert got[-1] == Reply("half", usage=USED, model="b/m")
        assert isinstance(got[0], RoutingEvent)
        assert got[0].step == "skipped"
    gate.opened.set()
    assert rerouted(await probing) == [("closed", "a/m", "", "")]


@pytest.mark.parametrize("works", [True, False])
async def test_the_others_wait_for_the_probe_where_there_is_nowhere_else(works: bool) -> None:
    settings = ModelSettings(retries=0, circuit_failures=1, circuit_seconds=30.0)
    roads = Roads(settings, [])
    gate = gated(roads, 0)
    calls = [asyncio.create_task(roads.call()) for _ in range(20)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert gate.asked == 1
    gate.error = None if works else trouble()
    gate.opened.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert gate.asked == 20
    assert all(isinstance(result, ModelError) != works for result in results)


async def test_a_thousand_calls_at_once_are_all_answered() -> None:
    settings = ModelSettings(circuit_failures=3, retries=2)
    roads = Roads(settings, [trouble("rate_limit"), trouble("timeout")] * 20, [], keys=[2, 1])
    for result in await asyncio.gather(*(roads.call() for _ in range(1000))):
        assert [isinstance(chunk, Reply) for chunk in result].count(True) == 1
        assert isinstance(result[-1], Reply)
    assert all(speaker.left for speaker in roads.speakers)
    assert sum(speaker.left for speaker in roads.speakers) == len(roads.log)


# what it costs, and what does not count


PRICED = ModelFacts(rates=(Rates(1.0, 2.0),))


async def test_a_failed_try_that_used_tokens_is_told_with_its_price() -> None:
    used = ModelError("broken_stream", "cut", input=1000, output=500)
    roads = Roads(SETTINGS, [used], facts=[PRICED])
    roads.speakers[0].piece = ""
    got = await roads.call()
    assert got[0] == FailedAttemptUsage("a/m", Usage(1000, 500), 0.002, Usage(1000, 8192))


async def test_where_nobody_counted_the_tokens_what_came_is_counted() -> None:
    roads = Roads(SETTINGS, [ModelError("broken_stream", "cut")])
    roads.speakers[0].piece = "x" * 400
    wasted = (await roads.call())[1]
    assert isinstance(wasted, FailedAttemptUsage)
    assert wasted.usage.output == 100
    assert wasted.usage.input > 0
    assert wasted.cost is None


async def test_a_try_that_brought_nothing_costs_nothing() -> None:
    roads = Roads(SETTINGS, [trouble()])
    roads.speakers[0].piece = ""
    assert not any(isinstance(chunk, FailedAttemptUsage) for chunk in await roads.call())


async def test_what_was_used_is_told_before_the_call_is_given_up_and_not_twice() -> None:
    roads = Roads(SETTINGS, [ModelError("refused", "no", input=10, output=1)])
    stream = roads.model.stream(GO)
    assert [await anext(stream), await anext(stream)] == [
        Delta("ha"),
        FailedAttemptUsage("a/m", Usage(10, 1), None),
    ]
    with pytest.raises(ModelError) as raised:
        await anext(stream)
    assert (raised.value.input, raised.value.output) == (0, 0)


class Odd:
    """A speaker that says too little, or too much."""

    def __init__(self, *said: Chunk) -> None:
        self._said = said

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        for chunk in self._said:
            yield chunk

    async def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize("said", [(), (Delta("half"), Thinking("hm"))])
async def test_a_stream_without_a_reply_is_a_broken_one(said: tuple[Chunk, ...]) -> None:
    roads = Roads(ModelSettings(retries=0), [], [])
    roads.put(0, Odd(*said))
    got = await roads.call()
    assert ("model", "a/m", "b/m", "broken_stream") in rerouted(got)
    assert isinstance(got[-1], Reply)


async def test_one_reply_ends_a_stream_and_says_who_gave_it() -> None:
    roads = Roads(SETTINGS, [])
    roads.put(0, Odd(Reply("one", usage=USED), Reply("two"), Delta("more")))
    assert await roads.call() == [Reply("one", usage=USED, model="a/m")]


# what cannot be


LYING = [
    (Usage(10**30, 5), None, Usage(10_000_000_000, 5), 10_000.00001),
    (Usage(10, 5, 8, 8, 9), 7.0, Usage(10, 5, 8, 2, 5), 2e-05),
    (Usage(0, 0), 0.0, Usage(3, 1), 5e-06),
    (Usage(-9, 7), 0.0, Usage(3, 7), 1.7e-05),
    (Usage(9, 0), 0.0, Usage(9, 1), 1.1e-05),
    (Usage(9, 1), float("nan"), Usage(9, 1), 1.1e-05),
    (Usage(9, 1), float("inf"), Usage(9, 1), 1.1e-05),
    (Usage(9, 1), -3.0, Usage(9, 1), 1.1e-05),
    (Usage(9, 1), 3.0, Usage(9, 1), 3.0),
]


@pytest.mark.parametrize(("said", "told", "usage", "cost"), LYING)
async def test_a_usage_or_a_cost_that_cannot_be_does_not_leave_the_router(
    said: Usage, told: float | None, usage: Usage, cost: float
) -> None:
    roads = Roads(SETTINGS, [], facts=[PRICED])
    roads.put(0, Odd(Reply("half", usage=said, cost=told)))
    (reply,) = await roads.call()
    assert isinstance(reply, Reply)
    assert reply.usage == usage
    assert reply.cost == pytest.approx(cost)


async def test_a_cost_that_was_told_stays_where_no_price_is_known() -> None:
    roads = Roads(SETTINGS, [])
    roads.put(0, Odd(Reply("half", cost=0.5)))
    assert await roads.call() == [Reply("half", usage=USED, model="a/m", cost=0.5)]


async def test_an_answer_that_says_nothing_may_have_no_output() -> None:
    roads = Roads(SETTINGS, [], facts=[PRICED])
    roads.put(0, Odd(Reply("", usage=Usage(9, 0), stop="length")))
    (reply,) = await roads.call()
    assert isinstance(reply, Reply)
    assert reply.usage == Usage(9, 0)


@pytest.mark.parametrize("kind", ["broken_stream", "timeout", "garbage"])
async def test_a_try_whose_price_nobody_can_know_tells_the_most_it_can_be(
    kind: ModelTrouble,
) -> None:
    roads = Roads(SETTINGS, [trouble(kind)], facts=[PRICED])
    roads.speakers[0].piece = ""
    wasted = (await roads.call())[0]
    assert isinstance(wasted, FailedAttemptUsage)
    assert (wasted.usage, wasted.cost) == (Usage(), 0.0)
    assert wasted.most is not None
    assert wasted.most.input >= len("Be briefgo")
    assert wasted.most.output == PRICED.max_output


async def test_the_most_is_as_much_as_was_allowed_and_knows_what_an_image_is() -> None:
    asked = Request(
        Prompt("x" * 1000),
        (UserMessage("see", (Media("image/png", b"x" * 1_000_000),)),),
        max_output=77,
    )
    roads = Roads(SETTINGS, [trouble("timeout")])
    wasted = [c async for c in roads.model.stream(asked) if isinstance(c, FailedAttemptUsage)]
    assert wasted[0].most is not None
    assert 7_000 <= wasted[0].most.input < 12_000
    assert wasted[0].most.output == 77


@pytest.mark.parametrize("kind", ["unreachable", "overload", "rate_limit"])
async def test_a_try_that_was_never_begun_or_was_turned_away_has_no_most(
    kind: ModelTrouble,
) -> None:
    away = trouble("timeout")
    away.turned_away = True
    for error in (trouble(kind), away):
        roads = Roads(SETTINGS, [error], facts=[PRICED])
        roads.speakers[0].piece = ""
        assert not any(isinstance(chunk, FailedAttemptUsage) for chunk in await roads.call())


@pytest.mark.parametrize("asked", [float("nan"), float("inf"), -1.0, 1e300])
async def test_a_pause_that_is_no_time_bars_nobody_for_long(asked: float) -> None:
    kinds: tuple[ModelTrouble, ...] = ("rate_limit", "overload")
    for kind in kinds:
        roads = Roads(ModelSettings(retries=0, circuit_failures=9), [trouble(kind, asked)])
        with pytest.raises(ModelError) as raised:
            await roads.call()
        assert (raised.value.retry_after or 0.0) <= 86_400.0
        roads.time.now += 3600.0
        assert isinstance((await roads.call())[-1], Reply)
