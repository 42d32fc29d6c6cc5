"""The chat without a screen: a line, an answer, a line. For pipes, and where nothing is installed
that could draw one."""

import sys
from collections.abc import Iterator
from typing import Any

from hermes_agent.cli.client.follower import follow
from hermes_agent.cli.output.turn_printer import Printer
from hermes_agent.cli.talk.ask import answering, budget_used_up, watch
from hermes_agent.cli.talk.chat.commands import is_slash, run_slash
from hermes_agent.cli.talk.chat.session import ChatSession
from hermes_agent.core.errors import HermesError

PROMPT = "> "


def run_plain(talk: ChatSession, terminal: bool) -> int:
    """Until the input ends. In a pipe trouble shows in the exit code: 1 when a turn failed."""
    failed = False
    for line in _typed() if terminal else _lines():
        try:
            if is_slash(talk, line):
                if told := run_slash(talk, line):
                    print(told, flush=True)
            else:
                failed = not _turn(talk, line, terminal) or failed
        except HermesError as error:
            print(error, file=sys.stderr, flush=True)
            failed = True
        if talk.leaving:
            break
    if told := talk.farewell():
        print(told, file=sys.stderr)
    return 1 if failed and not terminal else 0


def _lines() -> Iterator[str]:
    return (line.strip() for line in _joined(iter(sys.stdin.readline, "")) if line.strip())


def _joined(lines: Iterator[str]) -> Iterator[str]:
    """A backslash at the end of a line goes on in the next."""
    held = ""
    for line in lines:
        line = line.rstrip("\n")
        if line.endswith("\\"):
            held += line[:-1] + "\n"
        else:
            yield held + line
            held = ""
    if held:
        yield held


def _typed() -> Iterator[str]:
    import readline  # noqa: F401 - `input` edits lines once it is there

    def read() -> Iterator[str]:
        interrupted = False
        while True:
            try:
                yield input(PROMPT)
                interrupted = False
            except EOFError:
                return
            except KeyboardInterrupt:
                if interrupted:
                    return
                interrupted = True
                print("\nCtrl-C again, or Ctrl-D, leaves", file=sys.stderr)

    return (line.strip() for line in _joined(read()) if line.strip())


def _turn(talk: ChatSession, text: str, terminal: bool) -> bool:
    """One message worked to its end; False when it failed."""
    sent = talk.say(text)
    printer = Printer(live=terminal, quiet=False)
    outcome: dict[str, Any] = {"session": talk.id, "parked": []}
    events = follow(talk.api, sent)
    try:
        answer = answering(talk.api, events) if terminal else None
        outcome = watch(events, printer, outcome, answer)
    except KeyboardInterrupt:
        talk.interrupt()
        outcome = watch(events, printer, outcome, None)
    reason: str = outcome["reason"]
    printer.close(outcome["text"] if reason == "done" else "")
    if reason == "failed":
        raise HermesError(outcome["error"], outcome["hint"])
    if reason == "budget":
        raise budget_used_up(outcome)
    if reason != "done":
        print(f"the turn ended: {reason}", file=sys.stderr, flush=True)
    return reason == "done"
