"""Names that others resolve and a service does not: files that it may not read, questions that are
dropped on their way, and who is asked by its own settings."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder.rules import wires
from hermes_agent.models.responder.rules.ideas import Idea, keeping, lines, undo_of
from hermes_agent.models.responder.rules.names import PREVENT, hosts, unresolved
from hermes_agent.models.responder.rules.sed import extended
from hermes_agent.models.responder.rules.servers import (
    DATAGRAMS,
    WRITTEN,
    answers,
    asked,
    denies,
    domains,
    looks,
    redirected,
    working,
)
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

READ = "ls -ldL /etc /etc/resolv.conf /etc/hosts /etc/nsswitch.conf /etc/host.conf 2>/dev/null"
_MODE = re.compile(r"([-dl])(\S{9})\S*\s+\d+\s+\S+\s+\S+\s.*\s(/\S+)$")
_ADDRESS = r"\d{1,3}(?:\.\d{1,3}){3}"
_ASKED = re.compile(r"(?:^|[._-])(?:resolvers?|name_?servers?|dns(?:_?servers?)?)$", re.IGNORECASE)
_SLOW = re.compile(r"timed? ?out|too slow|slow|deadline|took \d|\b504\b|after \d", re.IGNORECASE)
LATE_SECONDS = 1.0
_FIRST = rf"({_ADDRESS})(?:[:#@](\d+))?(?=[\s,;]|$)"


def unread(case: Case) -> Iterator[Idea]:
    """What is resolved for whoever looks is not for the service: it may not read the files."""
    for service, host, spoken in _lost(case):
        asked = case.look(probes.resolved(host))
        if asked is None or not asked.ok:
            continue
        wants = case.missing((READ,))
        if wants:
            yield Idea("dns-failure", service, f"{service} may not read what names go by", 0.6,
                       host, lines(spoken), wants)  # fmt: skip
        for line in case.text(READ).splitlines():
            row = _MODE.match(line.strip())
            if not row:
                continue
            kind, mode, path = row[1], row[2], row[3]
            short = mode[6] != "r" or (kind == "d" and mode[8] != "x")
            if short:
                more = "o+rx" if kind == "d" else "o+r"
                yield Idea(
                    "dns-failure", service,
                    f"{service} does not resolve {host}, because it may not read {path}", 0.88,
                    path, lines(spoken, line), (),
                    (f"chmod {more} {path}", case.restart(service)),
                    f"chmod {more.replace('+', '-')} {path}", PREVENT,
                )  # fmt: skip


def dropped(case: Case) -> Iterator[Idea]:
    """Questions to the name server do not come through."""
    for service, host, spoken in _lost(case):
        asked = case.look(probes.resolved(host))
        if asked is None or asked.ok:
            continue
        names = parse.files(case.text(probes.NAMES)).get("/etc/resolv.conf", [])
        servers = [one for row in names for one in re.findall(rf"^nameserver\s+({_ADDRESS})", row)]
        wants = case.missing((wires.SAVED,))
        if wants and servers:
            yield Idea("dns-failure", service, f"what asks for {host} may be dropped", 0.62, host,
                       lines(spoken), wants)  # fmt: skip
        for server in servers:
            for cut in wires.filtered(case.text(wires.SAVED), server, 53, far=False):
                told = re.search(r"--[ds]ports? |-p udp|-[sd] ", cut.line)
                yield Idea(
                    "dns-failure", service, f"{host} is not resolved: {cut.claim}",
                    cut.score if told else 0.6, f"{server}: {cut.line}", lines(cut.line, spoken),
                    (), (cut.fix,), cut.undo, PREVENT,
                )  # fmt: skip


def searched(case: Case) -> Iterator[Idea]:
    """A name without its domain, which no list completes; files call it by the whole of it."""
    for service, host, spoken in _lost(case):
        found, look = case.look(probes.resolved(host)), probes.mentions(f"{host}.")
        if "." in host or found is None or found.ok:
            continue
        names = [f"{host}.{domain}" for domain in domains(case)[:3]]
        wants = case.missing((look, probes.NAMES, WRITTEN))
        wants = wants or case.missing(one for name in names for one in looks(case, name)[:2])
        if wants:
            yield Idea("dns-failure", service, f"{host} may want its domain", 0.6, host,
                       lines(spoken), wants)  # fmt: skip
            continue
        within = rf"(?<![\w.-]){re.escape(host)}\.([a-z][\w-]*(?:\.[\w-]+)+)\.?(?![\w./-])"
        whole = re.findall(within, case.text(look))
        told_by = [name for name in names if any(answers(case, one, name) for one in asked(case))]
        whole += [name.removeprefix(f"{host}.") for name in told_by]
        rows = parse.files(case.text(probes.NAMES)).get("/etc/resolv.conf", [])
        told = next((row for row in rows if re.match(r"(?:search|domain)\s", row)), "")
        for domain in list(dict.fromkeys(whole))[:2]:
            if re.search(rf"\s{re.escape(domain)}(?:\s|$)", told):
                continue
            path = "/etc/resolv.conf"
            edit = f"sed -i -E 's/^(search|domain)(.*)/search {domain}\\2/' {path}"
            if not told:
                edit = f"printf 'search %s\\n' {domain} >> {path}"
            yield Idea(
                "dns-failure", service, f"{host} is {host}.{domain}, and no list says so", 0.76,
                f"{path}: {told or 'search'}", lines(spoken, told), (),
                (keeping(path), edit, case.restart(service)), undo_of(path),
                PREVENT,
            )  # fmt: skip


def glued(case: Case) -> Iterator[Idea]:
    """A row of the file of names was written behind one that had no end: both are parted, and both
    names are found again."""
    path = "/etc/hosts"
    for service, host, spoken in _lost(case):
        asked = case.look(probes.resolved(host))
        if asked is None or asked.ok:
            continue
        if wants := case.missing((probes.NAMES,)):
            yield Idea("dns-failure", service, f"{path} may be torn", 0.6, host, lines(spoken),
                       wants)  # fmt: skip
        for row in parse.files(case.text(probes.NAMES)).get(path, []):
            found = re.search(rf"\s{re.escape(host)}({_ADDRESS})\s+\w", row.partition("#")[0])
            if not found or not re.match(rf"\s*{_ADDRESS}\s", row):
                continue
            edit = rf"s/(\s{extended(host)})({extended(found[1])}\s)/\1\n\2/"
            yield Idea(
                "dns-failure", service, f"{host} is not found: {path} has two rows in one", 0.93,
                f"{path}: {row.strip()}", lines(row, spoken), (),
                (keeping(path), f"sed -i -E {shlex.quote(edit)} {path}"), undo_of(path), PREVENT,
            )  # fmt: skip


def misasked(case: Case) -> Iterator[Idea]:
    """A service asks a name server of its own, where none is."""
    listed = re.findall(rf"\s({_ADDRESS}|\*)(?:%\w+)?:(\d+)\s.*users:", case.text(DATAGRAMS))
    for service in case.suspects:
        spoken = unresolved(case, service)
        host = next(iter(hosts(case, service, spoken)), "")
        for path, values in case.sources(service) if spoken else ():
            for key, value in values.items():
                found = re.search(_FIRST, value) if _ASKED.search(key) else None
                if not found or not path.startswith("/"):
                    continue
                asking = (probes.asked(found[1], host), *looks(case, host)) if host else ()
                wants = case.missing((DATAGRAMS, probes.NAMES, *asking))
                if wants:
                    yield Idea("dns-failure", service, f"{service} may ask the wrong one", 0.6,
                               f"{path}: {key}", lines(spoken), wants)  # fmt: skip
                better = [one for one in working(case, host) if one != found[1]]
                if not better or answers(case, found[1], host):
                    continue
                if (found[1], found[2] or "53") in listed:
                    continue
                edit = redirected(case, path, key, (found[0], better[0]))
                yield Idea(
                    "dns-failure", service,
                    f"{service} asks {found[0]} for names, where nobody is; {better[0]} answers",
                    0.82, f"{path}: {key} {value}", lines(spoken, f"{key} {value}"), (),
                    (keeping(path), edit, case.restart(service)), undo_of(path), PREVENT,
                )  # fmt: skip


def tardy(case: Case) -> Iterator[Idea]:
    """A name is resolved, but late: who is asked first does not answer."""
    for service in case.suspects[:4]:
        spoken = next((x for x in case.troubles(service) if _SLOW.search(x)), "")
        if not spoken and service == case.brief.service and _SLOW.search(case.symptom):
            spoken = case.symptom
        for host in hosts(case, service, "")[:2] if spoken else ():
            look = f"time getent hosts {shlex.quote(host)}"
            wants = case.missing((look, probes.NAMES, DATAGRAMS))
            if wants:
                yield Idea("dns-failure", service, f"{host} may be resolved late", 0.5, host,
                           lines(spoken), wants)  # fmt: skip
                continue
            took = re.search(r"real\s+(\d+)m([\d.]+)s", case.text(look))
            if took is None or int(took[1]) * 60 + float(took[2]) < LATE_SECONDS:
                continue
            if wants := case.missing(looks(case, host)):
                yield Idea("dns-failure", service, f"{host} is resolved late", 0.7, host,
                           lines(spoken, took[0]), wants)  # fmt: skip
                continue
            servers, good = asked(case), working(case, host)
            dead = [one for one in servers if one not in good]
            first = next((at for at, one in enumerate(servers) if one in good), len(servers))
            dead = [one for one in dead[:first] if not denies(case, one, host)]
            if not dead:
                continue
            path, row = "/etc/resolv.conf", f"nameserver {dead[0]}"
            marks = "|".join(map(re.escape, dead))
            edit = f"sed -i -E '/^\\s*nameserver\\s+({marks})\\s*$/s/^/# /' {path}"
            if first == len(servers) and good:
                edit = f"sed -i '1i nameserver {good[0]}' {path}"
            yield Idea(
                "dns-failure", service, f"{host} is resolved late: {', '.join(dead)} is asked "
                "first and does not answer", 0.86 if good else 0.5, f"{path}: {row}",
                lines(spoken, row, took[0]), (),
                (keeping(path), edit, case.restart(service)) if good else (), undo_of(path),
                PREVENT,
            )  # fmt: skip


def _lost(case: Case) -> Iterator[tuple[str, str, str]]:
    """Services that say of a name that it is not resolved."""
    for service in case.suspects:
        spoken = unresolved(case, service)
        for host in hosts(case, service, spoken)[:2] if spoken else ():
            yield service, host, spoken


RULES = (unread, dropped, searched, glued, misasked, tardy)
