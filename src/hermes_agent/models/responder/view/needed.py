"""What a service reaches for over the network, by its settings and by what it complains of."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import CODE
from hermes_agent.models.responder.view.sight import once

_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_PLAIN = re.compile(r"(?<![\w./@:-])([A-Za-z0-9][\w.-]*):(\d{2,5})(?![\w.:])")
_HOST_KEY = re.compile(
    r"^(.*?)[_.-]?(?:host(?:name)?|server|addr(?:ess)?|endpoint|node)$", re.IGNORECASE
)
_LOCAL = ("127.0.0.1", "localhost", "0.0.0.0", "*", "[::1]", "::1")
_NODE = re.compile(r"([\w./-]*on-node [\w.-]+|(?:/[\w./-]*/)?ip netns exec [\w.-]+)\s")
_PORT = re.compile(r":(\d{2,5})(?![\d.])")
_OWN_KEY = re.compile(r"(?:^|[._-])(listen|bind|log\w*|name)$", re.IGNORECASE)


class Target(Struct, frozen=True):
    host: str
    port: int
    """0 where it is not known."""
    url: str = ""
    """Where it is asked over HTTP."""

    @property
    def named(self) -> bool:
        """Whether it is called by a name that must be resolved."""
        return bool(re.search(r"[A-Za-z]", self.host)) and self.host != "localhost"

    @property
    def far(self) -> bool:
        """Whether it is called by an address of another machine."""
        return bool(_ADDRESS.fullmatch(self.host)) and not self.host.startswith(("127.", "0."))

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


def node_of(case: Case, service: str) -> str:
    """What commands begin with that run where a service does; empty where that is here."""
    definition = case.definition(service)
    found = _NODE.match(definition.command) if definition is not None else None
    return f"{found[1]} " if found else ""


@once
def targets(case: Case, service: str) -> list[Target]:
    """What its settings name, then what its log names."""
    found = [*_set(case, service), *_spoken(case, service)]
    own = set(case.ports(service))
    kept = [one for one in found if not (one.port in own and one.host in _LOCAL)]
    best: dict[tuple[str, int], Target] = {}
    for one in kept:
        if not best.get((one.host, one.port), one).url:
            best[one.host, one.port] = one
        best.setdefault((one.host, one.port), one)
    return list(best.values())


def in_text(case: Case, text: str) -> Iterator[Target]:
    """Addresses that a text names."""
    for host, port, url in case.urls(text):
        yield Target(host, port, url if url.startswith("http") else "")
    bare = re.sub(r"\w+://\S+", " ", text)
    for host, port in _PLAIN.findall(bare):
        if _ADDRESS.fullmatch(host) or re.search(r"[A-Za-z]", host):
            yield Target(host, int(port))


def _set(case: Case, service: str) -> Iterator[Target]:
    values = case.settings(service)
    for key, value in values.items():
        if _OWN_KEY.search(key):
            continue
        yield from in_text(case, value)
        pair = _HOST_KEY.match(key)
        if pair and re.fullmatch(r"[A-Za-z0-9][\w.-]*", value):
            port = next(
                (
                    values[one]
                    for one in values
                    if one.lower().startswith(pair[1].lower()) and one.lower().endswith("port")
                ),
                "",
            )
            yield Target(value, int(port) if port.isdigit() and len(port) < 6 else 0)


def _spoken(case: Case, service: str) -> Iterator[Target]:
    for line in case.troubles(service)[:6]:
        text = re.sub(r"^\S*\d\d:\d\d:\d\d\S*", " ", line)
        for one in in_text(case, text):
            if not re.fullmatch(r"\d+", one.host):  # who writes a line does not say what is asked
                url = re.match(r"https?://[^/?#]*", one.url)
                yield Target(one.host, one.port, f"{url[0]}/" if url else "")
        for address in _ADDRESS.findall(text):
            yield Target(address, 0)


def needed_by(case: Case, service: str) -> list[str]:
    """What a service needs itself: as people wrote it down, or by its settings."""
    told = next((one.needs for one in case.brief.services if one.name == service), ())
    ports = {one.port for one in targets(case, service) if one.port}
    met = [one for one in case.services if one != service and ports.intersection(case.ports(one))]
    return list(dict.fromkeys([*told, *met]))


def chain(case: Case, service: str) -> list[str]:
    """A service and all below it, near ones first."""
    found, waiting = list[str](), [service]
    while waiting:
        one = waiting.pop(0)
        if one and one not in found:
            found.append(one)
            waiting += needed_by(case, one)
    return found


def is_concerned(case: Case, service: str) -> bool:
    """Whether a service has to do with the alert: it is asked by the check, it is needed by whoever
    is, or works beside one of those, with the same files or as part of it. Where nothing is known
    of what is needed, all may."""
    check = case.brief.check.command if case.brief.check else ""
    ports = {int(port) for port in _PORT.findall(check)}
    asked = [one for one in case.services if ports.intersection(case.ports(one))]
    first = list(dict.fromkeys([case.brief.service, *asked]))
    known = list(dict.fromkeys(name for one in first for name in chain(case, one)))
    if len(known) == 1 or service in known:
        return True
    return any(_is_beside(case, service, one) for one in known)


def _is_beside(case: Case, service: str, other: str) -> bool:
    """Whether two services are of one house: one is called by the name of the other and a word more
    or is of its group, or one has a place of the other in its settings."""
    pair = sorted((service, other), key=len)
    if re.match(rf"{re.escape(pair[0])}[-_.:]", pair[1]) or pair[1].endswith(f":{pair[0]}"):
        return True
    mine, theirs = (_places(case, one) for one in (service, other))
    return any(
        one == two or one.startswith(f"{two}/") or two.startswith(f"{one}/")
        for one in mine
        for two in theirs
    )


def _places(case: Case, service: str) -> list[str]:
    """Files and folders that it works with; what it is started from, or lies beside its settings,
    many have in common."""
    above = {str(PurePosixPath(path).parent) for path in case.configs(service)}
    common = {*above, case.directory(service)}
    return [x for x in case.named(service) if x not in common and not CODE.search(x)]
