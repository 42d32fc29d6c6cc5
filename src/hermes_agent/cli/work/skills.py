"""Skills: procedures written by you or by the agent, and how well each works. Without an action, it
lists them.

A skill is a folder in `skills` of the home with a file SKILL.md, which you may edit by hand. One
that the agent learned is a candidate until it is proven: tasks are replayed with and without it,
and `report` shows the difference."""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.arguments import chosen_terminals, natural, positive, terminal_option
from hermes_agent.cli.client.api import RuntimeClient, resource_path
from hermes_agent.cli.output.editor import edited, has_terminal, save_draft_on_error
from hermes_agent.cli.output.events import Printer
from hermes_agent.cli.output.formatting import count, one_line, stamp, table
from hermes_agent.cli.talk.turn import follow_turn, report
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.text.terminal import clean

Row = dict[str, Any]

PUT_AWAY = ("demoted", "retired", "quarantined")
MAIN = "SKILL.md"
WIDEST = 100

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
    run.add_argument("--anyway", action="store_true", help="even if the skill is not proven")
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
    retire = add_action(
        actions, "retire", _retire, "stop using a skill; it can be restored", "name"
    )
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
    return emit(options, found, clean(found["diff"]).rstrip("\n") or "the versions are identical")


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
    text = (
        f"proving {options.name} in the background\n"
        f"it may use {done['most_tokens']:,} tokens a day (learning.proof_share) and continues the "
        f"next day; of {done['day_tokens']:,}, learning has {done['left_tokens']:,} left today"
    )
    hint = f"`hermes skills log {options.name}` shows the result"
    return emit(options, done, f"{text}\nhint: {hint}")


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


# as text


def skill_path(name: str) -> str:
    return resource_path("skills", name, "skill", "skills")


def skills_text(rows: list[Row]) -> str:
    if not rows:
        return "no skills\nhint: `hermes skills new NAME` writes one"
    cells = [
        (one_line(row["name"], 40), row["state"], str(row["version"]), row["by"], str(row["uses"]),
         _about(row))
        for row in rows
    ]  # fmt: skip
    return table(("skill", "state", "version", "by", "uses", ""), cells)


def _about(row: Row) -> str:
    notes = []
    if row["state"] in PUT_AWAY and row["reason"]:
        notes.append(f"{one_line(row['reason'])};")
    if row["broken"]:
        notes.append(f"cannot be used, `hermes skills check {one_line(row['name'])}`;")
    if row["runbook"]:
        notes.append("(needs no model)")
    return " ".join([*notes, one_line(row["description"], 200)])


def file_text(found: Row, path: str) -> str:
    """A file in a skill's folder, which is on this machine like the runtime."""
    name = found["record"]["name"]
    if path == MAIN:
        return str(found["text"])
    if path not in found["files"]:
        raise NotFound(f"{name} has no file {path!r}", f"it has: {', '.join(found['files'])}")
    if not found["folder"]:
        raise HermesError(
            f"the folder of {name} is gone", f"`hermes skills restore {name}` brings it back"
        )
    try:
        with open(os.path.join(found["folder"], path), encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise HermesError(f"cannot read {path}: {error}", f"it is in {found['folder']}") from None


def skill_text(found: Row) -> str:
    record = found["record"]
    model = f" ({one_line(record['model'])})" if record["model"] else ""
    why = f": {one_line(record['reason'], 300)}" if record["reason"] else ""
    number = f"{record['version']} of {len(found['versions'])}"
    lines = [
        f"{record['name']}, {record['state']}{why}",
        f"version    {number}, {stamp(record['changed'])} by {record['by']}{model}",
        f"folder     {clean(found['folder'])}",
    ]
    others = [path for path in found["files"] if path != MAIN]
    if others:
        lines.append(f"files      {one_line(', '.join(others), 400)}")
    if found["runbook"]:
        lines.append(f"runbook    `hermes skills run {record['name']}` needs no model")
    lines += [f"parameter  {_parameter(one)}" for one in found["parameters"]]
    if places := found.get("places"):
        lines.append(f"only in    {one_line(places, 400)}")
    lines += [f"only       {line}" for line in _bounds(found["bounds"])]
    lines.append(f"cases      {found['cases']}")
    lines += [line for one in found["problems"] for line in problem_lines(one)]
    return "\n".join([*lines, "", clean(found["text"]).rstrip("\n")])


def _parameter(one: Row) -> str:
    default = f"default {one['default']!r}" if one.get("default") else "optional"
    kind = "required" if one.get("required", True) else default
    return one_line(f"{one['name']} ({kind}): {one.get('about', '')}".rstrip(": "), 200)


def _bounds(bounds: Row | None) -> list[str]:
    """What the skill may do while it is active."""
    return [
        f"{what}: {one_line(', '.join(bounds[what]), 4_000)}"
        for what in ("tools", "paths", "hosts")
        if bounds and bounds.get(what)
    ]


def problem_lines(problem: Row) -> list[str]:
    lines = [f"{problem['severity']}: {one_line(problem['message'], 400)}"]
    if problem["hint"]:
        lines.append(f"    hint: {one_line(problem['hint'], 400)}")
    return lines


# the report


def report_text(rows: Sequence[Mapping[str, Any]]) -> str:
    from hermes_agent.learning.evaluation.table import report

    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    return report(rows, width=width, plain=not can_draw(sys.stdout.encoding, os.environ))


def can_draw(encoding: str | None, environ: Mapping[str, str]) -> bool:
    """Whether bars and dots can be shown."""
    try:
        "●▁┄".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return environ.get("TERM") != "dumb"


def write_image(rows: Sequence[Mapping[str, Any]], path: str) -> None:
    from hermes_agent.learning.evaluation.table import picture

    if not path.endswith(".svg"):
        raise UsageError(f"not an SVG file name: {path!r}", "name it FILE.svg")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture(rows))
    except OSError as error:
        raise HermesError(f"cannot write {path}: {error.strerror}", "name another file") from None
    print(f"wrote {path}", file=sys.stderr)


# writing and checking

CHECKED = ("skill.md", "runbook.yaml")
"""Files whose errors make a skill unusable."""

TEMPLATE = """\
---
name: {name}
description: {description}
---

# {title}

## When to Use

- {when}

## Procedure

1. Look first: what is the current state?
2. …

## Pitfalls

- …

## Verification

- How to see that it worked.
"""
"""The minimum; the bundled skill `write-a-skill` says more."""

UNDESCRIBED = "Say what it does. Use it when …"


def template(name: str, description: str) -> str:
    import json

    said = description or UNDESCRIBED
    return TEMPLATE.format(
        name=name,
        description=json.dumps(said, ensure_ascii=False),  # valid YAML, too
        title=name.replace("-", " ").capitalize(),
        when=said,
    )


def new(options: argparse.Namespace) -> int:
    opens = has_terminal() and not options.json
    if not opens and not options.description.strip():
        raise UsageError(
            "a skill needs a description of what it does and when to use it",
            f'hermes skills new {options.name} --description "…"',
        )
    api = connect()
    if any(row["name"] == options.name for row in api.get("/v1/skills")):
        raise UsageError(
            f"a skill called {options.name!r} already exists",
            f"`hermes skills edit {options.name}` changes it",
        )
    files = {MAIN: template(options.name, options.description.strip())}
    if not opens:
        return _save(api, options, {"files": files, "why": "written by hand"})
    text = _edited(api, options.name, files, MAIN)
    with save_draft_on_error(text, MAIN):
        if UNDESCRIBED in text:
            raise UsageError("the skill has no description; it was not saved", "describe it")
        return _save(api, options, {"files": {MAIN: text}, "why": "written by hand"})


def edit(options: argparse.Namespace) -> int:
    api = connect()
    found = api.get(skill_path(options.name))
    if options.file not in found["files"]:
        given = ", ".join(found["files"])
        raise UsageError(f"{options.name} has no file {options.file!r}", f"it has: {given}")
    looked_at = (options.file, *(path for path in found["files"] if path.lower() in CHECKED))
    files = {path: file_text(found, path) for path in looked_at}
    text = _edited(api, options.name, files, options.file)
    if text == files[options.file]:
        return emit(options, found["record"], "nothing was changed")
    changed: dict[str, object] = {
        "files": {options.file: text},
        "why": "changed by hand",
        "keep": True,  # the other files, which may not be text
        "base": found["record"]["digest"],
    }
    with save_draft_on_error(text, options.file):
        return _save(api, options, changed)


def _edited(api: RuntimeClient, name: str, files: dict[str, str], path: str) -> str:
    """Edit one of the files until it has no errors or the user gives up."""
    while True:
        files = {**files, path: edited(files[path], path)}
        problems = api.post("/v1/skills/check", {"name": name, "files": files})["problems"]
        errors = [one for one in problems if one["severity"] == "error"]
        if not errors:
            return files[path]
        for line in (line for one in errors for line in problem_lines(one)):
            print(line, file=sys.stderr)
        with save_draft_on_error(files[path], path):
            if not has_terminal() or not _again():
                raise UsageError(f"{path} has errors; nothing was changed")


def _again() -> bool:
    print("edit it again? [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() not in ("n", "no")


def _save(api: RuntimeClient, options: argparse.Namespace, change: dict[str, object]) -> int:
    record = api.post("/v1/skills", {"name": options.name, **change})
    found = api.get(skill_path(options.name))
    lines = [
        f"{record['name']} is {record['state']}, version {record['version']}",
        clean(os.path.join(found["folder"], MAIN)),
        *(line for one in found["problems"] for line in problem_lines(one)),
    ]
    return emit(options, record, "\n".join(lines))


def check(options: argparse.Namespace) -> int:
    """A folder is checked here and needs no runtime."""
    folder = os.path.expanduser(options.name)
    if "/" in options.name or os.path.isfile(os.path.join(folder, MAIN)):
        problems = _in_folder(folder)
    else:
        problems = connect().post("/v1/skills/check", {"name": options.name})["problems"]
    ok = not any(one["severity"] == "error" for one in problems)
    lines = [line for one in problems for line in problem_lines(one)]
    document = {"name": options.name, "ok": ok, "problems": problems}
    text = "\n".join(lines) or f"{clean(options.name)} has no problems"
    return emit(options, document, text, 0 if ok else 1)


def _in_folder(folder: str) -> list[Row]:
    from pathlib import Path

    from hermes_agent.learning.skills.file import problems

    if not os.path.isdir(folder):
        raise UsageError(f"no folder {folder}", "name a skill, or a folder with a SKILL.md")
    return [
        {"severity": one.severity, "message": one.message, "hint": one.hint}
        for one in problems(Path(folder))
    ]
