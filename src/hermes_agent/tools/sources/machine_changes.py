"""What changed on the terminal's machine: boots, units, packages, files in /etc, logins, cron, and
what the kernel said."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from posixpath import dirname

from hermes_agent.core.tools import ToolContext
from hermes_agent.tools.sources.journal import parse_line
from hermes_agent.tools.sources.log_files import offset, records
from hermes_agent.tools.sources.log_patterns import level_of, template
from hermes_agent.tools.sources.machine import ask_machine
from hermes_agent.tools.sources.results import Change
from hermes_agent.tools.sources.times import Window, parsed, stamp

FILES = 200
RUN_SECONDS = 60.0
"""Packages, and files, that change within so long of each other are one change."""
EACH = 5
"""How many of a run are changes of their own."""
MOST = 15
"""How many changes of one sort are told, those that sound bad first."""
NAMES_CHARS = 80
_SCRIPT = r"""
start=$1 end=$2 most=$3
date +%z
tagged() { sed "s/^/$1 /"; }
echo "boot $(sed -n 's/^btime //p' /proc/stat) $(cut -d ' ' -f 22 /proc/1/stat) $(cat /proc/1/comm)"
if command -v journalctl >/dev/null; then
  read_journal() {
    journalctl --quiet --no-pager --all --output=json --since="@$start" --until="@$end" \
      --output-fields=MESSAGE,PRIORITY,_SYSTEMD_UNIT,UNIT,SYSLOG_IDENTIFIER --lines=3000 "$@"
  }
  journalctl --no-pager --lines=0 2>&1 >/dev/null | tagged unseen
  read_journal _PID=1 | tagged unit
  read_journal SYSLOG_IDENTIFIER=sshd SYSLOG_IDENTIFIER=sshd-session SYSLOG_IDENTIFIER=sudo \
    SYSLOG_IDENTIFIER=CRON SYSLOG_IDENTIFIER=crond SYSLOG_IDENTIFIER=cron | tagged access
  read_journal _TRANSPORT=kernel | tagged kernel
elif command -v dmesg >/dev/null; then
  dmesg --time-format iso | tail -n 3000 | tagged dmesg
fi
for file in /var/log/dpkg.log.1 /var/log/dpkg.log; do
  if [ -r "$file" ]; then grep -aE ' (install|upgrade|remove|purge) ' "$file" | tail -n 1000; fi
done | tagged dpkg
if [ -r /var/log/pacman.log ]; then tail -n 1000 /var/log/pacman.log | tagged pacman; fi
if command -v rpm >/dev/null; then
  rpm -qa --queryformat 'rpm %{INSTALLTIME} %{NAME} %{VERSION}-%{RELEASE}\n'
fi
if command -v last >/dev/null; then last -n 100 --time-format iso | tagged login; fi
find /etc /var/spool/cron -cmin "-$(( ($(date +%s) - start) / 60 + 1 ))" \
  -exec stat -c 'file %Z %F:%n' {} + | sort -rn -k 2 | head -n "$most"
true
"""


async def machine_changes(context: ToolContext, span: Window) -> list[Change]:
    printed, _ = await ask_machine(
        context, _SCRIPT, str(int(span.start)), str(int(span.end) + 1), str(FILES)
    )
    zone, _, rest = printed.partition("\n")
    told: dict[str, list[str]] = {}
    for line in rest.splitlines():
        tag, _, text = line.partition(" ")
        told.setdefault(tag, []).append(text)
    found: list[Change] = []
    left = 0
    for tag, read in READERS.items():
        changes = read(told.get(tag, []), offset(zone), context.clock())
        within = _together(one for one in changes if one.time in span)
        found += within[:MOST]
        left += len(within[MOST:])
    if unseen := " ".join(told.get("unseen", [])):
        found.append(Change(span.end, f"the journal cannot be read: {unseen}"))
    if left:
        found.append(Change(span.end, f"… and {left} more; the tool `journal` shows them"))
    return found


def _together(changes: Iterable[Change]) -> list[Change]:
    """The same thing again and again is one change."""
    found: dict[str, list[Change]] = {}
    for one in sorted(changes, key=lambda one: one.time):
        found.setdefault(template(one.what), []).append(one)
    merged = [
        Change(ones[0].time, f"{ones[0].what}, {len(ones)}x until {stamp(ones[-1].time)}")
        if len(ones) > 1
        else ones[0]
        for ones in found.values()
    ]
    return sorted(merged, key=lambda one: level_of(one.what) != "error")


def _runs(entries: Iterable[tuple[float, str, str]], one: str, many: str) -> Iterator[Change]:
    """Times, names and details as changes: one by one, or only by name if there are many of them
    at a time."""
    run: list[tuple[float, str, str]] = []
    for entry in [*sorted(set(entries)), (math.inf, "", "")]:
        if run and entry[0] - run[-1][0] > RUN_SECONDS:
            if len(run) <= EACH:
                yield from (Change(time, f"{one} {name} {how}".strip()) for time, name, how in run)
            else:
                yield Change(run[0][0], f"{many} {_listed(list(dict.fromkeys(x[1] for x in run)))}")
            run = []
        run.append(entry)


def _listed(names: list[str]) -> str:
    shown: list[str] = []
    for name in names:
        if shown and len(", ".join([*shown, name])) > NAMES_CHARS:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(name)
    return ", ".join(shown)


_UNIT = re.compile(
    r"^(Started|Stopped|Reloaded|Failed to start|Dependency failed for|Finished)\b"
    r"|: (Failed with result|Main process exited|Scheduled restart|A process of this unit has been)"
    r"|systemd .*running in system mode|^(Shutting down|Reached target .*(Reboot|Power-Off))"
)
_ACCESS = re.compile(r"^Accepted \S+ for \S+ from \S+|\S+ : .*COMMAND=.*|\(\S+\) CMD \(.*")
_KERNEL = re.compile(
    r"killed process|segfault|I/O error|remount|read-only|link is (?:up|down)|hung_task"
    r"|blocked for more than|hardware error|conntrack: table full|lockup|fs error|throttled",
    re.IGNORECASE,
)


def _journal(fits: re.Pattern[str]) -> "_Reader":
    def read(lines: list[str], _zone: int, _now: float) -> Iterator[Change]:
        for one in filter(None, map(parse_line, lines)):
            if fits.search(one.text):
                said = one.text.strip()
                named = one.where in ("", "init.scope") or said.startswith(one.where)
                yield Change(one.time, said if named else f"{one.where}: {said}")

    return read


def _dmesg(lines: list[str], zone: int, now: float) -> Iterator[Change]:
    for one in records(lines, zone, now):
        if _KERNEL.search(one.text):
            yield Change(one.time, f"kernel: {one.text}")


def _boot(lines: list[str], _zone: int, _now: float) -> Iterator[Change]:
    """When the machine booted; if its first process began later, that is a container's start."""
    for line in lines:
        booted, ticks, *name = line.split(" ")
        if booted.isdigit() and ticks.isdigit():
            yield Change(float(booted), "the machine booted")
            began = int(booted) + int(ticks) / 100
            if began > int(booted) + 120:
                yield Change(began, f"the container of {' '.join(name)} started")


def _logged(pattern: str) -> "_Reader":
    """Reads the log of a package manager: what was done, to which package, and versions."""
    fits = re.compile(pattern)

    def read(lines: list[str], zone: int, now: float) -> Iterator[Change]:
        found = ((one.time, fits.search(one.text)) for one in records(lines, zone, now))
        entries = (
            (time, one[2], f"{one[1]} {one[3].replace('<none>', '')}") for time, one in found if one
        )
        yield from _runs(entries, "package", "packages")

    return read


def _rpm(lines: list[str], _zone: int, _now: float) -> Iterator[Change]:
    words = (line.split(" ", 2) for line in lines)
    entries = ((float(one[0]), one[1], one[2]) for one in words if one[0].isdigit())
    yield from _runs(entries, "package", "packages")


def _logins(lines: list[str], _zone: int, _now: float) -> Iterator[Change]:
    for line in lines:
        words = line.split()
        times = [time for word in words if (time := parsed(word)) and "T" in word]
        if times and words[0] not in ("reboot", "runlevel", "wtmp"):
            yield Change(times[0], f"login: {' '.join(words[:3])}")


def _files(lines: list[str], _zone: int, _now: float) -> Iterator[Change]:
    """A folder only if nothing in it is named: then something in it was removed or renamed."""
    found = _FILE.findall("\n".join(lines))
    parents = {dirname(path) for _, _, path in found}
    entries = (
        (float(time), path, "")
        for time, kind, path in found
        if kind != "directory" or path not in parents
    )
    yield from _runs(entries, "changed", "changed")


_FILE = re.compile(r"^(\d+) ([^:]*):(.*)$", re.MULTILINE)
_Reader = Callable[[list[str], int, float], Iterator[Change]]
READERS: dict[str, _Reader] = {
    "boot": _boot,
    "unit": _journal(_UNIT),
    "access": _journal(_ACCESS),
    "kernel": _journal(_KERNEL),
    "dmesg": _dmesg,
    "dpkg": _logged(r"^(install|upgrade|remove|purge) (\S+) (.*)"),
    "pacman": _logged(r"\[ALPM\] (installed|upgraded|removed) (\S+) (.*)"),
    "rpm": _rpm,
    "login": _logins,
    "file": _files,
}
