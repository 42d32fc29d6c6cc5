"""A model made of several: what one cannot answer, the next is asked, and every step is told."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    Chunk,
    Delta,
    ModelFacts,
    Reply,
    Request,
    RoutingEvent,
    Thinking,
)
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.models.routing.circuit_breaker import Probe
from hermes_agent.models.routing.credential_pool import LeasedCredential
from hermes_agent.models.routing.failover import Candidate, CandidateState, FailoverPlan
from hermes_agent.models.shared import believable, sensible_pause, wasted

Sleep = Callable[[float], Awaitable[None]]

KEY_TROUBLE = ("rate_limit", "quota", "auth")
"""What a service may hold against one key and not against another."""


class FallbackModel:
    """The first of the ways, as long as it answers. The ways belong to whoever made them and are
    closed there; any number of calls may run at the same time."""

    def __init__(
        self,
        ways: Sequence[Candidate],
        settings: ModelSettings,
        *,
        clock: Clock = time.time,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._ways = tuple(ways)
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._random = random

    @property
    def name(self) -> str:
        return self._ways[0].name

    @property
    def facts(self) -> ModelFacts:
        return self._ways[0].facts

    @property
    def ways(self) -> Mapping[str, ModelFacts]:
        return {way.name: way.facts for way in self._ways}

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        trip = FailoverPlan(self._ways, self._settings, self._random)
        reply: Reply | None = None
        while reply is None:
            if (other := trip.probe_to_wait_for(self._clock())) is not None:
                await other.ended()
            step = trip.next(self._clock())
            for told in step.told:
                yield told
            visit = step.visit
            if step.pause is not None:
                await self._sleep(step.pause)
                visit = trip.after_pause(visit, self._clock())
            now, way = self._clock(), visit.way
            anyway = not way.is_usable(now)
            # From the choice to here nobody else has had a turn: only one call gets the probe.
            probe = way.circuit.enter(now)
            try:
                for told in trip.going(visit, now):
                    yield told
                async with aclosing(self._ask(trip, visit, request, probe, anyway)) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, Reply):
                            reply = chunk
                        else:
                            yield chunk
            finally:
                way.circuit.leave(probe)
        yield reply

    async def close(self) -> None:
        """Nothing is held here."""

    async def _ask(
        self,
        trip: FailoverPlan,
        visit: CandidateState,
        request: Request,
        probe: Probe | None,
        anyway: bool,
    ) -> AsyncGenerator[Chunk, None]:
        """One try, which brings the reply or is noted as failed."""
        way = visit.way
        asked = _fitting(request, way.facts)
        leased: LeasedCredential | None = None
        pieces: list[str] = []
        reply: Reply | None = None
        try:
            leased = await way.pool.lease(way.name, anyway=anyway)
            if leased is None:
                return  # other calls have used the last key up just now: choose again
            if (change := trip.key_change(visit, leased)) is not None:
                yield change
            visit.leased = leased
            stream = way.client.stream(asked, leased.credential)
            try:
                async for chunk in stream:
                    if isinstance(chunk, Delta | Thinking):
                        pieces.append(chunk.text)
                    elif isinstance(chunk, Reply):
                        reply = chunk
                        break
                    yield chunk
            finally:
                # A listener that leaves early must not leave the connection behind.
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()
            if reply is None:
                raise ModelError("broken_stream", f"{way.name} ended without a reply")
        except ModelError as error:
            error.retry_after = sensible_pause(error.retry_after)
            if leased is not None:
                lost = wasted(way.name, asked, way.facts, error, "".join(pieces))
                if lost is not None:
                    yield lost
            if (change := await self._note(trip, visit, leased, error, probe)) is not None:
                yield change
            return
        way.pool.answered(leased)
        if way.circuit.answered():
            yield RoutingEvent("closed", way.name, reason="it answers again")
        known = believable(reply, asked, way.facts)
        yield known if known.model else replace(known, model=way.name)

    async def _note(
        self,
        trip: FailoverPlan,
        visit: CandidateState,
        leased: LeasedCredential | None,
        error: ModelError,
        probe: Probe | None,
    ) -> RoutingEvent | None:
        """Keep a failure where it is to be kept; what that did to the circuit is to be told."""
        way, another_key = visit.way, False
        if leased is not None and error.kind in KEY_TROUBLE:
            another_key = await way.pool.failed(leased, way.name, error)
        trip.failed(visit, error, another_key=another_key)
        if leased is None:
            return None  # nobody was asked
        if not error.passing:
            if way.circuit.answered():
                return RoutingEvent("closed", way.name, kind=error.kind, reason="it answers again")
        elif not another_key:
            seconds = way.circuit.failed(self._clock(), error, probe)
            if seconds is not None:
                reason = f"it failed; left alone for {seconds:g} s"
                return RoutingEvent("opened", way.name, kind=error.kind, reason=reason)
        return None


def _fitting(request: Request, facts: ModelFacts) -> Request:
    """What was asked of another model may be more than this one can write."""
    if request.max_output is None or request.max_output <= facts.max_output:
        return request
    return replace(request, max_output=facts.max_output)
