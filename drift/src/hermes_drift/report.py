"""An audit as people read it: Markdown, which is kept beside it."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hermes_drift.values import WEIGHTS, Audit, DriftFinding, ScopeResult, Who

CALLED = {"harmless": "harmless", "look": "needs a look", "dangerous": "dangerous"}
DO = {
    "revert": "revert to declared",
    "adopt": "adopt into Git",
    "leave": "leave it",
    "decide": "decide",
}
KINDS = {"person": "a person", "controller": "a controller", "package": "a package", "unknown": ""}


def markdown(audit: Audit) -> str:
    when = datetime.fromtimestamp(audit.at, UTC).astimezone()
    state = f"{_plain(audit.repository)} at {audit.commit[:10]} ({_plain(audit.subject)})"
    lines = [
        f"# Drift audit {audit.id}",
        "",
        f"{state}, {when:%Y-%m-%d %H:%M}",
        "",
        "| scope | looked at | findings | harmless | needs a look | dangerous |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for looked in audit.scopes:
        counts = [sum(one.weight == weight for one in looked.findings) for weight in WEIGHTS]
        cells = [looked.scope, looked.checked, len(looked.findings), *counts]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for looked in audit.scopes:
        lines += _scope(looked)
    return "\n".join(lines) + "\n"


def _scope(looked: ScopeResult) -> list[str]:
    lines = ["", f"## {looked.scope}"]
    if not looked.findings and not looked.troubles:
        lines += ["", f"{looked.checked} looked at; all as declared."]
    lines += [f"\n**Not looked at:** {_plain(one)}" for one in looked.troubles]
    lines += [f"\n{_plain(one)}" for one in looked.notes]
    for one in looked.findings:
        lines += _finding(one)
    return lines


def _finding(one: DriftFinding) -> list[str]:
    where = f" on {one.terminal}" if one.terminal not in ("", "local") else ""
    lines = [
        "",
        f"### {one.id} {_plain(one.object)}: {_plain(one.field)}{where}",
        "",
        f"- classification: **{CALLED[one.weight]}**: {_plain(one.why)}"
        + (f" (pattern `{one.pattern}`)" if one.pattern else ""),
        f"- declared: {_plain(one.declared)}" + (f" ({one.source})" if one.source else ""),
        f"- live: {_plain(one.live)}",
        f"- changed by: {who_said(one.who)}",
        f"- skill: {one.skill or 'none fits'}",
        f"- recommendation: **{DO[one.advice.do]}**: {_plain(one.advice.why)}",
    ]
    lines += [f"- history: {_plain(line)}" for line in one.history]
    for title, text in ways(one):
        lines += ["", f"{title}:", "", *_fenced(text)]
    if one.diff:
        lines += ["", "Declared to live:", "", *_fenced(one.diff.rstrip("\n"), "diff")]
    return lines


def ways(one: DriftFinding) -> Sequence[tuple[str, str]]:
    """The commands that make the two sides agree."""
    found = []
    if one.advice.revert:
        found.append(("Revert", one.advice.revert))
    if one.advice.adopt and one.weight != "dangerous":
        found.append(("Adopt", one.advice.adopt))
    return found


def who_said(who: Who) -> str:
    """`ann (person, likely), 2025-11-03 14:02: sudo vim …`."""
    parts = [_plain(who.name) or KINDS[who.kind] or "nobody knows"]
    if who.kind != "unknown":
        parts[0] += f" ({who.kind}, {who.sure})"
    elif who.name:
        parts[0] += " (person or controller is not known)"
    if who.at is not None:
        parts.append(f"{datetime.fromtimestamp(who.at, UTC).astimezone():%Y-%m-%d %H:%M}")
    text = ", ".join(parts)
    return f"{text}: {_plain(who.evidence)}" if who.evidence else text


def _fenced(text: str, language: str = "") -> list[str]:
    """A fence that nothing in the text can end."""
    longest = max((len(line) - len(line.lstrip("`")) for line in text.splitlines()), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", text, fence]


def _plain(text: str) -> str:
    """In one line, without what a renderer or a terminal would obey."""
    clean = "".join(sign if sign.isprintable() else " " for sign in " ".join(text.split()))
    return clean.replace("|", "\\|").replace("<", "&lt;")
