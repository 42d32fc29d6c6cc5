"""An audit as Markdown, saved beside it."""

from datetime import UTC, datetime
from itertools import groupby

from hermes_drift.values import CALLED, DO, WEIGHTS, Audit, DriftFinding, ScopeResult, Who, mark

KINDS = {"person": "a person", "controller": "a controller", "package": "a package", "unknown": ""}


def markdown(audit: Audit) -> str:
    when = datetime.fromtimestamp(audit.at, UTC).astimezone()
    state = f"{_plain(audit.repository)} at {audit.commit[:10]} ({_plain(audit.subject)})"
    lines = [
        f"# Drift audit {audit.id}",
        "",
        f"{state}, {when:%Y-%m-%d %H:%M}",
        "",
        "| scope | checked | findings | harmless | notable | dangerous |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for result in audit.scopes:
        counts = [sum(one.weight == weight for one in result.findings) for weight in WEIGHTS]
        cells = [result.scope, result.checked, len(result.findings), *counts]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for result in audit.scopes:
        lines += _scope(result)
    return "\n".join(lines) + "\n"


def _scope(result: ScopeResult) -> list[str]:
    lines = ["", f"## {result.scope}"]
    if not result.findings and not result.troubles:
        lines += ["", f"{result.checked} checked; all as declared."]
    lines += [f"\n**Not checked:** {_plain(one)}" for one in result.troubles]
    lines += [f"\n{_plain(one)}" for one in result.notes]
    for place, group in groupby(result.findings, key=lambda one: one.place):
        findings = list(group)
        lines += ["", f"### {_plain(place)}: {mark([one.weight for one in findings])}"]
        for one in findings:
            lines += _finding(one)
    return lines


def _finding(one: DriftFinding) -> list[str]:
    where = f" on {one.terminal}" if one.terminal not in ("", "local") else ""
    lines = [
        "",
        f"#### {one.id} {_plain(one.object)}: {_plain(one.field)}{where}",
        "",
        f"- classification: **{CALLED[one.weight]}**: {_plain(one.why)}"
        + (f" (pattern `{one.pattern}`)" if one.pattern else ""),
        f"- declared: {_plain(one.declared)}" + (f" ({one.source})" if one.source else ""),
        f"- live: {_plain(one.live)}",
        f"- changed by: {_who(one.who)}",
        f"- skill: {one.skill or 'none'}",
        f"- recommendation: **{DO[one.advice.do]}**: {_plain(one.advice.why)}",
    ]
    lines += [f"- history: {_plain(line)}" for line in one.history]
    if one.advice.revert:
        lines += ["", "Revert:", "", *_fenced(one.advice.revert)]
    if one.advice.adopt and one.weight != "dangerous":
        lines += ["", "Adopt:", "", *_fenced(one.advice.adopt)]
    if one.diff:
        lines += ["", "Declared to live:", "", *_fenced(one.diff.rstrip("\n"), "diff")]
    return lines


def _who(who: Who) -> str:
    """`ann (person, likely), 2025-11-03 14:02: sudo vim …`."""
    parts = [_plain(who.name) or KINDS[who.kind] or "unknown"]
    if who.kind != "unknown":
        parts[0] += f" ({who.kind}, {who.sure})"
    elif who.name:
        parts[0] += " (a person or a controller)"
    if who.at is not None:
        parts.append(f"{datetime.fromtimestamp(who.at, UTC).astimezone():%Y-%m-%d %H:%M}")
    text = ", ".join(parts)
    return f"{text}: {_plain(who.evidence)}" if who.evidence else text


def _fenced(text: str, language: str = "") -> list[str]:
    """A fence that no line of the text can close."""
    longest = max((len(line) - len(line.lstrip("`")) for line in text.splitlines()), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", text, fence]


def _plain(text: str) -> str:
    """One line, without markup or control characters."""
    clean = "".join(sign if sign.isprintable() else " " for sign in " ".join(text.split()))
    return clean.replace("|", "\\|").replace("<", "&lt;")
