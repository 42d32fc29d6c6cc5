"""Ask one thing and print the answer.

The answer goes to standard output, what happens on the way to standard error. With a terminal,
approvals are asked for there; without one, what needs consent is refused."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.arguments import (
    absolute_model,
    chosen_terminals,
    chosen_tools,
    effort_option,
    file_option,
    json_option,
    read_files,
    session_name,
    terminal_option,
    tools_option,
)
from hermes_agent.cli.output.turn_outcome import collect
from hermes_agent.cli.output.turn_printer import Printer
from hermes_agent.core.errors import HermesError, NotFound, UsageError

if TYPE_CHECKING:
    from hermes_agent.cli.client.api import RuntimeClient
    from hermes_agent.cli.client.stream import EventStream

STRAY_WORDS = 'quote the question: hermes ask "…"'

SELDOM = 200_000
"""Objects made before some are looked through for garbage: what is imported is none, and to find
that out a hundred times takes a tenth of a short command."""

Event = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="what to ask; `-` reads standard input")
    parser.add_argument("--session", help="go on with a session: its id or name")
    parser.add_argument("--name", help="name the new session")
    parser.add_argument("--model", default="", help="service/name, for a new session")
    effort_option(parser, "for a new session")
    parser.add_argument("--policy", default="", help="policy profile, for a new session")
    parser.add_argument("--workspace", default="", help="where to work; default: this folder")
    terminal_option(parser)
    tools_option(parser)
    file_option(parser)
    parser.add_argument(
        "--no-runtime", action="store_true", help="work in this process; no runtime is started"
    )
    parser.add_argument("--quiet", action="store_true", help="print the answer and nothing else")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    text = standard_input() if options.text == "-" else options.text
    if not text.strip() and not options.file:
        raise UsageError("the message is empty", 'say something: hermes ask "…"')
    if options.session is not None and not options.session.strip():
        raise UsageError("name a session", "`hermes sessions` lists them")
    tools = chosen_tools(options)
    chosen = (options.model, options.policy, options.workspace, options.name, options.terminal)
    if options.session and any((*chosen, options.effort, tools)):
        raise UsageError(
            "a session keeps its model, policy, workspace, terminals, tools and name",
            "leave --session out to open a new one; "
            "`hermes model NAME --session ID` lets another model go on with it",
        )
    interactive = sys.stdin.isatty() and sys.stderr.isatty() and not options.json
    message: dict[str, object] = {
        "key": os.urandom(16).hex(),
        "text": text,
        "session": options.session or "",
        "name": "" if options.name is None else session_name(options.name),
        "model": absolute_model(options.model) or os.environ.get("HERMES_MODEL", ""),
        "policy": options.policy or os.environ.get("HERMES_POLICY", ""),
        "workspace": os.path.abspath(options.workspace or os.getcwd()),
        "interactive": interactive,
        "terminals": chosen_terminals(options),
        "effort": options.effort,
        "tools": tools,
        "files": read_files(options.file),
    }
    printer = Printer(
        live=sys.stdout.isatty() and not options.json, quiet=options.quiet or options.json
    )
    if options.no_runtime:
        import gc

        gc.set_threshold(SELDOM)
        from hermes_agent.cli.talk.in_process import ask_in_process

        outcome = ask_in_process(message, printer)
        gc.freeze()  # the end is near: nobody need look through it all once more
    else:
        outcome = _ask_runtime(message, printer)
    return 0 if tell(outcome, options.json, printer) else 1


def standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"standard input is not UTF-8 (at byte {error.start})", "convert it, or name the file"
        ) from None


def _ask_runtime(message: dict[str, object], printer: Printer) -> Event:
    from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone, session_path
    from hermes_agent.cli.client.follower import follow, hand_in, send

    api = RuntimeClient()
    outcome: Event = {"session": "", "parked": []}
    sent: Event | None = None
    events: EventStream | None = None
    try:
        sent = send(api, message)
        outcome["session"] = sent["session"]
        if message["session"]:
            _tell_state(sent["state"], printer)
        if sent["state"] == "parked":
            return {**outcome, "reason": "parked"}
        events = follow(api, sent)
        answer = answering(api, events) if message["interactive"] else None
        return watch(events, printer, outcome, answer)
    except KeyboardInterrupt:
        try:
            # With the same key it is stored once, and we learn its session.
            sent = sent or hand_in(api, message)
        except RuntimeGone:
            raise KeyboardInterrupt from None  # it was not handed in
        outcome["session"] = sent["session"]
        api.post(f"{session_path(sent['session'])}/interrupt")
        return watch(events or follow(api, sent), printer, outcome, None)


def _tell_state(state: str, printer: Printer) -> None:
    match state:
        case "running":
            printer.say("the session is at work; your message is queued")
        case "waiting":
            printer.say("the session waits for an answer first: `hermes approvals`", "!")
        case "parked":
            printer.say(
                "your message is kept; the session waits for a decision: `hermes parked`", "!"
            )


def answering(api: "RuntimeClient", events: "EventStream") -> Callable[[Event], None]:
    """Put questions on the terminal and pass the answers on."""
    from hermes_agent.cli.client.follower import reach
    from hermes_agent.cli.client.stream import ask_question
    from hermes_agent.cli.output.id_prefix import myself

    def answer(question: Event) -> None:
        chosen = ask_question(question, events)
        if chosen is not None:
            with suppress(NotFound):  # somebody or the clock was quicker, and the turn goes on
                body: dict[str, object] = {"answer": chosen, "by": myself()}
                reach(api, lambda: api.post(f"/v1/questions/{question['id']}", body))

    return answer


def watch(
    events: Iterable[Event],
    printer: Printer,
    outcome: Event,
    answer: Callable[[Event], None] | None,
) -> Event:
    """Show a turn until it ends or is parked, and collect how it went."""
    for event in events:
        printer.show(event)
        collect(event, outcome)
        if event["kind"] == "question_asked" and answer is not None:
            answer(event)
        if event["kind"] == "call_parked":
            return {**outcome, "reason": "parked"}
    return outcome


def budget_used_up(outcome: Event) -> HermesError:
    return HermesError(f"stopped: {outcome['error'] or 'a budget is used up'}", outcome["hint"])


def tell(outcome: Event, as_json: bool, printer: Printer, **more: object) -> bool:
    """Print how a turn ended, in words or as JSON with `more` in it; whether it is done."""
    reason = outcome.get("reason", "failed")
    if as_json:
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
            raise budget_used_up(outcome)
        case "parked":
            print(f"session {outcome['session']} waits for a decision", file=sys.stderr)
        case "interrupted":
            print(f"interrupted; session {outcome['session']} keeps what was done", file=sys.stderr)
    return bool(reason == "done")
