"""What active skills declare, as a second word after the rules: bounds can only refuse. Each skill
bounds by itself, and what it does not declare it does not bound. What cannot be read refuses."""

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from hermes_agent.core.effects import Effect, Operation, PathAccess
from hermes_agent.core.skills import SkillLimits
from hermes_agent.policy.match import MatchContext, is_unnamed
from hermes_agent.policy.operations import ELSEWHERE, describe, is_elsewhere, shortened
from hermes_agent.policy.patterns import globs
from hermes_agent.policy.patterns import hosts as host_patterns
from hermes_agent.policy.patterns.globs import WordGlobs
from hermes_agent.policy.patterns.hosts import Hosts
from hermes_agent.policy.shell.interpreter.command import program_name
from hermes_agent.policy.skill_limits_programs import (
    OPEN,
    TOLD,
    is_filled_in,
    is_redirected,
    loose_words,
    other_hosts,
    other_places,
    reaches_out,
    tells_hosts,
    works_where_it_stands,
)
from hermes_agent.policy.word_lists import word_list

SERVING = frozenset({"ask_user", "todo", "read_on", "skill", "recall", "find_tools"})
"""Tools that only serve the conversation: no skill can do without them."""
TERMINAL = "terminal"
AS_ANOTHER = word_list("as_another")
"""Wrappers that give a program more than it has: a skill that allows the program does not mean
these. It names both: `terminal(sudo systemctl:*)`."""

_RESTRICTED = re.compile(r"([^()\s]+)\((.*)\)", re.DOTALL)
_GLOB = re.compile(r"[*?\[]")
_WORKSPACE = ("{workspace}/**",)


class Refusal(Struct, frozen=True):
    rule: str
    reason: str


class _Command(Struct, frozen=True):
    """Commands that a tool may run, word by word; a `*` at the end is any words or none."""

    tool: WordGlobs
    words: tuple[str, ...]

    def fits(self, words: Sequence[str]) -> bool:
        for position, pattern in enumerate(self.words):
            if pattern == "*" and position == len(self.words) - 1:
                return True
            if position >= len(words) or OPEN.search(words[position]):
                return False
            if not WordGlobs((pattern,)).fit(words[position]):
                return False
        return len(words) == len(self.words)


class _Declared(Struct, frozen=True):
    """Bounds made ready."""

    by: SkillLimits
    tools: WordGlobs
    named: WordGlobs
    """Tools that are named, and not by a `*` that is for all."""
    commands: tuple[_Command, ...]
    paths: tuple[str, ...]
    """A plain path is what is there, and all below it."""
    hosts: Hosts
    trouble: str


def refusal(facts: MatchContext, acts: Sequence[Operation]) -> Refusal | None:
    """What the active skills have against an effect; None where all of them allow it."""
    effect = facts.effect
    if effect.tool in SERVING and effect.origin == "builtin":
        return None
    for bounds in effect.bounds:
        declared = _declared(bounds)
        for why in _objections(declared, facts, acts):
            return Refusal(f"skill/{bounds.skill}", why)
    return None


def trouble(bounds: SkillLimits) -> str:
    """What is wrong with what a skill declares, or nothing; all of it is refused until mended."""
    return _declared(bounds).trouble


def _objections(
    declared: _Declared, facts: MatchContext, acts: Sequence[Operation]
) -> Iterator[str]:
    by = declared.by
    if declared.trouble:
        yield f"the skill {by.skill} allows nothing: {declared.trouble}"
    for refused in _by_tools(declared, facts, acts):
        yield _said(by, refused, "tools", by.tools)
    if by.paths and "**" not in by.paths:
        for refused in _by_paths(declared, facts, acts):
            yield _said(by, refused, "paths", by.paths)
    if by.hosts and "*" not in by.hosts:
        for refused in _by_hosts(declared, facts.effect, acts):
            yield _said(by, refused, "hosts", by.hosts)


def _said(by: SkillLimits, refused: str, what: str, declared: Sequence[str]) -> str:
    listed = ", ".join(declared)
    return f"the skill {by.skill} does not allow {refused}; it declares the {what} {listed}"


# tools


def _by_tools(declared: _Declared, facts: MatchContext, acts: Sequence[Operation]) -> Iterator[str]:
    effect = facts.effect
    if not declared.by.tools or declared.tools.fit(effect.tool):
        return
    allowed = [command for command in declared.commands if command.tool.fit(effect.tool)]
    if not allowed or (effect.command is None and effect.tool != TERMINAL):
        yield f"the tool {effect.tool}"
    if effect.command is None:
        return  # a connection of a command that was judged before it began
    for act in acts:
        if act.kind == "unknown":
            yield _unknown(act)
        if act.kind != "program" or _carriers(act, acts):
            continue
        words = _words(act)
        if not any(command.fits(words) for command in allowed):
            yield f"`{shortened(' '.join(words))}`" if _outer(act) else describe(act)
    if not declared.by.paths:
        yield from _by_redirections(facts, acts)


def _by_redirections(facts: MatchContext, acts: Sequence[Operation]) -> Iterator[str]:
    """Whoever allows a program allows what it writes, and not the shell to write anywhere."""
    inside = facts.roots.pattern(_WORKSPACE)
    for act in acts:
        if act.kind != "path" or _carriers(act, acts):
            continue
        (place,) = act.places
        of_the_call = not act.program and (place.access, place.given) in facts.effect.paths
        if place.access == "read" or of_the_call or _fits(inside, place):
            continue
        if is_redirected(act, acts):
            yield f"{_place(act, place)} by a redirection out of the workspace"


def _outer(act: Operation) -> tuple[str, ...]:
    return tuple(name for name in act.via if name in AS_ANOTHER or name in ELSEWHERE)


def _words(act: Operation) -> tuple[str, ...]:
    """A program as skills name it: with the wrappers that matter before it."""
    return (*_outer(act), act.program, *act.arguments)


def _carriers(act: Operation, acts: Sequence[Operation]) -> list[Operation]:
    """What runs on another machine stands among the words of the program that takes it there, and
    that one is judged itself."""
    return [
        other
        for other in acts
        if other.kind == "program" and other.program in ELSEWHERE and other.program in act.via
    ]


# paths


def _by_paths(declared: _Declared, facts: MatchContext, acts: Sequence[Operation]) -> Iterator[str]:
    for act in acts:
        roots = facts.elsewhere if is_elsewhere(act) else facts.roots
        within = roots.pattern(declared.paths)
        if act.kind == "path":
            yield from (_place(act, each) for each in act.places if not _fits(within, each))
        elif act.kind == "unknown":
            yield _unknown(act)
        elif act.kind == "program":
            for option in other_places(act, acts):
                yield f"{describe(act)}: {option} leads to places that nobody can tell"
            if act.program in TOLD:
                yield from _by_words(declared, facts.effect, within, act)
            elif not _is_named(declared, act, acts):
                yield f"{describe(act)}, of which nobody can tell what it touches"
    yield from _closed_calls(declared, facts.effect, "what it touches")


def _by_words(
    declared: _Declared, effect: Effect, within: re.Pattern[str], act: Operation
) -> Iterator[str]:
    """Of a program whose words tell what it touches. One that is named word for word is meant."""
    if any(one.words[-1] != "*" and one.fits(_words(act)) for one in declared.commands):
        return
    here = "~" if is_elsewhere(act) else effect.folder or effect.workspace
    if works_where_it_stands(act) and not within.fullmatch(here):
        yield f"{describe(act)} in {here}, where the shell stands"
    for word in loose_words(act):
        listed = posixpath.normpath(posixpath.join(here, word))
        if is_filled_in(word) or ".." in word.split("/") or not within.fullmatch(listed):
            yield f"{describe(act)}: nobody can tell what {shortened(word)} becomes"


def _fits(pattern: re.Pattern[str], place: PathAccess) -> bool:
    paths = (place.named, *place.real)
    return not is_unnamed(place) and all(pattern.fullmatch(path) for path in paths)


def _place(act: Operation, place: PathAccess) -> str:
    unnamed = ", a place that nobody can tell" if is_unnamed(place) else ""
    return f"{describe(act)}{unnamed}"


# hosts


def _by_hosts(declared: _Declared, effect: Effect, acts: Sequence[Operation]) -> Iterator[str]:
    for act in acts:
        if act.kind == "host":
            if not all(host and declared.hosts.fit(host) for host in act.hosts):
                yield describe(act)
        elif act.kind == "unknown":
            yield _unknown(act)
        elif act.kind == "program":
            for option in other_hosts(act):
                yield f"{describe(act)}: {option} can lead to any host"
            named = _is_named(declared, act, acts) and (bool(act.hosts) or not reaches_out(act))
            if not named and not tells_hosts(act):
                yield f"{describe(act)}, of which nobody can tell which hosts it reaches"
    yield from _closed_calls(declared, effect, "which hosts it reaches")


# what nobody can see into


def _unknown(act: Operation) -> str:
    return f"{describe(act)}: {act.reason}" if act.reason else describe(act)


def _is_named(declared: _Declared, act: Operation, acts: Sequence[Operation]) -> bool:
    """Whoever wrote the skill has thought of this very program, or of what takes it elsewhere."""
    named = [one for one in declared.commands if one.words[0] != "*"]
    return any(one.fits(_words(each)) for one in named for each in (act, *_carriers(act, acts)))


def _closed_calls(declared: _Declared, effect: Effect, what: str) -> Iterator[str]:
    """Tools of servers and programs, and text that goes to a running command."""
    sends = effect.tool == "process" and effect.input.get("action") == "send"
    closed = effect.origin in ("mcp", "program") or sends
    if closed and not declared.named.fit(effect.tool):
        yield f"the tool {effect.tool}, of which nobody can tell {what}"


# reading


@lru_cache(maxsize=256)
def _declared(bounds: SkillLimits) -> _Declared:
    whole = tuple(name for name in bounds.tools if "(" not in name)
    wrong = [*_troubles(bounds)]
    return _Declared(
        by=bounds,
        tools=WordGlobs(whole),
        named=WordGlobs(name for name in whole if name.strip("*")),
        commands=tuple(_command(name) for name in bounds.tools if "(" in name) if not wrong else (),
        paths=tuple(each for path in bounds.paths for each in _with_all_below(path)),
        hosts=Hosts(bounds.hosts),
        trouble=wrong[0] if wrong else "",
    )


def _with_all_below(path: str) -> tuple[str, ...]:
    plain = not _GLOB.search(path.rpartition("/")[2])
    return (path, f"{path.rstrip('/')}/**") if plain else (path,)


def _troubles(bounds: SkillLimits) -> Iterator[str]:
    for tool in bounds.tools:
        if (why := _tool_trouble(tool)) is not None:
            yield f"the tool {tool!r} cannot be read: {why}"
    for path in bounds.paths:
        if (found := globs.trouble(path)) is not None:
            yield f"the path {path!r} cannot be read: {'; '.join(filter(None, found))}"
    for host in bounds.hosts:
        if why := host_patterns.trouble(host):
            yield f"the host {host!r} cannot be read: {why}"


def _tool_trouble(tool: str) -> str | None:
    if not tool.strip():
        return "it is empty"
    if "(" not in tool and ")" not in tool:
        return "a name holds no blanks" if tool.split() != [tool] else None
    try:
        if _RESTRICTED.fullmatch(tool) is None or not _command(tool).words:
            return "write terminal(PROGRAM:*) or terminal(PROGRAM WORD *)"
    except ValueError as error:
        return str(error)
    return None


def _command(tool: str) -> _Command:
    found = _RESTRICTED.fullmatch(tool)
    assert found is not None
    text = found[2].strip()
    any_words = text.endswith(":*")
    words = shlex.split(text.removesuffix(":*"))
    words[:1] = [program_name(word) for word in words[:1]]
    return _Command(WordGlobs((found[1],)), (*words, *(("*",) if any_words and words else ())))
