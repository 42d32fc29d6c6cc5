from collections.abc import AsyncIterator

import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import Chunk, Delta, ModelFacts, Reply, Request, Retrying
from hermes_agent.core.settings import ModelSettings
from hermes_agent.models.retry import Retried
from tests.models.helpers import chunks, request

SETTINGS = ModelSettings(retries=3, retry_seconds=1.0, retry_most_seconds=10.0)


class Failing:
    """Says half a word and fails, once for each of the errors; then answers."""

    name = "failing/test"
    facts = ModelFacts()

    def __init__(self, *errors: ModelError) -> None:
        self._errors = list(errors)
        self.closed = 0
        self.streams_left = 0

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        try:
            yield Delta("ha")
            if self._errors:
                raise self._errors.pop(0)
            yield Reply("half")
        finally:
            self.streams_left += 1

    async def close(self) -> None:
        self.closed += 1


class Pauses(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def retried(model: Failing, settings: ModelSettings = SETTINGS, chance: float = 1.0):
    pauses = Pauses()
    return Retried(model, settings, sleep=pauses, random=lambda: chance), pauses


def overload() -> ModelError:
    return ModelError("overload", "too busy", "later")


async def test_passing_trouble_is_tried_again_with_doubling_pauses() -> None:
    model, pauses = retried(Failing(overload(), overload(), overload()))
    got = await chunks(model, request("go"))
    assert got[1] == Retrying("overload", "too busy", 1, 1.0)
    assert [c.attempt for c in got if isinstance(c, Retrying)] == [1, 2, 3]
    assert got[-1] == Reply("half")
    assert pauses == [1.0, 2.0, 4.0]


async def test_jitter_shortens_a_pause_by_up_to_a_half() -> None:
    model, pauses = retried(Failing(overload(), overload()), chance=0.0)
    await chunks(model, request("go"))
    assert pauses == [0.5, 1.0]


async def test_pauses_do_not_grow_beyond_the_most() -> None:
    settings = ModelSettings(retries=6, retry_seconds=4.0, retry_most_seconds=10.0)
    model, pauses = retried(Failing(*[overload() for _ in range(4)]), settings)
    await chunks(model, request("go"))
    assert pauses == [4.0, 8.0, 10.0, 10.0]


async def test_the_last_failure_is_raised_with_the_number_of_tries() -> None:
    model, pauses = retried(Failing(*[overload() for _ in range(9)]))
    with pytest.raises(ModelError, match=r"too busy \(given up after 4 tries\)") as raised:
        await chunks(model, request("go"))
    assert (raised.value.kind, raised.value.hint) == ("overload", "later")
    assert len(pauses) == 3


async def test_trouble_that_stays_is_raised_at_once() -> None:
    model, pauses = retried(Failing(ModelError("auth", "bad key")))
    with pytest.raises(ModelError, match=r"^bad key$"):
        await chunks(model, request("go"))
    assert pauses == []


@pytest.mark.parametrize(("asked", "slept"), [(0.0, 0.0), (5.0, 5.0), (10.0, 10.0)])
async def test_a_pause_the_service_names_is_honoured(asked: float, slept: float) -> None:
    error = ModelError("rate_limit", "slow down", retry_after=asked)
    model, pauses = retried(Failing(error), chance=0.0)
    assert (await chunks(model, request("go")))[-1] == Reply("half")
    assert pauses == [slept]


async def test_a_service_is_never_asked_sooner_than_it_said() -> None:
    model, pauses = retried(Failing(ModelError("rate_limit", "slow", retry_after=5.0)), chance=1.0)
    await chunks(model, request("go"))
    assert 5.0 < pauses[0] <= 5.5


async def test_a_service_that_asks_for_too_long_a_pause_is_given_up() -> None:
    model, pauses = retried(Failing(ModelError("rate_limit", "slow down", retry_after=10.5)))
    with pytest.raises(ModelError, match="slow down") as raised:
        await chunks(model, request("go"))
    assert raised.value.retry_after == 10.5
    assert pauses == []


async def test_a_listener_that_leaves_early_closes_the_stream_below() -> None:
    failing = Failing()
    model, _ = retried(failing)
    stream = model.stream(request("go"))
    await anext(stream)
    await stream.aclose()
    assert failing.streams_left == 1


async def test_name_facts_and_closing_are_the_models_own() -> None:
    failing = Failing()
    model, _ = retried(failing)
    assert (model.name, model.facts) == (failing.name, failing.facts)
    await model.close()
    assert failing.closed == 1
