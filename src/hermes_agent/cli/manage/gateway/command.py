"""Channels: how people reach the agent, who may, and what could not be sent.

hermes gateway setup telegram      set a channel up, and try it
hermes gateway pair telegram       a code that lets somebody in; --role owner for yourself
hermes gateway status              which channels are proven to hear, and since when"""

import argparse
from typing import Any
from urllib.parse import quote

from hermes_agent.cli.actions import add_action
from hermes_agent.cli.actions import runtime as started
from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.manage.gateway.test import tested
from hermes_agent.cli.output.formatting import print_json, stamp, sure, table
from hermes_agent.cli.output.turn_printer import one_line

Row = dict[str, Any]

LEFT = {"waiting": "waiting", "dead": "given up", "set_aside": "not dealt with"}


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_status)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    _setup_arguments(add_action(actions, "setup", _setup, "set a channel up, or list them"))
    add_action(actions, "status", _status, "how each channel is")
    _channel(add_action(actions, "test", _test, "prove that a channel hears"))
    pair = add_action(actions, "pair", _pair, "a code that lets somebody in")
    _channel(pair)
    pair.add_argument("--role", choices=("owner", "member"), default="member")
    pair.add_argument("--policy", default="", metavar="PROFILE", help="of their sessions")
    pair.add_argument("--name", default="", help="what rules may call them")
    add_action(actions, "people", _people, "who may talk")
    block = add_action(actions, "block", _block, "let somebody get nothing any more")
    block.add_argument("who", metavar="WHO", help="a name, or the beginning of a hash")
    block.add_argument("--channel", default="", help="then WHO is the platform's id of a stranger")
    remove = add_action(actions, "remove", _remove, "forget somebody; allow-lists still count")
    remove.add_argument("who", metavar="WHO")
    remove.add_argument("--yes", action="store_true", help="do not ask")
    dead = add_action(actions, "dead", _dead, "what was given up, or has no channel any more")
    dead.add_argument("--drop", default="", metavar="ID|all", help="forget one of it, or all")
    dead.add_argument("--yes", action="store_true", help="do not ask")
    again = add_action(actions, "again", _again, "try something that was given up once more")
    again.add_argument("id", metavar="ID")


def _channel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("channel", metavar="CHANNEL")


def _setup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("channel", metavar="CHANNEL", nargs="?", default="")
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", dest="given",
        help="a field's value, instead of being asked; of a secret, its name",
    )  # fmt: skip
    parser.add_argument("--home", default="", metavar="CHAT", help="for what is said to nobody")
    parser.add_argument("--no-test", action="store_true", help="do not try it")


def run(options: argparse.Namespace) -> int:
    code: int = options.act(options)
    return code


def _setup(options: argparse.Namespace) -> int:
    from hermes_agent.cli.manage.gateway.setup import channels, setup

    return setup(options) if options.channel else channels(options)


def _status(options: argparse.Namespace) -> int:
    told = started().get("/v1/gateway")
    if options.json:
        print_json(told)
        return 0
    for line in status_lines(told):
        print(line)
    return 0


def status_lines(told: Row) -> list[str]:
    channels: dict[str, Row] = told.get("channels", {})
    lines = [f"{name}: {_said(row)}" for name, row in channels.items()]
    for name, row in told.get("left", {}).items():
        lines.append(f"{name}: {left(row)}; {left_hint(name)}")
    for name, count in told.get("strangers", {}).items():
        people = "1 stranger" if count == 1 else f"{count} strangers"
        lines.append(f"{people} wrote on {name}; nothing was answered")
    return lines or ["no channel is set up; `hermes gateway setup` lists them"]


def _said(row: Row) -> str:
    """`last proven 40 s ago, last heard 3 min ago, 0 waiting`."""
    if "says" not in row:
        return one_line(f"not there: {row['error']}; {row['hint']}", 300)
    parts = [] if row["state"] == "up" else [row["state"]]
    parts += [row["says"], f"{row['waiting']} waiting"]
    parts += [f"{row['dead']} given up: `hermes gateway dead`"] if row["dead"] else []
    parts += [f"{row['set_aside']} not dealt with: `hermes gateway dead`"] * bool(row["set_aside"])
    if row["error"] and row["error"] not in row["says"]:
        parts.append(row["error"])
    for name in row["unknown"]:
        parts.append(f"there is no setting {name!r} for it")
    if row["asks"] == []:
        parts.append("nobody can be asked for consent: no home chat, no owner")
    return one_line(", ".join(parts), 400)


def left(row: Row) -> str:
    """What a channel that is not set up any more has left."""
    parts = [f"{row[key]} {said}" for key, said in LEFT.items() if row[key]]
    return f"not set up, with {', '.join(parts)}"


def left_hint(name: str) -> str:
    return f"`hermes gateway setup {name}` sends it, `hermes gateway dead --drop all` forgets it"


def _test(options: argparse.Namespace) -> int:
    return tested(options.channel, json=options.json)


def _pair(options: argparse.Namespace) -> int:
    body: dict[str, object] = {
        "channel": options.channel, "role": options.role, "policy": options.policy,
        "name": options.name,
    }  # fmt: skip
    told = started().post("/v1/gateway/pair", body)
    if options.json:
        print_json(told)
        return 0
    print(told["code"])
    minutes = round(told["seconds"] / 60)
    print(
        f"whoever sends this to the agent on {options.channel} within {minutes} minutes is let in "
        f"as {options.role}"
    )
    if told["makes_home"]:
        print("their chat becomes the channel's home: what needs consent is asked there")
    return 0


def _people(options: argparse.Namespace) -> int:
    rows = started().get("/v1/gateway/people")
    if options.json:
        print_json(rows)
        return 0
    if not rows:
        print("nobody yet; `hermes gateway pair CHANNEL` makes a code that lets somebody in")
        return 0
    cells = [
        (row["channel"], row["hash"][:8], one_line(row.get("name", "")), row.get("role", "member"),
         row.get("policy", ""), row.get("by", ""), stamp(row["since"]) if row.get("since") else "")
        for row in rows
    ]  # fmt: skip
    print(table(("channel", "hash", "name", "role", "policy", "by", "since"), cells))
    return 0


def _block(options: argparse.Namespace) -> int:
    path = f"/v1/gateway/people/{quote(options.who, safe='')}/block"
    told = started().post(path, channel=options.channel)
    if options.json:
        print_json(told)
    else:
        print(f"{told['hash'][:8]} on {told['channel']} gets nothing any more")
    return 0


def _remove(options: argparse.Namespace) -> int:
    api = started()
    if not options.json and not sure(f"forget {options.who}?", options.yes):
        return 1
    told = api.delete(f"/v1/gateway/people/{quote(options.who, safe='')}")
    if options.json:
        print_json(told)
    else:
        print(f"{told['hash'][:8]} on {told['channel']} is forgotten")
    return 0


def _dead(options: argparse.Namespace) -> int:
    if options.drop:
        return _drop(options)
    told = started().get("/v1/gateway/dead")
    if options.json:
        print_json(told)
        return 0
    cells = (
        [
            (str(row["id"]), row["target"], one_line(row["text"], 40), one_line(row["error"], 60))
            for row in told["deliveries"]
        ]
        + [
            (str(row["id"]), row["target"], one_line(row["text"], 40), "its channel is not set up")
            for row in told["left"]
        ]
        + [
            (str(row["id"]), row["target"], one_line(row["text"], 40), one_line(row["why"], 60))
            for row in told["arrived"]
        ]
    )
    if not cells:
        print("nothing was given up")
        return 0
    print(table(("id", "where", "what", "why"), cells))
    print("hint: `hermes gateway again ID` tries one once more, `dead --drop ID` forgets it")
    return 0


def _drop(options: argparse.Namespace) -> int:
    api = started()
    what = "all that was given up" if options.drop == "all" else options.drop
    if not options.json and not sure(f"forget {what}?", options.yes):
        return 1
    told = api.delete(f"/v1/gateway/dead/{quote(options.drop, safe='')}")
    if options.json:
        print_json(told)
    else:
        print(f"forgotten: {', '.join(told['dropped']) or 'nothing was given up'}")
    return 0


def _again(options: argparse.Namespace) -> int:
    told = started().post(f"/v1/gateway/again/{quote(options.id, safe='')}")
    if options.json:
        print_json(told)
    else:
        print(f"{options.id} is tried once more")
    return 0
