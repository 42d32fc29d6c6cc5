"""List and decide effects whose outcome is unknown: they were running when the runtime died, and
may or may not have taken effect.

  retry        run it again: it did not happen, or may safely happen twice
  skip         do not run it; tell the model that the outcome is unknown
  it-happened  do not run it; tell the model that it happened"""

import argparse
import time
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.client.api import RuntimeClient, by_prefix, quoted
from hermes_agent.cli.client.follower import reach
from hermes_agent.cli.output.formatting import ago, one_line, table
from hermes_agent.cli.run.status import parked_run

DECISIONS = {
    "retry": "run it again",
    "skip": "do not run it; its outcome stays unknown",
    "it-happened": "it did take effect; continue",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list)
    for name, summary in DECISIONS.items():
        action = add_action(actions, name, _decide, summary)
        action.add_argument("effect", help="the effect's id, or the beginning of it")
        action.set_defaults(decision=name)


def _list(options: argparse.Namespace) -> int:
    api = connect()
    rows = api.get("/v1/parked")
    runs = [] if options.json else (api.get("/v1/status")["jobs"] or {}).get("parked", [])
    lines = [parked_run(one) for one in runs if not one.get("session")]
    text = [parked_text(rows, time.time())] * bool(rows or not lines)
    return emit(options, rows, "\n".join(text + lines))


def _decide(options: argparse.Namespace) -> int:
    decided = decide(connect(), options.effect, options.decision)
    text = f"{decided['effect']}: {decided['decision']}; its turn continues"
    return emit(options, decided, text)


def decide(api: RuntimeClient, prefix: str, decision: str) -> dict[str, Any]:
    row = by_prefix(api.get("/v1/parked"), "effect", prefix, "parked effect", "parked")
    body: dict[str, object] = {"decision": decision}
    decided: dict[str, Any] = reach(
        api, lambda: api.post(f"/v1/parked/{quoted(row['effect'])}", body)
    )
    return decided


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
