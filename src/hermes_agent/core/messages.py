"""Requests to models and their replies, as values. Wire formats translate them at the edge."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ToolError

DEEPEST = 100
"""How deeply a model's JSON may be nested. Beyond it, whether it parses depends on the Python."""


def read_json(text: str) -> Any:
    """Parse JSON that a model wrote; `RecursionError` if it is nested too deeply."""
    value = msgspec.json.decode(text)
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        if not inner:
            return value
        level = inner
    raise RecursionError(f"nested deeper than {DEEPEST} levels")


class ToolCall(Struct, frozen=True):
    """A call that the model asked for. `arguments` is the JSON text exactly as the model wrote it,
    so that sending it back never changes a byte."""

    id: str
    name: str
    arguments: str = "{}"

    @classmethod
    def of(cls, id: str, name: str, /, **arguments: Any) -> "ToolCall":
        return cls(id, name, msgspec.json.encode(arguments).decode())

    def input(self) -> dict[str, Any]:
        """The arguments as an object; otherwise a `ToolError` the model can act on."""
        try:
            return msgspec.convert(read_json(self.arguments or "{}"), dict[str, Any])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ToolError(
                f"the arguments of {self.name} are not a JSON object: {error}"
            ) from None

    def target(self) -> tuple[str, dict[str, Any]]:
        """The called tool and its arguments, with `use_tool` unwrapped."""
        given = self.input()
        if self.name != USE_TOOL:
            return self.name, given
        named, inner = given.get("name"), given.get("arguments") or {}
        if not isinstance(named, str) or not isinstance(inner, dict):
            raise ToolError(
                f"{USE_TOOL} takes the name of a tool and its arguments as an object",
                "find_tools shows both",
                "changed",
            )
        return named, inner


USE_TOOL = "use_tool"
"""The tool that calls tools which are not in the prompt."""

IMAGE_TOKENS = 10_000
"""An upper bound for one image, except with a few cheap models that count more."""
PAGE_TOKENS = 4_000
"""An upper bound for one page, which counts as text and an image."""
PAGE_BYTES = 1_000
"""The least that a page takes in a compressed PDF, whose pages cannot be counted."""
IMAGE_BYTES = 5_000_000
"""The largest image that providers accept."""
_PAGE = re.compile(rb"/Type\s*/Page\b")


class Media(Struct, frozen=True, omit_defaults=True):
    """An image or another file attached to a message."""

    type: str
    """Its media type, for instance `image/png` or `application/pdf`."""
    data: bytes
    name: str = ""

    @property
    def is_image(self) -> bool:
        return self.type.startswith("image/")

    @property
    def most_tokens(self) -> int:
        """An upper bound on its tokens in a request."""
        if self.is_image:
            return IMAGE_TOKENS
        packed = b"/ObjStm" in self.data
        pages = len(self.data) // PAGE_BYTES if packed else 0
        return PAGE_TOKENS * max(1, pages, len(_PAGE.findall(self.data)))


class ReasoningBlock(Struct, frozen=True, omit_defaults=True):
    """A piece of a model's reasoning, stored to send back to the same provider. It came after
    `chars` characters of the text and `calls` of the calls."""

    by: str
    """The model, as `service/name`; never sent to another."""
    text: str = ""
    """The readable part."""
    body: str = ""
    """What the provider wants back besides the text, as JSON: a signature, ciphertext, an id."""
    chars: int = 0
    calls: int = 0


class UserMessage(Struct, frozen=True, tag_field="role", tag="user", omit_defaults=True):
    text: str
    files: tuple[Media, ...] = ()


class AssistantMessage(Struct, frozen=True, tag_field="role", tag="assistant"):
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thoughts: tuple[ReasoningBlock, ...] = ()


class ToolMessage(Struct, frozen=True, tag_field="role", tag="tool"):
    call_id: str
    name: str
    text: str
    ok: bool = True
    files: tuple[Media, ...] = ()
    """Images in the result."""


Message = UserMessage | AssistantMessage | ToolMessage


class Usage(Struct, frozen=True):
    """Tokens of one call. `cached` and `written` are the parts of `input` that were read from and
    written to the provider's cache; `reasoning` is the hidden part of `output`."""

    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    reasoning: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.written + other.written,
            self.reasoning + other.reasoning,
        )

    @property
    def total(self) -> int:
        return self.input + self.output


Stop = Literal["end", "calls", "length", "refused", "interrupted"]


class Reply(Struct, frozen=True):
    """A model's finished answer. `cost` is in dollars, or None if no price is known."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: Stop = "end"
    model: str = ""
    """The model that answered, as `service/name`."""
    cost: float | None = None
    thoughts: tuple[ReasoningBlock, ...] = ()

    @property
    def message(self) -> AssistantMessage:
        return AssistantMessage(self.text, self.calls, self.thoughts)


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it. `parameters` is JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Prompt(Struct, frozen=True):
    """The part of every request that is fixed when the session opens."""

    system: str
    tools: tuple[ToolSpec, ...] = ()


Effort = Literal["low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


class Request(Struct, frozen=True):
    prompt: Prompt
    messages: tuple[Message, ...]
    session: str = ""
    max_output: int | None = None
    """The most tokens the reply may have, reasoning included; None leaves it to the provider."""
    effort: Effort | None = None
    """Reasoning effort; lowered for a model with fewer levels."""


class Delta(Struct, frozen=True):
    """A piece of streamed text."""

    text: str


class Thinking(Struct, frozen=True):
    """A piece of streamed, readable reasoning."""

    text: str


class RetryEvent(Struct, frozen=True):
    """The call failed and will be retried; discard the pieces so far."""

    kind: str
    reason: str
    attempt: int
    delay: float


RouteStep = Literal["key", "model", "skipped", "opened", "closed"]


class RoutingEvent(Struct, frozen=True):
    """A routing decision. `key`, `model`: the call continues with another credential or model
    (`to`); discard the pieces so far. `skipped`: a model was not tried because its circuit breaker
    is open or its keys are cooling down. `opened`, `closed`: the circuit breaker changed."""

    step: RouteStep
    model: str
    to: str = ""
    kind: str = ""
    """The `ModelTrouble` behind it, if any."""
    reason: str = ""


class FailedAttemptUsage(Struct, frozen=True):
    """What a failed attempt used, as far as is known."""

    model: str
    usage: Usage
    cost: float | None
    most: Usage | None = None
    """An upper bound, if the usage is unknown because the provider went silent or the answer broke
    off."""


Chunk = Delta | Thinking | RetryEvent | RoutingEvent | FailedAttemptUsage | Reply
"""What a model streams: pieces, routing events, and one `Reply` at the end."""


class Rates(Struct, frozen=True, omit_defaults=True):
    """Dollars per million tokens, for requests with more than `above` tokens of input."""

    input: float
    output: float
    cached: float | None = None
    """Read from the cache; None means as `input`."""
    written: float | None = None
    """Written to the cache; None means as `input`."""
    above: int = 0


class ModelFacts(Struct, frozen=True, omit_defaults=True):
    """What must be known about a model to use it. The defaults are for an unknown model."""

    context: int = 128_000
    max_output: int = 8_192
    rates: tuple[Rates, ...] = ()
    """By `above`, lowest first; empty if the price is unknown."""
    efforts: tuple[Effort, ...] = ()
    """The reasoning efforts it supports; empty if it has no such setting."""
    thinking: str = ""
    """How reasoning is requested on its wire format, if there are several ways; see the format."""
    sees: bool = False
    """Takes images."""
    reads: bool = False
    """Takes PDF files."""
    tools: bool = True

    @property
    def priced(self) -> bool:
        return bool(self.rates)

    def cost(self, usage: Usage) -> float | None:
        rates = self._rates(usage.input)
        if rates is None:
            return None
        cached = rates.cached if rates.cached is not None else rates.input
        written = rates.written if rates.written is not None else rates.input
        dollars = (
            (usage.input - usage.cached - usage.written) * rates.input
            + usage.cached * cached
            + usage.written * written
            + usage.output * rates.output
        )
        return dollars / 1_000_000

    def most(self, input: int, output: int) -> float | None:
        """The most that this many tokens can cost, whatever the cache does."""
        rates = self._rates(input)
        if rates is None:
            return None
        return (input * max(rates.input, rates.written or 0.0) + output * rates.output) / 1_000_000

    def _rates(self, input: int) -> Rates | None:
        fitting = [rates for rates in self.rates if input > rates.above or not rates.above]
        return fitting[-1] if fitting else None
