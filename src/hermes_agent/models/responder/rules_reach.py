"""What does not reach what it needs: names, networks, certificates, slow ones."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import (
    Idea,
    earlier,
    lines,
    put_back,
    undo_of,
)

_NO_NAME = re.compile(
    r"name or service not known|temporary failure in name resolution|could not resolve|"
    r"name resolution|nodename nor servname|NXDOMAIN|\[Errno -[235]\]|getaddrinfo|"
    r"host not found|unknown host|no such host", re.IGNORECASE,
)  # fmt: skip
_CUT_OFF = re.compile(
    r"no route to host|network is unreachable|host is down|timed? ?out|unreachable|"
    r"connection refused|\[Errno 11[0-3]\]",
    re.IGNORECASE,
)
_SLOW = re.compile(r"timed? ?out|too slow|slow|deadline|took \d|latency", re.IGNORECASE)
_CERTIFICATE = re.compile(r"certificate|\bssl\b|\btls\b|CERT_|x509|handshake", re.IGNORECASE)
_ADDRESS = re.compile(r"\b(\d{1,3}(?:\.\d{1,3}){3})(?::(\d{2,5}))?")
_CERT_DATE = re.compile(r"^(notBefore|notAfter)=(.+)$", re.MULTILINE)
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
SLOW_SECONDS = 0.8
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
    for wrong, line, remedy in _order(case, claim):
        found = True
        yield Idea(
            "dns-failure", service, wrong, 0.88, f"/etc/nsswitch.conf: {line}",
            lines(line, spoken), wants,
            ("cp /etc/nsswitch.conf /var/tmp/nsswitch.conf.replaced", remedy, case.restart(service)),
            undo_of("/etc/nsswitch.conf"), prevent,
        )  # fmt: skip
    working = _dns_listener(case)
    if working and servers and not any(working in line for line in servers):
        found = True
        yield Idea(
            "dns-failure", service, f"{claim}: {servers[0]} does not answer, {working} does", 0.8,
            f"/etc/resolv.conf: {servers[0]}", evidence, wants,
            ("cp /etc/resolv.conf /var/tmp/resolv.conf.replaced",
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
        "cp /etc/hosts /var/tmp/hosts.replaced", f"sed -i -E '/\\s{escaped}(\\s|$)/s/^/# /' /etc/hosts",
    )  # fmt: skip
    yield Idea(
        "dns-failure", service, f"/etc/hosts leads {host} to {answer.split()[0]}, where nobody is",
        0.8, f"/etc/hosts: {named[0]}", lines(spoken, *named), copy.wants,
        (*fix, case.restart(service)), undo_of("/etc/hosts"),
        ("keep names of services out of /etc/hosts",),
    )  # fmt: skip


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
    links, rules = case.text(probes.LINKS), case.look(probes.RULES)
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _CUT_OFF.search(x)), "")
        whole = _words(case, service) + "\n" + spoken
        for address, port in dict.fromkeys(_ADDRESS.findall(whole)):
            if address.startswith(("127.", "0.")) or not spoken:
                continue
            wants = case.missing((probes.LINKS, probes.RULES, _route(address)))
            evidence = lines(spoken)
            common = ("network-partition", service)
            where = f"{address}:{port}" if port else address
            found = False
            for claim, line, fix, undo in _cuts(
                links, rules.output if rules else "", address, port
            ):
                found = True
                yield Idea(
                    *common, f"{service} does not reach {where}: {claim}", 0.9, line.strip(),
                    (*evidence, *lines(line)), wants, fix, undo,
                    ("change firewalls and routes by review only", "probe paths between machines"),
                )  # fmt: skip
            if not found:
                yield Idea(
                    *common, f"{service} does not reach {where}", 0.6 if wants else 0.5, where,
                    evidence, wants,
                )  # fmt: skip


def _route(address: str) -> str:
    return f"ip route get {address}"


def _cuts(
    links: str, rules: str, address: str, port: str
) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """What stands in the way: what it is, the line that shows it, the remedy and its undo."""
    for line in links.splitlines():
        words = line.split()
        if len(words) > 1 and words[1] == "DOWN" and words[0] != "lo":
            own = words[0].partition("@")[0]
            yield (f"{own} is down", line, (f"ip link set {own} up",), f"ip link set {own} down")
        if re.match(r"(blackhole|unreachable|prohibit)\b", line) and _covers(line, address):
            kind, to = words[0], words[1]
            yield (f"a {kind} route", line, (f"ip route del {kind} {to}",),
                   f"ip route add {kind} {to}")  # fmt: skip
    for line in rules.splitlines():
        if not re.search(r"^-A .* -j (DROP|REJECT)", line):
            continue
        named = _ADDRESS.findall(line)
        ports = re.findall(r"--[ds]ports? ([\d:,]+)", line)
        fits_address = not named or any(_covers(f"x {one[0]}", address) for one in named)
        fits_port = not ports or (port and any(port in one for one in ports))
        if fits_address and fits_port and (named or ports):
            yield (f"a firewall rule drops it ({line})", line,
                   (f"iptables -D {line.removeprefix('-A ')}",), f"iptables {line}")  # fmt: skip


def _covers(line: str, address: str) -> bool:
    import ipaddress

    found = re.search(r"(\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?)", line)
    try:
        return bool(found) and ipaddress.ip_address(address) in ipaddress.ip_network(
            found[1] if found else "0.0.0.0/32", strict=False
        )
    except ValueError:
        return False


def certificate(case: Case) -> Iterator[Idea]:
    """A certificate that is no longer, or not yet, valid."""
    symptom = case.symptom if _CERTIFICATE.search(case.symptom) else ""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _CERTIFICATE.search(x)), "")
        paths = _certificate_paths(case, service)
        if not (spoken or symptom or paths):
            continue
        for path in paths:
            wants = case.missing((probes.certificate(path), probes.CERTIFICATES))
            dates = case.text(probes.certificate(path))
            state = _validity(dates, case.now)
            if not dates:
                yield Idea("certificate-expired", service, f"{path} may not be valid",
                           0.35 + 0.3 * bool(symptom or spoken), path, lines(spoken),
                           wants)  # fmt: skip
            elif state:
                yield from _renewing(case, service, path, state, wants)
            elif symptom or spoken:
                yield from _unloaded(case, service, path, spoken)


def _certificate_paths(case: Case, service: str) -> list[str]:
    whole = _words(case, service)
    for one in case.observed:
        if one.command.startswith(("cat ", "tail -v")) and service in one.command + one.output:
            whole += "\n" + "\n".join(one.having(r"ssl_certificate\s|cert"))
    found = re.findall(r"(/[\w./@+-]+\.(?:crt|pem|cert|cer))\b", whole)
    return [path for path in dict.fromkeys(found) if not re.search(r"key|/ca[-_.]|ca\.", path)]


def _validity(text: str, now: float) -> str:
    dates = {kind: _date(value) for kind, value in _CERT_DATE.findall(text)}
    if not now or "notAfter" not in dates:
        return ""
    if dates["notAfter"] < now:
        return "expired"
    return "not yet valid" if dates.get("notBefore", 0.0) > now else ""


def _date(text: str) -> float:
    from datetime import UTC, datetime

    found = re.match(r"(\w{3})\s+(\d+) (\d\d):(\d\d):(\d\d) (\d{4})", text)
    if not found or found[1] not in _MONTHS:
        return 0.0
    month = _MONTHS.index(found[1]) + 1
    parts = (int(found[6]), month, int(found[2]), int(found[3]), int(found[4]), int(found[5]))
    try:
        return datetime(*parts, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _renewing(
    case: Case, service: str, path: str, state: str, wants: tuple[str, ...]
) -> Iterator[Idea]:
    """Put a valid certificate of the same name in its place, where there is one."""
    mine = case.text(probes.certificate(path))
    shown = [line for line in mine.splitlines() if line.startswith(("notAfter", "notBefore"))]
    serial = re.search(r"^serial=(\S+)", mine, re.MULTILINE)
    locus = f"{path} serial {serial[1]}" if serial else path
    claim = f"the certificate {path} of {service} is {state}"
    others = [one for one in case.text(probes.CERTIFICATES).splitlines() if one != path]
    others = [one for one in others if not re.search(r"key", PurePosixPath(one).name)][:12]
    wants += case.missing(probes.certificate(one) for one in others)
    common = ("certificate-expired", service, claim)
    evidence = lines(*(shown[-1:] if state == "expired" else shown[:1]), *shown)
    prevent = ("renew certificates by a job, and alert 14 days before their end",)
    subject = _field(mine, "subject")
    fitting = [
        one
        for one in others
        if _field(case.text(probes.certificate(one)), "subject") == subject
        and case.text(probes.certificate(one))
        and not _validity(case.text(probes.certificate(one)), case.now)
    ]
    for other in fitting:
        key, new_key = _key_of(case, service, path), _key_beside(case, other)
        fix = [*put_back(path, other)]
        if key and new_key:
            fix += put_back(key, new_key)
        yield Idea(
            *common, 0.9, locus, evidence, wants, (*fix, *_taken_up(case, service)),
            undo_of(path), prevent,
        )  # fmt: skip
    if not fitting:
        yield Idea(*common, 0.8, locus, evidence, wants)


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}=\s*(.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def _key_of(case: Case, service: str, certificate: str) -> str:
    whole = _words(case, service) + "\n".join(one.output for one in case.observed)
    found = re.search(r"(?:ssl_certificate_key|^key\s*=|\bkey=)\s*(/[\w./@+-]+)", whole, re.M)
    return found[1] if found else ""


def _key_beside(case: Case, certificate: str) -> str:
    """The private key that belongs to a certificate by its name, where one was listed."""
    stem = re.sub(r"\.(crt|pem|cert|cer)$", "", certificate)
    folder = str(PurePosixPath(certificate).parent)
    listed = case.text(probes.rows(folder))
    for name in (f"{stem}.key", f"{stem}-key.pem", f"{folder}/privkey.pem", f"{folder}/key.pem"):
        if re.search(rf"\s{re.escape(PurePosixPath(name).name)}$", listed, re.MULTILINE):
            return name
    return ""


def _taken_up(case: Case, service: str) -> tuple[str, ...]:
    definition, program = case.definitions.get(service), case.programs.get(service)
    if definition and program and "nginx" in definition.command and program.up:
        return (f"kill -HUP {program.pid}",)
    return (case.restart(service),)


def _unloaded(case: Case, service: str, path: str, said: str) -> Iterator[Idea]:
    """The file is right: the server has not read it yet."""
    ports = [one for one in case.ports(service)]
    wants = case.missing(probes.served(port) for port in ports[:3])
    served = [case.text(probes.served(port)) for port in ports]
    stale = next((text for text in served if _validity(text, case.now)), "")
    if not stale and not wants:
        return
    serial = _field(stale, "serial")
    yield Idea(
        "certificate-expired", service,
        f"{service} still serves an old certificate; {path} is valid and was not loaded",
        0.9 if stale else 0.5, f"{path} served serial {serial}" if serial else path,
        lines(said, *stale.splitlines()[-1:]), wants, _taken_up(case, service) if stale else (),
        "", ("reload the server when a certificate was renewed",),
    )  # fmt: skip


def slow(case: Case) -> Iterator[Idea]:
    """Something that it needs answers late."""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _SLOW.search(x)), "")
        for host, port, url in case.urls(_words(case, service)):
            timed = probes.timed(url)
            found = case.look(timed)
            if not spoken and found is None:
                continue
            took = re.search(r"after ([\d.]+) s", found.output) if found else None
            seconds = parse.number(took[1]) if took else 0.0
            other = _behind(case, host, port)
            if found is not None and seconds < SLOW_SECONDS:
                continue
            component = other or f"{host}:{port}"
            copies = [(path, earlier(case, path)) for path in case.configs(other)] if other else []
            wants = (*case.missing((timed,)), *(want for _, copy in copies for want in copy.wants))
            evidence = lines(spoken, *(found.lines if found else []))
            changed = next(((path, copy) for path, copy in copies if copy.path), None)
            fix: tuple[str, ...] = ()
            if changed:
                fix = (*put_back(changed[0], changed[1].path), case.restart(other))
                evidence = (*evidence[:2], *lines(changed[1].change))
            elif other:
                fix = (case.restart(other),)
            yield Idea(
                "slow-dependency", component, f"{component} answers {service} late",
                0.4 + 0.25 * bool(spoken) + 0.15 * (seconds > SLOW_SECONDS) + 0.1 * bool(changed),
                f"{host}:{port}", evidence, wants, fix, undo_of(changed[0]) if changed else "",
                ("set a deadline for each call", "alert on its time to answer"),
            )  # fmt: skip


def _behind(case: Case, host: str, port: int) -> str:
    """The service that listens there, as far as it is on this machine."""
    pids = [one.pid for one in case.listeners if one.port == port]
    found = next((case.owner(pid) for pid in pids if case.owner(pid)), "")
    if found:
        return found
    named = [one for one in case.services if port in case.ports(one)]
    return named[0] if named else (host if host in case.services else "")


RULES = (names, network, certificate, slow)
