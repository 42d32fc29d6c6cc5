"""Finds patterns and rules that are well-formed but can never match, with how to write them."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import NamedTuple, get_args

from hermes_agent.core.effects import Actor, ApprovalRequirement, Capability
from hermes_agent.core.settings.terminals import PlaceSettings
from hermes_agent.policy.files.schema import Rewrite, RuleAction, RuleMatch
from hermes_agent.policy.match import kinds
from hermes_agent.policy.patterns import globs, hosts

CAPABILITIES: tuple[str, ...] = get_args(Capability)
PLACES: tuple[str, ...] = tuple(str(kind.__struct_config__.tag) for kind in get_args(PlaceSettings))
SESSIONS: tuple[str, ...] = get_args(Actor.__annotations__["kind"])

_GLOB = re.compile(r"[*?[]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PORT = re.compile(r"[^:]*:\d+|\[.*\]:\d+")
_LETTERS = dict.fromkeys(("ps", "docker", "podman", "nerdctl"), ("e",))
"""Options written without a dash."""
_OPPOSITES = (
    ("program", "no_program"), ("flag", "no_flag"), ("option", "no_option"), ("via", "no_via"),
)  # fmt: skip


CHECKED = frozenset(
    {"path", "holds", "host", "program", "flag", "no_flag", "option", "no_option", "capability",
     "place", "actor", "secrets"}
)  # fmt: skip
"""Keys whose patterns may never match."""


class LintProblem(NamedTuple):
    key: str
    """The key concerned; empty for the whole rule."""
    message: str
    hint: str = ""


def near(word: str, known: tuple[str, ...]) -> str:
    """`did you mean …?` or the whole list."""
    close = get_close_matches(word, known, 1, 0.65)
    return f"did you mean {close[0]!r}?" if close else f"available: {', '.join(known)}"


def pattern_trouble(key: str, text: str, match: RuleMatch) -> tuple[str, str] | None:
    """What is wrong with one pattern of a rule, and how to write it."""
    match key:
        case "path" | "holds":
            return globs.trouble(text, folders=key == "path")
        case "host":
            return _host(text)
        case "program":
            return _program(text)
        case "flag" | "no_flag":
            return _flag(text, match.program)
        case "option" | "no_option":
            name, equals, _value = text.partition("=")
            if not equals or not name.startswith(("-", "*")):
                return "it is not written as NAME=VALUE", 'for instance "--namespace=production"'
        case "capability" if text not in CAPABILITIES and not _GLOB.search(text):
            return "there is no such capability", near(text, CAPABILITIES)
        case "place" if text not in PLACES and not _GLOB.search(text):
            return "there is no such kind of terminal", near(text, PLACES)
        case "actor" if not _GLOB.search(text.partition("/")[0]):
            if text.partition("/")[0] not in SESSIONS:
                return "there is no such actor", near(text.partition("/")[0], SESSIONS)
        case "secrets" if not _VARIABLE.fullmatch(text):
            return "it is not the name of a variable", "for instance GITHUB_TOKEN"
    return None


def rule_trouble(
    action: RuleAction, match: RuleMatch, consent: ApprovalRequirement, rewrite: Rewrite
) -> Iterator[LintProblem]:
    """What is wrong with a rule whose parts are valid by themselves."""
    for key, no_key in _OPPOSITES:
        wanted, unwanted = getattr(match, key), getattr(match, no_key)
        if wanted and unwanted and set(wanted) <= set(unwanted):
            yield LintProblem(
                key, f"{key} and {no_key} are the same: it never matches", "remove one"
            )
    if action == "allow" and not match.unknown and "unknown" in (match.kind or ()):
        yield LintProblem(
            "kind", "an allow rule covers unknown operations only with unknown: true",
            "write a separate rule with unknown: true",
        )  # fmt: skip
    exact = consent.by and not any(map(_GLOB.search, consent.by))
    if exact and (named := len(set(consent.by))) < consent.count:
        yield LintProblem(
            "then", f"{consent.count} people must agree, but by names {named}",
            "name more, or lower count",
        )  # fmt: skip
    if (rewrite.add or rewrite.remove) and "program" not in kinds(match):
        yield LintProblem(
            "then", "add and remove change a program's words, but this rule matches no program",
            "add program: NAME, or kind: program",
        )  # fmt: skip
    if "command" in rewrite.set and globs.WordGlobs(match.tool or ("terminal",)).fit("terminal"):
        yield LintProblem(
            "then", "the command is what the rules check, and cannot be set",
            "change its words with add and remove",
        )  # fmt: skip


def _host(text: str) -> tuple[str, str] | None:
    if wrong := hosts.trouble(text):
        return wrong, ""
    if _PORT.fullmatch(text):
        return "it has a port", "write only the host: rules ignore ports"
    close = get_close_matches(text.lower(), hosts.WORDS, 1, 0.75)
    if close and text.lower() not in hosts.WORDS and text.isalpha():
        return "it is read as a host name", f"did you mean {close[0]!r}?"
    return None


def _program(text: str) -> tuple[str, str] | None:
    from hermes_agent.policy.shell.interpreter.command import program_name

    if " " in text and "/" not in text:
        name, _, rest = text.partition(" ")
        return "a program is one word: it never matches", f"write program: {name}, verb: {rest}"
    if _GLOB.search(text) is None and (name := program_name(text)) != text:
        return "it never matches", f"write {name}: rules know the program by this name"
    return None


def _flag(text: str, programs: tuple[str, ...] | None) -> tuple[str, str] | None:
    if "=" in text:
        return "a flag has no value", f'write option: "{text}"'
    if text.startswith(("*", "?", "[")):
        return None
    if not text.startswith("-"):
        if programs and all(text in _LETTERS.get(name, ()) for name in programs):
            return None
        letters = ", ".join(f"-{letter}" for letter in dict.fromkeys(text))
        way = letters if len(text) < 4 else f"--{text}"
        return "an option begins with a dash: it never matches", f"write {way}"
    several = len(text) > 2 and text[1:].isalnum() and not text[1:].isdigit()
    if several and all(_joins_letters(name, text) for name in programs or ()):
        letters = ", ".join(f"-{letter}" for letter in dict.fromkeys(text[1:]))
        return "letters after one dash are separate options", f"write {letters}"
    return None


def _joins_letters(program: str, text: str) -> bool:
    """Whether a program takes each letter after one dash as an option. `find`, and unknown
    programs, have words."""
    from hermes_agent.policy.shell.interpreter.builtins import BUILTINS
    from hermes_agent.policy.shell.interpreter.interpreters import INTERPRETERS
    from hermes_agent.policy.shell.interpreter.wrappers import WRAPPERS
    from hermes_agent.policy.shell.programs.table import spec, table

    by_hand = program in WRAPPERS or program in INTERPRETERS or program in BUILTINS
    found = None if by_hand or _GLOB.search(program) else spec(program)
    if found is None or found.words or text in found.options:
        return False
    verbs = [spec(name) for name in table() if name.startswith(f"{program} ")]
    return not any(verb is not None and text in verb.options for verb in verbs)
