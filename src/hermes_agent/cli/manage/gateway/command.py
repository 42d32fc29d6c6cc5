"""Channels: how people reach the agent, who may talk to it, and what could not be delivered.

hermes gateway setup telegram      set up a channel, and test it
hermes gateway pair telegram       a code that admits a person; --role owner for yourself
hermes gateway status              which channels work, and when that was last verified"""

import argparse
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.client.api import quoted
from hermes_agent.cli.output.formatting import count, one_line, stamp, sure, table
from hermes_agent.core.errors import UsageError

Row = dict[str, Any]

LEFT = {"waiting": "waiting", "dead": "undeliverable", "set_aside": "unprocessed"}


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _status)
    _setup_arguments(add_action(actions, "setup", _setup, "set up a channel, or list them"))
    add_action(actions, "status", _status, "the state of each channel")
    add_action(actions, "test", _test, "check that a channel receives messages", "channel")
    pair = add_action(actions, "pair", _pair, "a code that admits a person", "channel")
    pair.add_argument("--role", choices=("owner", "member"), default="member")
    pair.add_argument("--policy", default="", metavar="PROFILE", help="for their sessions")
    pair.add_argument("--name", default="", help="the name that rules use for them")
    add_action(actions, "people", _people, "who may talk to the agent")
    block = add_action(actions, "block", _block, "block a person")
    block.add_argument("who", metavar="WHO", help="a name, or the beginning of a hash")
    block.add_argument("--channel", default="", help="then WHO is a stranger's id on the platform")
    remove = add_action(
        actions, "remove", _remove, "remove a person; allow-lists still apply", "who"
    )
    remove.add_argument("--yes", action="store_true", help="do not ask")
    dead = add_action(actions, "dead", _dead, "undeliverable messages, and those without a channel")
    dead.add_argument("--drop", default="", metavar="ID|all", help="delete one, or all")
    dead.add_argument("--yes", action="store_true", help="do not ask")
    add_action(actions, "again", _again, "retry an undeliverable message", "id")


def _setup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("channel", metavar="CHANNEL", nargs="?", default="")
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", dest="given",
        help="a field's value instead of a prompt; for a secret, its name",
    )  # fmt: skip
    parser.add_argument(
        "--home", default="", metavar="CHAT", help="where messages without a recipient go"
    )
    parser.add_argument("--no-test", action="store_true", help="do not test it")


def _setup(options: argparse.Namespace) -> int:
    from hermes_agent.cli.manage.gateway.setup import channels, setup

    if not options.channel and (options.given or options.home):
        raise UsageError("which channel?", "`hermes gateway setup CHANNEL --set FIELD=VALUE`")
    return setup(options) if options.channel else channels(options)


def _status(options: argparse.Namespace) -> int:
    found = connect().get("/v1/gateway")
    return emit(options, found, "\n".join(status_lines(found)))


def status_lines(found: Row) -> list[str]:
    channels: dict[str, Row] = found.get("channels", {})
    lines = [f"{name}: {_state(row)}" for name, row in channels.items()]
    for name, row in found.get("left", {}).items():
        parts = ", ".join(f"{row[key]} {said}" for key, said in LEFT.items() if row[key])
        lines.append(
            f"{name}: not set up, with {parts}; `hermes gateway setup {name}` sends it, "
            "`hermes gateway dead --drop all` deletes it"
        )
    for name, number in found.get("strangers", {}).items():
        lines.append(f"ignored on {name}: {count(number, 'stranger')}")
    return lines or ["no channel is set up; `hermes gateway setup` lists them"]


def _state(row: Row) -> str:
    """`last verified 40 s ago, last heard 3 min ago, 0 waiting`."""
    if "says" not in row:
        return one_line(f"not available: {row['error']}; {row['hint']}", 300)
    parts = [] if row["state"] == "up" else [row["state"]]
    parts += [row["says"], f"{row['waiting']} waiting"]
    for key in ("dead", "set_aside"):
        parts += [f"{row[key]} {LEFT[key]}: `hermes gateway dead`"] * bool(row[key])
    if row["error"] and row["error"] not in row["says"]:
        parts.append(row["error"])
    for name in row["unknown"]:
        parts.append(f"unknown setting {name!r}")
    if row["asks"] == []:
        parts.append("no one can approve requests: no home chat, no owner")
    return one_line(", ".join(parts), 400)


def _test(options: argparse.Namespace) -> int:
    from hermes_agent.cli.manage.gateway.setup import test_channel

    return test_channel(options, options.channel)


def _pair(options: argparse.Namespace) -> int:
    body: dict[str, object] = {
        key: getattr(options, key) for key in ("channel", "role", "policy", "name")
    }
    made = connect().post("/v1/gateway/pair", body)
    minutes = round(made["seconds"] / 60)
    text = (
        f"{made['code']}\n"
        f"whoever sends this to the agent on {options.channel} within {minutes} minutes is "
        f"admitted as {options.role}"
    )
    if made["makes_home"]:
        text += "\ntheir chat becomes the channel's home, where approvals are asked for"
    return emit(options, made, text)


def _people(options: argparse.Namespace) -> int:
    rows = connect().get("/v1/gateway/people")
    cells = [
        (row["channel"], row["hash"][:8], one_line(row.get("name", "")), row.get("role", "member"),
         row.get("policy", ""), row.get("by", ""), stamp(row["since"]) if row.get("since") else "")
        for row in rows
    ]  # fmt: skip
    text = "no people yet; `hermes gateway pair CHANNEL` makes a code that admits one"
    if cells:
        text = table(("channel", "hash", "name", "role", "policy", "by", "since"), cells)
    return emit(options, rows, text)


def _block(options: argparse.Namespace) -> int:
    path = f"/v1/gateway/people/{quoted(options.who)}/block"
    row = connect().post(path, channel=options.channel)
    return emit(options, row, f"{row['hash'][:8]} on {row['channel']} is now blocked")


def _remove(options: argparse.Namespace) -> int:
    api = connect()
    if not options.json and not sure(f"remove {options.who}?", options.yes):
        return 1
    row = api.delete(f"/v1/gateway/people/{quoted(options.who)}")
    return emit(options, row, f"{row['hash'][:8]} on {row['channel']} is removed")


def _dead(options: argparse.Namespace) -> int:
    if options.drop:
        return _drop(options)
    found = connect().get("/v1/gateway/dead")
    cells = [
        (str(row["id"]), row["target"], one_line(row["text"], 40), one_line(why, 60))
        for row, why in (
            *((row, row["error"]) for row in found["deliveries"]),
            *((row, "its channel is not set up") for row in found["left"]),
            *((row, row["why"]) for row in found["arrived"]),
        )
    ]
    text = "no undeliverable messages"
    if cells:
        text = table(("id", "where", "what", "why"), cells)
        text += "\nhint: `hermes gateway again ID` retries one, `dead --drop ID` deletes it"
    return emit(options, found, text)


def _drop(options: argparse.Namespace) -> int:
    api = connect()
    what = "all undeliverable messages" if options.drop == "all" else options.drop
    if not options.json and not sure(f"delete {what}?", options.yes):
        return 1
    done = api.delete(f"/v1/gateway/dead/{quoted(options.drop)}")
    return emit(options, done, f"deleted: {', '.join(done['dropped']) or 'nothing'}")


def _again(options: argparse.Namespace) -> int:
    done = connect().post(f"/v1/gateway/again/{quoted(options.id)}")
    return emit(options, done, f"retrying {options.id}")
