"""Tables of cron as cron reads them: times, users, variables, commands, and what it passes over."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.view import parse, settings
from hermes_agent.models.responder.view.house import SYSTEM

FOLDER = "/etc/cron.d"
TABLES = (
    "ls -la --time-style=full-iso /etc/cron.d /var/spool/cron/crontabs 2>/dev/null; "
    "for f in /etc/crontab /etc/cron.d/* /var/spool/cron/crontabs/*; do "
    '[ -s "$f" ] && [ -n "$(tail -c 1 "$f")" ] && echo "unended $f"; '
    'grep -q "$(printf \'\\r\')" "$f" 2>/dev/null && echo "returns $f"; done; '
    "cut -d: -f1 /etc/passwd | sed 's/^/user /'"
)
"""How tables lie there, which do not end with a line or have lines of another system, and who is
known on the machine."""
FILE = re.compile(r"[A-Za-z0-9_-]+")
"""How a file in cron's folder must be called to be read."""
_TIMES = re.compile(r"(@[a-z]+|(?:[\d*/,A-Za-z-]+\s+){4}[\d*/,A-Za-z-]+)\s+(.+)$")
_VARIABLE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*[\"']?(.*?)[\"']?\s*$")
_FLOCK = re.compile(r"\bflock\s+(?:-\w+(?:\s+\d+)?\s+|--\S+\s+)*(/[\w./@+-]+)")
_PERCENT = re.compile(r"(?<!\\)%")
_PREFIX = frozenset({
    "nice", "ionice", "timeout", "env", "nohup", "exec", "time", "setsid", "chronic", "stdbuf",
    "sh", "bash", "dash", "python", "python3", "perl", "ruby", "php", "node", "sudo", "chpst",
    "/bin/sh", "/bin/bash", "/usr/bin/env", "/usr/bin/python3", "/usr/bin/bash", "/usr/bin/flock",
    "/usr/bin/timeout", "/usr/bin/nice", "flock", "cd", "test", "[", ".", "source",
})  # fmt: skip
"""Words before the one that is run."""
_SYSTEM_TABLES = ("/etc/cron.d/", "/etc/crontab")
_NAMES = {
    3: ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    4: ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_SPANS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
_USUAL = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}  # fmt: skip
PATH = "/usr/bin:/bin"
"""Where cron looks for programs unless a table says otherwise."""
DAY = 1440


class Job(Struct, frozen=True):
    """A line of a table that begins something."""

    table: str
    line: str
    times: str
    user: str
    command: str
    variables: dict[str, str] = {}

    @property
    def runs_as(self) -> str:
        return self.user or ("root" if is_system(self.table) else self.table.rpartition("/")[2])

    @property
    def words(self) -> list[str]:
        """Those of what is run, without what only leads to it."""
        plain = re.sub(r"\d?>>?\s*&?\s*\S+", " ", _FLOCK.sub(" ", self.command))
        found = list[str]()
        for part in re.split(r"&&|\|\||;|\|", plain):
            words = settings.split(part)
            led = words[:1] in (["cd"], ["test"], ["["], ["."], ["source"])
            while words and (words[0] in _PREFIX or re.match(r"-|\d+[smh]?$|\w+=", words[0])):
                words = words[1:]
            if words and not led:
                found = found or words
        return found

    @property
    def program(self) -> str:
        """What is run: a path, or a word that is looked for."""
        return next(iter(self.words), "")

    @property
    def script(self) -> str:
        """Its path, where it is one of people's own."""
        first = self.program
        if first.startswith("/") and not first.startswith(SYSTEM):
            return first
        if " -c" in self.command or first.startswith("/"):
            inner = re.search(r"-c\s+[\"']?\s*(/[\w./@+-]+)", self.command)
            return inner[1] if inner else first
        moved = re.search(r"\bcd\s+(/[\w./@+-]+)", self.command)
        own = first.startswith("./") or "/" in first
        return settings.whole(first, moved[1]) if moved and own else ""

    @property
    def log(self) -> str:
        found = re.search(r">>?\s*(/[\w./@+-]+)", self.command)
        return found[1] if found else ""

    @property
    def locks(self) -> list[str]:
        return _FLOCK.findall(self.command)

    @property
    def path(self) -> list[str]:
        return self.variables.get("PATH", PATH).split(":")

    @property
    def cut(self) -> int:
        """Where cron ends the command: at its first percent sign; -1 where there is none."""
        found = _PERCENT.search(self.command)
        return found.start() if found else -1


def is_system(table: str) -> bool:
    """Whether its lines name the user as whom they are run."""
    return table.startswith(_SYSTEM_TABLES)


def jobs(tables: dict[str, list[str]]) -> list[Job]:
    """All lines of all tables that begin something, readable or not."""
    found = []
    for table, rows in tables.items():
        known = dict[str, str]()
        for row in rows:
            text = row.strip()
            if text.startswith("#"):
                continue
            if entry := _TIMES.match(text):
                found.append(_job(table, row, entry[1], entry[2], dict(known)))
            elif named := _VARIABLE.match(text):
                known[named[1]] = named[2]
    return found


def _job(table: str, row: str, times: str, rest: str, known: dict[str, str]) -> Job:
    user = ""
    if is_system(table) and (told := re.match(r"([a-z_][\w.-]*)\s+(\S.*)$", rest)):
        user, rest = told[1], told[2]
    return Job(table, row, times, user, rest, known)


def flocks(text: str) -> list[str]:
    """Locks that a script takes."""
    return _FLOCK.findall(text)


def misread(times: str) -> str:
    """Which part of the times cron cannot read; empty where it reads all."""
    if times.startswith("@"):
        return "" if times in (*_USUAL, "@reboot") else times
    for at, text in enumerate(times.split()):
        if _values(text, at) is None:
            return f"{_FIELDS[at]} {text!r}"
    return ""


def gap(times: str) -> float:
    """The longest time between two runs in minutes; that of a day where not each day has one."""
    fields = _USUAL.get(times, times).split()
    values = [_values(text, at) for at, text in enumerate(fields)]
    if len(values) != len(_FIELDS) or not all(values):
        return float("inf")
    minutes, hours = values[0] or set(), values[1] or set()
    if any(text not in ("*", "*/1") for text in fields[2:]):
        return 7.0 * DAY if fields[4] != "*" else 31.0 * DAY
    at = sorted(hour * 60 + minute for hour in hours for minute in minutes)
    return float(max(b - a for a, b in zip(at, [*at[1:], at[0] + DAY], strict=True)))


def _values(text: str, at: int) -> set[int] | None:
    """What a field stands for; None where it cannot be read."""
    low, high = _SPANS[at]
    found = set[int]()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        if slash and (not step.isdigit() or not int(step[:6]) > 0):
            return None
        first, dash, last = span.partition("-")
        if span == "*":
            ends: tuple[int | None, int | None] = low, high
        else:
            ends = _number(first, at), _number(last if dash else first, at)
        if ends[0] is None or ends[1] is None or not low <= ends[0] <= ends[1] <= high:
            return None
        found |= set(range(ends[0], ends[1] + 1, int(step[:6]) if slash else 1))
    return found


def _number(text: str, at: int) -> int | None:
    names = _NAMES.get(at, ())
    if text.lower() in names:
        return names.index(text.lower()) + (at == 3)
    return int(text[:6]) if text.isdigit() else None


def passed_over(path: str) -> str:
    """The name by which cron would read a file of its folder that it passes over as it is called;
    empty where it reads it."""
    own = PurePosixPath(path)
    if str(own.parent) != FOLDER or FILE.fullmatch(own.name):
        return ""
    return legal(own.name.rstrip("~"), own.name)


def legal(name: str, otherwise: str) -> str:
    """A name that cron reads, made of another."""
    first = name.lstrip(".").partition(".")[0]
    return first if FILE.fullmatch(first) else re.sub(r"[^A-Za-z0-9_-]+", "-", otherwise)


class Lying(Struct, frozen=True):
    """How a table lies there."""

    row: parse.FileRow | None = None
    unended: bool = False
    returns: bool = False


def lying(text: str, table: str) -> Lying:
    """By what `TABLES` printed."""
    folder, _, name = table.rpartition("/")
    rows = parse.folders(text).get(folder, [])
    row = next((one for one in rows if one.own == name), None)
    said = text.splitlines()
    return Lying(row, f"unended {table}" in said, f"returns {table}" in said)


def users(text: str) -> list[str]:
    """Who is known on the machine."""
    return re.findall(r"^user (\S+)$", text, re.MULTILINE)


def wanted_minutes(told: Sequence[str], seconds: float) -> int:
    """How often people say that something is made; else so often that it is never older than so
    many seconds."""
    for text in told:
        if re.search(r"(?i)\b(?:each|every|per) minute\b|\bminutely\b", text):
            return 1
        if number := re.search(r"(?i)\bevery (\d{1,2}) ?min", text):
            return max(1, int(number[1]))
        if re.search(r"(?i)\b(?:each|every) hour\b|\bhourly\b", text):
            return 60
    fitting = [one for one in (1, 2, 5, 10, 15, 20, 30, 60) if one * 60 <= seconds / 1.3]
    return max(fitting, default=1)


def every(minutes: int) -> str:
    """Times of cron."""
    if minutes <= 1:
        return "* * * * *"
    return f"*/{minutes} * * * *" if minutes < 60 else "0 * * * *"


def allowed_age(check: str) -> float:
    """How old a check lets something be, in seconds; 0 where that cannot be told."""
    days = {"-mmin": 60.0, "-mtime": 86_400.0}
    for flag, number in re.findall(r"(-mmin|-mtime)\s+[+-]?(\d{1,6})", check):
        return days[flag] * float(number)
    found = re.findall(r"(?:-lt|-le|-gt|-ge|<=?|>=?)\s*(\d{1,7})\b", check)
    return float(found[-1]) if found else 0.0


def remarks(rows: Sequence[str]) -> Iterator[str]:
    for row in rows:
        if row.lstrip().startswith("#"):
            yield row
