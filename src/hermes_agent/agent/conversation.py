"""The conversation as a pure function of the journal. A live turn and a resumed one apply the same
events through the same code, so they cannot disagree."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import (
    AssistantMessage,
    Message,
    Prompt,
    Request,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_agent.core.skills import ActivatedSkill, RecallResult, Runbook, SkillLimits

_encoder = msgspec.json.Encoder()

STUCK = 6
"""So many times the very same call in vain end a turn."""
TODO = "todo"
"""The tool whose list outlives a summary."""
SKILL = "skill"
"""The tool that makes a skill active."""


@dataclass
class PendingCall:
    """A call of the last reply, and how far it has come."""

    call: ToolCall
    effect: str
    by: str = ""
    """The effect whose program made it; empty for a call of the model's."""
    judged: ev.CallJudged | None = None
    intended: ev.CallIntended | None = None
    parked: ev.CallParked | None = None
    decided: ev.ParkDecided | None = None
    finished: ev.CallFinished | None = None


@dataclass
class UsageTotals:
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


def most_tokens(request: Request) -> int:
    """The most that a request can hold, whoever counts: a token for each byte."""
    sizes = (_size(message, _encoder.encode(message)) for message in request.messages)
    return len(_encoder.encode(request.prompt)) + sum(sizes)


def _size(message: Message, encoded: bytes) -> int:
    size = len(encoded)
    for file in getattr(message, "files", ()):
        size += file.most_tokens - len(file.data) * 4 // 3
    return size


def rounds(full: ev.BudgetReached, already: int) -> int:
    """How often a budget that was extended so often must be extended for the next call to fit."""
    if not full.limit:
        return 0
    missing = full.used + full.next - full.limit * (1 + already)
    return max(1, math.floor(missing / full.limit) + 1)


def summary_message(summary: str, todo: str = "") -> UserMessage:
    listed = f"\n\n[The list of what is to be done]\n{todo}" if todo else ""
    return UserMessage(f"[The earlier part of this conversation, summarised]\n{summary}{listed}")


@dataclass
class ConversationState:
    session: str
    prompt: Prompt
    model: str = ""
    """The one that was chosen, at the beginning or since."""
    effort: str = ""
    messages: list[Message] = field(default_factory=list)
    """What the model is sent."""
    calls: list[PendingCall] = field(default_factory=list)
    """Calls of the last reply, until all of them have ended."""
    inner: list[PendingCall] = field(default_factory=list)
    """Calls that programs among them have made."""
    begun: set[str] = field(default_factory=set)
    """Tools that were run in this session."""
    used: set[str] = field(default_factory=set)
    """Those that have worked."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often the model made the very same call in vain in this turn, by name and arguments. A
    program may well look for something until it is there."""
    todo: str = ""
    """The list of what is to be done, as the model wrote it last."""
    opened: list[ActivatedSkill] = field(default_factory=list)
    """Skills that are active: from when they are opened to the end of the turn."""
    recalled: list[RecallResult] = field(default_factory=list)
    """What was offered with the messages of this turn."""
    turn: UsageTotals = field(default_factory=UsageTotals)
    whole: UsageTotals = field(default_factory=UsageTotals)
    interactive: bool = False
    """Whoever sent the latest message can be asked."""
    interrupted: bool = False
    """The user has asked for this turn to stop."""
    questions: dict[str, ev.QuestionAsked] = field(default_factory=dict)
    """Questions of this turn that nobody has answered yet."""
    answers: dict[str, ev.QuestionAnswered] = field(default_factory=dict)
    agreed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Who has agreed so far to questions that several people must agree to."""
    granted: frozenset[str] = frozenset()
    """What people have allowed for the rest of this session."""
    budget: ev.BudgetReached | None = None
    extensions: dict[str, int] = field(default_factory=dict)
    """How often the user has extended each budget in this turn."""
    last_text: str = ""
    context_tokens: int = 0
    """What the next request holds, by the service's count and an estimate of what came since."""
    asked: ev.ModelRequested | None = None
    """A request to which nothing has come back yet."""
    turns: int = 0
    turn_began: int = 0
    """The number of the event that began the latest turn."""
    _bytes: int = 0
    _counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What each model counted last, and how many bytes that were."""
    _resting: bool = True
    _time: float = 0.0

    def __post_init__(self) -> None:
        self._begin_again()

    def _begin_again(self) -> None:
        prompt = _encoder.encode(self.prompt)
        self._hash = hashlib.sha256(prompt)
        self.context_tokens = 0
        self._bytes, self._counts = len(prompt), {}

    def most_tokens(self, model: str) -> int:
        """The most that the next request can hold as this model counts: what it has counted, and
        a token for each byte since."""
        counted, bytes = self._counts.get(model, (0, 0))
        return counted + self._bytes - bytes

    @property
    def digest(self) -> str:
        """The hash of the prompt and all messages, as the next request would carry them."""
        return self._hash.hexdigest()

    @property
    def unfinished(self) -> list[PendingCall]:
        return [call for call in self.calls if call.finished is None]

    @property
    def every(self) -> list[PendingCall]:
        """The calls of the last reply and those that programs among them have made."""
        return [*self.calls, *self.inner]

    @property
    def stuck(self) -> HermesError | None:
        """What to say of a model that makes the same call in vain again and again."""
        name, count = max(
            ((name, count) for (name, _), count in self.failures.items()),
            key=lambda one: one[1],
            default=("", 0),
        )
        if count < STUCK:
            return None
        return HermesError(
            f"stopped: the model made the same call of {name} {count} times without success",
            "rephrase the task, or switch the model: `hermes model`",
        )

    @property
    def bounds(self) -> tuple[SkillLimits, ...]:
        """What the active skills allow; each of them counts."""
        found = [one.bounds for one in self.opened if one.bounds is not None]
        return tuple(dict.fromkeys(found))

    @property
    def runbook(self) -> tuple[str, Runbook] | None:
        """What this turn is to work through without a model, and the skill that it is of."""
        for one in self.opened:
            if one.runbook is not None:
                return one.skill, one.runbook
        return None

    @property
    def answered(self) -> bool:
        """The model has spoken last and asked for nothing."""
        return not self.calls and bool(self.messages) and self._last_is_plain_reply()

    def _last_is_plain_reply(self) -> bool:
        last = self.messages[-1]
        return isinstance(last, AssistantMessage) and not last.calls

    def apply_all(self, recorded: Iterable[ev.Recorded]) -> "ConversationState":
        for one in recorded:
            self.apply(one)
        return self

    def apply(self, recorded: ev.Recorded) -> None:
        self._pass_time(recorded)
        match recorded.event:
            case ev.SessionOpened() | ev.ModelChosen() as chosen:
                self.model, self.effort = chosen.model, chosen.effort
            case ev.ModelRequested() as asked:
                self.asked = asked
            case ev.TurnStarted():
                self.turn_began = recorded.number
                self.turns += 1
                self.turn, self.extensions, self.failures = UsageTotals(), {}, Counter()
                self.questions, self.answers, self.agreed, self.budget = {}, {}, {}, None
                self.interactive, self.interrupted, self.last_text = False, False, ""
                self.opened, self.recalled = [], []
            case ev.MessageTaken() as taken:
                self._take(taken)
            case ev.Replied() as replied:
                self._reply(recorded.number, replied)
            case ev.Compacted() as compacted:
                self._compact(compacted)
            case ev.ImageDescribed() as described:
                self._describe(described)
            case ev.CostCharged() as charged:
                self._charge(charged)
            case ev.TurnFinished():
                self.asked = None
            case ev.BudgetReached() as reached:
                self.budget, self.asked = reached, None
            case ev.InterruptAsked():
                self.interrupted = True
            case ev.QuestionAsked() as asked:
                self.questions[asked.id] = asked
            case ev.ApprovalGiven() as agreed:
                self.agreed[agreed.id] = (*self.agreed.get(agreed.id, ()), agreed.by)
            case ev.QuestionAnswered() as answered:
                self._answer(answered)
            case _:
                self._advance_call(recorded.event)

    def _take(self, taken: ev.MessageTaken) -> None:
        self.interactive = taken.interactive
        self.opened += taken.skills
        text = "\n\n".join([taken.text, *(one.text for one in taken.skills if one.text)])
        if taken.recalled != RecallResult():
            self.recalled.append(taken.recalled)
            text = f"{text}\n\n{taken.recalled.text}" if taken.recalled.text else text
        self._say(UserMessage(text, taken.files))

    def _say(self, message: Message) -> None:
        self.messages.append(message)
        encoded = _encoder.encode(message)
        self._hash.update(encoded)
        size = _size(message, encoded)
        self._bytes += size
        self.context_tokens += size // 4

    def _reply(self, number: int, replied: ev.Replied) -> None:
        self._say(AssistantMessage(replied.text, replied.calls, replied.thoughts))
        self.asked = None
        self.turn.steps += 1
        self.whole.steps += 1
        self._spend(replied.usage, replied.cost)
        if replied.usage.total and replied.stop != "interrupted":  # else it is our own estimate
            self.context_tokens = replied.usage.total
            self._counts[replied.model] = (replied.usage.total, self._bytes)
        self.last_text = replied.text
        self.calls = [
            PendingCall(call, f"{self.session}-{number}-{index}")
            for index, call in enumerate(replied.calls)
        ]

    def _compact(self, compacted: ev.Compacted) -> None:
        self.messages[compacted.first : compacted.last] = [
            summary_message(compacted.summary, self.todo)
        ]
        self.asked = None
        self._spend(compacted.usage, compacted.cost)
        self._say_again()

    def _describe(self, described: ev.ImageDescribed) -> None:
        text = f"{self.messages[described.message].text}\n\n{described.text}"
        self.messages[described.message] = UserMessage(text.strip())
        self._say_again()

    def _say_again(self) -> None:
        """The messages are others now."""
        self._begin_again()
        kept, self.messages = self.messages, []
        for message in kept:
            self._say(message)

    def _charge(self, charged: ev.CostCharged) -> None:
        if charged.use == "titles":  # it may fall into any turn, and belongs to none
            self.whole.add(charged.usage, charged.cost)
            return
        self._spend(charged.usage, charged.cost)
        if not charged.again:
            self.asked = None

    def _spend(self, usage: Usage, cost: float | None) -> None:
        for spent in (self.turn, self.whole):
            spent.add(usage, cost)

    def _answer(self, answered: ev.QuestionAnswered) -> None:
        question = self.questions.pop(answered.id, None)
        self.answers[answered.id] = answered
        if question is not None and answered.answer == "session":
            self.granted |= frozenset(question.grants)
        if question is not None and question.purpose == "budget" and self.budget is not None:
            if answered.answer == "yes":
                already = self.extensions.get(self.budget.what, 0)
                self.extensions[self.budget.what] = already + rounds(self.budget, already)
            self.budget = None

    def _advance_call(self, event: ev.Event | ev.TransientEvent) -> None:
        match event:
            case ev.CallMade():
                self.inner.append(PendingCall(event.call, event.effect, event.by))
            case ev.CallJudged():
                self._call(event.effect).judged = event
            case ev.CallIntended():
                self.begun.add(event.tool)
                call = self._call(event.effect)
                call.intended, call.parked, call.decided = event, None, None
                if event.tool == SKILL and "opened" in event.note:
                    self.opened.append(msgspec.convert(event.note["opened"], ActivatedSkill))
            case ev.CallParked():
                self._call(event.effect).parked = event
            case ev.ParkDecided():
                self._call(event.effect).decided = event
            case ev.CallFinished():
                self._finish(self._call(event.effect), event)

    def _finish(self, call: PendingCall, done: ev.CallFinished) -> None:
        call.finished = done
        if done.ok:
            self.used.add(done.tool)
        elif done.data.get("retry") in ("changed", "never") and not call.by:
            self.failures[call.call.name, call.call.arguments] += 1
        if done.tool == TODO and done.ok:
            self.todo = str(done.data.get("list", ""))
        if done.usage.total or done.cost:
            self._spend(done.usage, done.cost)
        self._close_calls()

    def _call(self, effect: str) -> PendingCall:
        return next(call for call in self.every if call.effect == effect)

    def _close_calls(self) -> None:
        """Results go to the model in the order of the calls, whichever ended first."""
        if self.unfinished:
            return
        for call in self.calls:
            if call.finished is not None:
                done = call.finished
                self._say(ToolMessage(call.call.id, call.call.name, done.text, done.ok, done.files))
        self.calls, self.inner = [], []

    def _pass_time(self, recorded: ev.Recorded) -> None:
        """Working time only: not the time a person was waited for, nor the time between two
        runtimes or two turns."""
        if not self._resting and not isinstance(recorded.event, ev.TurnResumed):
            self.turn.seconds += max(0.0, recorded.time - self._time)
        self._time = recorded.time
        self._resting = isinstance(
            recorded.event, ev.QuestionAsked | ev.CallParked | ev.TurnFinished
        )
