"""What belongs to a service, however its house is built: files, settings, folders, processes and
ports."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import PurePosixPath

from hermes_agent.models.responder.view import parse, probes, settings
from hermes_agent.models.responder.view.parse import paths_in
from hermes_agent.models.responder.view.settings import Settings
from hermes_agent.models.responder.view.sight import Sight, once

SYSTEM = ("/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/", "/proc/", "/dev/", "/usr/lib/", "/lib/")
SHARED = frozenset({
    "/", "/etc", "/opt", "/srv", "/var", "/usr", "/usr/local", "/usr/local/bin", "/usr/local/etc",
    "/opt/bin", "/root", "/home", "/run", "/var/run", "/var/lib", "/var/log", "/var/spool",
    "/var/cache", "/var/opt", "/var/www", "/etc/default", "/etc/conf.d", "/bin", "/mnt",
    "/etc/supervisor", "/etc/supervisor/conf.d", "/var/log/supervisor", "/data", "/app",
    "/tmp", "/var/tmp",  # noqa: S108 - of the machine that is looked at
})  # fmt: skip
"""Folders that many services have files in."""
CODE = re.compile(r"\.(py|pyc|sh|bash|rb|js|mjs|ts|pl|php|jar|lua|so|go|rs|c|h)$")
_CONFIG_FLAG = re.compile(
    r"-c|-C|-f|--?(?:\w+[-_])?(?:conf|config|cfg|settings|env|file|options)\b.*"
)
_RUNS_KEY = re.compile(
    r"(?i)(?:^|[._-])(?:hook|script|command|cmd|exec|program|filter|plugin|helper|handler|run|check"
    r"|scan|pre|post|on)(?:[._-]?\w+)?$"
)
_RELATIVE = re.compile(r"[\w.-]+/|\.{1,2}/")
_DATA_FLAG = re.compile(r"-D|-d|--?(?:\w+[-_])?(?:data|dir|datadir|pgdata|root|home|prefix)\b.*")
_SOURCED = re.compile(r"^\s*(?:\.|source)\s+[\"']?(\S+?)[\"']?\s*(?:[;&|].*)?$", re.MULTILINE)
_DATA = re.compile(
    r"\.(db|sqlite3?|mdb|dat|data|bin|wal|idx|rdb|aof|jsonl|csv|tsv|parquet|gz|xz|zip|tar|tgz|pyc"
    r"|png|jpe?g|pid|lock|sock|tmp|swp)$|/(data|spool|cache|queue|items|state|store|storage)/"
)
_LIBRARY = re.compile(r"/(?:lib\d*|libs|vendor|site-packages|modules|plugins|src|app|code)/")
SECRET = re.compile(
    r"\.(key|pem|crt|cer|cert|p12|pfx|jks|keytab)$|secret|passw|token|credential|/private/|shadow",
    re.IGNORECASE,
)
"""Files that are not read for a look."""
LOG = re.compile(
    r"\.(log|err|out|stdout|stderr|trace)$|(^|/)(logs?|syslog|messages)(/|$)|[-_.]log$"
)


class House(Sight):
    """What belongs to whom."""

    # how it is started

    @once
    def command(self, service: str) -> list[str]:
        """The words of its command, those of a shell's own text among them; of one that nobody
        looks after, as it runs."""
        definition = self.definition(service)
        text = definition.command if definition else ""
        if not text:
            running = [self.process(pid) for pid in self.pids(service)[:1]]
            text = running[0].command if running and running[0] else ""
        words = []
        for word in settings.split(text):
            words += settings.split(word) if " " in word.strip() else [word]
        return words

    @once
    def directory(self, service: str) -> str:
        """The folder from which it is started."""
        definition, words = self.definition(service), self.command(service)
        moved = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "cd"]
        told = definition.directory if definition else ""
        return next((one.rstrip(";&") for one in [*moved, told] if one.startswith("/")), "")

    @once
    def wrappers(self, service: str) -> list[str]:
        """Scripts among the words of its command."""
        found = [path for path in self._own(self.command(service), service) if _is_script(path)]
        return found[:2]

    def _own(self, words: Sequence[str], service: str) -> list[str]:
        """Paths among words, seen from its folder; programs of the system are none."""
        folder, found = self.directory(service), list[str]()
        for word in words:
            told = word.startswith("-") or re.match(r"[\w.-]+=\.{0,2}/", word)
            text = word.rpartition("=")[2] if told else word
            text = re.sub(r"^-[a-zA-Z](?=/)", "", text).strip("\"'`;&()")
            if text.startswith("/"):
                found.append(text.rstrip("/") or "/")
            elif _RELATIVE.match(text) or settings.is_config(text) or CODE.search(text):
                found.append(settings.whole(text, folder))
        kept = [path for path in found if path and not path.startswith(SYSTEM)]
        return [path for path in dict.fromkeys(kept) if not self._is_common(path, service)]

    def _is_common(self, path: str, service: str) -> bool:
        """Whether it is a tool that several services are started with."""
        if settings.is_config(path):
            return False
        own = self.definition(service)
        users = [one for one in self.definitions.values() if path in one.words and one is not own]
        return len(users) > (0 if PurePosixPath(path).parent.name in ("bin", "sbin") else 1)

    # its files

    @once
    def named(self, service: str) -> list[str]:
        """Files and folders that its command, its wrapper, people and its settings name, the
        nearest first."""
        found = list(self._started(service))
        for path, values in self.sources(service):
            base = self.directory(service) or str(PurePosixPath(path).parent)
            found += [settings.whole(one, base) for one in values.paths]
        return [one for one in dict.fromkeys(found) if one and one not in SHARED]

    @once
    def _started(self, service: str) -> list[str]:
        """What its command and its wrapper name, and what people wrote down."""
        found = self._own(self.command(service), service)
        for path in self.wrappers(service):
            text = self.text(probes.show(path))
            _, last = settings.script(text)
            found += self._own([*_SOURCED.findall(text), *last], service)
        words = self.command(service)
        for at, word in enumerate(words[:-1]):
            if _DATA_FLAG.fullmatch(word) and words[at + 1].startswith("/"):
                found += [f"{words[at + 1]}/postgresql.conf"] * ("postgres" in " ".join(words))
        if any(PurePosixPath(word).name == "nginx" for word in words):
            found += ["/etc/nginx/nginx.conf"] * (not any(".conf" in one for one in found))
        found += [path.rstrip(".,;") for path in paths_in(self.about(service))]
        folder = self.directory(service)
        return [*found, *([folder] if folder else [])]

    @once
    def folders(self, service: str) -> list[str]:
        """Folders that are its own, by what was named in them or by its name."""
        own = [self.directory(service)]
        for path in self._started(service):
            is_file = CODE.search(path) or settings.is_config(path) or LOG.search(path)
            own.append(str(PurePosixPath(path).parent) if is_file else path)
        name = service.rpartition(":")[2]
        own += [f"{top}/{name}" for top in ("/etc", "/opt", "/srv")]
        found = []
        for path in own:
            parent = PurePosixPath(path)
            if parent.name in ("bin", "sbin", "etc", "conf", "config", "lib", "app", "src", "run"):
                path = str(parent.parent) if str(parent.parent) not in SHARED else path
            found.append(path)
        return [one for one in dict.fromkeys(found) if one.startswith("/") and one not in SHARED]

    def around(self, service: str) -> str:
        """The command that lists what lies in its folders; empty where it has none."""
        mine = [one for one in self.folders(service) if not LOG.search(one)]
        return probes.around(mine[:5]) if mine else ""

    @once
    def lying(self, service: str) -> list[parse.Sized]:
        """What lies in its folders, the newest first; what others go by is not its own."""
        if not self.folders(service):
            return []
        rows = parse.sizes(self.text(self.around(service)))
        return [row for row in rows if not self._is_others(service, row.path)]

    def _is_others(self, service: str, path: str) -> bool:
        """Whether another service is started with this file, or it is called as that one is."""
        if path in self._started(service):
            return False
        stem = PurePosixPath(path).name.partition(".")[0]
        others = [one for one in self.services if one != service]
        return (stem in others and stem != service) or any(
            path in self._started(one) for one in others if self.definition(one) is not None
        )

    @once
    def configs(self, service: str) -> list[str]:
        """Files of settings, and those that what it runs for its work takes in."""
        shown = "\n".join(self.text(probes.show(path)) for path in self.helpers(service))
        taken = _SOURCED.findall(shown)
        return list(dict.fromkeys([*self._set_by(service), *self._own(taken, service)]))

    @once
    def helpers(self, service: str) -> list[str]:
        """Scripts that its settings name, which it runs for its work."""
        told = [one for path in self._set_by(service)
                for key, value in settings.read(self.content(path), path).items()
                if _RUNS_KEY.search(key) for one in settings.split(value)[:2]]  # fmt: skip
        return [path for path in self._own(told, service) if _is_script(path)][:2]

    @once
    def _set_by(self, service: str) -> list[str]:
        """Files of settings, those that are named before those that only lie there."""
        words, found = self.command(service), list[str]()
        for at, word in enumerate(words[:-1]):
            if _CONFIG_FLAG.fullmatch(word):
                found += self._own([words[at + 1]], service)
        named = self._started(service)
        definition = self.definition(service)
        found += definition.drop_ins if definition else []
        for path in self.wrappers(service):
            found += self._own(_SOURCED.findall(self.text(probes.show(path))), service)
        found += [path for path in named if settings.is_config(path)]
        found += [path for path in named if path.startswith("/etc/") and "." not in path[-6:]]
        found += [row.path for row in self.lying(service) if settings.is_config(row.path)]
        found = [path for path in dict.fromkeys(found) if not SECRET.search(path)]
        return [
            one for one in found if not probes.BACKUPS.search(one) and not _is_folder(self, one)
        ]

    @once
    def sources(self, service: str) -> list[tuple[str, Settings]]:
        """All its settings with the file that holds them: of its command, its environment, its
        wrapper, and of files as far as they were read."""
        found = list[tuple[str, Settings]]()
        definition = self.definition(service)
        place = definition.path if definition else ""
        told = (
            settings.environment(definition.settings.get("environment", "")) if definition else {}
        )
        found.append((place, Settings({**settings.flags(self.command(service)), **told})))
        for path in [*self.wrappers(service), *self.helpers(service)]:
            values, last = settings.script(self.text(probes.show(path)))
            found.append((path, Settings({**values, **settings.flags(last)})))
        for path in self.configs(service):
            if text := self.content(path):
                found.append((path, settings.read(text, path)))
        for pattern in self.includes(service):
            for path, rows in parse.files(self.text(probes.shown(pattern))).items():
                found.append((path, settings.read("\n".join(rows), path)))
        return found

    def content(self, path: str) -> str:
        """What is in a file, if somebody looked."""
        found = self.look(probes.show(path))
        if found is not None:
            return found.output if found.ok else ""
        for one in self.observed:
            if one.command.startswith("tail -v -n +1 ") and f"==> {path} <==" in one.output:
                return "\n".join(parse.files(one.output).get(path, []))
        return ""

    @once
    def includes(self, service: str) -> list[str]:
        """Files and patterns that its settings take in."""
        found = []
        for path in self.configs(service):
            folder = str(PurePosixPath(path).parent)
            for key, value in settings.read(self.content(path), path).items():
                if re.fullmatch(r"(?:.*\.)?!?(?:include\w*|import|extends|files)", key):
                    found.append(settings.whole(value, folder))
        plain = [one for one in dict.fromkeys(found) if re.fullmatch(r"/[\w./@*?+-]+", one)]
        return [one for one in plain if not one.endswith(("mime.types", "_params"))][:4]

    @once
    def settings(self, service: str) -> Settings:
        """What its configuration says, as far as it was read; what a file says before what its
        command does, where both have a key."""
        found = Settings()
        for _, values in self.sources(service):
            found |= values
        return found

    # who is who

    @once
    def pids(self, service: str) -> list[int]:
        """Its process and all that this one started; of one that nobody looks after, those that
        run what people wrote down about it."""
        program = self.programs.get(service)
        if program is not None and program.pid:
            return self._family([program.pid])
        if program is not None and self.supervised:
            return []
        told = [path.rstrip(".,;") for path in paths_in(self.about(service))]
        found = [
            one.pid
            for one in self.processes
            if any(path in one.command for path in told)
            or PurePosixPath(one.command.split()[0].rstrip(":")).name == service
        ]
        return self._family(found)

    def _family(self, first: list[int]) -> list[int]:
        found = list(first)
        for process in sorted(self.processes, key=lambda one: one.pid):
            if process.parent in found and process.pid not in found:
                found.append(process.pid)
        return found

    def owner(self, pid: int) -> str:
        """The service whose process this is; empty where nobody looks after it."""
        return self._owners.get(pid, "")

    @cached_property
    def _owners(self) -> dict[int, str]:
        known = {id(one): name for name, one in reversed(self.programs.items())}
        found = dict[int, str]()
        for name in known.values():
            for pid in self.pids(name):
                found.setdefault(pid, name)
        return found

    @once
    def opened(self, service: str) -> list[str]:
        """Files that its processes have open, as far as was looked."""
        found = list[str]()
        for pid in self.pids(service):
            found += parse.descriptors(self.text(probes.descriptors(pid))).values()
            found += [path for path, _ in self.held.get(pid, [])]
        return [
            path for path in dict.fromkeys(found) if path.startswith("/") and path[:5] != "/dev/"
        ]

    @cached_property
    def held(self) -> dict[int, list[tuple[str, str]]]:
        """What processes have open, as far as was looked: the file and the line, by process."""
        found = dict[int, list[tuple[str, str]]]()
        for line in self.text(probes.OPEN_FILES).splitlines():
            if row := re.match(r"/proc/(\d{1,9})/fd/", line):
                found.setdefault(int(row[1]), []).append((line.partition(" ")[2], line))
        return found

    def owns(self, service: str, path: str) -> bool:
        """Whether a file belongs to a service."""
        if path in self.named(service) or path in self.opened(service):
            return True
        below = any(path.startswith(f"{folder}/") for folder in self._places(service))
        return below and not self._is_others(service, path)

    @once
    def _places(self, service: str) -> list[str]:
        """Folders below which files are its own, and files that it keeps something in."""
        rest = [one for one in self.named(service) if not CODE.search(one)]
        return [*self.folders(service), *(one for one in rest if not settings.is_config(one))]

    def user_of(self, path: str, otherwise: str) -> str:
        """The service whose file it is, by its name or its configuration."""
        parts = PurePosixPath(path).parts
        by_name = next((one for one in self.services if one in parts), "")
        if not by_name and otherwise and self.owns(otherwise, path):
            return otherwise
        return by_name or next((s for s in self.services if self.owns(s, path)), otherwise)

    @once
    def changed(self, service: str) -> list[str]:
        """Files of a service that were written lately, the newest first; secrets are left out."""
        rows = [*parse.sizes(self.text(probes.CHANGED)), *self.lying(service)]
        rows.sort(key=lambda row: -row.time)
        name = service.rpartition(":")[2]
        own = [
            row.path
            for row in rows
            if name in PurePosixPath(row.path).parts or self.owns(service, row.path)
        ]
        kept = [path for path in dict.fromkeys(own) if not SECRET.search(path)]
        return [path for path in kept if not probes.BACKUPS.search(path) and not LOG.search(path)
                and not self.is_data(service, path)]  # fmt: skip

    def is_data(self, service: str, path: str) -> bool:
        """Whether a service keeps something in this file: by its ending, because it is open, or
        because it lies in a folder that a setting names."""
        if _DATA.search(path) or path in self.opened(service):
            return True
        inside = any(path.startswith(f"{one}/") for one in self._told_places(service))
        return inside and not (CODE.search(path) and _LIBRARY.search(path))

    @once
    def _told_places(self, service: str) -> list[str]:
        """Places that its settings name, seen from its folder."""
        base = self.directory(service)
        told = [one for _, values in self.sources(service) for one in values.paths]
        return [place for one in dict.fromkeys(told) if (place := settings.whole(one, base))]

    @once
    def ports(self, service: str) -> list[int]:
        """Those that it has in its configuration, and those on which it listens."""
        found = [port for _, values in self.sources(service) for port in values.ports]
        pids = set(self.pids(service))
        found += [one.port for one in self.listeners if one.pid in pids]
        told = re.findall(r"(?:\bport |:)(\d{2,5})\b", self.about(service))
        return list(dict.fromkeys([*found, *(int(port) for port in told)]))

    def listens(self, service: str, port: int) -> bool:
        pids = set(self.pids(service))
        return any(one.port == port and one.pid in pids for one in self.listeners)


def _is_script(path: str) -> bool:
    """Whether it may be a script of a shell that starts something else."""
    name = PurePosixPath(path).name
    return name.endswith((".sh", ".bash")) or (
        "." not in name and not path.startswith(("/etc/", "/var/")) and "/" in path
    )


def _is_folder(house: House, path: str) -> bool:
    """Whether a path was seen to be a folder."""
    found = house.look(probes.show(path))
    return found is not None and "s a directory" in found.output
