"""The commands of a remedy as they are run: what changes a file goes together with the copy of it
that is kept, and a link stays one."""

import re
import shlex
from collections.abc import Sequence

from hermes_agent.models.responder.rules.ideas import Idea

_KEEPS = re.compile(r"cp -p -T --backup=numbered ")
"""How a copy is kept before a change."""
_IN_PLACE = re.compile(r"('[^']*'|\"[^\"]*\")|\bsed -i (?!--follow-symlinks)")
"""What edits in place, and what is in quotes: that is a text of a file, and stays as it is."""


def together(fix: Sequence[str]) -> list[tuple[str, ...]]:
    """Commands in groups, of which each only goes on as long as nothing fails: a file is not
    changed of which no copy could be kept."""
    found, held = list[tuple[str, ...]](), set[str]()
    for command in fix:
        keeps = _KEEPS.match(command) is not None
        words = _words(command)
        if held and (keeps or held & set(words)):
            found[-1] = (*found[-1], command)
        else:
            found.append((command,))
            held = set()
        if keeps:
            held |= set(words[-2:-1])
    return found


def run_as(commands: Sequence[str]) -> str:
    """Commands of a group as they are typed: each only where the one before it went well. Of what
    is not there, no copy need be kept."""
    if len(commands) == 1:
        return through_links(commands[0])
    return " && ".join(_where_there(one) if _KEEPS.match(one) else through_links(one)
                       for one in commands)  # fmt: skip


def apart(commands: Sequence[str], idea: Idea, tried: Sequence[Idea]) -> tuple[str, ...]:
    """Commands of a remedy, with a copy of its own of each file of which one before it kept a copy:
    each can be taken back by itself."""
    before = tried[: tried.index(idea)]
    for keep in filter(_KEEPS.match, idea.fix):
        if times := sum(keep in one.fix for one in before):
            kept = _words(keep)[-1]
            own = shlex.quote(f"{kept.removesuffix('.replaced')}.{times + 1}.replaced")
            commands = [one.replace(shlex.quote(kept), own) for one in commands]
    return tuple(commands)


def without_copy(commands: Sequence[str], text: str, *, refused: bool) -> list[str]:
    """Copies that a group should have kept and did not, by what it said: there is none to put back,
    and what lies there by that name is another's."""
    kept = [_words(one)[-1] for one in commands if _KEEPS.match(one)]
    return [one for one in kept if refused or _none_at(one) in text]


def _none_at(kept: str) -> str:
    return f"no copy was kept at {kept}"


def _where_there(keep: str) -> str:
    path, kept = _words(keep)[-2:]
    none = f"echo {shlex.quote(_none_at(kept))}"
    return f"{{ [ ! -e {shlex.quote(path)} ] && {none} || {keep} || {{ {none}; false; }}; }}"


def through_links(command: str) -> str:
    """A command that edits in place, which edits where a link leads."""
    return _IN_PLACE.sub(lambda one: one[1] or "sed -i --follow-symlinks ", command)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
