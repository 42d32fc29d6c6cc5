"""The credentials of a service: which one goes out, and which rest since they were turned away."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.protocols import Clock
from hermes_agent.models.wires.base import Credential

RATE_SECONDS = 60.0
"""How long a key rests after a rate limit that names no time."""
LEAST_SECONDS = 1.0
"""Even one that may come back at once gives another key the next try."""
MAX_SECONDS = 3600.0
"""A service that asks for more is asked again after this: it may have changed its mind, or have
never meant it."""
QUOTA_SECONDS = 3600.0
AUTH_SECONDS = 600.0

_EVERY_MODEL = ""


class KeySource(Protocol):
    """What a pool needs of a source of keys."""

    @property
    def label(self) -> str: ...

    async def credential(self) -> Credential: ...

    def refused(self) -> None: ...


class CoolingKey(Struct, frozen=True):
    """A key that was turned away, for people to see."""

    label: str
    kind: ModelTrouble
    until: float
    model: str = ""
    """The model it rests for; every one of the service where this is empty."""


class LeasedCredential(NamedTuple):
    """A credential that goes out with a call, and its place in the pool."""

    place: int
    credential: Credential
    rested: bool = False
    """It went out although it should rest, since nothing else was left."""


class _Cooldown(NamedTuple):
    until: float
    bound_until: float
    """Never sooner than this: the service said so."""
    error: ModelError


class AnonymousPool:
    """For a service that wants none."""

    label = ""

    async def credential(self) -> Credential:
        return Credential()

    def refused(self) -> None:
        """There is nothing to look up again."""


class _KeySlot:
    def __init__(self, source: KeySource) -> None:
        self.source = source
        self.current: Credential | None = None
        self.rests: dict[str, _Cooldown] = {}

    def rest(self, model: str, now: float) -> _Cooldown | None:
        """What keeps it from being used for a model now."""
        known = (self.rests.get(_EVERY_MODEL), self.rests.get(model))
        rests = [rest for rest in known if rest is not None and now < rest.until]
        return max(rests, key=lambda rest: rest.bound_until, default=None)

    async def look(self) -> Credential:
        self.current = await self.source.credential()
        return self.current


class CredentialPool:
    """Sticky: the first key that does not rest is used, since prompt caches belong to an account.
    Rate limits are counted by model, so a key rests for that model only; one that was refused or
    has no credit rests for all."""

    def __init__(self, sources: Sequence[KeySource], clock: Clock) -> None:
        self._places = [_KeySlot(source) for source in sources] or [_KeySlot(AnonymousPool())]
        self._clock = clock

    def __len__(self) -> int:
        return len(self._places)

    def is_free(self, model: str, now: float) -> bool:
        return any(place.rest(model, now) is None for place in self._places)

    def bound(self, model: str, now: float) -> tuple[float, ModelError | None]:
        """Where every key rests: until when none may be used at all, and why they rest. A key
        that rests for another reason may be tried if nothing else is left."""
        rests = [rest for place in self._places if (rest := place.rest(model, now)) is not None]
        if len(rests) < len(self._places):
            return now, None
        # A key that was refused is no reason not to wait for a good one.
        soonest = min(
            [rest for rest in rests if rest.error.kind == "rate_limit"] or rests,
            key=lambda rest: (rest.bound_until, rest.until),
        )
        return max(now, soonest.bound_until), soonest.error

    async def lease(self, model: str, *, anyway: bool = False) -> LeasedCredential | None:
        """The first key that does not rest; None when there is none, unless one is wanted
        `anyway`. Raises the `ModelError` of a key that cannot be had where no other can be."""
        trouble: ModelError | None = None
        for number, place in self._in_order(model):
            rested = place.rest(model, self._clock()) is not None
            if rested and not anyway:
                break
            try:
                return LeasedCredential(number, await place.look(), rested)
            except ModelError as error:
                if not error.passing:
                    place.rests[_EVERY_MODEL] = self._rest(error)
                trouble = trouble or error
        if trouble is not None:
            raise trouble
        return None

    def answered(self, leased: LeasedCredential) -> None:
        """A key that was used although it should rest was good after all."""
        if leased.rested:
            place, now = self._places[leased.place], self._clock()
            # What a service asked for meanwhile, in answer to another call, still holds.
            place.rests = {m: rest for m, rest in place.rests.items() if rest.bound_until > now}

    async def failed(self, leased: LeasedCredential, model: str, error: ModelError) -> bool:
        """The service turned a key away. Says whether there is another credential to go on with
        at once."""
        place = self._places[leased.place]
        if error.kind == "auth" and await self._is_changed(place, leased.credential):
            return True
        name = model if error.kind == "rate_limit" else _EVERY_MODEL
        place.rests[name] = self._rest(error)
        now = self._clock()
        return any(other is not place and other.rest(model, now) is None for other in self._places)

    def resting(self, now: float) -> tuple[CoolingKey, ...]:
        return tuple(
            CoolingKey(place.source.label, rest.error.kind, rest.until, model)
            for place in self._places
            for model, rest in place.rests.items()
            if now < rest.until
        )

    def keep_cooldowns(self, other: "CredentialPool") -> None:
        """What the services asked for still holds when the settings were changed; keys that were
        refused or had no credit are looked at anew."""
        known = {place.source.label: place for place in other._places}
        for place in self._places:
            if place.source.label in known:
                rests = known[place.source.label].rests
                place.rests = {model: rest for model, rest in rests.items() if model}

    def _in_order(self, model: str) -> list[tuple[int, _KeySlot]]:
        """Those that do not rest first, then those that may be used soonest."""
        now = self._clock()

        def rank(entry: tuple[int, _KeySlot]) -> tuple[bool, bool, float, float]:
            rest = entry[1].rest(model, now)
            if rest is None:
                return False, False, 0.0, 0.0
            return True, rest.error.kind != "rate_limit", rest.bound_until, rest.until

        return sorted(enumerate(self._places), key=rank)

    async def _is_changed(self, place: _KeySlot, refused: Credential) -> bool:
        """Whether a fresh look gives another secret: rotated keys just work."""
        if place.current != refused:
            return True  # another call has looked already
        place.source.refused()
        try:
            return await place.look() != refused
        except ModelError:
            return False  # what the service said about the key is the better reason

    def _rest(self, error: ModelError) -> _Cooldown:
        now = self._clock()
        if error.kind == "rate_limit":
            # The constant first: what is no number is then the longest.
            bound = min(MAX_SECONDS, error.retry_after or 0.0)
            asked = RATE_SECONDS if error.retry_after is None else bound
            return _Cooldown(now + max(asked, LEAST_SECONDS), now + bound, error)
        return _Cooldown(
            now + (QUOTA_SECONDS if error.kind == "quota" else AUTH_SECONDS), now, error
        )
