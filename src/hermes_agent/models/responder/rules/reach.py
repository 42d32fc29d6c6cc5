"""What answers late, by itself or because somebody else keeps it busy."""

import re
from collections.abc import Iterator

from hermes_agent.models.responder.rules.config import commented
from hermes_agent.models.responder.rules.hands import crowders, crowding, looks
from hermes_agent.models.responder.rules.ideas import Idea, earlier, lines, put_back, undo_of
from hermes_agent.models.responder.rules.noted import noted, set_back
from hermes_agent.models.responder.view import needed, parse, probes
from hermes_agent.models.responder.view.case import Case

_SLOW = re.compile(
    r"timed? ?out|too slow|slow|deadline|took \d|latency|\b504\b|overload|queue (?:is )?full|"
    r"ETIMEDOUT|busy|congest",
    re.IGNORECASE,
)
_ELSE = re.compile(r"statement timeout|\block|\bpool\b|connection slots|resolution", re.IGNORECASE)
"""What is waited for is known then."""
_COUNTED = re.compile(r"[=:\s]\W*(?:\d|on\b|off\b|true\b|false\b|yes\b|no\b)", re.IGNORECASE)
_GUARDS = re.compile(
    r"auth|allow|deny|secur|tls|ssl|verif|passw|token|secret|acl|permi|trust|cert|debug|audit|sync"
    r"|durab|retain|retention",
    re.IGNORECASE,
)
"""What keeps strangers out or data safe: it is not set back to make something quicker."""
SLOW_SECONDS = 0.8
DRAIN = "sleep 4"
"""What waits already must be done with before it is well again."""
FEW = 8
"""Lines by which a changed file may differ from what it was."""


def slow(case: Case) -> Iterator[Idea]:
    """Something that it needs answers late: by itself, or because somebody else keeps it busy."""
    for service in case.suspects:
        spoken = waits(case, service)
        for one in needed.targets(case, service):
            host, port = one.host, one.port
            found = case.look(probes.timed(one.url)) if one.url else None
            took = re.search(r"after ([\d.]+) s", found.output) if found else None
            late = parse.number(took[1]) > SLOW_SECONDS if took else False
            if not port or (not late and not spoken):
                continue
            evidence = lines(spoken, *(found.lines if found and late else []))
            wants = case.missing((probes.timed(one.url),)) if one.url else ()
            other = _behind(case, host, port)
            base = 0.55 + 0.1 * bool(spoken) + 0.1 * late
            yield from _hurrying(case, service, (host, port, other), base, evidence, wants)


def waits(case: Case, service: str) -> str:
    """What says that a service waits too long, itself or by the check that fails."""
    troubles = [x for x in case.troubles(service) if not _ELSE.search(x)]
    spoken = next((x for x in troubles if _SLOW.search(x)), "")
    if not spoken and service == case.brief.service and _SLOW.search(case.symptom):
        return case.symptom
    return spoken


def _hurrying(
    case: Case, service: str, late: tuple[str, int, str], base: float,
    evidence: tuple[str, ...], wants: tuple[str, ...],
) -> Iterator[Idea]:  # fmt: skip
    """Settings of the slow one, or of those who call it, that were changed; else start it anew."""
    host, port, other = late
    prevent = ("set a deadline for each call", "alert on its time to answer")
    others = [one for one in case.services if one not in (service, other)]
    callers = [one for one in others if any(port == to.port for to in needed.targets(case, one))]
    for culprit in [*([other] if other else []), *callers, service]:
        paths = [*case.changed(culprit), *case.configs(culprit)]
        for path in list(dict.fromkeys(paths))[:3]:
            copy = earlier(case, path)
            wants += copy.wants
            if not copy.path or len(copy.changes) > FEW:
                continue
            if culprit == service and not any(str(port) in row for row in copy.changes):
                continue
            claim = f"{culprit} keeps {other or host} so busy that it answers {service} late"
            if culprit == other:
                claim = f"{culprit} answers {service} late"
            elif culprit == service:
                claim = f"{service} asks {other or host}, which is slow,"
            yield Idea(
                "slow-dependency", culprit, f"{claim} since {path} was changed", base + 0.15,
                f"{path}: {copy.change[2:]}", (*evidence[:2], *lines(copy.change)), wants,
                (*put_back(path, copy.path), case.restart(culprit), DRAIN), undo_of(path), prevent,
            )  # fmt: skip
    for culprit in [*([other] if other else []), *callers]:
        yield from _as_before(case, culprit, (service, other or host), base, evidence)
    wants += case.missing((probes.CONNECTIONS,))
    for culprit in crowders(case, other, port) if other else ():
        if culprit != service:
            yield from _crowding(case, culprit, (service, other, port), base, evidence)
    for pid, count, line in case.crowd(port):
        process = case.process(pid)
        if case.strangers(pid, harmful=True) and process is not None:
            yield Idea(
                "slow-dependency", other or f"{host}:{port}",
                f"process {pid} ({process.command[:60]}), which nobody looks after, keeps {count} "
                f"connections to {other or host} busy", base + 0.2, f"pid {pid}: {process.command}",
                lines(process.line, line, *evidence), wants, (f"kill {pid}", "sleep 1"),
                "it was started by hand: start it again", prevent,
            )  # fmt: skip
    if other:
        yield Idea(
            "slow-dependency", other, f"{other} answers {service} late", base - 0.15,
            f"{host}:{port}", evidence, wants, (case.restart(other),), "", prevent,
        )  # fmt: skip


def _crowding(
    case: Case, culprit: str, between: tuple[str, str, int], base: float, evidence: tuple[str, ...]
) -> Iterator[Idea]:
    """Somebody asks for so much at the same time that others get no turn: what was kept of its
    settings may have been kept too late."""
    service, other, port = between
    claim = f"{culprit} keeps {other} so busy that it answers {service} late"
    if wants := looks(case, culprit, other):
        yield Idea("slow-dependency", culprit, claim, base - 0.1, culprit, evidence, wants)
    for one in crowding(case, culprit, other, port):
        edit = one.edit
        yield Idea(
            "slow-dependency", culprit,
            f"{claim}: {edit.key} is {edit.value}, and {other} does {one.hands} at a time",
            base + 0.05,
            f"{edit.path}: {edit.key} = {edit.value}", (*evidence[:2], *lines(one.line)), (),
            (*edit.fix, case.restart(culprit), DRAIN), edit.undo,
            (f"bound what {culprit} may ask at a time", "set a deadline for each call"),
        )  # fmt: skip


def _as_before(
    case: Case, culprit: str, between: tuple[str, str], base: float, evidence: tuple[str, ...]
) -> Iterator[Idea]:
    """A line of settings that were written lately, beside which its former one stands as a
    remark, or lines of which a remark says in words what they were."""
    lately = {row.path for row in parse.sizes(case.text(probes.CHANGED))}
    for path in [one for one in case.configs(culprit) if one in lately][:3]:
        now, former = commented(case.content(path), _COUNTED)
        changes = noted(case.content(path)) or ([(now, former)] if now else [])
        if not changes or any(_GUARDS.search(row) for row, _ in changes):
            continue
        now, former = (", ".join(x.strip() for x in each) for each in zip(*changes, strict=True))
        yield Idea(
            "slow-dependency", culprit,
            f"{between[1]} answers {between[0]} late since {path} of {culprit} has {now}, "
            f"not {former}", base + 0.1, f"{path}: {now}",
            (*evidence[:2], *lines(*(row for row, _ in changes))),
            (), (*set_back(path, changes), case.restart(culprit), DRAIN), undo_of(path),
            ("set a deadline for each call",),
        )  # fmt: skip


def _behind(case: Case, host: str, port: int) -> str:
    """The service that listens there, as far as it is on this machine."""
    pids = [one.pid for one in case.listeners if one.port == port]
    found = next((case.owner(pid) for pid in pids if case.owner(pid)), "")
    if found:
        return found
    named = [one for one in case.services if port in case.ports(one)]
    return named[0] if named else (host if host in case.services else "")


RULES = (slow,)
