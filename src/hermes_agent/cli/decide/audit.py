"""Show and verify the audit log: what was asked of the gate, what it said, who agreed, what ran.

Each entry is hashed with the one before it. `hermes audit verify` recomputes all of them and
compares them with the journal. `hermes audit head` prints the end of the chain: keep it elsewhere,
and `hermes audit verify --head N:HASH` notices when the end was cut off."""

import argparse
import json
import time
from contextlib import suppress
from typing import Any

from hermes_agent.cli.arguments import json_option, positive
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import moment, print_json, stamp
from hermes_agent.cli.talk.sessions.text import find
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.text.terminal import clean


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    _list_arguments(parser)
    parser.set_defaults(act=_list)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    verify = actions.add_parser("verify", help="recompute the chain and compare it")
    verify.add_argument("--head", default="", help="an earlier end of the chain, as N:HASH")
    verify.set_defaults(act=_verify)
    head = actions.add_parser("head", help="print the end of the chain")
    head.set_defaults(act=_head)
    export = actions.add_parser("export", help="print entries as JSON lines, with their hashes")
    _list_arguments(export)
    export.set_defaults(act=_export)
    for made in (verify, head, export):
        made.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", default="", help="of one session, by its id or name")
    parser.add_argument("--since", default="", help="2d, 3h, 1w, or a date such as 2026-01-31")
    parser.add_argument("--limit", type=positive, default=50, help="how many (default 50)")


def run(options: argparse.Namespace) -> int:
    api = RuntimeClient()
    api.ensure()
    code: int = options.act(api, options)
    return code


def _entries(api: RuntimeClient, options: argparse.Namespace) -> list[dict[str, Any]]:
    since = moment(options.since, time.time()) if options.since else 0.0
    session = options.session
    if session:
        with suppress(NotFound):  # the log outlives its sessions
            session = find(api, session)["id"]
    rows: list[dict[str, Any]] = api.get(
        "/v1/audit", since=since, session=session, limit=options.limit
    )
    if session and not rows:
        raise NotFound(f"no entries of session {session!r}", "`hermes audit` lists all")
    return rows


def _list(api: RuntimeClient, options: argparse.Namespace) -> int:
    rows = _entries(api, options)
    if options.json:
        print_json([{**json.loads(row["body"]), "hash": row["hash"]} for row in rows])
    elif not rows:
        print("the audit log is empty")
    else:
        for row in rows:
            print(clean(entry_line(json.loads(row["body"]))))
    return 0


def entry_line(entry: dict[str, Any]) -> str:
    about = entry.get("effect") or entry.get("id", "")
    match entry["kind"]:
        case "call_judged":
            said = f"{entry['action']} by {entry['rule'] or 'default'}: {entry['call']}"
            if entry["runs"] is not None:
                said += f" REWRITTEN TO {entry['runs']}"
            if entry["terminal"] != "local":
                said += f" on {entry['terminal']}"
            if entry["audits"]:
                said += f" (noted by {', '.join(entry['audits'])})"
        case "question_asked":
            said = "asked for consent"
        case "approval_given":
            said = f"{entry['by']} agreed"
        case "question_answered":
            said = f"answered {entry['answer'] or 'by nobody in time'}"
            said += f" by {entry['by']}" if entry["answer"] else ""
        case "call_intended":
            said = f"{entry['tool']} begins, try {entry['attempt']}"
        case "call_finished":
            said = f"{entry['tool']} {'done' if entry['ok'] else 'failed or refused'}"
        case _:
            said = f"{entry['by']} decided: {entry['decision']}"
    return f"{entry['number']:>6}  {stamp(entry['time'])}  {about}  {' '.join(said.split())}"


def _export(api: RuntimeClient, options: argparse.Namespace) -> int:
    for row in _entries(api, options):
        print_json(row)
    return 0


def _head(api: RuntimeClient, options: argparse.Namespace) -> int:
    head = api.get("/v1/audit/verify")["head"]
    if options.json:
        print_json({"head": head})
    else:
        print(head)
    return 0


def _verify(api: RuntimeClient, options: argparse.Namespace) -> int:
    number, _, hash = options.head.partition(":")
    if options.head and not (number.isdigit() and len(hash) == 64):
        raise UsageError(f"{options.head!r} is no head", "`hermes audit head` prints one: N:HASH")
    report = api.get("/v1/audit/verify", head=options.head)
    if options.json:
        print_json(report)
    elif report["troubles"]:
        print("\n".join(report["troubles"]))
    else:
        print(f"{report['entries']} entries, the chain is whole; head {report['head']}")
    return 1 if report["troubles"] else 0
