"""Notes and skills that reviews of past work or the agent propose, and that wait for your decision.
Without an action, it lists them.

Reviews propose instead of applying when the setting `learning.notes` or `learning.skills` is
`ask`. The agent and reviews also propose what may come from web pages, MCP servers or webhooks, and
addresses that you did not name: none of it reaches later sessions until you agree."""

import argparse
import time
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.arguments import positive
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import ago, one_line, stamp, table
from hermes_agent.cli.work.skills import file_text, skill_path
from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.text.terminal import visible

Row = dict[str, Any]

STATES = ("open", "accepted", "rejected")


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list, state="open")
    listing = add_action(actions, "list", _list, "open proposals")
    listing.add_argument("--state", choices=STATES, default="open", help="default: open")
    for name, act, summary in (
        ("show", _show, "one proposal in full, with its evidence"),
        ("accept", _decide, "apply it"),
        ("reject", _decide, "do not apply it"),
    ):
        made = add_action(actions, name, act, summary)
        made.add_argument("id", type=positive, metavar="ID")
        made.set_defaults(decision=name)


def _list(options: argparse.Namespace) -> int:
    rows = connect().get("/v1/proposals", state=options.state)
    return emit(options, rows, proposals_text(rows, time.time(), options.state))


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


def _show(options: argparse.Namespace) -> int:
    api = connect()
    for state in STATES:
        for row in api.get("/v1/proposals", state=state):
            if row["id"] == options.id:
                text = "" if options.json else proposal_text(row, _improved(api, row))
                return emit(options, row, text)
    raise NotFound(f"no proposal {options.id}", "`hermes proposals` lists the open ones")


def _improved(api: RuntimeClient, row: Row) -> Row | None:
    """The skill that an open proposal would improve, as it is now."""
    if row["kind"] != "skill" or row["state"] != "open" or not row["body"].get("base"):
        return None
    found: Row = api.get(skill_path(row["body"]["name"]))
    return found


def proposal_text(row: Row, skill: Row | None = None) -> str:
    """All that is needed to decide. A change to a skill is shown as a diff."""
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
        lines.append("    it was made for an earlier version and cannot be applied to this one")
    for path, text in body["files"].items():
        lines += [f"    {_plain(line)}" for line in _difference(skill, path, text)]
    return lines


def _difference(skill: Row, path: str, text: str) -> list[str]:
    """How a file would change, line by line; unusual line endings show within a line."""
    from difflib import unified_diff

    try:
        now = file_text(skill, path).split("\n") if path in skill["files"] else []
    except HermesError:  # it is not text now, and is replaced as a whole
        now = []
    name = one_line(path)
    names = (f"version {skill['record']['version']}/{name}", f"proposed/{name}")
    return list(unified_diff(now, text.split("\n"), *names, lineterm="")) or [f"{name}: unchanged"]


def body_lines(value: Any, depth: int) -> list[str]:
    """What would be applied, in full: texts of several lines below their name."""
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
    """With invisible characters written out: somebody approves it."""
    return visible(value) if isinstance(value, str) else str(value)


def _decide(options: argparse.Namespace) -> int:
    row = connect().post(f"/v1/proposals/{options.id}", {"decision": options.decision})
    return emit(options, row, f"{row['id']} is {row['state']}: {one_line(row['title'], 200)}")
