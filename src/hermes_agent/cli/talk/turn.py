"""A turn followed on the terminal: shown, its questions asked, its end reported."""

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.output.events import Printer
from hermes_agent.core.errors import HermesError, NotFound

if TYPE_CHECKING:
    from hermes_agent.cli.client.api import RuntimeClient
    from hermes_agent.cli.client.stream import EventStream

Event = dict[str, Any]


def follow_turn(api: "RuntimeClient", sent: Event, printer: Printer, *, interactive: bool) -> Event:
    """Show the turn that takes a message until it ends; Ctrl-C interrupts it. Returns its
    outcome."""
    from hermes_agent.cli.client.api import session_path
    from hermes_agent.cli.client.follower import follow

    outcome: Event = {"session": sent["session"], "parked": []}
    events: EventStream | None = None
    try:
        events = follow(api, sent)
        return watch(events, printer, outcome, _answering(api, events) if interactive else None)
    except KeyboardInterrupt:
        api.post(f"{session_path(sent['session'])}/interrupt")
        return watch(events or follow(api, sent), printer, outcome, None)


def watch(
    events: Iterable[Event],
    printer: Printer,
    outcome: Event,
    answer: Callable[[Event], None] | None,
) -> Event:
    """Show a turn until it ends or is parked, and collect its outcome."""
    for event in events:
        printer.show(event)
        collect(event, outcome)
        if event["kind"] == "question_asked" and answer is not None:
            answer(event)
        if event["kind"] == "call_parked":
            return {**outcome, "reason": "parked"}
    return outcome


def collect(event: Event, outcome: Event) -> None:
    match event["kind"]:
        case "call_parked":
            outcome["parked"].append(event["effect"])
        case "turn_finished":
            for key in ("text", "reason", "error", "hint", "steps", "usage", "cost", "seconds"):
                outcome[key] = event[key]


def _answering(api: "RuntimeClient", events: "EventStream") -> Callable[[Event], None]:
    """Ask questions on the terminal and pass the answers on."""
    from hermes_agent.cli.client.follower import reach

    def answer(question: Event) -> None:
        from hermes_agent.cli.client.questions import ask_question

        chosen = ask_question(question, events)
        if chosen is not None:
            with suppress(NotFound):  # answered elsewhere or expired; the turn continues
                reach(api, lambda: api.answer(question["id"], chosen))

    return answer


def report(outcome: Event, as_json: bool, printer: Printer, **more: object) -> bool:
    """Print how a turn ended, in words or as JSON with `more` in it; whether it is done."""
    reason = outcome.get("reason", "failed")
    if as_json:
        import json

        keys = ("text", "session", "cost", "reason", "error", "hint", "steps", "usage", "seconds")
        document = {key: outcome.get(key) for key in keys}
        print(json.dumps({**document, **more, "parked": outcome["parked"]}, ensure_ascii=False))
        return bool(reason == "done")
    # What was said before a turn broke off is not the answer.
    printer.close(outcome["text"] if reason == "done" else "")
    match reason:
        case "failed":
            raise HermesError(outcome["error"], outcome["hint"])
        case "budget":
            raise HermesError(f"paused at a {outcome['error'] or 'limit'}", outcome["hint"])
        case "parked":
            print(f"session {outcome['session']} is waiting for a decision", file=sys.stderr)
        case "interrupted":
            kept = f"interrupted; work so far is saved in session {outcome['session']}"
            print(kept, file=sys.stderr)
    return bool(reason == "done")
