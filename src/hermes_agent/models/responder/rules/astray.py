"""Settings that lead to where nobody is, while what is needed listens somewhere else: seen without
any earlier version of them."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder.rules.ideas import Idea, keeping, lines, undo_of
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.needed import targets

_LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")


def astray(case: Case) -> Iterator[Idea]:
    """It reaches for a port of this machine where nobody listens and nobody is to, and what it
    needs listens on a port that it does not reach for."""
    for service in case.suspects:
        reached = [one for one in targets(case, service) if one.host in _LOCAL and one.port]
        ports = {one.port for one in reached}
        for port in sorted(ports):
            if any(one.port == port for one in case.listeners) or _is_somebodys(case, port):
                continue
            spoken = next(case.said(service, rf"\b{port}\b"), "")
            right = [one for one in _needed(case, service) if one[1] not in ports]
            if not spoken or len(right) != 1:
                continue
            name, there = right[0]
            if _has_moved(case, service, name, port):
                claim = f"{name} listens on {there}, and those who need it ask port {port}"
                yield from _leading(case, name, there, port, claim, spoken)
            else:
                claim = f"{service} asks port {port}, where nobody is; {name} listens on {there}"
                yield from _leading(case, service, port, there, claim, spoken)


def _has_moved(case: Case, service: str, name: str, port: int) -> bool:
    """Whether the one that is needed went elsewhere: others ask for it there, too, or its settings
    were written later."""
    others = [one for one in case.services if one not in (service, name)]
    if any(target.port == port for one in others for target in targets(case, one)):
        return True
    times = {row.path: row.time for row in parse.sizes(case.text(probes.CHANGED))}
    own, its = (
        max((times.get(path, 0.0) for path, _ in case.sources(one)), default=0.0)
        for one in (service, name)
    )
    return its > own


def _is_somebodys(case: Case, port: int) -> bool:
    """Whether a service should listen there: then that one is down, and the setting is right."""
    return any(port in values.ports for name in case.services for _, values in case.sources(name))


def _needed(case: Case, service: str) -> list[tuple[str, int]]:
    """Services that it needs itself, with the port on which each listens."""
    near = next((one.needs for one in case.brief.services if one.name == service), ())
    return [
        (name, listener.port)
        for name in near
        for listener in case.listeners
        if listener.pid in case.pids(name)
    ]


def _leading(
    case: Case, service: str, port: int, there: int, claim: str, spoken: str
) -> Iterator[Idea]:
    """A port in the settings of a service is replaced by another."""
    heard = next((one.line for one in case.listeners if one.port in (port, there)), "")
    definition = case.definition(service)
    for path, values in case.sources(service):
        held = [key for key, value in values.items() if re.search(rf"\b{port}\b", value)]
        if not path or not held:
            continue
        own = shlex.quote(path)
        anew: tuple[str, ...] = ()
        if case.supervised and definition is not None and path == definition.path:
            anew = ("supervisorctl reread", f"supervisorctl update {shlex.quote(service)}")
        yield Idea(
            "bad-config", service,
            f"{held[0]} of {service} in {path} is wrong: {claim}", 0.78, path,
            lines(spoken, heard), (),
            (keeping(path),
             f"sed -i -E 's/(^|[^0-9]){port}([^0-9]|$)/\\1{there}\\2/g' {own}",
             *anew, case.restart(service)), undo_of(path),
            ("check that somebody listens before a setting is rolled out",),
        )  # fmt: skip


RULES = (astray,)
