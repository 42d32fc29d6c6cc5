"""Renders a report as Markdown."""

from hermes_agent.core.incidents import CATEGORIES, TimelineEntry
from hermes_agent.core.text.format import span, utc_stamp
from hermes_agent.incidents.reports.report import IncidentReport, ReportedAction

ACTION_CHARS = 240
"""The most characters of a command; the JSON report and the transcript have all of it."""
TIMELINE = 200
"""Entries that are shown."""


def markdown(made: IncidentReport) -> str:
    parts = [
        f"# {made.incident}: {_plain(made.title)}",
        _head(made),
        _cause(made),
        _evidence(made),
        _actions(made),
        _needed(made),
        _prevent(made),
        _believed(made),
        _timeline(made),
        _work(made),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(made: IncidentReport) -> str:
    took = "still open" if made.seconds is None else span(made.seconds)
    lasted = [("time to recover", took)] if made.state != "closed" else []
    rows = [
        ("severity", made.severity),
        ("state", made.state),
        ("service", made.service or "-"),
        ("owner", made.owner or "-"),
        ("from", utc_stamp(made.opened)),
        ("until", utc_stamp(made.ended)),
        *lasted,
        ("affected", made.impact),
    ]
    return "\n".join(
        ["| | |", "|---|---|", *(f"| {name} | {_plain(text)} |" for name, text in rows)]
    )


def _cause(made: IncidentReport) -> str:
    if (found := made.diagnosis) is None:
        return "## Cause\n\nNo cause was recorded."
    meaning = CATEGORIES.get(found.category, "")
    lines = [
        "## Cause",
        "",
        _plain(found.summary),
        "",
        f"- component: {_plain(found.component)}",
        f"- category: {found.category} ({meaning})",
    ]
    lines += [f"- where: {_plain(found.locus)}"] if found.locus else []
    return "\n".join(lines)


def _evidence(made: IncidentReport) -> str:
    if not made.evidence:
        return ""
    lines = ["## Evidence", ""]
    for one in made.evidence:
        lines.append(f"- {_code(one.quote)}")
        came = f" of {_code(_short(one.command))}" if one.command else ""
        lines.append(f"  session {one.session}, event {one.event}{came}")
    return "\n".join(lines)


def _actions(made: IncidentReport) -> str:
    if not made.actions:
        return "## Actions\n\nNothing was changed."
    return "\n".join(["## Actions", "", *(_action(one) for one in made.actions)])


def _short(command: str) -> str:
    """The beginning and the end: a runbook's command ends with what it calls."""
    if len(command) <= ACTION_CHARS:
        return command
    return f"{command[: ACTION_CHARS // 3]} … {command[-(ACTION_CHARS * 2 // 3 - 3) :]}"


def _action(one: ReportedAction) -> str:
    marks = "" if one.ok else "failed: "
    outcome = f" ({marks}{_plain(one.outcome)})" if one.outcome or marks else ""
    undo = f"; undo: {_plain(one.undo)}" if one.undo else ""
    return (
        f"- {utc_stamp(one.time)} {_code(_short(one.what))}{outcome}{undo} "
        f"[session {one.session}, event {one.event}]"
    )


def _needed(made: IncidentReport) -> str:
    return f"## What remains to be done\n\n{_plain(made.needed)}" if made.needed else ""


def _prevent(made: IncidentReport) -> str:
    lines = [f"- {_plain(one)}" for one in made.prevent]
    lines += [f"- the skill `{made.learned}` was saved"] if made.learned else []
    return "\n".join(["## Prevention", "", *lines]) if lines else ""


def _believed(made: IncidentReport) -> str:
    if not made.hypotheses:
        return ""
    lines = [
        f"- {one.id} {_stands(one.state, made.state)} ({one.confidence:.0%}): {_plain(one.claim)} "
        f"({len(one.supports)} for, {len(one.contradicts)} against)"
        for one in made.hypotheses
    ]
    return "\n".join(["## Hypotheses", "", *lines])


def _stands(believed: str, state: str) -> str:
    return "not pursued" if believed == "open" and state in {"resolved", "closed"} else believed


def _timeline(made: IncidentReport) -> str:
    shown = [_entry(one) for one in made.timeline[:TIMELINE]]
    left = len(made.timeline) - len(shown)
    more = [f"- and {left} more"] if left else []
    return "\n".join(["## Timeline", "", *shown, *more])


def _entry(entry: TimelineEntry) -> str:
    return f"- {utc_stamp(entry.time)} **{entry.kind}** {_plain(entry.text)}"


def _work(made: IncidentReport) -> str:
    if not made.session:
        return ""
    cost = "price unknown" if made.dollars is None else f"${made.dollars:.4f}"
    children = f", children {', '.join(made.children)}" if made.children else ""
    work = f"{made.steps} replies, {made.calls} calls, {made.tokens:,} tokens, {cost}"
    lines = [
        "## Work",
        "",
        f"- session {made.session}{children}",
        f"- model {made.model or '-'}: {work}",
    ]
    lines += [f"- fixed by the skill `{made.skill}`"] if made.skill else []
    return "\n".join(lines)


def _plain(text: str) -> str:
    """On one line, with markup escaped."""
    line = _printable(text)
    for sign in "\\`*<|[":
        line = line.replace(sign, f"\\{sign}")
    return line


def _printable(text: str) -> str:
    """On one line, with control characters written out."""
    line = " ".join(text.split())
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in line)


def _code(text: str) -> str:
    line = _printable(text)
    return f"`{line}`" if "`" not in line else f"`` {line} ``"
