"""All that is known of an incident: what was seen, and what follows from it at once."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.seen import Seen

CROWD = 4
"""Connections of one process to one port that are more than it should need."""
YOUNG_SECONDS = 4
RECENT_SECONDS = 900.0
"""What a log said longer ago is an old story."""
CURL = {
    6: "could not resolve host", 7: "connection refused", 22: "an HTTP error", 28: "timed out",
    35: "the TLS handshake failed", 52: "an empty answer", 60: "the certificate is not valid",
}  # fmt: skip
"""What the codes mean with which curl ends."""
_STAMP = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)")
_TROUBLE = re.compile(
    r"error|fatal|critical|emerg|alert\b|cannot|can't|could not|fail|denied|refused|traceback"
    r"|exception|no space|too many|timed? ?out|not found|no such|unable|invalid|expired|killed"
    r"|memory|in use|already|giving up|unreachable|no route|warn",
    re.IGNORECASE,
)
_CONFIG = re.compile(r"\.(conf|cfg|ini|ya?ml|json|toml|properties|env)$")
_SETTING = re.compile(r"^\s*([A-Za-z_][\w.-]*)\s*[=:]\s*(.*?)\s*;?\s*$")
_PEOPLE = re.compile(r"^-|\b(sshd|login|tmux|screen|sudo|su|systemd|hermes\w*)\b")
"""Processes of people who are logged in, and of whoever looks after the machine."""
_PATH = re.compile(r"(?<![\w/.])(/[\w.@+~-]+(?:/[\w.@+~-]+)+)")
_URL = re.compile(r"\bhttps?://([A-Za-z0-9_.-]+|\[[0-9a-f:]+\])(?::(\d+))?(/[^\s'\";|]*)?")


class Definition(Struct, frozen=True):
    """How a program is started, as its supervisor's configuration has it."""

    name: str
    path: str
    """The file that says so."""
    settings: dict[str, str]

    @property
    def command(self) -> str:
        return self.settings.get("command", "")

    @property
    def words(self) -> list[str]:
        try:
            return shlex.split(self.command)
        except ValueError:
            return self.command.split()

    @property
    def configs(self) -> list[str]:
        """Files among its arguments that look like its configuration."""
        return [word for word in self.words if word.startswith("/") and _CONFIG.search(word)]

    @property
    def log(self) -> str:
        return self.settings.get("stdout_logfile", "")


class Case:
    """What was seen since the last change. Nothing of it is kept from one request to the next."""

    def __init__(self, brief: Brief, observed: Sequence[Seen]) -> None:
        self.brief = brief
        self.observed = tuple(observed)
        self._settings: dict[str, dict[str, str]] = {}
        self._log: dict[str, list[tuple[str, str]]] = {}

    # what was run

    def look(self, command: str) -> Seen | None:
        """What a command came to, the last time that it was run."""
        return next((one for one in reversed(self.observed) if one.command == command), None)

    @property
    def symptom(self) -> str:
        """What the check said when it failed, by its code where that is curl's."""
        check = self.brief.check
        if check is None:
            return ""
        meant = CURL.get(check.exit or 0, "") if "curl" in check.command else ""
        return f"{check.output} {meant}".strip()

    def text(self, command: str) -> str:
        found = self.look(command)
        return found.output if found is not None else ""

    def missing(self, commands: Iterable[str]) -> tuple[str, ...]:
        """Those of the commands that were not run yet."""
        ran = {one.command for one in self.observed}
        return tuple(command for command in dict.fromkeys(commands) if command not in ran)

    # views

    @cached_property
    def programs(self) -> dict[str, parse.Program]:
        found = [*parse.supervised(self.text(probes.STATUS)), *parse.units(self.text(probes.UNITS))]
        return {one.name: one for one in found}

    @cached_property
    def supervised(self) -> bool:
        return any(parse.supervised(self.text(probes.STATUS)))

    @cached_property
    def processes(self) -> list[parse.Process]:
        return list(parse.processes(self.text(probes.PROCESSES)))

    @cached_property
    def listeners(self) -> list[parse.Listener]:
        return list(parse.listeners(self.text(probes.LISTENERS)))

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        found: dict[str, Definition] = {}
        for path, lines in parse.files(self.text(probes.PROGRAMS)).items():
            name, values = "", dict[str, str]()
            for line in lines:
                if head := re.match(r"\[(?:program|eventlistener):([^\]]+)\]", line.strip()):
                    name, values = head[1], {}
                    found[name] = Definition(name, path, values)
                elif name and (setting := _SETTING.match(line.partition(" ;")[0])):
                    values[setting[1]] = setting[2]
        return found

    @cached_property
    def logs(self) -> dict[str, list[str]]:
        """The ends of all logs that were looked at."""
        found = dict[str, list[str]]()
        for one in self.observed:
            if one.command == probes.LOGS or one.command.startswith("tail -v"):
                found |= {
                    path: lines
                    for path, lines in parse.files(one.output).items()
                    if path.startswith("/var/log") or path.endswith(".log")
                }
            elif tailed := re.fullmatch(r"tail -n \d+ (\S+)", one.command):
                found[tailed[1]] = one.lines
        return found

    @cached_property
    def now(self) -> float:
        words = self.text(probes.CLOCK).split()
        return parse.number(words[0]) if words else 0.0

    @cached_property
    def services(self) -> list[str]:
        """All that are known, the one of the alert first."""
        known = [self.brief.service, *(one.name for one in self.brief.services)]
        known += [*self.programs] if self.supervised else []
        return [name for name in dict.fromkeys(known) if name]

    def needs(self, service: str) -> list[str]:
        """What a service needs, near ones first."""
        table = {one.name: one.needs for one in self.brief.services}
        found: list[str] = []
        waiting = list(table.get(service, ()))
        while waiting:
            name = waiting.pop(0)
            if name not in found and name != service:
                found.append(name)
                waiting += table.get(name, ())
        return found

    @property
    def suspects(self) -> list[str]:
        """The service of the alert and all that it needs; all services where nothing is known."""
        own = [self.brief.service, *self.needs(self.brief.service)]
        rest = [name for name in self.services if name not in own]
        return [*(name for name in own if name), *rest]

    # one service

    def pids(self, service: str) -> list[int]:
        """Its process and all that this one started."""
        program = self.programs.get(service)
        if program is None or not program.pid:
            return []
        found = [program.pid]
        for process in sorted(self.processes, key=lambda one: one.pid):
            if process.parent in found:
                found.append(process.pid)
        return found

    def owner(self, pid: int) -> str:
        """The service whose process this is; empty where nobody looks after it."""
        return next((name for name in self.programs if pid in self.pids(name)), "")

    def user_of(self, path: str, otherwise: str) -> str:
        """The service whose file it is, by its name or its configuration."""
        parts = PurePosixPath(path).parts
        for service in self.services:
            data = self.settings(service).get("data", "")
            if service in parts or (data and path.startswith(data)):
                return service
        return otherwise

    def process(self, pid: int) -> parse.Process | None:
        return next((one for one in self.processes if one.pid == pid), None)

    def settings(self, service: str) -> dict[str, str]:
        """What its configuration says, as far as it was read."""
        if service in self._settings:
            return self._settings[service]
        found = self._settings[service] = dict[str, str]()
        for path in self.configs(service):
            for line in self.text(probes.show(path)).splitlines():
                if (setting := _SETTING.match(line)) and not line.lstrip().startswith(("#", ";")):
                    found[setting[1]] = setting[2]
        return found

    def configs(self, service: str) -> list[str]:
        found = self.definitions.get(service)
        return found.configs if found else []

    def log(self, service: str) -> list[tuple[str, str]]:
        """The ends of its logs, path and line."""
        if service not in self._log:
            definition = self.definitions.get(service)
            own = {definition.log if definition else "", self.settings(service).get("log", "")}
            self._log[service] = [
                (path, line)
                for path, lines in self.logs.items()
                if path in own or service in PurePosixPath(path).parts or _stem(path) == service
                for line in lines
            ]
        return self._log[service]

    def troubles(self, service: str) -> list[str]:
        """Lines of its logs that tell of something wrong, and are no old story; last first."""
        lines = [line for _, line in self.log(service) if _TROUBLE.search(line)]
        lines = [line for line in lines if not re.search(r"\b(INFO|DEBUG)\b", line)]
        return [line for line in reversed(lines) if self.recent(line)]

    def said(self, service: str, pattern: str) -> Iterator[str]:
        """Recent lines of its logs that hold a pattern, whatever their level; last first."""
        for _, line in reversed(self.log(service)):
            if re.search(pattern, line, re.IGNORECASE) and self.recent(line):
                yield line

    def said_ever(self, service: str, pattern: str) -> Iterator[str]:
        """As `said`, whatever time the line is of."""
        for _, line in reversed(self.log(service)):
            if re.search(pattern, line, re.IGNORECASE):
                yield line

    def recent(self, line: str) -> bool:
        written = stamp(line)
        return not written or not self.now or abs(self.now - written) < RECENT_SECONDS

    def ports(self, service: str) -> list[int]:
        """Those that it has in its configuration, and those on which it listens."""
        values = self.settings(service)
        named = [value for key, value in values.items() if key in ("port", "listen", "bind_port")]
        found = [int(value) for value in named if value.isdigit() and len(value) < 6]
        pids = set(self.pids(service))
        found += [one.port for one in self.listeners if one.pid in pids]
        return list(dict.fromkeys(found))

    def listens(self, service: str, port: int) -> bool:
        pids = set(self.pids(service))
        return any(one.port == port and one.pid in pids for one in self.listeners)

    def crowd(self, port: int) -> list[tuple[int, int, str]]:
        """Processes with many connections to a port: the process, how many, and a line of them."""
        found: dict[int, list[str]] = {}
        for line in self.text(probes.CONNECTIONS).splitlines():
            words = line.split()
            owner = re.search(r"pid=(\d{1,9})", line)
            if len(words) > 4 and owner and words[4].endswith(f":{port}"):
                found.setdefault(int(owner[1]), []).append(line.strip())
        many = [(pid, len(rows), rows[0]) for pid, rows in found.items() if len(rows) >= CROWD]
        return sorted(many, key=lambda one: -one[1])

    def strangers(self, pid: int, *, harmful: bool = False) -> list[parse.Process]:
        """A process that nobody looks after with those above it, the highest first; none where
        somebody does, where it belongs to whoever looks or to a person who is logged in, or where
        it is not known who looks after what. One that gives way to others is left alone, too,
        unless it is seen to do harm, as by what it holds."""
        found: list[parse.Process] = []
        if not self.definitions:
            return found
        while (one := self.process(pid)) is not None and one.pid != 1 and len(found) < 20:
            if self.owner(one.pid) or one.parent == 0 or self._is_starting(one):
                return []
            if (one.nice > 0 and not harmful) or _PEOPLE.search(one.command):
                return []
            found.insert(0, one)
            pid = one.parent
        return found

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
            found.append((url[1], port or (443 if url[0].startswith("https") else 80), url[0]))
        return found

    def restart(self, service: str) -> str:
        name = shlex.quote(service)
        return f"supervisorctl restart {name}" if self.supervised else f"systemctl restart {name}"


def paths_in(line: str) -> list[str]:
    """Paths of files in a line; addresses and what is asked for over HTTP are none."""
    plain = re.sub(r"\w+://\S+|\b(?:GET|PUT|POST|HEAD|DELETE|PATCH) /\S*", " ", line)
    return list(dict.fromkeys(_PATH.findall(plain)))


def stamp(line: str) -> float:
    """When a line of a log was written, as it says itself; 0 where it does not."""
    if found := _STAMP.search(line):
        year, month, day, hour, minute, second = (int(part) for part in found.groups())
        try:
            return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
        except (ValueError, OverflowError):
            return 0.0
    return 0.0


def _stem(path: str) -> str:
    return PurePosixPath(path).name.partition(".")[0]
