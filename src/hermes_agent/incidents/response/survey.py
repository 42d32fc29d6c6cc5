"""Surveys a machine with one portable, read-only script (`survey.sh`), and parses its output. It
needs sh, /proc and coreutils; other programs are used only if they are there."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

Init = Literal["systemd", "supervisord", "runit", "sysv", "container", "process", "unknown"]

FILES = 8
SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
"""Text that needs no quoting in a shell; other names and paths are left out."""
_CONFIG = re.compile(
    r"\.(?:conf|cfg|cnf|ini|ya?ml|json|toml|env|properties|xml)$|^/etc/(?!init\.d/)"
)
_NO_CONFIG = re.compile(
    r"/run$|\.(?:bak|orig|old|save\w*|dpkg-\w+|pub|pem|key|crt|pid|sock|log)$|~$|_key$|/moduli$"
    r"|\.\d{4}-|^/etc/(?:supervisor|systemd|cron|init\.d)\b"
)
"""Copies, keys and files of the init system."""
LOG = re.compile(r"\.(?:log|err|out)$|/logs?/|^/var/log/")
PATH = re.compile(r"(?<![\w.:/~$}{*-])/(?:[\w@%+=.,-]+/?)+")
_NONE: tuple[str, list[str]] = ("", [])
_UNITS = "/etc/systemd/system /run/systemd/system /lib/systemd/system /usr/lib/systemd/system"

_PLACES = (
    "/var/log/{0}.log", "/var/log/{0}/*", "/etc/{0}.*", "/etc/{0}/*", "/etc/{0}/*/*.conf",
    "/etc/default/{0}", "/var/lib/{0}/", "/etc/sv/{0}/run", "/etc/service/{0}/run",
)  # fmt: skip


def sections(text: str) -> dict[str, list[str]]:
    """The lines of an output, by the `#@name` line above them."""
    parts: dict[str, list[str]] = defaultdict(list)
    part = ""
    for line in text.splitlines():
        if line.startswith("#@"):
            part = line[2:]
        else:
            parts[part].append(line)
    return parts


def survey_script(names: Sequence[str]) -> str:
    script = Path(__file__).with_name("survey.sh").read_text(encoding="utf-8")
    folders = _UNITS.split()
    units = " ".join(f"{folder}/{name}.service" for name in names for folder in folders)
    given = {
        "names": " ".join(names),
        "units": f"{units} /etc/systemd/system/*.service",
        "scripts": " ".join(f"/etc/init.d/{name}" for name in names),
        "places": " ".join(place.format(name) for name in names for place in _PLACES),
    }
    return re.sub(r"@(\w+)@", lambda found: given[found[1]], script).strip()


class Survey:
    """The parsed output of the script."""

    def __init__(self, text: str) -> None:
        self._parts = sections(text)
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
        """Ports, by listening process."""
        for pid, target in self._opened():
            if port := ports.get(target.removeprefix("socket:[").rstrip("]")):
                self._listeners[pid].add(port)

    @property
    def listed(self) -> list[str]:
        """Names of services that an init system manages or that listen on a port."""
        local = [name for name in self._main if self._units.get(name, _NONE)[0].startswith("/etc/")]
        owners = (self._unit_of(pid) for pid in self._listeners)
        return [one for one in dict.fromkeys([*self._status, *local, *owners]) if one]

    def ports(self, pid: int) -> tuple[int, ...]:
        """Ports on which a process or its descendants listen."""
        tree = self._tree(pid)
        return tuple(sorted({port for one in tree for port in self._listeners.get(one, ())}))

    def called(self, name: str) -> str:
        """Its name in the init system, with the group's name for a supervisord program."""
        return self._groups.get(name, name)

    def paths_of(self, name: str) -> list[str]:
        """Paths in its configuration section, init script or command line."""
        texts = [
            *self._lines(name),
            *(f" {word}" for word in self._args.get(self.init(name)[2], ())),
        ]
        found = [path for text in texts for path in PATH.findall(text.replace("=", " "))]
        return [one for one in dict.fromkeys(found) if SAFE.fullmatch(one)]

    def _lines(self, name: str) -> list[str]:
        own = [line for part in (self._programs, self._units) for line in part.get(name, _NONE)[1]]
        script = [one for one in self._parts["script"] if one.startswith(f"/etc/init.d/{name}:")]
        return [*own, *(one.partition(":")[2] for one in script)]

    def init(self, name: str) -> tuple[Init, str, int, str]:
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
        named = [path for line in self._lines(name) for path in PATH.findall(line)]
        fitting = [one for one in known if one in named or f"/var{one}" in named]
        fitting += [one for one in known if PurePosixPath(one).stem == name or f"/{name}/" in one]
        return next((one for one in fitting if SAFE.fullmatch(one)), "")

    def _pid_in(self, path: str) -> int:
        """The process of a pid file, if it is alive."""
        said = [
            line.rpartition(":")[2].strip()
            for line in self._parts["pidfile"]
            if path and line.startswith(f"{path}:")
        ]
        return int(said[0]) if said and said[0].isdigit() and int(said[0]) in self._parent else 0

    def _process(self, name: str) -> int:
        """The first process whose program or script has this name."""
        for pid, words in sorted(self._args.items()):
            if any(
                PurePosixPath(word).stem == name
                for word in words[:3]
                if "/" in word or word == name
            ):
                return pid
        return 0

    def _entries(self, part: str) -> dict[str, tuple[str, list[str]]]:
        """Sections of supervisord's files, or units: path and lines, by service."""
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
        """Main processes of units, from blocks separated by blank lines."""
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
        """The unit of a process, from its control group."""
        own = (one for one in self._parts["cgroup"] if one.startswith(f"/proc/{pid}/"))
        return next(own, "").rpartition(":")[2].removesuffix(".service")

    def _tree(self, pid: int) -> set[int]:
        """A process and its descendants."""
        found = {pid} - {0}
        while more := {one for one, parent in self._parent.items() if parent in found} - found:
            found |= more
        return found

    def places(self, name: str, start: str, *, folder: bool = False) -> list[str]:
        """What exists at the usual paths of a service."""
        wanted = re.compile(rf"{start}{re.escape(name)}(?:$|[./])")
        own = [one for one in self._parts["place"] if wanted.match(one) and SAFE.fullmatch(one)]
        return [one.rstrip("/") for one in own if one.endswith("/") == folder]

    def logs(self, name: str, pid: int) -> tuple[str, ...]:
        tree = self._tree(pid)
        opened = [path for one, path in self._opened() if one in tree and LOG.search(path)]
        usual = [one for one in self.places(name, "/var/log/") if LOG.search(one)]
        kept = [one for one in dict.fromkeys([*opened, *usual]) if SAFE.fullmatch(one)]
        return tuple(one for one in kept if not re.search(r"\.(?:gz|xz|\d+)$", one))[:FILES]

    def configs(self, name: str) -> tuple[str, ...]:
        """Files that are named as configuration or are at the usual paths; some may not exist."""
        named = [one for one in self.paths_of(name) if _CONFIG.search(one)]
        usual = [*self.places(name, "/etc/default/"), *self.places(name, "/etc/")]
        kept = [one for one in dict.fromkeys([*named, *usual]) if not _NO_CONFIG.search(one)]
        return tuple(kept[:FILES])


def _pairs(lines: Sequence[str]) -> Iterable[tuple[int, int]]:
    for line in lines:
        first, _, second = line.partition(" ")
        if first.isdigit() and second.isdigit():
            yield int(first), int(second)


def _number(found: re.Match[str] | None, group: int = 1) -> int:
    return int(found[group] or 0) if found else 0
