"""The decisions of one call over several ways to have it answered: whom to ask next, and when."""

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
"""A pause this short is worth it though another model could be asked: its cache is cold."""


class Candidate(Struct, frozen=True):
    """One model and all that is needed to ask it. Pools and circuits are shared with others."""

    name: str
    facts: ModelFacts
    client: WireClient
    pool: CredentialPool
    circuit: CircuitBreaker

    def is_usable(self, now: float) -> bool:
        return self.circuit.admits(now) and self.pool.is_free(self.name, now)

    def bound(self, now: float) -> tuple[float, ModelError | None]:
        """When it may be asked at all, and why not now: what a service asked for is kept."""
        until, trouble = self.pool.bound(self.name, now)
        if self.circuit.held_until > until:
            return self.circuit.held_until, self.circuit.trouble
        return until, trouble


class CandidateState:
    """What one call has seen of a way."""

    def __init__(self, way: Candidate, number: int) -> None:
        self.way = way
        self.number = number
        self.tries = 0
        self.error: ModelError | None = None
        self.leased: LeasedCredential | None = None
        """What went out with the latest try."""
        self.is_out = False
        """Not to be asked again in this call."""
        self.has_another_key = False
        self.key_steps = 0
        self.was_repeated = False
        self.was_skipped = False


class Attempt(NamedTuple):
    visit: CandidateState
    pause: float | None = None
    told: tuple[Chunk, ...] = ()


class FailoverPlan:
    def __init__(
        self, ways: Sequence[Candidate], settings: ModelSettings, random: Callable[[], float]
    ) -> None:
        self._visits = [CandidateState(way, number) for number, way in enumerate(ways)]
        self._settings = settings
        self._random = random
        self._tries = 0
        self._retries = 0
        self._first: CandidateState | None = None
        self._last: CandidateState | None = None
        self._final: ModelError | None = None
        self._has_waited = False

    def probe_to_wait_for(self, now: float) -> Probe | None:
        """Where nothing else is left but a model that another call is just probing: that probe,
        once."""
        left = self._left()
        if self._has_waited or any(visit.way.is_usable(now) for visit in left):
            return None
        probes = [visit.way.circuit.probe for visit in left if visit.way.bound(now)[0] <= now]
        probe = next((probe for probe in probes if probe is not None), None)
        self._has_waited = probe is not None
        return probe

    def next(self, now: float) -> Attempt:
        """The next try; raises the error of the whole call when there is to be none."""
        if self._final is not None:
            raise self._given_up(self._final)
        last, fresh = self._last, self._fresh(now)
        if last is not None and not last.is_out:
            if last.has_another_key and self._may_go_on(last.way, fresh, now):
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
        """Others have gone on meanwhile: a way that can be used goes before one that cannot."""
        if chosen.way.is_usable(now):
            return chosen
        usable = [visit for visit in self._left() if visit.way.is_usable(now)]
        return min(usable, key=lambda visit: (visit.tries, visit.number), default=chosen)

    def going(self, visit: CandidateState, now: float) -> list[Chunk]:
        """What is to be told before a way is asked: whom it replaces, who was passed over."""
        told: list[Chunk] = []
        for other in self._visits[: visit.number]:
            if not (other.tries or other.is_out or other.was_skipped):
                other.was_skipped = True
                told.append(_skipped(other.way, visit.way, now))
        last = self._last
        if last is not None and last is not visit:
            assert last.error is not None
            name, error = last.way.name, last.error
            told.append(RoutingEvent("model", name, visit.way.name, error.kind, error.message))
        return told

    def key_change(self, visit: CandidateState, leased: LeasedCredential) -> RoutingEvent | None:
        """What is to be told when the way that failed is asked with another credential."""
        before = visit.leased
        if self._last is not visit or before is None or before.credential == leased.credential:
            return None
        assert visit.error is not None
        name, error = visit.way.name, visit.error
        return RoutingEvent("key", name, leased.credential.label, error.kind, error.message)

    def failed(self, visit: CandidateState, error: ModelError, *, another_key: bool) -> None:
        self._tries += 1
        visit.tries += 1
        visit.error = error
        self._first = self._first or visit
        self._last = visit
        # A source that gives a new key each time must come to an end too.
        visit.has_another_key = another_key and visit.key_steps < 2 * len(visit.way.pool)
        if error.kind == "refused":
            self._final = error  # nobody is asked in the hope that he minds less
        elif error.kind == "context_too_long":
            for other in self._visits:
                if other.way.facts.context <= visit.way.facts.context:
                    other.is_out = True
        elif not error.passing:
            visit.is_out = not visit.has_another_key

    # choosing

    def _may_go_on(self, way: Candidate, fresh: CandidateState | None, now: float) -> bool:
        """Whether the way with another key is still the next: other calls change it too."""
        return way.pool.is_free(way.name, now) and (fresh is None or way.circuit.admits(now))

    def _left(self) -> list[CandidateState]:
        return [visit for visit in self._visits if not visit.is_out]

    def _fresh(self, now: float) -> CandidateState | None:
        return next((v for v in self._left() if not v.tries and v.way.is_usable(now)), None)

    def _again(self, now: float) -> Attempt:
        """Nobody is left who has not been asked and can be: pause and ask again, or ask one that
        should rest. The last way out is never barred, but for what a service asked for."""
        left = [visit for visit in self._left() if not self._is_given_up(visit, now)]
        if not left:
            raise self._given_up(self._error())
        best = min(left, key=lambda visit: self._rank(visit, now))
        bound, _ = best.way.bound(now)
        if not best.tries and bound <= now:
            return Attempt(best)
        if self._retries >= self._settings.retries:
            unasked = [v for v in left if not v.tries and v.way.bound(now)[0] <= now]
            if not unasked:
                for visit in left:
                    _note_bound(visit, now)
                raise self._given_up(self._error())
            return Attempt(min(unasked, key=lambda visit: self._rank(visit, now)))
        self._retries += 1
        error = best.error or best.way.bound(now)[1]
        pause = self._pause(best, now)
        return Attempt(best, pause, (self._retrying(error, pause),))

    def _rank(self, visit: CandidateState, now: float) -> tuple[float, int, int, float, int]:
        way = visit.way
        rank = 0
        if not way.circuit.admits(now):
            rank = 1
        elif not way.pool.is_free(way.name, now):
            rank = 2
        bound, _ = way.bound(now)
        return bound, rank, visit.tries, way.circuit.opened or 0.0, visit.number

    def _is_given_up(self, visit: CandidateState, now: float) -> bool:
        """Whether its service asks, as things are, for a longer pause than we make."""
        if self._asked_for(visit, now) <= self._settings.retry_most_seconds:
            return False
        _note_bound(visit, now)
        return True

    # pauses

    def _asked_for(self, visit: CandidateState, now: float) -> float:
        """Seconds that its service still wants to be left alone."""
        remaining = visit.way.bound(now)[0] - now
        if visit is self._last and visit.error is not None and visit.error.passing:
            # Just said: not by the difference of two large numbers.
            return max(remaining, visit.error.retry_after or 0.0)
        return remaining

    def _short_pause(self, visit: CandidateState, now: float) -> float | None:
        error = visit.error
        if error is None or not error.passing or not self._settings.retries:
            return None
        if error.kind == "rate_limit" and error.retry_after is None:
            return None  # nobody knows how long; others are there
        if visit.way.circuit.state(now) != "closed":
            return None
        pause = self._pause(visit, now)
        return pause if pause < SHORT_SECONDS else None

    def _pause(self, visit: CandidateState, now: float) -> float:
        most = self._settings.retry_most_seconds
        asked = self._asked_for(visit, now)
        named = visit.error is not None and visit.error.retry_after is not None
        if asked > 0 or named:
            # Never sooner than asked; a little later, or all sessions come back at once.
            return max(asked, min(asked * (1 + self._random() / 10), most))
        doubled = self._settings.retry_seconds * 2.0 ** max(0, self._retries - 1)
        return min(doubled, most) * (0.5 + self._random() / 2)

    def _retrying(self, error: ModelError | None, pause: float) -> RetryEvent:
        assert error is not None
        return RetryEvent(error.kind, error.message, self._tries, pause)

    # giving up

    def _error(self) -> ModelError:
        """The error that stands for all: a conversation that is too long can be shortened; else
        what the model that was asked first said."""
        errors = [visit.error for visit in self._visits if visit.error is not None]
        for error in errors:
            if error.kind == "context_too_long":
                return error
        if self._first is not None and self._first.error is not None:
            return self._first.error
        return errors[0]

    def _given_up(self, error: ModelError) -> ModelError:
        """It names everyone that was asked, and why that failed."""
        message = error.message
        several = any(visit.error not in (None, error) for visit in self._visits)
        if several or self._tries > 1:
            tries = "1 try" if self._tries == 1 else f"{self._tries} tries"
            message += f" (given up after {tries}{self._account() if several else ''})"
        # What the tries used was told with each; the error is not to say it again.
        return ModelError(error.kind, message, error.hint, error.retry_after)

    def _account(self) -> str:
        said: list[str] = []
        for visit in self._visits:
            if visit.tries and visit.error is not None:
                often = f" ({visit.tries} times)" if visit.tries > 1 else ""
                said.append(f"{visit.way.name}: {visit.error.kind}{often}")
            elif visit.error is not None:
                said.append(f"{visit.way.name}: not asked, {visit.error.kind}")
        return ": " + ", ".join(said)


def _note_bound(visit: CandidateState, now: float) -> None:
    """Why a way was not asked in this call: what its service said to another."""
    until, trouble = visit.way.bound(now)
    if visit.error is None and trouble is not None:
        visit.error = ModelError(trouble.kind, trouble.message, trouble.hint, round(until - now, 3))


def _skipped(way: Candidate, instead: Candidate, now: float) -> RoutingEvent:
    circuit = way.circuit
    if circuit.admits(now):
        trouble, reason = way.pool.bound(way.name, now)[1], "its keys rest"
    else:
        trouble, seconds = circuit.trouble, max(circuit.until, circuit.held_until) - now
        reason = f"it failed; left alone for {seconds:.0f} s"
        if seconds <= 0:
            reason = "another call is finding out whether it answers again"
    return RoutingEvent("skipped", way.name, instead.name, trouble.kind if trouble else "", reason)
