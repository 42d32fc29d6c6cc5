"""Send a message to people, by a channel: to its home chat, to a chat, or to all homes.

hermes send telegram The backup is done
hermes send telegram:123 --file report.pdf
uptime | hermes send all"""

import argparse
import os
import secrets
import sys
import time
from typing import Any

from hermes_agent.cli.actions import runtime as started
from hermes_agent.cli.arguments import json_option, positive
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import print_json
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.core.errors import HermesError, UsageError

MAX_BYTES = 20_000_000
POLL_SECONDS = 0.2


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("target", metavar="TARGET", help="a channel, CHANNEL:CHAT, or all")
    parser.add_argument(
        "text", metavar="TEXT", nargs="*", help="standard input where there is none"
    )
    parser.add_argument("--file", action="append", default=[], metavar="FILE", dest="files")
    parser.add_argument("--wait", action="store_true", help="until the platform has it")
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
        "files": [_file(path) for path in options.files],
        "key": secrets.token_hex(8),
    }
    if not text.strip() and not options.files:
        raise UsageError("there is nothing to send", "give a text or --file")
    api = started()
    told = api.post("/v1/send", body)
    rows = _receipts(api, told, options.timeout) if options.wait else told["deliveries"]
    if options.json:
        print_json(rows)
    else:
        for row in rows:
            print(_line(row))
    return int(options.wait and any(row["state"] != "sent" for row in rows))


def _line(row: dict[str, Any]) -> str:
    match row.get("state", ""):
        case "sent":
            return f"{row['target']}: sent"
        case "":
            return f"{row['target']}: it will be sent"
        case state:
            why = one_line(row.get("error", ""), 200)
            said = f"{row['target']}: {state}" + (f": {why}" if why else "")
            if state == "dead":
                return f"{said}\nhint: `hermes gateway again {row['id']}` tries it once more"
            return f"{said}; it is tried on\nhint: `hermes gateway status` says how the channel is"


def _receipts(api: RuntimeClient, told: dict[str, Any], patience: float) -> list[dict[str, Any]]:
    deadline = time.monotonic() + patience
    while True:
        rows: list[dict[str, Any]] = api.get("/v1/gateway/deliveries", key=told["key"])[
            "deliveries"
        ]
        over = all(row["state"] in ("sent", "dead") for row in rows)
        if over or time.monotonic() >= deadline:
            return rows
        time.sleep(POLL_SECONDS)


def _file(path: str) -> dict[str, str]:
    from base64 import b64encode
    from mimetypes import guess_type

    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise HermesError(f"cannot read {path}: {error.strerror}", "name a file") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} has more than {MAX_BYTES // 1_000_000} MB", "send a smaller one")
    name = os.path.basename(path)
    type = guess_type(name)[0] or "application/octet-stream"
    return {"type": type, "data": b64encode(data).decode(), "name": name}
