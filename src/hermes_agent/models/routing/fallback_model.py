"""A model with fallbacks: when one cannot answer, the next is asked; each step is an event."""

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
"""Errors that concern one key, not the model."""


class FallbackModel:
    """The first candidate, as long as it answers. Whoever made the candidates closes them. Any
    number of calls may run at the same time."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        settings: ModelSettings,
        *,
        clock: Clock = time.time,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._candidates = tuple(candidates)
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._random = random

    @property
    def name(self) -> str:
        return self._candidates[0].name

    @property
    def facts(self) -> ModelFacts:
        return self._candidates[0].facts

    @property
    def ways(self) -> Mapping[str, ModelFacts]:
        return {candidate.name: candidate.facts for candidate in self._candidates}

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        plan = FailoverPlan(self._candidates, self._settings, self._random)
        reply: Reply | None = None
        while reply is None:
            if (probe := plan.probe_to_wait_for(self._clock())) is not None:
                await probe.ended()
            attempt = plan.next(self._clock())
            for event in attempt.events:
                yield event
            state = attempt.state
            if attempt.pause is not None:
                await self._sleep(attempt.pause)
                state = plan.after_pause(state, self._clock())
            now, candidate = self._clock(), state.candidate
            anyway = not candidate.is_usable(now)
            # No await since the choice: only one call gets the probe.
            probe = candidate.circuit.enter(now)
            try:
                for event in plan.going(state, now):
                    yield event
                async with aclosing(self._ask(plan, state, request, probe, anyway)) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, Reply):
                            reply = chunk
                        else:
                            yield chunk
            finally:
                candidate.circuit.leave(probe)
        yield reply

    async def close(self) -> None:
        """Nothing to close."""

    async def _ask(
        self,
        plan: FailoverPlan,
        state: CandidateState,
        request: Request,
        probe: Probe | None,
        anyway: bool,
    ) -> AsyncGenerator[Chunk, None]:
        """One try: yields the reply, or records the failure."""
        candidate = state.candidate
        asked = _fitting(request, candidate.facts)
        leased: LeasedCredential | None = None
        pieces: list[str] = []
        reply: Reply | None = None
        try:
            leased = await candidate.pool.lease(candidate.name, anyway=anyway)
            if leased is None:
                return  # another call has just used up the last key: choose again
            if (change := plan.key_change(state, leased)) is not None:
                yield change
            state.leased = leased
            stream = candidate.client.stream(asked, leased.credential)
            try:
                async for chunk in stream:
                    if isinstance(chunk, Delta | Thinking):
                        pieces.append(chunk.text)
                    elif isinstance(chunk, Reply):
                        reply = chunk
                        break
                    yield chunk
            finally:
                # A consumer that stops early must not leave the connection open.
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()
            if reply is None:
                raise ModelError("broken_stream", f"{candidate.name} ended without a reply")
        except ModelError as error:
            error.retry_after = sensible_pause(error.retry_after)
            if leased is not None:
                lost = wasted(candidate.name, asked, candidate.facts, error, "".join(pieces))
                if lost is not None:
                    yield lost
            if (change := await self._note(plan, state, leased, error, probe)) is not None:
                yield change
            return
        candidate.pool.answered(leased)
        if candidate.circuit.answered():
            yield RoutingEvent("closed", candidate.name, reason="it works again")
        known = believable(reply, asked, candidate.facts)
        yield known if known.model else replace(known, model=candidate.name)

    async def _note(
        self,
        plan: FailoverPlan,
        state: CandidateState,
        leased: LeasedCredential | None,
        error: ModelError,
        probe: Probe | None,
    ) -> RoutingEvent | None:
        """Record a failure; returns the event if that opened or closed the circuit."""
        candidate, another_key = state.candidate, False
        if leased is not None and error.kind in KEY_TROUBLE:
            another_key = await candidate.pool.failed(leased, candidate.name, error)
        plan.failed(state, error, another_key=another_key)
        if leased is None:
            return None  # no request was sent
        if not error.passing:
            if candidate.circuit.answered():
                return RoutingEvent(
                    "closed", candidate.name, kind=error.kind, reason="it works again"
                )
        elif not another_key:
            seconds = candidate.circuit.failed(self._clock(), error, probe)
            if seconds is not None:
                reason = f"it failed; skipped for {seconds:g} s"
                return RoutingEvent("opened", candidate.name, kind=error.kind, reason=reason)
        return None


def _fitting(request: Request, facts: ModelFacts) -> Request:
    """The request, with no more output than this model can write."""
    if request.max_output is None or request.max_output <= facts.max_output:
        return request
    return replace(request, max_output=facts.max_output)
