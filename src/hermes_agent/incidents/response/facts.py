"""Facts of a machine's services: init system, process, logs, configuration, ports, dependencies,
and how to restart them. Portable, read-only scripts collect them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.incidents.response.survey import (
    FILES,
    LOG,
    PATH,
    SAFE,
    Init,
    Survey,
    survey_script,
)
from hermes_agent.incidents.response.verification import RunCommand

SERVICES = 16
"""The most services whose facts are collected at once."""
SURVEY_SECONDS = 20.0
RECENT_LINES = 200
_SECRET = re.compile(
    r"\.(?:env|pem|key|p12|pfx)$|secret|credential|shadow|private|history", re.IGNORECASE
)
_OWN_PORT = re.compile(
    r"^\W*(?:listen\w*|bind\w*|(?:http|server|listen)?[_-]?port)\b[\"']?\s*[=:\s]\s*[\"']?"
    r"(?:[\w.*\[\]-]*:)?(\d{2,5})\b|--(?:port|listen|bind)[= ](?:[\w.*-]*:)?(\d{2,5})\b",
    re.IGNORECASE | re.MULTILINE,
)  # fmt: skip
_ANY_PORT = re.compile(
    r"[\w\]]:(\d{2,5})\b|port\w*[\"']?\s*[=:\s]\s*[\"']?(\d{2,5})\b", re.IGNORECASE
)
_HOST = re.compile(r"(?:://|@|host\w*[\"']?\s*[=:]\s*[\"']?)([a-z][\w.-]*)", re.IGNORECASE)
_DATA = re.compile(
    r"(?:data|db|database|stor\w*|spool|queue|path|dir\w*|root)[\"']?\s*[=: ]", re.IGNORECASE
)
_ELSEWHERE = re.compile(r"/(?:etc|proc|dev|run|tmp|bin|usr)/|/var/(?:log|run|tmp)/")
_COMMANDS: Mapping[Init, str] = {
    "supervisord": "supervisorctl {1} {2}", "systemd": "systemctl {1} {2}", "runit": "sv {1} {2}",
    "sysv": "{0} {1}", "container": "{0} {1} {2}",
}  # fmt: skip
"""Templates for the unit, a verb and the name."""


class ServiceFacts(Struct, frozen=True, omit_defaults=True):
    service: str
    init: Init = "unknown"
    unit: str = ""
    """Path of its unit, configuration section or init script."""
    restart: str = ""
    start: str = ""
    stop: str = ""
    status: str = ""
    pid: int = 0
    logs: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    needs: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    find_pid: str = "0"
    """A shell expression that gives the current main pid."""
    recent: str = ""
    """A command that prints the end of its logs."""

    @property
    def line(self) -> str:
        """For people and models."""
        state = f"pid {self.pid}" if self.pid else "not running"
        named = (
            ("ports", self.ports), ("logs", self.logs), ("configuration", self.configs),
            ("data", self.data), ("needs", self.needs),
        )  # fmt: skip
        more = [f"{what} {', '.join(map(str, some))}" for what, some in named if some]
        more += [f"restart with `{self.restart}`"] if self.restart else []
        return "; ".join([f"{self.service}: {self.init}, {state}", *more])

    @property
    def values(self) -> Mapping[str, str]:
        """Values of the placeholders of a runbook: plain shell text."""
        return {
            "restart": self.restart or "false", "start": self.start or "false",
            "stop": self.stop or "false", "status": self.status or "false",
            "unit": self.unit or "/dev/null", "pid": self.find_pid,
            "logs": " ".join(self.logs) or "/dev/null", "recent": self.recent or "cat /dev/null",
            "configs": " ".join(self.configs) or "/dev/null",
            "ports": " ".join(map(str, self.ports)) or "0",
            "data": " ".join(self.data) or "/dev/null",
        }  # fmt: skip


async def service_facts(names: Iterable[str], run: RunCommand) -> Mapping[str, ServiceFacts]:
    """Facts of these services and of others that the machine's init system knows."""
    wanted = [one for one in dict.fromkeys(names) if SAFE.fullmatch(one)][:SERVICES]
    if not wanted:
        return {}
    survey = Survey((await run(survey_script(wanted), SURVEY_SECONDS)).output)
    every = list(dict.fromkeys([*wanted, *survey.listed]))[:SERVICES]
    found = {name: _service(survey, name) for name in every}
    texts = {name: await _texts(one.configs, survey, name, run) for name, one in found.items()}
    paths = [path for one in texts.values() for path in PATH.findall(one)]
    paths += [path for name in found for path in survey.paths_of(name)]
    there = await _existing(paths, run)
    found = {name: _with_files(one, texts[name], survey, there) for name, one in found.items()}
    return {name: _with_needs(one, texts[name], found) for name, one in found.items()}


def _service(survey: Survey, name: str) -> ServiceFacts:
    """Facts from its init system, its process and the usual paths."""
    init, unit, pid, find_pid = survey.init(name)
    recent = ""
    if init == "systemd":
        recent = f"journalctl -u {name} -n {RECENT_LINES} --no-pager -o cat 2>/dev/null"
    elif init == "container":
        recent = f"{unit} logs --tail {RECENT_LINES} {name} 2>&1"
    restart, start, stop, status = (
        _COMMANDS.get(init, "").format(unit, verb, survey.called(name))
        for verb in ("restart", "start", "stop", "inspect" if init == "container" else "status")
    )
    return ServiceFacts(
        name, init, unit if unit.startswith("/") else "", restart, start, stop, status, pid,
        survey.logs(name, pid), survey.configs(name), survey.ports(pid),
        data=tuple(survey.places(name, "/var/lib/", folder=True)), find_pid=find_pid,
        recent=recent,
    )  # fmt: skip


async def _texts(configs: Sequence[str], survey: Survey, name: str, run: RunCommand) -> str:
    """The text of its configuration files and of the scripts that start it."""
    scripts = [one for one in survey.paths_of(name) if re.search(r"\.sh$|/run$|bin/", one)]
    paths = [*configs, *scripts][:FILES]
    for some in (paths, [one for one in paths if not _SECRET.search(one)]):
        if not some:
            break
        seen = await run(f"grep -Ihs -m 400 '' {' '.join(some)}; true", SURVEY_SECONDS)
        if seen.exit is not None:
            return seen.output
    return ""


async def _existing(paths: Sequence[str], run: RunCommand) -> Mapping[str, str]:
    """Which of these paths exist, each as `file` or `folder`."""
    safe = [one.rstrip("/.,") for one in paths if SAFE.fullmatch(one)]
    if not (safe := list(dict.fromkeys(one for one in safe if one.count("/") > 1))[:300]):
        return {}
    seen = await run(f"ls -dLp {' '.join(safe)} 2>/dev/null; true", SURVEY_SECONDS)
    lines = seen.output.splitlines() if seen.exit is not None else []
    return {one.rstrip("/"): "folder" if one.endswith("/") else "file" for one in lines}


def _with_files(
    facts: ServiceFacts, text: str, survey: Survey, there: Mapping[str, str]
) -> ServiceFacts:
    """Add the logs, data and, if it is down, ports that its configuration names."""
    named = [one.rstrip("/.,") for one in PATH.findall(text)]
    entry = survey.paths_of(facts.service)
    logs = [one for one in [*entry, *named] if LOG.search(one) and there.get(one) == "file"]
    logs = list(dict.fromkeys([*facts.logs, *logs]))[:FILES]
    data = [path for line in text.splitlines() if _DATA.search(line)
            for path in map(_stripped, PATH.findall(line))]  # fmt: skip
    data = [path if there.get(path) == "folder" else str(PurePosixPath(path).parent)
            for path in data if path in there and not _ELSEWHERE.match(path)]  # fmt: skip
    data = [one for one in dict.fromkeys([*facts.data, *data]) if one.count("/") > 1]
    configs = [one for one in facts.configs if there.get(one, "file") == "file"]
    ports = facts.ports or tuple(dict.fromkeys(_ports(_OWN_PORT, text)))
    tail = f"tail -qn {RECENT_LINES} {' '.join(logs)} 2>/dev/null" if logs else ""
    said = [one for one in (tail, facts.recent) if one]
    recent = f"{{ {'; '.join(said)}; }}" if len(said) > 1 else "".join(said)
    return replace(
        facts, logs=tuple(logs), data=tuple(data), configs=tuple(configs), ports=ports,
        recent=recent,
    )  # fmt: skip


def _with_needs(facts: ServiceFacts, text: str, every: Mapping[str, ServiceFacts]) -> ServiceFacts:
    """Add the services whose host name or port its configuration names."""
    ports = {port for port in _ports(_ANY_PORT, text) if port not in facts.ports}
    hosts = {part for host in _HOST.findall(text) for part in (host, host.partition(".")[0])}
    needs = [
        name for name, one in every.items()
        if name != facts.service and (name in hosts or ports & set(one.ports))
    ]  # fmt: skip
    return replace(facts, needs=tuple(needs))


def _ports(pattern: re.Pattern[str], text: str) -> list[int]:
    found = [int(port) for groups in pattern.findall(text) for port in groups if port]
    return [port for port in found if 20 < port < 65_536]


def _stripped(path: str) -> str:
    return path.rstrip("/.,")
