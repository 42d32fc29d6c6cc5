"""Rewriting an effect: words of a program in the command's text, or arguments of the tool."""

import re
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from hermes_agent.core.effects import Effect, Operation
from hermes_agent.policy.files.schema import Rewrite
from hermes_agent.policy.patterns.globs import WordGlobs

_WORD = re.compile(
    r"""(?: [^\s'"\\`$<>|&;()#] | (?<=\S)\# | '[^']*' | "[^"\\`$]*" | \\[^\n] )+""", re.VERBOSE
)
_GAP = re.compile(r"(?:[ \t]|\\\n)+")


class Cannot(Exception):
    """The rewrite cannot be done safely; a person is asked instead."""


class _Word(NamedTuple):
    start: int
    end: int
    value: str


def rewritten(effect: Effect, changes: Sequence[tuple[Operation, Rewrite]]) -> Effect:
    """The effect with all changes made. Raises `Cannot`."""
    changed = dict(effect.input)
    for _act, rewrite in changes:
        for name, value in rewrite.set.items():
            _check_settable(effect, name)
            changed[name] = value
    worded = [(act, rewrite) for act, rewrite in changes if rewrite.add or rewrite.remove]
    command = effect.command
    if worded:
        command = _new_command(effect, worded)
        changed[_command_name(effect)] = command
    return msgspec.structs.replace(effect, input=changed, command=command)


def _check_settable(effect: Effect, name: str) -> None:
    """Paths and commands were judged as given and must not be replaced."""
    value = effect.input.get(name)
    judged = {effect.command, *(given for _access, given in effect.paths), *effect.hosts}
    if isinstance(value, str) and value in judged:
        raise Cannot(f"{name} is what the rules check, and cannot be set")


def _command_name(effect: Effect) -> str:
    names = [name for name, value in effect.input.items() if value == effect.command]
    if len(names) != 1:
        raise Cannot("the command cannot be found among the arguments")
    return names[0]


def _new_command(effect: Effect, changes: Sequence[tuple[Operation, Rewrite]]) -> str:
    text = effect.command or ""
    spans: dict[tuple[int, int], Any] = {}
    for act, rewrite in changes:
        if act.span is None:
            raise Cannot(f"`{act.program}` does not appear in the command as it runs")
        if act.span in spans and spans[act.span] != rewrite:
            raise Cannot("two rules would change the same words")
        spans[act.span] = rewrite
    for (start, end), rewrite in sorted(spans.items(), reverse=True):
        text = text[:start] + _new_words(text[start:end], rewrite) + text[end:]
    return text


def _new_words(text: str, rewrite: Rewrite) -> str:
    """The arguments of one program with some removed and some added; others stay as written."""
    words = _words(text)
    unwanted = WordGlobs(rewrite.remove)
    kept = [words[0]]
    end = 0
    for position, word in enumerate(words[1:], 1):
        if word.value == "--":
            end = end or len(kept)
        if end or not unwanted.fit(word.value):
            kept.append(words[position])
    texts = [text[word.start : word.end] for word in kept]
    end = end or len(texts)
    return " ".join([*texts[:end], *map(shlex.quote, rewrite.add), *texts[end:]])


def _words(text: str) -> list[_Word]:
    found = []
    position = 0
    while position < len(text):
        gap = _GAP.match(text, position)
        if gap:
            position = gap.end()
            continue
        word = _WORD.match(text, position)
        if word is None:
            raise Cannot("the words contain more than plain text")
        try:
            value = "".join(shlex.split(word[0]))
        except ValueError:
            raise Cannot("the words contain more than plain text") from None
        found.append(_Word(word.start(), word.end(), value))
        position = word.end()
    if not found:
        raise Cannot("there are no words to change")
    return found
