"""Rewinds, branches, comparisons, contexts and changed files, as the command line and the chat
show them."""

from collections.abc import Sequence
from typing import Any

from hermes_agent.cli.output.events import call_arguments, call_line, token_counts
from hermes_agent.cli.output.formatting import count, dollars, one_line, table
from hermes_agent.core.text.format import span

Row = dict[str, Any]
SHOWN_EFFECTS = 10
NAMED_COMMANDS = 3


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


_SIDE = (
    "session", "title", "model", "messages", "tool calls", "effects", "tokens", "cost", "time",
)  # fmt: skip


def _side(side: Row) -> tuple[str, ...]:
    return (
        side["session"], one_line(side["title"], 40), one_line(side["model"], 40),
        str(side["messages"]), str(side["calls"]), str(len(side["effects"])),
        f"{side['usage']['input'] + side['usage']['output']:,}",
        dollars(side["cost"]), span(side["seconds"]),
    )  # fmt: skip


def comparison_text(found: Row) -> str:
    left, right = found["sides"]
    if found["shared"]:
        messages = count(found["shared"], "message")
        shared = f"identical up to event #{found['parted'] - 1}: {messages}, the last: "
        shared += one_line(found["last"], 60)
    else:
        shared = "nothing in common"
    rows = list(zip(_SIDE, _side(left), _side(right), strict=True))
    lines = [shared, "", table(("since then", "first", "second"), rows)]
    for side in (left, right):
        lines += ["", f"{side['session']}  {effects_text(side['effects'])}"]
        lines += [f"  {one_line(side['answer'], 200)}"] if side["answer"] else []
    return "\n".join(lines)


def context_text(found: Row) -> str:
    used, window = found["used"], found["window"]
    free = max(0, found["compacts_at"] - used)
    uncounted = used - sum(part["tokens"] for part in found["parts"])
    head = f"{used:,} of {window:,} tokens in use by {found['model']}"
    parts = [
        (part["name"], part["tokens"], one_line(part["origin"], 50)) for part in found["parts"]
    ]
    if uncounted:
        parts.append(("difference", uncounted, "parts are estimates, the sum was counted"))
    parts.append(("free", free, "until the conversation is summarised"))
    parts.append(("reserved", window - used - free, "for the summary and the reply"))
    rows = [(name, f"{tokens:,}", origin) for name, tokens, origin in parts]
    return f"{head}\n{table(('part', 'tokens', 'from'), rows)}"


def changes_text(session: Row, journal: Sequence[Row], file: str = "") -> str:
    """The diffs that the session's own edits have recorded, for one file or all."""
    diffs, ran = [], commands_text(journal, session["branch_at"])
    for one in journal:
        event = one["event"]
        if one["number"] <= session["branch_at"] or event["kind"] != "call_finished":
            continue
        data = event["data"]
        if event["ok"] and data.get("diff") and str(data.get("path", "")).endswith(file):
            path = str(data["path"]).removeprefix(f"{session['workspace']}/")
            names = f"--- {path}{' (new)' if data.get('created') else ''}\n+++ {path}"
            diffs.append("\n".join([names, *str(data["diff"]).split("\n")[2:]]))
    return "\n".join([*(diffs or ["no recorded changes"]), *([ran] if ran else [])])


def commands_text(journal: Sequence[Row], after: int) -> str:
    """The commands that ran since an event and did more than look, if any."""
    from hermes_agent.incidents.response.side_effects import did

    calls: dict[str, Row] = {}
    ran: dict[str, str] = {}
    for one in journal:
        event = one["event"]
        if event["kind"] == "replied":
            calls.update((call["id"], call) for call in event["calls"])
        elif event["kind"] == "call_made":
            calls[event["call"]["id"]] = event["call"]
        elif event["kind"] == "call_intended" and event["tool"] == "terminal":
            call = calls.get(event["call_id"], {"name": "terminal", "arguments": ""})
            given = call_arguments(call)
            inner = given.get("arguments")
            given = inner if isinstance(inner, dict) else given
            if one["number"] > after and did("terminal", given) != "looked":
                ran[event["effect"]] = call_line(call)
    if not ran:
        return ""
    named = f": {', '.join(ran.values())}" if len(ran) <= NAMED_COMMANDS else ""
    return f"commands may have changed other files: {count(len(ran), 'command')} ran{named}"


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
