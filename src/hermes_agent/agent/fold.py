"""The conversation as a pure function of the journal. A live turn and a resumed one apply the same
events through the same code, so they cannot disagree."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from hermes_agent.core import events as ev
from hermes_agent.core.messages import (
    AssistantMessage,
    Message,
    Prompt,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

_encoder = msgspec.json.Encoder()


@dataclass
class OpenCall:
    """A call of the last reply, and how far it has come."""

    call: ToolCall
    effect: str
    judged: ev.CallJudged | None = None
    intended: ev.CallIntended | None = None
    parked: ev.CallParked | None = None
    decided: ev.ParkDecided | None = None
    finished: ev.CallFinished | None = None


@dataclass
class Spent:
    """What a turn or a session has used."""

    steps: int = 0
    usage: Usage = Usage()
    dollars: float = 0.0
    priced: bool = True
    """False once a reply came without a price: `dollars` is then a lower bound."""
    seconds: float = 0.0

    def add(self, usage: Usage, cost: float | None) -> None:
        self.usage += usage
        if cost is None:
            self.priced = False
        else:
            self.dollars += cost

    @property
    def cost(self) -> float | None:
        return self.dollars if self.priced or self.dollars else None


def summary_message(summary: str) -> UserMessage:
    return UserMessage(f"[The earlier part of this conversation, summarised]\n{summary}")


@dataclass
class Conversation:
    session: str
    prompt: Prompt
    messages: list[Message] = field(default_factory=list)
    """What the model is sent."""
    calls: list[OpenCall] = field(default_factory=list)
    """Calls of the last reply, until all of them have ended."""
    turn: Spent = field(default_factory=Spent)
    whole: Spent = field(default_factory=Spent)
    interactive: bool = False
    """Whoever sent the latest message can be asked."""
    interrupted: bool = False
    """The user has asked for this turn to stop."""
    questions: dict[str, ev.Asked] = field(default_factory=dict)
    """Questions of this turn that nobody has answered yet."""
    answers: dict[str, ev.Answered] = field(default_factory=dict)
    agreed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Who has agreed so far to questions that several people must agree to."""
    granted: frozenset[str] = frozenset()
    """What people have allowed for the rest of this session."""
    budget: ev.BudgetReached | None = None
    extensions: dict[str, int] = field(default_factory=dict)
    """How often the user has extended each budget in this turn."""
    last_text: str = ""
    context_tokens: int = 0
    turn_began: int = 0
    """The number of the event that began the latest turn."""
    _resting: bool = True
    _time: float = 0.0

    def __post_init__(self) -> None:
        self._hash = hashlib.sha256(_encoder.encode(self.prompt))

    @property
    def digest(self) -> str:
        """The hash of the prompt and all messages, as the next request would carry them."""
        return self._hash.hexdigest()

    @property
    def unfinished(self) -> list[OpenCall]:
        return [call for call in self.calls if call.finished is None]

    @property
    def answered(self) -> bool:
        """The model has spoken last and asked for nothing."""
        return not self.calls and bool(self.messages) and self._last_is_plain_reply()

    def _last_is_plain_reply(self) -> bool:
        last = self.messages[-1]
        return isinstance(last, AssistantMessage) and not last.calls

    def apply_all(self, recorded: Iterable[ev.Recorded]) -> "Conversation":
        for one in recorded:
            self.apply(one)
        return self

    def apply(self, recorded: ev.Recorded) -> None:
        self._pass_time(recorded)
        match recorded.event:
            case ev.TurnStarted():
                self.turn_began = recorded.number
                self.turn, self.extensions = Spent(), {}
                self.questions, self.answers, self.agreed, self.budget = {}, {}, {}, None
                self.interactive, self.interrupted, self.last_text = False, False, ""
            case ev.MessageTaken() as taken:
                self.interactive = taken.interactive
                self._say(UserMessage(taken.text))
            case ev.Replied() as replied:
                self._reply(recorded.number, replied)
            case ev.Compacted() as compacted:
                self._compact(compacted)
            case ev.BudgetReached() as reached:
                self.budget = reached
            case ev.InterruptAsked():
                self.interrupted = True
            case ev.Asked() as asked:
                self.questions[asked.id] = asked
            case ev.Agreed() as agreed:
                self.agreed[agreed.id] = (*self.agreed.get(agreed.id, ()), agreed.by)
            case ev.Answered() as answered:
                self._answer(answered)
            case _:
                self._advance_call(recorded.event)

    def _say(self, message: Message) -> None:
        self.messages.append(message)
        encoded = _encoder.encode(message)
        self._hash.update(encoded)
        self.context_tokens += len(encoded) // 4

    def _reply(self, number: int, replied: ev.Replied) -> None:
        self._say(AssistantMessage(replied.text, replied.calls))
        for spent in (self.turn, self.whole):
            spent.steps += 1
            spent.add(replied.usage, replied.cost)
        if replied.usage.total:
            self.context_tokens = replied.usage.total
        self.last_text = replied.text
        self.calls = [
            OpenCall(call, f"{self.session}-{number}-{index}")
            for index, call in enumerate(replied.calls)
        ]

    def _compact(self, compacted: ev.Compacted) -> None:
        self.messages[compacted.first : compacted.last] = [summary_message(compacted.summary)]
        for spent in (self.turn, self.whole):
            spent.add(compacted.usage, compacted.cost)
        self._hash = hashlib.sha256(_encoder.encode(self.prompt))
        kept, self.messages, self.context_tokens = self.messages, [], 0
        for message in kept:
            self._say(message)

    def _answer(self, answered: ev.Answered) -> None:
        question = self.questions.pop(answered.id, None)
        self.answers[answered.id] = answered
        if question is not None and answered.answer == "session":
            self.granted |= frozenset(question.grants)
        if question is not None and question.purpose == "budget" and self.budget is not None:
            if answered.answer == "yes":
                what = self.budget.what
                self.extensions[what] = self.extensions.get(what, 0) + 1
            self.budget = None

    def _advance_call(self, event: ev.Event | ev.Passing) -> None:
        match event:
            case ev.CallJudged():
                self._call(event.effect).judged = event
            case ev.CallIntended():
                call = self._call(event.effect)
                call.intended, call.parked, call.decided = event, None, None
            case ev.CallParked():
                self._call(event.effect).parked = event
            case ev.ParkDecided():
                self._call(event.effect).decided = event
            case ev.CallFinished():
                self._call(event.effect).finished = event
                self._close_calls()

    def _call(self, effect: str) -> OpenCall:
        return next(call for call in self.calls if call.effect == effect)

    def _close_calls(self) -> None:
        """Results go to the model in the order of the calls, whichever ended first."""
        if self.unfinished:
            return
        for call in self.calls:
            if call.finished is not None:
                done = call.finished
                self._say(ToolMessage(call.call.id, done.tool, done.text, done.ok))
        self.calls = []

    def _pass_time(self, recorded: ev.Recorded) -> None:
        """Working time only: not the time a person was waited for, nor the time between two
        runtimes or two turns."""
        if not self._resting and not isinstance(recorded.event, ev.TurnResumed):
            self.turn.seconds += max(0.0, recorded.time - self._time)
        self._time = recorded.time
        self._resting = isinstance(recorded.event, ev.Asked | ev.CallParked | ev.TurnFinished)
