"""HTTP client of memory services, with a timeout and a circuit breaker: a turn never waits twice
for the same failure."""

import math
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from hermes_agent.core.errors import HermesError, ModelError, UsageError
from hermes_agent.core.timeouts import awake
from hermes_agent.models.routing.circuit_breaker import CircuitBreaker
from hermes_agent.models.wires.http import HttpConnection, HttpResponse, shown

T = TypeVar("T")

QUERY_CHARS = 1_000
"""The longest query; services embed only some thousand tokens."""
REST_SECONDS = 30.0
"""How long a service that failed is not called, at first."""


Said = tuple[Literal["user", "assistant"], str]
"""Who spoke, and the text."""


class Provider(Protocol):
    """Every method raises `HermesError` if the service fails or takes longer than
    `memory.timeout_seconds`; then it is not called for a while."""

    @property
    def name(self) -> str: ...

    async def recall(self, query: str, limit: int) -> Sequence[str]:
        """Fitting memories, best first, each on one line."""
        ...

    async def remember(self, session: str, messages: Sequence[Said]) -> None:
        """Hand over a conversation, with secrets removed."""
        ...

    async def check(self) -> str:
        """Call the service now in any case; its health in a sentence."""
        ...

    async def close(self) -> None: ...


class HttpProvider:
    """Speaks the JSON of the official SDKs without their dependencies; tests compare the two."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        key: str,
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        if not re.match(r"https?://[^/]", url):
            raise UsageError(
                f"not a valid address of {name}: {url!r}",
                "memory.address must begin with http:// or https://",
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageError(f"the key of {name} contains invalid characters")
        self._name = name
        # The call as a whole is timed, not its parts.
        self._wire = HttpConnection(url, {"content-type": "application/json", **headers}, math.inf)
        self._key = key
        self._seconds = seconds
        self._clock = clock
        self._circuit = CircuitBreaker(failures=1, seconds=REST_SECONDS)

    @property
    def url(self) -> str:
        return self._wire.shown_url

    async def close(self) -> None:
        await self._wire.close()

    @asynccontextmanager
    async def asking(self, *, anyway: bool = False) -> AsyncIterator[None]:
        """All requests of one call. Refused while the circuit is open, unless `anyway`."""
        if not anyway and not self._circuit.admits(self._clock()):
            raise self._resting()
        probe = self._circuit.enter(self._clock())
        try:
            async with awake(self._seconds):
                yield
        except TimeoutError:
            said = f"{self.url} took longer than {self._seconds:g} s"
            slow = ModelError("timeout", said, "memory.timeout_seconds sets the limit")
            self._circuit.failed(self._clock(), slow, probe)
            raise self._said(slow) from None
        except ModelError as error:
            if error.kind != "bad_request":  # the next one may be good
                self._circuit.failed(self._clock(), error, probe)
            raise self._said(error) from None
        else:
            self._circuit.answered()
        finally:
            self._circuit.leave(probe)

    async def post(self, path: str, body: Mapping[str, Any], answer: type[T]) -> T:
        """Send JSON and read JSON of that shape, or raise a `ModelError`."""
        sent = msgspec.json.encode(body)
        async with self._wire.post(path, sent, {}, (self._key,)) as response:
            got = await response.read()
            if not 200 <= response.status < 300:
                raise self._refused(response, got)
        try:
            return msgspec.json.decode(got, type=answer)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ModelError(
                "garbage",
                f"{self.url} did not answer like {self._name}: {error}",
                f"check that {self._name} listens at memory.address",
            ) from None

    def _refused(self, response: HttpResponse, body: bytes) -> ModelError:
        said = f"{self.url} answered {response.status}"
        if words := _words(body):
            said += f": {words}"
        match response.status:
            case 401 | 403:
                return ModelError("auth", said, f"check the key of {self._name}")
            case 402:
                return ModelError("quota", said, f"the account at {self._name} has no credit left")
            case 408 | 429:
                return ModelError("overload", said, retry_after=response.retry_after())
            case status if status >= 500:
                return ModelError("overload", said, retry_after=response.retry_after())
            case 404:
                return ModelError("bad_request", said, "check memory.address")
            case _:
                return ModelError("bad_request", said)

    def _said(self, error: ModelError) -> HermesError:
        return HermesError(f"{self._name}: {error.message}", error.hint)

    def _resting(self) -> HermesError:
        circuit = self._circuit
        left = max(circuit.until, circuit.held_until) - self._clock()
        why = circuit.trouble.message if circuit.trouble else ""
        for_now = f"for {left:.0f} more seconds" if left > 0 else "until the current call ends"
        return HermesError(
            f"{self._name} is skipped {for_now}: {why}",
            "`hermes doctor` shows its current state",
        )


def on_one_line(texts: Iterable[str], limit: int) -> Sequence[str]:
    lines = dict.fromkeys(" ".join(text.split()) for text in texts)
    return tuple(line for line in lines if line)[:limit]


def _words(body: bytes) -> str:
    """The error message of the service."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return shown(body)
    if isinstance(said, dict):
        named = (said.get(field) for field in ("detail", "message", "error"))
        said = next((word for word in named if isinstance(word, str)), said)
    return shown(said.encode() if isinstance(said, str) else msgspec.json.encode(said))
