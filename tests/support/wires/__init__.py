"""One contract for all wire formats: what each must bring so that `tests/contracts/test_wires.py`
can hold it to the same cases. The official SDK of the service is the oracle on both sides."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hermes_agent.core.errors import ModelTrouble
from hermes_agent.core.messages import Request, Stop, ToolCall, Usage
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient
from tests.support.model_server import Raw

KEY = "sk-test-1234567890-do-not-tell"


@dataclass(frozen=True)
class Heard:
    """An answer as whoever listens understands it. Arguments are values, since services and SDKs
    write the same JSON in different ways."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Name and arguments."""
    thoughts: str = ""
    """All readable reasoning, joined."""
    usage: Usage = Usage()
    stop: Stop = "end"


@dataclass(frozen=True)
class Case:
    """An answer that a service gives: pieces of reasoning and text, then calls."""

    name: str
    texts: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    thoughts: tuple[str, ...] = ()
    usage: Usage = Usage(12, 7)
    stop: Stop = "end"

    @property
    def heard(self) -> Heard:
        return Heard(
            "".join(self.texts),
            tuple((call.name, call.input()) for call in self.calls),
            "".join(self.thoughts),
            self.usage,
            self.stop,
        )


@dataclass(frozen=True)
class Failure:
    """A way in which the service refuses or breaks, and what it must be called."""

    name: str
    raw: Raw
    kind: ModelTrouble
    retry_after: float | None = None
    sdk_raises: bool = True
    """False where the official SDK takes it for an answer."""


@dataclass(frozen=True)
class Sent:
    """A request as the service understands it, for comparing successive ones."""

    fixed: Any
    """What comes before the messages: system text, tools, settings."""
    messages: Sequence[Any]
    """The messages, without the marks of a prompt cache."""
    marks: int = 0
    """How many cache marks the request carries."""


class WireUnderTest(Protocol):
    name: str

    def endpoint(self, root: str) -> Endpoint:
        """An endpoint at a server's root URL, as the service's row would give it."""
        ...

    @property
    def credential(self) -> Credential: ...

    def open(self, endpoint: Endpoint) -> WireClient: ...

    def answer(self, case: Case) -> Raw:
        """The case as this service streams it, one event a piece, cut as the real one cuts."""
        ...

    def expected(self, case: Case) -> Heard:
        """What can be heard of it: `case.heard` less what this format cannot say (for instance
        tokens that were put into a cache)."""
        ...

    @property
    def stops(self) -> Sequence[tuple[str, Raw, Stop]]:
        """Every stop reason of the format: its native name, an answer that ends by it, ours."""
        ...

    @property
    def failures(self) -> Sequence[Failure]:
        """Every class of error, in the service's own words, at the start and in mid-stream."""
        ...

    async def ask_sdk(self, root: str, request: Request) -> Heard:
        """The official SDK's streaming call at this root, without retries; what it heard. Raises
        what the SDK raises."""
        ...

    def validate(self, body: bytes) -> None:
        """Raises when the request is not one by the official SDK's own types."""
        ...

    def sent(self, body: bytes) -> Sent: ...

    def unpacked(self, piece: bytes) -> Any:
        """The JSON value inside one piece of an answer; None where it holds none."""
        ...

    def packed(self, piece: bytes, content: Any) -> bytes:
        """The piece with another JSON value in it."""
        ...

    @property
    def keep_alive(self) -> bytes:
        """What the service sends when it has nothing to say yet."""
        ...


class ServerSent:
    """What the formats that stream server-sent events share."""

    keep_alive = b": keep-alive\n\n"

    def unpacked(self, piece: bytes) -> Any:
        data = next((line[5:] for line in piece.split(b"\n") if line.startswith(b"data:")), b"")
        return json.loads(data) if data.strip().startswith((b"{", b"[{")) else None

    def packed(self, piece: bytes, content: Any) -> bytes:
        lines = piece.split(b"\n")
        return b"\n".join(
            b"data: " + json.dumps(content).encode() if line.startswith(b"data:") else line
            for line in lines
        )
