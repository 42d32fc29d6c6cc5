"""Jobs: what the agent does later or repeatedly, unattended. Without an action, it lists them.

  hermes task add --cron "0 */6 * * *" "Check the diff of main. Send results to Telegram."
  hermes task add "weekdays at 8" "What changed since yesterday?" --deliver telegram
  hermes task add --every 10m --script ./free-space --script-only --deliver all

When: five cron fields, `every 2h`, `30m` (once, in 30 minutes), an ISO time, or plain words. A job
runs in this folder. If the prompt says where results go, they are sent there: in a terminal, Hermes
asks first. How everything was understood is printed, with what the job needs and lacks."""

import argparse
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.arguments import absolute_model, positive
from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone, resource_path
from hermes_agent.cli.output.formatting import count, dollars, one_line, stamp, sure, table
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.text.format import span
from hermes_agent.core.text.terminal import clean

Row = dict[str, Any]

OVERLAP = ("wait", "skip", "parallel")
CATCH_UP = ("latest", "all", "none")
SEVERAL = ("deliver", "on_failure", "after", "skills", "terminals")
"""Fields whose option is repeatable."""
NONE = object()
"""Removes a limit."""
WAIT_SECONDS = 20
ENDED = ("done", "failed", "missed")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list, removed=False)
    adding = add_action(actions, "add", _add, "add a job")
    adding.add_argument(
        "words", nargs="*", metavar="WHEN PROMPT",
        help="when it is due (unless an option says so) and what the agent is to do",
    )  # fmt: skip
    adding.add_argument("--yes", action="store_true", help="send results where the prompt says")
    _when_options(adding)
    _spec_options(adding)
    listing = add_action(actions, "list", _list, "all jobs, and when they are due")
    listing.add_argument("--removed", action="store_true", help="also removed ones")
    showing = add_action(actions, "show", _show, "one job: its schedule, settings and last runs")
    editing = add_action(actions, "edit", _edit, "change a job")
    pausing = add_action(actions, "pause", _pause, "pause a job")
    pausing.set_defaults(paused=True)
    resuming = add_action(actions, "resume", _pause, "resume a paused job")
    resuming.set_defaults(paused=False)
    running = add_action(actions, "run", _run, "run a job now, in addition to its schedule")
    running.add_argument("--follow", action="store_true", help="show its progress until it ends")
    removing = add_action(actions, "remove", _remove, "remove a job; its history remains")
    removing.add_argument("--yes", action="store_true", help="do not ask")
    for action in (showing, editing, pausing, resuming, running, removing):
        action.add_argument("job", metavar="JOB", help="its id or its name")
    editing.add_argument("words", metavar="PROMPT", nargs="?", help="what the agent is to do")
    editing.add_argument("--prompt", default=None, help="the same")
    _when_options(editing)
    _spec_options(editing, editing=True)
    past = add_action(actions, "history", _history, "runs, newest first")
    past.add_argument("job", metavar="JOB", nargs="?", default="", help="only this job")
    past.add_argument("--limit", type=positive, default=20, metavar="N")
    add_action(
        actions,
        "check",
        _check,
        "check that every scheduled time has a run and every target exists",
    )
    deciding = add_action(actions, "decide", _decide, "decide the outcome of a parked run")
    deciding.add_argument("run", metavar="RUN", type=positive)
    deciding.add_argument("decision", choices=("done", "again", "failed"))


def _when_options(parser: argparse.ArgumentParser) -> None:
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--cron", default="", metavar="FIELDS", help='"minute hour day month weekday"'
    )
    when.add_argument("--every", default="", metavar="TIME", help="an interval, such as 2h or 15m")
    when.add_argument("--at", default="", metavar="TIME", help="once, such as 2027-01-31T08:00")
    when.add_argument("--when", default="", metavar="WORDS", help='"weekdays at 8"')
    parser.add_argument("--zone", default="", help="time zone, such as Europe/Berlin")


def _spec_options(parser: argparse.ArgumentParser, *, editing: bool = False) -> None:
    def flag(name: str, help: str) -> None:
        kind = argparse.BooleanOptionalAction if editing else "store_true"
        parser.add_argument(name, action=kind, default=None, help=help)

    def several(name: str, field: str, metavar: str, help: str) -> None:
        parser.add_argument(
            name, action="append", dest=field, default=None, metavar=metavar,
            help=f"{help}; repeatable" + ("; '' for none" if editing else ""),
        )  # fmt: skip

    parser.add_argument("--name", default=None, help="its name")
    several("--deliver", "deliver", "TARGET", "where results go: telegram:CHAT, matrix, all, local")
    several("--on-failure", "on_failure", "TARGET", "where failures are reported")
    flag("--quiet", "deliver only when there is something to say")
    parser.add_argument("--script", default=None, metavar="COMMAND", help="runs first, each time")
    flag("--script-only", "the script's output is the result; no model is used")
    several("--after", "after", "JOB", "prepend the last result of this job to the prompt")
    several("--skill", "skills", "NAME", "open this skill")
    parser.add_argument("--model", default=None, metavar="NAME")
    several("--terminal", "terminals", "NAME", "where commands run")
    parser.add_argument("--policy", default=None, metavar="PROFILE")
    parser.add_argument(
        "--folder", "--workspace", default=None, metavar="FOLDER",
        help="where it runs" + ("; '' for its own" if editing else "; default: this folder"),
    )  # fmt: skip
    amount, count = (_or_none(_amount), _or_none(positive)) if editing else (_amount, positive)
    none = "; none removes the limit" if editing else ""
    parser.add_argument("--dollars", type=amount, default=None, help=f"limit per run{none}")
    parser.add_argument("--tokens", type=count, default=None, help=f"limit per run{none}")
    parser.add_argument("--timeout", type=_seconds, default=None, metavar="TIME", help="default 1h")
    parser.add_argument(
        "--overlap", choices=OVERLAP, default=None, help="if the previous run is not over"
    )
    parser.add_argument(
        "--catch-up",
        choices=CATCH_UP,
        default=None,
        help="which missed runs to do after a downtime",
    )
    parser.add_argument(
        "--grace", type=_seconds, default=None, metavar="TIME", help="how late a run may start"
    )
    parser.add_argument(
        "--incident", choices=("P0", "P1", "P2", "P3", *(("none",) if editing else ())),
        default=None, help="a failed run raises an incident of this severity",
    )  # fmt: skip
    flag("--keep-session", "all runs in one conversation")


def _seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `2h`, `1d`."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "s")
    try:
        return _amount(number) * _UNITS[unit]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"not a valid duration: {text!r}; write 90s, 15m or 2h"
        ) from None


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise argparse.ArgumentTypeError(f"not a number: {text!r}")
    return amount


def _or_none(kind: Callable[[str], float]) -> Callable[[str], float | object]:
    def amount(text: str) -> float | object:
        return NONE if text == "none" else kind(text)

    return amount


# adding and changing


def _add(options: argparse.Namespace) -> int:
    when, words = _when(options), list(options.words)
    if not when and words:
        when = words.pop(0)
    prompt = words.pop(0) if words else ""
    if words:
        raise UsageError(
            f"unexpected argument: {words[0]!r}", "quote the time and quote the prompt"
        )
    spec = {"folder": os.getcwd(), "prompt": prompt, **_spec(options)}
    given: Row = {
        "spec": spec, "when": when, "zone": options.zone, "key": os.urandom(16).hex(),
        "reads_delivery": True,
    }  # fmt: skip
    api = connect()
    asks = os.isatty(0) and os.isatty(2) and not (options.yes or options.json or "deliver" in spec)
    if asks and not _agreed(api.post("/v1/jobs/read", given)):
        spec["deliver"] = ["local"]
    shown: Row = api.post("/v1/jobs", given)
    return emit(options, _flat(shown), job_text(shown, time.time()) + _reboot_hint())


def _agreed(reading: Row) -> bool:
    """Whether to send results where the prompt says, if it does; Enter means yes, Ctrl-D no."""
    delivery = reading["delivery"]
    if not delivery["deliver"]:
        return True
    quiet = ", when there is something to report" if delivery["quiet"] else ""
    print(f"the prompt says: {one_line(delivery['quote'], 150)}", file=sys.stderr)
    print(f"results: {one_line(reading['results'], 150)}{quiet}", file=sys.stderr)
    print("send them there? [Y/n] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()  # empty after Ctrl-D
    return answer != "" and answer.strip().lower() in ("", "y", "yes")


def _when(options: argparse.Namespace) -> str:
    if options.every:
        return f"every {options.every.removeprefix('every ')}"
    return str(options.cron or options.at or options.when)


def _spec(options: argparse.Namespace) -> Row:
    """The fields that were given."""
    given = {
        name: getattr(options, name)
        for name in (
            "name", "script", "policy", "folder", "dollars", "tokens", "timeout", "overlap",
            "catch_up", "grace", "quiet", "script_only", "keep_session", "incident",
        )
    }  # fmt: skip
    if options.incident == "none":
        given["incident"] = ""
    if options.model is not None:
        given["model"] = absolute_model(options.model)
    if options.folder:
        given["folder"] = os.path.abspath(os.path.expanduser(options.folder))
    for name in SEVERAL:
        words = getattr(options, name)
        given[name] = None if words is None else [one for one in words if one]
    kept = {name: value for name, value in given.items() if value is not None}
    return {name: None if value is NONE else value for name, value in kept.items()}


def _reboot_hint() -> str:
    """A hint where nothing starts the runtime after a reboot."""
    from hermes_agent.host.paths import unit_path

    if os.path.exists(unit_path(os.environ)):
        return ""
    return "\nhint: Hermes does not start after a reboot; `hermes watch install` changes that"


def _edit(options: argparse.Namespace) -> int:
    spec = _spec(options)
    prompt = options.prompt if options.prompt is not None else options.words
    if prompt is not None:
        spec["prompt"] = prompt
    when = _when(options)
    if not spec and not when and not options.zone:
        raise UsageError("nothing to change", "`hermes task edit --help` lists the options")
    return _patch(options, {"spec": spec, "when": when, "zone": options.zone})


def _pause(options: argparse.Namespace) -> int:
    return _patch(options, {"paused": options.paused})


def _patch(options: argparse.Namespace, change: Row) -> int:
    shown = connect().patch(_path(options.job), change)
    return emit(options, _flat(shown), job_text(shown, time.time()))


def _remove(options: argparse.Namespace) -> int:
    api = connect()
    found: Row = api.get(_path(options.job))["job"]
    name = _name(found)
    if not sure(f"Remove the job {name}?", options.yes):
        raise HermesError("nothing was removed", "--yes skips the question")
    row: Row = api.delete(_path(found["id"]))
    text = f"{name} was removed; `hermes task history {found['id']}` still shows its runs"
    for one in _dependents(api, found):
        text += f"\nwarning: {one} runs after it and keeps using its last result"
    return emit(options, row, text)


def _name(job: Row) -> str:
    return one_line(job["spec"].get("name", "") or job["id"])


def _dependents(api: RuntimeClient, removed: Row) -> list[str]:
    names = {removed["id"], removed["spec"].get("name", "")}
    jobs = [one["job"] for one in api.get("/v1/jobs")]
    return [_name(job) for job in jobs if names & set(job["spec"].get("after", ()))]


# showing


def _path(reference: str) -> str:
    return resource_path("jobs", reference, "job", "task list")


def _flat(shown: Row) -> Row:
    """The job and what is shown with it, as one object."""
    also = ("meaning", "results", "warnings", "runs")
    return {**shown["job"], **{key: shown[key] for key in also}}


def _list(options: argparse.Namespace) -> int:
    found: list[Row] = connect().get("/v1/jobs", removed="true" if options.removed else "")
    return emit(options, [_flat(one) for one in found], jobs_text(found, time.time()))


def _show(options: argparse.Namespace) -> int:
    shown = connect().get(_path(options.job))
    return emit(options, _flat(shown), job_text(shown, time.time()))


def _history(options: argparse.Namespace) -> int:
    rows: list[Row] = connect().get("/v1/runs", job=options.job, limit=options.limit)
    return emit(options, rows, history_text(rows, time.time()))


def _check(options: argparse.Namespace) -> int:
    faults: list[str] = connect().get("/v1/jobs/check")["faults"]
    text = "\n".join(one_line(one, 300) for one in faults) or "every scheduled time has its run"
    code = emit(options, faults, text)
    if faults and not options.json:
        raise HermesError(f"{count(len(faults), 'problem')} found", "`hermes logs` may say more")
    return code


# runs


def _run(options: argparse.Namespace) -> int:
    api = connect()
    row: Row = api.post(f"{_path(options.job)}/run")
    hint = f"`hermes task history {row['job']}`"
    if not options.follow:
        return emit(options, row, f"run {row['id']} is queued\nhint: {hint} shows it")
    try:
        row = follow(api, row["id"], quiet=options.json)
    except RuntimeGone as gone:
        raise HermesError(gone.message, f"the run continues when a runtime is up: {hint}") from None
    if row["state"] != "done":
        error = one_line(row.get("error", ""), 300)
        raise HermesError(f"run {row['id']} is {row['state']}: {error}", hint)
    return emit(options, row)


def _decide(options: argparse.Namespace) -> int:
    row: Row = connect().post(f"/v1/runs/{options.run}/decide", {"decision": options.decision})
    return emit(options, row, f"run {row['id']} is {row['state']}")


# as text


def jobs_text(found: list[Row], now: float) -> str:
    if not found:
        return 'no jobs\nhint: `hermes task add "weekdays at 8" "What is new?"`'
    cells = [
        (job["id"], one_line(job["spec"].get("name", "") or "-", 30), job["state"],
         _next(job, now), one_line(job["schedule"]["given"], 40), _what(job))
        for job in (one["job"] for one in found)
    ]  # fmt: skip
    lines = [table(("id", "name", "state", "next", "when", ""), cells)]
    lines += [
        f"warning: {_name(one['job'])}: {one_line(why, 300)}"
        for one in found for why in one["warnings"]
    ]  # fmt: skip
    return "\n".join(lines)


def _next(job: Row, now: float) -> str:
    due = job.get("next")
    if due is None:
        return "-"
    return f"in {span(due - now)}" if due > now else "now"


def _what(job: Row) -> str:
    spec, failures = job["spec"], job.get("failures", 0)
    failing = f"FAILS ({failures} in a row): " if failures else ""
    return failing + one_line(spec.get("prompt", "") or spec.get("script", ""), 100)


def job_text(shown: Row, now: float) -> str:
    job, spec = shown["job"], dict(shown["job"]["spec"])
    name = spec.pop("name", "")
    lines = [f"{job['id']} {one_line(name, 100)}".rstrip() + f" is {job['state']}"]
    lines += [f"when       {line}" for line in shown["meaning"].splitlines()[:1]]
    lines += [f"           {line}" for line in shown["meaning"].splitlines()[1:]]
    if job["state"] == "paused":
        why = "so that nothing runs twice; " if job["by"].startswith("import ") else ""
        lines.append(f"paused     {why}`hermes task resume {job['id']}` starts it")
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
    results = one_line(run.get("results", ""), 200)
    return one_line(run.get("output", ""), 200) + (f" [{results}]" if results else "")


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
    if not quiet and (run.get("sent_to") or run.get("unsent")):
        print(f"[{one_line(run['results'], 200)}]")
    return run


def _follow_turn(api: RuntimeClient, run: Row) -> None:
    from hermes_agent.cli.client.follower import TurnFollower
    from hermes_agent.cli.output.events import Printer
    from hermes_agent.cli.talk.turn import watch

    printer = Printer(live=sys.stdout.isatty(), quiet=False)
    following = TurnFollower(api, run["session"], f"run:{run['id']}", run.get("after", 0))
    outcome = watch(following.events(), printer, {"parked": []}, None)
    if outcome["reason"] != "parked":
        printer.close(outcome["text"])
