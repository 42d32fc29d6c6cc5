"""Reads checks in plain words, such as "disk / stays below 85%". A table of patterns; what none of
them fits is for a model."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.incidents import Severity, WatchedCheck
from hermes_agent.core.skills import Check, Expectation
from hermes_agent.core.text.addresses import host_of
from hermes_agent.core.text.format import slug

ProposalState = Literal["passes", "fails", "refused", "untried"]


class ProposedCheck(Struct, frozen=True):
    """A check that nobody has agreed to yet, and how it went."""

    name: str
    run: str
    about: str = ""
    """What must be true, in words."""
    service: str = ""
    severity: Severity = "P2"
    level: str = "critical"
    every: int = 0
    """Seconds between runs, if the words say so; otherwise `level` does."""
    output: str = ""
    """Its output must match this."""
    no_output: str = ""
    """Its output must not match this."""
    terminal: str = ""
    state: ProposalState = "untried"
    detail: str = ""
    rule: str = ""
    """The policy rule, as YAML, without which it cannot reach another machine."""
    by: str = ""
    """The model that proposed the command."""

    @property
    def watched(self) -> WatchedCheck:
        expect = Expectation(output=self.output, no_output=self.no_output)
        check = Check(self.run, expect)
        return WatchedCheck(self.name, check, self.service, self.terminal, self.severity)


class CommandChoice(Struct, frozen=True):
    """A command, for machines on which another command succeeds."""

    run: str
    needs: str


class WordedCheck(Struct, frozen=True):
    """What plain words mean. The first of the choices that fits the machine becomes the check's
    command, if one does."""

    proposed: ProposedCheck
    choices: tuple[CommandChoice, ...] = ()


Groups = Mapping[str, str]

_UNITS = {
    "ms": 0.001, "millisecond": 0.001, "s": 1, "second": 1, "sec": 1, "m": 60, "min": 60,
    "minute": 60, "h": 3_600, "hour": 3_600, "d": 86_400, "day": 86_400, "w": 604_800,
    "week": 604_800, "month": 2_592_000,
}  # fmt: skip
_SIZES = {"kb": 1, "mb": 1_024, "gb": 1_024**2, "tb": 1_024**3}
"""In kilobytes, as `df` and the kernel count."""
_SPAN = r"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>[a-z]+)"
_ROOM = r"(?P<number>\d+(?:\.\d+)?) ?(?P<size>[kmgt]b)"
_DISK = r"(?:disk|file ?system|partition|volume|mount)(?: usage)?(?: (?:on|of))?"
_WHERE = rf"(?:the )?(?:{_DISK}|(?:{_DISK} )?(?P<path>/\S*))"
_IS = r"(?:is|are|stays?|remains?|must (?:be|stay|remain))"
_PERCENT = r"(?P<percent>\d+) ?%(?: full)?"
_BELOW = rf"(?:{_IS} )?(?:below|under|less than) {_PERCENT}"
_ABOVE = rf"(?:(?:is|gets|goes|rises) )?(?:over|above|more than|fuller than) {_PERCENT}"
_REQUEST = re.compile(
    r"(?:please )?(?:check|make sure|ensure|verify|watch)(?: that)? ", re.IGNORECASE
)
"""What may come before what must be true."""
_TELL = r"(?:tell|alert|warn|notify) (?:me|us) (?:when|if|as soon as) "
_EVERY = re.compile(
    r",? (?:every|each|once an?) (?:(?P<number>\d+) )?(?P<unit>[a-z]+)$", re.IGNORECASE
)
_NAME = r"[\w@.:-]+"
_ANSWERS = r"(?:answers|responds|works|(?:is|stays) (?:up|reachable))"
_WITHIN = rf"(?: (?:within|in) (?:(?:less than|under|at most) )?{_SPAN})?"
SYSTEMD = "test -d /run/systemd/system"
DEFAULT_SECONDS = 5.0
KERNEL_NAME = 15
"""Characters of a process's name that the kernel keeps."""


def certificate_run(place: str, days: float) -> str:
    """Fails when the certificate in a file, or at HOST:PORT, ends within so many days."""
    check = f"openssl x509 -noout -subject -enddate -checkend {int(days * 86_400)}"
    if place.startswith("/"):
        return f"{check} -in {shlex.quote(place)}"
    host, _, port = place.partition(":")
    name = f" -servername {shlex.quote(host)}" if re.search("[a-z]", host) else ""
    at = shlex.quote(f"{host}:{port or 443}")
    return f"openssl s_client -connect {at}{name} </dev/null | {check}"


def disk_run(path: str, most: int, what: str = "pcent") -> str:
    """Fails when a file system is this full, or cannot be read."""
    columns = f"{what},avail,target" if what == "pcent" else f"{what},target"
    test = f"{{print}} NR==2 {{ok = $1+0 < {most}}} END {{exit !ok}}"
    return f"df --output={columns} {shlex.quote(path)} | awk '{test}'"


def container_run(engine: str, name: str) -> str:
    anchored = f"^/{name}$" if engine == "docker" else f"^{name}$"
    return (
        f"{engine} ps --all --filter {shlex.quote(f'name={anchored}')} --format '{{{{.Status}}}}'"
    )


CONTAINER_UP, CONTAINER_ILL = "^Up ", "unhealthy"
CRASH_LOOPS = "CrashLoopBackOff"


def pods_run(namespace: str) -> str:
    where = f"-n {shlex.quote(namespace)}" if namespace else "-A"
    return f"kubectl get pods {where} --no-headers --request-timeout=10s"


def seconds(found: Groups) -> float | None:
    unit = found.get("unit") or ""
    factor = _UNITS.get(unit) or _UNITS.get(unit.rstrip("s"))
    return float(found["number"]) * factor if factor else None


def _answers(found: Groups) -> ProposedCheck | None:
    limit = seconds(found) if found.get("number") else DEFAULT_SECONDS
    if limit is None:
        return None
    url = found["url"].rstrip(".,")
    port = re.match(r"https?://[^/?#]*(:\d+)(?=[/?#]|$)", url)
    place = host_of(url) + (port[1] if port else "")  # a host may have several services
    what = slug(found.get("what") or "") or slug(place) or "site"
    run = f"curl -fsS -o /dev/null --max-time {limit:g} {shlex.quote(url)}"
    return ProposedCheck(f"{what}-answers", run, service=what, severity="P1")


def _disk(found: Groups) -> ProposedCheck:
    path, most = found["path"] or "/", int(found["percent"])
    place = slug(path) or "root"
    if found.get("inodes"):
        return ProposedCheck(f"inodes-{place}", disk_run(path, most, "ipcent"))
    return ProposedCheck(f"disk-{place}", disk_run(path, most), service=f"disk-{place}")


def _room(found: Groups) -> ProposedCheck:
    least = int(float(found["number"]) * _SIZES[found["size"].lower()])
    path = found["path"]
    test = f"{{print}} NR==2 {{ok = $1+0 >= {least}}} END {{exit !ok}}"
    run = f"df -k --output=avail,target {shlex.quote(path)} | awk '{test}'"
    return ProposedCheck(f"disk-{slug(path) or 'root'}", run)


def _memory(found: Groups) -> ProposedCheck:
    least = int(float(found["number"]) * _SIZES[found["size"].lower()])
    test = f"/^MemAvailable/ {{print; ok = $2 >= {least}}} END {{exit !ok}}"
    return ProposedCheck("memory", f"awk '{test}' /proc/meminfo")


def _load(found: Groups) -> ProposedCheck:
    run = f"awk '{{print; exit !($1 < {found['number']})}}' /proc/loadavg"
    return ProposedCheck("load", run)


def _certificate(found: Groups) -> ProposedCheck | None:
    left = seconds(found)
    if left is None:
        return None
    place = re.sub(r"^https://([^/]+).*", r"\1", found["place"], flags=re.IGNORECASE)
    run = certificate_run(place, left / 86_400)
    return ProposedCheck(f"certificate-{slug(place)}", run, service=slug(place), level="daily")


def _container(found: Groups) -> WordedCheck:
    name = found["name"]

    def there(engine: str) -> str:
        return f"{container_run(engine, name)} | grep -q ."

    docker, podman = container_run("docker", name), container_run("podman", name)
    proposed = ProposedCheck(
        f"container-{slug(name)}", docker, service=slug(name), severity="P1",
        output=CONTAINER_UP, no_output=CONTAINER_ILL,
    )  # fmt: skip
    choices = (
        CommandChoice(docker, there("docker")),
        CommandChoice(podman, there("podman")),
        CommandChoice(podman, "! command -v docker"),
    )
    return WordedCheck(proposed, choices)


def _port(found: Groups) -> WordedCheck:
    host, port = found.get("host") or "127.0.0.1", found["port"]
    local = host in ("127.0.0.1", "localhost", "::1")
    name = f"port-{port}" if local else f"port-{port}-{slug(host)}"
    connect = f"nc -z -w 5 {shlex.quote(host)} {port}"
    listens = f"ss -Hltn 'sport = :{port}' | grep ."
    proposed = ProposedCheck(name, listens if local else connect, service=name, severity="P1")
    return WordedCheck(proposed, (CommandChoice(connect, "command -v nc"),) if local else ())


def _backup(found: Groups) -> ProposedCheck | None:
    age = seconds(found)
    if age is None:
        return None
    path = found["path"].rstrip("/") or "/"
    run = f"find {shlex.quote(path)} -type f -mmin -{int(age / 60)} -print -quit | grep ."
    return ProposedCheck(f"backup-{slug(path)}", run, service="backup", level="hourly")


def _pods(found: Groups) -> ProposedCheck:
    namespace = found.get("namespace") or ""
    service = slug(namespace) or "kubernetes"
    return ProposedCheck(
        f"{service}-crashloopbackoff",
        pods_run(namespace),
        service=service,
        severity="P1",
        no_output=CRASH_LOOPS,
    )


def _rows(found: Groups) -> ProposedCheck:
    name, most = found.get("table") or found["named"], found["number"]
    database = found.get("database") or ""
    query = shlex.quote(f"select count(*) < {most}, count(*) from {name}")
    if "/" in database:
        run = f"sqlite3 -readonly {shlex.quote(database)} {query}"
    else:
        run = f"psql -XtA {f'-d {shlex.quote(database)} ' if database else ''}-c {query}"
    return ProposedCheck(f"rows-{slug(name)}", run, service=slug(name), output=r"^(t|1)\|")


def _unit(found: Groups) -> WordedCheck:
    name = found["name"]
    active = f"systemctl is-active {shlex.quote(name)}"
    process = f"pgrep -x {shlex.quote(name.removesuffix('.service'))}"
    own = slug(name.removesuffix(".service"))
    proposed = ProposedCheck(own, process, service=own, severity="P1")
    return WordedCheck(proposed, (CommandChoice(active, SYSTEMD),))


def _process(found: Groups) -> ProposedCheck:
    name = found["name"]
    run = f"pgrep -x {shlex.quote(name)}"
    if "." in name or len(name) > KERNEL_NAME:  # a script, or a name that the kernel cuts
        run = f"pgrep -f {shlex.quote(f'(^|[ /]){re.escape(name)}( |$)')}"
    return ProposedCheck(f"process-{slug(name)}", run, service=slug(name))


def _failed(_found: Groups) -> ProposedCheck:
    return ProposedCheck(
        "failed-units", FAILED_UNITS, service="systemd", level="hourly", no_output=ANYTHING
    )


def _resolves(found: Groups) -> ProposedCheck:
    name = found["name"]
    return ProposedCheck(
        f"dns-{slug(name)}", f"getent hosts {shlex.quote(name)}", service=slug(name)
    )


def _exists(found: Groups) -> ProposedCheck:
    path = found["path"]
    return ProposedCheck(f"file-{slug(path)}", f"test -e {shlex.quote(path)}")


FAILED_UNITS = "systemctl list-units --state=failed --no-legend --plain --no-pager"
ANYTHING = r"\S"

_UP = r"(?:is|are) (?:up|running|active|alive|healthy)"
_MAKERS: Sequence[tuple[str, Callable[[Groups], ProposedCheck | WordedCheck | None]]] = (
    ((rf"(?:(?:the |my |our )?(?P<what>[^:/]+?) )?{_ANSWERS}(?: on| at)? (?P<url>https?://\S+)"
     rf"{_WITHIN}"), _answers),
    ((rf"(?:(?:the |my |our )?(?P<what>[^:/]+?) (?:on |at )?)?(?P<url>https?://\S+) {_ANSWERS}"
     rf"{_WITHIN}"), _answers),
    (rf"{_WHERE} {_BELOW}", _disk),
    (rf"{_TELL}{_WHERE} {_ABOVE}", _disk),
    (rf"(?:the )?(?P<inodes>inodes) (?:of|on) (?P<path>/\S*) {_BELOW}", _disk),
    (rf"(?:the )?(?:{_DISK} )?(?P<path>/\S*) has (?:at least|more than) {_ROOM}(?: free| left)?",
     _room),
    (rf"(?:at least|more than) {_ROOM} of memory (?:is|are|stays) (?:free|available)", _memory),
    (rf"(?:the )?load {_IS} (?:below|under|less than) (?P<number>\d+(?:\.\d+)?)", _load),
    ((r"(?:the )?certificate (?:of|for|in|at|on) (?P<place>\S+)"
     rf" {_IS} valid for (?:at least |another )?{_SPAN}"), _certificate),
    ((r"(?:the )?certificate (?:of|for|in|at|on) (?P<place>\S+) does not (?:expire|end) within"
     rf" {_SPAN}"), _certificate),
    (rf"(?:the )?container (?P<name>{_NAME}) {_UP}", _container),
    ((rf"(?:the )?port (?P<port>\d{{1,5}})(?: (?:on|of|at) (?P<host>{_NAME}))?"
     r" (?:answers|is open|listens|accepts connections|is up)"), _port),
    (rf"{_NAME} (?:answers|listens|accepts connections|is up) (?:on|at) port (?P<port>\d{{1,5}})",
     _port),
    (r"(?P<host>[\w.-]+):(?P<port>\d{1,5}) (?:answers|is open|accepts connections)", _port),
    ((r"(?:the )?(?:newest |latest |last )?(?:backups?|dumps?|files?) in (?P<path>/\S*)"
     rf" (?:is|are) (?:younger|newer|not older|no older|less) than {_SPAN}(?: old)?"), _backup),
    (r"no pods?(?: in (?:the )?namespace (?P<namespace>[\w-]+))? (?:is|are) crash[ -]?looping",
     _pods),
    (r"no pods?(?: in (?:the )?namespace (?P<namespace>[\w-]+))? (?:is|are) in crashloopbackoff",
     _pods),
    ((r"(?:the )?(?:table (?P<table>\w+)|(?P<named>\w+) table)(?: (?:in|of)(?: the)?(?: database)?"
     r" (?P<database>[\w./-]+))? has (?:fewer|less) than (?P<number>\d+) rows"), _rows),
    (r"no (?:systemd )?(?:unit|service) (?:has )?failed", _failed),
    (rf"(?:the )?process (?P<name>{_NAME}) {_UP}", _process),
    (rf"(?:the )?(?:service |unit )?(?P<name>{_NAME})(?: service)? {_UP}", _unit),
    (rf"(?P<name>{_NAME}\.{_NAME}) resolves", _resolves),
    (r"(?:the )?(?:file |folder )?(?P<path>/\S+) exists", _exists),
)  # fmt: skip
_PATTERNS = [(re.compile(pattern, re.IGNORECASE), make) for pattern, make in _MAKERS]


def reading(words: str) -> WordedCheck | None:
    """What words mean; None where no pattern fits."""
    plain = " ".join(words.split()).rstrip(".!")
    if asked := _REQUEST.match(plain):
        plain = plain[asked.end() :]
    if (often := _EVERY.search(plain)) is None:
        return _read(plain)
    every = seconds({"number": often["number"] or "1", "unit": often["unit"].lower()})
    found = _read(plain[: often.start()])
    if found is None or every is None:
        return None
    return WordedCheck(replace(found.proposed, every=int(every)), found.choices)


def _read(plain: str) -> WordedCheck | None:
    for pattern, make in _PATTERNS:
        if (found := pattern.fullmatch(plain)) is None:
            continue
        made: Any = make(found.groupdict(default=""))
        if made is None:
            continue
        whole = made if isinstance(made, WordedCheck) else WordedCheck(made)
        return WordedCheck(replace(whole.proposed, about=plain), whole.choices)
    return None
