"""Rewinds, branches, comparisons, contexts and changed files, as the command line and the chat
show them."""

from collections.abc import Sequence
from typing import Any

from hermes_agent.cli.output.events import token_counts
from hermes_agent.cli.output.formatting import count, dollars, one_line, span, table

Row = dict[str, Any]
SHOWN_EFFECTS = 10


def effects_text(effects: Sequence[Row]) -> str:
    """`2 effects: wrote app.py, ran make (failed)`."""
    texts = [f"{one_line(one['text'])}{'' if one['ok'] else ' (failed)'}" for one in effects]
    shown = list(dict.fromkeys(texts))
    more = [f"and {len(shown) - SHOWN_EFFECTS} more"] if len(shown) > SHOWN_EFFECTS else []
    listed = ", ".join([*shown[:SHOWN_EFFECTS], *more])
    return f"{count(len(effects), 'effect')}{': ' if listed else ''}{listed}"


def stays_text(effects: Sequence[Row]) -> str:
    """`not undone: 1 effect: wrote app.py`; empty when nothing was done."""
    return f"not undone: {effects_text(effects)}" if effects else ""


def rewind_text(report: Row) -> str:
    said = one_line(report["text"], 60)
    lines = [f"rewound to before #{report['message']}: {said}", stays_text(report["effects"])]
    return "\n".join(line for line in lines if line)


def branch_text(branch: Row) -> str:
    name = f" ({one_line(branch['name'])})" if branch["name"] else ""
    return f"session {branch['id']}{name} is a branch of {branch['branch_of']}"


def comparison_text(found: Row) -> str:
    left, right = found["sides"]
    if found["shared"]:
        shared = (
            f"identical up to event #{found['parted'] - 1}: {count(found['shared'], 'message')}"
        )
        shared += f", the last: {one_line(found['last'], 60)}"
    else:
        shared = "nothing in common"
    rows = [
        (name, *(show(side) for side in (left, right)))
        for name, show in (
            ("session", lambda side: side["session"]),
            ("title", lambda side: one_line(side["title"], 40)),
            ("model", lambda side: one_line(side["model"], 40)),
            ("messages", lambda side: str(side["messages"])),
            ("tool calls", lambda side: str(side["calls"])),
            ("effects", lambda side: str(len(side["effects"]))),
            ("tokens", lambda side: f"{sum(side['usage'][key] for key in ('input', 'output')):,}"),
            ("cost", lambda side: dollars(side["cost"])),
            ("time", lambda side: span(side["seconds"])),
        )
    ]
    lines = [shared, "", table(("since then", "first", "second"), rows)]
    for side in (left, right):
        lines += ["", f"{side['session']}  {effects_text(side['effects'])}"]
        lines += [f"  {one_line(side['answer'], 200)}"] if side["answer"] else []
    return "\n".join(lines)


def context_text(found: Row) -> str:
    used, full = found["used"], max(found["used"], found["compacts_at"])
    unknown = used - sum(part["tokens"] for part in found["parts"])
    rest = (
        ("difference", unknown, "the model's count less these estimates"),
        ("free", full - used, "until the conversation is summarised"),
        ("reserved", found["window"] - full, "for the reply and the summary"),
    )
    head = f"{found['used']:,} of {found['window']:,} tokens in use by {found['model']}"
    rows = [
        (part["name"], f"{part['tokens']:,}", one_line(part["origin"], 50))
        for part in found["parts"]
    ]
    rows += [(name, f"{tokens:,}", origin) for name, tokens, origin in rest if tokens]
    return f"{head}\n{table(('part', 'tokens', 'from'), rows)}"


def changes_text(session: Row, journal: Sequence[Row], file: str = "") -> str:
    """The diffs that the session's own edits have recorded, for one file or all."""
    diffs, commands = [], 0
    for one in journal:
        event = one["event"]
        if one["number"] <= session["branch_at"] or event["kind"] != "call_finished":
            continue
        data = event["data"]
        commands += event["tool"] == "terminal"
        if event["ok"] and data.get("diff") and str(data.get("path", "")).endswith(file):
            path = str(data["path"]).removeprefix(f"{session['workspace']}/")
            names = f"--- {path}{' (new)' if data.get('created') else ''}\n+++ {path}"
            diffs.append("\n".join([names, *str(data["diff"]).split("\n")[2:]]))
    note = (
        f"commands may have changed other files: {count(commands, 'command')} ran"
        if commands
        else ""
    )
    return "\n".join([*(diffs or ["no recorded changes"]), *([note] if note else [])])


def costs_text(session: Row, models: Row, uses: Row) -> str:
    """What a session has cost, by model and by use, and what all sessions cost today."""
    lines = [f"{dollars(session['cost'])}, {token_counts(session['usage'])}"]
    rows = [
        (
            f"{by}: {row['name'] or 'none'}",
            f"{row['calls']:,}",
            dollars(None if row["unpriced"] == row["calls"] else row["cost"]),
            token_counts(row["usage"]),
        )
        for by, found in (("model", models), ("use", uses))
        for row in found["costs"]
    ]
    lines += [table(("spent", "calls", "cost", "tokens"), rows)] if rows else []
    limit = models["day_dollars"]
    of = "" if limit is None else f" of {dollars(limit)}"
    return "\n".join([*lines, f"today, all sessions (UTC): {dollars(models['today'])}{of}"])
