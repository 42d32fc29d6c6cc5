"""Jobs and their runs as text."""

import sys
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import dollars, one_line, span, stamp, table
from hermes_agent.core.text.terminal import clean

Row = dict[str, Any]

WAIT_SECONDS = 20
ENDED = ("done", "failed", "missed")


def jobs_text(found: list[Row], now: float) -> str:
    if not found:
        return 'no jobs\nhint: `hermes task add "weekdays at 8" "What is new?"`'
    cells = [
        (one["job"]["id"], one_line(_name(one["job"]), 30), one["job"]["state"], _next(one, now),
         _when(one), _what(one))
        for one in found
    ]  # fmt: skip
    lines = [table(("id", "name", "state", "next", "when", ""), cells)]
    lines += [f"warning: {one_line(why, 300)}" for one in found for why in one["warnings"]]
    return "\n".join(lines)


def _name(job: Row) -> str:
    return job["spec"].get("name", "") or "-"


def _next(shown: Row, now: float) -> str:
    due = shown["job"].get("next")
    if due is None:
        return "-"
    return f"in {span(due - now)}" if due > now else "now"


def _when(shown: Row) -> str:
    return one_line(shown["job"]["schedule"]["given"], 40)


def _what(shown: Row) -> str:
    spec, failures = shown["job"]["spec"], shown["job"].get("failures", 0)
    failing = f"FAILS ({failures} in a row): " if failures else ""
    return failing + one_line(spec.get("prompt", "") or spec.get("script", ""), 100)


def job_text(shown: Row, now: float) -> str:
    job, spec = shown["job"], dict(shown["job"]["spec"])
    name = spec.pop("name", "")
    lines = [f"{job['id']} {one_line(name, 100)}".rstrip() + f" is {job['state']}"]
    lines += [f"when       {line}" for line in shown["meaning"].splitlines()[:1]]
    lines += [f"           {line}" for line in shown["meaning"].splitlines()[1:]]
    if job.get("origin"):
        lines.append(f"made in    {one_line(job['origin'], 60)}")
    for key in ("prompt", "script"):
        if text := spec.pop(key, ""):
            first, *more = clean(text).splitlines() or [""]
            lines.append(f"{key:<10} {first}")
            lines += [f"           {line}" for line in more]
    for key, value in spec.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        lines.append(f"{key.replace('_', ' '):<10} {one_line(str(text), 150)}")
    lines.append(f"results    {one_line(shown['results'], 150)}")
    lines += [f"warning: {one_line(why, 300)}" for why in shown["warnings"]]
    if shown["runs"]:
        lines += ["", history_text(shown["runs"], now)]
    return "\n".join(lines)


def history_text(runs: list[Row], now: float) -> str:
    if not runs:
        return "no runs"
    cells = [
        (str(run["id"]), run["job"], _due(run["slot"]), _state(run, now), _took(run, now),
         dollars(run.get("cost")), _said(run))
        for run in runs
    ]  # fmt: skip
    return table(("run", "job", "due", "state", "took", "cost", ""), cells)


def _due(slot: float) -> str:
    """With seconds, unless it is a full minute."""
    return stamp(slot) + (f":{slot % 60:02.0f}" if int(slot) % 60 else "")


def _state(run: Row, now: float) -> str:
    late = f", {span(run['late'])} late" if "late" in run.get("told", ()) else ""
    waits = f" for {span(now - run['slot'])}" if run["state"] == "due" else ""
    hand = " (by hand)" if run.get("trigger") == "hand" else ""
    return f"{run['state']}{waits}{hand}{late}"


def _took(run: Row, now: float) -> str:
    began = run.get("began")
    if began is None:
        return "-"
    ended = run.get("ended")
    return span(ended - began) if ended is not None else f"{span(now - began)} so far"


def _said(run: Row) -> str:
    if run.get("error"):
        return one_line(run["error"], 200)
    if run["state"] == "done" and not run.get("said", True):
        return "nothing to say"
    return one_line(run.get("output", ""), 200)


def follow(api: RuntimeClient, id: int, *, quiet: bool) -> Row:
    """Follow a run to its end: its turn, then its result."""
    path = f"/v1/runs/{id}"
    run: Row = {"state": "due"}
    while run["state"] not in (*ENDED, "parked") and not run.get("session"):
        run = api.get(path, wait=WAIT_SECONDS, **{"for": "session"})
    if run.get("session") and not quiet:
        _follow_turn(api, run)
    while run["state"] not in (*ENDED, "parked"):
        run = api.get(path, wait=WAIT_SECONDS)
    if not quiet and not run.get("session") and run.get("output"):
        print(clean(run["output"]))
    if not quiet and run["state"] == "done" and not run.get("said", True):
        print("nothing to say")
    return run


def _follow_turn(api: RuntimeClient, run: Row) -> None:
    from hermes_agent.cli.client.follower import TurnFollower
    from hermes_agent.cli.output.events import Printer

    printer = Printer(live=sys.stdout.isatty(), quiet=False)
    following = TurnFollower(api, run["session"], f"run:{run['id']}", run.get("after", 0))
    for event in following.events():
        printer.show(event)
        if event["kind"] == "call_parked":
            return
        if event["kind"] == "turn_finished":
            printer.close(event["text"])
