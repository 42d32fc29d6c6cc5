"""Who answers for names: those whom the machine asks, those that are known besides, and what each
says when it is asked itself."""

import re
import shlex

from hermes_agent.models.responder.rules.sed import extended
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

RESOLVER = "/etc/resolv.conf"
DATAGRAMS = "ss -lnup"
WRITTEN = (
    "readlink -m /etc/resolv.conf; "
    "grep -rhsIE '^[^#;]*(nameserver|name-server|DNS=|dns[-_]|domain-search|Domains=|addresses:)' "
    "/etc/network /etc/netplan /etc/systemd /etc/dhcp /etc/NetworkManager /etc/resolvconf "
    "/etc/sysconfig /var/lib/dhcp /run/systemd/netif /run/systemd/resolve | head -n 40"
)
"""Where the resolver's file is really, and what the settings of the network say of servers."""
MOST = 5
"""Servers that are asked."""
ADDRESS = r"\d{1,3}(?:\.\d{1,3}){3}"
_SERVER = re.compile(
    r"\bdns\b|dnsmasq|named\b|\bbind9?\b|unbound|resolve|coredns|name ?server|\bnsd\b|\bzone",
    re.IGNORECASE,
)
_DOMAIN = re.compile(
    r"(?:dns-search|domain-search|\bsearch|Domains=|dns_search)[\s=:\"]*([a-z][\w-]*(?:\.[\w-]+)+)"
)
_HEAD = re.compile(
    r"12 34 (?:[0-9a-f]{2}) [0-9a-f]([0-9a-f]) 00 01 ((?:[0-9a-f]{2} ){1}[0-9a-f]{2})"
)


def is_server(case: Case, service: str) -> bool:
    """Whether a service answers for names, by what is told of it."""
    return _SERVER.search(_told(case, service)) is not None


def _told(case: Case, name: str) -> str:
    return f"{name} {case.about(name)} {' '.join(case.command(name))}"


def rows(case: Case) -> list[str]:
    """Lines of the machine's resolver that name servers, in the order in which they are asked."""
    own = parse.files(case.text(probes.NAMES)).get("/etc/resolv.conf", [])
    return [row for row in own if re.match(rf"\s*nameserver\s+{ADDRESS}", row)]


def asked(case: Case) -> list[str]:
    """Servers that the machine asks."""
    return [row.split()[1] for row in rows(case)]


def known(case: Case) -> list[str]:
    """Servers that the machine does not ask: those that listen here, of which people or commands
    tell, and those that its resolver had once."""
    found = list[str]()
    for text in (case.text(DATAGRAMS), case.text(probes.LISTENERS)):
        heard = re.findall(rf"\s({ADDRESS}|\*|\[::\])(?:%\w+)?:53\s", text)
        found += ["127.0.0.1" if one in ("*", "[::]", "0.0.0.0") else one for one in heard]
    for name in case.services:
        if is_server(case, name):
            found += re.findall(rf"(?<![\d./]){ADDRESS}(?![\d./])", _told(case, name))
    own = parse.files(case.text(probes.NAMES)).get("/etc/resolv.conf", [])
    for row in own:
        found += re.findall(rf"[#;]\s*nameserver\s+({ADDRESS})", row)
    told = [row for row in case.text(WRITTEN).splitlines()[1:] if not _DOMAIN.search(row)]
    found += [one for row in told for one in re.findall(rf"(?<![\d./]){ADDRESS}(?![\d./])", row)]
    return [one for one in dict.fromkeys(found) if one not in asked(case)]


def entered(case: Case, server: str) -> tuple[str, ...]:
    """Commands by which the machine's resolver, which names no server, gets one: where its file is
    a link that leads nowhere, there where it leads."""
    where, *told = case.text(WRITTEN).splitlines() or [RESOLVER]
    folder = where.rpartition("/")[0]
    made = () if folder in ("/etc", "") else (f"mkdir -p {shlex.quote(folder)}",)
    searched = next((found[1] for row in told if (found := _DOMAIN.search(row))), "")
    text = f"nameserver {server}\\n" + f"search {searched}\\n" * bool(searched)
    return (*made, f"printf '{text}' >> {RESOLVER}")


def looks(case: Case, host: str) -> tuple[str, ...]:
    """Each of them is asked itself."""
    return tuple(probes.asked(one, host) for one in [*asked(case), *known(case)][:MOST])


def answers(case: Case, server: str, host: str) -> bool | None:
    """Whether a server knows a name; None where it was not asked."""
    found = case.look(probes.asked(server, host))
    if found is None or found.exit is None:
        return None
    head = _HEAD.search(found.output)
    return head is not None and head[1] == "0" and head[2] != "00 00"


def knows(server: str, host: str) -> str:
    """A look that comes out well where a server knows a name."""
    return f"{probes.asked(server, host)} | grep -qE '12 34 .. .0 00 01 (..) (0[1-9a-f]|[1-9a-f].)'"


def denies(case: Case, server: str, host: str) -> bool:
    """Whether a server says that there is no such name: it is there, and may know others."""
    head = _HEAD.search(case.text(probes.asked(server, host)))
    return head is not None and head[1] in "03" and head[2] == "00 00"


def working(case: Case, host: str) -> list[str]:
    """Servers that know a name, those first that the machine asks; where none could be asked, those
    that listen here."""
    every = [*asked(case), *known(case)]
    if all(answers(case, one, host) is None for one in every):
        heard = re.findall(rf"\s({ADDRESS})(?:%\w+)?:53\s", case.text(DATAGRAMS))
        return heard or re.findall(rf"\s({ADDRESS})(?:%\w+)?:53\s", case.text(probes.LISTENERS))
    return [one for one in every if answers(case, one, host)]


def domains(case: Case) -> list[str]:
    """Domains of which somebody tells: the settings of the network, and name servers by what they
    are started with."""
    found = [one[1] for row in case.text(WRITTEN).splitlines() if (one := _DOMAIN.search(row))]
    for name in case.services:
        if is_server(case, name):
            found += re.findall(r"(?<![\w./-])[a-z][\w-]*(?:\.[a-z][\w-]*)+(?![\w./-])",
                                f"{case.about(name)} {' '.join(case.command(name))}")  # fmt: skip
    return [one for one in dict.fromkeys(found) if not re.search(r"\.(?:py|conf|zone|sh)$", one)]


def redirected(case: Case, path: str, key: str, change: tuple[str, str]) -> str:
    """The command that has a setting name another server: in its own line, and where no line has
    both, in the one that names the server. What else is at that address, or at one that begins
    alike, stays."""
    old, new = change
    own = key.rpartition(".")[2]
    told = re.compile(rf"(?<![\d.]){re.escape(old)}(?![\d.])")
    found = [row for row in case.content(path).splitlines() if told.search(row)]
    alone = len(found) == 1 and own not in found[0]
    line = "" if alone else f"/{re.sub('[-_]', '[-_]', extended(own))}/I"
    edit = f"{line}s/(^|[^0-9.]){extended(old)}([^0-9.]|$)/\\1{new}\\2/"
    return f"sed -i -E {shlex.quote(edit)} {shlex.quote(path)}"
