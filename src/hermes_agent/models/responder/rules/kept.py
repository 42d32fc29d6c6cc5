"""What somebody remembers though it is over: answers that were errors, and addresses of names that
lead elsewhere by now."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules import room
from hermes_agent.models.responder.rules.ideas import Idea, keeping, lines, undo_of
from hermes_agent.models.responder.rules.last import STORE
from hermes_agent.models.responder.view import needed, parse, probes
from hermes_agent.models.responder.view.case import Case

_ZONE = re.compile(r"^\s*(?:proxy|fastcgi|uwsgi|scgi)_cache_path\s+(/[\w./@+-]+)", re.MULTILINE)
_PASSED = re.compile(r"^\s*proxy_pass\s+(https?://[\w.:-]+)", re.MULTILINE)
_FAILED = re.compile(r"(?:HTTP\S* |\" |code |status )5\d\d\b|\b50[0-9]\b")
_ROW = re.compile(r"(/[^:]+):(KEY: .*|HTTP/[\d.]+ (\d{3})\b.*)$")
_CUT_OFF = re.compile(
    r"refused|timed? ?out|unreachable|no route|host is down|ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH"
    r"|could not connect|cannot connect|can't connect|failed to connect|connect\(\) failed",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,3}){3})\D{1,20}?(\d{2,5})\b")
_TURN = re.compile(r"^\s*server\s+[\w.-]+:(\d{2,5})\b")
_DOWN = re.compile(r"\sdown\s*;")
MOST = 200
"""Answers that are put away at once."""


def is_nginx(case: Case, service: str) -> bool:
    return any(PurePosixPath(word).name == "nginx" for word in case.command(service))


def answers(case: Case) -> Iterator[Idea]:
    """Who serves remembers that those behind it failed, and they answer by now."""
    said = f"{case.symptom} {' '.join(case.troubles(case.brief.service)[:2])}"
    for service in case.services if _FAILED.search(said) else ():
        if not is_nginx(case, service):
            continue
        wants = case.missing((probes.SITES,))
        if wants:
            yield Idea("cascading-failure", service, f"{service} may remember errors", 0.5,
                       service, lines(case.symptom), wants)  # fmt: skip
            continue
        for path, rows in parse.files(case.text(probes.SITES)).items():
            for place in _ZONE.findall("\n".join(rows)):
                yield from _remembered(case, service, path, place.rstrip("/"))


def _remembered(case: Case, service: str, site: str, place: str) -> Iterator[Idea]:
    asked = [probes.timed(url) for url in _directly(case, site)]
    wants = case.missing((kept(place), *asked))
    claim = f"{service} gives out errors that it keeps in {place}"
    if wants:
        yield Idea("cascading-failure", service, claim, 0.62, place, lines(case.symptom), wants)
        return
    told = [case.text(look) for look in asked]
    well = bool(told) and all(re.match(r"[1234]\d\d after", text) for text in told)
    rows = [row for line in case.text(kept(place)).splitlines() if (row := _ROW.match(line))]
    bad = [row for row in rows if row[3] and row[3].startswith("5")]
    files = [one for one in dict.fromkeys(row[1] for row in bad) if room.on(one, place)][:MOST]
    if not files and not well:
        return
    below = [one for one in dict.fromkeys(_behind(case, site)) if one]
    fix: tuple[str, ...] = (case.restart(service),)
    if files:
        fix = room.aside(files)
    yield Idea(
        "cascading-failure", below[0] if below else service,
        f"{claim}, though those behind it answer" if well else claim,
        (0.88 if files else 0.64) if well else 0.45, place,
        lines(*(row[0] for row in bad[:1]), *told[:1], case.symptom), (), fix, "",
        ("keep errors for seconds only, if at all",),
    )  # fmt: skip


def kept(place: str) -> str:
    """What a cache of nginx has: what was asked for, and how it was answered."""
    return (
        f"grep -raE '^(KEY: |HTTP/[0-9.]+ [0-9]{{3}})' {shlex.quote(place)} 2>/dev/null | "
        "tr -d '\\r' | cut -c1-300 | head -n 400"
    )


def _directly(case: Case, site: str) -> list[str]:
    """What the check asks for, asked of those behind a site."""
    command = case.brief.check.command if case.brief.check else ""
    paths = re.findall(r"https?://[^\s/'\"]+(/[^\s'\"]*)", command)
    text = "\n".join(parse.files(case.text(probes.SITES)).get(site, []))
    passed = list(dict.fromkeys(_PASSED.findall(text)))[:3]
    return [f"{one}{paths[0] if paths else '/'}" for one in passed]


def _behind(case: Case, site: str) -> Iterator[str]:
    """Services behind a site, the farthest first."""
    text = "\n".join(parse.files(case.text(probes.SITES)).get(site, []))
    for _, port, _ in case.urls(" ".join(_PASSED.findall(text))):
        near = next((one for one in case.services if port in case.ports(one)), "")
        yield from reversed([near, *case.needs(near)] if near else [])


def addresses(case: Case) -> Iterator[Idea]:
    """A service asks for something where its name led once: the name leads elsewhere by now, and
    it has not looked it up again."""
    for service in case.suspects:
        spoken = [line for line in case.troubles(service)[:8] if _CUT_OFF.search(line)]
        if not spoken or STORE.search(" ".join(case.command(service))):
            continue
        for target in _named(case, service):
            look = probes.resolved(target.host)
            if case.missing((look,)):
                claim = f"{service} may ask where {target.host} was"
                yield Idea("dns-failure", service, claim, 0.6, target.host, lines(spoken[0]),
                           (look,))  # fmt: skip
                continue
            now = re.findall(r"(?m)^(\d{1,3}(?:\.\d{1,3}){3})\s", case.text(look) + "\n")
            named = next((x for x in spoken if f"{target.host}:{target.port}" in x), "")
            if named and now and _is_older(case, service) and _listens(case, now[0], target.port):
                yield _asking_anew(case, service, target, ("another address", now[0]), named)
                continue
            for line in spoken:
                old = [host for host, port in _ADDRESS.findall(line) if int(port) == target.port]
                gone = next((one for one in old if now and one not in now), "")
                if gone and not _listens(case, gone, target.port):
                    yield _asking_anew(case, service, target, (gone, now[0]), line)
                    break


def _is_older(case: Case, service: str) -> bool:
    """Whether a service was started before what names go by was written last."""
    rows = {row.path: row.time for row in parse.sizes(case.text(probes.CHANGED))}
    process = case.process(case.programs[service].pid) if service in case.programs else None
    written = max(rows.get("/etc/hosts", 0.0), rows.get("/etc/resolv.conf", 0.0))
    return process is not None and written > case.now - process.age


def _asking_anew(
    case: Case, service: str, target: needed.Target, led: tuple[str, str], line: str
) -> Idea:
    there = _listens(case, led[1], target.port)
    fix: tuple[str, ...] = (case.restart(service),)
    if is_nginx(case, service):
        given = _given(case, service)
        fix = (f"nginx{given} -t && nginx{given} -s reload", "sleep 1")
    return Idea(
        "dns-failure", service,
        f"{service} asks for {target.host} at {led[0]}, where it was before; it is at {led[1]}",
        0.88 if there else 0.7, f"{target.host}: {led[0]}, now {led[1]}",
        lines(line, *case.text(probes.resolved(target.host)).splitlines()[:1]), (), fix, "",
        ("have names looked up again while it runs", "reload who keeps addresses after a move"),
    )  # fmt: skip


def _given(case: Case, service: str) -> str:
    """The settings that nginx was told to go by."""
    words = case.command(service)
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-c"]
    return f" -c {shlex.quote(named[0])}" if named else ""


def _named(case: Case, service: str) -> list[needed.Target]:
    """What it reaches for by a name and on a port."""
    found = [one for one in needed.targets(case, service) if one.named and one.port]
    if is_nginx(case, service):
        text = "\n".join(x for rows in parse.files(case.text(probes.SITES)).values() for x in rows)
        plain = "\n".join(_PASSED.findall(text))
        plain += "\n" + "\n".join(re.findall(r"(?m)^\s*server\s+([\w.-]+:\d+)", text))
        found += [one for one in needed.in_text(case, plain) if one.named and one.port]
    return list(dict.fromkeys(found))[:4]


def _listens(case: Case, address: str, port: int) -> bool:
    """Whether somebody does there, as far as that is this machine."""
    all_of = ("0.0.0.0", "*", "[::]")
    return any(x.port == port and (x.address == address or x.address in all_of)
               for x in case.listeners)  # fmt: skip


def out_of_turn(case: Case) -> Iterator[Idea]:
    """Who shares requests out gave up on all to whom it would, and they answer by now: it noted
    that, or it is written down that they are down."""
    for service in case.services:
        spoken = next(case.said(service, r"no live upstreams"), "")
        if not spoken or not is_nginx(case, service):
            continue
        wants = case.missing((probes.SITES,))
        given, again = _given(case, service), f"{service} leaves out those behind it"
        if wants:
            yield Idea("cascading-failure", service, again, 0.6, service, lines(spoken), wants)
            continue
        reload = f"nginx{given} -t && nginx{given} -s reload"
        for path, rows in parse.files(case.text(probes.SITES)).items():
            ports = [int(port) for row in rows for port in _TURN.findall(row)]
            if not ports or not all(any(x.port == port for x in case.listeners) for port in ports):
                continue
            marked = [row for row in rows if _TURN.search(row) and _DOWN.search(row)]
            fix: tuple[str, ...] = (reload, "sleep 1")
            undo = ""
            if marked and len(marked) == len(ports):  # else who is left out is so on purpose
                edit = "sed -i --follow-symlinks -E '/^\\s*server\\s/s/\\s+down;/;/'"
                fix = (keeping(path), f"{edit} {shlex.quote(path)}", *fix)
                undo = undo_of(path)
            below = next((x for x in case.services if set(ports) & set(case.ports(x))), service)
            yield Idea(
                "cascading-failure", below, f"{again} by {path}, though they answer",
                0.86 if marked and len(marked) == len(ports) else 0.8, path,
                lines(spoken, *marked), (), fix, undo,
                ("let those that are left out be asked again after seconds",),
            )  # fmt: skip


RULES = (answers, addresses, out_of_turn)
