"""What looking back on past work would change: notes and skills that wait for your word. Alone, it
lists them.

They are kept for you where `learning.notes` or `learning.skills` of the settings is `ask`."""

import argparse
import time
from typing import Any

from hermes_agent.cli.arguments import json_option, positive
from hermes_agent.cli.client import Api
from hermes_agent.cli.show import one_line, visible
from hermes_agent.cli.words import ago, print_json, stamp, table
from hermes_agent.core.errors import NotFound

Row = dict[str, Any]

STATES = ("open", "accepted", "rejected")


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list, state="open")
    actions = parser.add_subparsers(metavar="ACTION", title="actions")

    def action(name: str, act: Any, summary: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary)
        made.set_defaults(act=act)
        made.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document"
        )
        return made

    listing = action("list", _list, "those that are open")
    listing.add_argument("--state", choices=STATES, default="open", help="default: open")
    for name, act, summary in (
        ("show", _show, "one of them whole, with its evidence"),
        ("accept", _decide, "do what it says"),
        ("reject", _decide, "do not"),
    ):
        made = action(name, act, summary)
        made.add_argument("id", type=positive, metavar="ID")
        made.set_defaults(decision=name)


def run(options: argparse.Namespace) -> int:
    api = Api()
    api.ensure()
    told = options.act(api, options)
    if options.json:
        print_json(told)
    return 0


def _list(api: Api, options: argparse.Namespace) -> Any:
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


def _show(api: Api, options: argparse.Namespace) -> Any:
    for state in STATES:
        for row in api.get("/v1/proposals", state=state):
            if row["id"] == options.id:
                if not options.json:
                    print(proposal_text(row))
                return row
    raise NotFound(f"no proposal {options.id}", "`hermes proposals` lists the open ones")


def proposal_text(row: Row) -> str:
    """A proposal, as somebody needs to see it to decide."""
    by = f", by {one_line(row['by'])}" if row["by"] else ""
    lines = [
        f"{row['kind']} {row['id']}: {_plain(row['title']).replace(chr(10), ' ')}",
        f"proposed  {stamp(row['time'])} by {one_line(row['model']) or 'no model'}",
        f"state     {row['state']}{by}",
        "evidence",
        *body_lines(row["evidence"], 1),
        "would be applied",
        *body_lines(row["body"], 1),
    ]
    return "\n".join(lines)


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


def _decide(api: Api, options: argparse.Namespace) -> Any:
    told = api.post(f"/v1/proposals/{options.id}", {"decision": options.decision})
    if not options.json:
        print(f"{told['id']} is {told['state']}: {one_line(told['title'], 200)}")
    return told
