"""What a model is sent and what it answers, as values. Wire formats translate these at the edge."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ToolError

DEEPEST = 100
"""How deep what a model writes may be nested. Whether more can be read depends on the Python."""


def read_json(text: str) -> Any:
    """What a model wrote as JSON; a `RecursionError` where it is nested too deep."""
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
    raise RecursionError(f"it is nested deeper than {DEEPEST}")


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
            return msgspec.convert(read_json(self.arguments or "{}"), dict[str, Any])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ToolError(
                f"the arguments of {self.name} are not a JSON object: {error}"
            ) from None

    def target(self) -> tuple[str, dict[str, Any]]:
        """The tool that is meant, and its arguments: `use_tool` stands for another one."""
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
"""The tool by which others are called that are not in the prompt."""

IMAGE_TOKENS = 10_000
"""More than services count for one image, but for a few models that make up for a low price."""
PAGE_TOKENS = 4_000
"""More than services count for one page, which is text and an image to them."""
PAGE_BYTES = 1_000
"""A page that cannot be found because it is packed takes at least so many bytes."""
IMAGE_BYTES = 5_000_000
"""The largest image that services take."""
_PAGE = re.compile(rb"/Type\s*/Page\b")


class Media(Struct, frozen=True, omit_defaults=True):
    """An image or another file that goes with a message."""

    type: str
    """Its media type, for instance `image/png` or `application/pdf`."""
    data: bytes
    name: str = ""

    @property
    def is_image(self) -> bool:
        return self.type.startswith("image/")

    @property
    def most_tokens(self) -> int:
        """The most that it can come to in a request."""
        if self.is_image:
            return IMAGE_TOKENS
        packed = b"/ObjStm" in self.data
        pages = len(self.data) // PAGE_BYTES if packed else 0
        return PAGE_TOKENS * max(1, pages, len(_PAGE.findall(self.data)))


class ReasoningBlock(Struct, frozen=True, omit_defaults=True):
    """A piece of a model's reasoning, kept so that its own service can have it back. It stood
    before `chars` characters of the text and `calls` of the calls had come."""

    by: str
    """The model that had it, as `service/name`: nobody else is sent it."""
    text: str = ""
    """What people may read of it."""
    body: str = ""
    """What the service wants back beside the text, as JSON: a signature, ciphertext, an id."""
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
    """Images among the result."""


Message = UserMessage | AssistantMessage | ToolMessage


class Usage(Struct, frozen=True):
    """Tokens of one call. `cached` and `written` are the parts of `input` that were read from the
    provider's cache and put into it; `reasoning` is the part of `output` nobody reads."""

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
    """One finished answer of a model. `cost` is dollars, or None where no price is known."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: Stop = "end"
    model: str = ""
    """Which model gave it, as `service/name`."""
    cost: float | None = None
    thoughts: tuple[ReasoningBlock, ...] = ()

    @property
    def message(self) -> AssistantMessage:
        return AssistantMessage(self.text, self.calls, self.thoughts)


class ToolSpec(Struct, frozen=True):
    """How a tool is shown to a model. `parameters` is JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Prompt(Struct, frozen=True):
    """The part of every request that is fixed when the session opens and never changes."""

    system: str
    tools: tuple[ToolSpec, ...] = ()


Effort = Literal["low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


class Request(Struct, frozen=True):
    prompt: Prompt
    messages: tuple[Message, ...]
    session: str = ""
    max_output: int | None = None
    """Tokens the reply may have, reasoning included; None leaves it to the service."""
    effort: Effort | None = None
    """How hard to think; lowered where a model has fewer steps."""


class Delta(Struct, frozen=True):
    """A piece of text that has just arrived."""

    text: str


class Thinking(Struct, frozen=True):
    """A piece of readable reasoning that has just arrived."""

    text: str


class RetryEvent(Struct, frozen=True):
    """The call failed and will be made again; the pieces sent so far are void."""

    kind: str
    reason: str
    attempt: int
    delay: float


RouteStep = Literal["key", "model", "skipped", "opened", "closed"]


class RoutingEvent(Struct, frozen=True):
    """A decision of the router. `key`, `model`: the call goes on with another credential or
    another model (`to`), and the pieces sent so far are void. `skipped`: a model was not asked
    since its circuit is open or its keys rest. `opened`, `closed`: its circuit did."""

    step: RouteStep
    model: str
    to: str = ""
    kind: str = ""
    """The `ModelTrouble` behind it, where there was one."""
    reason: str = ""


class FailedAttemptUsage(Struct, frozen=True):
    """A try that failed was not free: what it used, as far as one can know."""

    model: str
    usage: Usage
    cost: float | None
    most: Usage | None = None
    """The most it can have used, where nobody can know: the service fell silent, or the answer
    broke off."""


Chunk = Delta | Thinking | RetryEvent | RoutingEvent | FailedAttemptUsage | Reply
"""What a model streams: pieces, perhaps what the router did, and one `Reply` at the end."""


class Rates(Struct, frozen=True, omit_defaults=True):
    """Dollars per million tokens, for requests with more than `above` tokens of input."""

    input: float
    output: float
    cached: float | None = None
    """Read from the cache; as `input` where it is None."""
    written: float | None = None
    """Put into the cache; as `input` where it is None."""
    above: int = 0


class ModelFacts(Struct, frozen=True, omit_defaults=True):
    """What must be known of a model to use it. The defaults are those of a model that nobody has
    described."""

    context: int = 128_000
    max_output: int = 8_192
    rates: tuple[Rates, ...] = ()
    """By `above`, lowest first; none where the price is not known."""
    efforts: tuple[Effort, ...] = ()
    """The steps of reasoning effort it has; none where it has no such switch."""
    thinking: str = ""
    """How its wire format is told to think, where there are several ways; see the format."""
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
        """The most that so many tokens can cost, whatever the cache does."""
        rates = self._rates(input)
        if rates is None:
            return None
        return (input * max(rates.input, rates.written or 0.0) + output * rates.output) / 1_000_000

    def _rates(self, input: int) -> Rates | None:
        fitting = [rates for rates in self.rates if input > rates.above or not rates.above]
        return fitting[-1] if fitting else None
