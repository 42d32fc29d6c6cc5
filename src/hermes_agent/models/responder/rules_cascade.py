"""What fell takes others with it, which do not get up by themselves."""

import re
from collections.abc import Iterator

from hermes_agent.models.responder import needed, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import Idea, lines

YOUNGER_SECONDS = 3
"""By how much one must have been started later than those that need it."""
_LOST = re.compile(
    r"refused|broken pipe|reset|closed|breaker|circuit|unavailable|\b50[234]\b|not connected|"
    r"connection (?:lost|aborted)|bad file descriptor|EPIPE|gave up|giving up|rejected|suspend|"
    r"server has gone away|terminat|no longer|stale|degraded|read-only|maintenance|upstream",
    re.IGNORECASE,
)


def left_behind(case: Case) -> Iterator[Idea]:
    """Something below was started anew; what needs it was not, and does not work since."""
    chain = [case.brief.service, *case.needs(case.brief.service)]
    fallen: list[str] = []
    evidence: list[str] = []
    roots: list[str] = []
    for service in reversed(chain):
        below = _below(case, service)
        renewed = [one for one in below if _is_younger(case, one, service)]
        program = case.programs.get(service)
        if program is None or not (renewed or set(below) & set(fallen)):
            continue
        spoken = next((line for line in case.troubles(service) if _LOST.search(line)), "")
        if not program.up or spoken or service == case.brief.service:
            fallen.append(service)
            roots += renewed
            evidence += [spoken or program.line]
    if not fallen or not roots:
        return
    root = case.programs.get(roots[0])
    fell = _fell(case, roots[0])
    score = 0.8 if any(not case.programs[one].up for one in fallen) else 0.74
    yield Idea(
        "cascading-failure", roots[0],
        f"{', '.join(fallen)} did not get over the time when {roots[0]} was away",
        score if fell else 0.56, roots[0],
        lines(*evidence, fell, root.line if root else ""), (),
        tuple(case.restart(one) for one in fallen), "",
        ("let those that lose a connection connect again by themselves",),
    )  # fmt: skip


def _fell(case: Case, service: str) -> str:
    """Where its supervisor tells that it ended by itself; who was only started anew did not."""
    name = re.escape(service.rpartition(":")[2])
    told = rf"(?:exited|gave up|spawnerr)\S*:? {name}\b"
    log = case.text(probes.SUPERVISOR_LOG).splitlines()
    return next((line for line in reversed(log) if re.search(told, line)), "")


def _below(case: Case, service: str) -> list[str]:
    """What a service needs itself: as people wrote it down, or by its settings."""
    told = next((one.needs for one in case.brief.services if one.name == service), ())
    ports = {one.port for one in needed.targets(case, service) if one.port}
    met = [one for one in case.services if one != service and ports.intersection(case.ports(one))]
    return list(dict.fromkeys([*told, *met]))


def _is_younger(case: Case, below: str, service: str) -> bool:
    """Whether what is below runs, and was started after what needs it, or after that ended."""
    own, other = (_age(case, one) for one in (service, below))
    program = case.programs.get(service)
    if other is None or program is None:
        return False
    if own is None:
        return not program.up
    return own - other >= YOUNGER_SECONDS


def _age(case: Case, service: str) -> int | None:
    program = case.programs.get(service)
    process = case.process(program.pid) if program is not None and program.pid else None
    return process.age if process is not None else None


RULES = (left_behind,)
