"""The manual page, made from the table of commands and what their parsers say."""

import argparse
import inspect
import re
from collections.abc import Iterator

from hermes_agent.cli.commands import COMMANDS, CliCommand
from hermes_agent.core.errors import HermesError
from hermes_agent.core.version import __version__

_HEAD = r""".TH HERMES 1 "" "hermes {version}" "User Commands"
.SH NAME
hermes \- a persistent AI agent
.SH SYNOPSIS
.B hermes
.RI [ COMMAND ]
.RI [ options ]
.SH DESCRIPTION
Hermes is an AI agent that remembers, survives crashes and restarts, and asks before it does harm.
A background process, the runtime, owns its home; commands start it when they need it.
.PP
With
.BR \-\-json ,
a command prints one JSON document instead of a text."""
_TAIL = r""".SH ENVIRONMENT
.TP
.B HERMES_HOME
the home; default ~/.hermes, or ~/.hermes-runtime where ~/.hermes belongs to another agent
.TP
.BR HERMES_MODEL ", " HERMES_POLICY ", " HERMES_TERMINAL
override the settings of the same names
.TP
.BR HERMES_PAGER ", " PAGER
what shows long lists on a terminal; default less \-FRX; empty for none, as \-\-no\-pager
.TP
.BR NO_COLOR ", " FORCE_COLOR
turn colour off, or on where there is no terminal
.TP
.B HERMES_DEBUG
show the traceback when Hermes crashes
.SH FILES
.TP
.I config.yaml
the settings, in the home
.SH EXIT STATUS
0 if all went well, 1 if not, 2 if the command itself was wrong, 130 after Ctrl\-C."""


def manual_page() -> str:
    lines = [_HEAD.format(version=__version__), ".SH COMMANDS"]
    for command in COMMANDS:
        lines += _command(command)
    return "\n".join([*lines, _TAIL]) + "\n"


def _command(command: CliCommand) -> Iterator[str]:
    yield f".SS {_bold(f'hermes {command.name}')}"
    try:
        parser = command.parser()[1]
    except HermesError as error:  # of a distribution that is not installed
        yield _text(f"{command.summary}; {error.message}")
        return
    yield _text(inspect.cleandoc(parser.description or command.summary))
    yield from _arguments(parser)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The arguments of a parser, then its actions with theirs."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                below = action.choices[choice.dest]
                yield f".TP\n{_bold(below.prog)}\n{_text(below.description or choice.help or '')}"
                if inner := "\n".join(_arguments(below)):
                    yield f".RS\n{inner}\n.RE"
        elif action.help != argparse.SUPPRESS and action.dest not in ("help", "json"):
            names = ", ".join(map(_bold, action.option_strings))
            value = "" if action.nargs == 0 else _italic(_placeholder(action))
            listed = ", ".join(map(str, action.choices or ()))
            choices = f" ({listed})" if listed and listed not in (action.help or "") else ""
            yield f".TP\n{' '.join(filter(None, (names, value)))}"
            yield _text(f"{action.help or ''}{choices}".strip()) or "\\&"


def _placeholder(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    return name.upper() if action.option_strings or action.metavar is None else name


def _bold(text: str) -> str:
    return f"\\fB{_escaped(text)}\\fP"


def _italic(text: str) -> str:
    return f"\\fI{_escaped(text)}\\fP"


def _text(text: str) -> str:
    """Paragraphs; what stands in backquotes is bold, and indented lines stay lines."""
    text = re.sub(r"`([^`\n]+)`", r"\\fB\1\\fP", _escaped(text))
    lines = [f"\\&{line}" if line[:1] in (".", "'") else line for line in text.splitlines()]
    paragraphs = [
        ".br\n" + line.strip() if line.startswith(" ") else line or ".PP" for line in lines
    ]
    return "\n".join(paragraphs)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
