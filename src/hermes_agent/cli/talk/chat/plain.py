"""The chat without a screen, line by line: for pipes, and where prompt_toolkit is missing."""

import sys
from collections.abc import Iterator
from functools import partial

from hermes_agent.cli.output.events import Printer
from hermes_agent.cli.talk.chat.commands import is_slash, run_slash
from hermes_agent.cli.talk.chat.session import ChatSession
from hermes_agent.cli.talk.turn import follow_turn, report
from hermes_agent.core.errors import HermesError

PROMPT = "> "


def run_plain(talk: ChatSession, terminal: bool) -> int:
    """Chat until the input ends. In a pipe, the exit code is 1 if a turn failed."""
    failed = False
    for line in _typed(talk) if terminal else _lines():
        try:
            if is_slash(talk, line):
                if text := run_slash(talk, line):
                    print(text, flush=True)
                again, talk.outgoing = talk.outgoing, ""
                failed = bool(again and not _turn(talk, again, terminal)) or failed
            else:
                failed = not _turn(talk, line, terminal) or failed
        except HermesError as error:
            print(error, file=sys.stderr, flush=True)
            failed = True
        if talk.leaving:
            break
    if text := talk.farewell():
        print(text, file=sys.stderr)
    return 1 if failed and not terminal else 0


def _lines() -> Iterator[str]:
    return (line.strip() for line in _joined(iter(sys.stdin.readline, "")) if line.strip())


def _joined(lines: Iterator[str]) -> Iterator[str]:
    """A backslash at the end of a line continues it on the next."""
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


def _typed(talk: ChatSession) -> Iterator[str]:
    import readline

    def read() -> Iterator[str]:
        interrupted = False
        while True:
            readline.set_startup_hook(partial(readline.insert_text, talk.draft))
            talk.draft = ""
            try:
                yield input(PROMPT)
                interrupted = False
            except EOFError:
                print(flush=True)
                return
            except KeyboardInterrupt:
                if interrupted:
                    return
                interrupted = True
                print("\nCtrl-C again, or Ctrl-D, leaves", file=sys.stderr)

    return (line.strip() for line in _joined(read()) if line.strip())


def _turn(talk: ChatSession, text: str, terminal: bool) -> bool:
    """Send one message and follow its turn to the end; False when it failed."""
    printer = Printer(live=terminal, quiet=False)
    outcome = follow_turn(talk.api, talk.say(text), printer, interactive=terminal)
    return report(outcome, False, printer)
