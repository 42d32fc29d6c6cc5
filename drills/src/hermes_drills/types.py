"""The values that drills are composed of: worlds, targets, faults, verdicts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from hermes_drills.box.box import Box
    from hermes_drills.pick import Pick
    from hermes_drills.probe.probe import Probe

MONTH = 30 * 86400.0

Init = Literal["supervisord", "systemd", "sysv"]
Boot = Literal[Init, "booted"]
"""Also a machine that a real systemd boots."""
Format = Literal["ini", "env", "yaml", "json", "toml"]
Kind = Literal[
    "service", "config", "log", "port", "certificate", "lock", "job", "data", "release", "upstream",
    "database", "mount", "secret",
]  # fmt: skip
"""What a fault can be injected into."""
Split = Literal["first", "held", "foreign", "no-fault"]
"""`first`: known stacks, styles and mechanisms. `held`: a stack or a style that `first` never has.
`foreign`: a mechanism that `first` never has."""


class File(Struct, frozen=True):
    text: str = ""
    data: bytes = b""
    """Instead of a text."""
    mode: int = 0o644
    link: str = ""
    """A symbolic link to this, and nothing else."""
    size: int = 0
    """So many random bytes after the text."""
    age: float = 0.0
    """Seconds since it was changed."""


class Mount(Struct, frozen=True):
    """A small file system of its own."""

    path: str
    mb: int = 16
    inodes: int = 0
    """How many files it holds; as many as fit where it is 0."""


class Style(Struct, frozen=True):
    """How a machine is laid out. Two machines of one stack may share nothing but their purpose."""

    code: Literal["releases", "opt", "home"]
    """`/srv/NAME/releases/1.4.2` behind `current`, `/opt/NAME`, or `/home/app/NAME`."""
    place: Literal["etc", "etc-file", "opt", "srv"]
    """Of configuration: /etc/NAME/NAME.conf, /etc/NAME.conf, /opt/NAME/etc, /srv/NAME/config."""
    format: Format
    logs: Literal["folder", "file", "srv", "output"]
    """/var/log/NAME/NAME.log, /var/log/NAME.log, /srv/NAME/log/current, or standard output."""
    copies: Literal["bak", "orig", "dated", "backups"]
    """NAME.conf.bak, NAME.conf.orig, NAME.conf.2026-10-02, or /var/backups/NAME/NAME.conf."""
    init: Init


class Service(Struct, frozen=True):
    """A program that the init system keeps, and where all that it owns lies."""

    name: str
    role: Literal["front", "store", "ledger", "worker", "cron", "bystander", "database"]
    command: str
    port: int = 0
    address: str = "127.0.0.1"
    config: str = ""
    log: str = ""
    """The file that it writes, or the one that the init system keeps of its output."""
    data: str = ""
    lock: str = ""
    secret: str = ""
    certificate: str = ""
    release: str = ""
    """The link to its current release, where its code is laid out so."""
    directory: str = "/"
    needs: tuple[str, ...] = ()
    """Names of services that it cannot work without."""
    user: Literal["app", "root"] = "app"
    environment: Mapping[str, str] = {}
    limits: Mapping[str, int] = {}
    """As `prlimit` calls them: nofile, as, data, nproc, fsize, cpu."""
    autorestart: bool = True

    @property
    def pid_file(self) -> str:
        return f"/run/{self.name}.pid"


class Job(Struct, frozen=True):
    """What cron runs; its product says who made it, and when."""

    name: str
    table: str
    """The file below /etc/cron.d."""
    script: str
    product: str
    log: str
    lock: str = ""


class Check(Struct, frozen=True):
    """What an operator watches: a command that exits with 0 when all is well."""

    name: str
    run: str
    service: str
    severity: Literal["P1", "P2", "P3"] = "P1"
    timeout: float = 8.0


class Target(Struct, frozen=True):
    """A place in a world where a fault of some kind fits."""

    kind: Kind
    service: str
    path: str = ""
    key: str = ""
    """Of a setting."""
    value: str = ""
    """What it is when all is well."""
    port: int = 0


class World(Struct, frozen=True):
    stack: str
    style: Style
    hostname: str
    services: tuple[Service, ...]
    entry: str
    """The service that users reach; what is kept there is the challenge."""
    files: Mapping[str, File] = {}
    folders: Mapping[str, int] = {}
    mounts: tuple[Mount, ...] = ()
    hosts: Mapping[str, str] = {}
    """Names in /etc/hosts; addresses in 10.77.0.0/24 are made on the loopback interface."""
    settings: Mapping[str, Mapping[str, str]] = {}
    """What the configuration of each service says when all is well."""
    jobs: tuple[Job, ...] = ()
    setup: tuple[str, ...] = ()
    """Lines of bash, run in the box before anything starts."""
    authority: str = ""
    """The certificate that clients trust, as PEM."""
    needs: tuple[str, ...] = ()
    """Programs of this machine that it cannot do without."""
    mb: int = 192
    """How much all of its files may take."""
    booted: bool = False
    """Whether a real systemd boots it, which takes root; see worlds/booted.py."""

    @property
    def boot(self) -> Boot:
        return "booted" if self.booted else self.style.init

    def service(self, name: str) -> Service:
        return next(one for one in self.services if one.name == name)

    def job(self, name: str) -> Job:
        return next(one for one in self.jobs if one.name == name)

    def targets(self, kind: Kind) -> tuple[Target, ...]:
        from hermes_drills.worlds.targets import targets

        return targets(self, kind)


class Truth(Struct, frozen=True):
    """What was the matter."""

    component: tuple[str, ...]
    """Any is right, the first is the best."""
    category: tuple[str, ...]
    locus: str = ""
    """Found in the diagnosis' locus, as a regular expression."""
    evidence: str = ""
    """Found in what is quoted, as a regular expression."""
    check: str = "answers"
    """Which of the operator's checks shows it: answers, disk, memory, processor, log, job."""
    at: Target | None = None
    notes: Mapping[str, str] = {}
    """What `gone`, `expert` and `wrong` need to know of this injection."""


class Fault:
    """A way to break a machine. `expert` heals it; what is in `wrong` looks like it and does not."""

    category: str
    mechanism: str
    wants: Kind
    stacks: frozenset[str] = frozenset()
    """Where it fits, by name; empty where any world with a target will do."""
    foreign: bool = False
    needs: tuple[str, ...] = ()
    """Programs of this machine."""

    def fits(self, world: World, at: Target) -> bool:  # noqa: ARG002 most fit any target
        return True

    def inject(self, box: "Box", world: World, at: Target, pick: "Pick") -> Truth:
        raise NotImplementedError

    def gone(self, probe: "Probe", world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        """What of the cause is still there, though the services may answer."""
        return []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        """Commands that heal it and harm nothing."""
        raise NotImplementedError

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        """Plausible remedies that do not heal it, or do harm, by name."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        return f"{self.category}/{self.mechanism}"


class Verdict(Struct, frozen=True):
    resolved: bool
    """Well from outside, twice, and nothing harmed."""
    wrong: tuple[str, ...] = ()
    """What is still not well."""
    harm: tuple[str, ...] = ()


class Diagnosis(Struct, frozen=True):
    """What somebody says was the matter."""

    component: str = ""
    category: str = ""
    locus: str = ""
    quotes: tuple[str, ...] = ()


class Grade(Struct, frozen=True):
    """How a diagnosis compares with the truth."""

    component: bool = False
    category: bool = False
    locus: bool = False
    evidence: bool = False

    @property
    def cause(self) -> bool:
        """The right answer, and not by guessing: it is grounded in where or in what was seen."""
        return self.component and self.category and (self.locus or self.evidence)
