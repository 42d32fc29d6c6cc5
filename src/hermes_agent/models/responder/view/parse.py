"""Readers of what ordinary commands print. None of them trusts its input: lines that do not fit are
passed over."""

import re
from collections.abc import Iterator

from msgspec import Struct

_HEAD = re.compile(r"^==> (.+?) <==$")
_SUPERVISED = re.compile(
    r"^(\S+)\s+(STOPPED|STARTING|RUNNING|BACKOFF|STOPPING|EXITED|FATAL|UNKNOWN)\b\s*(.*)$"
)
_UNIT = re.compile(r"^\W*(\S+\.service)\s+(\S+)\s+(\S+)\s+(\S+)\s*(.*)$")
_PID = re.compile(r"\bpid (\d+)")
_USER_OF = re.compile(r'\(\("([^"]*)",pid=(\d+)')
_FD = re.compile(r"(\d+) -> (.+)$")
_PATH = re.compile(r"(?<![\w/.])(/[\w.@+~-]+(?:/[\w.@+~-]+)+)")
_MODE = re.compile(
    r"^([-dlbcps][-rwxsStT]{9})[.+@]?\s+(\d+)\s+(\S+)\s+(\S+)\s+(\d+)\s+"
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: [+-]\d{4})?)\s+(.+)$"
)


class Program(Struct, frozen=True):
    """A program that a supervisor looks after."""

    name: str
    state: str
    pid: int
    line: str

    @property
    def up(self) -> bool:
        return self.state in ("RUNNING", "active")


class Process(Struct, frozen=True):
    pid: int
    parent: int
    user: str
    state: str
    nice: int
    cpu: float
    rss: int
    """Kilobytes."""
    age: int
    """Seconds."""
    command: str
    line: str


class Listener(Struct, frozen=True):
    address: str
    port: int
    name: str
    pid: int
    waiting: int
    line: str


class Mount(Struct, frozen=True):
    source: str
    path: str
    percent: int
    size: int
    line: str


class FileRow(Struct, frozen=True):
    """A line of `ls -l` with full times."""

    mode: str
    user: str
    group: str
    size: int
    time: str
    name: str
    line: str

    @property
    def target(self) -> str:
        """Where a link leads."""
        return self.name.partition(" -> ")[2]

    @property
    def own(self) -> str:
        return self.name.partition(" -> ")[0]


class Sized(Struct, frozen=True):
    """A file by its size, as `find -printf '%s %T@ %u %p'` tells."""

    size: int
    time: float
    user: str
    path: str
    line: str


def supervised(text: str) -> Iterator[Program]:
    for line in text.splitlines():
        if found := _SUPERVISED.match(line):
            pid = _PID.search(found[3])
            yield Program(found[1], found[2], int(pid[1]) if pid else 0, line)


def units(text: str) -> Iterator[Program]:
    """`systemctl list-units --type=service --all --plain --no-legend`."""
    for line in text.splitlines():
        if found := _UNIT.match(line):
            yield Program(found[1].removesuffix(".service"), found[3], 0, line)


def unit_facts(text: str) -> Iterator[dict[str, str]]:
    """`systemctl show` of several units: what is set of each, with the words of its command."""
    for block in re.split(r"\n\s*\n", text):
        facts = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        words = re.search(r"argv\[\]=(.*?) ; ignore_errors", facts.get("ExecStart", ""))
        if facts.get("Id", "").endswith(".service"):
            facts["command"] = words[1].strip() if words else ""
            yield facts


def processes(text: str) -> Iterator[Process]:
    """`ps -eo pid,ppid,user,stat,ni,pcpu,rss,etimes,args`."""
    for line in text.splitlines():
        words = line.split(None, 8)
        if len(words) == 9 and words[0].isdigit() and words[1].isdigit():
            yield Process(
                int(words[0]),
                int(words[1]),
                words[2],
                words[3],
                int(number(words[4])),
                number(words[5]),
                int(number(words[6])),
                int(number(words[7])),
                words[8],
                line.strip(),
            )


def listeners(text: str) -> Iterator[Listener]:
    """`ss -ltnp`."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 5 and words[0] == "LISTEN":
            address, _, port = words[3].rpartition(":")
            owner = _USER_OF.search(line)
            if port.isdigit():
                yield Listener(
                    address,
                    int(port),
                    owner[1] if owner else "",
                    int(owner[2]) if owner else 0,
                    int(number(words[1])),
                    line.strip(),
                )


def mounts(text: str) -> Iterator[Mount]:
    """`df -P` or `df -iP`."""
    for line in text.splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and re.fullmatch(r"\d+%", words[4]) and words[1].isdigit():
            yield Mount(words[0], words[5], int(words[4][:-1]), int(words[1]), line.strip())


def files(text: str) -> dict[str, list[str]]:
    """What `tail -v` and `head -v` print of several files, by path."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if head := _HEAD.match(line):
            lines = found.setdefault(head[1], [])
        elif line.strip():
            lines.append(line)
    return found


def listing(text: str) -> Iterator[FileRow]:
    """`ls -l --time-style=full-iso`."""
    for line in text.splitlines():
        if found := _MODE.match(line.strip()):
            yield FileRow(
                found[1], found[3], found[4], int(found[5]), found[6], found[7], line.strip()
            )


def folders(text: str) -> dict[str, list[FileRow]]:
    """`ls -lR` or `ls -l` of several folders: their rows by folder, "" before the first."""
    found: dict[str, list[FileRow]] = {}
    here = ""
    for line in text.splitlines():
        if line.startswith("/") and line.endswith(":"):
            here = line[:-1]
        else:
            found.setdefault(here, []).extend(listing(line))
    return found


def sizes(text: str) -> Iterator[Sized]:
    for line in text.splitlines():
        words = line.split(None, 3)
        if len(words) == 4 and words[0].isdigit() and words[3].startswith("/"):
            yield Sized(int(words[0]), number(words[1]), words[2], words[3], line.strip())


def descriptors(text: str) -> dict[int, str]:
    """`ls -l /proc/PID/fd`: what each leads to."""
    return {int(found[1]): found[2] for line in text.splitlines() if (found := _FD.search(line))}


def holders(text: str) -> list[int]:
    """`find /proc/PID/fd -lname FILE`: who has it open; what may not be seen counts for none."""
    return [int(pid) for pid in re.findall(r"^/proc/(\d{1,9})/fd/\d", text, re.MULTILINE)]


def counted(text: str) -> Iterator[tuple[int, str, str]]:
    """`uniq -c`: how often, what, and the line."""
    for line in text.splitlines():
        words = line.split(None, 1)
        if len(words) == 2 and words[0].isdigit():
            yield int(words[0]), words[1].strip(), line.strip()


def table(text: str, separator: str = "|") -> Iterator[list[str]]:
    """Unaligned rows, as `psql -At` prints them."""
    for line in text.splitlines():
        if separator in line:
            yield [word.strip() for word in line.split(separator)]


def paths_in(line: str) -> list[str]:
    """Paths of files in a line; addresses and what is asked for over HTTP are none."""
    plain = re.sub(
        r"\b(?!file:|unix:|sqlite:)\w+://\S+|\b(?:GET|PUT|POST|HEAD|DELETE|PATCH) /\S*", " ", line
    )
    return list(dict.fromkeys(found.rstrip(".") for found in _PATH.findall(plain)))


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if abs(value) < 1e18 else 0.0
