"""What may be typed next on a command line, for the completion scripts of the shells. Starts no
runtime and writes nothing."""

import argparse
import os
from collections.abc import Iterable, Iterator

from hermes_agent.cli.commands import COMMANDS, find_command
from hermes_agent.core.errors import HermesError
from hermes_agent.core.text.terminal import clean

PLACES = (":files", ":folders")
"""Instead of words: the shell completes these itself."""

Candidate = tuple[str, str]
"""A word, and what it is."""


def print_candidates(arguments: list[str]) -> int:
    """`--words WORD... CURRENT`, or `--line LINE CURRENT` where the shell has its own idea of what
    the current word is; prints `word<TAB>about` lines, or `:files` or `:folders`."""
    kind, *words = arguments
    cut = 0
    if kind == "--line":
        line, current, *_ = (*words, "", "")
        words = _split(line)
        cut = max(0, len(words[-1]) - len(current)) if words[-1].endswith(current) else 0
    try:
        for value, about in _fitting(words or [""]):
            about = " ".join(clean(about).split())
            print(value if value in PLACES else f"{clean(value)[cut:]}\t{about}")
    except (HermesError, OSError):
        if os.environ.get("HERMES_DEBUG"):
            raise
    return 0


def _split(line: str) -> list[str]:
    """The words after `hermes`; the last one is being typed, and may have an open quote."""
    import shlex

    for end in ("", '"', "'"):
        try:
            words = shlex.split(line + end)
        except ValueError:
            continue
        return [*words[1:], ""] if not end and line[-1:].isspace() else words[1:] or [""]
    return [""]


def _fitting(words: list[str]) -> Iterator[Candidate]:
    seen: set[str] = set()
    for value, about in _candidates(words):
        if (value.startswith(words[-1]) or value in PLACES) and value not in seen:
            seen.add(value)
            yield value, about


def _candidates(words: list[str]) -> Iterable[Candidate]:
    *before, current = words
    if before[:1] == ["help"]:
        before = before[1:]
        if len(before) > 1 or current.startswith("-"):
            return [("--man", "print the manual page")]
    if not before:
        options = [("--help", "explain the commands"), ("--version", "print the version")]
        return options if current.startswith("-") else [(one.name, one.summary) for one in COMMANDS]
    command = find_command(before[0])
    line = _Line(command.name, command.parser()[1])
    for word in before[1:]:
        line.take(word)
    return line.offer(current)


class _Line:
    """The words of a command so far, as argparse would read them."""

    def __init__(self, path: str, parser: argparse.ArgumentParser) -> None:
        self._no_options = False
        self._value_of: argparse.Action | None = None
        self._used: set[str] = set()
        self._enter(path, parser)

    def _enter(self, path: str, parser: argparse.ArgumentParser) -> None:
        self._path, self._parser = path, parser
        self._positionals = [one for one in parser._actions if not one.option_strings]

    def take(self, word: str) -> None:
        if self._value_of is not None:
            self._value_of = None
        elif word == "--" and not self._no_options:
            self._no_options = True
        elif word.startswith("-") and len(word) > 1 and not self._no_options:
            name, equals, _ = word.partition("=")
            option = self._parser._option_string_actions.get(name)
            if option is not None:
                self._used.update(option.option_strings)
                self._value_of = option if option.nargs != 0 and not equals else None
        elif self._positionals:
            first = self._positionals[0]
            if isinstance(first, argparse._SubParsersAction):
                self._positionals = []
                if word in first.choices:
                    self._enter(f"{self._path} {word}", first.choices[word])
            elif first.nargs not in ("*", "+", argparse.REMAINDER):
                del self._positionals[0]

    def offer(self, current: str) -> Iterable[Candidate]:
        name, equals, _ = current.partition("=")
        if self._value_of is not None:
            return self._values(self._value_of)
        if not current.startswith("-") or self._no_options:
            return self._values(self._positionals[0]) if self._positionals else ()
        option = self._parser._option_string_actions.get(name)
        if not equals or option is None:
            return self._options()
        return [
            (value if value in PLACES else f"{name}={value}", about)
            for value, about in self._values(option)
        ]

    def _options(self) -> list[Candidate]:
        return [
            (option.option_strings[0], option.help or "")
            for option in self._parser._actions
            if option.option_strings and option.help != argparse.SUPPRESS and option.dest != "help"
            and (option.option_strings[0] not in self._used
                 or isinstance(option, argparse._AppendAction))
        ]  # fmt: skip

    def _values(self, action: argparse.Action) -> list[Candidate]:
        if isinstance(action, argparse._SubParsersAction):
            return [(one.dest, one.help or "") for one in action._choices_actions]
        if action.choices is not None:
            return [(str(choice), "") for choice in action.choices]
        from hermes_agent.cli.help.values import values

        return values(self._path, action.dest)
