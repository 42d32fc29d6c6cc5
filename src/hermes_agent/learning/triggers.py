"""Which turns are worth looking back on, and how a turn went: pure functions of its events."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from hermes_agent.core import events as ev
from hermes_agent.core.lore import Outcome
from hermes_agent.core.settings import LearningSettings
from hermes_agent.learning.cues import corrects, praises, wants_remembered

SERVES_TALK = frozenset({"ask_user", "todo", "read_on", "skill", "recall", "memory", "find_tools"})
"""Tools that only serve the conversation: they neither make a turn heavy nor end it well."""
SHOWN_CHARS = 120

TriggerKind = Literal["calls", "recovered", "correction", "remember"]


class Trigger(Struct, frozen=True):
    """A reason to look back on a turn, and the events that it is seen in."""

    kind: TriggerKind
    why: str
    numbers: tuple[int, ...] = ()


def worth(events: Sequence[ev.Recorded], settings: LearningSettings) -> Sequence[Trigger]:
    """Why a finished turn is worth a review; empty when it is not."""
    found = [_many_calls(events, settings.calls), _recovered(events), *_said(events)]
    return [trigger for trigger in found if trigger is not None]


def outcome(events: Sequence[ev.Recorded]) -> tuple[Outcome, str]:
    """How a finished turn went, as far as its own events tell, and why."""
    ends = [one.event for one in events if isinstance(one.event, ev.TurnFinished)]
    if not ends:
        return "unknown", "it has not ended"
    end, finished = ends[-1], _finished(events)
    if end.reason != "done":
        told = f": {_short(end.error)}" if end.error else ""
        return "bad", f"it ended as {end.reason}{told}"
    if end.text.startswith("stopped:"):
        return "bad", _short(end.text)
    if not finished:
        return "unknown", "nothing was done that could be judged"
    last = finished[-1][1]
    if not last.ok and (not says_no(last) or _is_in_a_skill(last, events)):
        return "bad", f"its last call, {last.tool}, failed: {_short(last.text)}"
    if gives_up(end.text):
        return "unknown", "its answer says that something could not be done"
    return "good", "it was done, and its last call worked"


def outcome_after(next_message: str) -> tuple[Outcome, str] | None:
    """What the user's next message says of the turn before it; None when it says nothing."""
    if wrong := corrects(next_message):
        return "bad", f"the user corrected it: {_short(wrong)}"
    if right := praises(next_message):
        return "good", f"the user was content: {_short(right)}"
    return None


def says_no(call: ev.CallFinished) -> bool:
    """A command that ended with 1 and no complaint answered no: nothing found, or not the same."""
    return call.data.get("code") == 1 and "[stderr]" not in call.text and len(call.text) < 40


def _is_in_a_skill(call: ev.CallFinished, events: Sequence[ev.Recorded]) -> bool:
    """Whether a command stands in a skill that was opened: there it checks what was done."""
    told = [
        one.event.text
        for one in events
        if (isinstance(one.event, ev.CallFinished) and one.event.tool == "skill")
        or (isinstance(one.event, ev.MessageTaken) and one.event.skills)
    ]
    calls = (
        made for one in events if isinstance(one.event, ev.Replied) for made in one.event.calls
    )
    command = next((made.input().get("command") for made in calls if made.id == call.call_id), None)
    return isinstance(command, str) and any(command.strip() in text for text in told)


_GAVE_UP = (
    "i could not", "i couldn't", "i was unable", "i wasn't able", "i am unable", "i'm unable",
    "i did not manage", "i have not been able", "not possible for me", "i failed to",
    "ich konnte nicht", "nicht möglich", "je n'ai pas pu", "no pude", "não consegui", "не удалось",
    "无法完成", "できませんでした",
)  # fmt: skip


def gives_up(text: str) -> bool:
    said = text.lower().replace("\u2019", "'")
    return any(words in said for words in _GAVE_UP)


def _finished(events: Sequence[ev.Recorded]) -> list[tuple[int, ev.CallFinished]]:
    """The calls that did something, with the numbers of their events."""
    return [
        (one.number, one.event)
        for one in events
        if isinstance(one.event, ev.CallFinished) and one.event.tool not in SERVES_TALK
    ]


def _many_calls(events: Sequence[ev.Recorded], many: int) -> Trigger | None:
    calls = _finished(events)
    if len(calls) < many:
        return None
    return Trigger("calls", f"{len(calls)} tool calls", (calls[0][0], calls[-1][0]))


def _recovered(events: Sequence[ev.Recorded]) -> Trigger | None:
    """A call failed, and the turn came right all the same: by a later call of the same tool, or as
    a whole."""
    if outcome(events)[0] != "good":
        return None
    calls = _finished(events)
    for position, (number, failed) in enumerate(calls):
        later = calls[position + 1 :]
        if failed.ok or says_no(failed) or not later:
            continue
        same = [at for at, call in later if call.ok and call.tool == failed.tool]
        mended = same[0] if same else later[-1][0]
        return Trigger(
            "recovered", f"{failed.tool} failed and was put right: {_short(failed.text)}",
            (number, mended),
        )  # fmt: skip
    return None


def _said(events: Sequence[ev.Recorded]) -> list[Trigger]:
    """What the messages of the turn make of it: the first speak of the turn before, those that
    came while it worked of this one."""
    found: dict[TriggerKind, Trigger] = {}
    working = False
    for one in events:
        if isinstance(one.event, ev.Replied):
            working = True
        if not isinstance(one.event, ev.MessageTaken):
            continue
        text = one.event.text
        if wrong := corrects(text):
            found.setdefault("correction", Trigger("correction", _short(wrong), (one.number,)))
        elif working and not praises(text):
            why = f"a message came while it worked: {_short(text)}"
            found.setdefault("correction", Trigger("correction", why, (one.number,)))
        if wish := wants_remembered(text):
            found.setdefault("remember", Trigger("remember", _short(wish), (one.number,)))
    return list(found.values())


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"
