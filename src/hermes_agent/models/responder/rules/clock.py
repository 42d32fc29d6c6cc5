"""A service, or the machine, lives at another time."""

import re
import shlex
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from hermes_agent.models.responder.rules.cascade import chain
from hermes_agent.models.responder.rules.config import is_near, reread
from hermes_agent.models.responder.rules.ideas import (
    Idea,
    earlier,
    keeping,
    lines,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules.sed import basic, extended
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case, stamp

CLOCK_SECONDS = 120.0
_FAKED = re.compile(r"FAKETIME|faketime", re.IGNORECASE)
_SHIFTED = re.compile(
    r"(?:^|[._-])(?:fake|mock|frozen?|freeze|travel|warp|shift(?:ed)?)?[._-]?"
    r"(?:time|clock|now|date|epoch)[._-]?(?:offset|shift|skew|travel|warp|drift|delta|ahead|behind|"
    r"override|fake|mock|freeze|frozen|adjust\w*|correction|add)\w*$"
    r"|(?:fake|mock|frozen|freeze|override|travel|pretend)\w*[._-]?(?:time|clock|now|date|today)$",
    re.IGNORECASE,
)
"""Settings that give a program another time."""
_SHIFT_FILE = re.compile(
    r"(?:clock|time|skew|offset|drift)\w*?[._-]?(?:file|path|source|from)$", re.IGNORECASE
)
SHORT = 200
"""Letters of a file that says no more than a number."""
_LIMIT = re.compile(r"max|allow|toler|limit|accept|warn|alert|permit|grace", re.IGNORECASE)
_NOTHING = re.compile(r"(?i)[+-]?0*(?:\.0+)?\s*(?:[smhd]|ms|sec\w*)?|false|no|off|none|null|")
_SKEW = (
    r"clock|skew|in the future|in the past|not yet valid|from now|timestamp|too (?:old|new|early)"
    r"|(?:ahead|behind)\b|time (?:drift|differ|offset)|issued .*(?:time|ago)|replay|stale (?:token|"
    r"request|signature)|\biat\b|\bnbf\b|expired (?:token|signature|ticket)|signature expired"
)
_TRUE_TIME = (
    'sed -i -E \'s/,?\\s*(LD_PRELOAD|FAKETIME\\w*)=("[^"]*"|[^, ]*)//g; '
    "s/^(environment\\s*=)\\s*,\\s*/\\1/; s/(^|[ =])(\\/\\S*\\/)?faketime (-\\S+ )*"
    '("[^"]*"|\\x27[^\\x27]*\\x27|\\S+) /\\1/\''
)
"""Takes another time out of how a program is started."""
PREVENT = ("watch the offset of clocks", "keep test settings out of production")


def clock(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        if not _concerns(case, service):
            continue  # it may be meant to live at another time
        odd = _odd_time(case, service)
        spoken = next(case.said_ever(service, _SKEW), "") or _symptom(case, service)
        for path, line in _faked(case, service):
            yield from _truing(case, service, path, line, odd, spoken)
        yield from _shifted(case, service, odd, spoken)
        yield from _shifted_by(case, service, odd, spoken)
        if is_near(case, service) and (spoken or odd or _symptom(case, "")):
            yield from _asked(case, service, odd, spoken)


def _concerns(case: Case, service: str) -> bool:
    """Whether the alert may be about it: its own service, what that needs, and who needs that; all,
    where its own is none that is looked after."""
    own = case.brief.service
    return own not in case.services or service in chain(case, own) or own in chain(case, service)


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
            if _FAKED.search(line):
                yield definition.path, _as_written(case, definition.path, line)
    files = [*case.wrappers(service), *case.configs(service), *case.named(service)]
    for path in dict.fromkeys(files):
        for line in case.content(path).splitlines():
            if _FAKED.search(line) and not line.lstrip().startswith("#"):
                yield path, line


def _as_written(case: Case, path: str, line: str) -> str:
    name = line.partition("=")[0]
    rows = case.content(path).splitlines()
    return next((x for x in rows if x.startswith(name) and _FAKED.search(x)), line)


def _truing(
    case: Case, service: str, path: str, line: str, odd: str, spoken: str
) -> Iterator[Idea]:
    """Another time is taken out of a file that starts it."""
    definition = case.definition(service)
    is_entry = definition is not None and path == definition.path
    copy = earlier(case, path)
    own = shlex.quote(path)
    if copy.path and any(_FAKED.search(one) for one in copy.changes if one[0] == ">"):
        fix = put_back(path, copy.path)
    elif is_entry:
        fix = (keeping(path), f"{_TRUE_TIME} {own}")
    else:
        gone = f"sed -i -E '/^\\s*(export\\s+)?(LD_PRELOAD|FAKETIME\\w*)=/d' {own}"
        fix = (keeping(path), gone, f"{_TRUE_TIME} {own}")
    offset = re.search(r"FAKETIME_TIMESTAMP_FILE=\"?(/[^\",\s]+)", line)
    fix += reread(case, service) if is_entry else (case.restart(service),)
    yield Idea(
        "clock-jump", service, f"{service} lives at another time than the machine",
        0.8 + 0.15 * bool(odd or spoken), offset[1] if offset else path,
        lines(odd, spoken, line), copy.wants, fix, undo_of(path), PREVENT,
    )  # fmt: skip


def _shifted(case: Case, service: str, odd: str, spoken: str) -> Iterator[Idea]:
    """A setting of its own gives it another time."""
    definition = case.definition(service)
    for path, values in case.sources(service):
        for key, value in values.items():
            name = key.rpartition(".")[2]
            if not _SHIFTED.search(name) or _LIMIT.search(name) or _NOTHING.fullmatch(value):
                continue
            row = next((x for x in case.content(path).splitlines() if name in x and value in x), "")
            is_entry = definition is not None and path == definition.path
            copy = earlier(case, path)
            before = [x for x in copy.changes if x[0] == "<"]
            if copy.path and any(name in one for one in copy.changes) and len(before) <= 2:
                fix = put_back(path, copy.path)
            else:
                fix = _zero(path, name, value)
            fix += reread(case, service) if is_entry else (case.restart(service),)
            yield Idea(
                "clock-jump", service, f"{name} of {service} is {value}: it lives at another time",
                0.6 + 0.2 * bool(spoken or odd) + 0.05 * is_near(case, service), path,
                lines(spoken, row, odd), copy.wants, fix, undo_of(path), PREVENT,
            )  # fmt: skip


def _shifted_by(case: Case, service: str, odd: str, spoken: str) -> Iterator[Idea]:
    """A file that it is told of holds by how much its time is another one."""
    for _, values in case.sources(service):
        for key, value in values.items():
            if not _SHIFT_FILE.search(key) or not re.fullmatch(r"/[\w./@+-]+", value):
                continue
            if not (odd or spoken or is_near(case, service)):
                continue
            if wants := case.missing((probes.show(value),)):
                yield Idea("clock-jump", service, f"{value} may give {service} another time", 0.55,
                           value, lines(odd, spoken), wants)  # fmt: skip
                continue
            shown = case.look(probes.show(value))
            text = shown.output if shown is not None and shown.ok else ""
            number = re.search(r"[+-]?\d+(?:\.\d+)?", text)
            if len(text) > SHORT or number is None or float(number[0]) == 0:
                continue
            own, change = shlex.quote(value), f"s/{basic(number[0])}/0/"
            yield Idea(
                "clock-jump", service, f"{value} says by how much {service} lives at another time",
                0.7 + 0.15 * bool(odd or spoken), value, lines(odd, spoken, *text.splitlines()),
                (), (keeping(value), f"sed -i {shlex.quote(change)} {own}",
                     case.restart(service)), undo_of(value), PREVENT,
            )  # fmt: skip


def _zero(path: str, name: str, value: str) -> tuple[str, ...]:
    """Commands that set a number to 0, and leave out what is none."""
    key, old = extended(name), extended(value)
    if re.fullmatch(r"[+-]?[\d.]+\s*\w{0,4}", value):
        change = f"s/({key}[\"']?[ =:]+[\"']?){old}/\\10/I"
    else:
        change = f"/^\\s*(export\\s+)?[\\w.]*{key}\\s*[=:]/Id"
    return keeping(path), f"sed -i -E {shlex.quote(change)} {shlex.quote(path)}"


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
        if where and _FAKED.search(faked):
            row = next(x for x in told if x.startswith(where)).split(":", 2)[-1]
            yield from _truing(case, service, where, row, odd or off, spoken)
            return
    if (off or odd) and not any(True for _ in _faked(case, service)):
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
    for port in ports:
        rows = case.text(date_of(port)).splitlines()
        told = [row.partition(": ")[2] for row in rows if row.lower().startswith("date:")]
        try:
            apart = (
                parsedate_to_datetime(told[0]).timestamp()
                - parsedate_to_datetime(rows[0]).timestamp()
                if told
                else 0.0
            )
        except (ValueError, TypeError, IndexError):
            continue
        if abs(apart) > CLOCK_SECONDS:
            return next(row for row in rows if row.lower().startswith("date:"))
    return ""


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
    for path, row in case.log_rows.items():
        own = [line for line in case.entries(service) if line.path == path]
        if not own or not stamp(own[-1].text, case.now):
            continue
        if row.time - own[-1].at > CLOCK_SECONDS and case.now - row.time < CLOCK_SECONDS:
            return own[-1].text
    return ""


RULES = (clock,)
