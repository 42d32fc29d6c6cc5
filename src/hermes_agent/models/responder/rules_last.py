"""What is left where no rule is sure: whoever should answer and does not is started anew, once. It
is the smallest remedy there is, and says that the cause is not known."""

import re
from collections.abc import Iterator

from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import Idea, lines
from hermes_agent.models.responder.needed import targets

_PORT = re.compile(r":(\d{2,5})(?![\d.])")
_STORE = re.compile(
    r"postgres|postmaster|mysqld|mariadbd|mongod|redis-server|valkey|etcd|cassandra|elasticsearch"
    r"|clickhouse|rabbitmq|kafka|influxd|sqlservr",
    re.IGNORECASE,
)
"""Those at which many work at once: to start one anew ends the work of all."""


def asked(case: Case) -> list[str]:
    """Who should answer the check: its service; where that is none that anybody looks after,
    whoever has the port that the check asks."""
    own = case.brief.service
    if own in case.programs or case.brief.check is None:
        return [own]
    ports = [int(port) for port in _PORT.findall(case.brief.check.command)]
    owners = [case.owner(one.pid) for one in case.listeners if one.port in ports]
    owners += [name for name in case.services if set(ports) & set(case.ports(name))]
    return [name for name in dict.fromkeys(owners) if name]


def anew(case: Case) -> Iterator[Idea]:
    """It runs, or something that it needs does, and the work is not done."""
    first = asked(case)
    known = [name for service in first for name in [*case.needs(service), *_behind(case, service)]]
    for service in dict.fromkeys([*first, *known]):
        program = case.programs.get(service)
        if program is None:
            continue
        silent = [port for port in _own_ports(case, service) if not _heard(case, port)]
        if program.up and not silent and _STORE.search(" ".join(case.command(service))):
            continue
        trouble = next(iter(case.troubles(service)), "")
        if service not in first and not (silent or trouble) and program.up:
            continue
        claim = f"{service} does not do its work, and the cause is not known"
        if silent:
            claim = f"{service} does not listen on port {silent[0]}, and the cause is not known"
        yield Idea(
            "unknown" if program.up else "service-crash", service, claim,
            0.2 + 0.04 * bool(silent) - 0.02 * (service not in first), service,
            lines(trouble, program.line), (), (case.restart(service),), "",
            ("find out why from its log", "alert before its users notice"),
        )  # fmt: skip


def _behind(case: Case, service: str) -> list[str]:
    """Services on this machine that it reaches for, by its settings."""
    ports = {one.port for one in targets(case, service)}
    return [name for name in case.services if name != service and ports & set(case.ports(name))]


def _own_ports(case: Case, service: str) -> list[int]:
    return [port for _, values in case.sources(service) for port in values.ports]


def _heard(case: Case, port: int) -> bool:
    return any(one.port == port for one in case.listeners)


RULES = (anew,)
