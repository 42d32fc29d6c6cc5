"""Ask one thing and print the answer.

The answer goes to standard output, what happens on the way to standard error. With a terminal,
approvals are asked for there; without one, what needs consent is refused."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.show import Printer, one_line
from hermes_agent.core.errors import HermesError, UsageError

Event = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="what to ask; `-` reads standard input")
    parser.add_argument("--session", default="", help="go on with a session: its id or name")
    parser.add_argument("--name", default="", help="name the new session")
    parser.add_argument("--model", default="", help="service/name, for a new session")
    parser.add_argument("--policy", default="", help="policy profile, for a new session")
    parser.add_argument("--workspace", default="", help="where to work; default: this folder")
    parser.add_argument(
        "--no-runtime", action="store_true", help="work in this process; no runtime is started"
    )
    parser.add_argument("--quiet", action="store_true", help="print the answer and nothing else")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    text = sys.stdin.read() if options.text == "-" else options.text
    if not text.strip():
        raise UsageError("the message is empty", 'say something: hermes ask "…"')
    if options.session and (options.model or options.policy or options.workspace or options.name):
        raise UsageError(
            "a session keeps its model, policy, workspace and name",
            "leave --session out to open a new one",
        )
    interactive = sys.stdin.isatty() and sys.stderr.isatty() and not options.json
    message: dict[str, object] = {
        "text": text,
        "session": options.session,
        "name": options.name,
        "model": options.model or os.environ.get("HERMES_MODEL", ""),
        "policy": options.policy or os.environ.get("HERMES_POLICY", ""),
        "workspace": os.path.abspath(options.workspace or os.getcwd()),
        "interactive": interactive,
    }
    printer = Printer(
        live=sys.stdout.isatty() and not options.json, quiet=options.quiet or options.json
    )
    if options.no_runtime:
        from hermes_agent.cli.inprocess import ask_in_process

        outcome = ask_in_process(message, printer)
    else:
        outcome = _ask_runtime(message, printer)
    return _tell(outcome, options.json, printer)


def _ask_runtime(message: dict[str, object], printer: Printer) -> Event:
    from hermes_agent.cli.client import Api
    from hermes_agent.cli.follow import Following, send

    api = Api()
    sent = send(api, message)
    outcome: Event = {"session": sent["session"], "parked": []}
    if sent["state"] == "parked":
        printer.say("your message is kept; the session waits for a decision: `hermes parked`", "!")
        return {**outcome, "reason": "parked"}
    if sent["state"] == "waiting":
        printer.say("the session waits for an answer first: `hermes approvals`", "!")

    def answer(question: Event) -> None:
        chosen = put_question(question)
        api.post(f"/v1/questions/{question['id']}", {"answer": chosen})

    turn = Following(api, sent["session"], sent["key"], sent["after"])
    try:
        return watch(turn.events(), printer, outcome, answer if message["interactive"] else None)
    except KeyboardInterrupt:
        api.post(f"/v1/sessions/{sent['session']}/interrupt")
        return watch(turn.events(), printer, outcome, None)


def watch(events: Iterator[Event], printer: Printer, outcome: Event, answer: Any | None) -> Event:
    """Show a turn until it ends or is parked, and collect how it went."""
    for event in events:
        printer.show(event)
        collect(event, outcome)
        if event["kind"] == "asked" and answer is not None:
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


def put_question(question: Event) -> str:
    """Ask on the terminal. For consent, only `y` or `yes` is a yes: Enter is not."""
    print(f"\n? {question['text']}", file=sys.stderr)
    if question["purpose"] == "question":
        for number, choice in enumerate(question["choices"], 1):
            print(f"  {number}. {choice}", file=sys.stderr)
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline().strip()
        if line.isdigit() and 1 <= int(line) <= len(question["choices"]):
            return str(question["choices"][int(line) - 1])
        return line
    print("  allow? [y/N] ", end="", file=sys.stderr, flush=True)
    return "yes" if sys.stdin.readline().strip().lower() in ("y", "yes") else "no"


def _tell(outcome: Event, as_json: bool, printer: Printer) -> int:
    reason = outcome.get("reason", "failed")
    if as_json:
        keys = ("text", "session", "cost", "reason", "error", "hint", "steps", "usage", "seconds")
        document = {key: outcome.get(key) for key in keys}
        print(json.dumps({**document, "parked": outcome["parked"]}, ensure_ascii=False))
        return 0 if reason == "done" else 1
    printer.close(outcome.get("text", ""))
    if reason == "failed":
        raise HermesError(outcome["error"], outcome["hint"])
    if reason == "budget":
        raise HermesError("stopped: a budget is used up", "see `hermes config get budgets`")
    if reason == "parked":
        print(f"session {outcome['session']} waits for a decision", file=sys.stderr)
    if reason == "interrupted":
        print(
            f"interrupted; session {one_line(outcome['session'])} keeps what was done",
            file=sys.stderr,
        )
    return 0 if reason == "done" else 1
