"""What looking back on past work would change: notes and skills that wait for your word. Alone, it
lists them.

They are kept for you where `learning.notes` or `learning.skills` of the settings is `ask`."""

import argparse
import time
from typing import Any

from hermes_agent.cli.actions import add_action, run_action
from hermes_agent.cli.arguments import json_option, positive
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import ago, stamp, table
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.cli.work.skills.show import file_text, skill_path
from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.text.terminal import visible

Row = dict[str, Any]

STATES = ("open", "accepted", "rejected")


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list, state="open")
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    listing = add_action(actions, "list", _list, "those that are open")
    listing.add_argument("--state", choices=STATES, default="open", help="default: open")
    for name, act, summary in (
        ("show", _show, "one of them whole, with its evidence"),
        ("accept", _decide, "do what it says"),
        ("reject", _decide, "do not"),
    ):
        made = add_action(actions, name, act, summary)
        made.add_argument("id", type=positive, metavar="ID")
        made.set_defaults(decision=name)


def run(options: argparse.Namespace) -> int:
    return run_action(options)


def _list(api: RuntimeClient, options: argparse.Namespace) -> Any:
    rows = api.get("/v1/proposals", state=options.state)
    if not options.json:
        print(proposals_text(rows, time.time(), options.state))
    return rows


def proposals_text(rows: list[Row], now: float, state: str) -> str:
    if not rows:
        return f"no {state} proposals"
    cells = [
        (str(row["id"]), row["kind"], ago(row["time"], now), one_line(row["model"], 40) or "-",
         one_line(row["title"], 200))
        for row in rows
    ]  # fmt: skip
    text = table(("id", "kind", "proposed", "model", ""), cells)
    if state != "open":
        return text
    return f"{text}\nhint: `hermes proposals show|accept|reject ID`"


def _show(api: RuntimeClient, options: argparse.Namespace) -> Any:
    for state in STATES:
        for row in api.get("/v1/proposals", state=state):
            if row["id"] == options.id:
                if not options.json:
                    print(proposal_text(row, _improved(api, row)))
                return row
    raise NotFound(f"no proposal {options.id}", "`hermes proposals` lists the open ones")


def _improved(api: RuntimeClient, row: Row) -> Row | None:
    """The skill that an open proposal would improve, as it is now."""
    if row["kind"] != "skill" or row["state"] != "open" or not row["body"].get("base"):
        return None
    found: Row = api.get(skill_path(row["body"]["name"]))
    return found


def proposal_text(row: Row, skill: Row | None = None) -> str:
    """A proposal, as somebody needs to see it to decide. What would become of a skill is shown as
    what differs from it now."""
    by = f", by {one_line(row['by'])}" if row["by"] else ""
    lines = [
        f"{row['kind']} {row['id']}: {_plain(row['title']).replace(chr(10), ' ')}",
        f"proposed  {stamp(row['time'])} by {one_line(row['model']) or 'no model'}",
        f"state     {row['state']}{by}",
        "evidence",
        *body_lines(row["evidence"], 1),
        "would be applied",
        *(body_lines(row["body"], 1) if skill is None else _improvement_lines(row["body"], skill)),
    ]
    return "\n".join(lines)


def _improvement_lines(body: Row, skill: Row) -> list[str]:
    others = {name: value for name, value in body.items() if name != "files"}
    lines = body_lines(others, 1)
    if skill["record"]["digest"] != body["base"]:
        lines.append("    it was thought up for an earlier version, and is refused for this one")
    for path, text in body["files"].items():
        lines += [f"    {_plain(line)}" for line in _difference(skill, path, text)]
    return lines


def _difference(skill: Row, path: str, text: str) -> list[str]:
    """How a file would change, line by line; line ends of other kinds are seen within a line."""
    from difflib import unified_diff

    try:
        now = file_text(skill, path).split("\n") if path in skill["files"] else []
    except HermesError:  # it is no text now, and is replaced whole
        now = []
    name = one_line(path)
    names = (f"version {skill['record']['version']}/{name}", f"proposed/{name}")
    return list(unified_diff(now, text.split("\n"), *names, lineterm="")) or [f"{name}: as it is"]


def body_lines(value: Any, depth: int) -> list[str]:
    """Whatever is to be applied, whole: texts of several lines below their name."""
    pad = "    " * depth
    if isinstance(value, dict):
        lines = []
        for key, inner in value.items():
            name = one_line(str(key))
            if isinstance(inner, dict | list) or (isinstance(inner, str) and "\n" in inner):
                lines += [f"{pad}{name}:", *body_lines(inner, depth + 1)]
            else:
                lines.append(f"{pad}{name}: {_plain(inner)}")
        return lines
    if isinstance(value, list):
        return [line for inner in value for line in body_lines(inner, depth)]
    return [f"{pad}{line}" for line in _plain(value).splitlines() or [""]]


def _plain(value: Any) -> str:
    """With what cannot be seen written out: somebody consents to it."""
    return visible(value) if isinstance(value, str) else str(value)


def _decide(api: RuntimeClient, options: argparse.Namespace) -> Any:
    told = api.post(f"/v1/proposals/{options.id}", {"decision": options.decision})
    if not options.json:
        print(f"{told['id']} is {told['state']}: {one_line(told['title'], 200)}")
    return told
