"""Logs in which machines write who did what, read into values."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

UNSET = 4294967295
"""The login user of what nobody logged in for."""


class AuditRecord(NamedTuple):
    """An event of the audit log that touched files."""

    serial: str
    at: float
    user: int | None
    """Who logged in, whatever they became since; None for a service."""
    program: str
    success: bool
    paths: frozenset[str]


class Sudo(NamedTuple):
    at: float
    user: str
    command: str


class Installed(NamedTuple):
    """A line of dpkg.log."""

    at: float
    action: str
    package: str
    version: str


class AptRun(NamedTuple):
    """A paragraph of apt's history."""

    begun: float
    ended: float
    command: str
    by: str
    packages: frozenset[str]


_EVENT = re.compile(r"^type=(\w+) msg=audit\((\d+\.\d+):(\d+)\): ?(.*)$", re.MULTILINE)
_FIELD = re.compile(r'\b(\w+)=("[^"]*"|\S+)')


def records(text: str) -> Sequence[AuditRecord]:
    """The records of `audit.log` that name a file, oldest first."""
    events: dict[str, tuple[float, dict[str, str], set[str], list[str]]] = {}
    for kind, at, serial, rest in _EVENT.findall(text):
        facts = events.setdefault(serial, (float(at), {}, set(), [""]))
        fields = dict(_FIELD.findall(rest))
        if kind == "SYSCALL":
            facts[1].update(fields)
        elif kind == "CWD":
            facts[3][0] = _name(fields.get("cwd", ""))
        elif kind == "PATH" and fields.get("nametype") != "PARENT":
            facts[2].add(_name(fields.get("name", "")))
    found = []
    for serial, (time, call, names, cwd) in events.items():
        if not call or not names:
            continue
        login = int(call.get("auid", UNSET)) if call.get("auid", "").isdigit() else UNSET
        program = _name(call.get("exe", "")) or _name(call.get("comm", ""))
        paths = frozenset(one if one.startswith("/") else f"{cwd[0]}/{one}" for one in names)
        ok = call.get("success") == "yes"
        found.append(
            AuditRecord(serial, time, None if login == UNSET else login, program, ok, paths)
        )
    return found


def _name(written: str) -> str:
    """The audit log writes a name in quotes, or in hex where it holds odd signs."""
    if written.startswith('"'):
        return written.strip('"')
    try:
        return bytes.fromhex(written).decode(errors="replace")
    except ValueError:
        return "" if written == "(null)" else written


_SUDO = re.compile(
    r"^(?P<at>\S+(?: +\d+ \d\d:\d\d:\d\d)?) \S+ sudo(?:\[\d+\])?: +(?P<user>[^ :]+) : "
    r".*?COMMAND=(?P<command>.*)$",
    re.MULTILINE,
)


def sudo_lines(text: str, near: float) -> Sequence[Sudo]:
    """What sudo wrote to the log, oldest first. The old form of a time has no year: the one is
    taken that puts it before `near`, or hardly after."""
    return sorted(
        Sudo(at, match["user"], match["command"].strip())
        for match in _SUDO.finditer(text)
        if (at := _time(match["at"], near)) is not None
    )


def _time(written: str, near: float) -> float | None:
    if (modern := _local(written)) is not None:
        return modern
    local = datetime.fromtimestamp(near, UTC).astimezone()
    for year in (local.year + 1, local.year, local.year - 1):
        try:
            read = datetime.strptime(f"{year} {written}", "%Y %b %d %H:%M:%S").astimezone()
        except ValueError:
            continue
        if read.timestamp() <= near + 86_400:
            return read.timestamp()
    return None


_DPKG = re.compile(
    r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (install|upgrade|configure|remove|purge) "
    r"([^ :]+)(?::\S+)? (\S+)(?: (\S+))?$",
    re.MULTILINE,
)


def installed(text: str) -> Sequence[Installed]:
    return [
        Installed(time, action, package, new if new and new != "<none>" else old)
        for at, action, package, old, new in _DPKG.findall(text)
        if (time := _local(at)) is not None
    ]


def _local(written: str) -> float | None:
    try:
        return datetime.fromisoformat(" ".join(written.split())).astimezone().timestamp()
    except (ValueError, OverflowError):
        return None


def apt_runs(text: str) -> Sequence[AptRun]:
    return list(_apt_runs(text))


def _apt_runs(text: str) -> Iterator[AptRun]:
    for paragraph in text.split("\n\n"):
        rows = [line.partition(": ") for line in paragraph.splitlines()]
        fields = {name: value for name, _, value in rows}
        if (begun := _local(fields.get("Start-Date", ""))) is None:
            continue
        ended = _local(fields.get("End-Date", "")) or begun
        listed = " ".join(fields.get(word, "") for word in ("Install", "Upgrade", "Downgrade",
                          "Reinstall", "Remove", "Purge"))  # fmt: skip
        packages = frozenset(re.findall(r"([^\s,():]+):\w+ \(", listed))
        by = fields.get("Requested-By", "").partition(" ")[0]
        yield AptRun(begun, ended, fields.get("Commandline", ""), by, packages)
