"""A turn on a plain terminal, or in a pipe: answers to stdout, everything else to stderr."""

import sys
from typing import Any, TextIO

from hermes_agent.core.text.terminal import clean, visible

Event = dict[str, Any]

MARKS = {"info": "·", "warning": "!", "error": "!"}


def one_line(text: str, most: int = 100) -> str:
    line = " ".join(clean(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def question_lines(question: Event) -> list[str]:
    """A question as it is put: only its own first line begins with a question mark and no space,
    so a line end inside it cannot pass for another question."""
    first, *more = visible(question["text"]).split("\n")
    lines = [f"? {first}", *(f"    {line}" for line in more)]
    if question["purpose"] == "question":
        for number, choice in enumerate(question["choices"], 1):
            lines.append(f"  {number}. " + visible(choice).replace("\n", "\\n"))
        return lines
    if "session" in question["choices"]:
        covers = ", ".join(_covered(grant) for grant in question["grants"])
        lines.append(f"    for this session would cover: {covers}")
    if "always" in question["choices"]:
        lines.append("    always would add to policies/approved.yaml:")
        lines += [f"    + {visible(line)}" for line in question["proposal"].splitlines()]
    consent = question["consent"]
    if consent.get("by"):
        lines.append(f"    may be answered by: {visible(', '.join(consent['by']))}")
    if consent.get("count", 1) > 1:
        agreed = visible(", ".join(question.get("agreed", ()))) or "nobody yet"
        lines.append(f"    {consent['count']} people must agree; so far: {agreed}")
    return lines


def _covered(grant: str) -> str:
    """A grant's key (rule, subject, terminal) as people read it."""
    _, _, rest = grant.partition("|")
    subject, _, terminal = rest.rpartition("|")
    return f"{visible(subject or rest)} on {visible(terminal)}".replace("\n", "\\n")


def consent_prompt(question: Event) -> str:
    """What may be typed."""
    more = [f"{name[0]}={name}" for name in ("session", "always") if name in question["choices"]]
    return f"allow? [{'/'.join(['y', 'N', *more])}] "


def consent_typed(question: Event, typed: str) -> str | None:
    """The choice that a typed line names: `y`, `yes`, `s`, `session` and so on; an empty line
    refuses. None when it names none."""
    word = typed.strip().lower()
    if not word:
        return "no"
    return next((name for name in question["choices"] if word in (name, name[0])), None)


def format_answer(event: Event) -> str:
    """An `answered` event, for those who did not answer."""
    if event["answer"] is None:
        return "nobody answered in time"
    return f"answered elsewhere: {one_line(event['answer'])}"


def route_said(event: Event) -> str:
    """A `model_routed` event in words."""
    reason = one_line(event["reason"])
    match event["step"]:
        case "model":
            return f"{event['to']} takes over from {event['model']}: {reason}"
        case "key":
            return f"{event['model']} is asked with {event['to']}: {reason}"
        case "skipped":
            return f"{event['model']} is passed over: {reason}"
        case "opened":
            return f"{event['model']} is left alone for a while: {reason}"
        case _:
            return f"{event['model']} is asked again: {reason}"


def budget_said(event: Event) -> str:
    """A `budget_warned` event in words."""
    return (
        f"{event['share']:.0%} of a budget are used: {event['what']}, "
        f"{event['used']:g} of {event['limit']:g}"
    )


def hit_rate(usage: dict[str, int]) -> str:
    """How much of the input came from the service's cache."""
    return f"{100 * usage['cached'] // usage['input']} %" if usage["input"] else "-"


def tokens_said(usage: dict[str, int]) -> str:
    cached = f" ({hit_rate(usage)} from the cache)" if usage["cached"] else ""
    return f"{usage['input']:,} tokens in{cached}, {usage['output']:,} out"


def call_line(call: dict[str, Any]) -> str:
    import json

    try:
        given = json.loads(call["arguments"] or "{}")
    except (ValueError, RecursionError):
        return one_line(f"{call['name']} {call['arguments']}")
    if call["name"] == "use_tool" and isinstance(given.get("arguments", {}), dict):
        call, given = {"name": str(given.get("name"))}, given.get("arguments", {})
    if set(given) <= {"command", "timeout", "background"} and "command" in given:
        return one_line(f"$ {given['command']}")
    words = " ".join(f"{key}={value!r}" for key, value in given.items())
    return one_line(f"{call['name']} {words}")


class Printer:
    """Prints a turn. With `live`, text appears as it arrives; otherwise the answer at the end."""

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
        """Effects whose output is what children do."""

    def show(self, event: Event) -> None:
        handler = getattr(self, f"_{event['kind']}", None)
        if handler is not None:
            handler(event)

    def say(self, text: str, mark: str = "·") -> None:
        if not self._quiet:
            self._fresh_line()
            print(f"{mark} {clean(text)}", file=self._side, flush=True)

    def close(self, answer: str) -> None:
        """The turn has ended: the answer goes to standard output, unless it was streamed."""
        self._fresh_line()
        if not self._live and answer:
            print(answer, file=self._out, flush=True)

    def _fresh_line(self) -> None:
        if self._column:
            print(file=self._out, flush=True)
            self._column = 0

    def _text_arrived(self, event: Event) -> None:
        if self._live:
            self._stream(event["text"])

    def _stream(self, text: str) -> None:
        if text:
            self._streamed += text
            self._out.write(clean(text))
            self._out.flush()
            self._column = 1

    def _complete(self, text: str) -> None:
        """Print what came before we listened. A text from which a secret was taken out is left."""
        if text.startswith(self._streamed):
            self._stream(text[len(self._streamed) :])
        elif text.endswith(self._streamed):
            self._fresh_line()
            self._stream(text)

    def _text_voided(self, event: Event) -> None:
        self._streamed = ""
        self.say(f"the reply broke off ({one_line(event['reason'])}); asking again", "!")

    def _replied(self, event: Event) -> None:
        if self._live:
            self._complete(event["text"])
        self._streamed = ""
        self._fresh_line()
        if event["calls"] and not self._live and event["text"]:
            self.say(one_line(event["text"]))
        for call in event["calls"]:
            self.say(call_line(call), "→")

    def _call_made(self, event: Event) -> None:
        self.say(call_line(event["call"]), "  →")

    def _call_intended(self, event: Event) -> None:
        if event["tool"] == "delegate":
            self._delegating.add(event["effect"])

    def _output_arrived(self, event: Event) -> None:
        if event["effect"] in self._delegating:
            for line in event["text"].splitlines():
                self.say(line, "  ·")

    def _call_judged(self, event: Event) -> None:
        if event["action"] == "deny":
            self.say(f"refused by policy: {event['reason']}", "✗")

    def _call_finished(self, event: Event) -> None:
        if not event["ok"]:
            self.say(f"{event['tool']}: {one_line(event['text'])}", "✗")

    def _call_parked(self, event: Event) -> None:
        self.say(f"parked: {event['tool']}: {event['reason']}", "!")
        self.say(f"hint: `hermes parked` shows it; decide for {event['effect']}", " ")

    def _turn_resumed(self, _event: Event) -> None:
        self.say("the runtime came back and goes on where it was", "↻")

    def _reconnected(self, _event: Event) -> None:
        self._streamed = ""
        self.say("the runtime had gone away; it was started again", "↻")

    def _model_retried(self, event: Event) -> None:
        self.say(
            f"{one_line(event['reason'])}; trying again in {event['delay']:.1f} s"
            f" (try {event['attempt'] + 1})",
            "!",
        )

    def _model_routed(self, event: Event) -> None:
        self.say(route_said(event), "!" if event["step"] in ("model", "opened") else "·")

    def _model_chosen(self, event: Event) -> None:
        effort = f", reasoning effort {event['effort']}" if event["effort"] else ""
        self.say(f"{event['model']} answers from here on{effort}")

    def _budget_warned(self, event: Event) -> None:
        self.say(budget_said(event), "!")

    def _compacted(self, _event: Event) -> None:
        self.say("the middle of the conversation was summarised to make room")

    def _notice_issued(self, event: Event) -> None:
        self.say(event["text"], MARKS[event["level"]])

    def _runtime_changed(self, event: Event) -> None:
        if event["state"] != "well":
            self.say(f"the runtime is {event['state']}: {event['reason']}", "!")
