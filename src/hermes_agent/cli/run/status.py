"""Show the state of the runtime, without starting it.

Exit code 0 when it is running or stopped, 1 when something is wrong."""

import argparse
import os
import time
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.actions import emit
from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone
from hermes_agent.cli.output.formatting import count, dollars, one_line, stamp, state
from hermes_agent.core.errors import HermesError
from hermes_agent.core.text.format import span
from hermes_agent.host.paths import socket_paths

if TYPE_CHECKING:
    from pathlib import Path

ANSWER_SECONDS = 10.0
"""A runtime that has not answered by then is reported as not answering."""

KEYS = (
    "state", "pid", "reason", "hint", "home", "version", "model", "policy", "uptime", "working",
    "parked", "questions", "paused", "listeners", "models", "today", "day_dollars", "learning",
    "watch", "jobs", "gateway", "door", "supervisor",
)  # fmt: skip


def run(options: argparse.Namespace) -> int:
    status = current_status(RuntimeClient(timeout=ANSWER_SECONDS))
    well = status["state"] in ("running", "stopped")
    text = "\n".join([f"runtime    {state(status['state'])}", *status_lines(status)[1:]])
    return emit(options, status, text, 0 if well else 1)


def current_status(api: RuntimeClient) -> dict[str, Any]:
    """The runtime's own status, or what its home shows when it does not answer."""
    try:
        status = api.get("/v1/status")
        if status["state"] == "running":
            status |= _models(api)
    except RuntimeGone:
        status = _inspect(api.home)
    from hermes_agent.host.inspect import supervisor

    pid, _ = supervisor(api.home)
    return {**dict.fromkeys(KEYS), **status, "supervisor": pid or None}


def _models(api: RuntimeClient) -> dict[str, Any]:
    """The health of the models that were used, and what they cost today."""
    models = api.get("/v1/models/health")
    try:
        costs = api.get("/v1/costs", since=time.time())
    except RuntimeGone:
        raise
    except HermesError:  # the settings cannot be read, which the status tells
        return {"models": models}
    return {"models": models, "today": costs["today"], "day_dollars": costs["day_dollars"]}


def _inspect(home: str) -> dict[str, Any]:
    from pathlib import Path

    from hermes_agent.host.inspect import home_trouble, lock_owner, supervisor

    found: dict[str, Any] = {"state": "stopped", "home": home, "reason": "", "hint": ""}
    owner = lock_owner(home)
    if owner is not None and any(os.path.exists(path) for path in socket_paths(home)):
        return {
            **found,
            "state": "degraded",
            "pid": owner,
            "reason": f"the runtime (pid {owner}) does not answer",
            "hint": "ask again if it has just been started; `hermes logs` may say why; "
            f"`kill {owner}` ends it without losing anything",
        }
    trouble = home_trouble(Path(home))
    if trouble is not None:
        return {**found, "state": "degraded", "reason": trouble[0], "hint": trouble[1]}
    if owner is not None:
        return {
            **found,
            "reason": f"another program (pid {owner}) is using the home",
            "hint": "a runtime can start when it has ended",
        }
    if any(os.path.exists(path) for path in socket_paths(home)):
        pid, gave_up = supervisor(home)
        found["reason"] = "it was killed or crashed; `hermes logs` may say why"
        if pid:
            found["reason"] += "; it is being restarted"
        elif gave_up:
            hint = "`hermes logs` may say why; `hermes up` starts it again"
            return {**found, "state": "degraded", "reason": gave_up, "hint": hint}
    files = [path.name for path in sorted(Path(home, "checks").glob("*.y*ml"))]
    return {**found, "jobs": _waiting(Path(home)), "watch": {"files": files}}


def _waiting(home: "Path") -> dict[str, Any] | None:
    from hermes_agent.store.peek import waiting_jobs

    found = waiting_jobs(home)
    return {name: getattr(found, name) for name in ("active", "paused", "next")} if found else None


def _learning(learning: dict[str, Any]) -> list[str]:
    lines = []
    if learning.get("proposals"):
        lines.append(f"proposals  {learning['proposals']}; `hermes proposals` lists them")
    if names := learning.get("quarantined"):
        shown = one_line(", ".join(names), 150)
        lines.append(f"skills     quarantined as dangerous: {shown}")
    if learning.get("trouble"):
        lines.append(f"learning   {one_line(learning['trouble'], 200)}")
    if given_up := learning.get("given_up"):
        failed = f"gave up on {count(len(given_up), 'task')}: {'; '.join(given_up)}"
        lines.append(f"learning   {one_line(failed, 200)}")
    return lines


def _watch(watch: dict[str, Any]) -> list[str]:
    lines = []
    if not any(watch.get(one) for one in ("checks", "logs", "listening", "files")):
        lines.append("watch      nothing is watched; `hermes watch install` proposes checks")
    if watch.get("files"):
        lines.append("watch      nothing runs the checks while the runtime is stopped")
    if watch.get("checks"):
        failing = "not known" if watch["failing"] is None else ", ".join(watch["failing"]) or "none"
        lines.append(f"checks     {watch['checks']}; failing: {one_line(failing, 150)}")
    if watch.get("open"):
        lines.append(f"incidents  {watch['open']} open; `hermes incidents` lists them")
    if waiting := watch.get("escalated"):
        named = one_line(", ".join(waiting), 150)
        lines.append(f"escalated  {named}: needs people; `hermes incidents show ID` says why")
    if watch.get("listening"):
        lines.append(f"alerts     received on {watch['listening']}")
    return lines + [f"watch      {one_line(one, 200)}" for one in watch.get("troubles", ())]


def _jobs(jobs: dict[str, Any], now: float) -> list[str]:
    if not jobs.get("active") and not jobs.get("paused"):
        return []
    due = jobs.get("next")
    following = f"; next in {span(due - now)}" if due is not None else ""
    paused = f", {jobs['paused']} paused" if jobs["paused"] else ""
    lines = [f"jobs       {jobs['active']} active{paused}{following}"]
    for key, said in (("running", "running"), ("late", "late today"), ("missed", "missed today")):
        if found := jobs.get(key):
            names = ", ".join(dict.fromkeys(one["name"] for one in found))
            lines.append(f"jobs       {said}: {len(found):,} ({one_line(names, 120)})")
    if failing := jobs.get("failing"):
        lines.append(f"jobs       failing: {one_line(', '.join(failing), 150)}")
    lines += [f"jobs       {parked_run(one)}" for one in jobs.get("parked", ())]
    for one in jobs.get("running", ()):
        if waits := one_line(one.get("waits", ""), 120):
            lines.append(f"jobs       {one_line(one['name'], 40)}: {waits}; `hermes approvals`")
    return lines + [f"jobs       {one_line(why, 200)}" for why in jobs.get("troubles", ())]


def parked_run(one: dict[str, Any]) -> str:
    """A run whose outcome is unknown, and the command that decides it."""
    decide = "`hermes parked`" if one.get("session") else (
        f"`hermes task decide {one['run']} done|again|failed`"
    )  # fmt: skip
    return f"run {one['run']} of {one_line(one['name'], 60)} needs a decision: {decide}"


def _unattended(jobs: dict[str, Any], now: float) -> list[str]:
    """Jobs that are due while no runtime is running."""
    if not jobs.get("active") or jobs.get("next") is None:
        return []
    due, active = jobs["next"], jobs["active"]
    if due <= now:
        return [f"jobs       {active} active, missed since {stamp(due)} ({span(now - due)} ago)"]
    return [f"jobs       {active} active; next in {span(due - now)}, if a runtime is running then"]


def _services(gateway: dict[str, Any], door: dict[str, Any]) -> list[str]:
    lines = []
    if gateway.get("channels") or gateway.get("left"):
        from hermes_agent.cli.manage.gateway.command import status_lines as channel_lines

        lines += [f"channel    {line}" for line in channel_lines(gateway)]
    if door.get("address"):
        lines.append(f"HTTP API   on {door['address']}")
    if door.get("trouble"):
        lines.append(f"HTTP API   {one_line(door['trouble'], 200)}")
    return lines


def status_lines(status: dict[str, Any]) -> list[str]:
    lines = [f"runtime    {status['state']}"]
    if status["reason"]:
        lines.append(f"reason     {status['reason']}")
    lines.append(f"home       {status['home']}")
    if status["version"] is None:
        if status["watch"] is not None:
            lines += _watch(status["watch"])
        lines += _unattended(status["jobs"] or {}, time.time())
        return [*lines, f"hint: {status['hint'] or '`hermes up` starts the runtime'}"]
    working = ", ".join(status["working"]) or "none"
    lines += [
        f"pid        {status['pid']}",
        f"version    {status['version']}",
        f"model      {status['model'] or 'none; `hermes setup` chooses one'}",
        f"policy     {status['policy']}",
        f"uptime     {span(status['uptime'])}",
        *["restarts   after a crash"] * bool(status.get("supervisor")),
        f"turns      {working}",
    ]
    if status["parked"]:
        lines.append(f"parked     {status['parked']}; `hermes parked` lists them")
    if status["questions"]:
        lines.append(f"questions  {status['questions']}; `hermes approvals` lists them")
    if paused := status["paused"]:
        at = f"at a limit: {one_line(', '.join(paused), 60)}"
        lines.append(f"paused     {at}; `hermes sessions resume ID` continues")
    lines += _watch(status["watch"] or {})
    lines += _jobs(status["jobs"] or {}, time.time())
    lines += _services(status["gateway"] or {}, status["door"] or {})
    lines += _learning(status["learning"] or {})
    if status["day_dollars"] is not None:
        lines.append(
            f"spent      {dollars(status['today'])} of {dollars(status['day_dollars'])} today"
        )
    lines += [f"problem    {line}" for line in _problems(status["models"] or [], time.time())]
    if status["hint"]:
        lines.append(f"hint: {status['hint']}")
    return lines


def _problems(models: list[dict[str, Any]], now: float) -> list[str]:
    """Models that are paused, and keys that are rate-limited or refused for now."""
    lines: list[str] = []
    for model in models:
        if model["circuit"] != "closed" or model["until"]:
            wait = f" for {span(model['until'] - now)}" if model["until"] > now else ""
            state = "is being tried again" if model["circuit"] == "half-open" else "is paused"
            why = f": {one_line(model['reason'])}" if model["reason"] else ""
            lines.append(f"{model['model']} {state}{wait}{why}")
        service = model["model"].partition("/")[0]
        for key in model["resting"]:
            kind, wait = key["kind"].replace("_", " "), span(key["until"] - now)
            lines.append(f"{key['model'] or service}: {key['label']} is paused for {wait}: {kind}")
    return list(dict.fromkeys(lines))
