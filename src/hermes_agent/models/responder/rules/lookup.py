"""Names that others resolve and a service does not: files that it may not read, questions that are
dropped on their way, and who is asked by its own settings."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder.rules import wires
from hermes_agent.models.responder.rules.ideas import Idea, keeping, lines, undo_of
from hermes_agent.models.responder.rules.names import DATAGRAMS, NO_NAME, PREVENT, hosts
from hermes_agent.models.responder.rules.sed import basic
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
        asked, look = case.look(probes.resolved(host)), probes.mentions(f"{host}.")
        if "." in host or asked is None or asked.ok:
            continue
        wants = case.missing((look, probes.NAMES))
        if wants:
            yield Idea("dns-failure", service, f"{host} may want its domain", 0.6, host,
                       lines(spoken), wants)  # fmt: skip
            continue
        within = rf"(?<![\w.-]){re.escape(host)}\.([a-z][\w-]*(?:\.[\w-]+)+)\.?(?![\w./-])"
        whole = re.findall(within, case.text(look))
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


def misasked(case: Case) -> Iterator[Idea]:
    """A service asks a name server of its own, where none is."""
    listed = re.findall(rf"\s({_ADDRESS}|\*)(?:%\w+)?:(\d+)\s.*users:", case.text(DATAGRAMS))
    here = [address for address, port in listed if port == "53" and address != "*"]
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if NO_NAME.search(x)), "")
        if not spoken:
            continue
        for path, values in case.sources(service):
            for key, value in values.items():
                found = re.search(_FIRST, value) if _ASKED.search(key) else None
                if not found or not path.startswith("/"):
                    continue
                wants = case.missing((DATAGRAMS,))
                if wants:
                    yield Idea("dns-failure", service, f"{service} may ask the wrong one", 0.6,
                               f"{path}: {key}", lines(spoken), wants)  # fmt: skip
                if found[1] in here or not here or (found[1], found[2] or "53") in listed:
                    continue
                own, old = shlex.quote(path), basic(found[0])
                yield Idea(
                    "dns-failure", service,
                    f"{service} asks {found[0]} for names, where nobody is; {here[0]} answers",
                    0.82, f"{path}: {key} {value}", lines(spoken, f"{key} {value}"), (),
                    (keeping(path), f"sed -i 's/{old}/{here[0]}/' {own}",
                     case.restart(service)), undo_of(path), PREVENT,
                )  # fmt: skip


def tardy(case: Case) -> Iterator[Idea]:
    """A name is resolved, but late: who is asked first does not answer."""
    for service in case.suspects[:4]:
        spoken = next((x for x in case.troubles(service) if _SLOW.search(x)), "")
        for host in hosts(case, service, "")[:2] if spoken else ():
            look = f"time getent hosts {shlex.quote(host)}"
            wants = case.missing((look, probes.NAMES, DATAGRAMS))
            if wants:
                yield Idea("dns-failure", service, f"{host} may be resolved late", 0.5, host,
                           lines(spoken), wants)  # fmt: skip
                continue
            took = re.search(r"real\s+(\d+)m([\d.]+)s", case.text(look))
            late = took is not None and int(took[1]) * 60 + float(took[2]) > LATE_SECONDS
            rows = parse.files(case.text(probes.NAMES)).get("/etc/resolv.conf", [])
            servers = [row for row in rows if re.match(rf"nameserver\s+{_ADDRESS}", row)]
            here = re.findall(rf"\s({_ADDRESS})(?:%\w+)?:53\s", case.text(DATAGRAMS))
            good = [row for row in servers if any(row.split()[1] == one for one in here)]
            if not late or not good or servers[0] in good:
                continue
            path, first = "/etc/resolv.conf", servers[0].split()[1]
            yield Idea(
                "dns-failure", service, f"{host} is resolved late: {first} is asked first and does "
                "not answer", 0.86, f"{path}: {servers[0]}",
                lines(spoken, servers[0], took[0] if took else ""), (),
                (keeping(path),
                 f"sed -i -E '/^nameserver\\s+{re.escape(first)}\\s*$/s/^/# /' {path}",
                 case.restart(service)), undo_of(path), PREVENT,
            )  # fmt: skip


def _lost(case: Case) -> Iterator[tuple[str, str, str]]:
    """Services that say of a name that it is not resolved."""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if NO_NAME.search(x)), "")
        for host in hosts(case, service, spoken)[:2] if spoken else ():
            yield service, host, spoken


RULES = (unread, dropped, searched, misasked, tardy)
