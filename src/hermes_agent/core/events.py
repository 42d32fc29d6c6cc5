"""All events of a turn, as one closed set of types. The journal stores those in `Event`; those in
`TransientEvent` are only streamed."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.effects import (
    Action,
    ApprovalRequirement,
    Confinement,
    JudgementInputs,
    Risk,
)
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
    """The stream broke and will be retried: discard the pieces since the last reply."""

    reason: str


class OutputArrived(BaseEvent, frozen=True, tag="output_arrived"):
    """A running command printed something."""

    effect: str
    text: str


class MessageQueued(BaseEvent, frozen=True, tag="message_queued"):
    """A message was stored and waits for the session's next step."""

    key: str
    text: str


class MessageWithdrawn(BaseEvent, frozen=True, tag="message_withdrawn"):
    """A queued message was taken back before a turn took it."""

    key: str


class RuntimeChanged(BaseEvent, frozen=True, tag="runtime_changed"):
    """The state of the whole runtime: well, degraded or stopping."""

    state: str
    reason: str = ""


TransientEvent = (
    TextArrived | ThoughtArrived | TextVoided | OutputArrived | MessageQueued | MessageWithdrawn
    | RuntimeChanged
)  # fmt: skip
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
    """The reasoning effort, if one was chosen."""
    parent: str = ""
    """The session it works for, if it is a subagent."""


class ModelChosen(BaseEvent, frozen=True, tag="model_chosen"):
    """The session's model or reasoning effort changes from here on."""

    model: str
    effort: str = ""
    by: str = ""


class SessionTitled(BaseEvent, frozen=True, tag="session_titled"):
    """The session was given a title."""

    title: str


class Rewound(BaseEvent, frozen=True, tag="rewound"):
    """The conversation goes back to before event `to`. What was said since stays in the journal,
    and what was done since stays done."""

    to: int
    by: str = ""
    key: str = ""
    """The sender's own id for the request, if it may be repeated."""


class Branched(BaseEvent, frozen=True, tag="branched"):
    """The events before this one are copies of those of session `of`: what was said there is known
    here, and what it cost was paid there."""

    of: str
    by: str = ""


class TurnStarted(BaseEvent, frozen=True, tag="turn_started"):
    """A turn begins; the queued messages follow."""

    turn: int


class TurnResumed(BaseEvent, frozen=True, tag="turn_resumed"):
    """A new runtime resumes the turn."""

    turn: int
    fence: int
    unfinished: int = 0
    """Calls that were in flight when the last runtime died."""


class MessageTaken(BaseEvent, frozen=True, tag="message_taken"):
    """A user's message enters the conversation. `key` is the sender's own id for it."""

    key: str
    text: str
    source: str = "cli"
    interactive: bool = False
    files: tuple[Media, ...] = ()
    recalled: RecallResult = RecallResult()
    """Matching memories; the model reads them after the text."""
    skills: tuple[ActivatedSkill, ...] = ()
    """Skills that it activates."""


class ImageDescribed(BaseEvent, frozen=True, tag="image_described"):
    """The files of a message (by position in the conversation) are replaced by a description, for
    a model that cannot see images."""

    message: int
    text: str
    by: str


class ModelRequested(BaseEvent, frozen=True, tag="model_requested"):
    """A request is about to be sent: this many messages, whose bytes hash to `digest`."""

    step: int
    model: str
    messages: int
    digest: str
    use: str = "main"
    input: int = 0
    """Estimated tokens."""
    most: float | None = None
    """The most it can cost in dollars, if a budget depends on it."""
    output: int = 0
    """The most tokens the reply may have, if a budget depends on it."""
    window: int = 0
    """The tokens that the model's context holds, if known."""


class ModelRetried(BaseEvent, frozen=True, tag="model_retried"):
    """A model call failed and will be retried after `delay` seconds."""

    trouble: str
    reason: str
    attempt: int
    delay: float


class ModelRouted(BaseEvent, frozen=True, tag="model_routed"):
    """A routing decision: another key or model takes over the call, a model is skipped, or its
    circuit breaker opened or closed."""

    step: RouteStep
    model: str
    to: str = ""
    trouble: str = ""
    reason: str = ""


class CostCharged(BaseEvent, frozen=True, tag="cost_charged"):
    """The cost of a model call that is not a reply of the conversation: a side call, or a failed
    attempt that was not free."""

    model: str
    use: str
    usage: Usage
    cost: float | None = None
    reason: str = ""
    again: bool = False
    """The call is being retried."""


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
    """Its reasoning, to send back to the same provider."""


class CallMade(BaseEvent, frozen=True, tag="call_made"):
    """A call in flight (`by`) makes a nested call: a program run by `execute_code` uses a tool."""

    effect: str
    by: str
    call: ToolCall


class CallJudged(BaseEvent, frozen=True, tag="call_judged"):
    """The gate's verdict on one call. `text` is the call as people read it, shortened."""

    effect: str
    tool: str
    action: Action
    reason: str
    rule: str = ""
    text: str = ""
    facts: JudgementInputs = JudgementInputs()
    consent: ApprovalRequirement = ApprovalRequirement()
    input: dict[str, Any] | None = None
    """The arguments it runs with, if a rule rewrote what the model wrote."""
    audits: tuple[str, ...] = ()
    """Rules that ask for it to be audited."""
    secrets: tuple[str, ...] = ()
    """Names of the secrets that a rule grants this call."""
    grants: tuple[str, ...] = ()
    """What "yes, for this session" allows."""
    proposal: str = ""
    """The rule, as YAML, that would allow this from now on."""
    confinement: Confinement = "none"
    risks: tuple[Risk, ...] = ()
    """What is dangerous in it, if it asks."""


class CallIntended(BaseEvent, frozen=True, tag="call_intended"):
    """Written before an effect runs. `note` is what the tool needs to find out later whether the
    effect happened."""

    effect: str
    call_id: str
    tool: str
    attempt: int = 1
    note: dict[str, Any] = {}
    unrecoverable: bool = False
    """If the runtime dies while it runs, nobody can tell whether it happened."""


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
    """How to undo it."""
    usage: Usage = Usage()
    """What subagents used for it."""
    cost: float | None = 0.0


class CommandEnded(BaseEvent, frozen=True, tag="command_ended"):
    """A background command ended. Its result told the model, if it is `known`; otherwise a message
    does (`wake`), or the model reads this after its next calls or before the next message."""

    effect: str
    """The command's id."""
    command: str
    terminal: str
    state: str
    """`exited`, `timeout`, `stopped` or `lost`."""
    code: int | None
    seconds: float
    text: str
    """What happened, in a sentence."""
    output: str = ""
    """Its last lines."""
    wake: bool = False
    """A turn starts because of it."""
    known: bool = False


class CallParked(BaseEvent, frozen=True, tag="call_parked"):
    """Nobody knows whether the effect happened. The turn waits for a person."""

    effect: str
    call_id: str
    tool: str
    reason: str


Decision = Literal["retry", "skip", "it-happened"]


class ParkDecided(BaseEvent, frozen=True, tag="park_decided"):
    """A person decided what to do about a parked call."""

    effect: str
    decision: Decision
    by: str = ""


class QuestionAsked(BaseEvent, frozen=True, tag="question_asked"):
    """A person is asked: to approve a call, to answer the model, or to extend a budget."""

    id: str
    purpose: Literal["approval", "question", "budget"]
    text: str
    expires: float = 0.0
    """When it expires and counts as refused; 0 means never."""
    effect: str = ""
    choices: tuple[str, ...] = ()
    consent: ApprovalRequirement = ApprovalRequirement()
    """Who may answer, and how many must agree."""
    grants: tuple[str, ...] = ()
    """What the answer "session" allows."""
    proposal: str = ""
    """The rule that the answer "always" adds."""
    reason: str = ""
    """Why an approval is needed; `text` ends with it."""
    change: str = ""
    """What happens to an existing file: counts on the first line, then a diff."""
    risks: tuple[Risk, ...] = ()
    """What is dangerous in it."""
    where: str = ""
    """Where a command would run: `in FOLDER`, with `on TERMINAL` for other machines."""


class ApprovalGiven(BaseEvent, frozen=True, tag="approval_given"):
    """One of several required approvers agreed; the question stays open."""

    id: str
    by: str


class QuestionAnswered(BaseEvent, frozen=True, tag="question_answered"):
    """The question is closed. `answer` is None when nobody answered in time."""

    id: str
    answer: str | None
    by: str = ""


class InterruptAsked(BaseEvent, frozen=True, tag="interrupt_asked"):
    """The user asked to stop the turn."""

    turn: int
    by: str = ""


class BudgetReached(BaseEvent, frozen=True, tag="budget_reached"):
    """A limit is reached, or the worst-case cost of the `next` call does not fit into it. The turn
    asks before it continues; if no one can answer, it pauses."""

    what: str
    used: float
    limit: float
    next: float = 0.0


class BudgetWarned(BaseEvent, frozen=True, tag="budget_warned"):
    """Half or 80 % of a budget is used."""

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
    """A few lines on the session up to this event number, for later sessions to find. The
    conversation itself does not change."""

    summary: str
    upto: int
    model: str = ""


class NoticeIssued(BaseEvent, frozen=True, tag="notice_issued"):
    """Something the user should see: a degraded component, a limit that was hit, a lost client."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


TurnEnd = Literal["done", "interrupted", "budget", "failed"]


class TurnFinished(BaseEvent, frozen=True, tag="turn_finished"):
    """The turn ended. `text` is the answer; `error` and `hint` say what went wrong."""

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
    SessionOpened | ModelChosen | SessionTitled | Rewound | Branched | TurnStarted | TurnResumed
    | MessageTaken | ImageDescribed | ModelRequested | ModelRetried | ModelRouted | CostCharged
    | Replied | CallMade | CallJudged | CallIntended | CallFinished | CommandEnded | CallParked
    | ParkDecided | QuestionAsked | ApprovalGiven | QuestionAnswered | InterruptAsked
    | BudgetReached | BudgetWarned | Compacted | Summarised | NoticeIssued | TurnFinished
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
