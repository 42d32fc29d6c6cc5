"""`hermes skills new | edit | check`: write a skill in an editor and check it before it is used."""

import argparse
import os
import sys

from hermes_agent.cli.actions import connect, emit
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.editor import edited, has_terminal, save_draft_on_error
from hermes_agent.cli.work.skills.show import MAIN, Row, file_text, problem_lines, skill_path
from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.terminal import clean

Files = dict[str, str]

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
            "say what the skill does and when to use it",
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


def _edited(api: RuntimeClient, name: str, files: Files, path: str) -> str:
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


# checking


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
