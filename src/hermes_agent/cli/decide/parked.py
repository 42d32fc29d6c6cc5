"""List and decide effects whose outcome is unknown: they were running when the runtime died, and
nobody can tell whether they took effect.

  retry        run it again: it did not happen, or may happen twice
  skip         do not run it; the model is told that the outcome is unknown
  it-happened  do not run it; the model is told that it did happen"""

import argparse
import time
from typing import Any
from urllib.parse import quote

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.client.follower import reach
from hermes_agent.cli.output.formatting import ago, print_json, table
from hermes_agent.cli.output.id_prefix import pick
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.cli.run.status import parked_run

DECISIONS = {
    "retry": "run it again",
    "skip": "leave it; its outcome stays unknown",
    "it-happened": "it did take effect; go on",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(decision="", effect="")
    actions = parser.add_subparsers(metavar="DECISION", title="decisions")
    for name, summary in DECISIONS.items():
        action = actions.add_parser(name, help=summary)
        action.add_argument("effect", help="the effect's id, or the beginning of it")
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
        action.set_defaults(decision=name)


def run(options: argparse.Namespace) -> int:
    api = RuntimeClient()
    api.ensure()
    if options.decision:
        decided = decide(api, options.effect, options.decision)
        if options.json:
            print_json(decided)
        else:
            print(f"{decided['effect']}: {decided['decision']}; its turn goes on")
        return 0
    rows = api.get("/v1/parked")
    if options.json:
        print_json(rows)
    else:
        scripts = [one for one in _runs(api) if not one.get("session")]
        lines = [parked_run(one) for one in scripts]
        print("\n".join([parked_text(rows, time.time())] * bool(rows or not lines) + lines))
    return 0


def _runs(api: RuntimeClient) -> list[dict[str, Any]]:
    """Runs of jobs that wait for a decision."""
    found: list[dict[str, Any]] = (api.get("/v1/status")["jobs"] or {}).get("parked", [])
    return found


def decide(api: RuntimeClient, beginning: str, decision: str) -> dict[str, Any]:
    effect = pick(api.get("/v1/parked"), "effect", beginning, "parked effect")["effect"]
    body: dict[str, object] = {"decision": decision}
    told: dict[str, Any] = reach(
        api, lambda: api.post(f"/v1/parked/{quote(effect, safe='')}", body)
    )
    return told


def parked_text(rows: list[dict[str, Any]], now: float) -> str:
    if not rows:
        return "nothing is parked"
    cells = [
        (row["effect"], row["session"], one_line(row["tool"]), one_line(row["input"], 50),
         ago(row["since"], now), one_line(row["reason"]))
        for row in rows
    ]  # fmt: skip
    heads = ("effect", "session", "tool", "input", "since", "reason")
    return f"{table(heads, cells)}\nhint: `hermes parked retry|skip|it-happened EFFECT` decides"
