"""The limits that active skills declare, checked after the rules: they can only refuse. Each skill
limits by itself, and only what it declares. Limits that cannot be parsed refuse everything."""

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from hermes_agent.core.effects import Effect, Operation, PathAccess
from hermes_agent.core.skills import SkillLimits
from hermes_agent.policy import shell
from hermes_agent.policy.match import MatchContext, is_unnamed
from hermes_agent.policy.operations import ELSEWHERE, describe, is_elsewhere, shortened
from hermes_agent.policy.patterns import globs
from hermes_agent.policy.patterns import hosts as host_patterns
from hermes_agent.policy.patterns.globs import WordGlobs
from hermes_agent.policy.patterns.hosts import Hosts
from hermes_agent.policy.shell.interpreter.command import program_name
from hermes_agent.policy.shell.interpreter.state import ExpandedWord
from hermes_agent.policy.shell.programs.table import sort_words, spec
from hermes_agent.policy.word_lists import word_list

SERVING = frozenset({"ask_user", "todo", "read_on", "skill", "recall", "find_tools"})
"""Tools that only serve the conversation: every skill needs them."""
TERMINAL = "terminal"
AS_ANOTHER = word_list("as_another")
"""Wrappers that give a program more than it has: a skill that allows the program does not mean
these. It names both: `terminal(sudo systemctl:*)`."""

_RESTRICTED = re.compile(r"([^()\s]+)\((.*)\)", re.DOTALL)
_GLOB = re.compile(r"[*?\[]")
_WORKSPACE = ("{workspace}/**",)

OPEN = re.compile(r"[$`…*?\[]")
"""Characters of a word that may expand to others, several or none."""
_ONLY_WORDS = word_list("only_words")
"""Programs that take words for what they are, or for places that are acts of their own."""
TOLD = _ONLY_WORDS | word_list("told")
"""Programs of which the words tell all that they touch. Of any other a skill that bounds paths or
hosts must name the program: then whoever wrote it has thought of it."""

Options = Mapping[str, frozenset[str]]


def _by_name(*lines: str) -> Options:
    """`names: options`, each separated by blanks."""
    parts = [line.partition(":") for line in lines]
    return {
        name: frozenset(options.split()) for names, _, options in parts for name in names.split()
    }


_OTHER_PLACES = _by_name(
    # links within a folder; what stands behind -Z of cp is taken for its value, and is not
    "cp: -L --dereference -Z",
    "ls dir vdir du: -L --dereference",
    "grep egrep fgrep: -R --dereference-recursive",
    "chmod chown chgrp: -L",
    "diff: -r --recursive",
    # lists of paths, and paths that are no acts
    "find: -L -follow -anewer -cnewer -H -P -D",
    "sort: -T --temporary-directory",
    "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum shasum: -c --check",
    "tar gtar bsdtar: -T --files-from -h -L --dereference",
    "rsync: --files-from -L --copy-links --copy-unsafe-links -k --copy-dirlinks",
)
_MORE_OF_FIND = re.compile(r"-newer[aBcm][aBcm]|-O.*")
"""Names a file; or stands, as -H, -P and -D do, before the folders, which then are no acts."""
_LEAVES_LINKS = frozenset(
    {"rm", "rmdir", "unlink", "ls", "stat", "readlink", "echo", "printf", "basename", "dirname"}
)
"""Programs that take a link for what it is."""
_EITHER = frozenset({"-o", "-or", "!", "-not", ","})

_LISTS_WHERE_IT_STANDS = frozenset({"ls", "dir", "vdir", "du"})
_SEARCHES = frozenset({"grep", "egrep", "fgrep"})
_ALL_BELOW = frozenset(
    {"-r", "-R", "--recursive", "--dereference-recursive", "-d", "--directories"}
)

_TELLS_HOSTS = word_list("tells_hosts")
"""Those that tell all hosts when they tell any."""
_FOLLOWS = frozenset({"aria2c", "axel", "lynx", "links", "w3m", "elinks"})
"""Those that go wherever a server sends them."""
_OTHER_HOSTS = _by_name(
    "curl: -L --location --location-trusted --follow",
    "http https xh httpie: -F --follow",
    "wget: -H --span-hosts -D --domains",
    "ssh autossh: -L -R -D -J -W -w",
    "scp sftp: -J",
    "git: --recurse-submodules --recursive --remote-submodules",
)
_SSH = frozenset({"ssh", "autossh", "scp", "sftp"})
_PLAIN_OF_SSH = word_list("plain_of_ssh")
"""Settings with which ssh reaches the host that is named, and no other."""
_REACHES_OUT = _TELLS_HOSTS - {"git", "rsync"} | _FOLLOWS | word_list("reaches_out")
_VERBS_THAT_REACH_OUT = {
    name: word_list(f"reaches_out_{name}") for name in ("git", "docker", "podman", "hg", "svn")
}


class Refusal(Struct, frozen=True):
    rule: str
    reason: str


class _Command(Struct, frozen=True):
    """Commands that a tool may run, word by word; a final `*` is any words or none."""

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
    """Compiled limits."""

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
    """Why the active skills refuse an effect; None where all allow it."""
    effect = facts.effect
    if effect.tool in SERVING and effect.origin == "builtin":
        return None
    for bounds in effect.bounds:
        declared = _declared(bounds)
        for why in _objections(declared, facts, acts):
            return Refusal(f"skill/{bounds.skill}", why)
    return None


def trouble(bounds: SkillLimits) -> str:
    """What is wrong with a skill's limits, or empty; until corrected, everything is refused."""
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
    """To allow a program is to allow what it writes, not shell redirections to anywhere."""
    inside = facts.roots.pattern(_WORKSPACE)
    for act in acts:
        if act.kind != "path" or _carriers(act, acts):
            continue
        (place,) = act.places
        of_the_call = not act.program and (place.access, place.given) in facts.effect.paths
        if place.access == "read" or of_the_call or _fits(inside, place):
            continue
        if is_redirected(act, acts):
            yield f"{_place(act, place)} by a redirection outside the workspace"


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
        if act.program == "git-repository":
            continue  # git itself is judged
        roots = facts.elsewhere if is_elsewhere(act) else facts.roots
        within = roots.pattern(declared.paths)
        if act.kind == "path":
            yield from (_place(act, each) for each in act.places if not _fits(within, each))
        elif act.kind == "unknown":
            yield _unknown(act)
        elif act.kind == "program":
            for option in other_places(act, acts):
                yield f"{describe(act)}: {option} leads to unknown places"
            if act.program in TOLD:
                yield from _by_words(declared, facts.effect, within, act)
            elif not _is_named(declared, act, acts):
                yield f"{describe(act)}: it is unclear what it touches"
    yield from _closed_calls(declared, facts.effect, "what it touches")


def _by_words(
    declared: _Declared, effect: Effect, within: re.Pattern[str], act: Operation
) -> Iterator[str]:
    """Of a program whose words tell what it touches. One that is named word for word is meant."""
    if any(one.words[-1] != "*" and one.fits(_words(act)) for one in declared.commands):
        return
    here = "~" if is_elsewhere(act) else effect.folder or effect.workspace
    if works_where_it_stands(act) and not within.fullmatch(here):
        yield f"{describe(act)} in {here}, the current folder"
    for word in loose_words(act):
        listed = posixpath.normpath(posixpath.join(here, word))
        if is_filled_in(word) or ".." in word.split("/") or not within.fullmatch(listed):
            yield f"{describe(act)}: it is unclear what {shortened(word)} expands to"


def _fits(pattern: re.Pattern[str], place: PathAccess) -> bool:
    paths = (place.named, *place.real)
    return not is_unnamed(place) and all(pattern.fullmatch(path) for path in paths)


def _place(act: Operation, place: PathAccess) -> str:
    unnamed = ", an unknown place" if is_unnamed(place) else ""
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
                yield f"{describe(act)}: it is unclear which hosts it reaches"
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
        yield f"the tool {effect.tool}: it is unclear {what}"


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
            yield f"the tool {tool!r} is invalid: {why}"
    for path in bounds.paths:
        if (found := globs.trouble(path)) is not None:
            yield f"the path {path!r} is invalid: {'; '.join(filter(None, found))}"
    for host in bounds.hosts:
        if why := host_patterns.trouble(host):
            yield f"the host {host!r} is invalid: {why}"


def _tool_trouble(tool: str) -> str | None:
    if not tool.strip():
        return "it is empty"
    if "(" not in tool and ")" not in tool:
        return "a name cannot contain spaces" if tool.split() != [tool] else None
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


# what the words of a program tell of places


def other_places(act: Operation, acts: Sequence[Operation]) -> Iterator[str]:
    """What in the words of a program leads to places that are no acts, whoever names it."""
    for option in _given(act, _OTHER_PLACES):
        if act.program != "diff" or "--no-dereference" not in act.flags:
            yield option
    if act.program == "xargs":
        yield "--arg-file"  # without a list it is no act of its own
    elif act.program == "find":
        yield from (flag for flag in act.flags if _MORE_OF_FIND.fullmatch(flag))
    elif "find" in act.via and act.program not in _LEAVES_LINKS and not _finds_only_files(acts):
        yield "find without -type f"


def _finds_only_files(acts: Sequence[Operation]) -> bool:
    """What is found is no link, so that a program that is run on it stays in the folder."""
    return all(
        ("-type", "f") in zip(act.arguments, act.arguments[1:], strict=False)
        and _EITHER.isdisjoint(act.arguments)
        for act in acts
        if act.kind == "program" and act.program == "find"
    )


def loose_words(act: Operation) -> Iterator[str]:
    """Words that may become several or other ones, and are no places: one of those may be a place
    or an option."""
    given = {place.given for place in act.places}
    text = act.text
    for word in reversed(act.arguments):
        closed = text.endswith(f" {shlex.quote(word)}")
        text = text.removesuffix(shlex.quote(word) if closed else word).removesuffix(" ")
        # what a program prints is no place; but a pattern lists what is there
        harmless = act.program in _ONLY_WORDS and is_filled_in(word)
        if not closed and OPEN.search(word) and word not in given and not harmless:
            yield word


def is_filled_in(word: str) -> bool:
    """Whether a word comes from elsewhere, and is not just a pattern for names."""
    return not set(word).isdisjoint("$`…")


def works_where_it_stands(act: Operation) -> bool:
    """On a folder that it does not name."""
    below = act.program in _SEARCHES and any(_is_one_of(flag, _ALL_BELOW) for flag in act.flags)
    known = spec(act.program)
    if known is None or not (below or act.program in _LISTS_WHERE_IT_STANDS):
        return False
    sorted_words = sort_words(act.program, known, [ExpandedWord(word) for word in act.arguments])
    return all(role != "read" for role, _ in sorted_words.operands)


def is_redirected(act: Operation, acts: Sequence[Operation]) -> bool:
    """Whether the shell opens this path, and not the program that stands before it."""
    place = act.places[0]
    for other in acts:
        same = (other.program, other.arguments, other.via) == (act.program, act.arguments, act.via)
        if other.kind == "program" and same:
            for alone in shell.read(other.text, folder="", home="~"):
                touched = [(one.access, one.given) for one in alone.places]
                if alone.program == act.program and (place.access, place.given) in touched:
                    return False
    return True


# what they tell of hosts


def other_hosts(act: Operation) -> Iterator[str]:
    """What in the words of a program leads to hosts that are no acts, whoever names it."""
    yield from _given(act, _OTHER_HOSTS)
    if act.program in _FOLLOWS:
        yield "redirects"
    if act.program == "wget" and not _is_set(act, "--max-redirect", "0"):
        yield "redirects without --max-redirect=0"
    if act.program in _OTHER_HOSTS and any(not name for name, _ in act.options):
        yield "unknown options"
    if act.program in _SSH:
        for name, value in act.options:
            setting = re.split(r"[=\s]", (value or "").strip(), maxsplit=1)[0].lower()
            if name == "-o" and setting not in _PLAIN_OF_SSH:
                yield f"-o {value or '…'}"


def tells_hosts(act: Operation) -> bool:
    """Whether all hosts that a program reaches are acts of their own, whoever names it."""
    return act.program in TOLD or (bool(act.hosts) and act.program in _TELLS_HOSTS)


def reaches_out(act: Operation) -> bool:
    verbs = _VERBS_THAT_REACH_OUT.get(act.program, frozenset())
    first = act.verb.partition(" ")[0]
    # A verb that is not there or may be any one may be one of these.
    unsure = bool(verbs) and (not first or bool(OPEN.search(first)))
    return act.program in _REACHES_OUT or first in verbs or unsure


def _given(act: Operation, options: Options) -> Iterator[str]:
    wanted = options.get(act.program, frozenset())
    yield from (flag for flag in act.flags if _is_one_of(flag, wanted))


def _is_one_of(flag: str, names: frozenset[str]) -> bool:
    """Long options may be shortened."""
    longer = len(flag) > 2 and flag.startswith("--")
    return flag in names or (longer and any(name.startswith(flag) for name in names))


def _is_set(act: Operation, option: str, value: str) -> bool:
    given = {known for name, known in act.options if name == option}
    return given == {value}
