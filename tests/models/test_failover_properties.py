"""Whatever fails, in whatever order: a call ends, and what it did is what it said it did."""

import asyncio
from collections.abc import AsyncIterator
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.messages import (
    Chunk,
    Delta,
    FailedAttemptUsage,
    ModelFacts,
    Reply,
    Request,
    RetryEvent,
    RoutingEvent,
)
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.models.wires.base import Credential
from tests.support.failing_models import GO, Asked, Failing, Roads

KINDS: tuple[ModelTrouble, ...] = get_args(ModelTrouble)
MAX_COUNT = 8.0

errors = st.builds(
    lambda kind, after: ModelError(kind, f"{kind}!", retry_after=after),
    # Twice as often what passes: it is what makes a call go on.
    st.sampled_from((*KINDS, "rate_limit", "overload", "timeout", "broken_stream", "garbage")),
    st.one_of(
        st.none(), st.none(), st.sampled_from((0.0, 0.5, 1.9, 3.0, MAX_COUNT, MAX_COUNT + 1, 100.0))
    ),
)


@st.composite
def roads(draw: st.DrawFn) -> Roads:
    ways = draw(st.integers(1, 4))
    made = Roads(
        ModelSettings(
            retries=draw(st.integers(0, 4)),
            retry_seconds=draw(st.sampled_from((0.0, 1.0, 3.0))),
            retry_most_seconds=MAX_COUNT,
            circuit_failures=draw(st.integers(1, 4)),
            circuit_seconds=draw(st.sampled_from((1.0, 30.0))),
        ),
        *(draw(st.lists(errors, max_size=8)) for _ in range(ways)),
        keys=[draw(st.integers(1, 3)) for _ in range(ways)],
        chance=draw(st.floats(0, 1)),
        facts=[ModelFacts(context=draw(st.sampled_from((10, 20)))) for _ in range(ways)],
    )
    for speaker in made.speakers:
        speaker.seconds = draw(st.sampled_from((0.0, 0.5, 20.0)))
    return made


class Watch:
    """Looks on each time that a speaker is asked, and keeps what it answered."""

    def __init__(self, roads: Roads) -> None:
        self.roads = roads
        self.answers: list[ModelError | None] = []
        self.out: set[str] = set()
        """Ways that are not to be asked again in this call."""
        self.since = 0
        """Where the call began in the log."""
        self._bound: dict[tuple[str, str], float] = {}
        for number, speaker in enumerate(roads.speakers):
            roads.put(number, Watched(self, speaker))

    def asked(self, asked: Asked) -> None:
        for who in (asked.key, ""):
            assert asked.at >= self._bound.get((asked.model, who), 0.0), "sooner than was asked for"
        assert asked.model not in self.out
        way = next(way for way in self.roads.ways if way.name == asked.model)
        resting = {
            rest.label for rest in way.pool.resting(asked.at) if rest.model in ("", asked.model)
        }
        if asked.key in resting:
            labels = {key.label for keys in self.roads.keys for key in keys}
            mine = {label for label in labels if label[0] == asked.key[0]}
            assert mine == resting, "another key of the same way did not rest"
        if asked.key in resting or way.circuit.state(asked.at) == "open":
            before = {one.model for one in self.roads.log[self.since : -1]}
            for other in self.roads.ways:
                spare = other is not way and other.name not in before | self.out
                assert not (spare and other.is_usable(asked.at)), f"{other.name} was there"

    def answered(self, asked: Asked, error: ModelError | None) -> None:
        self.answers.append(error)
        if error is None:
            return
        now = self.roads.time.now
        if error.passing and error.retry_after is not None:
            who = asked.key if error.kind == "rate_limit" else ""
            known = self._bound.get((asked.model, who), 0.0)
            self._bound[asked.model, who] = max(known, now + error.retry_after)
        if error.kind == "bad_request":
            self.out.add(asked.model)
        if error.kind == "context_too_long":
            window = next(w.facts.context for w in self.roads.ways if w.name == asked.model)
            self.out |= {w.name for w in self.roads.ways if w.facts.context <= window}


class Watched:
    def __init__(self, watch: Watch, speaker: Failing) -> None:
        self._watch = watch
        self._speaker = speaker

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        error = self._speaker.errors[0] if self._speaker.errors else None
        begun = False
        try:
            async for chunk in self._speaker.stream(request, credential):
                if not begun:
                    begun = True
                    asked = self._speaker.log[-1]
                    self._watch.asked(asked)
                if isinstance(chunk, Reply):
                    self._watch.answered(asked, error)
                yield chunk
        except ModelError:
            self._watch.answered(asked, error)
            raise

    async def close(self) -> None:
        """Nothing is held."""


async def call(roads: Roads) -> tuple[list[Chunk], ModelError | None]:
    got: list[Chunk] = []
    try:
        async for chunk in roads.model.stream(GO):
            got.append(chunk)  # noqa: PERF401  what came before the error counts
    except ModelError as error:
        return got, error
    return got, None


def check_told(got: list[Chunk], asks: list[Asked]) -> None:
    """Walk through what was told: each try (it begins with a piece) is the one that was said."""
    left = list(asks)
    now: Asked | None = None
    model, key, again = "", "", True
    skipped: set[str] = set()
    for chunk in got:
        match chunk:
            case RetryEvent():
                again = True
            case RoutingEvent(step="key", model=name, to=to):
                assert now is not None
                assert name == now.model
                key, again = to, True
            case RoutingEvent(step="model", model=name, to=to):
                assert now is not None
                assert name == now.model != to
                model, again = to, True
            case RoutingEvent(step="skipped", model=name):
                assert name not in skipped | {one.model for one in asks[: len(asks) - len(left)]}
                skipped.add(name)
            case Delta():
                assert again, "a try that was not told"
                before, now = now, left.pop(0)
                if before is not None:
                    assert now.model == (model or before.model)
                    if not model:
                        assert now.key == (key or before.key)
                model, key, again = "", "", False
    assert not left, "tries that brought nothing to light"


def check(roads: Roads, watch: Watch, got: list[Chunk], error: ModelError | None) -> None:
    asks, answers = roads.log[watch.since :], watch.answers[watch.since :]
    replies = [chunk for chunk in got if isinstance(chunk, Reply)]
    assert len(replies) == (error is None)
    if error is None:
        assert got[-1] is replies[0]
        assert replies[0].model == asks[-1].model
        assert answers[-1] is None
    else:
        told = {one.kind for one in answers if one is not None}
        assert error.kind in told or not asks
        if len({ask.model for ask in asks}) > 1:
            assert all(ask.model in error.message for ask in asks)
    assert [one is None for one in answers].count(True) == len(replies), "an answer was lost"
    assert len([c for c in got if isinstance(c, FailedAttemptUsage)]) == len(asks) - len(replies)
    assert all(0.0 <= pause <= MAX_COUNT for pause in roads.time.pauses)
    most = sum(2 * len(keys) + 3 for keys in roads.keys) + 4
    assert len(asks) <= most
    assert all(way.circuit.probe is None for way in roads.ways)
    check_told(got, asks)


@settings(max_examples=300, deadline=None)
@given(roads(), st.lists(st.sampled_from((0.0, 1.0, 31.0, 700.0)), min_size=1, max_size=4))
def test_every_call_ends_with_one_reply_or_one_error_and_keeps_the_rules(
    roads: Roads, gaps: list[float]
) -> None:
    async def calls() -> None:
        watch = Watch(roads)
        for gap in gaps:
            roads.time.now += gap
            roads.time.pauses.clear()
            watch.since, watch.out = len(roads.log), set()
            got, error = await call(roads)
            check(roads, watch, got, error)
        assert len(watch.answers) == len(roads.log)

    asyncio.run(calls())


@settings(max_examples=60, deadline=None)
@given(roads())
def test_calls_at_the_same_time_each_end_with_one_reply_or_one_error(roads: Roads) -> None:
    async def calls() -> None:
        results = await asyncio.gather(*(call(roads) for _ in range(20)))
        for got, error in results:
            replies = [chunk for chunk in got if isinstance(chunk, Reply)]
            assert len(replies) == (error is None)
            assert error is not None or got[-1] is replies[0]
        assert sum(speaker.left for speaker in roads.speakers) == len(roads.log)
        assert all(way.circuit.probe is None for way in roads.ways)

    asyncio.run(calls())
