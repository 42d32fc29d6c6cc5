"""What might be the matter, and what would mend it."""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import quotes
from hermes_agent.models.responder.view.versions import (
    KEEP,
    Copy,
    earlier,
    keeping,
    kept_as,
    put_away,
    put_back,
    taken_out,
    undo_of,
    versions,
)

__all__ = [
    "ACT", "KEEP", "Copy", "Idea", "Rule", "earlier", "keeping", "kept_as", "lines", "put_away",
    "put_back", "ranked", "taken_out", "undo_of", "versions",
]  # fmt: skip

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
    proof: str = ""
    """A look that must come out well, too, before it counts as mended: what checks see too late."""
    finish: tuple[str, ...] = ()
    """The fix is only a trial: this makes it last where the checks hold meanwhile; else the trial
    is undone at once."""
    piles: str = ""
    """A folder from which things were moved: it must not grow again when the checks ask."""
    bound: int = 0
    """How much may be kept after it, by a guess: to come to that is no growth without end."""
    root: str = ""
    """Of what took others with it: which kind of cause it was at first."""

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        return self.category, self.component, self.fix or (self.claim,)


Rule = Callable[[Case], Iterator[Idea]]


def lines(*given: str) -> tuple[str, ...]:
    return quotes([line for line in given if line])


def ranked(ideas: Iterable[Idea]) -> list[Idea]:
    """The likeliest first, one for each key."""
    best: dict[tuple[str, str, tuple[str, ...]], Idea] = {}
    for idea in sorted(ideas, key=lambda one: -one.score):
        best.setdefault(idea.key, idea)
    return list(best.values())
