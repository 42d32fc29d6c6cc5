"""All that is known of an incident: what was seen, and what follows from it at once."""

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.view import parse, probes, settings, stamps
from hermes_agent.models.responder.view.house import LOG, House
from hermes_agent.models.responder.view.parse import paths_in
from hermes_agent.models.responder.view.seen import Seen
from hermes_agent.models.responder.view.sight import CURL, Definition, once
from hermes_agent.models.responder.view.stamps import stamp

__all__ = ["CURL", "Case", "Definition", "case_of", "paths_in", "stamp"]

CROWD = 4
"""Connections of one process to one port that are more than it should need."""
YOUNG_SECONDS = 4
RECENT_SECONDS = 900.0
"""What a log said longer ago is an old story."""
LAST_SECONDS, LAST_LINES, DAY = 120.0, 3, 86_400.0
"""How long the last words of a service are, and how old they may be."""
ZONE_SECONDS, ODD_SECONDS = 900.0, 90.0
"""Time zones differ by quarters of an hour; what is off by about that much is of another zone."""
_TROUBLE = re.compile(
    r"error|fatal|critical|emerg|alert\b|cannot|can't|could not|couldn't|fail|denied|refus"
    r"|traceback|exception|no space|too many|timed? ?-?out|not found|no such|unable|invalid"
    r"|expired|killed|memory|in use|already|giving up|gave up|unreachable|no route|warn|panic|abort"
    r"|reject|broken|unexpected|missing|corrupt|exceed|exhaust|stuck|stale|overflow|unknown|unresolved"
    r"|unbound|unrecogn"
    r"|\bbad\b|must be|not (?:a|an|be|set|defined|permitted|allowed|available|readable|writable)\b"
    r"|\b5\d\d\b",
    re.IGNORECASE,
)
_LOG_KEY = re.compile(
    r"(?:^|[._-])(?:\w*log|logging|logs)(?:[._-]?(?:file|filename|path|name|to|out|output))?$",
    re.IGNORECASE,
)
_PEOPLE = re.compile(r"^-|\b(sshd|login|tmux|screen|sudo|su|systemd|hermes\w*)\b")
"""Processes of people who are logged in, and of whoever looks after the machine."""
_LOGGED_IN = re.compile(r"^-\w*sh\b|\b(sshd|login|tmux|screen)\b")
_SCHEDULER = re.compile(r"(\S*/)?(cron|crond|atd|anacron)\b")
"""Those who start what others wrote down, each for itself."""
KEEPERS = re.compile(
    r"^(?:/\S*/)?(cron|crond|atd|anacron|init|inetd|xinetd|containerd\S*|dockerd)\b|supervisord\b",
    re.IGNORECASE,
)
"""Those that start others: they stay, whatever they started."""
_URL = re.compile(
    r"\b\w+://(?:[^\s/@]*@)?([A-Za-z0-9_.-]+|\[[0-9a-f:]+\])(?::(\d+))?(/[^\s'\";|,]*)?"
)
_USUAL = {
    "https": 443, "wss": 443, "postgres": 5432, "postgresql": 5432, "mysql": 3306, "redis": 6379,
    "amqp": 5672, "mongodb": 27017, "memcached": 11211, "ldap": 389, "smtp": 25, "ftp": 21,
}  # fmt: skip
TAG = (
    r"(?:^|\s){0}(?:\[\d+\])?: "
    r"|\b(?:service|app|unit|program|name|logger)\"?[=:]\s?\"?{0}(?![\w.-])"
)
"""How a line of a log of many says whose it is."""


class Line(Struct, frozen=True):
    """A line of a log, and when it was written: as it says itself, or as the one before it does."""

    path: str
    text: str
    at: float


@lru_cache(8192)
def _is_trouble(line: str) -> bool:
    """Whether a line tells of something wrong: the same lines are read many times in a case."""
    told = _TROUBLE.search(line) is not None or stamps.is_grave(line)
    return told and not stamps.is_calm(line)


class Case(House):
    """What was seen since the last change. All of it follows from that alone."""

    # logs

    @cached_property
    def logs(self) -> dict[str, list[str]]:
        """The ends of all logs that were looked at."""
        found = dict[str, list[str]]()
        for one in self.observed:
            ends = dict[str, list[str]]()
            if one.command.startswith("tail -v") and " -n +1 " not in one.command:
                ends = parse.files(one.output)
            elif tailed := re.fullmatch(r"tail -n \d+ (\S+)", one.command):
                ends = {shlex.split(tailed[1])[0]: one.lines} if one.ok else {}
            elif unit := re.fullmatch(r"journalctl -u (\S+) .*", one.command):
                ends = {f"journal/{unit[1]}": one.lines}
            for path, rows in ends.items():
                if len(rows) >= len(found.get(path, [])):
                    found[path] = rows
        return found

    @cached_property
    def log_rows(self) -> dict[str, parse.Sized]:
        """Logs that were written today, by path, the newest first."""
        return {row.path: row for row in parse.sizes(self.text(probes.LOG_FILES))}

    @once
    def log_files(self, service: str) -> list[str]:
        """Logs of a service: those that its entry, its settings or people name, that it has open,
        or that are called as it is."""
        definition = self.definition(service)
        own = [*(definition.logs if definition else []), *self.opened(service)]
        told = self._told_logs(service)
        own += [path for path in self.named(service) if LOG.search(path)]
        found = [path for path in own if path in self.logs or LOG.search(path)] + told
        there = dict.fromkeys([*self.logs, *self.log_rows])
        found += [path for path in there if self._is_log_of(service, path)]
        return list(dict.fromkeys(found))

    def _told_logs(self, service: str) -> list[str]:
        """Files that a setting calls a log, whatever they are called themselves."""
        base = self.directory(service)
        found = [
            settings.whole(value, base)
            for _, values in self.sources(service)
            for key, value in values.items()
            if _LOG_KEY.search(key) and re.fullmatch(r"[\w./@+-]*[/.][\w./@+-]+", value)
        ]
        return [path for path in found if path and not re.search(r"/dev/|/$", path)]

    def _is_log_of(self, service: str, path: str) -> bool:
        name, parts = service.rpartition(":")[2], PurePosixPath(path).parts
        if name in parts or _stem(path) == name:
            return True
        if re.match(rf"{re.escape(name)}[-_.]", parts[-1]):
            longer = [one for one in self.services if one != name and one.startswith(name)]
            return not any(parts[-1].startswith(one) for one in longer)
        return any(path.startswith(f"{folder}/") for folder in self.folders(service))

    @once
    def entries(self, service: str) -> list[Line]:
        """The lines of its logs, and those of common logs that are its own."""
        own, name = self.log_files(service), service.rpartition(":")[2]
        found = [line for path in own for line in self._lines(path)]
        tag = re.compile(TAG.format(re.escape(name)))
        for path in self.logs:
            if path not in own:
                near = [line for line in self._lines(path) if name in line.text]
                found += [line for line in near if tag.search(line.text)]
        return sorted(found, key=lambda line: line.at or self.now)

    @once
    def _lines(self, path: str) -> list[Line]:
        rows = self.logs.get(path, [])
        off = self._zone_of(path, rows)
        found, at = list[Line](), 0.0
        written = self.log_rows.get(path)
        if written is not None and self.now - written.time > RECENT_SECONDS:
            at = written.time  # the file says when, where its lines do not
        for row in rows:
            at = stamp(row, self.now, off) or at
            found.append(Line(path, row, at))
        return found

    def _zone_of(self, path: str, rows: Sequence[str]) -> float:
        """By how much its writer's clock is ahead of UTC: as the machine's is, or as its last line
        is of another zone than the time at which the file was written."""
        row = self.log_rows.get(path)
        last = next((at for one in reversed(rows) if (at := stamp(one, self.now))), 0.0)
        if row is None or not last:
            return self.offset
        apart = last - row.time
        zones = round(apart / ZONE_SECONDS)
        near = abs(apart - zones * ZONE_SECONDS) < ODD_SECONDS
        return zones * ZONE_SECONDS if near and 0 < abs(zones) <= 56 else 0.0

    def log(self, service: str) -> list[tuple[str, str]]:
        """The ends of its logs, path and line."""
        return [(line.path, line.text) for line in self.entries(service)]

    @once
    def troubles(self, service: str) -> list[str]:
        """Lines of its logs that tell of something wrong, and are no old story; last first. The
        last words of one that does not come up do, however they are put."""
        last = self._last_lines(service)
        return [
            line.text
            for line in reversed(self.entries(service))
            if (_is_trouble(line.text) or line in last) and self._is_recent(line.at, service)
        ]

    def _last_lines(self, service: str) -> list[Line]:
        program = self.programs.get(service)
        if program is None or program.state not in ("FATAL", "BACKOFF", "EXITED", "failed"):
            return []
        said = [one for one in self.entries(service) if one.text.strip()][-LAST_LINES:]
        return [one for one in said if not stamps.is_calm(one.text)]

    def troubles_since(self, service: str, at: float) -> list[str]:
        """Those that were written after a moment."""
        late = {line.text for line in self.entries(service) if line.at > at}
        return [line for line in self.troubles(service) if line in late]

    def said(self, service: str, pattern: str) -> Iterator[str]:
        """Recent lines of its logs that hold a pattern, whatever their level; last first."""
        wanted = re.compile(pattern, re.IGNORECASE)
        for line in reversed(self.entries(service)):
            if wanted.search(line.text) and self._is_recent(line.at, service):
                yield line.text

    def said_ever(self, service: str, pattern: str) -> Iterator[str]:
        """As `said`, whatever time the line is of."""
        for line in reversed(self.entries(service)):
            if re.search(pattern, line.text, re.IGNORECASE):
                yield line.text

    def recent(self, line: str) -> bool:
        return self._is_recent(stamp(line, self.now, self.offset))

    def _is_recent(self, at: float, service: str = "") -> bool:
        """Whether a moment is no old story. The last words of one that does not run are none
        either, as long as they are of today."""
        if not at or not self.now or abs(self.now - at) < RECENT_SECONDS:
            return True
        program = self.programs.get(service)
        if program is None or program.up or self.now - at > DAY:
            return False
        return self._last_word(service) - at < LAST_SECONDS

    @once
    def _last_word(self, service: str) -> float:
        return max(line.at for line in self.entries(service))

    # who does what

    def crowd(self, port: int, least: int = CROWD) -> list[tuple[int, int, str]]:
        """Processes with many connections to a port: the process, how many, and a line of them."""
        many = [
            (pid, len(rows), next(iter(rows.values())))
            for pid, rows in self._connected.get(str(port), {}).items()
            if len(rows) >= least
        ]
        return sorted(many, key=lambda one: -one[1])

    @cached_property
    def _connected(self) -> dict[str, dict[int, dict[str, str]]]:
        """By port and process: from where it is connected, and the line."""
        found = dict[str, dict[int, dict[str, str]]]()
        for line in f"{self.text(probes.CONNECTIONS)}\n{self.text(probes.CLIENTS)}".splitlines():
            words = line.split()
            if len(words) > 4 and ":" in words[4]:
                rows = found.setdefault(words[4].rpartition(":")[2], {})
                pids = {self._standing(int(pid)) for pid in re.findall(r"pid=(\d{1,9})", line)}
                for pid in pids:
                    rows.setdefault(pid, {})[words[3]] = line.strip()
        return found

    @cached_property
    def _parents(self) -> dict[int, int]:
        """Of all processes that were seen, those that came and went among them."""
        rows = re.findall(r"^ *(\d{1,9}) +(\d{1,9})$", self.text(probes.CLIENTS), re.MULTILINE)
        return {int(pid): int(parent) for pid, parent in rows}

    def _standing(self, pid: int) -> int:
        """A process, or the one above it that stays where it came and went."""
        here, seen = pid, set[int]()
        while self.process(here) is None and here in self._parents and here not in seen:
            seen.add(here)
            here = self._parents[here]
        return here if here > 1 else pid

    def strangers(self, pid: int, *, harmful: bool = False) -> list[parse.Process]:
        """A process that nobody looks after with those above it, the highest first; none where
        somebody does, where it belongs to whoever looks or to a person who is logged in, or where
        it is not known who looks after what. One that gives way to others is left alone, too,
        unless it is seen to do harm, as by what it holds."""
        found: list[parse.Process] = []
        if not self.definitions:
            return found
        while (one := self.process(pid)) is not None and one.pid != 1 and len(found) < 20:
            if found and _SCHEDULER.match(one.command):
                break  # what it starts is nobody's, it is not
            if self._is_kept(one, harmful) or one.parent == 0 or self._is_starting(one):
                return []
            if (one.nice > 0 and not harmful) or _PEOPLE.search(one.command):
                return []
            if found and KEEPERS.search(one.command):
                break
            found.insert(0, one)
            pid = one.parent
        return found

    def is_of_people(self, process: parse.Process) -> bool:
        """Whether somebody who is logged in started it."""
        here: parse.Process | None = process
        seen = set[int]()
        while here is not None and here.pid not in seen:
            if _LOGGED_IN.search(here.command):
                return True
            seen.add(here.pid)
            here = self.process(here.parent)
        return False

    def _is_kept(self, process: parse.Process, harmful: bool) -> bool:
        """Whether somebody looks after it. Of what a scheduler starts nobody looks how it goes."""
        owner = self.owner(process.pid)
        main = self.process(self.programs[owner].pid) if owner in self.programs else None
        if harmful and main is not None and main.pid != process.pid:
            return not _SCHEDULER.match(main.command)
        return bool(owner)

    def _is_starting(self, process: parse.Process) -> bool:
        """Whether it was only just started, by the command of one that is looked after."""
        told = [one.command for one in self.definitions.values()]
        return process.age < YOUNG_SECONDS and any(one.endswith(process.command) for one in told)

    def database_of(self, port: int) -> str:
        """The service that is the database behind a port."""
        found = next((self.owner(one.pid) for one in self.listeners if one.port == port), "")
        return found or next((name for name in self.services if port in self.ports(name)), "")

    def urls(self, text: str) -> list[tuple[str, int, str]]:
        """Host, port and the whole of each address in a text."""
        found = []
        for url in _URL.finditer(text):
            port = int(url[2]) if url[2] and len(url[2]) < 6 else 0
            found.append((url[1], port or _USUAL.get(url[0].partition(":")[0], 80), url[0]))
        return found

    def restart(self, service: str) -> str:
        """The command that starts it anew; one that its supervisor gave up is let try again, and
        what was changed of how it is started is heeded."""
        program, definition = self.programs.get(service), self.definition(service)
        name = shlex.quote(program.name if program is not None else service)
        if self.supervised:
            return f"supervisorctl restart {name}"
        before = ""
        if definition is not None and (definition.drop_ins or definition.settings.get("stale")):
            before = "systemctl daemon-reload; "
        if program is not None and program.state == "failed":
            before += f"systemctl reset-failed {name}; "
        return f"{before}systemctl restart {name}"


def case_of(brief: Brief, observed: Sequence[Seen]) -> Case:
    """The case of what was seen. A conversation is gone through again for each reply, so what was
    made of the same is kept for a while."""
    return _case(brief, tuple(observed))


@lru_cache(64)
def _case(brief: Brief, observed: tuple[Seen, ...]) -> Case:
    return Case(brief, observed)


def _stem(path: str) -> str:
    return PurePosixPath(path).name.partition(".")[0]
