"""The journal of systemd on the terminal's machine: patterns and lines, units, boots."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.log_patterns import LogEntry, find_patterns, lines_of
from hermes_agent.tools.sources.machine import ask_machine
from hermes_agent.tools.sources.results import answer, table
from hermes_agent.tools.sources.times import Window, window

LINES = 30_000
"""How many lines are read of a time, the newest ones."""
Priority = Literal["", "crit", "err", "warning", "notice", "info", "debug"]
_READ = r"""
command -v journalctl >/dev/null || { echo "journalctl is not installed there" >&2; return; }
unit=$1 priority=$2 text=$3 most=$4; shift 4
journalctl --no-pager --lines=0 >/dev/null # says what this user cannot see
while [ $# -gt 1 ]; do
  journalctl --quiet --no-pager --all --output=json --lines="$most" \
    --output-fields=MESSAGE,PRIORITY,_SYSTEMD_UNIT,UNIT,SYSLOG_IDENTIFIER \
    --since="@$1" --until="@$2" ${unit:+"--unit=$unit"} ${priority:+"--priority=$priority"} \
    ${text:+"--grep=$text" --case-sensitive=false}
  shift 2
done
"""
_UNITS = r"""
command -v systemctl >/dev/null || { echo "systemd does not run there" >&2; return; }
systemctl show --no-pager --property=Id,Description,LoadState,ActiveState,SubState,\
Result,ExecMainStatus,NRestarts,StateChangeTimestamp,UnitFileState -- "${1:-*}"
"""
_BOOTS = r"""
uptime
command -v journalctl >/dev/null || { echo "journalctl is not installed there" >&2; return; }
journalctl --quiet --no-pager --list-boots | tail -n 20
"""


@tool(capabilities=("process",), repeatable=True, located=True)
async def journal(
    context: ToolContext,
    action: Literal["patterns", "lines", "units", "boots"],
    unit: str = "",
    priority: Priority = "",
    text: str = "",
    since: str = "1h ago",
    until: str = "now",
    limit: Annotated[int, Meta(ge=1, le=500)] = 30,
) -> ToolResult:
    """systemd's journal on the terminal's machine. patterns: templates of its lines, errors and new
    ones first; lines: the last ones, of `unit`, up to `priority`, that contain `text`; units:
    failed or restarted ones, or the state of `unit`; boots."""
    if action == "units":
        return _units((await ask_machine(context, _UNITS, unit))[0], bool(unit))
    if action == "boots":
        return answer("journal", "\n".join(await ask_machine(context, _BOOTS)).strip())
    span = window(since, until, context.clock())
    if action == "lines":
        found, notes = await _read(context, span, unit, priority, text)
        shown = lines_of(found, limit) or "no lines"
        head = f"{len(found)} lines, {span}"
        return answer("journal", f"{head}\n{shown}", {"lines": len(found)}, notes)
    found, notes = await _read(context, span, unit, priority, text, span.before)
    patterns = await find_patterns(found, span)
    return answer("journal", patterns.report(limit), patterns.data, notes)


async def _read(
    context: ToolContext, span: Window, unit: str, priority: str, text: str, *earlier: Window
) -> tuple[list[LogEntry], list[str]]:
    """The entries of these times, in order, and what keeps others from being seen."""
    times = [str(int(at)) for one in (*earlier, span) for at in (one.start, one.end + 1)]
    wanted = "".join(f"\\{one}" if one in _SPECIAL else one for one in text)
    printed, errors = await ask_machine(context, _READ, unit, priority, wanted, str(LINES), *times)
    found = await asyncio.to_thread(_parsed, printed)
    cut = f"only the newest {LINES} lines were read" if len(found) >= LINES else ""
    return found, [cut, errors]


def _parsed(printed: str) -> list[LogEntry]:
    """In order of time: journalctl prints what it finds by a text in reverse."""
    found = [one for line in printed.splitlines() if (one := parse_line(line)) is not None]
    return sorted(found, key=lambda one: one.time)


_SPECIAL = frozenset("\\^$.[]|()?*+{}")
_DECODER = msgspec.json.Decoder(dict[str, Any])


def parse_line(line: str) -> LogEntry | None:
    """An entry as journalctl prints it in JSON; None for anything else."""
    try:
        fields = _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    if "__REALTIME_TIMESTAMP" not in fields:
        return None
    said = fields.get("MESSAGE")
    if isinstance(said, list):  # bytes, or the same field twice
        is_data = all(isinstance(one, int) for one in said)
        said = bytes(said).decode(errors="replace") if is_data else " ".join(map(str, said))
    priority = str(fields.get("PRIORITY", ""))
    level = "error" if priority in "0123" and priority else "warning" if priority == "4" else ""
    unit = next((_first(fields[key]) for key in _UNITS_OF if fields.get(key)), "")
    where = unit.removesuffix(".service")
    return LogEntry(int(fields["__REALTIME_TIMESTAMP"]) / 1e6, str(said or ""), level, where)


_UNITS_OF = ("UNIT", "_SYSTEMD_UNIT", "SYSLOG_IDENTIFIER")
"""What the manager says of a unit is that unit's."""


def _first(value: Any) -> str:
    return str(value[0] if isinstance(value, list) else value)


def _units(printed: str, named: bool) -> ToolResult:
    found = [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for block in printed.split("\n\n")
    ]
    shown = [one for one in found if one.get("Id") and (named or _in_trouble(one))]
    shown.sort(key=lambda one: (one["ActiveState"] != "failed", -_restarts(one), one["Id"]))
    rows = [
        (one["Id"], f"{one['ActiveState']} ({one['SubState']})",
         f"{one.get('Result', '')} {one.get('ExecMainStatus', '')}".strip(), _restarts(one),
         one.get("StateChangeTimestamp"), one.get("UnitFileState"), one.get("Description"))
        for one in shown
    ]  # fmt: skip
    failed = sum(one["ActiveState"] == "failed" for one in shown)
    headers = ("unit", "state", "result", "restarts", "since", "enabled", "description")
    text = f"{failed} failed, {len(found)} units known"
    text += f"\n{table(headers, rows)}" if rows else "; none failed, restarted or starting"
    return answer("journal", text, {"units": len(shown), "failed": failed})


def _in_trouble(unit: Mapping[str, str]) -> bool:
    if unit.get("LoadState") in ("error", "bad-setting"):
        return True
    changing = unit["ActiveState"] in ("activating", "deactivating", "reloading")
    return unit["ActiveState"] == "failed" or changing or _restarts(unit) > 0


def _restarts(unit: Mapping[str, str]) -> int:
    number = unit.get("NRestarts", "")
    return int(number) if number.isdigit() else 0
