"""`hermes skills run`: a skill worked through as a turn of its own, followed to its end."""

import argparse
import os
import shlex
import sys
from typing import Any

from hermes_agent.cli.arguments import chosen_terminals
from hermes_agent.cli.client.api import RuntimeClient, session_path
from hermes_agent.cli.client.follower import follow
from hermes_agent.cli.output.turn_printer import Printer
from hermes_agent.cli.talk.ask import answering, tell, watch
from hermes_agent.core.text.terminal import clean

ENDS = {"stopped:": 1, "this runbook is not for this case:": 3}
"""How the answer of a runbook begins that was not worked through, and its exit code."""

Event = dict[str, Any]


def run_skill(api: RuntimeClient, path: str, options: argparse.Namespace) -> int:
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
    return told(outcome, options.json, printer)


def told(outcome: Event, as_json: bool, printer: Printer) -> int:
    """Print how it ended; the exit code."""
    text = outcome.get("text") or ""
    code = next((code for begin, code in ENDS.items() if text.startswith(begin)), 0)
    shown = outcome if as_json else {**outcome, "text": clean(text)}
    ok = outcome.get("reason") == "done" and not code
    return code if tell(shown, as_json, printer, ok=ok) else 1
