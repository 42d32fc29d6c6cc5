"""A service, or the machine, lives at another time."""

import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from hermes_agent.models.responder.rules.config import commented, is_near, reread, swapped
from hermes_agent.models.responder.rules.faked import FAKED, trued
from hermes_agent.models.responder.rules.ideas import (
    Idea,
    earlier,
    lines,
    put_away,
    put_back,
    taken_out,
    undo_of,
)
from hermes_agent.models.responder.rules.shifts import (
    NOTHING,
    PREVENT,
    SHIFT_FILE,
    shifted,
    shifted_by,
    zoned,
)
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case, stamp
from hermes_agent.models.responder.view.needed import chain

CLOCK_SECONDS, YOUNG = 120.0, 1.5
_SKEW = (
    r"clock|skew|in the future|in the past|not yet valid|from now|timestamp|too (?:old|new|early)"
    r"|(?:ahead|behind)\b|time (?:drift|differ|offset)|issued .*(?:time|ago)|replay|stale (?:token|"
    r"request|signature)|\biat\b|\bnbf\b|expired (?:token|signature|ticket)|signature expired"
    r"|has (?:run out|expired)|not valid (?:yet|any)|outside (?:the |its )?(?:\w+ )?(?:window|rang)"
    r"|(?:token|ticket|pass|signature|session|nonce) (?:is |has )?(?:too old|expired|from)|too far"
    r"|TooSkewed|\bdrift|\d ?(?:s|secs?|seconds?|min\w*|h|hours?|d|days?) (?:too|old|early|late|off"
    r"|from|ahead|behind|away)\b"
)
_STEPS = r"step|offset|drift|adjust|\bsync|\boff\b|\bahead\b|\bbehind\b"
_TIMED_BY = re.compile(r"FAKETIME_TIMESTAMP_FILE=[\"']?(/[^\"',\s]+)")
_SOURCE = re.compile(
    r"source|server|peer|pool|upstream|reference|follow|master|origin|from|url|host|://",
    re.IGNORECASE,
)
"""Rows that say by whom somebody goes."""
_MEANT = re.compile(
    r"(?:set|move|shift|fake|turn|chang)\w*\b[^.;]{0,30}\b(?:clock|time|date)|time.?travel"
    r"|(?:another|other|own|past|future) (?:time|date|clock)|on purpose|rehears",
    re.IGNORECASE,
)
"""How people write down that a service lives at another time as it should."""


def clock(case: Case) -> Iterator[Idea]:
    keepers = _keepers(case)
    yield from _kept(case, keepers)
    kept = {one for name, (keeper, _) in keepers.items() for one in (name, *chain(case, keeper))}
    for service in case.suspects:
        if not _concerns(case, service) or _is_meant(case, service):
            continue  # it may be meant to live at another time
        if service in kept:
            continue  # its time is not its own, or others chose to go by it
        odd = _odd_time(case, service)
        spoken = next(case.said_ever(service, _SKEW), "") or _symptom(case, service)
        told = list(_faked(case, service))
        yield from _ruled(case, service, [line for _, line in told], odd, spoken)
        for path, line in told:
            yield from _truing(case, service, path, line, odd, spoken)
        yield from shifted(case, service, odd, spoken)
        yield from shifted_by(case, service, odd, spoken)
        yield from zoned(case, service, odd, spoken or _symptom(case, ""))
        if is_near(case, service) and (spoken or odd or _symptom(case, "")):
            yield from _asked(case, service, odd, spoken)


def _concerns(case: Case, service: str) -> bool:
    """Whether the alert may be about it: its own service, what that needs, and who needs that; all,
    where its own is none that is looked after."""
    own = case.brief.service
    return own not in case.services or service in chain(case, own) or own in chain(case, service)


def _is_meant(case: Case, service: str) -> bool:
    """Whether people wrote down that its time is another one."""
    return _MEANT.search(case.about(service)) is not None


def _keepers(case: Case) -> dict[str, tuple[str, str]]:
    """Services whose time is given by a file which another service writes: that one, and the
    file."""
    found = dict[str, tuple[str, str]]()
    for service in case.suspects:
        files = [path for _, line in _faked(case, service) for path in _TIMED_BY.findall(line)]
        files += [
            value
            for _, values in case.sources(service)
            for key, value in values.items()
            if SHIFT_FILE.search(key) and value.startswith("/")
        ]
        for path in files:
            others = [one for one in case.suspects if one != service]
            # who only goes by it, too, writes nothing
            writers = [
                one for one in others
                if path in case.settings(one).values() and not _goes_by(case, one, path)
            ]  # fmt: skip
            if writers:
                found[service] = writers[0], path
    return found


def _goes_by(case: Case, service: str, path: str) -> bool:
    faked = any(path in line for _, line in _faked(case, service))
    told = [key for key, value in case.settings(service).items() if value == path]
    return faked or any(map(SHIFT_FILE.search, told))


def _kept(case: Case, keepers: dict[str, tuple[str, str]]) -> Iterator[Idea]:
    """Who keeps the clock of others follows something that is wrong: what it goes by is put back
    as it was. Its own work is neither done for it nor stopped."""
    for service, (keeper, path) in keepers.items():
        if not _concerns(case, service):
            continue
        spoken = next(case.said_ever(service, _SKEW), "") or _symptom(case, "")
        told = next(case.said_ever(keeper, _STEPS), "")
        shown = case.look(probes.show(path))
        claim = f"{keeper}, by which the clock of {service} goes, follows one that is wrong"
        looks = [probes.show(path), *(date_of(port) for port in case.ports(service)[:1])]
        wants = case.missing([*looks, *(probes.show(one) for one in case.configs(keeper)[:2])])
        step = next(iter(shown.lines), "") if shown is not None and shown.ok else ""
        off = _date(case, case.ports(service)[:1])
        if not wants and not off and NOTHING.fullmatch(step.strip()):
            continue
        evidence = lines(off, told, step, spoken)
        known, sure = False, 0.94 if off or spoken else 0.55  # small steps are its work
        for config in case.configs(keeper)[:2]:
            copy = earlier(case, config)
            wants += copy.wants
            row, former = commented(case.content(config), _SOURCE)
            fix: tuple[str, ...] = ()
            if copy.path and any(_SOURCE.search(one) for one in copy.changes):
                fix = put_back(config, copy.path)
                row = next(one[2:] for one in copy.changes if _SOURCE.search(one))
            elif row:
                fix = swapped(config, row, former, whole=True)
            if fix:
                known = True
                yield Idea(
                    "clock-jump", keeper, claim, sure, config, lines(row, *evidence), wants,
                    (*fix, case.restart(keeper)), undo_of(config), PREVENT,
                    _in_step(case, service),
                )  # fmt: skip
        if not known:
            yield Idea("clock-jump", keeper, claim, 0.9, path, evidence, wants)


def _in_step(case: Case, service: str) -> str:
    """A look that fails where the time of a service is not that of the machine."""
    ports = case.ports(service)[:1]
    if not ports:
        return ""
    told = f"curl -sI -m 3 http://127.0.0.1:{ports[0]}/ | grep -i '^date:' | cut -d' ' -f2-"
    return (
        f'sleep 1; t=$(date -d "$({told})" +%s) && d=$((t - $(date +%s))) && '
        f"[ ${{d#-}} -le {int(CLOCK_SECONDS)} ]"
    )


def _symptom(case: Case, service: str) -> str:
    found = re.search(_SKEW, case.symptom, re.IGNORECASE)
    return case.symptom if found and service in ("", case.brief.service) else ""


def _faked(case: Case, service: str) -> Iterator[tuple[str, str]]:
    """Lines with another time, and the files that hold them: its entry, its wrapper, its settings,
    and what these take in."""
    definition = case.definition(service)
    if definition is not None:
        entry = definition.settings
        for line in (f"{name}={value}" for name, value in entry.items()):
            if FAKED.search(line):
                yield definition.path, _as_written(case, definition.path, line)
    files = [*case.wrappers(service), *case.configs(service), *case.named(service)]
    for path in dict.fromkeys(files):
        for line in case.content(path).splitlines():
            if FAKED.search(line) and not line.lstrip().startswith("#"):
                yield path, line


def _as_written(case: Case, path: str, line: str) -> str:
    name = line.partition("=")[0]
    rows = case.content(path).splitlines()
    return next((x for x in rows if x.startswith(name) and FAKED.search(x)), line)


def _truing(
    case: Case, service: str, path: str, line: str, odd: str, spoken: str
) -> Iterator[Idea]:
    """Another time is taken out of a file that starts it."""
    definition = case.definition(service)
    is_entry = definition is not None and path == definition.path
    copy = earlier(case, path)
    claim = f"{service} lives at another time than the machine"
    if wants := case.missing([probes.show(path)] * (not case.content(path))):
        yield Idea("clock-jump", service, claim, 0.7, path, lines(odd, spoken, line), wants)
        return
    if copy.path and any(FAKED.search(one) for one in copy.changes if one[0] == ">"):
        fix = put_back(path, copy.path)
    else:
        fix = trued(path, case.content(path))
    offset = _TIMED_BY.search(line)
    if fix:
        fix += reread(case, service) if is_entry else (case.restart(service),)
    yield Idea(
        "clock-jump", service, claim, 0.8 + 0.15 * bool(odd or spoken),
        offset[1] if offset else path, lines(odd, spoken, line), copy.wants, fix, undo_of(path),
        PREVENT,
    )  # fmt: skip


def _ruled(case: Case, service: str, told: list[str], odd: str, spoken: str) -> Iterator[Idea]:
    """It is only prepared for another time, which a file in a home or of the machine gives it."""
    if not told or any(re.search(r"FAKETIME\w*=|faketime [-+\"'@\d]", one) for one in told):
        return
    homes = [one for _, values in case.sources(service) if (one := values.last("home"))]
    files = [f"{home}/.faketimerc" for home in dict.fromkeys([*homes, "/root"])]
    looks = [probes.show(path) for path in (*files, "/etc/faketimerc")]
    if wants := case.missing(looks):
        yield Idea("clock-jump", service, f"a file may give {service} another time", 0.7, files[0],
                   lines(odd, spoken, *told), wants)  # fmt: skip
        return
    for path in (*files, "/etc/faketimerc"):
        shown = case.look(probes.show(path))
        text = shown.output.strip() if shown is not None and shown.ok else ""
        if not text or NOTHING.fullmatch(text):
            continue
        yield Idea(
            "clock-jump", service, f"{path} gives {service} another time", 0.96, path,
            lines(odd, spoken, text.splitlines()[0], *told), (),
            (put_away(path), case.restart(service)), taken_out(path), PREVENT,
        )  # fmt: skip
        return


def _asked(case: Case, service: str, odd: str, spoken: str) -> Iterator[Idea]:
    """What time it is for a service, by its answers and by what its process was given."""
    pids, ports = case.pids(service)[:2], case.ports(service)[:2]
    looks = [*(date_of(port) for port in ports), *(given(pid) for pid in pids)]
    looks += [probes.show(path) for path in (*case.wrappers(service), *case.configs(service)[:2])]
    if wants := case.missing(looks):
        claim = f"{service} may live at another time than the machine"
        yield Idea("clock-jump", service, claim, 0.55, service, lines(odd, spoken), wants)
        return
    off = _date(case, ports)
    faked = next((x for pid in pids for x in case.text(given(pid)).splitlines() if x), "")
    where = _setting_file(case, service, faked)
    if faked and not where:
        faketime = "FAKETIME" in faked.upper()
        words = ("FAKETIME", "faketime") if faketime else (faked.partition("=")[0],)
        if wants := case.missing(probes.mentions(word) for word in words):
            claim = f"something gives {service} {faked.partition('=')[0]}"
            yield Idea("clock-jump", service, claim, 0.6, service, lines(odd, faked), wants)
            return
        told = [x for word in words for x in case.text(probes.mentions(word)).splitlines()]
        where = next((path for line in told if _gives(path := line.partition(":")[0])), "")
        if where and FAKED.search(faked):
            row = next(x for x in told if x.startswith(where)).split(":", 2)[-1]
            yield from _truing(case, service, where, row, odd or off, spoken)
            return
    behind = odd and (spoken or faked) and not _is_in_step(case, ports)
    if (off or behind) and not any(True for _ in _faked(case, service)):
        definition = case.definition(service)
        copy = earlier(case, where) if where else None
        fix: tuple[str, ...] = (case.restart(service),)
        if copy is not None and copy.path:
            fix = (*put_back(where, copy.path), case.restart(service))
        yield Idea(
            "clock-jump", service, f"{service} lives at another time than the machine", 0.72,
            where or (definition.path if definition else service), lines(off, odd, spoken, faked),
            copy.wants if copy else (), fix, undo_of(where) if where else "", PREVENT,
        )  # fmt: skip


def _gives(path: str) -> bool:
    """Whether a file may give processes their environment."""
    return not re.search(r"\.(?:log|md|txt|py|so|replaced)$|/share/|/doc/", path)


def date_of(port: int) -> str:
    return (
        f"date -u '+%a, %d %b %Y %T GMT'; curl -sI -m 3 http://127.0.0.1:{port}/ | grep -i '^date:'"
    )


def given(pid: int) -> str:
    """What of a process' environment has to do with time."""
    return f"tr '\\0' '\\n' < /proc/{pid}/environ | grep -iE 'fake|preload|^TZ=|clock|offset|skew'"


def _date(case: Case, ports: list[int]) -> str:
    """The answer of a port that is from another time."""
    return next((row for row, apart in _dates(case, ports) if abs(apart) > CLOCK_SECONDS), "")


def _is_in_step(case: Case, ports: list[int]) -> bool:
    """Whether a port says itself that its time is that of the machine."""
    return any(abs(apart) <= CLOCK_SECONDS for _, apart in _dates(case, ports))


def _dates(case: Case, ports: list[int]) -> Iterator[tuple[str, float]]:
    """What ports say of their time, and by how much that is another one than the machine's."""
    for port in ports:
        rows = case.text(date_of(port)).splitlines()
        told = next((row for row in rows if row.lower().startswith("date:")), "")
        try:
            then = parsedate_to_datetime(told.partition(": ")[2]).timestamp()
            yield told, then - parsedate_to_datetime(rows[0]).timestamp()
        except (ValueError, TypeError, IndexError):
            continue


def _setting_file(case: Case, service: str, faked: str) -> str:
    """The file that gave a process what it has."""
    name = faked.partition("=")[0]
    files = [*case.wrappers(service), *case.configs(service)]
    definition = case.definition(service)
    files += [definition.path] if definition else []
    return next((path for path in files if name and name in case.content(path)), "")


def _odd_time(case: Case, service: str) -> str:
    """A line of its log that is of another time: of one to come, or far behind the time at which
    the log was written."""
    if not case.now:
        return ""
    for line in reversed(case.entries(service)):
        if line.at - case.now > CLOCK_SECONDS and stamp(line.text, case.now):
            return line.text
    pids = case.pids(service)
    began = case.now - max((one.age for one in case.processes if one.pid in pids), default=0)
    for path, row in case.log_rows.items():
        if row.time < began + YOUNG:
            continue  # what came before it is of others
        own = [line for line in case.entries(service) if line.path == path]
        if not own or not stamp(own[-1].text, case.now):
            continue
        if row.time - own[-1].at > CLOCK_SECONDS and case.now - row.time < CLOCK_SECONDS:
            return own[-1].text
    return ""


RULES = (clock,)
