"""Follows simple commands: assignments, functions, the shell's own commands, and programs."""

import re

from msgspec.structs import replace

from hermes_agent.core.effects import Operation
from hermes_agent.policy.shell.interpreter.builtins import BUILTINS
from hermes_agent.policy.shell.interpreter.collector import loose_options
from hermes_agent.policy.shell.interpreter.expand import Expander
from hermes_agent.policy.shell.interpreter.interpreter import ShellInterpreter, SimpleCommandRun
from hermes_agent.policy.shell.interpreter.interpreters import INTERPRETERS
from hermes_agent.policy.shell.interpreter.state import (
    NUMBER,
    ExpandedWord,
    ShellContext,
    State,
    Value,
)
from hermes_agent.policy.shell.interpreter.wrappers import WRAPPERS
from hermes_agent.policy.shell.parser.syntax import Assignment, Simple
from hermes_agent.policy.shell.programs.program_call import ProgramCall, follow
from hermes_agent.policy.shell.programs.table import Reading, sort_words, spec

_READING = frozenset({"read", "mapfile", "readarray"})


def run_simple(
    walk: ShellInterpreter, command: Simple, state: State, around: ShellContext
) -> str | None:
    redirected = walk.redirections(command.redirections, state, around)
    fields = Expander(walk, state, around).fields(command.words)
    inside = around.fed(redirected.stdin) if redirected.stdin is not None else around
    run = SimpleCommandRun(walk, state, inside, redirected)
    target = state if not fields else state.copy()
    first = fields[0].text if fields else ""
    for assignment in command.assignments:
        assign(run, assignment, target, shy=first in _READING, exported=bool(fields))
    if target.lends_computed():
        run.around = replace(inside, computed=True)
    for assignment in command.arrays:
        assign(run, assignment, state, shy=False)
    output: str | None = None if command.redirections else ""
    if fields:
        if command.assignments and runs_here(first, state):
            run.state = target
            given = {one.name: target.lookup(one.name) for one in command.assignments}
            output = run.words(fields)
            for name, value in given.items():
                # bash takes it back afterwards; other shells, or one assigned within, may not
                back = around.bash and target.lookup(name) == value
                target.variables[name] = state.lookup(name) if back else None
            state.become(target)
        else:
            output = run.words(fields)
    places, hosts = redirected.take()
    walk.note.places(places, hosts, Operation("program", program=first, via=around.via))
    return None if redirected.stdout else output


def runs_here(name: str, state: State) -> bool:
    """Whether a prefixed assignment can be seen by commands of this text."""
    return name in state.functions or name in {"eval", "source", ".", "command", "builtin"}


def assign(
    run: SimpleCommandRun,
    assignment: Assignment,
    state: State,
    *,
    shy: bool,
    exported: bool = False,
) -> None:
    """Note an assignment. `shy`: it is one for the shell's `read` alone, where IFS is usual."""
    expander = Expander(run.walk, state, run.around)
    value: Value = ""
    if assignment.index is not None:
        expander.calculate(assignment.index)
    if assignment.array is not None:
        fields = expander.fields(assignment.array)
        plain = not any(f.dynamic or f.glob or f.text.startswith("[") for f in fields)
        value = tuple(field.text for field in fields) if plain else None
    elif assignment.value is not None:
        value = expander.assigned(assignment.value)
    if shy and assignment.name == "IFS":
        return
    old = state.lookup(assignment.name)
    if assignment.index is not None:
        value = None
    elif assignment.append:
        if isinstance(old, tuple) and isinstance(value, tuple):
            value = old + value
        else:
            value = old + value if isinstance(old, str) and isinstance(value, str) else None
    parts = assignment.value.parts if assignment.value is not None else ()
    known = value is not None or assignment.index is not None or assignment.append
    number = not known and bool(parts) and expander.is_number(parts)
    run.set(assignment.name, value, state, exported=exported)
    if number:
        state.matches[assignment.name] = NUMBER


def dispatch(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    """Follow a program, or one of the shell's own commands."""
    name = program_name(fields[0].text)
    builtin = BUILTINS.get(name) if "/" not in fields[0].text else None
    if builtin is not None:
        return builtin(run, fields)
    return _run_program(run, name, fields)


_FOLDERS = re.compile(
    r"/(?:usr/(?:local/)?|opt/homebrew/|opt/local/|snap/|run/current-system/sw/)?s?bin/([^/]+)"
)
_VERSION = re.compile(r"(python|pypy|perl|ruby|lua|php|node|pip|gcc|g\+\+|clang|bash)[0-9][0-9.]*")


def program_name(text: str) -> str:
    """The name without a folder of the system; what lies elsewhere keeps its folder, so that no
    rule takes `./ls` for `ls`."""
    found = _FOLDERS.fullmatch(text)
    name = found.group(1) if found else text
    versioned = _VERSION.fullmatch(name)
    if versioned:
        base = versioned.group(1)
        return f"{base}3" if base in {"python", "pip"} else base
    return name


def _run_program(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
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
    call.note("an unknown program")
