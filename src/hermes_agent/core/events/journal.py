"""Everything a turn tells: one closed set of types. The journal keeps those in `Event`; the ones
in `Passing` are only streamed. Surfaces, exports and the fold all read this and nothing else."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.effects import Action, Consent, Facts
from hermes_agent.core.events.transient import (
    MessageQueued as MessageQueued,
)
from hermes_agent.core.events.transient import (
    OutputArrived as OutputArrived,
)
from hermes_agent.core.events.transient import (
    Passing as Passing,
)
from hermes_agent.core.events.transient import (
    RuntimeChanged as RuntimeChanged,
)
from hermes_agent.core.events.transient import (
    TextArrived as TextArrived,
)
from hermes_agent.core.events.transient import (
    TextVoided as TextVoided,
)
from hermes_agent.core.events.transient import (
    ThoughtArrived as ThoughtArrived,
)
from hermes_agent.core.events.transient import (
    Told,
)
from hermes_agent.core.messages import Media, RouteStep, Thought, ToolCall, Usage
from hermes_agent.core.skills import Opened, Recalled


class SessionOpened(Told, frozen=True, tag="session_opened"):
    """The session's fixed facts. `prompt` is the hash of its `Prompt` in the store."""

    workspace: str
    policy: str
    model: str
    prompt: str
    source: str = "cli"
    terminals: tuple[str, ...] = ("local",)
    effort: str = ""
    """How hard the model is to think, where that was chosen."""
    parent: str = ""
    """The session that it works for."""


class ModelChosen(Told, frozen=True, tag="model_chosen"):
    """From here on another model answers, or thinks otherwise hard."""

    model: str
    effort: str = ""
    by: str = ""


class Titled(Told, frozen=True, tag="titled"):
    """The session was given a title."""

    title: str


class TurnStarted(Told, frozen=True, tag="turn_started"):
    """A turn begins; the messages that waited follow."""

    turn: int


class TurnResumed(Told, frozen=True, tag="turn_resumed"):
    """A new runtime took the turn up where the last one left it."""

    turn: int
    fence: int
    unfinished: int = 0
    """Calls that were under way when the last runtime went."""


class MessageTaken(Told, frozen=True, tag="message_taken"):
    """A user's message enters the conversation. `key` is the sender's own id for it."""

    key: str
    text: str
    source: str = "cli"
    interactive: bool = False
    files: tuple[Media, ...] = ()
    recalled: Recalled = Recalled()
    """What was found in memory to fit it; the model reads it after the text."""
    skills: tuple[Opened, ...] = ()
    """Skills that it opens."""


class Described(Told, frozen=True, tag="described"):
    """What the model cannot see was described to it: the files of a message of the conversation
    (by position) are replaced by words."""

    message: int
    text: str
    by: str


class ModelRequested(Told, frozen=True, tag="model_requested"):
    """A request is about to be sent: `messages` of them, whose bytes hash to `digest`."""

    step: int
    model: str
    messages: int
    digest: str
    use: str = "main"
    input: int = 0
    """Tokens it has, by estimate."""
    most: float | None = None
    """The most it can cost in dollars, where a budget depends on it."""
    output: int = 0
    """Tokens that the reply may have, where a budget depends on it."""


class ModelRetried(Told, frozen=True, tag="model_retried"):
    """A model call failed and is made again after `delay` seconds."""

    trouble: str
    reason: str
    attempt: int
    delay: float


class ModelRouted(Told, frozen=True, tag="model_routed"):
    """The router decided: another key or model takes the call over, a model is passed over, its
    circuit opened or closed."""

    step: RouteStep
    model: str
    to: str = ""
    trouble: str = ""
    reason: str = ""


class Charged(Told, frozen=True, tag="charged"):
    """A call that is no reply of the conversation was paid for: work on the side, or a try that
    failed and was not free."""

    model: str
    use: str
    usage: Usage
    cost: float | None = None
    reason: str = ""
    again: bool = False
    """The call that it belongs to goes on with another try."""


class Replied(Told, frozen=True, tag="replied"):
    """The model's finished answer, with the calls it asks for."""

    step: int
    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: str = "end"
    model: str = ""
    cost: float | None = None
    seconds: float = 0.0
    thoughts: tuple[Thought, ...] = ()
    """Its reasoning, for its own service to have back."""


class CallMade(Told, frozen=True, tag="call_made"):
    """A call that is under way (`by`) makes another as a part of itself: a program of
    `execute_code` uses a tool."""

    effect: str
    by: str
    call: ToolCall


class CallJudged(Told, frozen=True, tag="call_judged"):
    """The gate's word on one call. `text` is the call as people read it, cut short."""

    effect: str
    tool: str
    action: Action
    reason: str
    rule: str = ""
    text: str = ""
    facts: Facts = Facts()
    consent: Consent = Consent()
    input: dict[str, Any] | None = None
    """What it runs with instead of what the model wrote, when a rule rewrote it."""
    audits: tuple[str, ...] = ()
    """Rules that want it noted."""
    secrets: tuple[str, ...] = ()
    """Secrets that a rule grants this call, by name."""
    grants: tuple[str, ...] = ()
    """What "yes, for this session" would cover."""
    proposal: str = ""
    """The rule, as YAML, that would allow this from now on."""


class CallIntended(Told, frozen=True, tag="call_intended"):
    """Written before an effect runs. `note` is what the tool wants to know if it must find out
    later whether the effect happened."""

    effect: str
    call_id: str
    tool: str
    attempt: int = 1
    note: dict[str, Any] = {}
    traceless: bool = False
    """Nothing could be found out about it if the runtime died while it ran."""


class CallFinished(Told, frozen=True, tag="call_finished"):
    """The outcome of a call is known. `data` is for people and programs, `text` for the model."""

    effect: str
    call_id: str
    tool: str
    text: str
    ok: bool = True
    seconds: float = 0.0
    data: dict[str, Any] = {}
    files: tuple[Media, ...] = ()
    inverse: str = ""
    """How it can be undone."""
    usage: Usage = Usage()
    """What children used to come to it."""
    cost: float | None = 0.0


class CallParked(Told, frozen=True, tag="call_parked"):
    """Nobody knows whether the effect happened. The turn waits for a person."""

    effect: str
    call_id: str
    tool: str
    reason: str


Decision = Literal["retry", "skip", "it-happened"]


class ParkDecided(Told, frozen=True, tag="park_decided"):
    """A person said what becomes of a parked call."""

    effect: str
    decision: Decision
    by: str = ""


class Asked(Told, frozen=True, tag="asked"):
    """A person is asked: to approve a call, to answer the model, or to extend a budget."""

    id: str
    purpose: Literal["approval", "question", "budget"]
    text: str
    expires: float = 0.0
    """Counts as refused from then on; set when the question is put."""
    effect: str = ""
    choices: tuple[str, ...] = ()
    consent: Consent = Consent()
    """Who may answer, and how many must agree."""
    grants: tuple[str, ...] = ()
    """What the answer "session" allows from then on."""
    proposal: str = ""
    """The rule that the answer "always" adds."""


class Agreed(Told, frozen=True, tag="agreed"):
    """One of several people who must agree has done so; the question stays open."""

    id: str
    by: str


class Answered(Told, frozen=True, tag="answered"):
    """The question is closed. `answer` is None when nobody answered in time."""

    id: str
    answer: str | None
    by: str = ""


class InterruptAsked(Told, frozen=True, tag="interrupt_asked"):
    """The user wants the turn to stop at once."""

    turn: int
    by: str = ""


class BudgetReached(Told, frozen=True, tag="budget_reached"):
    """A budget is used up, or what the `next` call may cost at most does not fit into it; the
    turn asks before it goes on."""

    what: str
    used: float
    limit: float
    next: float = 0.0


class BudgetWarned(Told, frozen=True, tag="budget_warned"):
    """Half or four fifths of a budget are used."""

    what: str
    used: float
    limit: float
    share: float


class Compacted(Told, frozen=True, tag="compacted"):
    """The messages from `first` up to but not including `last` (positions in the conversation)
    are replaced by `summary` from here on."""

    first: int
    last: int
    summary: str
    usage: Usage = Usage()
    cost: float | None = None
    model: str = ""


class Summarised(Told, frozen=True, tag="summarised"):
    """The session up to the event with this number, in a few lines, for later ones to find. The
    conversation itself goes on as it was."""

    summary: str
    upto: int
    model: str = ""


class Noted(Told, frozen=True, tag="noted"):
    """Something the user should see: a degraded part, a limit that bit, a lost client."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


TurnEnd = Literal["done", "interrupted", "budget", "failed"]


class TurnFinished(Told, frozen=True, tag="turn_finished"):
    """The turn is over. `text` is the answer; `error` and `hint` say what went wrong."""

    turn: int
    reason: TurnEnd
    text: str = ""
    error: str = ""
    hint: str = ""
    steps: int = 0
    usage: Usage = Usage()
    cost: float | None = None
    seconds: float = 0.0


Event = (
    SessionOpened | ModelChosen | Titled | TurnStarted | TurnResumed | MessageTaken | Described
    | ModelRequested | ModelRetried | ModelRouted | Charged | Replied | CallMade | CallJudged
    | CallIntended | CallFinished | CallParked | ParkDecided | Asked | Agreed | Answered
    | InterruptAsked
    | BudgetReached | BudgetWarned | Compacted | Summarised | Noted | TurnFinished
)  # fmt: skip
"""What the journal keeps."""


class Recorded(Struct, frozen=True):
    """An event with its place. `number` is 0 for a passing one."""

    session: str
    number: int
    time: float
    event: Event | Passing


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode(event: Event | Passing | Recorded) -> bytes:
    return _encoder.encode(event)


def decode(body: bytes | str) -> Event:
    return _decoder.decode(body)


def kind_of(event: Event | Passing) -> str:
    tag = event.__struct_config__.tag
    assert isinstance(tag, str)
    return tag
