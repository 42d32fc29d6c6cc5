"""The one renderer of events: the line each event becomes, wherever the command line shows it."""

import sys
from typing import Any, NamedTuple, TextIO

from hermes_agent.cli.output.formatting import hint_here, one_line
from hermes_agent.core.text.terminal import clean, visible

Event = dict[str, Any]


class EventLine(NamedTuple):
    text: str
    mark: str = "·"
    """What the line begins with: `!` for a warning, `✗` for a failure, `↻` after a restart."""


def event_line(event: Event) -> EventLine | None:
    """What a person is told of an event; None when there is nothing to tell. Streamed text, calls
    under way and questions change while they are shown: each view has its own way with them."""
    match event["kind"]:
        case "text_voided":
            return EventLine(f"the reply was cut off ({one_line(event['reason'])}); retrying", "!")
        case "call_judged" if event["action"] == "deny":
            return EventLine(f"denied by policy: {event['reason']}", "✗")
        case "call_finished" if not event["ok"]:
            return EventLine(f"{event['tool']}: {one_line(result_text(event))}", "✗")
        case "call_parked":
            return EventLine(f"parked: {event['tool']}: {event['reason']}", "!")
        case "command_ended" if not event["known"]:
            said = f"{event['text']}:\n{event['output']}" if event["output"] else event["text"]
            return EventLine(said, "·" if event["code"] == 0 else "!")
        case "model_retried":
            tries = f"retrying in {event['delay']:.1f} s (attempt {event['attempt'] + 1})"
            return EventLine(f"{one_line(event['reason'])}; {tries}", "!")
        case "model_routed":
            return EventLine(_route(event), "!" if event["step"] in ("model", "opened") else "·")
        case "model_chosen":
            return EventLine(f"the model is now {event['model']}{with_effort(event['effort'])}")
        case "budget_warned":
            used = f"{event['what']}, {event['used']:g} of {event['limit']:g}"
            return EventLine(f"{event['share']:.0%} of a budget is used: {used}", "!")
        case "compacted":
            return EventLine("the middle of the conversation was summarised to make room")
        case "rewound":
            said = one_line(event.get("message", ""), 60)
            return EventLine(
                f"rewound to before: {said}" if said else "the conversation was rewound"
            )
        case "branched":
            return EventLine(f"branched off from session {event['of']}")
        case "notice_issued":
            return EventLine(event["text"], "·" if event["level"] == "info" else "!")
        case "turn_resumed":
            return EventLine("the runtime is back and continues where it stopped", "↻")
        case "reconnected":
            return EventLine("the runtime had stopped; it is running again", "↻")
        case "runtime_changed" if event["state"] != "well":
            return EventLine(f"the runtime is {event['state']}: {event['reason']}", "!")
        case "turn_finished" if event["reason"] != "done":
            return EventLine(_end(event), "!")
    return None


def result_text(finished: dict[str, Any]) -> str:
    """The result of a call, without the advice for the model."""
    text: str = finished["text"]
    if finished["ok"] or "retry: " not in text:
        return text
    return "\n".join(line for line in text.split("\n") if not line.startswith("retry: "))


def _route(event: Event) -> str:
    said = {
        "model": f"{event['to']} takes over from {event['model']}",
        "key": f"{event['model']} now uses {event['to']}",
        "skipped": f"{event['model']} is skipped",
        "opened": f"{event['model']} is paused for a while",
    }.get(event["step"], f"{event['model']} is being tried again")
    return f"{said}: {one_line(event['reason'])}"


def _end(event: Event) -> str:
    """How a turn ended that was not done."""
    way_out = hint_here(event.get("error", ""), event.get("hint", ""))
    hint = f"\nhint: {way_out}" if way_out else ""
    match event["reason"]:
        case "interrupted":
            return "interrupted; work so far is saved"
        case "budget":
            return f"paused at a {event['error'] or 'limit'}{hint}"
    return f"{event['error'] or event['reason']}{hint}"


def with_effort(effort: str) -> str:
    return f", reasoning effort {effort}" if effort else ""


def hit_rate(usage: dict[str, int]) -> str:
    """How much of the input came from the service's cache."""
    return f"{100 * usage['cached'] // usage['input']} %" if usage["input"] else "-"


def token_counts(usage: dict[str, int]) -> str:
    cached = f" ({hit_rate(usage)} from the cache)" if usage["cached"] else ""
    return f"{usage['input']:,} tokens in{cached}, {usage['output']:,} out"


def call_arguments(call: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call; none where they are not a JSON object."""
    import json

    try:
        given = json.loads(call["arguments"] or "{}")
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def call_line(call: dict[str, Any]) -> str:
    return one_line(visible(_call_text(call)))


def _call_text(call: dict[str, Any]) -> str:
    given = call_arguments(call)
    if not given:
        return f"{call['name']} {call['arguments'].strip().removeprefix('{}')}"
    arguments = given.get("arguments", {})
    if call["name"] == "use_tool" and given.get("name") and isinstance(arguments, dict):
        call, given = {"name": str(given["name"])}, arguments
    if set(given) <= {"command", "timeout", "background", "wake"} and "command" in given:
        return f"$ {given['command']}"
    words = " ".join(f"{key}={value!r}" for key, value in given.items())
    return f"{call['name']} {words}"


# questions


def consent_prompt(question: Event, folded: bool) -> str:
    more = [f"{name[0]}={name}" for name in ("session", "always") if name in question["choices"]]
    shows = ["v=show all"] if folded and question["purpose"] == "approval" else []
    shows += ["r=rule"] if "always" in question["choices"] else []
    asked = "continue" if question["purpose"] == "budget" else "allow"
    keys = "; ".join(filter(None, ["/".join(["y", "N", *more]), ", ".join(shows)]))
    return f"{asked}? [{keys}] "


def typed_answer(question: Event, typed: str) -> str | None:
    """The answer in a typed line: `y`, `yes`, `s`, `session` and so on for consent, where an empty
    line refuses; a number or text for a question. None when it is no answer."""
    if question["purpose"] != "question":
        word = typed.strip().lower()
        if not word:
            return "no"
        return next((name for name in question["choices"] if word in (name, name[0])), None)
    from hermes_agent.core.text.consent import numbered_choice  # late: few turns ask

    return numbered_choice(question["choices"], typed) or None


# a turn on a plain terminal


class Printer:
    """Prints a turn on a plain terminal or into a pipe: the answer to stdout, the rest to stderr.
    With `live`, text appears as it arrives; otherwise the answer at the end."""

    def __init__(
        self, *, live: bool, quiet: bool, out: TextIO = sys.stdout, side: TextIO = sys.stderr
    ) -> None:
        self._live = live
        self._quiet = quiet
        self._out = out
        self._side = side
        self._column = 0
        self._streamed = ""
        self._delegating: set[str] = set()
        """Effects whose output is the progress of children."""

    def show(self, event: Event) -> None:
        match event["kind"]:
            case "text_arrived" if self._live:
                self._stream(event["text"])
            case "replied":
                self._replied(event)
            case "call_made":
                self.say(call_line(event["call"]), "  →")
            case "call_intended" if event["tool"] == "delegate":
                self._delegating.add(event["effect"])
            case "output_arrived" if event["effect"] in self._delegating:
                for text in event["text"].splitlines():
                    self.say(text, "  ·")
            case "text_voided" | "reconnected":
                self._streamed = ""
            case "turn_finished":
                return  # whoever follows the turn reports its end
        if (line := event_line(event)) is not None:
            self.say(line.text, line.mark)
        if event["kind"] == "call_parked":
            self.say(f"hint: `hermes parked` shows it; decide for {event['effect']}", " ")

    def say(self, text: str, mark: str = "·") -> None:
        if not self._quiet:
            self._fresh_line()
            print(f"{mark} {clean(text)}", file=self._side, flush=True)

    def close(self, answer: str) -> None:
        """The turn has ended: print the answer, unless it was streamed."""
        self._fresh_line()
        if not self._live and answer:
            print(answer, file=self._out, flush=True)

    def _fresh_line(self) -> None:
        if self._column:
            print(file=self._out, flush=True)
            self._column = 0

    def _stream(self, text: str) -> None:
        if text:
            self._streamed += text
            self._out.write(clean(text))
            self._out.flush()
            self._column = 1

    def _complete(self, text: str) -> None:
        """Print what arrived before we listened, unless a secret was taken out of the text."""
        if text.startswith(self._streamed):
            self._stream(text[len(self._streamed) :])
        elif text.endswith(self._streamed):
            self._fresh_line()
            self._stream(text)

    def _replied(self, event: Event) -> None:
        if self._live:
            self._complete(event["text"])
        self._streamed = ""
        self._fresh_line()
        if event["calls"] and not self._live and event["text"]:
            self.say(one_line(event["text"]))
        for call in event["calls"]:
            self.say(call_line(call), "→")
