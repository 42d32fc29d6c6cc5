"""The history of a finding: decisions, earlier audits, and the commit that declared it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import Incident
from hermes_drift.patterns import DriftPattern
from hermes_drift.scopes.repository import Repository
from hermes_drift.values import Audit, DriftFinding

DAYS = 14
"""The window in which repeated edits by hand are counted."""
APART = 1.0
"""Seconds between two edits; what is closer is one."""
ALIKE = 2
"""How many decisions about similar drift are cited."""


Sighting = tuple[Audit, DriftFinding]
"""A finding of an object, and the audit that has it."""


def by_object(audits: Sequence[Audit]) -> Mapping[tuple[str, ...], Sequence[Sighting]]:
    """By terminal, scope and object, in the order of the audits."""
    found: dict[tuple[str, ...], list[Sighting]] = defaultdict(list)
    for audit in audits:
        for one in audit.findings:
            found[one.key[:3]].append((audit, one))
    return found


def day(at: float) -> str:
    when = datetime.fromtimestamp(at, UTC).astimezone()
    return f"{when.day} {when:%b %Y}"


def decided(
    finding: DriftFinding, pattern: DriftPattern | None, known: Sequence[DriftPattern],
    before: Sequence[Sighting],
) -> Iterator[str]:  # fmt: skip
    """What people decided about such drift: what counts here, what they said about this object at
    another time, and what they said about similar ones."""
    if pattern is not None and pattern.finding:
        yield _decision(pattern)
    ids = {one.id for _, one in before}
    others = sorted((one for one in known if one is not pattern), key=lambda one: -one.at)
    own = [one for one in others if one.finding in ids]
    if pattern is None or not pattern.finding:
        yield from (f"last time: {_decision(one)}" for one in own[:1])
    alike = [one for one in others if one not in own and one.resembles(finding)]
    yield from (f"similar drift: {_decision(one)}" for one in alike[:ALIKE])


def _decision(pattern: DriftPattern) -> str:
    why = f": {pattern.why}" if pattern.why else ""
    return f"{day(pattern.at)}, {pattern.says} by {pattern.by}{why} ({pattern.finding})"


def seen(
    finding: DriftFinding, earlier: Sequence[Audit], before: Sequence[Sighting]
) -> tuple[str, ...]:
    """`earlier` and the same drift `before`, newest first."""
    audited = [
        audit for audit in earlier for one in audit.scopes
        if one.scope == finding.scope and not one.troubles
    ]  # fmt: skip
    if not before:
        first = audited[0] if audited else None
        return (f"new since {first.id} of {day(first.at)}",) if first else ()
    first, last = before[-1][0], before[0]
    lines = [f"in {len(before)} earlier audits, first in {first.id} of {day(first.at)}"]
    if len(before) == 1:
        lines = [f"also in {first.id} of {day(first.at)}"]
    if last[1].live != finding.live:
        lines.append(f"live was {last[1].live!r} in {last[0].id}")
    after = [audit for audit in audited if audit.at > last[0].at]
    if after:
        same = last[1].declared == finding.declared
        how = "reverted" if same else "with another declaration"
        lines.append(f"it was gone in {after[-1].id} ({how}) and is back")
    return tuple(lines)


def resolved(incident: Incident | None) -> Iterator[str]:
    """The incident in which drift of the object was resolved last, and the skill that did it."""
    if incident is not None:
        by = f" with the skill {incident.skill}" if incident.skill else ""
        yield f"resolved last time in {incident.id} of {day(incident.ended or 0.0)}{by}"


def edits(finding: DriftFinding, there: Sequence[Sighting], now: float) -> Sequence[str]:
    """The edits of the object by hand in the last days, oldest first, as far as audits saw them.
    Guesses do not count; one edit may change several fields and be seen in several audits."""
    if not _by_hand(finding):
        return ()
    moments = sorted(
        (one.who.at, audit.at, one.who.name, audit.id)
        for audit, one in there
        if _by_hand(one) and one.who.at is not None
    )
    found: list[str] = []
    before = 0.0
    for at, _, name, id in moments:
        if at >= now - DAYS * 86_400 and at - before > APART:
            found.append(f"{day(at)} by {name or 'a person'} ({id})")
        before = at
    return found


def _by_hand(one: DriftFinding) -> bool:
    return one.who.kind == "person" and one.who.sure in ("certain", "likely")


def ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0)
    return f"{number}{ending or 'th'}"


def repeated(edits: Sequence[str]) -> Iterator[str]:
    if len(edits) > 1:
        yield (
            f"{ordinal(len(edits))} manual edit of this object in {DAYS} days; "
            f"before: {', '.join(edits[:-1])}"
        )


async def declared(finding: DriftFinding, repository: Repository) -> tuple[str, ...]:
    """The last commit of the file that declares it."""
    if not finding.source or not repository.has(finding.source):
        return ()
    try:
        versions = await repository.versions(finding.source)
    except HermesError:
        return ()
    if not versions:
        return ()
    last = versions[0]
    return (f"declared in {last.commit[:10]} by {last.author} on {day(last.at)}: {last.subject}",)
