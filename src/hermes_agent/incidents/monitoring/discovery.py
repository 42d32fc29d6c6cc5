"""What runs on a machine and is worth a check: services, containers, ports, disks, certificates,
timers, cron and Kubernetes. It is read with a few commands that only read."""

import re
import shlex
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from hermes_agent.core.text.format import slug
from hermes_agent.incidents.monitoring.scheduler import CheckOutcome
from hermes_agent.incidents.monitoring.wording import (
    ANYTHING,
    CONTAINER_ILL,
    CONTAINER_UP,
    CRASH_LOOPS,
    FAILED_UNITS,
    ProposedCheck,
    certificate_run,
    container_run,
    disk_run,
    pods_run,
)

Output = Callable[[str], Awaitable[CheckOutcome]]
"""Runs a command that only reads."""

FULL = 90
"""Percent of a file system at which its check fails."""
CERTIFICATE_DAYS = 14
EPHEMERAL = 32_768
"""From this port on, whoever listens did not choose the port."""
HTTP_SECONDS = 5
NOT_HTTP = frozenset({
    21, 22, 23, 25, 53, 110, 111, 139, 143, 389, 445, 465, 587, 636, 873, 993, 995, 1433, 1521,
    2049, 3306, 5432, 5672, 6379, 9042, 11211, 27017,
})  # fmt: skip
"""Ports of well-known services to which a GET is an error in their log."""
_LIST = "--no-legend --plain --no-pager"
_NAMES = "--format '{{.Names}}\t{{.Status}}'"
_WEB = "/etc/nginx /etc/apache2/sites-enabled /etc/httpd/conf.d /etc/lighttpd"
_CERTIFICATE = r"^\s*(ssl_certificate|SSLCertificateFile|ssl.pemfile)[ =]+[^;#]+"
PROBES: Mapping[str, str] = {
    "enabled": f"systemctl list-unit-files --type=service --state=enabled {_LIST}",
    "units": f"systemctl list-units --type=service --all {_LIST}",
    "timers": f"systemctl list-units --type=timer {_LIST}",
    "docker": f"docker ps {_NAMES}",
    "podman": f"podman ps {_NAMES}",
    "ports": "ss -Hltn",
    "disks": "df --output=fstype,ipcent,source,target",
    "certificates": "find -L /etc/letsencrypt/live -name fullchain.pem;"
    f" grep -rhsoE {shlex.quote(_CERTIFICATE)} {_WEB}",
    "cron": "crontab -l; cat /etc/crontab /etc/cron.d/*",
    "cluster": f"{pods_run('')} && echo '#@answers'",
}
"""What is asked of a machine; a program that is not there answers nothing."""

_OWN = re.compile(
    r"^(systemd-|getty@|serial-getty@|console-getty|user@|dbus|e2scrub|apt-|dpkg-|man-db|fstrim"
    r"|fwupd|motd-|logrotate|ua-|snap|update-notifier|plocate|anacron|sysstat|phpsessionclean"
    r"|keyboard-setup|console-setup|hermes\b)"
)
"""Units of the distribution that nobody misses at night."""
_VIRTUAL = re.compile(r"^(\w*tmpfs|squashfs|ramfs|efivarfs|iso9660|fuse\..*|proc|sysfs|overlay|-)$")
_LISTENS = re.compile(r"^LISTEN\s+\d+\s+\d+\s+(?P<host>\S+):(?P<port>\d+)\s")
_CRON_LINE = re.compile(r"^\s*(@\w+|[\d*]\S*\s+\S+\s+\S+\s+\S+\s+\S+)\s+\S")


async def discovered(said: Mapping[str, str], run: Output) -> Sequence[ProposedCheck]:
    """The checks, by what the probes printed; `run` asks ports for HTTP."""
    found = [
        *_services(said["enabled"], said["units"]),
        *_containers("docker", said["docker"]),
        *_containers("podman", said["podman"]),
        *await _ports(said["ports"], run),
        *_disks(said["disks"]),
        *_certificates(said["certificates"]),
        *_timers(said["timers"]),
        *_cron(said["cron"]),
        *_cluster(said["cluster"]),
    ]
    first: dict[str, ProposedCheck] = {}
    for one in found:
        first.setdefault(one.name, one)
    return list(first.values())


def _services(enabled: str, units: str) -> Iterator[ProposedCheck]:
    states = {}
    for line in units.splitlines():
        words = line.replace("●", " ").split()
        if len(words) >= 4 and words[0].endswith(".service"):
            states[words[0]] = words[2], words[3]
    wanted = {line.split()[0] for line in enabled.splitlines() if ".service" in line}
    for unit, state in states.items():
        template = re.sub(r"@.+\.service$", "@.service", unit)
        if not {unit, template} & wanted or _OWN.search(unit):
            continue
        if state == ("active", "running") or state[0] in ("failed", "activating"):
            name = unit.removesuffix(".service")
            run = f"systemctl is-active {shlex.quote(unit)}"
            about = f"the service {name} runs"
            yield ProposedCheck(f"service-{slug(name)}", run, about, slug(name), "P1")
    if states:
        yield ProposedCheck(
            "failed-units", FAILED_UNITS, "no unit has failed", "systemd", level="hourly",
            no_output=ANYTHING,
        )  # fmt: skip


def _containers(engine: str, text: str) -> Iterator[ProposedCheck]:
    for line in text.splitlines():
        name, tab, status = line.partition("\t")
        if not tab or not re.fullmatch(r"[\w.-]+", name):
            continue
        healthy = " and healthy" if "health" in status else ""
        yield ProposedCheck(
            f"container-{slug(name)}", container_run(engine, name),
            f"the container {name} is up{healthy}", slug(name), "P1",
            output=CONTAINER_UP, no_output=CONTAINER_ILL,
        )  # fmt: skip


async def _ports(text: str, run: Output) -> list[ProposedCheck]:
    """One check for each port, and one for its certificate."""
    listening: dict[int, str] = {}
    for line in text.splitlines():
        if (found := _LISTENS.match(line)) is None or int(found["port"]) >= EPHEMERAL:
            continue
        host = found["host"].partition("%")[0].strip("[]")
        everywhere = host in ("*", "0.0.0.0", "::", "127.0.0.1", "")
        listening.setdefault(int(found["port"]), "127.0.0.1" if everywhere else host)
    checks: list[ProposedCheck] = []
    for port, host in sorted(listening.items()):
        checks += await _port(port, f"[{host}]" if ":" in host else host, run)
    return checks


async def _port(port: int, host: str, run: Output) -> list[ProposedCheck]:
    name = _service_name(port)
    for scheme in () if port in NOT_HTTP else ("https", "http"):
        get = f"curl -skS -o /dev/null --max-time {HTTP_SECONDS} -w '%{{http_code}}\\n'"
        get = f"{get} {scheme}://{host}:{port}/"
        answer = await run(get)
        code = answer.output.strip()[:3]
        if answer.code != 0 or not code.isdigit() or code == "000":
            continue
        about = f"port {port} answers a {scheme.upper()} request"
        found = [ProposedCheck(f"{scheme}-{port}", get, about, name, "P1", output=r"^[1-4]\d\d$")]
        if scheme == "https":
            run_it = certificate_run(f"{host}:{port}", CERTIFICATE_DAYS)
            what = f"the certificate at port {port} is valid for {CERTIFICATE_DAYS} days"
            found.append(ProposedCheck(f"certificate-{port}", run_it, what, name, level="daily"))
        return found
    listens = f"ss -Hltn 'sport = :{port}' | grep ."
    return [ProposedCheck(f"port-{port}", listens, f"port {port} is open ({name})", name, "P1")]


def _service_name(port: int) -> str:
    try:
        return slug(socket.getservbyport(port, "tcp")) or f"port-{port}"
    except OSError:
        return f"port-{port}"


def _disks(text: str) -> Iterator[ProposedCheck]:
    seen: set[str] = set()
    rows = [line.split(None, 3) for line in text.splitlines()[1:]]
    for row in sorted((row for row in rows if len(row) == 4), key=lambda row: len(row[3])):
        kind, inodes, source, path = row
        if (_VIRTUAL.match(kind) and path != "/") or source in seen or not path.startswith("/"):
            continue
        seen.add(source)
        name = slug(path) or "root"
        about = f"{path} is less than {FULL}% full"
        yield ProposedCheck(f"disk-{name}", disk_run(path, FULL), about, f"disk-{name}")
        if inodes != "-":
            yield ProposedCheck(
                f"inodes-{name}", disk_run(path, FULL, "ipcent"),
                f"{path} has used less than {FULL}% of its inodes", f"disk-{name}", level="hourly",
            )  # fmt: skip


def _certificates(text: str) -> Iterator[ProposedCheck]:
    for line in dict.fromkeys(text.splitlines()):
        path = re.split(r"[ =]+", line.strip(), maxsplit=1)[-1].strip("\"' ")
        if not path.startswith("/") or "$" in path:
            continue
        short = path.removeprefix("/etc/").removesuffix("/fullchain.pem")
        name = slug(short.removeprefix("letsencrypt/live/"))
        yield ProposedCheck(
            f"certificate-{name}", certificate_run(path, CERTIFICATE_DAYS),
            f"{path} is valid for {CERTIFICATE_DAYS} days", name, level="daily",
        )  # fmt: skip


def _timers(text: str) -> Iterator[ProposedCheck]:
    for line in text.splitlines():
        unit = line.replace("●", " ").split(None, 1)[:1]
        if unit and unit[0].endswith(".timer") and not _OWN.search(unit[0]):
            name = unit[0].removesuffix(".timer")
            job = shlex.quote(f"{name}.service")
            run = f"systemctl is-active {shlex.quote(unit[0])} && ! systemctl is-failed {job}"
            about = f"the timer {name} is set, and its last run did not fail"
            yield ProposedCheck(f"timer-{slug(name)}", run, about, slug(name), level="hourly")


def _cron(text: str) -> Iterator[ProposedCheck]:
    entries = sum(bool(_CRON_LINE.match(line)) for line in text.splitlines())
    if entries:
        about = f"cron runs what its {entries} entries say"
        yield ProposedCheck("cron", "pgrep -x 'cron|crond'", about, "cron", level="hourly")


def _cluster(text: str) -> Iterator[ProposedCheck]:
    if "#@answers" in text:
        yield ProposedCheck(
            "kubernetes-crashloopbackoff", pods_run(""), "no pod is crash looping", "kubernetes",
            "P1", no_output=CRASH_LOOPS,
        )  # fmt: skip
