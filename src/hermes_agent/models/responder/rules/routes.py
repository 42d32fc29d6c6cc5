"""A front that leads a request astray: it asks for another path than it was asked for, or asks
somebody else. What whoever is behind it answers when asked itself tells what is right."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.rules.ideas import Idea, keeping, lines, undo_of
from hermes_agent.models.responder.rules.sed import basic, replacement
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case

_URL = re.compile(r"\bhttps?://([\w.-]+|\[[0-9a-f:]+\])(?::(\d{1,5}))?(/[\w./@%+~-]*)?")
_LISTEN = re.compile(r"\blisten\s+(?:[\w.*\[\]:]*:)?(\d{1,5})\b")
_REWRITE = re.compile(r"^\s*rewrite\s")
_PASS = re.compile(r"\bproxy_pass\s+(?P<scheme>https?)://(?P<to>[\w.:-]+)(?P<uri>/[^;\s]*)?\s*;")
_LOCATION = re.compile(r"^\s*location\s+(?:(?P<how>=|~\*?|\^~)\s+)?(?P<at>\S+)\s*\{")
_WAITS = re.compile(r"^\s*proxy_(?:read|connect|send)_timeout\s+(\d+)(ms|s|m)?\s*;")
_CODE = re.compile(r"(?m)^(\d{3}) after ")
PREVENT = ("ask through the front after each change of it", "keep its sites under version control")
_BARRED = (401, 403, 407)
"""It was asked who asks, or may not ask: that is meant so."""
_SHIELDS = re.compile(r"https:|\$scheme|login|auth|deny|forbid", re.IGNORECASE)
"""Rewrites that keep somebody out, or what is sent from being read."""
LOCAL = ("127.0.0.1", "localhost", "::1")


class Route(Struct, frozen=True):
    """Where a front leads what begins so."""

    file: str
    number: int
    row: str
    at: str
    scheme: str
    to: str
    uri: str | None
    """What stands after the address; None where nothing does, and the path stays as it is."""
    ports: tuple[int, ...]
    rewrites: tuple[tuple[int, str], ...] = ()
    waits: tuple[tuple[int, str], ...] = ()
    """Lines that say how long it waits for whoever is behind."""

    def passed(self, path: str) -> str:
        """The path that is asked for behind it."""
        return path if self.uri is None else self.uri + path[len(self.at) :]


def routes(file: str, text: str) -> list[Route]:
    """All that a site of nginx leads on, with what counts in the blocks around it."""
    above, rows = list[tuple[int, str]](), list[tuple[tuple[int, ...], int, str]]()
    passed = list[tuple[tuple[int, ...], int, str, str]]()
    for number, row in enumerate(text.splitlines(), 1):
        plain = row.partition("#")[0]
        if "{" in plain:
            place = _LOCATION.match(plain)
            usual = place is not None and place["how"] in (None, "^~", "=")
            above.append((number, place["at"] if place is not None and usual else ""))
        inside = tuple(one for one, _ in above)
        rows.append((inside, number, row))
        at = next((one for _, one in reversed(above) if one), "")
        if _PASS.search(plain) and at:
            passed.append((inside, number, row, at))
        above = above[: max(0, len(above) - plain.count("}"))]

    def around(inside: tuple[int, ...], kind: re.Pattern[str]) -> list[tuple[int, str]]:
        fitting = [(n, row) for own, n, row in rows if own == inside[: len(own)]]
        return [(n, row) for n, row in fitting if kind.search(row.partition("#")[0])]

    found = list[Route]()
    for inside, number, row, at in passed:
        led = _PASS.search(row)
        ports = [m[1] for _, one in around(inside, _LISTEN) if (m := _LISTEN.search(one))]
        if led is not None:
            found.append(Route(
                file, number, row, at, led["scheme"], led["to"], led["uri"],
                tuple(map(int, ports)), _plain(around(inside, _REWRITE)),
                tuple(around(inside, _WAITS)),
            ))  # fmt: skip
    return found


def _plain(rows: Sequence[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    return tuple((number, row) for number, row in rows if not _SHIELDS.search(row))


def upstreams(texts: Sequence[str]) -> dict[str, str]:
    """The first server of each group that has a name."""
    whole = "\n".join(texts)
    found = re.findall(r"(?m)^\s*upstream\s+([\w.-]+)\s*\{[^}]*?server\s+([\w.:-]+)", whole)
    return dict(reversed(found))


def astray(case: Case) -> Iterator[Idea]:
    """The check fails at a front, and whoever is behind it answers when asked otherwise."""
    check = case.brief.check
    asked = _URL.search(check.command) if check is not None else None
    if asked is None or asked[1] not in LOCAL:
        return
    port, path = int(asked[2] or 80), asked[3] or "/"
    for front in case.services:
        if not any(PurePosixPath(word).name == "nginx" for word in case.command(front)):
            continue
        texts = {one: case.content(one) for one, _ in case.sources(front)}
        known = [route for one, text in texts.items() for route in routes(one, text)]
        fitting = [route for route in known if port in route.ports and path.startswith(route.at)]
        if fitting:
            best = max(fitting, key=lambda route: len(route.at))
            names = upstreams(list(texts.values()))
            yield from _asked(case, front, best, names.get(best.to, best.to), port, path)


def _asked(case: Case, front: str, route: Route, to: str, port: int, path: str) -> Iterator[Idea]:
    here = probes.timed(f"http://127.0.0.1:{port}{path}")
    rest = "/" + path[len(route.at) :].lstrip("/")
    ways = {one: f"{route.scheme}://{to}{one}" for one in (path, rest)}
    others = {one: f"http://{one}{route.passed(path)}" for one in _instead(case, front, to)}
    if route.scheme == "https":
        ways["http"] = f"http://{to}{route.passed(path)}"
    looks = [here, *(probes.timed(url) for url in (*ways.values(), *others.values()))]
    if wants := case.missing(looks):
        yield Idea("bad-config", front, f"{route.file} may lead {path} astray", 0.6,
                   f"{route.file}:{route.number}", lines(route.row), wants)  # fmt: skip
        return
    now, gets = _code(case, here), route.passed(path)
    if now == 504:
        yield from _longer(case, front, route, ways.get(gets, ""), path, here)
    if _is_well(now) or now in _BARRED or (now >= 500 and now != 502):
        return
    if plain := ways.pop("http", ""):
        near = (to.rpartition(":")[0] or to) in LOCAL  # elsewhere others might read it
        if near and _is_well(_ask(case, plain)):
            yield _led(case, front, route, f"http://{route.to}{route.uri or ''}", path, here)
        return
    works = [one for one, url in ways.items() if one != gets and _is_well(_ask(case, url))]
    if works and not _is_well(_ask(case, f"{route.scheme}://{to}{gets}")):
        uri = "" if path in works else "/"
        if uri != (route.uri or ""):
            yield _led(case, front, route, f"{route.scheme}://{route.to}{uri}", path, here)
    elif route.rewrites and path in ways and _is_well(_ask(case, ways[path])) and not route.uri:
        number, row = route.rewrites[-1]
        edits = [(number, row, f"# {row.strip()}")]
        yield _changed(case, front, route.file, edits, path, here)
    elif better := [to for to, url in others.items() if _is_well(_ask(case, url))]:
        new = f"{route.scheme}://{better[0]}{route.uri or ''}"
        yield _led(case, front, route, new, path, here)


def _longer(case: Case, front: str, route: Route, url: str, path: str, here: str) -> Iterator[Idea]:
    """It does not wait as long as whoever is behind takes: it waits as it does by itself."""
    took = re.search(r"after ([\d.]+) s", case.text(probes.timed(url))) if url else None
    if took is None or not _is_well(_ask(case, url)):
        return
    unit = {"ms": 0.001, "m": 60.0}
    short = [
        (number, row) for number, row in route.waits
        if (told := _WAITS.match(row)) and int(told[1]) * unit.get(told[2] or "", 1.0)
        < max(1.0, float(took[1]))
    ]  # fmt: skip
    edits = [(number, row, f"# {row.strip()}") for number, row in short]
    if edits:
        yield _changed(case, front, route.file, edits, path, here)


def _instead(case: Case, front: str, to: str) -> list[str]:
    """Where the only service behind a front listens, while it is led where nobody ever does."""
    port = int(to.rpartition(":")[2]) if to.rpartition(":")[2].isdigit() else 80
    others = [one for one in case.services if one != front]
    heard = any(one.port == port for one in case.listeners)
    if heard or any(port in case.ports(one) for one in others):
        return []
    behind = [case.brief.service] if case.brief.service != front else case.needs(front)
    if len(behind) != 1:
        return []
    ports = [own for own in case.ports(behind[0]) if case.listens(behind[0], own)]
    return [f"127.0.0.1:{ports[0]}"] if len(ports) == 1 else []


def _ask(case: Case, url: str) -> int:
    return _code(case, probes.timed(url))


def _code(case: Case, look: str) -> int:
    found = _CODE.search(case.text(look))
    return int(found[1]) if found else 0


def _is_well(code: int) -> bool:
    return 200 <= code < 300


def _led(case: Case, front: str, route: Route, new: str, path: str, here: str) -> Idea:
    old = f"{route.scheme}://{route.to}{route.uri or ''}"
    right = route.row.replace(old, new, 1)
    return _changed(case, front, route.file, [(route.number, route.row, right)], path, here)


def edited(file: str, edits: Sequence[tuple[int, str, str]]) -> str:
    """The command that puts other lines in the place of some."""
    seds = " ".join(
        "-e " + shlex.quote(f"{at}s/{basic(row.strip())}/{replacement(right.strip())}/")
        for at, row, right in edits
    )
    return f"sed -i {seds} {shlex.quote(file)}"


def _changed(
    case: Case, front: str, file: str, edits: Sequence[tuple[int, str, str]], path: str, here: str
) -> Idea:
    number, row, _ = edits[0]
    return Idea(
        "bad-config", front, f"{file} leads {path} astray: {row.strip()}", 0.88,
        f"{file}:{number} {row.strip()}", lines(row.strip(), case.text(here).strip()), (),
        (keeping(file), edited(file, edits), case.restart(front)),
        undo_of(file), PREVENT,
    )  # fmt: skip
