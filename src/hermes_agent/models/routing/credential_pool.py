"""The credentials of a service: which one to use, and which ones cool down after a refusal."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.protocols import Clock
from hermes_agent.models.wires.base import Credential

RATE_SECONDS = 60.0
"""Cool-down after a rate limit that names no time."""
LEAST_SECONDS = 1.0
"""Even a key that may be used again at once lets another one have the next try."""
MAX_SECONDS = 3600.0
"""The longest cool-down, even where a service asks for more."""
QUOTA_SECONDS = 3600.0
AUTH_SECONDS = 600.0

_EVERY_MODEL = ""


class KeySource(Protocol):
    """What a pool needs from a source of keys."""

    @property
    def label(self) -> str: ...

    async def credential(self) -> Credential: ...

    def refused(self) -> None: ...


class CoolingKey(Struct, frozen=True):
    """A key that cools down, for people to see."""

    label: str
    kind: ModelTrouble
    until: float
    model: str = ""
    """The model it cools down for; empty means all models of the service."""


class LeasedCredential(NamedTuple):
    """A credential for one call, and its slot in the pool."""

    slot: int
    credential: Credential
    forced: bool = False
    """It was leased while cooling down, because nothing else was left."""


class _Cooldown(NamedTuple):
    until: float
    bound_until: float
    """The service said not to use it before this."""
    error: ModelError


class AnonymousPool:
    """The key source of a service that needs no key."""

    label = ""

    async def credential(self) -> Credential:
        return Credential()

    def refused(self) -> None:
        """Nothing to look up again."""


class _KeySlot:
    def __init__(self, source: KeySource) -> None:
        self.source = source
        self.current: Credential | None = None
        self.cooldowns: dict[str, _Cooldown] = {}

    def cooldown(self, model: str, now: float) -> _Cooldown | None:
        """What keeps the key from being used for a model now."""
        known = (self.cooldowns.get(_EVERY_MODEL), self.cooldowns.get(model))
        active = [each for each in known if each is not None and now < each.until]
        return max(active, key=lambda each: each.bound_until, default=None)

    async def read(self) -> Credential:
        self.current = await self.source.credential()
        return self.current


class CredentialPool:
    """Sticky: always the first key that is not cooling down, because prompt caches belong to an
    account. Rate limits count per model, so they cool a key down for that model only; a refused
    key, or one without credit, cools down for all models."""

    def __init__(self, sources: Sequence[KeySource], clock: Clock) -> None:
        self._slots = [_KeySlot(source) for source in sources] or [_KeySlot(AnonymousPool())]
        self._clock = clock

    def __len__(self) -> int:
        return len(self._slots)

    def is_free(self, model: str, now: float) -> bool:
        return any(slot.cooldown(model, now) is None for slot in self._slots)

    def bound(self, model: str, now: float) -> tuple[float, ModelError | None]:
        """If all keys cool down: until when no key may be used, and why. A key that cools down for
        another reason may be tried if nothing else is left."""
        active = [each for slot in self._slots if (each := slot.cooldown(model, now)) is not None]
        if len(active) < len(self._slots):
            return now, None
        # A refused key is no reason not to wait for a good one.
        soonest = min(
            [each for each in active if each.error.kind == "rate_limit"] or active,
            key=lambda each: (each.bound_until, each.until),
        )
        return max(now, soonest.bound_until), soonest.error

    async def lease(self, model: str, *, anyway: bool = False) -> LeasedCredential | None:
        """The first key that is not cooling down, or None; with `anyway`, the best of those that
        are. Raises the `ModelError` of a source that has no key if no other source has one."""
        trouble: ModelError | None = None
        for number, slot in self._in_order(model):
            cooling = slot.cooldown(model, self._clock()) is not None
            if cooling and not anyway:
                break
            try:
                return LeasedCredential(number, await slot.read(), cooling)
            except ModelError as error:
                if not error.passing:
                    slot.cooldowns[_EVERY_MODEL] = self._cooldown(error)
                trouble = trouble or error
        if trouble is not None:
            raise trouble
        return None

    def answered(self, leased: LeasedCredential) -> None:
        """The key works: end its cool-downs."""
        if leased.forced:
            slot, now = self._slots[leased.slot], self._clock()
            # What a service asked for meanwhile, in answer to another call, still holds.
            slot.cooldowns = {m: c for m, c in slot.cooldowns.items() if c.bound_until > now}

    async def failed(self, leased: LeasedCredential, model: str, error: ModelError) -> bool:
        """The service refused a key. Returns whether another credential can be tried at once."""
        slot = self._slots[leased.slot]
        if error.kind == "auth" and await self._is_changed(slot, leased.credential):
            return True
        name = model if error.kind == "rate_limit" else _EVERY_MODEL
        slot.cooldowns[name] = self._cooldown(error)
        now = self._clock()
        return any(
            other is not slot and other.cooldown(model, now) is None for other in self._slots
        )

    def resting(self, now: float) -> tuple[CoolingKey, ...]:
        return tuple(
            CoolingKey(slot.source.label, cooldown.error.kind, cooldown.until, model)
            for slot in self._slots
            for model, cooldown in slot.cooldowns.items()
            if now < cooldown.until
        )

    def keep_cooldowns(self, other: "CredentialPool") -> None:
        """Take over the rate limits of the pool before the settings changed. Keys that were
        refused or had no credit are tried again."""
        known = {slot.source.label: slot.cooldowns for slot in other._slots}
        for slot in self._slots:
            cooldowns = known.get(slot.source.label, {})
            slot.cooldowns = {model: each for model, each in cooldowns.items() if model}

    def _in_order(self, model: str) -> list[tuple[int, _KeySlot]]:
        """Free keys first, then those that may be used soonest."""
        now = self._clock()

        def rank(entry: tuple[int, _KeySlot]) -> tuple[bool, bool, float, float]:
            cooldown = entry[1].cooldown(model, now)
            if cooldown is None:
                return False, False, 0.0, 0.0
            limited = cooldown.error.kind == "rate_limit"
            return True, not limited, cooldown.bound_until, cooldown.until

        return sorted(enumerate(self._slots), key=rank)

    async def _is_changed(self, slot: _KeySlot, refused: Credential) -> bool:
        """Whether the source has another secret by now: rotated keys just work."""
        if slot.current != refused:
            return True  # another call has read it already
        slot.source.refused()
        try:
            return await slot.read() != refused
        except ModelError:
            return False  # what the service said about the key is the better reason

    def _cooldown(self, error: ModelError) -> _Cooldown:
        now = self._clock()
        if error.kind == "rate_limit":
            # The constant first: NaN then gives the longest.
            bound = min(MAX_SECONDS, error.retry_after or 0.0)
            asked = RATE_SECONDS if error.retry_after is None else bound
            return _Cooldown(now + max(asked, LEAST_SECONDS), now + bound, error)
        return _Cooldown(
            now + (QUOTA_SECONDS if error.kind == "quota" else AUTH_SECONDS), now, error
        )
