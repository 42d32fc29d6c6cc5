"""`hermes skills new | edit | check`: a skill's text, written in an editor and looked over before
it is used."""

import argparse
import os
import sys

from hermes_agent.cli.actions import runtime
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.editor import edited, has_terminal, save_draft_on_error
from hermes_agent.cli.output.formatting import print_json
from hermes_agent.cli.work.skills.show import (
    MAIN,
    Row,
    file_text,
    problem_lines,
    skill_path,
)
from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.terminal import clean

Files = dict[str, str]

CHECKED = ("skill.md", "runbook.yaml")
"""Files in which something can be so wrong that a skill cannot be used."""

TEMPLATE = """\
---
name: {name}
description: {description}
---

# {title}

## When to Use

- {when}

## Procedure

1. Look first: what is the state of things?
2. …

## Pitfalls

- …

## Verification

- How to see that it worked.
"""
"""As little as a skill needs; the bundled skill `write-a-skill` says more."""

UNDESCRIBED = "Say what it does. Use it when …"


def template(name: str, description: str) -> str:
    import json

    said = description or UNDESCRIBED
    return TEMPLATE.format(
        name=name,
        description=json.dumps(said, ensure_ascii=False),  # which YAML reads as it is
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
    api = runtime()
    if any(row["name"] == options.name for row in api.get("/v1/skills")):
        raise UsageError(
            f"there is a skill called {options.name!r} already",
            f"`hermes skills edit {options.name}` changes it",
        )
    files = {MAIN: template(options.name, options.description.strip())}
    if not opens:
        return _keep(api, options, {"files": files, "why": "written by hand"})
    text = _written(api, options.name, files, MAIN)
    with save_draft_on_error(text, MAIN):
        if UNDESCRIBED in text:
            raise UsageError("the skill is not described; it was not kept", "describe it")
        return _keep(api, options, {"files": {MAIN: text}, "why": "written by hand"})


def edit(options: argparse.Namespace) -> int:
    api = runtime()
    found = api.get(skill_path(options.name))
    if options.file not in found["files"]:
        given = ", ".join(found["files"])
        raise UsageError(f"{options.name} has no file {options.file!r}", f"it has: {given}")
    looked_at = (options.file, *(path for path in found["files"] if path.lower() in CHECKED))
    files = {path: file_text(found, path) for path in looked_at}
    text = _written(api, options.name, files, options.file)
    if text == files[options.file]:
        if options.json:
            print_json(found["record"])
        else:
            print("nothing was changed")
        return 0
    changed: dict[str, object] = {
        "files": {options.file: text},
        "why": "changed by hand",
        "keep": True,  # the other files, which may be no text
        "base": found["record"]["digest"],
    }
    with save_draft_on_error(text, options.file):
        return _keep(api, options, changed)


def _written(api: RuntimeClient, name: str, files: Files, path: str) -> str:
    """What the editor made of one of the files, again and again until it is well or left."""
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
                raise UsageError(f"{path} is not right; nothing was changed")


def _again() -> bool:
    print("edit it again? [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() not in ("n", "no")


def _keep(api: RuntimeClient, options: argparse.Namespace, change: dict[str, object]) -> int:
    record = api.post("/v1/skills", {"name": options.name, **change})
    if options.json:
        print_json(record)
        return 0
    found = api.get(skill_path(options.name))
    print(f"{record['name']} is {record['state']}, version {record['version']}")
    print(clean(os.path.join(found["folder"], MAIN)))
    for line in (line for one in found["problems"] for line in problem_lines(one)):
        print(line)
    return 0


# checking


def check(options: argparse.Namespace) -> int:
    """A folder is looked at here and needs no runtime."""
    folder = os.path.expanduser(options.name)
    if "/" in options.name or os.path.isfile(os.path.join(folder, MAIN)):
        problems = _in_folder(folder)
    else:
        problems = _of_skill(options.name)
    ok = not any(one["severity"] == "error" for one in problems)
    if options.json:
        print_json({"name": options.name, "ok": ok, "problems": problems})
    else:
        for line in (line for one in problems for line in problem_lines(one)):
            print(line)
        if not problems:
            print(f"{clean(options.name)} is well")
    return 0 if ok else 1


def _of_skill(name: str) -> list[Row]:
    problems: list[Row] = runtime().post("/v1/skills/check", {"name": name})["problems"]
    return problems


def _in_folder(folder: str) -> list[Row]:
    from pathlib import Path

    from hermes_agent.learning.skills.file import problems

    if not os.path.isdir(folder):
        raise UsageError(f"no folder {folder}", "name a skill, or a folder with a SKILL.md")
    return [
        {"severity": one.severity, "message": one.message, "hint": one.hint}
        for one in problems(Path(folder))
    ]
