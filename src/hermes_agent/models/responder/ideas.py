"""What might be the matter, and what would mend it."""

import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.seen import quotes

KEEP = "/var/tmp"  # noqa: S108 - a copy of what is replaced goes where the box has room
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
        if changed and not copy.startswith(KEEP) and _is_copy(copy, path):
            return Copy((), copy, changed[-1])
    return Copy()


def _is_copy(copy: str, path: str) -> bool:
    own, name = PurePosixPath(copy), PurePosixPath(path).name
    shelved = any(
        part in ("backup", "backups", "old", "previous", "orig", "saved", "archive")
        or probes.BACKUPS.search(part)
        for part in own.parts[:-1]
    )
    stem = own.name.removeprefix(".")
    if stem == name:
        return shelved
    return stem.startswith(name) and (shelved or probes.BACKUPS.search(stem) is not None)


def put_back(path: str, copy: str) -> tuple[str, ...]:
    """Commands that put an earlier version in the place of a file."""
    aside = f"{KEEP}/{PurePosixPath(path).name}.replaced"
    return (
        f"cp {shlex.quote(path)} {shlex.quote(aside)}",
        f"cp {shlex.quote(copy)} {shlex.quote(path)}",
    )


def undo_of(path: str) -> str:
    return f"cp {KEEP}/{PurePosixPath(path).name}.replaced {path}"
