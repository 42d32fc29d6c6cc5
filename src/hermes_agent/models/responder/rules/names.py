"""Names that are not resolved, or to a place where nobody is."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder.rules.ideas import (
    Copy,
    Idea,
    earlier,
    keeping,
    lines,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules.servers import (
    DATAGRAMS,
    RESOLVER,
    WRITTEN,
    answers,
    asked,
    entered,
    is_server,
    knows,
    looks,
    redirected,
    rows,
    working,
)
from hermes_agent.models.responder.view import needed, parse, probes
from hermes_agent.models.responder.view.case import Case

NO_NAME = re.compile(
    r"name or service not known|temporary failure in name resolution|(?:could|can) ?not resolve|"
    r"name resolution|nodename nor servname|NXDOMAIN|SERVFAIL|\[Errno -[2358]\]|getaddrinfo|"
    r"host (?:is )?not found|unknown ?host|no such host|ENOTFOUND|EAI_AGAIN|EAI_NONAME|"
    r"could not be resolved|could not translate host|server misbehaving|no address associated|"
    r"failed to resolve|unresolved|no such name|lookup .{1,80} on .{1,40}:53|\bresolving .{1,80}"
    r"(?:fail|error|timeout)|error resolving|did not resolve|does not resolve|look ?up .{0,80}fail|"
    r"unable to (?:look ?up|resolve)|dns (?:error|failure|lookup|query|timeout)|unresolvable",
    re.IGNORECASE,
)
_CUT_OFF = re.compile(
    r"no route to host|network is unreachable|host is down|timed? ?out|unreachable|"
    r"connect\w* refused|\[Errno 11[0-3]\]|\[Errno 22\]|ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH",
    re.IGNORECASE,
)
_NAME = r"((?=[\w.-]*[A-Za-z])[A-Za-z0-9][\w-]*(?:\.[\w-]+)+)"
_SPOKEN = re.compile(
    r"(?:host|name|resolv\w*|for|to|of|look ?up|upstream|ENOTFOUND|EAI_\w+|UnknownHost\w*)"
    rf"[\s:=]+[\"'(]*{_NAME}",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    rf"{_NAME}(?::\d+)?[\"')]?(?::| could| can| is| was| did| does)(?: ?not)? ?(?:be )?"
    r"(?:name or|temporary|no address|nodename|resolv|found|no such|NXDOMAIN|SERVFAIL|unknown)",
    re.IGNORECASE,
)
"""Names of which it is said afterwards."""
_QUOTED = re.compile(r"(?i)(?:host|host ?name|resolve|lookup)[\s:=]+[\"'(]([a-z][\w-]{1,62})[\"')]")
"""Names without a domain, as they are quoted."""
_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf")
_DIGITS = r"\d{1,3}(?:\.\d{1,3}){3}"
PREVENT = ("watch the resolution of names that services need",)
MOST = 4


def names(case: Case) -> Iterator[Idea]:
    """A name is not resolved, or to a place where nobody is."""
    for service in case.suspects:
        spoken = unresolved(case, service)
        for host in hosts(case, service, spoken)[:MOST]:
            found = case.look(probes.resolved(host))
            wants = case.missing((probes.resolved(host), probes.NAMES, DATAGRAMS, WRITTEN))
            if found is None and not spoken:
                cut = next((x for x in case.troubles(service) if _CUT_OFF.search(x)), "")
                yield Idea("dns-failure", service, f"{host} may not be resolved",
                           0.58 if host in cut else 0.4, host, lines(cut), wants)  # fmt: skip
            elif found is not None and found.ok:
                yield from _astray(case, service, host, found.output)
                if spoken and host in spoken:
                    yield from _stale(case, service, host, found.output, spoken)
            else:
                yield from _naming(case, service, host, spoken, wants)


def unresolved(case: Case, service: str) -> str:
    """What a service says of a name that it does not find. Who answers for names tells what others
    asked for: that need not be missed by anybody."""
    if is_server(case, service):
        return ""
    return next((line for line in case.troubles(service) if NO_NAME.search(line)), "")


def hosts(case: Case, service: str, spoken: str) -> list[str]:
    """Names that it must resolve."""
    found = [one.host for one in needed.targets(case, service) if one.named]
    found += _SPOKEN.findall(spoken) + _BEFORE.findall(spoken)
    found += _QUOTED.findall(spoken)
    if spoken and any(one.host == "localhost" for one in needed.targets(case, service)):
        found.append("localhost")
    return [
        host.rstrip(".")
        for host in dict.fromkeys(found)
        if not re.search(
            r"\.(?:py|conf|log|json|ya?ml|sh|service|so)$|(?:in-addr|ip6)\.arpa$", host
        )
    ]


def _stale(case: Case, service: str, host: str, answer: str, spoken: str) -> Iterator[Idea]:
    """It is resolved now: whoever asked once and kept the answer is to ask again."""
    yield Idea(
        "dns-failure", service, f"{service} does not know yet that {host} is resolved again", 0.5,
        host, lines(spoken, answer), (), (case.restart(service),), "", PREVENT,
    )  # fmt: skip


def _naming(
    case: Case, service: str, host: str, spoken: str, wants: tuple[str, ...]
) -> Iterator[Idea]:
    files = parse.files(case.text(probes.NAMES))
    servers = [x for x in files.get("/etc/resolv.conf", []) if x.startswith("nameserver")]
    claim = f"{host}, which {service} needs, is not resolved"
    evidence = lines(spoken, *servers)
    wants = wants or case.missing(looks(case, host))
    if wants:
        yield Idea("dns-failure", service, claim, 0.66, host, evidence, wants)
        return
    found = False
    ways = (
        *_restored(case, service, claim, host, evidence),
        *_server_down(case, claim, host, evidence),
        *_misforwarded(case, claim, host, evidence),
        *_order(case, service, claim, spoken),
        *_other_server(case, service, claim, host, evidence),
        *_unlisted(case, service, claim, host, evidence),
    )
    for idea in ways:
        found = found or bool(idea.fix)
        yield idea
    if not found:
        locus = servers[0] if servers else host
        yield Idea("dns-failure", service, claim, 0.62, locus, evidence)


def _restored(
    case: Case, service: str, claim: str, host: str, evidence: tuple[str, ...]
) -> Iterator[Idea]:
    """A file that names go by was changed, here or of the name server."""
    server = _dns_owner(case)
    own = [(path, earlier(case, path), service) for path in _FILES]
    every = [*own, *((path, copy, server) for path, copy in _served(case))]
    wants = tuple(want for _, copy, _ in every for want in copy.wants)
    if wants:
        yield Idea("dns-failure", service, claim, 0.66, host, evidence, wants)
    for path, copy, whose in every:
        if not copy.path:
            continue
        after = (case.restart(whose),) if whose == server and server else ()
        about = next((x[2:] for x in copy.changes if host in x), copy.change[2:] or host)
        yield Idea(
            "dns-failure", whose, f"{claim} since {path} was changed",
            0.88 if after else 0.85, f"{path}: {about}", (*evidence[:2], *lines(about)), (),
            (*put_back(path, copy.path), *after, probes.resolved(host)), undo_of(path), PREVENT,
        )  # fmt: skip


def _server_down(case: Case, claim: str, host: str, evidence: tuple[str, ...]) -> Iterator[Idea]:
    """The name server of this machine does not run, or runs and does not answer."""
    for name in case.services:
        program = case.programs.get(name)
        if program is None or not is_server(case, name):
            continue
        if program.up and any(answers(case, one, host) for one in working(case, host)):
            continue
        how = "does not answer" if program.up else "does not run"
        yield Idea(
            "dns-failure", name, f"{claim}: {name} {how}", 0.64 if program.up else 0.86, name,
            lines(program.line, *evidence), (), (case.restart(name),), "", PREVENT,
        )  # fmt: skip


def _misforwarded(case: Case, claim: str, host: str, evidence: tuple[str, ...]) -> Iterator[Idea]:
    """Who answers for names asks another, where no name server is; one is elsewhere."""
    rows = re.findall(rf"\s({_DIGITS})(?:%\w+)?:53\s.*pid=(\d{{1,9}})", case.text(DATAGRAMS))
    here = {address: case.owner(int(pid)) for address, pid in rows}
    for owner in dict.fromkeys(name for name in here.values() if name):
        others = [one for one in working(case, host) if here.get(one) != owner]
        for path, values in case.sources(owner):
            for key, value in values.items():
                named = re.fullmatch(rf"({_DIGITS})(?:[:#@]53)?", value)
                if not named or not others or named[1] in [*here, *others]:
                    continue
                if not path.startswith("/"):
                    continue
                edit = redirected(case, path, key, (named[1], others[0]))
                yield Idea(
                    "dns-failure", owner,
                    f"{claim}: {owner} asks {named[1]}, where nobody is; {others[0]} answers",
                    0.84, f"{path}: {key} {value}",
                    (*evidence, *lines(f"{key} {value}", *case.troubles(owner)[:1])), (),
                    (keeping(path), edit, case.restart(owner)), undo_of(path), PREVENT,
                )  # fmt: skip


def _order(case: Case, service: str, claim: str, spoken: str) -> Iterator[Idea]:
    """DNS is not asked at all."""
    files = parse.files(case.text(probes.NAMES))
    for line in files.get("/etc/nsswitch.conf", []):
        if line.startswith("hosts:") and not re.search(r"\bdns\b|\bresolve\b", line):
            yield Idea(
                "dns-failure", service, f"{claim}: DNS is not asked", 0.88,
                f"/etc/nsswitch.conf: {line}", lines(line, spoken), (),
                (keeping("/etc/nsswitch.conf"),
                 "sed -i -E 's/^hosts:.*/hosts: files dns/' /etc/nsswitch.conf",
                 case.restart(service)), undo_of("/etc/nsswitch.conf"), PREVENT,
            )  # fmt: skip


def _other_server(
    case: Case, service: str, claim: str, host: str, evidence: tuple[str, ...]
) -> Iterator[Idea]:
    """Those that are asked do not answer; one that is not asked would."""
    servers, path = asked(case), RESOLVER
    better = [one for one in working(case, host) if one not in servers[:1]]
    if not better or (servers and answers(case, servers[0], host)):
        return
    told = rows(case)[0] if servers else "what /etc/resolv.conf names"
    edits = entered(case, better[0])
    if servers:  # those that are asked now stay, after it
        edits = (f"sed -i '1i nameserver {better[0]}' {path}",)
    yield Idea(
        "dns-failure", service, f"{claim}: {told} does not answer, {better[0]} does", 0.8,
        f"{path}: {told}", evidence, (), (keeping(path), *edits), undo_of(path), PREVENT,
        proof=knows(servers[0], host) if servers and _is_here(case, servers[0]) else "",
    )  # fmt: skip


def _is_here(case: Case, server: str) -> bool:
    """Whether a service of this machine is asked: to ask another is a way round it, no more."""
    heard = re.search(
        rf"\s{re.escape(server)}(?:%\w+)?:53\s.*pid=(\d{{1,9}})", case.text(DATAGRAMS)
    )
    return heard is not None and bool(case.owner(int(heard[1])))


def _unlisted(
    case: Case, service: str, claim: str, host: str, evidence: tuple[str, ...]
) -> Iterator[Idea]:
    """The name is in none of the files that answer for it, and it is known where it leads."""
    mentioned = case.look(probes.mentions(host))
    if mentioned is None:
        yield Idea("dns-failure", service, f"{claim}: is it listed anywhere?", 0.65, host,
                   evidence, (probes.mentions(host),))  # fmt: skip
        return
    address, shown = _listening(case, service, host), ""
    for path, text in _rows(mentioned.output):
        found = re.search(
            rf"({_DIGITS})\s(?:.*\s)?{re.escape(host)}(?![\w.-])|"
            rf"(?<![\w.-]){re.escape(host)}\.?\s.*?({_DIGITS})",
            text,
        )
        if found and (not address or address in (found[1], found[2])):
            address, shown = found[1] or found[2], f"{path}: {text}"
            break
    zone = [path for path, _ in _served(case)]
    if not address or (zone and not any("hosts" in path for path in zone)):
        return
    yield Idea(
        "dns-failure", service, f"{claim}: /etc/hosts does not have it", 0.66,
        f"/etc/hosts: {host}", (*evidence, *lines(shown)), (),
        (keeping("/etc/hosts"),
         f"printf '%s %s\\n' {address} {shlex.quote(host)} >> /etc/hosts", case.restart(service)),
        undo_of("/etc/hosts"), PREVENT,
    )  # fmt: skip


def _rows(text: str) -> Iterator[tuple[str, str]]:
    """What `grep -rn` found: path and line."""
    for line in text.splitlines():
        if row := re.match(r"(/[^:]+):\d+:(.*)$", line):
            yield row[1], row[2].strip()


def _listening(case: Case, service: str, host: str) -> str:
    """The address on this machine where somebody listens on the port that goes with a name."""
    if host == "localhost":
        return "127.0.0.1"
    ports = {one.port for one in needed.targets(case, service) if one.host == host and one.port}
    for one in case.listeners:
        if one.port in ports:
            return "127.0.0.1" if one.address in ("0.0.0.0", "*", "[::]") else one.address
    return ""


def _astray(case: Case, service: str, host: str, answer: str) -> Iterator[Idea]:
    """A name leads to where nobody answers."""
    spoken = next((x for x in case.troubles(service) if host in x and _CUT_OFF.search(x)), "")
    if not spoken:
        return
    led = answer.split(maxsplit=1)[0] if answer else ""
    right = _listening(case, service, host)
    if right == led:
        return
    copy = earlier(case, "/etc/hosts")
    rows = parse.files(case.text(probes.NAMES)).get("/etc/hosts", [])
    named = [row for row in rows if host in row.split("#")[0].split()[1:]]
    if named:
        escaped = re.escape(host).replace("/", "\\/")
        fix = put_back("/etc/hosts", copy.path) if copy.path else (
            keeping("/etc/hosts"),
            f"sed -i -E '/\\s{escaped}(\\s|$)/s/^/# /' /etc/hosts",
        )  # fmt: skip
        yield Idea(
            "dns-failure", service, f"/etc/hosts leads {host} to {led}, where nobody is", 0.8,
            f"/etc/hosts: {named[0]}", lines(spoken, *named), copy.wants,
            (*fix, case.restart(service)), undo_of("/etc/hosts"),
            ("keep names of services out of /etc/hosts",),
        )  # fmt: skip
        return
    yield from _misled(case, service, host, (led, right), spoken)


def _misled(
    case: Case, service: str, host: str, where: tuple[str, str], spoken: str
) -> Iterator[Idea]:
    """A record has an address where nobody is, though it is known where it should lead."""
    (led, right), server = where, _dns_owner(case)
    claim = f"{host} leads to {led}, where nobody is"
    wants = case.missing((probes.mentions(host), DATAGRAMS, probes.NAMES))
    yield Idea("dns-failure", server or service, claim, 0.6, host, lines(spoken), wants)
    for path, copy in _served(case):
        if copy.wants or any(led in row for row in copy.changes):
            fix = (*put_back(path, copy.path), case.restart(server)) if copy.path else ()
            yield Idea(
                "dns-failure", server, f"{claim}, since {path} was changed", 0.86,
                f"{path}: {host} {led}", lines(spoken, *copy.changes), copy.wants, fix,
                undo_of(path), PREVENT,
            )  # fmt: skip
    for path, text in _rows(case.text(probes.mentions(host))):
        if led in text and right and probes.BACKUPS.search(path) is None:
            old, mark = re.escape(led), re.escape(host).replace("/", "\\/")
            quoted = shlex.quote(path)
            yield Idea(
                "dns-failure", server or service, f"{claim}; it is on {right}", 0.82,
                f"{path}: {text}", lines(spoken, text), (),
                (keeping(path),
                 f"sed -i -E '/{mark}/s/{old}/{right}/' {quoted}",
                 *((case.restart(server),) if server else ()), case.restart(service)),
                undo_of(path), PREVENT,
            )  # fmt: skip


def _dns_owner(case: Case) -> str:
    """The service that answers for names on this machine."""
    found = re.search(r":53\s.*pid=(\d{1,9})", case.text(DATAGRAMS))
    owner = case.owner(int(found[1])) if found else ""
    return owner or next((x for x in case.services if is_server(case, x)), "")


def _served(case: Case) -> list[tuple[str, Copy]]:
    """Files of the name server, with their earlier versions."""
    owner = _dns_owner(case)
    if not owner:
        return []
    named = [path for path in case.named(owner) if re.search(r"\.\w+$|/etc/", path)]
    paths = [*case.changed(owner), *case.configs(owner), *named]
    paths = [path for path in dict.fromkeys(paths) if not re.search(r"\.(?:py|sh|log)$", path)]
    return [(path, earlier(case, path)) for path in paths[:4]]


RULES = (names,)
