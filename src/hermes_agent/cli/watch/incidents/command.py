"""Incidents: what looked wrong, what was done about it and what it was. Alone, it lists them."""

import argparse
import time
from typing import Any
from urllib.parse import quote

from hermes_agent.cli.actions import add_action, run_action
from hermes_agent.cli.arguments import json_option, positive
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import ago, span, stamp, table
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.core.errors import NotFound
from hermes_agent.core.text.terminal import clean

Row = dict[str, Any]

SEVERITIES = ("P0", "P1", "P2", "P3")


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list, open=False, limit=20, drills=False)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    listing = add_action(actions, "list", _list, "the newest first")
    listing.add_argument("--open", action="store_true", help="only those that are worked on")
    listing.add_argument("--drills", action="store_true", help="practice, too")
    listing.add_argument("--limit", type=positive, default=20, metavar="N")
    showing = add_action(actions, "show", _show, "one of them, with its timeline")
    showing.add_argument("--follow", action="store_true", help="until it is over")
    closing = add_action(actions, "close", _close, "end one by hand")
    closing.add_argument("--why", required=True, help="for whoever looks at it later")
    reporting = add_action(actions, "report", _report, "what it was and what was done")
    for action in (showing, closing, reporting):
        action.add_argument("id", metavar="ID")
    declaring = add_action(actions, "declare", _declare, "say that something is wrong")
    declaring.add_argument("title", metavar="TITLE", help="what is wrong, in a few words")
    declaring.add_argument("--service", default="", help="what it is about")
    declaring.add_argument("--severity", choices=SEVERITIES, default="P2")
    declaring.add_argument("--detail", default="", help="what was seen")
    declaring.add_argument("--terminal", default="", metavar="NAME", help="where to look")


def run(options: argparse.Namespace) -> int:
    return run_action(options)


def _path(id: str) -> str:
    if not id.strip() or "/" in id:
        raise NotFound(f"no incident {id!r}", "`hermes incidents` lists them")
    return f"/v1/incidents/{quote(id if id.startswith('inc-') else f'inc-{id}', safe='')}"


def _list(api: RuntimeClient, options: argparse.Namespace) -> list[Row]:
    query: Row = {"limit": 1_000 if not options.drills else options.limit}
    if options.open:
        query["open"] = "true"
    rows: list[Row] = api.get("/v1/incidents", **query)
    if not options.drills:
        rows = [row for row in rows if row["source"] != "drill"][: options.limit]
    if not options.json:
        print(incidents_text(rows, time.time()))
    return rows


def incidents_text(rows: list[Row], now: float) -> str:
    if not rows:
        return "no incidents"
    cells = [
        (row["id"], row["severity"], row["state"], one_line(row.get("service", ""), 30) or "-",
         ago(row["opened"], now), _took(row, now), one_line(row["title"], 200))
        for row in rows
    ]  # fmt: skip
    return table(("id", "severity", "state", "service", "declared", "took", ""), cells)


def _took(row: Row, now: float) -> str:
    ended = row.get("ended")
    return span(ended - row["opened"]) if ended else f"{span(now - row['opened'])} so far"


def _show(api: RuntimeClient, options: argparse.Namespace) -> Row:
    found: Row = api.get(_path(options.id))
    if options.json:
        return found
    print(incident_text(found, time.time()))
    if options.follow:
        found = _follow(api, found)
    return found


def _raised_by(row: Row) -> str:
    count = row.get("signals", 1)
    return f"{row['source']}, {count} signal{'' if count == 1 else 's'}"


def incident_text(found: Row, now: float) -> str:
    row = found["incident"]
    facts = [
        ("state", row["state"]),
        ("severity", row["severity"]),
        ("service", ", ".join([row.get("service") or "-", *row.get("related", ())])),
        ("owner", row.get("owner", "")),
        ("raised by", _raised_by(row)),
        ("declared", stamp(row["opened"])),
        ("took", _took(row, now)),
        ("session", row.get("session", "")),
        ("cause", _cause(row.get("diagnosis"))),
    ]
    lines = [f"{row['id']} {one_line(row['title'], 200)}"]
    lines += [f"{name:<10} {one_line(text, 200)}" for name, text in facts if text]
    for one in row.get("hypotheses", ()):
        sure = f"{one.get('confidence', 0.5):.0%}"
        lines.append(f"believed   {sure} {one.get('state', 'open')}: {one_line(one['claim'], 160)}")
    lines.append("")
    lines += [
        f"{time.strftime('%H:%M:%S', time.localtime(entry['time']))}  {entry['kind']:<11}"
        f"{one_line(entry['text'], 200)}"
        for entry in found["timeline"]
    ]
    unsent = [one for one in found["notices"] if one.get("sent") is None and one.get("error")]
    lines += [
        f"not told   {one['kind']} on {one['channel']}: {one_line(one['error'], 100)}"
        for one in unsent
    ]
    return "\n".join(lines)


def _cause(diagnosis: Row | None) -> str:
    if not diagnosis:
        return ""
    where = f" at {diagnosis['locus']}" if diagnosis.get("locus") else ""
    return f"{diagnosis['category']} in {diagnosis['component']}{where}"


def _follow(api: RuntimeClient, found: Row) -> Row:
    """The rest of its timeline, as it comes."""
    path = _path(found["incident"]["id"])
    after = max((entry["number"] for entry in found["timeline"]), default=0)
    while found["incident"]["state"] not in ("resolved", "escalated", "closed"):
        found = api.get(f"{path}/timeline", after=after, wait=20)
        for entry in found["timeline"]:
            after = entry["number"]
            moment = time.strftime("%H:%M:%S", time.localtime(entry["time"]))
            print(f"{moment}  {entry['kind']:<11}{one_line(entry['text'], 200)}", flush=True)
    return found


def _close(api: RuntimeClient, options: argparse.Namespace) -> Row:
    row: Row = api.post(f"{_path(options.id)}/close", {"why": options.why})
    if not options.json:
        print(f"{row['id']} is {row['state']}")
    return row


def _declare(api: RuntimeClient, options: argparse.Namespace) -> Row:
    row: Row = api.post(
        "/v1/incidents",
        {
            "title": options.title, "service": options.service, "severity": options.severity,
            "detail": options.detail, "terminal": options.terminal,
        },
    )  # fmt: skip
    if not options.json:
        print(f"{row['id']} {row['severity']} {one_line(row['title'], 200)}")
        print(f"hint: `hermes incidents show {row['id']} --follow` shows how it goes")
    return row


def _report(api: RuntimeClient, options: argparse.Namespace) -> Any:
    path = f"{_path(options.id)}/report"
    if options.json:
        return api.get(path)
    print(clean(api.get(path, form="markdown")["text"]), end="")
    return None
