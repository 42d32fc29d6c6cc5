"""`hermes skills run`: a skill worked through as a turn of its own, followed to its end."""

import argparse
import os
import shlex
import sys
from typing import Any

from hermes_agent.cli.arguments import chosen_terminals
from hermes_agent.cli.ask import answering, budget_used_up, watch
from hermes_agent.cli.client import Api, session_path
from hermes_agent.cli.follow import follow
from hermes_agent.cli.show import Printer, clean
from hermes_agent.cli.words import print_json
from hermes_agent.core.errors import HermesError

STOPPED = "stopped:"
"""How the answer of a runbook begins that did not come to its end."""

Event = dict[str, Any]


def run_skill(api: Api, path: str, options: argparse.Namespace) -> int:
    interactive = sys.stdin.isatty() and sys.stderr.isatty() and not options.json
    body: dict[str, object] = {
        "arguments": shlex.join(options.arguments),
        "workspace": os.path.abspath(options.workspace or os.getcwd()),
        "terminals": chosen_terminals(options),
        "policy": options.policy or os.environ.get("HERMES_POLICY", ""),
        "anyway": options.anyway,
        "interactive": interactive,
    }
    printer = Printer(
        live=sys.stdout.isatty() and not options.json, quiet=options.quiet or options.json
    )
    sent = api.post(f"{path}/run", body)
    outcome: Event = {"session": sent["session"], "parked": []}
    events = follow(api, {"after": 0, **sent})
    try:
        answer = answering(api, events) if interactive else None
        outcome = watch(events, printer, outcome, answer)
    except KeyboardInterrupt:
        api.post(f"{session_path(sent['session'])}/interrupt")
        outcome = watch(events, printer, outcome, None)
    return tell(outcome, options.json, printer)


def tell(outcome: Event, as_json: bool, printer: Printer) -> int:
    """Print how it ended; the exit code."""
    reason, text = outcome.get("reason", "failed"), outcome.get("text") or ""
    ok = reason == "done" and not text.startswith(STOPPED)
    if as_json:
        keys = ("text", "session", "cost", "reason", "error", "hint", "steps", "usage", "seconds")
        document = {key: outcome.get(key) for key in keys}
        print_json({**document, "ok": ok, "parked": outcome["parked"]})
        return 0 if ok else 1
    printer.close(clean(text) if reason == "done" else "")
    match reason:
        case "failed":
            raise HermesError(outcome["error"], outcome["hint"])
        case "budget":
            raise budget_used_up(outcome)
        case "parked":
            print(f"session {outcome['session']} waits for a decision", file=sys.stderr)
        case "interrupted":
            print(f"interrupted; session {outcome['session']} keeps what was done", file=sys.stderr)
    return 0 if ok else 1
