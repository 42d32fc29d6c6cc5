"""A turn as a review model is shown it: numbered lines, shortened, as untrusted data."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from hermes_agent.core import events as ev
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.learning.review.provenance import OTHERS, Sources, sources

SHOWN_CHARS = 24_000
"""Of all transcripts together."""
_MAX_CHARS = {
    "user": 1_500, "other": 1_500, "agent": 900, "call": 600, "result": 700, "failed": 900,
    "end": 500,
}  # fmt: skip
"""Characters of one line, by its kind."""


class ReviewTranscript(Struct, frozen=True):
    """One turn, or several of one session in a row."""

    session: str
    turn: int
    """The last of them."""
    events: Sequence[ev.Recorded]
    title: str = ""


class TranscriptLine(Struct, frozen=True):
    number: int
    session: str
    event: int
    turn: int
    text: str

    @property
    def by_user(self) -> bool:
        return self.text.startswith("user: ")

    @property
    def by_tool(self) -> bool:
        return self.text.startswith(("result: ", "failed: ", "other: "))


class ShownTranscript(Struct, frozen=True):
    lines: tuple[TranscriptLine, ...]
    text: str
    """As the model reads them."""
    sources: Sources

    def lines_of(self, numbers: Sequence[int]) -> tuple[TranscriptLine, ...]:
        """The lines with these numbers; empty if one does not exist."""
        by_number = {line.number: line for line in self.lines}
        if not numbers or any(number not in by_number for number in numbers):
            return ()
        return tuple(by_number[number] for number in sorted(set(numbers)))


def shown(transcripts: Sequence[ReviewTranscript], most: int = SHOWN_CHARS) -> ShownTranscript:
    """The transcripts as numbered lines, each with an equal share of the characters."""
    lines: list[TranscriptLine] = []
    blocks = []
    share = most // max(1, len(transcripts))
    for transcript in transcripts:
        mine = _numbered(transcript, len(lines) + 1, share)
        lines += mine
        # Indented, so that no text can fake a line of the transcript.
        text = "\n".join(f"L{line.number} {line.text}".replace("\n", "\n    ") for line in mine)
        titled = f": {transcript.title}" if transcript.title else ""
        source = f"session {transcript.session}{titled}"
        blocks.append(wrap_untrusted("transcript", source, text))
    speaking = sources(one for transcript in transcripts for one in transcript.events)
    return ShownTranscript(tuple(lines), "\n\n".join(blocks), speaking)


def evidence(lines: Sequence[TranscriptLine]) -> str:
    """The sources in words: `session a1b2 events 3, 7; session …`."""
    by_session: dict[str, list[int]] = {}
    for line in lines:
        by_session.setdefault(line.session, []).append(line.event)
    return "; ".join(
        f"session {session} {'event' if len(set(numbers)) == 1 else 'events'} "
        + ", ".join(str(number) for number in sorted(set(numbers)))
        for session, numbers in by_session.items()
    )


def cut(text: str, most: int) -> str:
    """The beginning and the end of a text that is too long."""
    text = text.strip()
    if len(text) <= most:
        return text
    half = max(1, (most - 30) // 2)
    return f"{text[:half]} […{len(text) - 2 * half} characters…] {text[-half:]}"


def _numbered(transcript: ReviewTranscript, first: int, most: int) -> list[TranscriptLine]:
    lines = list(_lines(transcript))
    if sum(len(text) + 6 for _, _, text in lines) > most:
        lines = _ends(lines, most)
    return [
        TranscriptLine(number, transcript.session, event, turn, text)
        for number, (event, turn, text) in enumerate(lines, first)
    ]


def _ends(lines: list[tuple[int, int, str]], most: int) -> list[tuple[int, int, str]]:
    """As much of the beginning and the end as fits, more of the end."""
    head: list[tuple[int, int, str]] = []
    tail: list[tuple[int, int, str]] = []
    left = most
    while lines:
        take_head = len(head) * 2 < len(tail)
        one = lines.pop(0) if take_head else lines.pop()
        left -= len(one[2]) + 6
        if left < 0:
            break
        (head if take_head else tail).append(one)
    return head + tail[::-1]


def _lines(transcript: ReviewTranscript) -> Iterator[tuple[int, int, str]]:
    """Event number, turn and text of each line."""
    turn = transcript.turn
    for one in transcript.events:
        if isinstance(one.event, ev.TurnStarted):
            turn = one.event.turn
        for kind, text in _said(one.event):
            yield one.number, turn, f"{kind}: {cut(text, _MAX_CHARS[kind])}"


def _said(event: ev.Event | ev.TransientEvent) -> Iterator[tuple[str, str]]:
    match event:
        case ev.MessageTaken(text=text, source=source):
            yield ("other" if source in OTHERS else "user"), text
        case ev.Replied(text=text, calls=calls):
            if text.strip():
                yield "agent", text
            for call in calls:
                yield "call", f"{call.name} {call.arguments}"
        case ev.CallMade(call=call):
            yield "call", f"{call.name} {call.arguments}"
        case ev.CallFinished(tool=tool, text=text, ok=ok):
            yield ("result" if ok else "failed"), f"{tool}: {text}"
        case ev.QuestionAnswered(answer=answer) if answer:
            yield "user", answer
        case ev.TurnFinished(reason=reason, error=error, steps=steps) if reason != "done":
            yield "end", f"{reason} after {steps} steps: {error}"
        case _:
            pass
