"""Incidents: what went wrong, what was done about it and what the cause was. Without an action, it
lists them."""

import argparse
import time
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.arguments import positive
from hermes_agent.cli.client.api import RuntimeClient, resource_path
from hermes_agent.cli.output.formatting import ago, count, one_line, stamp, table
from hermes_agent.core.text.format import span
from hermes_agent.core.text.terminal import clean

Row = dict[str, Any]

SEVERITIES = ("P0", "P1", "P2", "P3")


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list, open=False, limit=20, drills=False)
    listing = add_action(actions, "list", _list, "newest first")
    listing.add_argument("--open", action="store_true", help="only open ones")
    listing.add_argument("--drills", action="store_true", help="include drills")
    listing.add_argument("--limit", type=positive, default=20, metavar="N")
    showing = add_action(actions, "show", _show, "one incident, with its timeline", "id")
    showing.add_argument("--follow", action="store_true", help="follow it until it is over")
    closing = add_action(actions, "close", _close, "close an incident by hand", "id")
    closing.add_argument("--why", required=True, help="the reason, for the record")
    add_action(actions, "report", _report, "the report on an incident", "id")
    declaring = add_action(actions, "declare", _declare, "report that something is wrong")
    declaring.add_argument("title", metavar="TITLE", help="what is wrong, in a few words")
    declaring.add_argument("--service", default="", help="the affected service")
    declaring.add_argument("--severity", choices=SEVERITIES, default="P2")
    declaring.add_argument("--detail", default="", help="what was seen")
    declaring.add_argument("--terminal", default="", metavar="NAME", help="where to investigate")


def _path(id: str) -> str:
    full = id if id.startswith("inc-") else f"inc-{id.strip()}"
    return resource_path("incidents", full, "incident", "incidents")


def _list(options: argparse.Namespace) -> int:
    query: Row = {"limit": 1_000 if not options.drills else options.limit}
    if options.open:
        query["open"] = "true"
    rows: list[Row] = connect().get("/v1/incidents", **query)
    if not options.drills:
        rows = [row for row in rows if row["source"] != "drill"][: options.limit]
    return emit(options, rows, incidents_text(rows, time.time()))


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


def _show(options: argparse.Namespace) -> int:
    api = connect()
    found: Row = api.get(_path(options.id))
    emit(options, found, incident_text(found, time.time()))
    if options.follow and not options.json:
        _follow(api, found)
    return 0


def incident_text(found: Row, now: float) -> str:
    row = found["incident"]
    facts = [
        ("state", row["state"]),
        ("severity", row["severity"]),
        ("service", ", ".join([row.get("service") or "-", *row.get("related", ())])),
        ("owner", row.get("owner", "")),
        ("raised by", f"{row['source']}, {count(row.get('signals', 1), 'signal')}"),
        ("declared", stamp(row["opened"])),
        ("took", _took(row, now)),
        ("session", row.get("session", "")),
        ("cause", _cause(row.get("diagnosis"))),
    ]
    lines = [f"{row['id']} {one_line(row['title'], 200)}"]
    lines += [f"{name:<10} {one_line(text, 200)}" for name, text in facts if text]
    for one in row.get("hypotheses", ()):
        sure = f"{one.get('confidence', 0.5):.0%}"
        lines.append(f"hypothesis {sure} {one.get('state', 'open')}: {one_line(one['claim'], 160)}")
    lines.append("")
    lines += map(_entry_line, found["timeline"])
    unsent = [one for one in found["notices"] if one.get("sent") is None and one.get("error")]
    lines += [
        f"not sent   {one['kind']} on {one['channel']}: {one_line(one['error'], 100)}"
        for one in unsent
    ]
    return "\n".join(lines)


def _cause(diagnosis: Row | None) -> str:
    if not diagnosis:
        return ""
    where = f" at {diagnosis['locus']}" if diagnosis.get("locus") else ""
    return f"{diagnosis['category']} in {diagnosis['component']}{where}"


def _entry_line(entry: Row) -> str:
    moment = time.strftime("%H:%M:%S", time.localtime(entry["time"]))
    return f"{moment}  {entry['kind']:<11}{one_line(entry['text'], 200)}"


def _follow(api: RuntimeClient, found: Row) -> None:
    """Print the rest of its timeline as it grows."""
    from hermes_agent.cli.watch.questions import FollowedQuestions

    path = _path(found["incident"]["id"])
    questions = FollowedQuestions(api, lambda: {found["incident"].get("session")})
    after = max((entry["number"] for entry in found["timeline"]), default=0)
    while found["incident"]["state"] not in ("resolved", "escalated", "closed"):
        questions.poll(lambda: None)
        found = api.get(f"{path}/timeline", after=after, wait=1)
        if found["timeline"]:
            questions.interrupt()
        for entry in found["timeline"]:
            after = entry["number"]
            print(_entry_line(entry), flush=True)
        if found["timeline"]:
            questions.resume()


def _close(options: argparse.Namespace) -> int:
    row: Row = connect().post(f"{_path(options.id)}/close", {"why": options.why})
    return emit(options, row, f"{row['id']} is {row['state']}")


def _declare(options: argparse.Namespace) -> int:
    keys = ("title", "service", "severity", "detail", "terminal")
    row: Row = connect().post("/v1/incidents", {key: getattr(options, key) for key in keys})
    text = f"{row['id']} {row['severity']} {one_line(row['title'], 200)}"
    hint = f"`hermes incidents show {row['id']} --follow` shows its progress"
    return emit(options, row, f"{text}\nhint: {hint}")


def _report(options: argparse.Namespace) -> int:
    api, path = connect(), f"{_path(options.id)}/report"
    if options.json:
        return emit(options, api.get(path))
    return emit(options, None, clean(api.get(path, form="markdown")["text"]).removesuffix("\n"))
