"""Two machines that do not reach each other: links, routes, rules and queues, here and there."""

import ipaddress
import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder import needed, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import Idea, lines

_CUT_OFF = re.compile(
    r"no route to host|network is unreachable|host is down|timed? ?out|unreachable|"
    r"connect\w* (?:was )?(?:refused|reset)|\[Errno 1[01]\d\]|\[Errno 22\]|invalid argument|"
    r"ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|i/o timeout|deadline|not permitted|"
    r"could not connect|cannot connect|can't connect|failed to connect|\b50[234]\b",
    re.IGNORECASE,
)
_SLOW = re.compile(r"timed? ?out|too slow|slow|deadline|took \d|latency", re.IGNORECASE)
_NODE = re.compile(r"(\S*on-node [\w.-]+|(?:/\S*/)?ip netns exec [\w.-]+)\s")
_SAFE = re.compile(r"-A [\w./:,!\"'()=+@# -]*")
_BARRED = ("blackhole", "unreachable", "prohibit", "throw")
QUEUES = "tc qdisc show"
TABLES = "iptables -t raw -S; iptables -t mangle -S; iptables -t nat -S"
POLICY = "ip rule; ip route show table all"
PREVENT = ("change firewalls and routes by review only", "probe paths between machines")
ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?")


class Cut(Struct, frozen=True):
    """What is in the way."""

    claim: str
    line: str
    fix: str
    undo: str
    score: float = 0.9


def network(case: Case) -> Iterator[Idea]:
    """Two machines do not reach each other."""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _CUT_OFF.search(x)), "")
        if not spoken and service == case.brief.service and _CUT_OFF.search(case.symptom):
            spoken = case.symptom
        far = [one for one in needed.targets(case, service) if one.far]
        for one in far if spoken else ():
            if one.port or not any(each.host == one.host and each.port for each in far):
                yield from _between(case, service, one, spoken)


def _between(case: Case, service: str, to: needed.Target, spoken: str) -> Iterator[Idea]:
    """What stands in the way, here and on other nodes that can be looked at from here."""
    at_all = ("", *_nodes(case))
    first = [_at(at, look) for at in at_all for look in (probes.LINKS, probes.RULES)]
    wants = case.missing([*first, _route(to.host)])
    found = False
    for at in at_all:
        for cut in _cuts(case, at, to):
            found = True
            yield Idea(
                "network-partition", service,
                f"{service} does not reach {to.where}: {cut.claim}", cut.score,
                f"{to.where}: {cut.line.strip()}", lines(cut.line, spoken), wants,
                (f"{at}{cut.fix}",), f"{at}{cut.undo}", PREVENT,
            )  # fmt: skip
    if not found:
        more = case.missing([_at(at, look) for at in at_all for look in (TABLES, POLICY)])
        yield Idea(
            "network-partition", service, f"{service} does not reach {to.where}",
            0.6 if wants or more else 0.5, to.where, lines(spoken), wants or more,
        )  # fmt: skip


def _cuts(case: Case, at: str, to: needed.Target) -> Iterator[Cut]:
    links, rules = case.text(_at(at, probes.LINKS)), case.text(_at(at, probes.RULES))
    yield from _links(links)
    yield from _routes(links, to.host, far=bool(at))
    if not at:
        yield from _elsewhere(links, case.text(_route(to.host)), to.host)
    yield from _rules(rules, to, far=bool(at))
    for table in ("raw", "mangle", "nat"):
        yield from _rules(_table(case.text(_at(at, TABLES)), table), to, far=bool(at), table=table)
    yield from _policies(case.text(_at(at, POLICY)), to.host)


def _links(text: str) -> Iterator[Cut]:
    """Interfaces that somebody set down; those that only have no carrier are not meant."""
    for line in text.splitlines():
        words, flags = line.split(), re.search(r"<([A-Z,_0-9-]*)>", line)
        if len(words) > 1 and words[1] == "DOWN" and flags and "UP" not in flags[1].split(","):
            own = shlex.quote(words[0].partition("@")[0])
            yield Cut(f"{own} is down", line, f"ip link set {own} up", f"ip link set {own} down")


def _routes(text: str, address: str, *, far: bool) -> Iterator[Cut]:
    """Routes that lead nowhere on purpose."""
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] in _BARRED and (far or _covers(words[1], address)):
            kind, to = words[0], shlex.quote(words[1])
            yield Cut(f"a {kind} route", line, f"ip route del {kind} {to}",
                      f"ip route add {kind} {to}")  # fmt: skip


def _elsewhere(links: str, chosen: str, address: str) -> Iterator[Cut]:
    """A narrower route leads away from the network in which the address is."""
    used = re.search(r"\bdev (\S+)", chosen)
    home = [
        row.split()[0].partition("@")[0]
        for row in links.splitlines()
        if any(_covers(one, address) for one in ADDRESS.findall(row) if "/" in one)
        and re.match(r"\S+\s+(?:UP|DOWN|UNKNOWN)\s", row)
    ]
    for line in links.splitlines():
        to = line.split()[0] if line.split() else ""
        if not ADDRESS.fullmatch(to) or not _covers(to, address) or "proto kernel" in line:
            continue
        device = re.search(r"\bdev (\S+)", line)
        if home and ((device and device[1] not in home) or " via " in line):
            sure = used is not None and device is not None and used[1] == device[1]
            plain = " ".join(re.sub(r"\blinkdown\b|\bonlink\b", "", line).split())
            yield Cut(f"the route {to} leads elsewhere", line, f"ip route del {plain}",
                      f"ip route add {plain}", 0.88 if sure else 0.7)  # fmt: skip


def _rules(text: str, to: needed.Target, *, far: bool, table: str = "") -> Iterator[Cut]:
    """Rules of a firewall that drop or turn away what is meant for it."""
    option = f"-t {table} " if table else ""
    for line in text.splitlines():
        target = re.search(r" -j (DROP|REJECT|DNAT|REDIRECT|TARPIT)\b", line)
        if not target or not _SAFE.fullmatch(line):
            continue
        named = re.findall(r"(?<!! )-[sd] (\S+)", line)
        ports = re.findall(r"--[ds]ports? ([\d:,]+)", line)
        bound = bool(re.search(r" -[io] (?!lo\b)\S+", line))
        fits = far or not named or any(_covers(one, to.host) for one in named)
        fits = fits and (not ports or any(_has_port(one, to.port) for one in ports))
        if fits and (named or ports or bound):
            rule = line.removeprefix("-A ")
            word = "turns it away" if target[1] in ("DNAT", "REDIRECT") else "drops it"
            yield Cut(f"a firewall rule {word} ({line})", line, f"iptables {option}-D {rule}",
                      f"iptables {option}{line}", 0.9 if named or ports else 0.72)  # fmt: skip
    closed = re.search(r"^-P (INPUT|OUTPUT) DROP$", text, re.MULTILINE)
    if closed and not table and to.port and f"--dport {to.port} " not in text:
        chain, side = closed[1], "-d" if closed[1] == "OUTPUT" else "-s"
        where = "" if far else f"{side} {to.host} "
        rule = f"{chain} {where}-p tcp --dport {to.port} -j ACCEPT"
        yield Cut(f"{chain} lets through only what is named", closed[0], f"iptables -I {rule}",
                  f"iptables -D {rule}", 0.75)  # fmt: skip


def _policies(text: str, address: str) -> Iterator[Cut]:
    """Rules that send it to another table of routes, or nowhere."""
    for line in text.splitlines():
        row = re.match(r"(\d+):\s+(from .*)$", line)
        if not row or row[1] in ("0", "32766", "32767"):
            continue
        to = re.search(r"\bto (\S+)", row[2])
        if to is None or _covers(to[1], address):
            rule = f"pref {row[1]} {row[2].strip()}"
            yield Cut(f"a rule for routes applies ({line.strip()})", line, f"ip rule del {rule}",
                      f"ip rule add {rule}", 0.84 if to else 0.66)  # fmt: skip


def thin(case: Case) -> Iterator[Idea]:
    """A link that lets hardly anything through."""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _SLOW.search(x)), "")
        far = [one for one in needed.targets(case, service) if one.far]
        if not spoken or not far:
            continue
        for at in ("", *_nodes(case)):
            wants, where = case.missing((f"{at}{QUEUES}",)), far[0].where
            if wants:
                yield Idea("slow-dependency", service, f"the link to {where} may be thin", 0.5,
                           where, lines(spoken), wants)  # fmt: skip
            for line in case.text(f"{at}{QUEUES}").splitlines():
                found = re.match(
                    r"qdisc (?:tbf|netem|htb|hfsc|cake) \S+ dev ([\w.-]+)(?:@\S+)? root", line
                )
                if found:
                    yield Idea(
                        "slow-dependency", "network", f"the link {found[1]} is throttled",
                        0.9, f"{found[1]} to {where}: {line}", lines(line, spoken), (),
                        (f"{at}tc qdisc del dev {found[1]} root",), f"{at}tc qdisc add {line[6:]}",
                        ("change queues of links by review only",),
                    )  # fmt: skip


def _nodes(case: Case) -> list[str]:
    """What commands begin with that run in the network of another node."""
    found = [_NODE.match(one.command) for one in case.definitions.values()]
    return list(dict.fromkeys(f"{one[1]} " for one in found if one))


def _at(node: str, commands: str) -> str:
    """Commands as they are run on a node, each of them."""
    return "; ".join(f"{node}{one}" for one in commands.split("; "))


def _route(address: str) -> str:
    return f"ip route get {address}"


def _table(text: str, table: str) -> str:
    """One of the tables that are printed one after the other: each begins with its policies."""
    parts = re.split(r"(?m)^(?=-P PREROUTING )", text)[1:]
    order = ("raw", "mangle", "nat")
    return parts[order.index(table)] if len(parts) == len(order) else ""


def _has_port(text: str, port: int) -> bool:
    for part in text.split(","):
        low, _, high = part.partition(":")
        if low.isdigit() and int(low) <= port <= int(high if high.isdigit() else low):
            return True
    return False


def _covers(network: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


RULES = (network, thin)
