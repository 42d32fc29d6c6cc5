"""Show and verify the audit log: what was asked of the gate, what it decided, who approved, what
ran.

Each entry is hashed with the one before it. `hermes audit verify` recomputes the whole chain and
compares it with the journal. `hermes audit head` prints the end of the chain: keep it elsewhere,
and `hermes audit verify --head N:HASH` notices when the log was truncated."""

import argparse
import json
import time
from contextlib import suppress
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.arguments import positive
from hermes_agent.cli.output.formatting import moment, print_json, stamp
from hermes_agent.cli.output.progress import Progress
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.text.terminal import clean


def arguments(parser: argparse.ArgumentParser) -> None:
    _list_arguments(parser)
    actions = add_actions(parser, _list)
    verify = add_action(
        actions, "verify", _verify, "recompute the chain and compare it with the journal"
    )
    verify.add_argument("--head", default="", help="an earlier end of the chain, as N:HASH")
    add_action(actions, "head", _head, "print the end of the chain")
    export = add_action(actions, "export", _export, "print entries as JSON lines, with hashes")
    _list_arguments(export)


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", default="", help="only this session: its id or name")
    parser.add_argument("--since", default="", help="2d, 3h, 1w, or a date such as 2026-01-31")
    parser.add_argument("--limit", type=positive, default=50, help="how many (default 50)")


def _entries(options: argparse.Namespace) -> list[dict[str, Any]]:
    api = connect()
    since = moment(options.since, time.time()) if options.since else 0.0
    session = options.session
    if session:
        with suppress(NotFound):  # the log outlives its sessions
            session = api.session(session)["id"]
    rows: list[dict[str, Any]] = api.get(
        "/v1/audit", since=since, session=session, limit=options.limit
    )
    if session and not rows:
        raise NotFound(f"no entries for session {session!r}", "`hermes audit` lists all")
    return rows


def _list(options: argparse.Namespace) -> int:
    rows = [{**json.loads(row["body"]), "hash": row["hash"]} for row in _entries(options)]
    lines = [clean(entry_line(row)) for row in rows]
    return emit(options, rows, "\n".join(lines) or "the audit log is empty")


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
            said = "asked for approval"
        case "approval_given":
            said = f"{entry['by']} approved"
        case "question_answered":
            said = f"answered {entry['answer']}" if entry["answer"] else "not answered in time"
            said += f" by {entry['by']}" if entry["answer"] else ""
        case "call_intended":
            said = f"{entry['tool']} starts, attempt {entry['attempt']}"
        case "call_finished":
            said = f"{entry['tool']} {'done' if entry['ok'] else 'failed or refused'}"
        case _:
            said = f"{entry['by']} decided: {entry['decision']}"
    return f"{entry['number']:>6}  {stamp(entry['time'])}  {about}  {' '.join(said.split())}"


def _export(options: argparse.Namespace) -> int:
    for row in _entries(options):
        print_json(row)
    return 0


def _head(options: argparse.Namespace) -> int:
    head = connect().get("/v1/audit/verify")["head"]
    return emit(options, {"head": head}, head)


def _verify(options: argparse.Namespace) -> int:
    number, _, hash = options.head.partition(":")
    if options.head and not (number.isdigit() and len(hash) == 64):
        raise UsageError(
            f"not a head of the audit log: {options.head!r}",
            "`hermes audit head` prints one: N:HASH",
        )
    with Progress("recomputing the chain"):
        report = connect().get("/v1/audit/verify", head=options.head)
    text = f"the chain is intact, entries: {report['entries']}; head {report['head']}"
    return emit(
        options, report, "\n".join(report["troubles"]) or text, int(bool(report["troubles"]))
    )
