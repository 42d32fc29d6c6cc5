"""Ask one thing and print the answer.

The answer goes to standard output, progress to standard error. On a terminal you are asked for
approval; otherwise whatever needs approval is refused."""

import argparse
import os
import sys
from typing import Any

from hermes_agent.cli.arguments import json_option, new_session, read_files, session_options
from hermes_agent.cli.output.events import Printer
from hermes_agent.cli.talk.turn import follow_turn, report
from hermes_agent.core.errors import UsageError

STRAY_WORDS = 'quote the question: hermes ask "…"'

GC_THRESHOLD = 200_000
"""Objects made before the garbage collector runs: nothing that is imported is garbage, and finding
that out a hundred times would take a tenth of a short command."""

Event = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="what to ask; `-` reads standard input")
    session_options(parser)
    parser.add_argument(
        "--file", action="append", default=[], metavar="PATH",
        help="attach an image or a PDF; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--no-runtime", action="store_true", help="work in this process, without starting a runtime"
    )
    parser.add_argument("--quiet", action="store_true", help="print the answer and nothing else")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    text = _standard_input() if options.text == "-" else options.text
    if not text.strip() and not options.file:
        raise UsageError("the message is empty", 'say something: hermes ask "…"')
    session = new_session(
        options,
        "leave out --session to open a new one; "
        "`hermes model NAME --session ID` switches its model",
    )
    interactive = sys.stdin.isatty() and sys.stderr.isatty() and not options.json
    message: dict[str, object] = {
        **session,
        "key": os.urandom(16).hex(),
        "text": text,
        "session": options.session or "",
        "interactive": interactive,
        "files": read_files(options.file) if options.file else [],
    }
    printer = Printer(
        live=sys.stdout.isatty() and not options.json, quiet=options.quiet or options.json
    )
    if options.no_runtime:
        import gc

        gc.set_threshold(GC_THRESHOLD)
        from hermes_agent.cli.talk.in_process import ask_in_process

        outcome = ask_in_process(message, printer)
        gc.freeze()  # the process is about to end
    else:
        outcome = _ask_runtime(message, printer)
    return 0 if report(outcome, options.json, printer) else 1


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"standard input is not UTF-8 (at byte {error.start})", "convert it, or name the file"
        ) from None


def _ask_runtime(message: dict[str, object], printer: Printer) -> Event:
    from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone, session_path
    from hermes_agent.cli.client.follower import send, submit

    api = RuntimeClient()
    try:
        sent = send(api, message)
    except KeyboardInterrupt:
        try:
            sent = submit(api, message)  # same key: stored once, and we learn its session
        except RuntimeGone:
            raise KeyboardInterrupt from None  # it was never submitted
        api.post(f"{session_path(sent['session'])}/interrupt")
    if message["session"]:
        _say_state(sent["state"], printer)
    if sent["state"] == "parked":
        return {"session": sent["session"], "parked": [], "reason": "parked"}
    return follow_turn(api, sent, printer, interactive=bool(message["interactive"]))


def _say_state(state: str, printer: Printer) -> None:
    match state:
        case "running":
            printer.say("the session is busy; your message is queued")
        case "waiting":
            printer.say("the session is waiting for an answer first: `hermes approvals`", "!")
        case "parked":
            printer.say(
                "your message is stored; the session needs a decision first: `hermes parked`", "!"
            )
