"""What was seen on a machine, read into values: who runs, who listens, who is looked after by
whom."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, wraps
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.view import parse, probes, settings
from hermes_agent.models.responder.view.seen import Seen

CURL = {
    6: "could not resolve host", 7: "connection refused", 22: "an HTTP error", 28: "timed out",
    35: "the TLS handshake failed", 52: "an empty answer", 60: "the certificate is not valid",
}  # fmt: skip
"""What the codes mean with which curl ends."""


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
        return settings.split(self.command)

    @property
    def directory(self) -> str:
        return self.settings.get("directory", "")

    @property
    def configs(self) -> list[str]:
        """Files among its arguments that look like its configuration."""
        parts = [word.rpartition("=")[2] for word in self.words]
        return [part for part in parts if part.startswith("/") and settings.is_config(part)]

    @property
    def drop_ins(self) -> list[str]:
        """Files that change what the entry says."""
        return [one for one in self.settings.get("drop_ins", "").split() if one.startswith("/")]

    @property
    def log(self) -> str:
        return next(iter(self.logs), "")

    @property
    def logs(self) -> list[str]:
        """Where what it says goes to."""
        given = [self.settings.get(f"{one}_logfile", "") for one in ("stdout", "stderr")]
        given = [re.sub(r"%\((?:program|group)_name\)s", self.name, one) for one in given]
        given = [re.sub(r"%\(\w+\)0?\d*[sd]", "*", one) for one in given]
        return [one for one in dict.fromkeys(given) if one.startswith("/") and "/dev/" not in one]


T = TypeVar("T")
S = TypeVar("S", bound="Sight")


def once(method: Callable[[S, str], T]) -> Callable[[S, str], T]:
    """What is asked of a service or a file many times is found out once: nothing that was seen
    changes. Whoever gets a list leaves it as it is."""
    name = f"{method.__module__}.{method.__qualname__}"

    @wraps(method)
    def kept(self: S, service: str) -> T:
        key = name, service
        if key not in self.known:
            self.known[key] = method(self, service)
        return self.known[key]  # type: ignore[return-value]  # of this method, by its name

    return kept


class Sight:
    """What was seen since the last change."""

    def __init__(self, brief: Brief, observed: Sequence[Seen]) -> None:
        self.brief = brief
        self.observed = tuple(observed)
        self.known: dict[tuple[str, str], object] = {}

    # what was run

    def look(self, command: str) -> Seen | None:
        """What a command came to, the last time that it was run."""
        return self._ran.get(command)

    @cached_property
    def _ran(self) -> dict[str, Seen]:
        return {one.command: one for one in self.observed}

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
        return tuple(command for command in dict.fromkeys(commands) if command not in self._ran)

    # views

    @cached_property
    def programs(self) -> dict[str, parse.Program]:
        """By their names; those of a group by their own name, too."""
        found = [*parse.supervised(self.text(probes.STATUS)), *parse.units(self.text(probes.UNITS))]
        pids = {name: int(facts.get("MainPID", "") or 0) for name, facts in self._units.items()}
        found = [replace(one, pid=one.pid or pids.get(one.name, 0)) for one in found]
        named = {one.name: one for one in found}
        for one in found:
            group, _, own = one.name.partition(":")
            named.setdefault(own or group, one)
            if own.startswith(group):
                named.setdefault(group, one)
        return named

    @cached_property
    def _units(self) -> dict[str, dict[str, str]]:
        """What systemd says of units, by their names."""
        shown = [one.output for one in self.observed if one.command.startswith("systemctl show ")]
        facts = [one for text in shown for one in parse.unit_facts(text)]
        return {one["Id"].removesuffix(".service"): one for one in facts}

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
        found = {one.name: one for one in self._started_by_units()}
        for path, lines in parse.files(self.text(probes.PROGRAMS)).items():
            name, key, values = "", "", dict[str, str]()
            for line in lines:
                if line.lstrip().startswith((";", "#")):
                    continue
                if line.startswith("["):
                    head = re.match(r"\[(?:program|eventlistener):([^\]]+)\]", line)
                    name, key, values = head[1].strip() if head else "", "", {}
                    if name:
                        found[name] = Definition(name, path, values)
                    continue
                text = line.partition(" ;")[0]
                if name and key and line[:1].isspace():
                    values[key] += " " + text.strip()
                elif name and (setting := re.match(r"([A-Za-z_]\w*)\s*[=:]\s*(.*?)\s*$", text)):
                    key = setting[1]
                    values[key] = setting[2]
        return found

    def _started_by_units(self) -> Iterator[Definition]:
        for name, facts in self._units.items():
            files = re.findall(r"(/\S+) \(", facts.get("EnvironmentFiles", ""))
            pairs = [word.replace('"', "") for word in settings.split(facts.get("Environment", ""))]
            told = ",".join(re.sub(r"=(.*)", r'="\1"', pair, count=1) for pair in pairs)
            values = {
                "command": " ".join([facts["command"], *(f"--env-file={one}" for one in files)]),
                "directory": facts.get("WorkingDirectory", "").lstrip("!-"),
                "environment": told,
                "user": facts.get("User", ""),
                "drop_ins": facts.get("DropInPaths", ""),
                "stale": "yes" if facts.get("NeedDaemonReload") == "yes" else "",
            }
            yield Definition(name, facts.get("FragmentPath", ""), values)

    @cached_property
    def now(self) -> float:
        words = self.text(probes.CLOCK).split()
        return parse.number(words[0]) if words else 0.0

    @cached_property
    def offset(self) -> float:
        """Seconds by which the machine's own time is ahead of UTC."""
        found = re.search(r" ([+-])(\d\d)(\d\d)$", self.text(probes.CLOCK).strip())
        if not found:
            return 0.0
        ahead = int(found[2]) * 3600.0 + int(found[3]) * 60.0
        return -ahead if found[1] == "-" else ahead

    @cached_property
    def services(self) -> list[str]:
        """All that are known, the one of the alert first."""
        known = [self.brief.service, *(one.name for one in self.brief.services)]
        if self.supervised:
            known += [one.name for one in self.programs.values() if not self._is_known(one, known)]
        return [name for name in dict.fromkeys(known) if name]

    def _is_known(self, program: parse.Program, known: list[str]) -> bool:
        return any(self.programs.get(name) is program for name in known)

    def about(self, service: str) -> str:
        """What people wrote down about a service."""
        return next((one.about for one in self.brief.services if one.name == service), "")

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

    def definition(self, service: str) -> Definition | None:
        """How a service is started; one of a group is found by its group's name, too."""
        if service in self.definitions:
            return self.definitions[service]
        program = self.programs.get(service)
        group, _, own = program.name.partition(":") if program else ("", "", "")
        return self.definitions.get(own) or self.definitions.get(group)

    def process(self, pid: int) -> parse.Process | None:
        return self._by_pid.get(pid)

    @cached_property
    def _by_pid(self) -> dict[int, parse.Process]:
        return {one.pid: one for one in reversed(self.processes)}
