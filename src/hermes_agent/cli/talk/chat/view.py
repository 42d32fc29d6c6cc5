"""What a chat shows: events become pieces that are printed once, and a live part that changes."""

import re
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from hermes_agent.cli.output.consent import rule_added
from hermes_agent.cli.output.events import call_line, event_line, result_text
from hermes_agent.cli.output.formatting import count, one_line
from hermes_agent.cli.output.transcript import messages, tool_line
from hermes_agent.core.text.terminal import clean

TAIL_LINES = 4
"""Lines shown of a running command's output."""
TAIL_CHARS = 4_000
THOUGHT_CHARS = 60
"""Characters shown of the model's thinking."""

LOOKS = frozenset(("read_file", "search_files", "read_on", "web_search", "web_fetch", "recall"))
"""Tools that only look. So do commands that ran where they could not write."""
GROUP = 3
"""So many looks in a row become one line."""
MOST_GROUPED = 30
MOST_OUTPUTS = 30
"""Calls whose output can be folded out; `/show` knows all."""

RECAP = 6
"""Messages and calls that are shown again when a session is resumed."""
_RECAPPED: dict[str, Literal["user", "markdown"]] = {"user": "user", "assistant": "markdown"}

_LISTED = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")

Event = dict[str, Any]


class ViewPiece(NamedTuple):
    kind: Literal["markdown", "quiet", "plain", "user", "warning", "ok", "failed", "header"]
    text: str


class FinishedCall(NamedTuple):
    number: int
    """Its place among the calls of the session, as `/show` counts them."""
    line: str
    event: Event

    def piece(self) -> ViewPiece:
        text = clean(tool_line(self.line, self.event))
        lines = len(result_text(self.event).splitlines())
        size = f" · {count(lines, 'line')}" if lines > 1 else ""
        return ViewPiece("ok" if self.event["ok"] else "failed", f"{text}{size}  [{self.number}]")


class Blocks:
    """Turns streamed text into finished paragraphs. A fenced block of code is one, and so is a
    list, however many empty lines are in it."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._seen = ""
        self._done = 0
        self._start = 0
        self._fence = ""
        self._list = self._blank = False

    @property
    def rest(self) -> str:
        """The unfinished paragraph so far."""
        return self._seen[self._done :]

    def feed(self, text: str) -> list[str]:
        """Add text; returns the paragraphs it finishes."""
        self._seen += text
        finished: list[str] = []
        while (end := self._seen.find("\n", self._start)) >= 0:
            line, begin = self._seen[self._start : end], self._start
            self._start = end + 1
            if self._ends_list(line):
                self._finish(begin, finished)
            if self._ends_block(line.strip()):
                self._finish(self._start, finished)
            elif not self._fence:
                self._list = self._list or _LISTED.match(line) is not None
            self._blank = not line.strip()
        return finished

    def _finish(self, end: int, finished: list[str]) -> None:
        block = self._seen[self._done : end]
        self._done = end
        if block.strip():
            finished.append(block)

    def _ends_list(self, line: str) -> bool:
        """Whether a line after an empty one belongs to the list no more."""
        if not self._list or self._fence or not self._blank or not line.strip():
            return False
        self._list = line[0].isspace() or _LISTED.match(line) is not None
        return not self._list

    def _ends_block(self, line: str) -> bool:
        if self._fence:
            if line.startswith(self._fence) and not line.strip(self._fence[0]):
                self._fence = ""
                return not self._list
            return False
        for mark in ("```", "~~~"):
            if line.startswith(mark):
                self._fence = mark[0] * (len(line) - len(line.lstrip(mark[0])))
                return False
        return not line and not self._list

    def end(self, whole: str) -> str:
        """The reply is finished: returns what is not printed yet. That is all of it if we joined
        late, and the rest if it differs from what arrived (a secret was taken out)."""
        if whole.startswith(self._seen[: self._done]):
            rest = whole[self._done :]
        else:
            rest = whole if whole.endswith(self._seen) else self.rest
        self._clear()
        return rest

    def discard(self) -> bool:
        """Drop what arrived; whether some of it was already printed."""
        printed = self._done > 0
        self._clear()
        return printed


class RunningCall:
    def __init__(self, line: str, since: float) -> None:
        self.line = line
        self.since = since
        self.tail = ""

    def printed(self, text: str) -> None:
        self.tail = (self.tail + clean(text))[-TAIL_CHARS:]


class ChatView:
    """The view of one session, from the moment the chat joined it."""

    def __init__(self, has_shown: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._has_shown = has_shown
        self._clock = clock
        self._blocks = Blocks()
        self._thought = ""
        self._calls: dict[str, str] = {}
        self._running: dict[str, RunningCall] = {}
        self._questions: dict[str, Event] = {}
        self._queued: dict[str, str] = {}
        self._taken: dict[int, str] = {}
        """Messages, by the numbers of their events."""
        self._parked: set[str] = set()
        self._problem = ""
        self._at_work = False
        self._looking: set[str] = set()
        """Effects that only look."""
        self._looks: list[FinishedCall] = []
        """Finished looks that are not printed yet: more may follow."""
        self._turn_cost: float | None = None
        self.since: float | None = None
        self.cost: float | None = None
        """Dollars of the finished turns."""
        self.context = self.window = 0
        """Tokens of the last request and its reply, and how many the model can hold."""
        self.calls = 0
        self._finished: deque[FinishedCall] = deque(maxlen=MOST_OUTPUTS)

    @property
    def questions(self) -> list[Event]:
        """The open ones, oldest first."""
        return list(self._questions.values())

    @property
    def state(self) -> str:
        if self._problem:
            return self._problem
        if self._questions:
            return "waiting for your answer"
        if self._parked:
            return "parked; /parked shows why"
        if self.since is None:
            return "idle"
        return f"working {self._clock() - self.since:.0f} s"

    @property
    def has_problem(self) -> bool:
        return bool(self._problem)

    @property
    def queue(self) -> int:
        return len(self._queued)

    @property
    def queued(self) -> list[str]:
        """The keys of the messages that wait."""
        return list(self._queued)

    @property
    def spent(self) -> float | None:
        """Dollars so far, with those of the turn under way."""
        if self.cost is None and self._turn_cost is None:
            return None
        return (self.cost or 0.0) + (self._turn_cost or 0.0)

    def unfinished(self) -> list[ViewPiece]:
        """What is about to be printed, as far as it is known."""
        return [*self._looked(), *_markdown(self._blocks.rest.strip("\n"))]

    def outputs(self) -> list[tuple[str, str]]:
        """The last calls with all that they printed, and those that run."""
        finished = [(call.piece().text, clean(result_text(call.event))) for call in self._finished]
        return finished + [(f"→ {call.line}", call.tail) for call in self._running.values()]

    def resume(self, past: list[Event]) -> None:
        """Take over the numbers of a session that is resumed."""
        for event in past:
            match event["kind"]:
                case "replied":
                    self._names(event)
                    self._count(event)
                case "model_requested" | "compacted" | "call_made":
                    getattr(self, f"_{event['kind']}")(event)
                case "call_finished":
                    self._finished_call(event)
                case "message_taken":
                    self._taken[event["number"]] = event["text"]

    def live(self) -> list[str]:
        """The rest of the part that changes, as lines."""
        lines = []
        if self._thought:
            lines.append(f"thinking … {' '.join(self._thought.split())[-THOUGHT_CHARS:]}")
        for call in self._running.values():
            lines.append(f"→ {call.line}  {self._clock() - call.since:.0f} s")
            lines += [f"  │ {line}" for line in call.tail.splitlines()[-TAIL_LINES:]]
        lines += [f"queued: {one_line(text)}" for text in self._queued.values()]
        return lines

    def sending(self) -> None:
        """A message of ours is on its way."""
        self.since = self.since or self._clock()

    def not_sent(self) -> None:
        """It could not be sent."""
        if not self._at_work:
            self.since = None

    def _begun(self) -> None:
        self._at_work = True
        self.since = self.since or self._clock()

    def apply(self, event: Event) -> list[ViewPiece]:
        """What to print because of an event."""
        handler = getattr(self, f"_{event['kind']}", None)
        pieces: list[ViewPiece] = (handler or _lines)(event) or []
        flushed: list[ViewPiece] = []
        over = event["kind"] in ("turn_finished", "question_asked")
        if pieces or over or len(self._looks) >= MOST_GROUPED:
            flushed, self._looks = self._looked(), []
        return [*flushed, *pieces]

    # the conversation

    def _message_queued(self, event: Event) -> None:
        if self._at_work:
            self._queued[event["key"]] = clean(event["text"])

    def _message_withdrawn(self, event: Event) -> None:
        self._queued.pop(event["key"], None)

    def _message_taken(self, event: Event) -> list[ViewPiece]:
        self._queued.pop(event["key"], None)
        self._taken[event.get("number", 0)] = event["text"]
        if self._has_shown(event["key"]):
            return []
        return [ViewPiece("user", clean(event["text"]))]

    def _rewound(self, event: Event) -> list[ViewPiece]:
        return _lines({**event, "message": self._taken.get(event["to"], "")})

    def _turn_started(self, _event: Event) -> None:
        self._begun()

    def _thought_arrived(self, event: Event) -> None:
        self._thought = (self._thought + clean(event["text"]))[-TAIL_CHARS:]

    def _text_arrived(self, event: Event) -> list[ViewPiece]:
        self._thought = ""
        return [piece for text in self._blocks.feed(event["text"]) for piece in _markdown(text)]

    def _text_voided(self, event: Event) -> list[ViewPiece]:
        self._discard()
        return _lines(event)

    def _discard(self) -> bool:
        """Drop the reply so far; whether some of it was already printed."""
        self._thought = ""
        return self._blocks.discard()

    def _model_requested(self, event: Event) -> None:
        if event["use"] == "main":
            self.window = event.get("window") or self.window

    def _compacted(self, event: Event) -> list[ViewPiece]:
        self.context = 0
        self._charge(event)
        return _lines(event)

    def _cost_charged(self, event: Event) -> None:
        self._charge(event)

    def _charge(self, event: Event) -> None:
        if event.get("cost") is not None:
            self._turn_cost = (self._turn_cost or 0.0) + event["cost"]

    def _count(self, event: Event) -> None:
        usage = event.get("usage") or {}
        self.context = usage.get("input", 0) + usage.get("output", 0)

    def _names(self, event: Event) -> None:
        self._calls.update((call["id"], clean(call_line(call))) for call in event["calls"])

    def _replied(self, event: Event) -> list[ViewPiece]:
        self._thought = ""
        self._names(event)
        self._count(event)
        self._charge(event)
        return _markdown(self._blocks.end(event["text"]))

    def _turn_finished(self, event: Event) -> list[ViewPiece]:
        rest = _markdown(self._blocks.end(""))
        self._thought = ""
        self._running.clear()
        self._questions.clear()
        self._parked.clear()
        self._turn_cost = None
        self._at_work = False
        self.since = self._clock() if self._queued else None
        if event["cost"] is not None:
            self.cost = (self.cost or 0.0) + event["cost"]
        return [*rest, *_lines(event)]

    # calls

    def _call_made(self, event: Event) -> None:
        self._calls[event["call"]["id"]] = f"  {clean(call_line(event['call']))}"

    def _call_intended(self, event: Event) -> None:
        line = self._calls.get(event["call_id"], str(event["tool"]))
        self._running[event["effect"]] = RunningCall(line, self._clock())

    def _output_arrived(self, event: Event) -> None:
        if event["effect"] in self._running:
            self._running[event["effect"]].printed(event["text"])

    def _call_judged(self, event: Event) -> None:
        if event["tool"] in LOOKS or event.get("confinement") == "read-only":
            self._looking.add(event["effect"])

    def _call_finished(self, event: Event) -> list[ViewPiece]:
        self._running.pop(event["effect"], None)
        self._parked.discard(event["effect"])
        call = self._finished_call(event)
        if event["effect"] in self._looking and event["ok"]:
            self._looks.append(call)
            return []
        return [call.piece()]

    def _finished_call(self, event: Event) -> FinishedCall:
        self.calls += 1
        line = self._calls.pop(event["call_id"], event["tool"])
        self._finished.append(FinishedCall(self.calls, line, event))
        return self._finished[-1]

    def _looked(self) -> list[ViewPiece]:
        """The finished looks: a line each, or one for many."""
        looks = self._looks
        if len(looks) < GROUP:
            return [call.piece() for call in looks]
        seconds = sum(call.event["seconds"] for call in looks)
        what = one_line(" · ".join(call.line.strip() for call in looks), 45)
        times = f"{seconds:.1f} s  [{looks[0].number}-{looks[-1].number}]"
        return [ViewPiece("ok", f"✓ {len(looks)} read-only calls: {what}  {times}")]

    def _call_parked(self, event: Event) -> list[ViewPiece]:
        self._running.pop(event["effect"], None)
        self._parked.add(event["effect"])
        line = self._calls.get(event["call_id"], event["tool"])
        return [
            warning(f"parked: {line}: {event['reason']}\n"
                    f"hint: /parked retry|skip|it-happened {event['effect']}")
        ]  # fmt: skip

    def _park_decided(self, event: Event) -> None:
        self._parked.discard(event["effect"])

    # people

    def _question_asked(self, event: Event) -> None:
        self._questions[event["id"]] = event

    def _approval_given(self, event: Event) -> None:
        if question := self._questions.get(event["id"]):
            question["agreed"] = (*question.get("agreed", ()), event["by"])

    def _question_answered(self, event: Event) -> list[ViewPiece]:
        question = self._questions.pop(event["id"], None)
        if question is None:
            return []
        answer = "nobody answered in time" if event["answer"] is None else event["answer"]
        asked = question["text"].removesuffix(f"\n{question.get('reason', '')}")
        if question["purpose"] == "approval":
            tool, _, given = asked.partition("\n")[0].partition(" ")
            asked = call_line({"name": tool, "arguments": given})
        added = rule_added(question) if answer == "always" else ""
        return [ViewPiece("quiet", clean(f"? {one_line(asked, 70)} → {answer}{added}"))]

    # the runtime

    def _gone(self, event: Event) -> list[ViewPiece]:
        self._problem = "the runtime has stopped"
        if event["stopped"]:
            return [warning("the runtime was stopped; your next message starts it again")]
        return []

    def _reconnected(self, event: Event) -> list[ViewPiece]:
        self._problem = ""
        self._discard()
        return _lines(event)

    def _turn_resumed(self, event: Event) -> list[ViewPiece]:
        self._problem = ""
        self._begun()
        again = [warning("its reply starts over")] if self._discard() else []
        return [*_lines(event), *again]

    def _runtime_changed(self, event: Event) -> list[ViewPiece]:
        self._problem = "" if event["state"] == "well" else f"runtime {event['state']}"
        if event["state"] == "stopping":
            return []
        return [warning(f"the runtime is {event['state']}: {event['reason']}".rstrip(": "))]

    def _lost(self, event: Event) -> list[ViewPiece]:
        self._problem = "not connected"
        return [warning(event["text"])]


def recap(past: list[dict[str, Any]]) -> list[ViewPiece]:
    """The end of a journal: what was said and done last, from a message of the user on."""
    found = [one for one in messages(past) if not one.get("rewound")]
    tail = max(0, len(found) - RECAP)
    users = [at for at, one in enumerate(found[: tail + 1]) if one["role"] == "user"]
    start = users[-1] if users else tail
    earlier = sum(one["role"] in _RECAPPED for one in found[:start])
    pieces = [ViewPiece("quiet", f"\n… {count(earlier, 'earlier message')}")] if earlier else []
    for at in dict.fromkeys((*users[-1:], *range(tail, len(found)))):
        one = found[at]
        if at == tail > start + 1:
            pieces.append(ViewPiece("quiet", f"… {tail - start - 1} more of this turn"))
        match one["role"]:
            case "user" | "assistant" as role:
                pieces.append(ViewPiece(_RECAPPED[role], clean(one["text"])))
            case "tool":
                pieces.append(ViewPiece("quiet", clean(tool_line(one["call"], one))))
            case _ if one.get("mark") == "·":
                pieces.append(ViewPiece("quiet", f"· {clean(one['text'])}"))
            case _:
                pieces.append(warning(one["text"]))
    return pieces


def _lines(event: Event) -> list[ViewPiece]:
    """What every view tells of an event."""
    line = event_line(event)
    if line is None:
        return []
    quiet = line.mark == "·"
    return [ViewPiece("quiet", f"· {clean(line.text)}") if quiet else warning(line.text)]


def _markdown(text: str) -> list[ViewPiece]:
    return [ViewPiece("markdown", clean(text))] if text.strip() else []


def warning(text: str) -> ViewPiece:
    return ViewPiece("warning", clean(text))
