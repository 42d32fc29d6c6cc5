"""What a model is sent and what it answers, as values. Wire formats translate these at the edge."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ToolError


class ToolCall(Struct, frozen=True):
    """One call the model asked for. `arguments` is the JSON text exactly as the model wrote it,
    so that sending it back never changes a byte."""

    id: str
    name: str
    arguments: str = "{}"

    @classmethod
    def of(cls, id: str, name: str, /, **arguments: Any) -> "ToolCall":
        return cls(id, name, msgspec.json.encode(arguments).decode())

    def input(self) -> dict[str, Any]:
        """The arguments as an object; a `ToolError` the model can act on when they are none."""
        try:
            return msgspec.json.decode(self.arguments or "{}", type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise ToolError(
                f"the arguments of {self.name} are not a JSON object: {error}"
            ) from None


class UserMessage(Struct, frozen=True, tag_field="role", tag="user"):
    text: str


class AssistantMessage(Struct, frozen=True, tag_field="role", tag="assistant"):
    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class ToolMessage(Struct, frozen=True, tag_field="role", tag="tool"):
    call_id: str
    name: str
    text: str
    ok: bool = True


Message = UserMessage | AssistantMessage | ToolMessage


class Usage(Struct, frozen=True):
    """Tokens of one call. `cached` is the part of `input` the provider had already seen."""

    input: int = 0
    output: int = 0
    cached: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input, self.output + other.output, self.cached + other.cached
        )

    @property
    def total(self) -> int:
        return self.input + self.output


Stop = Literal["end", "calls", "length", "refused", "interrupted"]


class Reply(Struct, frozen=True):
    """One finished answer of a model. `cost` is dollars, or None where no price is known."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: Stop = "end"
    model: str = ""
    cost: float | None = None

    @property
    def message(self) -> AssistantMessage:
        return AssistantMessage(self.text, self.calls)


class ToolSpec(Struct, frozen=True):
    """How a tool is shown to a model. `parameters` is JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Prompt(Struct, frozen=True):
    """The part of every request that is fixed when the session opens and never changes."""

    system: str
    tools: tuple[ToolSpec, ...] = ()


class Request(Struct, frozen=True):
    prompt: Prompt
    messages: tuple[Message, ...]
    session: str = ""
    max_output: int | None = None


class Delta(Struct, frozen=True):
    """A piece of text that has just arrived."""

    text: str


class Retrying(Struct, frozen=True):
    """The call failed and will be made again; the pieces sent so far are void."""

    kind: str
    reason: str
    attempt: int
    delay: float


Chunk = Delta | Retrying | Reply
"""What a model streams: pieces, perhaps retries, and one `Reply` at the end."""


class ModelFacts(Struct, frozen=True):
    """What must be known of a model to use it. Prices are dollars per million tokens."""

    context: int = 128_000
    max_output: int = 8_192
    price_input: float | None = None
    price_output: float | None = None
    price_cached: float | None = None

    def cost(self, usage: Usage) -> float | None:
        if self.price_input is None or self.price_output is None:
            return None
        cached = self.price_cached if self.price_cached is not None else self.price_input
        fresh = usage.input - usage.cached
        dollars = (
            fresh * self.price_input + usage.cached * cached + usage.output * self.price_output
        )
        return dollars / 1_000_000
