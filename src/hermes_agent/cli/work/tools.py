"""The tools that the agent has: those built in, and those that it wrote itself, with their
versions.

Written tools lie in `tools/NAME.py` of the home. You may change one there: it is checked in a
sandbox before it is used again, and becomes a new version."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.arguments import json_option, positive
from hermes_agent.cli.output.formatting import print_json, stamp, table
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.core.errors import NotFound, ToolError, UsageError
from hermes_agent.core.text.terminal import clean

if TYPE_CHECKING:
    from hermes_agent.agent.authored_tools.service import AuthoredTools
    from hermes_agent.agent.authored_tools.store import AuthoredToolStore, ToolRecord

PERSON = "person"


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    _action(actions, "list", _list, "all tools", named=False)
    _action(actions, "show", _show, "one tool: what is known of it, and its code")
    diff = _action(actions, "diff", _diff, "what two versions of a written tool differ in")
    diff.add_argument(
        "versions", nargs="*", type=positive, metavar="VERSION",
        help="two versions; else the last two, or what was changed by hand",
    )  # fmt: skip
    back = _action(actions, "rollback", _rollback, "bring a version of a written tool back")
    back.add_argument(
        "version", nargs="?", type=positive, metavar="VERSION",
        help="which; else the last good one before the current",
    )  # fmt: skip
    _action(actions, "disable", _switch, "let nobody use a written tool").set_defaults(on=False)
    _action(actions, "enable", _switch, "let it be used again").set_defaults(on=True)
    _action(actions, "log", _log, "what became of a written tool")
    check = _action(actions, "check", _check, "check a written tool in a sandbox", named=False)
    check.add_argument("name", metavar="NAME|FILE", help="a tool, or a file that may become one")


def _action(
    actions: Any, name: str, act: Any, help: str, *, named: bool = True
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=help, description=help)
    if named:
        parser.add_argument("name", metavar="NAME", help="the tool")
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    parser.set_defaults(act=act)
    return parser


def run(options: argparse.Namespace) -> int:
    from hermes_agent.host.paths import find_home

    code: int = options.act(options, Path(find_home(os.environ)))
    return code


def _tool_store(home: Path) -> "AuthoredToolStore":
    import time

    from hermes_agent.agent.authored_tools.store import AuthoredToolStore

    return AuthoredToolStore(home / "tools", time.time)


# looking


def _list(options: argparse.Namespace, home: Path) -> int:
    rows = [*_builtin(home), *_written(_tool_store(home))]
    if options.json:
        print_json(rows)
        return 0
    cells = [
        (row["name"], row["toolset"], row["origin"], ", ".join(row["capabilities"]) or "-",
         _standing(row))
        for row in rows
    ]  # fmt: skip
    print(table(("tool", "toolset", "origin", "touches", ""), cells))
    print("`hermes config set tools.use` chooses tools or toolsets for new sessions")
    return 0


def _builtin(home: Path) -> list[dict[str, Any]]:
    from hermes_agent.host.config import load_settings
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
        for one in facts(load_settings(home / "config.yaml", os.environ))
    ]


def _written(tool_store: "AuthoredToolStore") -> list[dict[str, Any]]:
    from hermes_agent.runtime.tools.builtin import TABLE

    records = tool_store.records()
    names = sorted({*tool_store.names(), *records})
    return [_row(tool_store, name, records.get(name), name in TABLE) for name in names]


def _row(
    tool_store: "AuthoredToolStore", name: str, record: "ToolRecord | None", taken: bool
) -> dict[str, Any]:
    return {
        "name": name,
        "toolset": "-",
        "origin": "written",
        "capabilities": [],
        "version": record.current if record else 0,
        "versions": len(record.versions) if record else 0,
        "state": "has the name of a built-in tool" if taken else _state(tool_store, name, record),
        "uses": record.uses if record else 0,
        "failures": record.failures if record else 0,
    }


def _state(tool_store: "AuthoredToolStore", name: str, record: "ToolRecord | None") -> str:
    """How it stands, without changing anything."""
    from hermes_agent.agent.authored_tools.store import digest_of

    if record is not None and record.disabled == "person":
        return "disabled"
    try:
        code = tool_store.read(name)
    except ToolError as error:
        return f"not used: {error.message}"
    if code is None:
        return "removed"
    now = record.version if record is not None else None
    if now is None or now.digest != digest_of(code):
        return "changed, not checked yet"
    if record is not None and record.disabled:
        return f"disabled, it failed: {now.failed}"
    failed = [one.number for one in record.versions if one.failed] if record is not None else []
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


def _show(options: argparse.Namespace, home: Path) -> int:
    found = [row for row in _builtin(home) if row["name"] == options.name]
    if not found:
        return _show_written(options, _tool_store(home))
    if options.json:
        print_json(found[0])
        return 0
    row = found[0]
    print(f"{row['name']}: built in, toolset {row['toolset']}")
    print(f"touches: {', '.join(row['capabilities']) or 'nothing by itself'}")
    if row["missing"]:
        print(f"needs {row['missing']}")
    print(f"\n{row['about']}")
    return 0


def _show_written(options: argparse.Namespace, tool_store: "AuthoredToolStore") -> int:
    record = _known(tool_store, options.name)
    code = tool_store.read(options.name)
    row = _row(tool_store, options.name, record, taken=False)
    text = code.decode(errors="replace") if code is not None else ""
    if options.json:
        print_json({**row, "code": text})
        return 0
    print(f"{row['name']}: {_standing(row)}")
    print(f"{tool_store.folder / options.name}.py\n")
    print(clean(text), end="")
    return 0


def _known(tool_store: "AuthoredToolStore", name: str) -> "ToolRecord":
    """What is known of a written tool; an error when there never was one."""
    from hermes_agent.agent.authored_tools.signature import check_name

    try:
        check_name(name)
    except ToolError as error:
        raise UsageError(error.message, "`hermes tools list` shows the names") from None
    record = tool_store.record(name)
    if not record.versions and tool_store.read(name) is None:
        raise NotFound(f"no tool called {name!r} was written", "`hermes tools list` shows all")
    return record


def _diff(options: argparse.Namespace, home: Path) -> int:
    from difflib import unified_diff

    tool_store = _tool_store(home)
    (old, before), (new, after) = _sides(tool_store, options.name, options.versions)
    lines = list(
        unified_diff(
            before.decode(errors="replace").splitlines(),
            after.decode(errors="replace").splitlines(),
            f"{options.name} {old}",
            f"{options.name} {new}",
            lineterm="",
        )
    )
    if options.json:
        print_json({"from": old, "to": new, "diff": lines})
    else:
        print(clean("\n".join(lines)) if lines else f"{old} and {new} are the same")
    return 0


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


def _log(options: argparse.Namespace, home: Path) -> int:
    import msgspec

    tool_store = _tool_store(home)
    _known(tool_store, options.name)
    entries = tool_store.log(options.name)
    if options.json:
        print_json(msgspec.to_builtins(entries))
        return 0
    cells = [
        (stamp(one.time), one.what, str(one.version), clean(one.by) or "-", one_line(one.why, 160))
        for one in entries
    ]
    print(table(("when", "what", "version", "by", "why"), cells))
    return 0


# changing


def _rollback(options: argparse.Namespace, home: Path) -> int:
    tool_store = _tool_store(home)
    _known(tool_store, options.name)
    version = tool_store.roll_back(options.name, options.version, PERSON)
    if options.json:
        print_json({"name": options.name, "version": version.number})
    else:
        print(f"{options.name} is version {version.number} again")
    return 0


def _switch(options: argparse.Namespace, home: Path) -> int:
    tool_store = _tool_store(home)
    _known(tool_store, options.name)
    tool_store.switch(options.name, options.on, PERSON)
    if options.json:
        print_json({"name": options.name, "enabled": options.on})
    else:
        print(f"{options.name} is {'enabled' if options.on else 'disabled'}")
    return 0


def _check(options: argparse.Namespace, home: Path) -> int:
    import asyncio

    tools = _tools(home)
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
    if options.json:
        print_json({"name": name, "version": version, "ok": True})
    else:
        print(f"{name} is well" + (f": version {version}" if version else ""))
    return 0


async def _checked(tools: "AuthoredTools", name: str) -> int:
    seen = tools.tool_store.look(name)
    if seen is not None and seen.version:
        await tools.examine(name, seen.code.decode())
        return seen.version
    return (await tools.check(name)).version


def _tools(home: Path) -> "AuthoredTools":
    import time

    from hermes_agent.agent.authored_tools.service import AuthoredTools
    from hermes_agent.host.config import load_settings
    from hermes_agent.policy.redaction.redactor import Redactor
    from hermes_agent.runtime.tools.builtin import TABLE
    from hermes_agent.terminals.code_sandbox.runner import CodeSandboxRunner

    settings = load_settings(home / "config.yaml", os.environ)
    workshop = CodeSandboxRunner(home / "workers", os.environ)
    return AuthoredTools(
        home / "tools",
        workers=lambda: workshop,
        settings=lambda: settings,
        taken=TABLE.keys,
        clock=time.time,
        redact=Redactor(os.environ),
    )
