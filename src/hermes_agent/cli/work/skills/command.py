"""Skills: procedures written by you or by the agent, and what each is worth. Without an action, it
lists them.

A skill is a folder in `skills` of the home with a file SKILL.md, which you may edit by hand. One
that the agent learned is a candidate until it is proven: tasks are replayed with and without it,
and `report` shows the difference."""

import argparse
import os
import shlex
import sys
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.arguments import chosen_terminals, natural, positive, terminal_option
from hermes_agent.cli.output.events import Printer
from hermes_agent.cli.output.formatting import count, one_line, stamp, table
from hermes_agent.cli.talk.turn import follow_turn, report
from hermes_agent.cli.work.skills.edit import check, edit, new
from hermes_agent.cli.work.skills.show import (
    MAIN,
    PUT_AWAY,
    Row,
    file_text,
    report_text,
    skill_path,
    skill_text,
    skills_text,
    write_image,
)
from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.terminal import clean

STRAY_WORDS = "options go before a skill's name: hermes skills run --policy NAME SKILL ARG"

RUN_CODES = """\
Exit code 0 when it is done or there was nothing to do, 3 when it does not apply to this case, 1
when it stopped or failed, 2 when the command is wrong and nothing was started."""

ENDS = {"stopped:": 1, "this runbook is not for this case:": 3}
"""How the answer of an unfinished runbook begins, and its exit code."""


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list, all=False)
    _show_arguments(actions)
    _change_arguments(actions)
    run = add_action(actions, "run", _run, "follow a skill; a runbook needs no model", "name")
    run.description = f"{run.description}\n\n{RUN_CODES}"
    run.add_argument("arguments", nargs="*", metavar="ARG", help="its parameters, or NAME=VALUE")
    run.add_argument("--workspace", default="", help="working folder; default: this one")
    run.add_argument("--policy", default="", help="policy profile")
    terminal_option(run)
    run.add_argument("--anyway", action="store_true", help="even if it is not proven")
    run.add_argument("--quiet", action="store_true", help="print the answer and nothing else")
    lift = add_action(actions, "report", _report, "the measured effect of each skill")
    lift.add_argument("--image", default="", metavar="FILE.svg", help="also draw it as an image")
    add_action(
        actions, "prove", _prove, "replay its cases with and without it, in the background", "name"
    )


def _show_arguments(actions: Any) -> None:
    listing = add_action(actions, "list", _list, "skills in use")
    listing.add_argument("--all", action="store_true", help="also retired ones")
    show = add_action(actions, "show", _show, "one skill: its state and its text", "name")
    show.add_argument("--file", default="", metavar="FILE", help="another file of its folder")
    diff = add_action(actions, "diff", _diff, "compare two versions", "name")
    diff.add_argument(
        "versions", nargs="*", type=positive, metavar="VERSION", help="two; default: the last two"
    )
    add_action(actions, "log", _log, "its history", "name")


def _change_arguments(actions: Any) -> None:
    writing = add_action(actions, "new", new, "write a skill in $EDITOR", "name")
    writing.add_argument(
        "--description", default="", metavar="TEXT", help="what it does, and when to use it"
    )
    editing = add_action(actions, "edit", edit, "change a skill in $EDITOR", "name")
    editing.add_argument("--file", default=MAIN, metavar="FILE", help=f"default: {MAIN}")
    checking = add_action(actions, "check", check, "check a skill for errors")
    checking.add_argument(
        "name", metavar="NAME|FOLDER", help="a skill, or a folder that may be one"
    )
    retire = add_action(actions, "retire", _retire, "stop using a skill; nothing is lost", "name")
    retire.add_argument("--why", default="", metavar="TEXT", help="the reason, for its log")
    restore = add_action(
        actions, "restore", _restore, "restore a skill, or an earlier version", "name"
    )
    restore.add_argument("version", nargs="?", type=natural, default=0, metavar="VERSION")


# showing


def _list(options: argparse.Namespace) -> int:
    rows = connect().get("/v1/skills")
    shown = rows if options.all else [row for row in rows if row["state"] not in PUT_AWAY]
    text = skills_text(shown)
    if hidden := len(rows) - len(shown):
        text += f"\n{count(hidden, 'skill')} not in use; `hermes skills list --all` shows all"
    return emit(options, shown, text)


def _show(options: argparse.Namespace) -> int:
    found = connect().get(skill_path(options.name))
    if not options.file:
        return emit(options, found, skill_text(found))
    text = file_text(found, options.file)
    document = {"name": options.name, "file": options.file, "text": text}
    return emit(options, document, clean(text).removesuffix("\n"))


def _diff(options: argparse.Namespace) -> int:
    if len(options.versions) not in (0, 2):
        raise UsageError(
            "diff takes two versions or none", f"`hermes skills diff {options.name} 1 2`"
        )
    a, b = options.versions or (0, 0)
    found = connect().get(f"{skill_path(options.name)}/diff", a=a, b=b)
    return emit(options, found, clean(found["diff"]).rstrip("\n") or "they are the same")


def _log(options: argparse.Namespace) -> int:
    changes = connect().get(f"{skill_path(options.name)}/log")
    cells = [
        (stamp(row["time"]), one_line(row["what"], 40), one_line(row["by"], 30) or "-",
         one_line(row["why"], 200))
        for row in changes
    ]  # fmt: skip
    return emit(options, changes, table(("when", "what", "by", "why"), cells))


def _report(options: argparse.Namespace) -> int:
    rows = connect().get("/v1/skill-report")
    if options.image:
        write_image(rows, options.image)
    return emit(options, rows, report_text(rows))


# changing


def _prove(options: argparse.Namespace) -> int:
    done = connect().post(f"{skill_path(options.name)}/prove")
    hint = f"`hermes skills log {options.name}` shows the result"
    return emit(options, done, f"proving {options.name} in the background\nhint: {hint}")


def _retire(options: argparse.Namespace) -> int:
    record = connect().post(f"{skill_path(options.name)}/retire", {"why": options.why})
    hint = f"`hermes skills restore {record['name']}` brings it back"
    return emit(options, record, f"{record['name']} is retired\nhint: {hint}")


def _restore(options: argparse.Namespace) -> int:
    body: dict[str, object] = {"version": options.version}
    record = connect().post(f"{skill_path(options.name)}/restore", body)
    text = f"{record['name']} is {record['state']}, version {record['version']}"
    return emit(options, record, text)


# running


def _run(options: argparse.Namespace) -> int:
    api = connect()
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
    sent = api.post(f"{skill_path(options.name)}/run", body)
    outcome = follow_turn(api, {"after": 0, **sent}, printer, interactive=interactive)
    return run_code(outcome, options.json, printer)


def run_code(outcome: Row, as_json: bool, printer: Printer) -> int:
    """Print how a run ended; its exit code."""
    text = outcome.get("text") or ""
    code = next((code for begin, code in ENDS.items() if text.startswith(begin)), 0)
    shown = outcome if as_json else {**outcome, "text": clean(text)}
    ok = outcome.get("reason") == "done" and not code
    return code if report(shown, as_json, printer, ok=ok) else 1
