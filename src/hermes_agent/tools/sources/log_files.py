"""Log files on the terminal's machine: patterns, lines of a time or with a text, the end."""

import asyncio
import re
from calendar import timegm
from collections.abc import Iterator
from functools import lru_cache
from secrets import token_hex
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hermes_agent.core.effects import paths_in
from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.log_patterns import LogEntry, entry, find_patterns, lines_of
from hermes_agent.tools.sources.machine import ask_machine
from hermes_agent.tools.sources.results import answer
from hermes_agent.tools.sources.times import Window, epoch, stamp, window

MOST_BYTES = 16_000_000
"""How much of a file is looked at: its end."""
LINE_BYTES = 4_000
RECORD_CHARS = 4_000
"""How much of a line with its stack trace is kept."""
HEAD_CHARS = 400
"""Where in a line its time stands."""
DAY = 86_400
_READ = r"""
text=$1 regex=$2 lines=$3 most=$4 width=$5 mark=$6; shift 6
if (ulimit -v 1000000) 2>/dev/null; then ulimit -v 1000000; fi # a line may have no end
date +%z
for path; do
  printf '%s %s\n' "$mark" "$path"
  if [ -d "$path" ]; then ls -lAt -- "$path" | head -n 60; continue; fi
  for old in "$path".[0-9]* "$path"-[0-9]*; do
    if [ -f "$old" ]; then printf %s "$mark+$old" | tr '\n' '?'; echo; fi
  done | tail -n 10
  printf '%s=\n' "$mark"
  {
    if [ "$(readlink /proc/self/fd/3)" != "$path" ]; then echo "$path changed" >&2; continue; fi
    case $path in
      *.gz) gzip -dc <&3 ;; *.xz) xz -dc <&3 ;; *.bz2) bzip2 -dc <&3 ;; *.zst) zstd -dc <&3 ;;
      *) if [ -z "$text$regex" ]; then tail -c "$most" <&3; else cat <&3; fi ;;
    esac | {
      if [ -n "$text" ]; then grep -a -i -F -e "$text"
      elif [ -n "$regex" ]; then grep -a -i -E -e "$regex"
      else cat; fi
    } | cut -b "1-$width" | {
      if [ "$lines" -gt 0 ]; then tail -n "$lines"; else tail -c "$most"; fi
    }
  } 3<"$path"
done
"""


class _Log(Struct):
    """What was read of a file."""

    path: str
    lines: list[str] = []
    older: list[str] = []
    folder: bool = True


@tool(capabilities=("filesystem",), repeatable=True, paths={"path": "read"}, located=True)
async def log_files(
    context: ToolContext,
    action: Literal["patterns", "lines", "tail"],
    path: str | Annotated[tuple[str, ...], Meta(min_length=1, max_length=20)],
    text: str = "",
    regex: str = "",
    since: str = "1h ago",
    until: str = "now",
    limit: Annotated[int, Meta(ge=1, le=500)] = 30,
) -> ToolResult:
    """Log files, also compressed ones; a folder is listed. patterns: templates of their lines,
    errors and new ones first; lines: the last ones of that time, with their stack traces; tail: the
    last ones. `text` or `regex`: only lines with it, from the whole file."""
    span = window(since, until, context.clock())
    names = [await context.resolve(one) for one in paths_in(path)]
    tail = str(limit if action == "tail" else 0)
    mark = f"\x1e{token_hex(8)}"  # a log does not know it
    given = (text, regex, tail, str(MOST_BYTES), str(LINE_BYTES), mark)
    printed, errors = await ask_machine(context, _READ, *given, *names)
    zone, logs = await asyncio.to_thread(_split, printed, mark)
    if errors and not any(one.lines for one in logs):
        raise ToolError(errors, "a folder as `path` lists its files", "changed")
    if len(names) == 1 and logs and logs[0].folder:
        return answer("log files", "\n".join(logs[0].lines), {"folder": names[0]})
    found = await asyncio.to_thread(_records, logs, zone, context.clock())
    older = [name for one in logs for name in one.older if name not in names]
    rest = f"\nolder: {', '.join(older)}" if older else ""
    if action == "tail":
        shown = lines_of(found, limit) or "no lines"
        return answer("log files", shown + rest, {"lines": len(found)}, [errors])
    return await _of_time(action, found, span, limit, rest, [errors])


async def _of_time(
    action: str, found: list[LogEntry], span: Window, limit: int, rest: str, notes: list[str]
) -> ToolResult:
    """`rest` comes after what is found."""
    last = max((one.time for one in found), default=0.0)
    if last and last < span.start:
        notes = [f"the last line is of {stamp(last)}", *notes]
    if found and not last:
        notes = ["the lines have no time that could be read, so all of them are shown", *notes]
    if action == "patterns":
        kept = (one for one in found if not one.time or one.time >= span.before.start)
        patterns = await find_patterns(kept, span)
        return answer("log files", patterns.report(limit) + rest, patterns.data, notes)
    kept_lines = [one for one in found if not one.time or one.time in span]
    head = f"{len(kept_lines)} lines, {span}"
    shown = f"{head}\n{lines_of(kept_lines, limit)}{rest}"
    return answer("log files", shown, {"lines": len(kept_lines)}, notes)


def _split(printed: str, mark: str) -> tuple[int, list[_Log]]:
    """The zone's offset in seconds, and the files."""
    logs: list[_Log] = []
    first, _, rest = printed.partition("\n")
    for line in rest.split("\n"):
        if line == f"{mark}=":
            logs[-1].folder = False
        elif line.startswith(f"{mark}+") and logs:
            logs[-1].older.append(line.removeprefix(f"{mark}+"))
        elif line.startswith(f"{mark} "):
            logs.append(_Log(line.removeprefix(f"{mark} ")))
        elif logs:
            logs[-1].lines.append(line)
    for one in logs:
        if one.lines and not one.lines[-1]:
            one.lines.pop()
    return offset(first), logs


_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
_ZONE = r"\s?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?"
_DATE = r"(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)"
_EPOCH = r"(?P<epoch>\d{10}(?:\.\d{1,9})?|\d{13})"
_AT_START = tuple(
    re.compile(one)
    for one in (
        rf"\W{{0,2}}{_DATE}[T ]{_CLOCK}{_ZONE}\W*",
        rf"(?:<\d{{1,3}}>)?(?P<month>[A-Z][a-z]{{2}}) (?P<day>[ \d]\d) {_CLOCK} ",
        rf"\[\w{{3}} (?P<month>[A-Z][a-z]{{2}}) +(?P<day>\d+) {_CLOCK} (?P<year>\d{{4}})\] ",
        rf"\d{{1,7}}:[A-Z] (?P<day>\d\d) (?P<month>[A-Z][a-z]{{2}}) (?P<year>\d{{4}}) {_CLOCK} ",
        rf"\[?{_EPOCH}\b\]?:? ?",
    )
)
"""ISO, syslog, Apache's errors, Redis, seconds since the epoch."""
_WITHIN = (
    re.compile(
        r"\[(?P<day>\d\d)/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4}):(?P<clock>\d\d:\d\d:\d\d)"
        r" (?P<zone>[+-]\d{4})\]"
    ),
    re.compile(rf"^[IWEF](?P<month>\d\d)(?P<day>\d\d) {_CLOCK}"),
    re.compile(
        rf'^(?:level=\w+ )?(?:ts|t|time|timestamp)="?(?:{_DATE}[T ]{_CLOCK}{_ZONE}|{_EPOCH}\b)'
    ),
)
"""Access logs, glog as Kubernetes writes it, and logfmt: the line is kept whole."""
_NAMES = "JanFebMarAprMayJunJulAugSepOctNovDec"
_MONTHS = {_NAMES[3 * n : 3 * n + 3]: n + 1 for n in range(12)}


def records(lines: list[str], zone: int, now: float, where: str = "") -> Iterator[LogEntry]:
    """Lines with their times; what follows a line without a time of its own, as a stack trace
    does, belongs to it."""
    held: LogEntry | None = None
    parse = _Times(zone, now)
    for line in lines:
        one = entry(line, where=where)
        if not one.time:
            time, text = parse(one.text)
            one = one._replace(time=time, text=text)
        if not one.time and held is not None and held.time:
            if len(held.text) < RECORD_CHARS:
                held = held._replace(text=f"{held.text}\n{line}")
            continue
        if held is not None:
            yield held
        held = one
    if held is not None:
        yield held


def _records(logs: list[_Log], zone: int, now: float) -> list[LogEntry]:
    """Those of all files, in order of time."""
    found: list[LogEntry] = []
    for one in logs:
        found += records(one.lines, zone, now, one.path if len(logs) > 1 else "")
    return sorted(found, key=lambda one: one.time)


class _Times:
    """Reads times of lines: in the format of the line before, else in any that is known."""

    def __init__(self, zone: int, now: float) -> None:
        self._zone, self._now = zone, now
        self._formats = [*_AT_START, *_WITHIN]

    def __call__(self, line: str) -> tuple[float, str]:
        head = line[:HEAD_CHARS]
        for at, form in enumerate(self._formats):
            found = form.search(head) if form in _WITHIN else form.match(head)
            if found is None:
                continue
            if at:
                self._formats.insert(0, self._formats.pop(at))
            time = self._time(found.groupdict())
            if time:
                return time, line if form in _WITHIN else line[found.end() :]
        return 0.0, line

    def _time(self, part: dict[str, str | None]) -> float:
        if part.get("epoch"):
            return epoch(part["epoch"])
        month, clock = part["month"] or "", part["clock"] or ""
        zone = part.get("zone")
        year = int(part.get("year") or 0)
        at = _seconds(year or _year(self._now), month, int(part["day"] or 0), clock)
        at -= offset(zone) if zone else self._zone
        if not year and at > self._now + DAY:  # of last December
            at = _seconds(_year(self._now) - 1, month, int(part["day"] or 0), clock) - self._zone
        fraction = part.get("part")
        return at + (float(f"0.{fraction}") if fraction else 0.0)


@lru_cache(10_000)
def _seconds(year: int, month: str, day: int, clock: str) -> float:
    number = _MONTHS.get(month) or (int(month) if month.isdigit() else 0)
    hour, minute, second = map(int, clock.split(":"))
    return float(timegm((year, number, day, hour, minute, second))) if 0 < number < 13 else 0.0


def _year(now: float) -> int:
    return int(stamp(now)[:4])


def offset(zone: str) -> int:
    """Seconds east of Greenwich."""
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)", zone.strip())
    if found is None:
        return 0
    seconds = int(found[2]) * 3600 + int(found[3]) * 60
    return -seconds if found[1] == "-" else seconds
