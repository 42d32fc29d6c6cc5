"""Skills: procedures that were written down, by you or by the agent, and what each is worth. Alone,
it lists them.

A skill is a folder in `skills` of the home, with a file SKILL.md; you may change it there by hand.
One that the agent learned is a candidate until it has proved itself: tasks are replayed with and
without it, and `report` shows what it changes."""

import argparse
from typing import Any

from hermes_agent.cli.actions import add_action, runtime
from hermes_agent.cli.arguments import json_option, natural, positive, terminal_option
from hermes_agent.cli.output.formatting import print_json, stamp, table
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.cli.work.skills.edit import check, edit, new
from hermes_agent.cli.work.skills.show import (
    MAIN,
    PUT_AWAY,
    file_text,
    skill_path,
    skill_text,
    skills_text,
)
from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.terminal import clean

STRAY_WORDS = "options go before a skill's name: hermes skills run --policy NAME SKILL ARG"

RUN_CODES = """\
Exit code 0 when it is done or there was nothing to do, 3 when it is not for this case, 1 when it
stopped or failed, 2 when it was not begun because the command is not right."""


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list, all=False)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    _looking(actions)
    _changing(actions)
    run = _action(actions, "run", _run, "do what a skill says; a runbook needs no model")
    run.description = f"{run.description}\n\n{RUN_CODES}"
    run.add_argument("arguments", nargs="*", metavar="ARG", help="its parameters, or NAME=VALUE")
    run.add_argument("--workspace", default="", help="where to work; default: this folder")
    run.add_argument("--policy", default="", help="policy profile")
    terminal_option(run)
    run.add_argument("--anyway", action="store_true", help="also when it is not proven")
    run.add_argument("--quiet", action="store_true", help="print the answer and nothing else")
    report = _action(actions, "report", _report, "what each skill changes, measured", named=False)
    report.add_argument("--image", default="", metavar="FILE.svg", help="also draw it as an image")
    _action(actions, "prove", _prove, "replay its cases with and without it, in the background")


def _looking(actions: Any) -> None:
    listing = _action(actions, "list", _list, "those that are in use", named=False)
    listing.add_argument("--all", action="store_true", help="also those that were put away")
    show = _action(actions, "show", _show, "one skill: what is known of it, and its text")
    show.add_argument("--file", default="", metavar="FILE", help="another file of its folder")
    diff = _action(actions, "diff", _diff, "what two versions differ in")
    diff.add_argument(
        "versions", nargs="*", type=positive, metavar="VERSION", help="two of them; else the last"
    )
    _action(actions, "log", _log, "what became of it")


def _changing(actions: Any) -> None:
    writing = _action(actions, "new", new, "write one; $EDITOR opens")
    writing.add_argument(
        "--description", default="", metavar="TEXT", help="what it does, and when to use it"
    )
    editing = _action(actions, "edit", edit, "change one in $EDITOR")
    editing.add_argument("--file", default=MAIN, metavar="FILE", help=f"default: {MAIN}")
    checking = _action(actions, "check", check, "look for what is wrong", named=False)
    checking.add_argument(
        "name", metavar="NAME|FOLDER", help="a skill, or a folder that may be one"
    )
    retire = _action(actions, "retire", _retire, "put one away; nothing is lost")
    retire.add_argument("--why", default="", metavar="TEXT", help="kept in its log")
    restore = _action(actions, "restore", _restore, "bring one back, or an earlier version of it")
    restore.add_argument("version", nargs="?", type=natural, default=0, metavar="VERSION")


def _action(
    actions: Any, name: str, act: Any, summary: str, *, named: bool = True
) -> argparse.ArgumentParser:
    made = add_action(actions, name, act, summary)
    if named:
        made.add_argument("name", metavar="NAME", help="the skill")
    return made


def run(options: argparse.Namespace) -> int:
    return int(options.act(options) or 0)


# looking


def _list(options: argparse.Namespace) -> None:
    rows = runtime().get("/v1/skills")
    shown = rows if options.all else [row for row in rows if row["state"] not in PUT_AWAY]
    if options.json:
        print_json(shown)
        return
    print(skills_text(shown))
    if hidden := len(rows) - len(shown):
        some = "1 is" if hidden == 1 else f"{hidden} are"
        print(f"{some} put away; `hermes skills list --all` shows them too")


def _show(options: argparse.Namespace) -> None:
    found = runtime().get(skill_path(options.name))
    if options.file:
        text = file_text(found, options.file)
        if options.json:
            print_json({"name": options.name, "file": options.file, "text": text})
        else:
            print(clean(text), end="" if text.endswith("\n") else "\n")
    elif options.json:
        print_json(found)
    else:
        print(skill_text(found))


def _diff(options: argparse.Namespace) -> None:
    if len(options.versions) not in (0, 2):
        raise UsageError(
            "diff takes two versions or none", f"`hermes skills diff {options.name} 1 2`"
        )
    a, b = options.versions or (0, 0)
    told = runtime().get(f"{skill_path(options.name)}/diff", a=a, b=b)
    if options.json:
        print_json(told)
    else:
        print(clean(told["diff"]).rstrip("\n") or "they are the same")


def _log(options: argparse.Namespace) -> None:
    changes = runtime().get(f"{skill_path(options.name)}/log")
    if options.json:
        print_json(changes)
        return
    cells = [
        (stamp(row["time"]), one_line(row["what"], 40), one_line(row["by"], 30) or "-",
         one_line(row["why"], 200))
        for row in changes
    ]  # fmt: skip
    print(table(("when", "what", "by", "why"), cells))


def _report(options: argparse.Namespace) -> None:
    rows = runtime().get("/v1/skill-report")
    if options.image:
        from hermes_agent.cli.work.skills.report import write_image

        write_image(rows, options.image)
    if options.json:
        print_json(rows)
    else:
        from hermes_agent.cli.work.skills.report import report_text

        print(report_text(rows))


# changing


def _run(options: argparse.Namespace) -> int:
    from hermes_agent.cli.work.skills.run import run_skill

    return run_skill(runtime(), skill_path(options.name), options)


def _prove(options: argparse.Namespace) -> None:
    told = runtime().post(f"{skill_path(options.name)}/prove")
    if options.json:
        print_json(told)
    else:
        print(f"{options.name} is put to the proof in the background")
        print(f"hint: `hermes skills log {options.name}` tells what comes of it")


def _retire(options: argparse.Namespace) -> None:
    record = runtime().post(f"{skill_path(options.name)}/retire", {"why": options.why})
    if options.json:
        print_json(record)
    else:
        print(f"{record['name']} is put away")
        print(f"hint: `hermes skills restore {record['name']}` brings it back")


def _restore(options: argparse.Namespace) -> None:
    body: dict[str, object] = {"version": options.version}
    record = runtime().post(f"{skill_path(options.name)}/restore", body)
    if options.json:
        print_json(record)
    else:
        print(f"{record['name']} is {record['state']}, version {record['version']}")
