"""The agent's tools: the built-in ones, and those it wrote itself, with their versions.

Written tools are in `tools/NAME.py` of the home. If you change one there, it is checked in a
sandbox before it is used again, and becomes a new version."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.actions import add_action, add_actions, emit
from hermes_agent.cli.arguments import positive
from hermes_agent.cli.home import home_and_settings, home_folder
from hermes_agent.cli.output.formatting import one_line, stamp, table
from hermes_agent.core.errors import NotFound, ToolError, UsageError
from hermes_agent.core.text.terminal import clean

if TYPE_CHECKING:
    from hermes_agent.agent.authored_tools.service import AuthoredTools
    from hermes_agent.agent.authored_tools.store import AuthoredToolStore, ToolRecord

PERSON = "person"


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list)
    add_action(actions, "list", _list, "all tools")
    add_action(actions, "show", _show, "one tool: its state and its code", "name")
    diff = add_action(actions, "diff", _diff, "compare two versions of a written tool", "name")
    diff.add_argument(
        "versions", nargs="*", type=positive, metavar="VERSION",
        help="two versions; default: the last two, or a change by hand",
    )  # fmt: skip
    back = add_action(actions, "rollback", _rollback, "restore a version of a written tool", "name")
    back.add_argument(
        "version", nargs="?", type=positive, metavar="VERSION",
        help="default: the last good one before the current",
    )  # fmt: skip
    off = add_action(actions, "disable", _switch, "stop using a written tool", "name")
    off.set_defaults(on=False)
    on = add_action(actions, "enable", _switch, "use a written tool again", "name")
    on.set_defaults(on=True)
    add_action(actions, "log", _log, "the history of a written tool", "name")
    check = add_action(actions, "check", _check, "check a written tool in a sandbox")
    check.add_argument("name", metavar="NAME|FILE", help="a tool, or a file that may become one")


def _tool_store() -> "AuthoredToolStore":
    import time

    from hermes_agent.agent.authored_tools.store import AuthoredToolStore

    return AuthoredToolStore(home_folder() / "tools", time.time)


# showing


def _list(options: argparse.Namespace) -> int:
    rows = [*_builtin(), *_written(_tool_store())]
    cells = [
        (row["name"], row["toolset"], row["origin"], ", ".join(row["capabilities"]) or "-",
         _standing(row))
        for row in rows
    ]  # fmt: skip
    text = table(("tool", "toolset", "origin", "touches", ""), cells)
    hint = "`hermes config set tools.use` chooses tools or toolsets for new sessions"
    return emit(options, rows, f"{text}\n{hint}")


def _builtin() -> list[dict[str, Any]]:
    from hermes_agent.runtime.tools.builtin import facts

    return [
        {
            "name": one.name,
            "toolset": one.toolset,
            "origin": "builtin",
            "capabilities": list(one.capabilities),
            "about": one.description,
            "missing": one.missing,
        }
        for one in facts(home_and_settings()[1])
    ]


def _written(tool_store: "AuthoredToolStore") -> list[dict[str, Any]]:
    from hermes_agent.runtime.tools.builtin import TABLE

    names = sorted({*tool_store.names(), *tool_store.records()})
    return [_row(tool_store, name, name in TABLE) for name in names]


def _row(tool_store: "AuthoredToolStore", name: str, taken: bool) -> dict[str, Any]:
    record = tool_store.record(name)
    hidden = "hidden by a built-in tool of the same name"
    return {
        "name": name,
        "toolset": "-",
        "origin": "written",
        "capabilities": [],
        "version": record.current,
        "versions": len(record.versions),
        "state": hidden if taken else _state(tool_store, name, record),
        "uses": record.uses,
        "failures": record.failures,
    }


def _state(tool_store: "AuthoredToolStore", name: str, record: "ToolRecord") -> str:
    """Its state, without changing anything."""
    from hermes_agent.agent.authored_tools.store import digest_of

    if record.disabled == "person":
        return "disabled"
    try:
        code = tool_store.read(name)
    except ToolError as error:
        return f"not used: {error.message}"
    if code is None:
        return "removed"
    now = record.version
    if now is None or now.digest != digest_of(code):
        return "changed, not checked yet"
    if record.disabled:
        return f"disabled, it failed: {now.failed}"
    failed = [one.number for one in record.versions if one.failed]
    if failed and failed[-1] > now.number:
        return f"rolled back, version {failed[-1]} failed"
    return "ready"


def _standing(row: dict[str, Any]) -> str:
    if row["origin"] == "builtin":
        return f"needs {row['missing']}" if row["missing"] else one_line(row["about"], 80)
    return one_line(
        f"version {row['version']}, {row['state']}; {row['uses']} uses, {row['failures']} failed",
        160,
    )


def _show(options: argparse.Namespace) -> int:
    row = next((row for row in _builtin() if row["name"] == options.name), None)
    if row is None:
        return _show_written(options, _tool_store())
    lines = [
        f"{row['name']}: built in, toolset {row['toolset']}",
        f"touches: {', '.join(row['capabilities']) or 'nothing by itself'}",
        *[f"needs {row['missing']}"] * bool(row["missing"]),
        f"\n{row['about']}",
    ]
    return emit(options, row, "\n".join(lines))


def _show_written(options: argparse.Namespace, tool_store: "AuthoredToolStore") -> int:
    _known(tool_store, options.name)
    code = tool_store.read(options.name)
    row = _row(tool_store, options.name, taken=False)
    text = code.decode(errors="replace") if code is not None else ""
    path = f"{tool_store.folder / options.name}.py"
    shown = f"{row['name']}: {_standing(row)}\n{path}\n\n{clean(text)}".rstrip("\n")
    return emit(options, {**row, "code": text}, shown)


def _known(tool_store: "AuthoredToolStore", name: str) -> "ToolRecord":
    """The record of a written tool; raises when there never was one."""
    from hermes_agent.agent.authored_tools.signature import check_name

    try:
        check_name(name)
    except ToolError as error:
        raise UsageError(error.message, "`hermes tools list` shows the names") from None
    record = tool_store.record(name)
    if not record.versions and tool_store.read(name) is None:
        raise NotFound(f"no written tool called {name!r}", "`hermes tools list` shows all")
    return record


def _diff(options: argparse.Namespace) -> int:
    from difflib import unified_diff

    (old, before), (new, after) = _sides(_tool_store(), options.name, options.versions)
    lines = list(
        unified_diff(
            before.decode(errors="replace").splitlines(),
            after.decode(errors="replace").splitlines(),
            f"{options.name} {old}",
            f"{options.name} {new}",
            lineterm="",
        )
    )
    text = clean("\n".join(lines)) if lines else f"{old} and {new} are the same"
    return emit(options, {"from": old, "to": new, "diff": lines}, text)


def _sides(
    tool_store: "AuthoredToolStore", name: str, versions: Sequence[int]
) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    from hermes_agent.agent.authored_tools.store import digest_of

    record = _known(tool_store, name)
    if len(versions) not in (0, 2):
        raise UsageError("diff takes two versions or none", f"`hermes tools diff {name} 1 2`")
    if versions:
        first, second = versions
        return _side(tool_store, name, first), _side(tool_store, name, second)
    code = tool_store.read(name)
    if code is not None and record.of(digest_of(code)) is None:
        now = _side(tool_store, name, record.current) if record.current else ("nothing", b"")
        return now, ("the file", code)
    earlier = [one.number for one in record.versions if one.number < record.current]
    if not earlier:
        raise NotFound(
            f"{name} has no version before {record.current}", f"`hermes tools show {name}`"
        )
    return _side(tool_store, name, earlier[-1]), _side(tool_store, name, record.current)


def _side(tool_store: "AuthoredToolStore", name: str, number: int) -> tuple[str, bytes]:
    return f"version {number}", tool_store.code(name, number)


def _log(options: argparse.Namespace) -> int:
    import msgspec

    tool_store = _tool_store()
    _known(tool_store, options.name)
    entries = tool_store.log(options.name)
    cells = [
        (stamp(one.time), one.what, str(one.version), clean(one.by) or "-", one_line(one.why, 160))
        for one in entries
    ]
    text = table(("when", "what", "version", "by", "why"), cells)
    return emit(options, msgspec.to_builtins(entries), text)


# changing


def _rollback(options: argparse.Namespace) -> int:
    tool_store, name = _tool_store(), options.name
    _known(tool_store, name)
    version = tool_store.roll_back(name, options.version, PERSON).number
    return emit(options, {"name": name, "version": version}, f"{name} is back to version {version}")


def _switch(options: argparse.Namespace) -> int:
    tool_store, name = _tool_store(), options.name
    _known(tool_store, name)
    tool_store.switch(name, options.on, PERSON)
    text = f"{name} is {'enabled' if options.on else 'disabled'}"
    return emit(options, {"name": name, "enabled": options.on}, text)


def _check(options: argparse.Namespace) -> int:
    import asyncio

    tools = _tools()
    file = Path(options.name).expanduser()
    if file.suffix == ".py" or "/" in options.name:
        try:
            code = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {file}: {error}", "name a tool or a file") from None
        name, version = file.stem, 0
        asyncio.run(tools.examine(name, code))
    else:
        name = options.name
        _known(tools.tool_store, name)
        version = asyncio.run(_checked(tools, name))
    text = f"{name} passes" + (f": version {version}" if version else "")
    return emit(options, {"name": name, "version": version, "ok": True}, text)


async def _checked(tools: "AuthoredTools", name: str) -> int:
    seen = tools.tool_store.look(name)
    if seen is not None and seen.version:
        await tools.examine(name, seen.code.decode())
        return seen.version
    return (await tools.check(name)).version


def _tools() -> "AuthoredTools":
    import time

    from hermes_agent.agent.authored_tools.service import AuthoredTools
    from hermes_agent.policy.redaction.redactor import Redactor
    from hermes_agent.runtime.tools.builtin import TABLE
    from hermes_agent.terminals.code_sandbox.runner import CodeSandboxRunner

    home, settings = home_and_settings()
    sandbox = CodeSandboxRunner(home / "workers", os.environ)
    return AuthoredTools(
        home / "tools",
        workers=lambda: sandbox,
        settings=lambda: settings,
        taken=TABLE.keys,
        clock=time.time,
        redact=Redactor(os.environ),
    )
