"""Jobs: what the agent does later, or again and again, by itself. Alone, it lists them.

  hermes task add --cron "0 */6 * * *" "Check the diff of main, send to Telegram"
  hermes task add "weekdays at 8" "What changed since yesterday?" --deliver telegram
  hermes task add --every 10m --script ./free-space --script-only --deliver all

When: five fields of cron, `every 2h`, `30m` (once, in 30 minutes), an ISO time, or plain words.
What it means is shown back."""

import argparse
import math
import os
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from hermes_agent.cli.actions import add_action, run_action
from hermes_agent.cli.arguments import absolute_model, json_option, positive
from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone
from hermes_agent.cli.output.formatting import sure
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.cli.work.task.view import follow, history_text, job_text, jobs_text
from hermes_agent.core.errors import HermesError, NotFound, UsageError

Row = dict[str, Any]

OVERLAP = ("wait", "skip", "parallel")
CATCH_UP = ("latest", "all", "none")
SEVERAL = ("deliver", "on_failure", "after", "skills", "terminals")
"""Fields that take several words, each with an option that may be given again."""
NONE = object()
"""What takes a limit away."""
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list, removed=False)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    adding = add_action(actions, "add", _add, "a new job")
    adding.add_argument(
        "words", nargs="*", metavar="WHEN PROMPT",
        help="when it is due (unless an option says it) and what the agent is to do",
    )  # fmt: skip
    _when_options(adding)
    _spec_options(adding)
    listing = add_action(actions, "list", _list, "all jobs, and when they are due")
    listing.add_argument("--removed", action="store_true", help="removed ones, too")
    showing = add_action(
        actions, "show", _show, "one job: its meaning, its settings, its last runs"
    )
    editing = add_action(actions, "edit", _edit, "change a job")
    editing.add_argument("job", metavar="JOB", help="its id or its name")
    editing.add_argument("words", metavar="PROMPT", nargs="?", help="what the agent is to do")
    editing.add_argument("--prompt", default=None, help="the same")
    _when_options(editing)
    _spec_options(editing, editing=True)
    pausing = add_action(actions, "pause", _pause, "let no more runs come due")
    resuming = add_action(actions, "resume", _resume, "go on from now")
    running = add_action(actions, "run", _run, "run a job now, beside its schedule")
    running.add_argument("--follow", action="store_true", help="show how it goes, until it ends")
    removing = add_action(actions, "remove", _remove, "remove a job; its runs stay to be seen")
    removing.add_argument("--yes", action="store_true", help="do not ask")
    for action in (showing, pausing, resuming, running, removing):
        action.add_argument("job", metavar="JOB", help="its id or its name")
    past = add_action(actions, "history", _history, "runs, the newest first")
    past.add_argument("job", metavar="JOB", nargs="?", default="", help="only of this one")
    past.add_argument("--limit", type=positive, default=20, metavar="N")
    add_action(actions, "check", _check, "whether every slot has its run, and every target a place")
    deciding = add_action(actions, "decide", _decide, "say what became of a parked run")
    deciding.add_argument("run", metavar="RUN", type=positive)
    deciding.add_argument("decision", choices=("done", "again", "failed"))


def _when_options(parser: argparse.ArgumentParser) -> None:
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--cron", default="", metavar="FIELDS", help='"minute hour day month weekday"'
    )
    when.add_argument("--every", default="", metavar="TIME", help="an interval, as 2h or 15m")
    when.add_argument("--at", default="", metavar="TIME", help="once, as 2027-01-31T08:00")
    when.add_argument("--when", default="", metavar="WORDS", help='"weekdays at 8"')
    parser.add_argument("--zone", default="", help="time zone, as Europe/Berlin")


def _spec_options(parser: argparse.ArgumentParser, *, editing: bool = False) -> None:
    def flag(name: str, help: str) -> None:
        kind = argparse.BooleanOptionalAction if editing else "store_true"
        parser.add_argument(name, action=kind, default=None, help=help)

    def several(name: str, field: str, metavar: str, help: str) -> None:
        parser.add_argument(
            name, action="append", dest=field, default=None, metavar=metavar,
            help=f"{help}; again for more" + ("; '' for none" if editing else ""),
        )  # fmt: skip

    parser.add_argument("--name", default=None, help="a name for it")
    several("--deliver", "deliver", "TARGET", "where results go: telegram:CHAT, matrix, all, local")
    several("--on-failure", "on_failure", "TARGET", "where trouble is told")
    flag("--quiet", "deliver only when there is something to say")
    parser.add_argument("--script", default=None, metavar="COMMAND", help="runs first, every time")
    flag("--script-only", "the script's output is the result; no model is asked")
    several("--after", "after", "JOB", "put the last result of this job before the prompt")
    several("--skill", "skills", "NAME", "open this skill")
    parser.add_argument("--model", default=None, metavar="NAME")
    several("--terminal", "terminals", "NAME", "where commands run")
    parser.add_argument("--policy", default=None, metavar="PROFILE")
    parser.add_argument("--workspace", default=None, metavar="FOLDER", help="where it works")
    amount, count = (_or_none(_amount), _or_none(positive)) if editing else (_amount, positive)
    none = "; none takes the limit away" if editing else ""
    parser.add_argument("--dollars", type=amount, default=None, help=f"that a run may cost{none}")
    parser.add_argument("--tokens", type=count, default=None, help=f"that a run may use{none}")
    parser.add_argument("--timeout", type=_seconds, default=None, metavar="TIME", help="default 1h")
    parser.add_argument("--overlap", choices=OVERLAP, default=None, help="with the run before")
    parser.add_argument("--catch-up", choices=CATCH_UP, default=None, help="after a downtime")
    parser.add_argument("--grace", type=_seconds, default=None, metavar="TIME", help="until late")
    parser.add_argument(
        "--incident", choices=("P0", "P1", "P2", "P3", *(("none",) if editing else ())),
        default=None, help="a run that fails is a signal of an incident of this severity",
    )  # fmt: skip
    flag("--keep-session", "all runs in one conversation")


def _seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `2h`, `1d`."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "s")
    try:
        return _amount(number) * _UNITS[unit]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90s, 15m or 2h") from None


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return amount


def _or_none(kind: Callable[[str], float]) -> Callable[[str], float | object]:
    def amount(text: str) -> float | object:
        return NONE if text == "none" else kind(text)

    return amount


def run(options: argparse.Namespace) -> int:
    return run_action(options)


# making and changing


def _add(api: RuntimeClient, options: argparse.Namespace) -> Row:
    when, words = _when(options), list(options.words)
    if not when and words:
        when = words.pop(0)
    prompt = words.pop(0) if words else ""
    if words:
        raise UsageError(
            f"one word too many: {words[0]!r}", "put the time and the prompt in quotes, each whole"
        )
    spec = {"prompt": prompt, **_spec(options)}
    given: Row = {"spec": spec, "when": when, "zone": options.zone, "key": os.urandom(16).hex()}
    shown: Row = api.post("/v1/jobs", given)
    if not options.json:
        print(job_text(shown, time.time()))
        if hint := _not_started_by_itself():
            print(f"hint: {hint}")
    return _flat(shown)


def _when(options: argparse.Namespace) -> str:
    if options.every:
        return f"every {options.every.removeprefix('every ')}"
    return str(options.cron or options.at or options.when)


def _spec(options: argparse.Namespace) -> Row:
    """The fields that were given."""
    given = {
        name: getattr(options, name)
        for name in (
            "name", "script", "policy", "workspace", "dollars", "tokens", "timeout", "overlap",
            "catch_up", "grace", "quiet", "script_only", "keep_session", "incident",
        )
    }  # fmt: skip
    if options.incident == "none":
        given["incident"] = ""
    if options.model is not None:
        given["model"] = absolute_model(options.model)
    if options.workspace:
        given["workspace"] = os.path.abspath(os.path.expanduser(options.workspace))
    for name in SEVERAL:
        words = getattr(options, name)
        given[name] = None if words is None else [one for one in words if one]
    kept = {name: value for name, value in given.items() if value is not None}
    return {name: None if value is NONE else value for name, value in kept.items()}


def _not_started_by_itself() -> str:
    """A hint where nothing starts the runtime after a reboot."""
    from hermes_agent.host.paths import unit_path

    if os.path.exists(unit_path(os.environ)):
        return ""
    return "nothing starts Hermes after a reboot: `hermes watch install` sees to it"


def _edit(api: RuntimeClient, options: argparse.Namespace) -> Row:
    spec = _spec(options)
    prompt = options.prompt if options.prompt is not None else options.words
    if prompt is not None:
        spec["prompt"] = prompt
    when = _when(options)
    if not spec and not when and not options.zone:
        raise UsageError("nothing is to be changed", "`hermes task edit --help` shows what can be")
    change: Row = {"spec": spec, "when": when, "zone": options.zone}
    return _told(options, api.patch(_path(options.job), change))


def _pause(api: RuntimeClient, options: argparse.Namespace) -> Row:
    return _told(options, api.patch(_path(options.job), {"paused": True}))


def _resume(api: RuntimeClient, options: argparse.Namespace) -> Row:
    return _told(options, api.patch(_path(options.job), {"paused": False}))


def _told(options: argparse.Namespace, shown: Row) -> Row:
    if not options.json:
        print(job_text(shown, time.time()))
    return _flat(shown)


def _remove(api: RuntimeClient, options: argparse.Namespace) -> Row:
    found: Row = api.get(_path(options.job))["job"]
    name = one_line(found["spec"].get("name", "") or found["id"])
    if not sure(f"Remove the job {name}?", options.yes):
        raise HermesError("nothing was removed", "--yes does it without a question")
    row: Row = api.delete(_path(found["id"]))
    if not options.json:
        print(f"{name} is removed; `hermes task history {found['id']}` still shows its runs")
        for one in _that_follow(api, found):
            print(f"warning: {one} comes after it, and goes on with its last result")
    return row


def _that_follow(api: RuntimeClient, removed: Row) -> list[str]:
    names = {removed["id"], removed["spec"].get("name", "")}
    jobs = [one["job"] for one in api.get("/v1/jobs")]
    return [
        one_line(job["spec"].get("name", "") or job["id"])
        for job in jobs
        if names & set(job["spec"].get("after", ()))
    ]


# looking


def _path(reference: str) -> str:
    if not reference.strip() or "/" in reference:
        raise NotFound(f"no job {reference!r}", "`hermes task list` lists them")
    return f"/v1/jobs/{quote(reference, safe='')}"


def _flat(shown: Row) -> Row:
    """One object: the job, and what is shown of it besides."""
    also = ("meaning", "results", "warnings", "runs")
    return {**shown["job"], **{key: shown[key] for key in also}}


def _list(api: RuntimeClient, options: argparse.Namespace) -> list[Row]:
    found: list[Row] = api.get("/v1/jobs", removed="true" if options.removed else "")
    if not options.json:
        print(jobs_text(found, time.time()))
    return [_flat(one) for one in found]


def _show(api: RuntimeClient, options: argparse.Namespace) -> Row:
    return _told(options, api.get(_path(options.job)))


def _history(api: RuntimeClient, options: argparse.Namespace) -> list[Row]:
    rows: list[Row] = api.get("/v1/runs", job=options.job, limit=options.limit)
    if not options.json:
        print(history_text(rows, time.time()))
    return rows


def _check(api: RuntimeClient, options: argparse.Namespace) -> list[str]:
    faults: list[str] = api.get("/v1/jobs/check")["faults"]
    if not options.json:
        print("\n".join(one_line(one, 300) for one in faults) or "every slot has its run")
    if faults and not options.json:
        raise HermesError(f"{len(faults)} things are wrong", "`hermes logs` may say more")
    return faults


# runs


def _run(api: RuntimeClient, options: argparse.Namespace) -> Row:
    row: Row = api.post(f"{_path(options.job)}/run")
    if options.follow:
        try:
            row = follow(api, row["id"], quiet=options.json)
        except RuntimeGone as gone:
            hint = f"the run goes on when one is up: `hermes task history {row['job']}`"
            raise HermesError(gone.message, hint) from None
        if row["state"] != "done":
            raise HermesError(
                f"run {row['id']} is {row['state']}: {one_line(row.get('error', ''), 300)}",
                f"`hermes task history {row['job']}`",
            )
    elif not options.json:
        print(f"run {row['id']} is asked for\nhint: `hermes task history {row['job']}` shows it")
    return row


def _decide(api: RuntimeClient, options: argparse.Namespace) -> Row:
    row: Row = api.post(f"/v1/runs/{options.run}/decide", {"decision": options.decision})
    if not options.json:
        print(f"run {row['id']} is {row['state']}")
    return row
