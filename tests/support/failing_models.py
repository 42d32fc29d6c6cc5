"""Ways to a model whose failures are written down beforehand, on a clock that only pauses move."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    Chunk,
    Delta,
    ModelFacts,
    Prompt,
    Reply,
    Request,
    Usage,
    UserMessage,
)
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.models.routing.circuit_breaker import CircuitBreaker
from hermes_agent.models.routing.credential_pool import CredentialPool
from hermes_agent.models.routing.failover import Candidate
from hermes_agent.models.routing.fallback_model import FallbackModel
from hermes_agent.models.wires.base import Credential, WireClient

GO = Request(Prompt("Be brief"), (UserMessage("go"),))
USED = Usage(3, 1)


class Time:
    """A clock, and the sleep that moves it."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


class Key:
    """A source of one key, which can be exchanged. `error`: it cannot be had."""

    def __init__(self, label: str, *secrets: str) -> None:
        self.label = label
        self.secrets = list(secrets or (f"secret of {label}",))
        self.refusals = 0
        self.error: ModelError | None = None

    async def credential(self) -> Credential:
        if self.error is not None:
            raise self.error
        return Credential(self.secrets[0], label=self.label)

    def refused(self) -> None:
        self.refusals += 1
        if len(self.secrets) > 1:
            del self.secrets[0]


@dataclass
class Asked:
    at: float
    model: str
    key: str


@dataclass
class Failing:
    """Says half a word and fails, once for each of the errors; then answers."""

    name: str
    errors: list[ModelError] = field(default_factory=list)
    time: Time = field(default_factory=Time)
    log: list[Asked] = field(default_factory=list)
    seconds: float = 0.0
    """What each try takes."""
    piece: str = "ha"
    left: int = 0
    """Streams that have ended or were left."""

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        self.log.append(Asked(self.time.now, self.name, credential.label))
        error = self.errors.pop(0) if self.errors else None
        try:
            if self.piece:
                yield Delta(self.piece)
            self.time.now += self.seconds
            if error is not None:
                raise error
            yield Reply("half", usage=USED, model=self.name)
        finally:
            self.left += 1

    async def close(self) -> None:
        """Nothing is held."""


class Roads:
    """Several ways on one clock, and the model that goes over them."""

    def __init__(
        self,
        settings: ModelSettings,
        *errors: Sequence[ModelError],
        keys: Sequence[int] = (),
        chance: float = 1.0,
        facts: Sequence[ModelFacts] = (),
    ) -> None:
        self.time = Time()
        self.log: list[Asked] = []
        self.speakers: list[Failing] = []
        self.keys: list[list[Key]] = []
        self.ways: list[Candidate] = []
        for number, some in enumerate(errors):
            name = "abcd"[number]
            speaker = Failing(f"{name}/m", list(some), self.time, self.log)
            wanted = keys[number] if keys else 1
            self.keys.append([Key(f"{name}{n}") for n in range(wanted)])
            self.speakers.append(speaker)
            self.ways.append(
                Candidate(
                    speaker.name,
                    facts[number] if facts else ModelFacts(),
                    speaker,
                    CredentialPool(self.keys[-1], self.time),
                    CircuitBreaker(settings.circuit_failures, settings.circuit_seconds),
                )
            )
        self._settings = settings
        self._chance = chance

    @property
    def model(self) -> FallbackModel:
        chance = self._chance
        return FallbackModel(
            self.ways,
            self._settings,
            clock=self.time,
            sleep=self.time.sleep,
            random=lambda: chance,
        )

    async def call(self) -> list[Chunk]:
        return [chunk async for chunk in self.model.stream(GO)]

    def put(self, number: int, speaker: WireClient) -> None:
        """Another speaker for a way."""
        self.ways[number] = replace(self.ways[number], client=speaker)

    @property
    def asked(self) -> str:
        """Which keys of which ways were used, in order: `a0 a1 b0`."""
        return " ".join(one.key for one in self.log)
