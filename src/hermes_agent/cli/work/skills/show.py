"""Skills as commands print them, the report on their effect, and their addresses."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_agent.cli.client.api import resource_path
from hermes_agent.cli.output.formatting import one_line, stamp, table
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.text.terminal import clean

Row = dict[str, Any]

PUT_AWAY = ("demoted", "retired", "quarantined")
MAIN = "SKILL.md"
WIDEST = 100


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
    lines += [f"only       {line}" for line in _bounds(found["bounds"])]
    lines.append(f"cases      {found['cases']}")
    lines += [line for one in found["problems"] for line in problem_lines(one)]
    return "\n".join([*lines, "", clean(found["text"]).rstrip("\n")])


def _parameter(one: Row) -> str:
    default = f"default {one['default']!r}" if one.get("default") else "optional"
    kind = "required" if one["required"] else default
    return one_line(f"{one['name']} ({kind}): {one['about']}", 200)


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
