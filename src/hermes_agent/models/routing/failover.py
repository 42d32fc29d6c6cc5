"""The decisions of one call that several models can answer: which one to ask next, and when."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import Chunk, ModelFacts, RetryEvent, RoutingEvent
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.models.routing.circuit_breaker import CircuitBreaker, Probe
from hermes_agent.models.routing.credential_pool import CredentialPool, LeasedCredential
from hermes_agent.models.wires.base import WireClient

SHORT_SECONDS = 2.0
"""A pause this short is better than to ask another model, whose cache is cold."""


class Candidate(Struct, frozen=True):
    """One model and what it takes to ask it. Pools and circuits are shared with other calls."""

    name: str
    facts: ModelFacts
    client: WireClient
    pool: CredentialPool
    circuit: CircuitBreaker

    def is_usable(self, now: float) -> bool:
        return self.circuit.admits(now) and self.pool.is_free(self.name, now)

    def bound(self, now: float) -> tuple[float, ModelError | None]:
        """When it may be asked at all, and why not now. A service's own `retry-after` is kept."""
        until, trouble = self.pool.bound(self.name, now)
        if self.circuit.held_until > until:
            return self.circuit.held_until, self.circuit.trouble
        return until, trouble


class CandidateState:
    """What one call knows about a candidate."""

    def __init__(self, candidate: Candidate, number: int) -> None:
        self.candidate = candidate
        self.number = number
        self.tries = 0
        self.error: ModelError | None = None
        self.leased: LeasedCredential | None = None
        """The credential of the latest try."""
        self.is_out = False
        """Do not ask it again in this call."""
        self.has_another_key = False
        self.key_steps = 0
        self.was_repeated = False
        self.was_skipped = False


class Attempt(NamedTuple):
    state: CandidateState
    pause: float | None = None
    events: tuple[Chunk, ...] = ()


class FailoverPlan:
    def __init__(
        self, candidates: Sequence[Candidate], settings: ModelSettings, random: Callable[[], float]
    ) -> None:
        self._states = [
            CandidateState(candidate, number) for number, candidate in enumerate(candidates)
        ]
        self._settings = settings
        self._random = random
        self._tries = 0
        self._retries = 0
        self._first: CandidateState | None = None
        self._last: CandidateState | None = None
        self._final: ModelError | None = None
        self._has_waited = False

    def probe_to_wait_for(self, now: float) -> Probe | None:
        """The probe of another call, if nothing else is left to ask. Returned once."""
        left = self._left()
        if self._has_waited or any(state.candidate.is_usable(now) for state in left):
            return None
        probes = [
            state.candidate.circuit.probe for state in left if state.candidate.bound(now)[0] <= now
        ]
        probe = next((probe for probe in probes if probe is not None), None)
        self._has_waited = probe is not None
        return probe

    def next(self, now: float) -> Attempt:
        """The next try. Raises the error of the whole call when there is none."""
        if self._final is not None:
            raise self._given_up(self._final)
        last, fresh = self._last, self._fresh(now)
        if last is not None and not last.is_out:
            if last.has_another_key and self._may_go_on(last.candidate, fresh, now):
                last.has_another_key = False
                last.key_steps += 1
                return Attempt(last)
            if fresh is not None and not last.was_repeated:
                pause = self._short_pause(last, now)
                if pause is not None:
                    last.was_repeated = True
                    return Attempt(last, pause, (self._retrying(last.error, pause),))
        return Attempt(fresh) if fresh is not None else self._again(now)

    def after_pause(self, chosen: CandidateState, now: float) -> CandidateState:
        """The candidate to ask now: after a pause, another one may be usable."""
        if chosen.candidate.is_usable(now):
            return chosen
        usable = [state for state in self._left() if state.candidate.is_usable(now)]
        return min(usable, key=lambda state: (state.tries, state.number), default=chosen)

    def going(self, state: CandidateState, now: float) -> list[Chunk]:
        """Events to emit before a candidate is asked: what it replaces, and what was skipped."""
        events: list[Chunk] = []
        for other in self._states[: state.number]:
            if not (other.tries or other.is_out or other.was_skipped):
                other.was_skipped = True
                events.append(_skipped(other.candidate, state.candidate, now))
        last = self._last
        if last is not None and last is not state:
            assert last.error is not None
            name, error = last.candidate.name, last.error
            events.append(
                RoutingEvent("model", name, state.candidate.name, error.kind, error.message)
            )
        return events

    def key_change(self, state: CandidateState, leased: LeasedCredential) -> RoutingEvent | None:
        """The event to emit when the candidate that failed is asked with another credential."""
        before = state.leased
        if self._last is not state or before is None or before.credential == leased.credential:
            return None
        assert state.error is not None
        name, error = state.candidate.name, state.error
        return RoutingEvent("key", name, leased.credential.label, error.kind, error.message)

    def failed(self, state: CandidateState, error: ModelError, *, another_key: bool) -> None:
        self._tries += 1
        state.tries += 1
        state.error = error
        self._first = self._first or state
        self._last = state
        # A source that has a new key each time must come to an end too.
        state.has_another_key = another_key and state.key_steps < 2 * len(state.candidate.pool)
        if error.kind == "refused":
            self._final = error  # no shopping around for a model that minds less
        elif error.kind == "context_too_long":
            for other in self._states:
                if other.candidate.facts.context <= state.candidate.facts.context:
                    other.is_out = True
        elif not error.passing:
            state.is_out = not state.has_another_key

    # choosing

    def _may_go_on(self, candidate: Candidate, fresh: CandidateState | None, now: float) -> bool:
        """Whether to try another key of the same model: other calls change its state too."""
        return candidate.pool.is_free(candidate.name, now) and (
            fresh is None or candidate.circuit.admits(now)
        )

    def _left(self) -> list[CandidateState]:
        return [state for state in self._states if not state.is_out]

    def _fresh(self, now: float) -> CandidateState | None:
        return next((v for v in self._left() if not v.tries and v.candidate.is_usable(now)), None)

    def _again(self, now: float) -> Attempt:
        """Every usable candidate was asked: pause and ask again, or ask one that is cooling down.
        Only a service's own `retry-after` keeps us from the last resort."""
        left = [state for state in self._left() if not self._is_given_up(state, now)]
        if not left:
            raise self._given_up(self._error())
        best = min(left, key=lambda state: self._rank(state, now))
        bound, _ = best.candidate.bound(now)
        if not best.tries and bound <= now:
            return Attempt(best)
        if self._retries >= self._settings.retries:
            unasked = [v for v in left if not v.tries and v.candidate.bound(now)[0] <= now]
            if not unasked:
                for state in left:
                    _note_bound(state, now)
                raise self._given_up(self._error())
            return Attempt(min(unasked, key=lambda state: self._rank(state, now)))
        self._retries += 1
        error = best.error or best.candidate.bound(now)[1]
        pause = self._pause(best, now)
        return Attempt(best, pause, (self._retrying(error, pause),))

    def _rank(self, state: CandidateState, now: float) -> tuple[float, int, int, float, int]:
        candidate = state.candidate
        rank = 0
        if not candidate.circuit.admits(now):
            rank = 1
        elif not candidate.pool.is_free(candidate.name, now):
            rank = 2
        bound, _ = candidate.bound(now)
        return bound, rank, state.tries, candidate.circuit.opened or 0.0, state.number

    def _is_given_up(self, state: CandidateState, now: float) -> bool:
        """Whether its service asks for a longer pause than we make."""
        if self._asked_for(state, now) <= self._settings.retry_most_seconds:
            return False
        _note_bound(state, now)
        return True

    # pauses

    def _asked_for(self, state: CandidateState, now: float) -> float:
        """Seconds that its service still asks us to wait."""
        remaining = state.candidate.bound(now)[0] - now
        if state is self._last and state.error is not None and state.error.passing:
            # Exact, not the difference of two large numbers.
            return max(remaining, state.error.retry_after or 0.0)
        return remaining

    def _short_pause(self, state: CandidateState, now: float) -> float | None:
        error = state.error
        if error is None or not error.passing or not self._settings.retries:
            return None
        if error.kind == "timeout" or (error.kind == "rate_limit" and error.retry_after is None):
            return None  # it took long, or will take unknown time, and there are other candidates
        if state.candidate.circuit.state(now) != "closed":
            return None
        pause = self._pause(state, now)
        return pause if pause < SHORT_SECONDS else None

    def _pause(self, state: CandidateState, now: float) -> float:
        most = self._settings.retry_most_seconds
        asked = self._asked_for(state, now)
        named = state.error is not None and state.error.retry_after is not None
        if asked > 0 or named:
            # Never sooner than asked; a little later, so that sessions do not return all at once.
            return max(asked, min(asked * (1 + self._random() / 10), most))
        doubled = self._settings.retry_seconds * 2.0 ** max(0, self._retries - 1)
        return min(doubled, most) * (0.5 + self._random() / 2)

    def _retrying(self, error: ModelError | None, pause: float) -> RetryEvent:
        assert error is not None
        return RetryEvent(error.kind, error.message, self._tries, pause)

    # giving up

    def _error(self) -> ModelError:
        """The error of the whole call: `context_too_long` if any, since the conversation can be
        shortened; else that of the model that was asked first."""
        errors = [state.error for state in self._states if state.error is not None]
        for error in errors:
            if error.kind == "context_too_long":
                return error
        if self._first is not None and self._first.error is not None:
            return self._first.error
        return errors[0]

    def _given_up(self, error: ModelError) -> ModelError:
        """The error, with every model that was asked and why it failed."""
        message = error.message
        several = any(state.error not in (None, error) for state in self._states)
        if several or self._tries > 1:
            tries = "1 try" if self._tries == 1 else f"{self._tries} tries"
            message += f" (given up after {tries}{self._account() if several else ''})"
        # Each try has reported its usage; the error must not repeat it.
        return ModelError(error.kind, message, error.hint, error.retry_after)

    def _account(self) -> str:
        said: list[str] = []
        for state in self._states:
            if state.tries and state.error is not None:
                often = f" ({state.tries} times)" if state.tries > 1 else ""
                said.append(f"{state.candidate.name}: {state.error.kind}{often}")
            elif state.error is not None:
                said.append(f"{state.candidate.name}: not tried, {state.error.kind}")
        return ": " + ", ".join(said)


def _note_bound(state: CandidateState, now: float) -> None:
    """Record why a candidate was not asked: what its service said to another call."""
    until, trouble = state.candidate.bound(now)
    if state.error is None and trouble is not None:
        state.error = ModelError(trouble.kind, trouble.message, trouble.hint, round(until - now, 3))


def _skipped(candidate: Candidate, instead: Candidate, now: float) -> RoutingEvent:
    circuit = candidate.circuit
    if circuit.admits(now):
        trouble, reason = candidate.pool.bound(candidate.name, now)[1], "its keys are cooling down"
    else:
        trouble, seconds = circuit.trouble, max(circuit.until, circuit.held_until) - now
        reason = f"it failed; skipped for {seconds:.0f} s"
        if seconds <= 0:
            reason = "another call is testing whether it works again"
    return RoutingEvent(
        "skipped", candidate.name, instead.name, trouble.kind if trouble else "", reason
    )
