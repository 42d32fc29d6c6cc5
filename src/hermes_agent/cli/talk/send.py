"""Send a message to people through a channel: to its home chat, to a chat, or to all home chats.

hermes send telegram The backup is done
hermes send telegram:123 --file report.pdf
uptime | hermes send all"""

import argparse
import secrets
import sys
import time
from typing import Any

from hermes_agent.cli.actions import connect, emit
from hermes_agent.cli.arguments import json_option, positive, read_files
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import one_line
from hermes_agent.core.errors import UsageError

POLL_SECONDS = 0.2


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("target", metavar="TARGET", help="a channel, CHANNEL:CHAT, or all")
    parser.add_argument("text", metavar="TEXT", nargs="*", help="default: standard input")
    parser.add_argument("--file", action="append", default=[], metavar="FILE", dest="files")
    parser.add_argument("--wait", action="store_true", help="wait until it is delivered")
    parser.add_argument(
        "--timeout", type=positive, default=60, metavar="SECONDS", help="of --wait; default 60"
    )


def run(options: argparse.Namespace) -> int:
    text = " ".join(options.text)
    if not text and not options.files and not sys.stdin.isatty():
        text = sys.stdin.read()
    body: dict[str, object] = {
        "targets": [options.target],
        "text": text,
        "files": read_files(options.files, any_type=True),
        "key": secrets.token_hex(8),
    }
    if not text.strip() and not options.files:
        raise UsageError("nothing to send", "give a text or --file")
    api = connect()
    sent = api.post("/v1/send", body)
    rows = _receipts(api, sent["key"], options.timeout) if options.wait else sent["deliveries"]
    failed = options.wait and any(row["state"] != "sent" for row in rows)
    return emit(options, rows, "\n".join(map(_line, rows)), int(failed))


def _line(row: dict[str, Any]) -> str:
    match row.get("state", ""):
        case "sent":
            return f"{row['target']}: sent"
        case "":
            return f"{row['target']}: queued"
        case state:
            why = one_line(row.get("error", ""), 200)
            said = f"{row['target']}: {state}" + (f": {why}" if why else "")
            if state == "dead":
                return f"{said}\nhint: `hermes gateway again {row['id']}` retries it"
            return f"{said}; retrying\nhint: `hermes gateway status` shows the channel's state"


def _receipts(api: RuntimeClient, key: str, timeout: float) -> list[dict[str, Any]]:
    deadline = time.monotonic() + timeout
    while True:
        rows: list[dict[str, Any]] = api.get("/v1/gateway/deliveries", key=key)["deliveries"]
        over = all(row["state"] in ("sent", "dead") for row in rows)
        if over or time.monotonic() >= deadline:
            return rows
        time.sleep(POLL_SECONDS)
