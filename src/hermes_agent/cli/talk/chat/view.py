"""What a chat shows: events become pieces that are printed once, and a live part that changes."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from hermes_agent.cli.output.events import call_line, event_line, question_lines
from hermes_agent.cli.output.formatting import one_line
from hermes_agent.cli.output.transcript import tool_line
from hermes_agent.core.text.terminal import clean

TEXT_LINES = 8
"""Lines shown of a paragraph that is still arriving."""
TAIL_LINES = 4
"""Lines shown of a running command's output."""
TAIL_CHARS = 4_000
THOUGHT_CHARS = 60
"""Characters shown of the model's thinking."""

Event = dict[str, Any]


class ViewPiece(NamedTuple):
    kind: Literal["markdown", "quiet", "plain", "user", "warning"]
    text: str


class Blocks:
    """Turns streamed text into finished paragraphs. A fenced block of code is one."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._seen = ""
        self._done = 0
        self._start = 0
        self._fence = ""

    @property
    def rest(self) -> str:
        """The unfinished paragraph so far."""
        return self._seen[self._done :]

    def feed(self, text: str) -> list[str]:
        """Add text; returns the paragraphs it finishes."""
        self._seen += text
        finished = []
        while (end := self._seen.find("\n", self._start)) >= 0:
            line = self._seen[self._start : end].strip()
            self._start = end + 1
            if self._ends_block(line):
                block = self._seen[self._done : self._start]
                self._done = self._start
                if block.strip():
                    finished.append(block)
        return finished

    def _ends_block(self, line: str) -> bool:
        if self._fence:
            if line.startswith(self._fence) and not line.strip(self._fence[0]):
                self._fence = ""
                return True
            return False
        for mark in ("```", "~~~"):
            if line.startswith(mark):
                self._fence = mark[0] * (len(line) - len(line.lstrip(mark[0])))
                return False
        return not line

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

    def __init__(self, owns: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._owns = owns
        self._clock = clock
        self._blocks = Blocks()
        self._thought = ""
        self._calls: dict[str, str] = {}
        self._running: dict[str, RunningCall] = {}
        self._questions: dict[str, Event] = {}
        self._queued: dict[str, str] = {}
        self._parked: set[str] = set()
        self._problem = ""
        self._at_work = False
        self.since: float | None = None
        self.cost: float | None = None

    @property
    def question(self) -> Event | None:
        """The oldest open one."""
        return next(iter(self._questions.values()), None)

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

    def live(self) -> list[str]:
        """The part that changes, as lines."""
        lines = clean(self._blocks.rest).strip("\n").splitlines()[-TEXT_LINES:]
        if self._thought:
            lines.append(f"thinking … {' '.join(self._thought.split())[-THOUGHT_CHARS:]}")
        for call in self._running.values():
            lines.append(f"→ {call.line}  {self._clock() - call.since:.0f} s")
            lines += [f"  │ {line}" for line in call.tail.splitlines()[-TAIL_LINES:]]
        lines += [f"queued: {one_line(text)}" for text in self._queued.values()]
        if self.question is not None:
            lines += question_lines(self.question)
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
        if handler is not None:
            return handler(event) or []
        return [] if event["kind"] == "call_judged" else _lines(event)  # told when it is finished

    # the conversation

    def _message_queued(self, event: Event) -> None:
        if self._at_work:
            self._queued[event["key"]] = clean(event["text"])

    def _message_taken(self, event: Event) -> list[ViewPiece]:
        self._queued.pop(event["key"], None)
        if self._owns(event["key"]):
            return []
        return [ViewPiece("user", clean(event["text"]))]

    def _turn_started(self, _event: Event) -> None:
        self._begun()

    def _thought_arrived(self, event: Event) -> None:
        self._thought = (self._thought + clean(event["text"]))[-TAIL_CHARS:]

    def _text_arrived(self, event: Event) -> list[ViewPiece]:
        self._thought = ""
        return [ViewPiece("markdown", clean(text)) for text in self._blocks.feed(event["text"])]

    def _text_voided(self, event: Event) -> list[ViewPiece]:
        self._discard()
        return _lines(event)

    def _discard(self) -> bool:
        """Drop the reply so far; whether some of it was already printed."""
        self._thought = ""
        return self._blocks.discard()

    def _replied(self, event: Event) -> list[ViewPiece]:
        self._thought = ""
        rest = clean(self._blocks.end(event["text"]))
        self._calls.update((call["id"], clean(call_line(call))) for call in event["calls"])
        return [ViewPiece("markdown", rest)] if rest.strip() else []

    def _turn_finished(self, event: Event) -> list[ViewPiece]:
        rest = clean(self._blocks.end(""))
        self._thought = ""
        self._running.clear()
        self._questions.clear()
        self._parked.clear()
        self._at_work = False
        self.since = self._clock() if self._queued else None
        if event["cost"] is not None:
            self.cost = (self.cost or 0.0) + event["cost"]
        pieces = [ViewPiece("markdown", rest)] if rest.strip() else []
        return [*pieces, *_lines(event)]

    # calls

    def _call_made(self, event: Event) -> None:
        self._calls[event["call"]["id"]] = f"  {clean(call_line(event['call']))}"

    def _call_intended(self, event: Event) -> None:
        line = self._calls.get(event["call_id"], str(event["tool"]))
        self._running[event["effect"]] = RunningCall(line, self._clock())

    def _output_arrived(self, event: Event) -> None:
        if event["effect"] in self._running:
            self._running[event["effect"]].printed(event["text"])

    def _call_finished(self, event: Event) -> list[ViewPiece]:
        self._running.pop(event["effect"], None)
        self._parked.discard(event["effect"])
        line = self._calls.pop(event["call_id"], event["tool"])
        return [ViewPiece("quiet", clean(tool_line(line, event)))]

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

    def _question_answered(self, event: Event) -> list[ViewPiece]:
        question = self._questions.pop(event["id"], None)
        if question is None:
            return []
        answer = "nobody answered in time" if event["answer"] is None else event["answer"]
        asked = one_line(question["text"].partition("\n")[0], 70)
        return [ViewPiece("quiet", clean(f"? {asked} → {answer}"))]

    # the runtime

    def _gone(self, event: Event) -> list[ViewPiece]:
        self._problem = "the runtime is gone"
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


def _lines(event: Event) -> list[ViewPiece]:
    """What every view tells of an event."""
    line = event_line(event)
    if line is None:
        return []
    quiet = line.mark == "·"
    return [ViewPiece("quiet", f"· {clean(line.text)}") if quiet else warning(line.text)]


def warning(text: str) -> ViewPiece:
    return ViewPiece("warning", clean(text))
