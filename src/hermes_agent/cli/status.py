"""How the runtime is. It is not started for this.

Exit code 0 when it runs or is stopped, 1 when something keeps it from working."""

import argparse
import os
from typing import Any

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client import Api, Gone
from hermes_agent.cli.words import print_json, span
from hermes_agent.runtime.places import socket_paths

ANSWER_SECONDS = 10.0
"""A runtime that has not said how it is by then does not answer."""

KEYS = (
    "state", "pid", "reason", "hint", "home", "version", "model", "policy", "uptime", "working",
    "parked", "questions", "listeners",
)  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    status = current_status(Api(timeout=ANSWER_SECONDS))
    if options.json:
        print_json(status)
    else:
        print("\n".join(status_lines(status)))
    return 0 if status["state"] in ("running", "stopped") else 1


def current_status(api: Api) -> dict[str, Any]:
    """What the runtime says of itself, or what a look at its home says."""
    try:
        told = api.get("/v1/status")
    except Gone:
        told = _look(api.home)
    return {**dict.fromkeys(KEYS), **told}


def _look(home: str) -> dict[str, Any]:
    from pathlib import Path

    from hermes_agent.runtime.offline import home_trouble, lock_owner

    found: dict[str, Any] = {"state": "stopped", "home": home, "reason": "", "hint": ""}
    owner = lock_owner(home)
    if owner is not None and any(os.path.exists(path) for path in socket_paths(home)):
        return {
            **found,
            "state": "degraded",
            "pid": owner,
            "reason": f"the runtime (pid {owner}) does not answer",
            "hint": f"`hermes logs` may say why; `kill {owner}` ends it, and nothing is lost",
        }
    trouble = home_trouble(Path(home))
    if trouble is not None:
        return {**found, "state": "degraded", "reason": trouble[0], "hint": trouble[1]}
    if owner is not None:
        return {
            **found,
            "reason": f"a program (pid {owner}) uses the home without a runtime",
            "hint": "a runtime can start when it has ended",
        }
    return found


def status_lines(status: dict[str, Any]) -> list[str]:
    lines = [f"state      {status['state']}"]
    if status["reason"]:
        lines.append(f"reason     {status['reason']}")
    lines.append(f"home       {status['home']}")
    if status["version"] is None:
        return [*lines, f"hint: {status['hint'] or '`hermes up` starts the runtime'}"]
    working = ", ".join(status["working"]) or "nothing"
    lines += [
        f"pid        {status['pid']}",
        f"version    {status['version']}",
        f"model      {status['model'] or 'none; `hermes config set model service/name`'}",
        f"policy     {status['policy']}",
        f"up for     {span(status['uptime'])}",
        f"works on   {working}",
    ]
    if status["parked"]:
        lines.append(f"parked     {status['parked']}; `hermes parked` lists them")
    if status["questions"]:
        lines.append(f"questions  {status['questions']}; `hermes approvals` lists them")
    if status["hint"]:
        lines.append(f"hint: {status['hint']}")
    return lines
