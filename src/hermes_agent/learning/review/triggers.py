"""Decides from the events of a turn whether to review it, and how it went."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from hermes_agent.core import events as ev
from hermes_agent.core.knowledge import Outcome
from hermes_agent.core.settings.root import LearningSettings
from hermes_agent.learning.review.cues import corrects, gives_up, praises, wants_remembered
from hermes_agent.models.runbook import NOT_FOR_THIS, RUNBOOK_MODEL, STOPPED

SERVES_TALK = frozenset({"ask_user", "todo", "read_on", "skill", "recall", "memory", "find_tools"})
"""Tools that only serve the conversation; they say nothing about a turn."""
GIVEN_UP = ("the user interrupted", "the turn broke")
"""How results of calls begin that had not finished when the turn ended."""
IN_VAIN = 3
"""Failures of the same call after which a model is stuck."""
SHOWN_CHARS = 120

TriggerKind = Literal["calls", "recovered", "correction", "remember"]


class Trigger(Struct, frozen=True):
    """A reason to review a turn, and the events that show it."""

    kind: TriggerKind
    why: str
    numbers: tuple[int, ...] = ()


def worth(events: Sequence[ev.Recorded], settings: LearningSettings) -> Sequence[Trigger]:
    """Why a finished turn is worth a review, if it is."""
    if _is_runbooks_word(events):
        return ()  # it needed no model
    found = [_many_calls(events, settings.calls), _recovered(events), *_said(events)]
    return [trigger for trigger in found if trigger is not None]


def outcome(events: Sequence[ev.Recorded]) -> tuple[Outcome, str]:
    """How a finished turn went by its own events, and why."""
    ends = [one.event for one in events if isinstance(one.event, ev.TurnFinished)]
    if not ends:
        return "unknown", "it has not ended"
    end, failed = ends[-1], _last_failed(events)
    if end.reason != "done":
        said = f"it ended as {end.reason}" + (f": {_short(end.error)}" if end.error else "")
        if failed or (end.reason == "failed" and _is_stuck(events)):
            return "bad", f"{said}; {failed}" if failed else said
        return "unknown", said  # an outage, a budget or a person ended it
    if _is_runbooks_word(events):
        return _by_runbook(end.text)
    if not _finished(events):
        return "unknown", "nothing was done that could be judged"
    if failed:
        return "bad", failed
    if gives_up(end.text):
        return "unknown", "its answer says that something could not be done"
    return "good", "it was done, and its last call worked"


def outcome_after(next_message: str) -> tuple[Outcome, str] | None:
    """What the user's next message says of the turn, if anything."""
    if wrong := corrects(next_message):
        return "bad", f"the user corrected it: {_short(wrong)}"
    if right := praises(next_message):
        return "good", f"the user was satisfied: {_short(right)}"
    return None


def _is_runbooks_word(events: Sequence[ev.Recorded]) -> bool:
    """Whether a runbook answered without handing over to a model."""
    ran = any(
        opened.runbook is not None
        for one in events
        if isinstance(one.event, ev.MessageTaken)
        for opened in one.event.skills
    )
    replies = [one.event for one in events if isinstance(one.event, ev.Replied)]
    return ran and bool(replies) and replies[-1].model.startswith(RUNBOOK_MODEL)


def _by_runbook(said: str) -> tuple[Outcome, str]:
    """A runbook says itself how it went; not fitting the case is no failure."""
    if said.startswith(STOPPED):
        return "bad", _short(said)
    return "unknown" if said.startswith(NOT_FOR_THIS) else "good", _short(said)


def _last_failed(events: Sequence[ev.Recorded]) -> str:
    """How the last call that finished failed; empty if it did not."""
    calls = [call for _, call in _finished(events) if not _was_given_up(call)]
    if not calls or calls[-1].ok:
        return ""
    last = calls[-1]
    if says_no(last) and not _is_in_a_skill(last, events):
        return ""
    return f"its last call, {last.tool}, failed: {_short(last.text)}"


def _was_given_up(call: ev.CallFinished) -> bool:
    return not call.ok and call.text.removeprefix("not run: ").startswith(GIVEN_UP)


def _is_stuck(events: Sequence[ev.Recorded]) -> bool:
    """Whether the model repeated the same failing call."""
    made: dict[str, tuple[str, str]] = {}
    failed: Counter[tuple[str, str]] = Counter()
    for one in events:
        if isinstance(one.event, ev.Replied):
            made = {call.id: (call.name, call.arguments) for call in one.event.calls}
        elif isinstance(one.event, ev.CallFinished) and not one.event.ok:
            call = made.get(one.event.call_id)
            failed.update([call] if call is not None else [])
    return any(count >= IN_VAIN for count in failed.values())


def says_no(call: ev.CallFinished) -> bool:
    """Whether a command answered no: exit code 1 and no error, as of grep or diff."""
    return call.data.get("code") == 1 and "[stderr]" not in call.text and len(call.text) < 40


def _is_in_a_skill(call: ev.CallFinished, events: Sequence[ev.Recorded]) -> bool:
    """Whether a command is from an opened skill, where it checks what was done."""
    texts = [
        one.event.text
        for one in events
        if (isinstance(one.event, ev.CallFinished) and one.event.tool == "skill")
        or (isinstance(one.event, ev.MessageTaken) and one.event.skills)
    ]
    taken = [one.event for one in events if isinstance(one.event, ev.MessageTaken)]
    texts += [opened.text for message in taken for opened in message.skills]
    calls = (
        made for one in events if isinstance(one.event, ev.Replied) for made in one.event.calls
    )
    command = next((made.input().get("command") for made in calls if made.id == call.call_id), None)
    return isinstance(command, str) and any(command.strip() in text for text in texts)


def _finished(events: Sequence[ev.Recorded]) -> list[tuple[int, ev.CallFinished]]:
    """Calls that did something, with their event numbers."""
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
    """A call failed, and a later call or the turn as a whole succeeded."""
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
    """Corrections and requests to remember. The first message is about the turn before, those
    that came while it worked are about this one."""
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
