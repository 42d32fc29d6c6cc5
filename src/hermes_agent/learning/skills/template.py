"""Templates of skills: reads arguments, fills placeholders and finds commands in the text."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from hermes_agent.core.errors import UsageError
from hermes_agent.core.skills import Snippet
from hermes_agent.learning.skills.frontmatter import SkillProblem, skill_error

NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
PLACEHOLDER = re.compile(rf"(?<!\$)\{{\{{[ \t]*({NAME})[ \t]*\}}\}}")
SERVICE_FACTS = (
    "restart", "start", "stop", "status", "unit", "pid", "logs", "recent", "configs", "ports",
    "data",
)  # fmt: skip
"""Placeholders of skills for incidents: facts of the service, filled in as plain shell text."""
_BEFORE_WORD = frozenset(" \t\n;|&()<>")
ALL = "$ARGUMENTS"
_PLACEHOLDER = re.compile(rf"{PLACEHOLDER.pattern}|\$ARGUMENTS\b")
_PARAMETER = re.compile(rf"({NAME})(\?)?(?:=(.*))?", re.DOTALL)
_SNIPPET = re.compile(r"(?<![\\`])!`([^`\n]+)`")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})(.*)")


class SkillParameter(Struct, frozen=True, omit_defaults=True):
    name: str
    about: str = ""
    required: bool = True
    default: str = ""


class Filled(Struct, frozen=True):
    """A text with its values, and the commands in it."""

    text: str
    snippets: tuple[Snippet, ...] = ()


def read_parameters(text: str) -> tuple[SkillParameter, ...]:
    """One a line: `service: the unit to look at`, `note?: may be left out`,
    `lines?=200: with a default`."""
    parameters: dict[str, SkillParameter] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        left, _, about = line.partition(": ")
        match = _PARAMETER.fullmatch(left.removesuffix(":").strip())
        if match is None:
            raise UsageError(
                f"{line!r} is not a parameter",
                "write `name: about`, `name?: about` or `name?=value: …`",
            )
        name, mark, default = match.groups()
        if name in parameters:
            raise UsageError(f"the parameter {name!r} appears twice")
        optional = bool(mark) or default is not None
        parameters[name] = SkillParameter(name, about.strip(), not optional, default or "")
    return tuple(parameters.values())


def read_arguments(
    parameters: Sequence[SkillParameter], arguments: str, skill: str = ""
) -> Mapping[str, str]:
    """The value of each parameter, from words in order and `name=value`."""
    if not parameters:
        return {}
    names = [each.name for each in parameters]
    given: dict[str, str] = {}
    loose: list[str] = []
    usage = f"/{skill} {' '.join(map(_shown, parameters))}"
    for word in argument_words(arguments):
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(NAME, name):
            if name not in names or name in given:
                why = "given twice" if name in given else "not a parameter"
                raise UsageError(f"{name!r} is {why}", f"it is {usage}")
            given[name] = value
        else:
            loose.append(word)
    free = [name for name in names if name not in given]
    if len(loose) > len(free):
        raise UsageError(f"too many arguments: {shlex.join(loose[len(free) :])}", f"usage: {usage}")
    given.update(zip(free, loose, strict=False))
    missing = [each for each in parameters if each.required and not given.get(each.name)]
    if missing:
        named = ", ".join(
            f"{each.name} ({each.about})" if each.about else each.name for each in missing
        )
        raise UsageError(f"the skill needs {named}", f"usage: {usage}")
    return {each.name: given.get(each.name, each.default) for each in parameters}


def argument_words(arguments: str) -> Sequence[str]:
    """As a shell would split them if it can; a lone apostrophe is a letter."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def snippets(body: str) -> Sequence[Snippet]:
    """Commands in the text, written as an exclamation mark before code, outside fenced blocks."""
    inside = fenced(body)
    return [
        Snippet(match.start(), match.end(), match.group(1).strip())
        for match in _SNIPPET.finditer(body)
        if match.group(1).strip() and not any(a <= match.start() < b for a, b in inside)
    ]


def with_values(
    body: str,
    values: Mapping[str, str],
    arguments: str = "",
    facts: Mapping[str, str] | None = None,
) -> Filled:
    """The text with its values. In a command they are quoted, except facts of a service, which are
    shell text. Commands are found first: a value never becomes one."""
    plain = {name: text for name, text in (facts or {}).items() if name not in values}
    quoted = {name: shlex.quote(value) for name, value in values.items()}
    parts: list[str] = []
    found: list[Snippet] = []
    at = length = 0
    for snippet in [*snippets(body), None]:
        end = len(body) if snippet is None else snippet.start
        parts.append(_put(body[at:end], {**plain, **values}, arguments))
        length += len(parts[-1])
        if snippet is not None:
            command = _put(snippet.command, plain, ALL)
            for trouble in _misplaced(command, values.keys()):
                raise UsageError(trouble.message, trouble.hint)
            command = _put(command, quoted, shlex.join(argument_words(arguments)))
            parts.append(f"!`{command}`")
            found.append(Snippet(length, length + len(parts[-1]), command))
            length += len(parts[-1])
            at = snippet.end
    return Filled("".join(parts), tuple(found))


def placeholders(text: str) -> "set[str]":
    return {match[1] for match in _PLACEHOLDER.finditer(text) if match[1]}


def snippet_troubles(body: str, parameters: Sequence[SkillParameter]) -> Iterator[SkillProblem]:
    known = {each.name for each in parameters}
    for snippet in snippets(body):
        yield from _misplaced(snippet.command, known)


def _misplaced(command: str, known: Collection[str]) -> Iterator[SkillProblem]:
    """Placeholders in places where quoting does not keep the shell from reading the value."""
    for match in _PLACEHOLDER.finditer(command):
        ours = match.group() == ALL or match[1] in known
        inside = within(command, match.start()) if ours else ""
        if inside:
            yield skill_error(
                f"{match.group()} is within {inside} in {command!r}",
                "write it as a separate word: values are quoted when they are filled in",
            )


def _put(text: str, values: Mapping[str, str], arguments: str) -> str:
    def put(match: re.Match[str]) -> str:
        return arguments if match.group() == ALL else values.get(match[1], match.group())

    return _PLACEHOLDER.sub(put, text)


def _shown(parameter: SkillParameter) -> str:
    if parameter.required:
        return parameter.name.upper()
    return f"[{parameter.name}={parameter.default or '…'}]"


def fenced(body: str) -> Sequence[tuple[int, int]]:
    """Start and end of fenced blocks; an open one reaches to the end."""
    blocks: list[tuple[int, int]] = []
    fence, begin, at = "", 0, 0
    for line in body.splitlines(keepends=True):
        match = _FENCE.match(line.rstrip("\r\n"))
        if match and not fence:
            fence, begin = match[1], at
        elif match and match[1].startswith(fence) and not match[2].strip():
            blocks.append((begin, at + len(line)))
            fence = ""
        at += len(line)
    return [*blocks, (begin, at)] if fence else blocks


def within(text: str, position: int) -> str:
    """The shell construct around a place in a command in which a quoted value would not stay one
    word; empty if it would."""
    inside, at = "", 0
    while at < position:
        sign = text[at]
        if inside == "'":
            inside = "" if sign == "'" else inside
        elif sign == "\\":
            at += 1
        elif inside == "$'":
            inside = "" if sign == "'" else inside
        elif inside == '"':
            if sign == "`" or text.startswith(("$(", "${"), at):
                return "a substitution in quotes"
            inside = "" if sign == '"' else inside
        elif sign == "'":
            inside = "$'" if text[:at].endswith("$") else "'"
        elif sign == '"':
            inside = '"'
        elif sign == "#" and (not at or text[at - 1] in _BEFORE_WORD):
            end = text.find("\n", at)
            at = position if end < 0 else end
        elif found := _unquotable(text, at):
            return found
        else:
            at += 2 if text.startswith("<<<", at) else 0
        at += 1
    if at > position:
        return "a comment or behind a backslash"
    return "quotes" if inside else ""


def _unquotable(text: str, at: int) -> str:
    if text[at] == "`":
        return "backticks"
    if text.startswith("((", at):
        return "arithmetic"
    if text.startswith("<<", at) and not text.startswith("<<<", at):
        return "a command with a here-document"
    return ""
