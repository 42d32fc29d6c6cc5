"""The hypotheses about an incident, with the evidence for and against each."""

from collections.abc import Sequence

from msgspec.structs import replace

from hermes_agent.core.errors import ToolError
from hermes_agent.core.incidents import CATEGORIES, Diagnosis, Evidence, Hypothesis, Incident

MAX_COUNT = 30
"""Hypotheses of an incident."""


def put(board: Sequence[Hypothesis], new: Hypothesis) -> tuple[tuple[Hypothesis, ...], Hypothesis]:
    """Add a hypothesis, or change the one with its id or claim; evidence is added up."""
    if not new.id:
        same = next((one for one in board if one.claim == new.claim), None)
        if same is None:
            if len(board) >= MAX_COUNT:
                raise ToolError(
                    f"the board has {MAX_COUNT} hypotheses", "refute some: give their id"
                )
            made = replace(new, id=f"h{len(board) + 1}")
            return (*board, made), made
        new = replace(new, id=same.id)
    known = {one.id: one for one in board}
    if new.id not in known:
        raise ToolError(
            f"no hypothesis {new.id!r} is on the board", f"available: {', '.join(known)}", "changed"
        )
    old = known[new.id]
    made = replace(
        new,
        claim=new.claim or old.claim,
        component=new.component or old.component,
        category=new.category if new.category != "unknown" else old.category,
        supports=_joined(old.supports, new.supports),
        contradicts=_joined(old.contradicts, new.contradicts),
    )
    return tuple(made if one.id == made.id else one for one in board), made


def _joined(old: Sequence[Evidence], new: Sequence[Evidence]) -> tuple[Evidence, ...]:
    return tuple(dict.fromkeys([*old, *new]))


def ranked(board: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The most likely first; refuted ones last."""
    order = {"confirmed": 0, "open": 1, "refuted": 2}
    return sorted(board, key=lambda one: (order[one.state], -one.confidence))


def check_category(category: str) -> str:
    if category not in CATEGORIES:
        raise ToolError(
            f"no cause is called {category!r}", f"one of: {', '.join(CATEGORIES)}", "changed"
        )
    return category


def best_guess(incident: Incident) -> Diagnosis:
    """A diagnosis from the most likely hypothesis."""
    found = next((one for one in ranked(incident.hypotheses) if one.state != "refuted"), None)
    if found is None:
        return Diagnosis(incident.service, "unknown", summary="nothing was found that explains it")
    return Diagnosis(
        found.component or incident.service,
        found.category,
        summary=f"{found.claim} ({found.state}, confidence {found.confidence:.0%})",
        evidence=found.supports,
    )


def line(one: Hypothesis) -> str:
    about = f"{one.component}: " if one.component else ""
    return (
        f"{one.id} [{one.state}, {one.confidence:.0%}] {about}{one.claim} "
        f"({one.category}; {len(one.supports)} for, {len(one.contradicts)} against)"
    )
