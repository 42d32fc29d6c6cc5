"""Every event of a turn, as one closed set of types. The journal stores those in `Event`; those in
`TransientEvent` are only streamed."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.effects import Action, ApprovalRequirement, JudgementInputs
from hermes_agent.core.messages import Media, ReasoningBlock, RouteStep, ToolCall, Usage
from hermes_agent.core.skills import ActivatedSkill, RecallResult


class BaseEvent(Struct, frozen=True, tag_field="kind"):
    """An event of a turn, stored or only streamed."""


class TextArrived(BaseEvent, frozen=True, tag="text_arrived"):
    """A piece of the reply that is being streamed."""

    text: str


class ThoughtArrived(BaseEvent, frozen=True, tag="thought_arrived"):
    """A piece of the model's reasoning that is being streamed."""

    text: str


class TextVoided(BaseEvent, frozen=True, tag="text_voided"):
    """The pieces since the last reply do not count: the stream broke and is tried again."""

    reason: str


class OutputArrived(BaseEvent, frozen=True, tag="output_arrived"):
    """A running command printed something."""

    effect: str
    text: str


class MessageQueued(BaseEvent, frozen=True, tag="message_queued"):
    """A message was stored and waits for the session's next step."""

    key: str
    text: str


class RuntimeChanged(BaseEvent, frozen=True, tag="runtime_changed"):
    """The runtime as a whole is well, degraded or stopping."""

    state: str
    reason: str = ""


TransientEvent = (
    TextArrived | ThoughtArrived | TextVoided | OutputArrived | MessageQueued | RuntimeChanged
)
"""The events that are streamed to listeners and not stored."""


class SessionOpened(BaseEvent, frozen=True, tag="session_opened"):
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


class ModelChosen(BaseEvent, frozen=True, tag="model_chosen"):
    """From here on another model answers, or thinks otherwise hard."""

    model: str
    effort: str = ""
    by: str = ""


class SessionTitled(BaseEvent, frozen=True, tag="session_titled"):
    """The session was given a title."""

    title: str


class TurnStarted(BaseEvent, frozen=True, tag="turn_started"):
    """A turn begins; the messages that waited follow."""

    turn: int


class TurnResumed(BaseEvent, frozen=True, tag="turn_resumed"):
    """A new runtime took the turn up where the last one left it."""

    turn: int
    fence: int
    unfinished: int = 0
    """Calls that were under way when the last runtime went."""


class MessageTaken(BaseEvent, frozen=True, tag="message_taken"):
    """A user's message enters the conversation. `key` is the sender's own id for it."""

    key: str
    text: str
    source: str = "cli"
    interactive: bool = False
    files: tuple[Media, ...] = ()
    recalled: RecallResult = RecallResult()
    """What was found in memory to fit it; the model reads it after the text."""
    skills: tuple[ActivatedSkill, ...] = ()
    """Skills that it opens."""


class ImageDescribed(BaseEvent, frozen=True, tag="image_described"):
    """What the model cannot see was described to it: the files of a message of the conversation
    (by position) are replaced by words."""

    message: int
    text: str
    by: str


class ModelRequested(BaseEvent, frozen=True, tag="model_requested"):
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


class ModelRetried(BaseEvent, frozen=True, tag="model_retried"):
    """A model call failed and is made again after `delay` seconds."""

    trouble: str
    reason: str
    attempt: int
    delay: float


class ModelRouted(BaseEvent, frozen=True, tag="model_routed"):
    """The router decided: another key or model takes the call over, a model is passed over, its
    circuit opened or closed."""

    step: RouteStep
    model: str
    to: str = ""
    trouble: str = ""
    reason: str = ""


class CostCharged(BaseEvent, frozen=True, tag="cost_charged"):
    """A call that is no reply of the conversation was paid for: work on the side, or a try that
    failed and was not free."""

    model: str
    use: str
    usage: Usage
    cost: float | None = None
    reason: str = ""
    again: bool = False
    """The call that it belongs to goes on with another try."""


class Replied(BaseEvent, frozen=True, tag="replied"):
    """The model's finished answer, with the calls it asks for."""

    step: int
    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: str = "end"
    model: str = ""
    cost: float | None = None
    seconds: float = 0.0
    thoughts: tuple[ReasoningBlock, ...] = ()
    """Its reasoning, for its own service to have back."""


class CallMade(BaseEvent, frozen=True, tag="call_made"):
    """A call that is under way (`by`) makes another as a part of itself: a program of
    `execute_code` uses a tool."""

    effect: str
    by: str
    call: ToolCall


class CallJudged(BaseEvent, frozen=True, tag="call_judged"):
    """The gate's word on one call. `text` is the call as people read it, cut short."""

    effect: str
    tool: str
    action: Action
    reason: str
    rule: str = ""
    text: str = ""
    facts: JudgementInputs = JudgementInputs()
    consent: ApprovalRequirement = ApprovalRequirement()
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


class CallIntended(BaseEvent, frozen=True, tag="call_intended"):
    """Written before an effect runs. `note` is what the tool wants to know if it must find out
    later whether the effect happened."""

    effect: str
    call_id: str
    tool: str
    attempt: int = 1
    note: dict[str, Any] = {}
    unrecoverable: bool = False
    """Nothing could be found out about it if the runtime died while it ran."""


class CallFinished(BaseEvent, frozen=True, tag="call_finished"):
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


class CallParked(BaseEvent, frozen=True, tag="call_parked"):
    """Nobody knows whether the effect happened. The turn waits for a person."""

    effect: str
    call_id: str
    tool: str
    reason: str


Decision = Literal["retry", "skip", "it-happened"]


class ParkDecided(BaseEvent, frozen=True, tag="park_decided"):
    """A person said what becomes of a parked call."""

    effect: str
    decision: Decision
    by: str = ""


class QuestionAsked(BaseEvent, frozen=True, tag="question_asked"):
    """A person is asked: to approve a call, to answer the model, or to extend a budget."""

    id: str
    purpose: Literal["approval", "question", "budget"]
    text: str
    expires: float = 0.0
    """Counts as refused from then on; set when the question is put."""
    effect: str = ""
    choices: tuple[str, ...] = ()
    consent: ApprovalRequirement = ApprovalRequirement()
    """Who may answer, and how many must agree."""
    grants: tuple[str, ...] = ()
    """What the answer "session" allows from then on."""
    proposal: str = ""
    """The rule that the answer "always" adds."""


class ApprovalGiven(BaseEvent, frozen=True, tag="approval_given"):
    """One of several people who must agree has done so; the question stays open."""

    id: str
    by: str


class QuestionAnswered(BaseEvent, frozen=True, tag="question_answered"):
    """The question is closed. `answer` is None when nobody answered in time."""

    id: str
    answer: str | None
    by: str = ""


class InterruptAsked(BaseEvent, frozen=True, tag="interrupt_asked"):
    """The user wants the turn to stop at once."""

    turn: int
    by: str = ""


class BudgetReached(BaseEvent, frozen=True, tag="budget_reached"):
    """A budget is used up, or what the `next` call may cost at most does not fit into it; the
    turn asks before it goes on."""

    what: str
    used: float
    limit: float
    next: float = 0.0


class BudgetWarned(BaseEvent, frozen=True, tag="budget_warned"):
    """Half or four fifths of a budget are used."""

    what: str
    used: float
    limit: float
    share: float


class Compacted(BaseEvent, frozen=True, tag="compacted"):
    """The messages from `first` up to but not including `last` (positions in the conversation)
    are replaced by `summary` from here on."""

    first: int
    last: int
    summary: str
    usage: Usage = Usage()
    cost: float | None = None
    model: str = ""


class Summarised(BaseEvent, frozen=True, tag="summarised"):
    """The session up to the event with this number, in a few lines, for later ones to find. The
    conversation itself goes on as it was."""

    summary: str
    upto: int
    model: str = ""


class NoticeIssued(BaseEvent, frozen=True, tag="notice_issued"):
    """Something the user should see: a degraded part, a limit that bit, a lost client."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


TurnEnd = Literal["done", "interrupted", "budget", "failed"]


class TurnFinished(BaseEvent, frozen=True, tag="turn_finished"):
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
    SessionOpened | ModelChosen | SessionTitled | TurnStarted | TurnResumed | MessageTaken
    | ImageDescribed | ModelRequested | ModelRetried | ModelRouted | CostCharged | Replied
    | CallMade | CallJudged | CallIntended | CallFinished | CallParked | ParkDecided
    | QuestionAsked | ApprovalGiven | QuestionAnswered | InterruptAsked | BudgetReached
    | BudgetWarned | Compacted | Summarised | NoticeIssued | TurnFinished
)  # fmt: skip
"""The events that the journal stores."""


class Recorded(Struct, frozen=True):
    """An event with its position. `number` is 0 for a transient one."""

    session: str
    number: int
    time: float
    event: Event | TransientEvent


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode(event: Event | TransientEvent | Recorded) -> bytes:
    return _encoder.encode(event)


def decode(body: bytes | str) -> Event:
    return _decoder.decode(body)


def kind_of(event: Event | TransientEvent) -> str:
    tag = event.__struct_config__.tag
    assert isinstance(tag, str)
    return tag
