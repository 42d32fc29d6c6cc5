"""Service facts: how each service of a machine is run and restarted, its process, logs,
configuration, ports and dependencies. They are read by portable scripts that only look."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.incidents.verify import Look

Init = Literal["systemd", "supervisord", "runit", "sysv", "container", "process", "unknown"]

SERVICES = 16
"""Services whose facts are gathered at once."""
SURVEY_SECONDS, FILES = 20.0, 8
RECENT_LINES = 200
_SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
"""What is safe in shell text, quoted or not; other names and paths are left out."""
_SECRET = re.compile(
    r"\.(?:env|pem|key|p12|pfx)$|secret|credential|shadow|private|history", re.IGNORECASE
)
_CONFIG = re.compile(
    r"\.(?:conf|cfg|cnf|ini|ya?ml|json|toml|env|properties|xml)$|^/etc/(?!init\.d/)"
)
_NO_CONFIG = re.compile(
    r"/run$|\.(?:bak|orig|old|save\w*|dpkg-\w+|pub|pem|key|crt|pid|sock|log)$|~$|_key$|/moduli$"
    r"|\.\d{4}-|^/etc/(?:supervisor|systemd|cron|init\.d)\b"
)
"""Copies, keys and what belongs to the init system."""
_LOG = re.compile(r"\.(?:log|err|out)$|/logs?/|^/var/log/")
_PATH = re.compile(r"(?<![\w.:/~$}{*-])/(?:[\w@%+=.,-]+/?)+")
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
_NONE: tuple[str, list[str]] = ("", [])
_UNITS = "/etc/systemd/system /run/systemd/system /lib/systemd/system /usr/lib/systemd/system"

_SURVEY = r"""
echo '#@supervisor'; command -v supervisorctl >/dev/null && supervisorctl status 2>/dev/null
echo '#@program'; grep -HsE '^ *(\[(program|supervisorctl|supervisord)[]:]|command|directory|environment|std(out|err)_logfile)' \
  /etc/supervisor/conf.d/* /etc/supervisord.d/* /etc/supervisord.conf /etc/supervisor/supervisord.conf
echo '#@unit'; command -v systemctl >/dev/null && grep -HsE \
  '^ *(ExecStart|Environment(File)?|Standard(Output|Error)|PIDFile|Requires|Wants|BindsTo|WorkingDirectory) *=' @units@
echo '#@main'; command -v systemctl >/dev/null && {
  systemctl show -p Id,LoadState,MainPID '*.service' 2>/dev/null
  for n in @names@ $(find /etc/systemd/system -maxdepth 1 -type f -name '*.service' -printf '%f '); do
    echo; systemctl show -p Id,LoadState,MainPID "$n" 2>/dev/null; done; }
echo '#@cgroup'; grep -HsoE '[^/]+\.service$' /proc/[0-9]*/cgroup
echo '#@script'; ls -d /etc/init.d/* 2>/dev/null; grep -HsE '^[^#]*/[a-z]' @scripts@
echo '#@runit'; command -v sv >/dev/null && for n in @names@; do sv status "$n" 2>/dev/null; done
echo '#@pidfile'; grep -Hs '' /run/*.pid /run/*/*.pid
echo '#@container'; for c in docker podman; do command -v $c >/dev/null || continue
  case $c in docker) timeout 5 docker ps -a --format '{{.Names}} {{.State}} docker' 2>/dev/null;;
  podman) timeout 5 podman ps -a --format '{{.Names}} {{.State}} podman' 2>/dev/null;; esac; done
echo '#@stat'; cat /proc/[0-9]*/stat 2>/dev/null | awk '{p = $1; sub(/^.*\) /, ""); print p, $2}'
echo '#@args'; grep -azHs '' /proc/[0-9]*/cmdline | tr '\0' '\n'
echo '#@listen'; cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" {split($2, a, ":"); print $10, a[2]}'
echo '#@open'; find /proc/[0-9]*/fd -mindepth 1 -maxdepth 1 \( -lname 'socket:*' -o -lname '/*log*' \
  -o -lname '/*.err' -o -lname '/*.out' \) -printf '%h %l\n' 2>/dev/null | sort -u | head -n 3000
echo '#@place'; ls -dp @places@ 2>/dev/null; true
"""  # noqa: E501
_COMMANDS: Mapping[Init, str] = {
    "supervisord": "supervisorctl {1} {2}", "systemd": "systemctl {1} {2}", "runit": "sv {1} {2}",
    "sysv": "{0} {1}", "container": "{0} {1} {2}",
}  # fmt: skip
"""From the unit, a verb and the name."""
_PLACES = (
    "/var/log/{0}.log", "/var/log/{0}/*", "/etc/{0}.*", "/etc/{0}/*", "/etc/{0}/*/*.conf",
    "/etc/default/{0}", "/var/lib/{0}/", "/etc/sv/{0}/run", "/etc/service/{0}/run",
)  # fmt: skip


class ServiceFacts(Struct, frozen=True, omit_defaults=True):
    service: str
    init: Init = "unknown"
    unit: str = ""
    """Path of its unit, entry or init script."""
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
    """A shell expression for the current main pid."""
    recent: str = ""
    """A command that prints the end of all its logs."""

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
        """What the placeholders of a runbook stand for: plain shell text."""
        return {
            "restart": self.restart or "false", "start": self.start or "false",
            "stop": self.stop or "false", "status": self.status or "false",
            "unit": self.unit or "/dev/null", "pid": self.find_pid,
            "logs": " ".join(self.logs) or "/dev/null", "recent": self.recent or "cat /dev/null",
            "configs": " ".join(self.configs) or "/dev/null",
            "ports": " ".join(map(str, self.ports)) or "0",
            "data": " ".join(self.data) or "/dev/null",
        }  # fmt: skip


async def service_facts(names: Iterable[str], look: Look) -> Mapping[str, ServiceFacts]:
    """Facts of these services and of others that the machine's init system lists."""
    wanted = [one for one in dict.fromkeys(names) if _SAFE.fullmatch(one)][:SERVICES]
    if not wanted:
        return {}
    survey = _Survey((await look(survey_script(wanted), SURVEY_SECONDS)).output)
    every = list(dict.fromkeys([*wanted, *survey.listed]))[:SERVICES]
    found = {name: survey.service(name) for name in every}
    texts = {name: await _texts(one.configs, survey, name, look) for name, one in found.items()}
    paths = [path for one in texts.values() for path in _PATH.findall(one)]
    paths += [path for name in found for path in survey.paths_of(name)]
    there = await _existing(paths, look)
    found = {name: _with_files(one, texts[name], survey, there) for name, one in found.items()}
    return {name: _with_needs(one, texts[name], found) for name, one in found.items()}


def survey_script(names: Sequence[str]) -> str:
    folders = _UNITS.split()
    units = " ".join(f"{folder}/{name}.service" for name in names for folder in folders)
    given = {
        "names": " ".join(names),
        "units": f"{units} /etc/systemd/system/*.service",
        "scripts": " ".join(f"/etc/init.d/{name}" for name in names),
        "places": " ".join(place.format(name) for name in names for place in _PLACES),
    }
    return re.sub(r"@(\w+)@", lambda found: given[found[1]], _SURVEY).strip()


async def _texts(configs: Sequence[str], survey: "_Survey", name: str, look: Look) -> str:
    """The text of its configuration files and of the scripts that start it."""
    scripts = [one for one in survey.paths_of(name) if re.search(r"\.sh$|/run$|bin/", one)]
    paths = [*configs, *scripts][:FILES]
    for some in (paths, [one for one in paths if not _SECRET.search(one)]):
        if not some:
            break
        seen = await look(f"grep -Ihs -m 400 '' {' '.join(some)}; true", SURVEY_SECONDS)
        if seen.exit is not None:
            return seen.output
    return ""


async def _existing(paths: Sequence[str], look: Look) -> Mapping[str, str]:
    """Which of these exist: `file` or `folder`."""
    safe = [one.rstrip("/.,") for one in paths if _SAFE.fullmatch(one)]
    if not (safe := list(dict.fromkeys(one for one in safe if one.count("/") > 1))[:300]):
        return {}
    seen = await look(f"ls -dLp {' '.join(safe)} 2>/dev/null; true", SURVEY_SECONDS)
    lines = seen.output.splitlines() if seen.exit is not None else []
    return {one.rstrip("/"): "folder" if one.endswith("/") else "file" for one in lines}


class _Survey:
    """What the survey's script printed."""

    def __init__(self, text: str) -> None:
        self._parts: dict[str, list[str]] = defaultdict(list)
        part = ""
        for line in text.splitlines():
            if line.startswith("#@"):
                part = line[2:]
            else:
                self._parts[part].append(line)
        self._parent = dict(_pairs(self._parts["stat"]))
        self._args: dict[int, list[str]] = defaultdict(list)
        for line in self._parts["args"]:
            if found := re.match(r"/proc/(\d+)/cmdline:(.*)", line):
                self._args[int(found[1])].append(found[2])
        self._programs = self._entries("program")
        self._units = self._entries("unit")
        self._main = self._mains()
        said = [words for line in self._parts["supervisor"] if len(words := line.split()) > 1]
        said = [words for words in said if words[1].isupper()]
        self._groups = {words[0].rpartition(":")[2]: words[0] for words in said}
        self._status = {
            words[0].rpartition(":")[2]: _number(re.search(r"pid (\d+)", " ".join(words)))
            for words in said
        }
        ports = {inode: int(port, 16) for inode, port in map(str.split, self._parts["listen"])}
        self._listeners: dict[int, set[int]] = defaultdict(set)
        """Ports, by the process that listens there."""
        for pid, target in self._opened():
            if port := ports.get(target.removeprefix("socket:[").rstrip("]")):
                self._listeners[pid].add(port)

    @property
    def listed(self) -> list[str]:
        """Names of services that an init system, or somebody who listens, has here."""
        local = [name for name in self._main if self._units.get(name, _NONE)[0].startswith("/etc/")]
        owners = (self._unit_of(pid) for pid in self._listeners)
        return [one for one in dict.fromkeys([*self._status, *local, *owners]) if one]

    def service(self, name: str) -> ServiceFacts:
        init, unit, pid, find_pid = self._init(name)
        verb, recent = _COMMANDS.get(init, ""), ""
        if init == "systemd":
            recent = f"journalctl -u {name} -n {RECENT_LINES} --no-pager -o cat 2>/dev/null"
        elif init == "container":
            recent = f"{unit} logs --tail {RECENT_LINES} {name} 2>&1"
        called = self._groups.get(name, name)
        restart, start, stop, status = (
            verb.format(unit, each, called)
            for each in ("restart", "start", "stop", "inspect" if init == "container" else "status")
        )
        tree = self._tree(pid)
        ports = {port for one in tree for port in self._listeners.get(one, ())}
        return ServiceFacts(
            name, init, unit if unit.startswith("/") else "", restart, start, stop, status, pid,
            self._logs(name, tree), self._configs(name), tuple(sorted(ports)),
            data=tuple(self._places(name, "/var/lib/", folder=True)), find_pid=find_pid,
            recent=recent,
        )  # fmt: skip

    def paths_of(self, name: str) -> list[str]:
        """Paths that its entry, its init script or its command line names."""
        texts = [
            *self._lines(name),
            *(f" {word}" for word in self._args.get(self._init(name)[2], ())),
        ]
        found = [path for text in texts for path in _PATH.findall(text.replace("=", " "))]
        return [one for one in dict.fromkeys(found) if _SAFE.fullmatch(one)]

    def _lines(self, name: str) -> list[str]:
        own = [line for part in (self._programs, self._units) for line in part.get(name, _NONE)[1]]
        script = [one for one in self._parts["script"] if one.startswith(f"/etc/init.d/{name}:")]
        return [*own, *(one.partition(":")[2] for one in script)]

    def _init(self, name: str) -> tuple[Init, str, int, str]:
        """The init system, the unit, the main pid, and how to find that again."""
        if name in self._programs or name in self._status:
            path = self._programs.get(name, _NONE)[0]
            return "supervisord", path, self._status.get(name, 0), f"$(supervisorctl pid {name})"
        if name in self._main:
            find = f"$(systemctl show -p MainPID --value {name})"
            return "systemd", self._units.get(name, _NONE)[0], self._main[name], find
        for line in self._parts["runit"]:
            if found := re.match(rf"\w+: (\S*/)?{re.escape(name)}: (?:\(pid (\d+)\))?", line):
                where = f"/etc/service/{name}/run"
                return (
                    "runit",
                    where,
                    _number(found, 2),
                    f"$(cat /etc/service/{name}/supervise/pid)",
                )
        script, pidfile = f"/etc/init.d/{name}", self._pidfile(name)
        pid = self._pid_in(pidfile) or self._process(name)
        find = f"$(cat {pidfile})" if pidfile else str(pid)
        if script in self._parts["script"]:
            return "sysv", script, pid, find
        for line in self._parts["container"]:
            if line.split()[:1] == [name]:
                cli = line.split()[-1]
                return "container", cli, 0, f"$({cli} inspect -f '{{{{.State.Pid}}}}' {name})"
        return ("process" if pid else "unknown"), "", pid, find

    def _pidfile(self, name: str) -> str:
        known = [line.rpartition(":")[0] for line in self._parts["pidfile"]]
        named = [path for line in self._lines(name) for path in _PATH.findall(line)]
        fitting = [one for one in known if one in named or f"/var{one}" in named]
        fitting += [one for one in known if PurePosixPath(one).stem == name or f"/{name}/" in one]
        return next((one for one in fitting if _SAFE.fullmatch(one)), "")

    def _pid_in(self, path: str) -> int:
        """The process of a pid file, where it is alive."""
        said = [
            line.rpartition(":")[2].strip()
            for line in self._parts["pidfile"]
            if path and line.startswith(f"{path}:")
        ]
        return int(said[0]) if said and said[0].isdigit() and int(said[0]) in self._parent else 0

    def _process(self, name: str) -> int:
        """The first process whose program, or script, is called so."""
        for pid, words in sorted(self._args.items()):
            if any(
                PurePosixPath(word).stem == name
                for word in words[:3]
                if "/" in word or word == name
            ):
                return pid
        return 0

    def _entries(self, part: str) -> dict[str, tuple[str, list[str]]]:
        """Sections of supervisord's files, or units: path and lines, by the service's name."""
        found: dict[str, tuple[str, list[str]]] = {}
        name = ""
        for line in self._parts[part]:
            path, _, text = line.partition(":")
            if part == "unit":
                name = PurePosixPath(path).stem
            elif section := re.match(r"\s*\[program:([^\]]+)\]", text):
                name = section[1].strip()
            elif text.lstrip().startswith("["):
                name = ""
            if name and found.setdefault(name, (path, []))[0] == path:
                found[name][1].append(text)
        return found

    def _mains(self) -> dict[str, int]:
        """Main processes of units; blank lines separate what is said of each."""
        found: dict[str, int] = {}
        for block in "\n".join(self._parts["main"]).split("\n\n"):
            said = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            if said.get("LoadState") == "loaded" and said.get("MainPID", "").isdigit():
                found[said.get("Id", "").removesuffix(".service")] = int(said["MainPID"])
        return found

    def _opened(self) -> Iterable[tuple[int, str]]:
        for line in self._parts["open"]:
            where, _, target = line.partition(" ")
            yield int(where.split("/")[2]), target

    def _unit_of(self, pid: int) -> str:
        """The unit of a process, by its control group."""
        own = (one for one in self._parts["cgroup"] if one.startswith(f"/proc/{pid}/"))
        return next(own, "").rpartition(":")[2].removesuffix(".service")

    def _tree(self, pid: int) -> set[int]:
        """A process and all that it started."""
        found = {pid} - {0}
        while more := {one for one, parent in self._parent.items() if parent in found} - found:
            found |= more
        return found

    def _places(self, name: str, start: str, *, folder: bool = False) -> list[str]:
        """What lies in the conventional places of a service."""
        wanted = re.compile(rf"{start}{re.escape(name)}(?:$|[./])")
        own = [one for one in self._parts["place"] if wanted.match(one) and _SAFE.fullmatch(one)]
        return [one.rstrip("/") for one in own if one.endswith("/") == folder]

    def _logs(self, name: str, tree: set[int]) -> tuple[str, ...]:
        opened = [path for pid, path in self._opened() if pid in tree and _LOG.search(path)]
        usual = [one for one in self._places(name, "/var/log/") if _LOG.search(one)]
        kept = [one for one in dict.fromkeys([*opened, *usual]) if _SAFE.fullmatch(one)]
        return tuple(one for one in kept if not re.search(r"\.(?:gz|xz|\d+)$", one))[:FILES]

    def _configs(self, name: str) -> tuple[str, ...]:
        """Files that are named, or lie where configuration does; which exist is seen later."""
        named = [one for one in self.paths_of(name) if _CONFIG.search(one)]
        usual = [*self._places(name, "/etc/default/"), *self._places(name, "/etc/")]
        kept = [one for one in dict.fromkeys([*named, *usual]) if not _NO_CONFIG.search(one)]
        return tuple(kept[:FILES])


def _with_files(
    facts: ServiceFacts, text: str, survey: _Survey, there: Mapping[str, str]
) -> ServiceFacts:
    """With what its configuration names of logs, data and, where it is down, ports."""
    named = [one.rstrip("/.,") for one in _PATH.findall(text)]
    entry = survey.paths_of(facts.service)
    logs = [one for one in [*entry, *named] if _LOG.search(one) and there.get(one) == "file"]
    logs = list(dict.fromkeys([*facts.logs, *logs]))[:FILES]
    data = [path for line in text.splitlines() if _DATA.search(line)
            for path in map(_stripped, _PATH.findall(line))]  # fmt: skip
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
    """With the services whose name, or port, its configuration names."""
    ports = {port for port in _ports(_ANY_PORT, text) if port not in facts.ports}
    hosts = set(_HOST.findall(text))
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


def _pairs(lines: Sequence[str]) -> Iterable[tuple[int, int]]:
    for line in lines:
        first, _, second = line.partition(" ")
        if first.isdigit() and second.isdigit():
            yield int(first), int(second)


def _number(found: re.Match[str] | None, group: int = 1) -> int:
    return int(found[group] or 0) if found else 0
