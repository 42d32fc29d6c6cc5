"""What does not reach what it needs: names, networks, certificates, slow ones."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import (
    KEEP,
    Copy,
    Idea,
    earlier,
    lines,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules_change import changed

_NO_NAME = re.compile(
    r"name or service not known|temporary failure in name resolution|could not resolve|"
    r"name resolution|nodename nor servname|NXDOMAIN|\[Errno -[235]\]|getaddrinfo|"
    r"host not found|unknown host|no such host", re.IGNORECASE,
)  # fmt: skip
_CUT_OFF = re.compile(
    r"no route to host|network is unreachable|host is down|timed? ?out|unreachable|"
    r"connection refused|\[Errno 11[0-3]\]|\[Errno 22\]",
    re.IGNORECASE,
)
_SLOW = re.compile(r"timed? ?out|too slow|slow|deadline|took \d|latency", re.IGNORECASE)
_ADDRESS = re.compile(r"\b(\d{1,3}(?:\.\d{1,3}){3})(?::(\d{2,5}))?")
_NODE = re.compile(r"(\S*on-node [\w.-]+|(?:/\S*/)?ip netns exec [\w.-]+)\s")
SLOW_SECONDS = 0.8
QUEUES = "tc qdisc show"
DATAGRAMS = "ss -lnup"


def names(case: Case) -> Iterator[Idea]:
    """A name is not resolved, or to a place where nobody is."""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _NO_NAME.search(x)), "")
        hosts = [host for host, _, _ in case.urls(_words(case, service)) if _is_name(host)]
        hosts += [host for host, _, _ in case.urls(spoken) if _is_name(host)]
        for host in dict.fromkeys(hosts):
            asked = case.look(probes.resolved(host))
            wants = case.missing((probes.resolved(host), probes.NAMES, DATAGRAMS))
            if asked is None and not spoken:
                yield Idea("dns-failure", service, f"{host} may not be resolved", 0.3, host,
                           (), wants)  # fmt: skip
                continue
            if asked is not None and asked.ok:
                yield from _astray(case, service, host, asked.output)
                continue
            yield from _naming(case, service, host, spoken, wants)


def _naming(
    case: Case, service: str, host: str, spoken: str, wants: tuple[str, ...]
) -> Iterator[Idea]:
    files = parse.files(case.text(probes.NAMES))
    servers = [line for line in files.get("/etc/resolv.conf", []) if line.startswith("nameserver")]
    claim = f"{host}, which {service} needs, is not resolved"
    prevent = ("watch the resolution of names that services need",)
    evidence = lines(spoken, *servers)
    locus = servers[0] if servers else host
    found = False
    for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"):
        copy = earlier(case, path)
        wants += copy.wants
        if copy.path:
            found = True
            yield Idea(
                "dns-failure", service, f"{claim} since {path} was changed", 0.85, path + ": "
                + (copy.change[2:] or host), (*evidence[:2], *lines(copy.change)), wants,
                (*put_back(path, copy.path), probes.resolved(host)), undo_of(path), prevent,
            )  # fmt: skip
    for program in case.programs.values():
        if re.search(r"dns|named|bind|unbound|resolve|coredns", program.name) and not program.up:
            found = True
            yield Idea(
                "dns-failure", program.name, f"{claim}: {program.name} does not run", 0.86,
                program.name, lines(program.line, *evidence), wants,
                (case.restart(program.name),), "", prevent,
            )  # fmt: skip
    for path, copy in _served(case):
        wants += copy.wants
        if copy.path:
            found = True
            server = _dns_owner(case)
            yield Idea(
                "dns-failure", server, f"{claim} since {path} was changed", 0.88,
                f"{path}: {copy.change[2:]}", (*evidence[:2], *lines(copy.change)), wants,
                (*put_back(path, copy.path), case.restart(server)), undo_of(path), prevent,
            )  # fmt: skip
    for wrong, line, remedy in _order(case, claim):
        found = True
        yield Idea(
            "dns-failure", service, wrong, 0.88, f"/etc/nsswitch.conf: {line}",
            lines(line, spoken), wants,
            (f"cp /etc/nsswitch.conf {KEEP}/nsswitch.conf.replaced", remedy,
             case.restart(service)), undo_of("/etc/nsswitch.conf"), prevent,
        )  # fmt: skip
    working = _dns_listener(case)
    if working and servers and not any(working in line for line in servers):
        found = True
        yield Idea(
            "dns-failure", service, f"{claim}: {servers[0]} does not answer, {working} does", 0.8,
            f"/etc/resolv.conf: {servers[0]}", evidence, wants,
            (f"cp /etc/resolv.conf {KEEP}/resolv.conf.replaced",
             f"sed -i -E 's/^nameserver .*/nameserver {working}/' /etc/resolv.conf"),
            undo_of("/etc/resolv.conf"), prevent,
        )  # fmt: skip
    if not found:
        yield Idea("dns-failure", service, claim, 0.62, locus, evidence, wants)


def _order(case: Case, claim: str) -> Iterator[tuple[str, str, str]]:
    """Lines of the resolver's files that keep a name from being found: what is wrong, the line,
    and the remedy."""
    files = parse.files(case.text(probes.NAMES))
    for line in files.get("/etc/nsswitch.conf", []):
        if line.startswith("hosts:") and not re.search(r"\bdns\b|\bresolve\b", line):
            yield (f"{claim}: DNS is not asked", line,
                   "sed -i -E 's/^hosts:.*/hosts: files dns/' /etc/nsswitch.conf")  # fmt: skip


def _astray(case: Case, service: str, host: str, answer: str) -> Iterator[Idea]:
    """A name is resolved by a line of /etc/hosts, to where nobody answers."""
    spoken = next((x for x in case.troubles(service) if host in x and _CUT_OFF.search(x)), "")
    files = parse.files(case.text(probes.NAMES))
    named = [line for line in files.get("/etc/hosts", []) if host in line.split()[1:]]
    if not spoken or not named or named[0].lstrip().startswith("#"):
        return
    copy = earlier(case, "/etc/hosts")
    escaped = re.escape(host).replace("/", "\\/")
    fix = put_back("/etc/hosts", copy.path) if copy.path else (
        f"cp /etc/hosts {KEEP}/hosts.replaced",
        f"sed -i -E '/\\s{escaped}(\\s|$)/s/^/# /' /etc/hosts",
    )  # fmt: skip
    yield Idea(
        "dns-failure", service,
        f"/etc/hosts leads {host} to {answer.split(maxsplit=1)[0]}, where nobody is", 0.8,
        f"/etc/hosts: {named[0]}", lines(spoken, *named), copy.wants,
        (*fix, case.restart(service)), undo_of("/etc/hosts"),
        ("keep names of services out of /etc/hosts",),
    )  # fmt: skip


def _dns_owner(case: Case) -> str:
    """The service that answers for names on this machine."""
    found = re.search(r":53\s.*pid=(\d{1,9})", case.text(DATAGRAMS))
    return case.owner(int(found[1])) if found else ""


def _served(case: Case) -> list[tuple[str, Copy]]:
    """Files of the name server that were written lately, with their earlier versions."""
    owner = _dns_owner(case)
    definition = case.definitions.get(owner)
    named = [word for word in definition.words if word.startswith("/etc/")] if definition else []
    paths = [*named, *changed(case, owner)] if owner else []
    return [(path, earlier(case, path)) for path in dict.fromkeys(paths)]


def _dns_listener(case: Case) -> str:
    for text in (case.text(DATAGRAMS), case.text(probes.LISTENERS)):
        if found := re.search(r"\s(\d[\d.]+)(?:%\w+)?:53\s", text):
            return found[1]
    return ""


def _is_name(host: str) -> bool:
    return not _ADDRESS.fullmatch(host) and host not in ("localhost", "") and "[" not in host


def _words(case: Case, service: str) -> str:
    return "\n".join(f"{key}={value}" for key, value in case.settings(service).items())


def network(case: Case) -> Iterator[Idea]:
    """Two machines do not reach each other."""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _CUT_OFF.search(x)), "")
        whole = _words(case, service) + "\n" + spoken
        for address, port in dict.fromkeys(_ADDRESS.findall(whole)):
            if not address.startswith(("127.", "0.")) and spoken:
                yield from _between(case, service, (address, port), spoken)


def _between(case: Case, service: str, to: tuple[str, str], spoken: str) -> Iterator[Idea]:
    """What stands in the way, here and on other nodes that can be looked at from here."""
    address, port = to
    where = f"{address}:{port}" if port else address
    looks = [(at, f"{at}{probes.LINKS}", f"{at}{probes.RULES}") for at in ("", *_nodes(case))]
    wants = case.missing([*(one for _, *both in looks for one in both), _route(address)])
    found = False
    for at, links, rules in looks:
        cuts = _cuts(case.text(links), case.text(rules), address, port, far=bool(at))
        for claim, line, fix, undo in cuts:
            found = True
            yield Idea(
                "network-partition", service, f"{service} does not reach {where}: {claim}", 0.9,
                f"{where}: {line.strip()}", lines(spoken, line), wants, (f"{at}{fix}",),
                f"{at}{undo}",
                ("change firewalls and routes by review only", "probe paths between machines"),
            )  # fmt: skip
    if not found:
        yield Idea(
            "network-partition", service, f"{service} does not reach {where}",
            0.6 if wants else 0.5, where, lines(spoken), wants,
        )  # fmt: skip


def thin(case: Case) -> Iterator[Idea]:
    """A link that lets hardly anything through."""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _SLOW.search(x)), "")
        far = [one for one in _ADDRESS.findall(_words(case, service)) if one[0][:4] != "127."]
        if not spoken or not far:
            continue
        for at in ("", *_nodes(case)):
            wants = case.missing((f"{at}{QUEUES}",))
            where = f"{far[0][0]}:{far[0][1]}"
            if wants:
                yield Idea("slow-dependency", service, f"the link to {where} may be thin", 0.5,
                           where, lines(spoken), wants)  # fmt: skip
            for line in case.text(f"{at}{QUEUES}").splitlines():
                found = re.match(r"qdisc (?:tbf|netem|htb) \S+ dev ([\w.-]+)(?:@\S+)? root", line)
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


def _route(address: str) -> str:
    return f"ip route get {address}"


def _cuts(
    links: str, rules: str, address: str, port: str, *, far: bool
) -> Iterator[tuple[str, str, str, str]]:
    """What is in the way: what it is, the line that shows it, the remedy and its undo."""
    for line in links.splitlines():
        words = line.split()
        if len(words) > 1 and words[1] == "DOWN" and words[0] != "lo":
            own = shlex.quote(words[0].partition("@")[0])
            yield f"{own} is down", line, f"ip link set {own} up", f"ip link set {own} down"
        if re.match(r"(blackhole|unreachable|prohibit)\b", line) and _covers(line, address):
            kind, to = words[0], shlex.quote(words[1])
            yield f"a {kind} route", line, f"ip route del {kind} {to}", f"ip route add {kind} {to}"
    for line in rules.splitlines():
        if not re.fullmatch(r"-A [\w ./:,!\"-]* -j (DROP|REJECT)[\w -]*", line):
            continue
        named = _ADDRESS.findall(line)
        ports = re.findall(r"--[ds]ports? ([\d:,]+)", line)
        fits = far or not named or any(_covers(one[0], address) for one in named)
        fits = fits and (not ports or bool(port and any(port in one for one in ports)))
        if fits and (named or ports):
            rule = line.removeprefix("-A ")
            yield (
                f"a firewall rule drops it ({line})",
                line,
                f"iptables -D {rule}",
                f"iptables {line}",
            )


def _covers(line: str, address: str) -> bool:
    import ipaddress

    found = re.search(r"(\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?)", line)
    try:
        return bool(found) and ipaddress.ip_address(address) in ipaddress.ip_network(
            found[1] if found else "0.0.0.0/32", strict=False
        )
    except ValueError:
        return False


def slow(case: Case) -> Iterator[Idea]:
    """Something that it needs answers late: by itself, or because somebody else keeps it busy."""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _SLOW.search(x)), "")
        for host, port, url in case.urls(_words(case, service)):
            found = case.look(probes.timed(url))
            took = re.search(r"after ([\d.]+) s", found.output) if found else None
            late = parse.number(took[1]) > SLOW_SECONDS if took else False
            if not late and str(port) not in spoken:
                continue
            evidence = lines(spoken, *(found.lines if found and late else []))
            wants = case.missing((probes.timed(url),))
            other = _behind(case, host, port)
            base = 0.55 + 0.1 * bool(spoken) + 0.1 * late
            yield from _hurrying(case, service, (host, port, other), base, evidence, wants)


def _hurrying(
    case: Case, service: str, late: tuple[str, int, str], base: float,
    evidence: tuple[str, ...], wants: tuple[str, ...],
) -> Iterator[Idea]:  # fmt: skip
    """Settings of the slow one, or of those who call it, that were changed; else start it anew."""
    host, port, other = late
    prevent = ("set a deadline for each call", "alert on its time to answer")
    others = [one for one in case.services if one not in (service, other)]
    callers = [
        one for one in others if any(port == to for _, to, _ in case.urls(_words(case, one)))
    ]
    for culprit in [other, *callers] if other else callers:
        for path in case.configs(culprit):
            copy = earlier(case, path)
            wants += copy.wants
            if not copy.path:
                continue
            claim = (
                f"{culprit} answers {service} late"
                if culprit == other
                else (f"{culprit} keeps {other or host} so busy that it answers {service} late")
            )
            yield Idea(
                "slow-dependency", culprit, f"{claim} since {path} was changed", base + 0.15,
                f"{path}: {copy.change[2:]}", (*evidence[:2], *lines(copy.change)), wants,
                (*put_back(path, copy.path), case.restart(culprit)), undo_of(path), prevent,
            )  # fmt: skip
    wants += case.missing((probes.CONNECTIONS,))
    for pid, count, line in case.crowd(port):
        process = case.process(pid)
        if not case.owner(pid) and process is not None:
            yield Idea(
                "slow-dependency", other or f"{host}:{port}",
                f"process {pid} ({process.command[:60]}), which nobody looks after, keeps {count} "
                f"connections to {other or host} busy", base + 0.2, f"pid {pid}: {process.command}",
                lines(process.line, line, *evidence), wants, (f"kill {pid}", "sleep 1"),
                "it was started by hand: start it again", prevent,
            )  # fmt: skip
    if other:
        yield Idea(
            "slow-dependency", other, f"{other} answers {service} late", base - 0.05,
            f"{host}:{port}", evidence, wants, (case.restart(other),), "", prevent,
        )  # fmt: skip


def _behind(case: Case, host: str, port: int) -> str:
    """The service that listens there, as far as it is on this machine."""
    pids = [one.pid for one in case.listeners if one.port == port]
    found = next((case.owner(pid) for pid in pids if case.owner(pid)), "")
    if found:
        return found
    named = [one for one in case.services if port in case.ports(one)]
    return named[0] if named else (host if host in case.services else "")


RULES = (names, network, thin, slow)
