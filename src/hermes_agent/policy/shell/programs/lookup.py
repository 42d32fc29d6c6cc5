"""Finds out how to follow a program: by hand, by its line in the table, or not at all."""

from hermes_agent.policy.shell.interpreter.builtins import BUILTINS
from hermes_agent.policy.shell.interpreter.collector import loose_options
from hermes_agent.policy.shell.interpreter.interpreters import INTERPRETERS
from hermes_agent.policy.shell.interpreter.run import SimpleCommandRun
from hermes_agent.policy.shell.interpreter.state import ExpandedWord
from hermes_agent.policy.shell.interpreter.wrappers import WRAPPERS
from hermes_agent.policy.shell.programs.call import ProgramCall
from hermes_agent.policy.shell.programs.follow import follow
from hermes_agent.policy.shell.programs.table import Reading, sort_words, spec


def run_program(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    """Note a program and follow what it runs; what it prints, when known."""
    special = WRAPPERS.get(name) or INTERPRETERS.get(name)
    if special is not None:
        return special(run, name, fields)
    found = spec(name)
    if found is None:
        _unlisted(run, name, fields)
        return None
    call = ProgramCall(run, name, fields, sort_words(name, found, fields[1:]))
    follow(call)
    if name == "cat" and len(fields) == 1 and run.around.stdin is not None:
        return run.around.stdin.text
    return None


def is_known(name: str) -> bool:
    """Whether the shell or the table knows a command of this name."""
    known = name in BUILTINS or name in WRAPPERS or name in INTERPRETERS
    return known or spec(name) is not None


def _unlisted(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> None:
    """A program that nobody described: what looks like a path is at least read."""
    reading = Reading(given=loose_options(fields[1:]))
    call = ProgramCall(run, name, fields, reading)
    for field in fields[1:]:
        text = field.prefix if field.dynamic else field.text
        if text.startswith("-"):
            reading.flags.append(text.partition("=")[0])
            text = text.partition("=")[2]
            field = ExpandedWord(text, field.dynamic, field.glob, text)
        if "/" in text or text.startswith((".", "~")):
            call.place(field, "read")
    if "/" in name:
        call.place(fields[0], "read")
    call.note()
