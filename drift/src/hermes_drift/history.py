"""The history of a finding: decisions, earlier audits, and the commit that declared it."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hermes_agent.core.errors import HermesError
from hermes_drift.patterns import DriftPattern
from hermes_drift.scopes.repository import Repository
from hermes_drift.values import Audit, DriftFinding


def day(at: float) -> str:
    when = datetime.fromtimestamp(at, UTC).astimezone()
    return f"{when.day} {when:%b %Y}"


def decided(pattern: DriftPattern | None) -> tuple[str, ...]:
    """What a person decided about such drift."""
    if pattern is None or not pattern.finding:
        return ()
    why = f": {pattern.why}" if pattern.why else ""
    return (f"{day(pattern.at)}, {pattern.says} by {pattern.by}{why} ({pattern.finding})",)


def seen(finding: DriftFinding, earlier: Sequence[Audit]) -> tuple[str, ...]:
    """`earlier`, newest first."""
    before = [(audit, one) for audit in earlier for one in audit.findings if one.key == finding.key]
    if not before:
        audited = any(one.scope == finding.scope for audit in earlier for one in audit.scopes)
        return (f"new since {earlier[0].id} of {day(earlier[0].at)}",) if audited else ()
    first, last = before[-1][0], before[0]
    lines = [f"in {len(before)} earlier audits, first in {first.id} of {day(first.at)}"]
    if len(before) == 1:
        lines = [f"also in {first.id} of {day(first.at)}"]
    if last[1].live != finding.live:
        lines.append(f"live was {last[1].live!r} in {last[0].id}")
    if last[0].id != earlier[0].id:
        lines.append(f"it was gone in {earlier[0].id} and is back")
    return tuple(lines)


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
