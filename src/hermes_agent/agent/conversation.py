"""The conversation as a pure function of the journal: live and resumed turns apply the same events
through the same code."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec import Struct, field

from hermes_agent.core import events as ev
from hermes_agent.core.command_results import ended_notice
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
"""A turn ends after this many failures of the same call."""
TODO = "todo"
"""The tool whose list survives compaction."""
SKILL = "skill"
"""The tool that activates a skill."""


class PendingCall(Struct):
    """A tool call of the last reply, and its progress."""

    call: ToolCall
    effect: str
    by: str = ""
    """The effect of the program that made it; empty for the model's own calls."""
    judged: ev.CallJudged | None = None
    intended: ev.CallIntended | None = None
    parked: ev.CallParked | None = None
    decided: ev.ParkDecided | None = None
    finished: ev.CallFinished | None = None

    @property
    def is_asked(self) -> bool:
        """Whether a person is asked to allow it."""
        return self.judged is not None and self.judged.action == "ask"


class RewindPoint(Struct, frozen=True):
    """The conversation before a message of the user."""

    messages: list[Message]
    """As they were then, and perhaps more that was added later."""
    length: int
    context_tokens: int
    counts: dict[str, tuple[int, int]]
    todo: str


class UsageTotals(Struct):
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


def max_tokens(request: Request) -> int:
    """An upper bound for any tokenizer: one token per byte."""
    sizes = (_size(message, _encoder.encode(message)) for message in request.messages)
    return len(_encoder.encode(request.prompt)) + sum(sizes)


def _size(message: Message, encoded: bytes) -> int:
    size = len(encoded)
    for file in getattr(message, "files", ()):
        size += file.most_tokens - len(file.data) * 4 // 3
    return size


def rounds(full: ev.BudgetReached, already: int) -> int:
    """How many more extensions the next call needs, after `already` of them."""
    if not full.limit:
        return 0
    missing = full.used + full.next - full.limit * (1 + already)
    return max(1, math.floor(missing / full.limit) + 1)


def summary_message(summary: str, todo: str = "") -> UserMessage:
    listed = f"\n\n[The list of what is to be done]\n{todo}" if todo else ""
    return UserMessage(f"[The earlier part of this conversation, summarised]\n{summary}{listed}")


class ConversationState(Struct, dict=True):
    session: str
    prompt: Prompt
    model: str = ""
    effort: str = ""
    messages: list[Message] = []
    calls: list[PendingCall] = []
    """Calls of the last reply, until all of them have finished."""
    inner: list[PendingCall] = []
    """Calls made by programs among `calls`."""
    tools_started: set[str] = set()
    """Tools that ran in this session."""
    tools_used: set[str] = set()
    """Tools that succeeded in this session."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Failures in this turn that the same call will have again, by name and arguments. Calls of
    programs do not count, here and below: they may poll."""
    failing: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The last call, if it failed in a way that another call between may change, and how often."""
    notices: list[str] = []
    """Ended background commands that the model has not been told of."""
    todo: str = ""
    """The to-do list as the model last wrote it."""
    active_skills: list[ActivatedSkill] = []
    """Skills opened in this turn."""
    recalled: list[RecallResult] = []
    """What recall added to the messages of this turn."""
    turn: UsageTotals = field(default_factory=UsageTotals)
    session_usage: UsageTotals = field(default_factory=UsageTotals)
    interactive: bool = False
    """Whether the sender of the latest message can answer questions."""
    interrupted: bool = False
    """Whether the user has interrupted this turn."""
    questions: dict[str, ev.QuestionAsked] = {}
    """Open questions of this turn."""
    answers: dict[str, ev.QuestionAnswered] = {}
    agreed: dict[str, tuple[str, ...]] = {}
    """Who has agreed so far to questions that need several people."""
    granted: frozenset[str] = frozenset()
    """What people have allowed for the rest of this session."""
    budget: ev.BudgetReached | None = None
    extensions: dict[str, int] = {}
    """How often the user has extended each budget in this turn."""
    last_text: str = ""
    context_tokens: int = 0
    """The size of the next request: the service's last count plus an estimate of what was added."""
    asked: ev.ModelRequested | None = None
    """The model request in progress."""
    turns: int = 0
    turn_began: int = 0
    """The number of the latest turn's first event."""
    rewind_points: dict[int, RewindPoint] = {}
    """Where the conversation can go back to: the numbers of the user's messages in it."""
    _bytes: int = 0
    _counts: dict[str, tuple[int, int]] = {}
    """By model: its last token count, and the bytes it counted."""
    _paused: bool = True
    _time: float = 0.0

    def __post_init__(self) -> None:
        self._reset_digest()

    def _reset_digest(self) -> None:
        prompt = _encoder.encode(self.prompt)
        self._hash = hashlib.sha256(prompt)
        self.context_tokens = 0
        self._bytes, self._counts = len(prompt), {}

    def max_tokens(self, model: str) -> int:
        """An upper bound for the next request: the model's last count plus one token for each
        byte since."""
        counted, bytes = self._counts.get(model, (0, 0))
        return counted + self._bytes - bytes

    @property
    def digest(self) -> str:
        """The hash of the prompt and all messages of the next request."""
        return self._hash.hexdigest()

    @property
    def unfinished(self) -> list[PendingCall]:
        return [call for call in self.calls if call.finished is None]

    @property
    def all_calls(self) -> list[PendingCall]:
        """The calls of the last reply and those made by programs among them."""
        return [*self.calls, *self.inner]

    @property
    def stuck(self) -> HermesError | None:
        """The error when the model repeats a failing call."""
        name, count = max(
            ((name, count) for (name, _), count in (self.failures + self.failing).items()),
            key=lambda one: one[1],
            default=("", 0),
        )
        if count < STUCK:
            return None
        return HermesError(
            f"stopped: the model made the same call to {name} {count} times without success",
            "rephrase the task, or switch the model: `hermes model`",
        )

    @property
    def bounds(self) -> tuple[SkillLimits, ...]:
        """The limits of the active skills; all of them apply."""
        found = [one.bounds for one in self.active_skills if one.bounds is not None]
        return tuple(dict.fromkeys(found))

    @property
    def runbook(self) -> tuple[str, Runbook] | None:
        """The skill and runbook that this turn follows without a model."""
        for one in self.active_skills:
            if one.runbook is not None:
                return one.skill, one.runbook
        return None

    @property
    def answered(self) -> bool:
        """Whether the last message is a reply without calls."""
        last = self.messages[-1] if self.messages else None
        return not self.calls and isinstance(last, AssistantMessage) and not last.calls

    def apply_all(self, recorded: Iterable[ev.Recorded]) -> "ConversationState":
        for one in recorded:
            self.apply(one)
        return self

    def apply(self, recorded: ev.Recorded, worked: float | None = None) -> None:
        """`worked`: the seconds since the last event, where they were measured; by default, the
        difference of the times in the journal."""
        self._count_time(recorded, worked)
        match recorded.event:
            case ev.SessionOpened() | ev.ModelChosen() as chosen:
                self.model, self.effort = chosen.model, chosen.effort
            case ev.ModelRequested() as asked:
                self.asked = asked
            case ev.TurnStarted():
                self.turn_began = recorded.number
                self.turns += 1
                self.turn, self.extensions = UsageTotals(), {}
                self.failures, self.failing = Counter(), Counter()
                self.questions, self.answers, self.agreed, self.budget = {}, {}, {}, None
                self.interactive, self.interrupted, self.last_text = False, False, ""
                self.active_skills, self.recalled = [], []
            case ev.CommandEnded() as ended if not (ended.known or ended.wake):
                self.notices.append(ended_notice(ended))
            case ev.MessageTaken() as taken:
                self._give_notices()
                self._add_rewind_point(recorded.number)
                self._add_user_message(taken)
            case ev.Rewound(to=to):
                self._rewind(to)
            case ev.Branched():
                self.turn, self.session_usage = UsageTotals(), UsageTotals()
                self.granted = frozenset()
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

    def _add_user_message(self, taken: ev.MessageTaken) -> None:
        self.interactive = taken.interactive
        self.active_skills += taken.skills
        text = "\n\n".join([taken.text, *(one.text for one in taken.skills if one.text)])
        if taken.recalled != RecallResult():
            self.recalled.append(taken.recalled)
            text = f"{text}\n\n{taken.recalled.text}" if taken.recalled.text else text
        self._append_message(UserMessage(text, taken.files))

    def _append_message(self, message: Message) -> None:
        self.messages.append(message)
        encoded = _encoder.encode(message)
        self._hash.update(encoded)
        size = _size(message, encoded)
        self._bytes += size
        self.context_tokens += size // 4

    def _reply(self, number: int, replied: ev.Replied) -> None:
        self._append_message(AssistantMessage(replied.text, replied.calls, replied.thoughts))
        self.asked = None
        self.turn.steps += 1
        self.session_usage.steps += 1
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
        summary = summary_message(compacted.summary, self.todo)
        self.asked = None
        self._spend(compacted.usage, compacted.cost)
        before, after = self.messages[: compacted.first], self.messages[compacted.last :]
        self._replace_messages([*before, summary, *after])

    def _describe(self, described: ev.ImageDescribed) -> None:
        text = f"{self.messages[described.message].text}\n\n{described.text}"
        messages = [*self.messages]
        messages[described.message] = UserMessage(text.strip())
        self._replace_messages(messages)

    def _add_rewind_point(self, number: int) -> None:
        self.rewind_points[number] = RewindPoint(
            self.messages, len(self.messages), self.context_tokens, dict(self._counts), self.todo
        )

    def _rewind(self, to: int) -> None:
        point = self.rewind_points[to]
        self.rewind_points = {at: one for at, one in self.rewind_points.items() if at < to}
        self._replace_messages(point.messages[: point.length])
        self.context_tokens, self._counts = point.context_tokens, dict(point.counts)
        self.todo, self.last_text = point.todo, ""
        self.calls, self.inner, self.asked = [], [], None

    def _replace_messages(self, messages: list[Message]) -> None:
        """Recompute the digest and sizes. The old list is left alone: rewind points need it."""
        self._reset_digest()
        self.messages = []
        for message in messages:
            self._append_message(message)

    def _charge(self, charged: ev.CostCharged) -> None:
        if charged.use == "titles":  # it belongs to no turn
            self.session_usage.add(charged.usage, charged.cost)
            return
        self._spend(charged.usage, charged.cost)
        if not charged.again:
            self.asked = None

    def _spend(self, usage: Usage, cost: float | None) -> None:
        for spent in (self.turn, self.session_usage):
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
                self.tools_started.add(event.tool)
                call = self._call(event.effect)
                call.intended, call.parked, call.decided = event, None, None
                if event.tool == SKILL and "opened" in event.note:
                    self.active_skills.append(msgspec.convert(event.note["opened"], ActivatedSkill))
            case ev.CallParked():
                self._call(event.effect).parked = event
            case ev.ParkDecided():
                self._call(event.effect).decided = event
            case ev.CallFinished():
                self._finish(self._call(event.effect), event)

    def _finish(self, call: PendingCall, done: ev.CallFinished) -> None:
        call.finished = done
        if done.ok:
            self.tools_used.add(done.tool)
        if not call.by:
            self._count_failure((call.call.name, call.call.arguments), done)
        if done.tool == TODO and done.ok:
            self.todo = str(done.data.get("list", ""))
        if done.usage.total or done.cost:
            self._spend(done.usage, done.cost)
        self._close_calls()

    def _count_failure(self, same: tuple[str, str], done: ev.CallFinished) -> None:
        if done.ok or same not in self.failing:
            self.failing.clear()
        if done.ok:
            return
        match done.data.get("retry", ""):
            case "changed" | "never":
                self.failures[same] += 1
            case "":
                self.failing[same] += 1

    def _call(self, effect: str) -> PendingCall:
        """In a branch, the effects of copied events carry the name of the session they ran in."""
        place = effect.partition("-")[2]
        return next(call for call in self.all_calls if call.effect.partition("-")[2] == place)

    def _close_calls(self) -> None:
        """Append the results in the order of the calls, whichever finished first."""
        if self.unfinished:
            return
        for call in self.calls:
            if call.finished is not None:
                done = call.finished
                self._append_message(
                    ToolMessage(call.call.id, call.call.name, done.text, done.ok, done.files)
                )
        self.calls, self.inner = [], []
        self._give_notices()

    def _give_notices(self) -> None:
        notices, self.notices = self.notices, []
        for notice in notices:
            self._append_message(UserMessage(notice))

    def _count_time(self, recorded: ev.Recorded, worked: float | None) -> None:
        """Count working time only, not time spent waiting for people, between runtimes or between
        turns."""
        if not self._paused and not isinstance(recorded.event, ev.TurnResumed):
            self.turn.seconds += max(0.0, recorded.time - self._time) if worked is None else worked
        self._time = recorded.time
        self._paused = isinstance(
            recorded.event, ev.QuestionAsked | ev.CallParked | ev.TurnFinished | ev.Branched
        )
