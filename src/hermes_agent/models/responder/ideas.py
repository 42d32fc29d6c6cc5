"""What might be the matter, and what would mend it."""

import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.seen import quotes

KEEP = "/var/tmp"  # noqa: S108 - a copy of what is replaced goes where the box has room
SHELVES = frozenset({"backup", "backups", "old", "previous", "orig", "saved", "archive"})
"""Folders where earlier versions are put away."""
ANYWHERE = frozenset({"/", "etc", "var", "srv", "opt", "lib", "root", "home", "conf.d", "backups"})
"""Folders that say nothing of what belongs together."""
ALIKE = 6
"""Lines in which files may differ that are taken to be versions of one."""
ACT = 0.6
"""From which score on an idea is acted on."""


class Idea(Struct, frozen=True):
    category: str
    component: str
    claim: str
    score: float
    """How sure it is, from 0 to 1."""
    locus: str = ""
    evidence: tuple[str, ...] = ()
    """Lines that were seen, word for word."""
    wants: tuple[str, ...] = ()
    """What to look at to be surer."""
    fix: tuple[str, ...] = ()
    undo: str = ""
    prevent: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        return self.category, self.component, self.fix


Rule = Callable[[Case], Iterator[Idea]]


def lines(*given: str) -> tuple[str, ...]:
    return quotes([line for line in given if line])


def ranked(ideas: Iterable[Idea]) -> list[Idea]:
    """The likeliest first, one for each key."""
    best: dict[tuple[str, str, tuple[str, ...]], Idea] = {}
    for idea in sorted(ideas, key=lambda one: -one.score):
        best.setdefault(idea.key, idea)
    return list(best.values())


class Copy(Struct, frozen=True):
    """An earlier version of a file."""

    wants: tuple[str, ...] = ()
    path: str = ""
    change: str = ""
    """A line of how the file differs from it."""


def earlier(case: Case, path: str) -> Copy:
    """A copy that somebody kept of a file, where there is one that differs."""
    search = probes.copies(path)
    found = case.look(search)
    if found is None:
        return Copy((search,))
    for copy, differs in parse.files(found.output).items():
        changed = [line for line in differs if line[:2] in ("< ", "> ")]
        if copy.startswith(KEEP) or not changed:
            continue
        if _is_copy(copy, path) or (len(changed) <= ALIKE and _is_named_so(copy, path)):
            return Copy((), copy, changed[-1])
    return Copy()


def _is_named_so(copy: str, path: str) -> bool:
    """By the same name, or by that with what shows a copy; other endings are other files."""
    stem, name = PurePosixPath(copy).name.removeprefix("."), PurePosixPath(path).name
    return stem == name or (stem.startswith(name) and probes.BACKUPS.search(stem) is not None)


def _is_copy(copy: str, path: str) -> bool:
    """Whether a file is an earlier version of another: beside it by its name, or put away where
    such files are kept, below a folder of the same family."""
    own, old = PurePosixPath(copy), PurePosixPath(path)
    stem = own.name.removeprefix(".")
    if own.parent == old.parent:
        return stem.startswith(old.name) and probes.BACKUPS.search(stem) is not None
    shelved = any(part in SHELVES or probes.BACKUPS.search(part) for part in own.parts[:-1])
    family = (set(own.parts[:-1]) & set(old.parts[:-1])) - ANYWHERE
    return shelved and bool(family) and stem.startswith(old.name)


def put_back(path: str, copy: str) -> tuple[str, ...]:
    """Commands that put an earlier version in the place of a file."""
    aside = f"{KEEP}/{PurePosixPath(path).name}.replaced"
    return (
        f"cp {shlex.quote(path)} {shlex.quote(aside)}",
        f"cp {shlex.quote(copy)} {shlex.quote(path)}",
    )


def undo_of(path: str) -> str:
    return f"cp {KEEP}/{PurePosixPath(path).name}.replaced {path}"
