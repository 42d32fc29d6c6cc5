"""Settings of a service that give it another time: by how much, by a file, or by a zone."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder.rules.config import is_near, reread, swapped
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
from hermes_agent.models.responder.view.case import Case

_SHIFTED = re.compile(
    r"(?:^|[._-])(?:fake|mock|frozen?|freeze|travel|warp|shift(?:ed)?)?[._-]?"
    r"(?:time|clock|now|date|epoch)[._-]?(?:offset|shift|skew|travel|warp|drift|delta|ahead|behind|"
    r"override|fake|mock|freeze|frozen|adjust\w*|correction|add)\w*$"
    r"|(?:fake|mock|frozen|freeze|override|travel|pretend|simulat\w*)\w*[._-]?(?:time|clock|now|date"
    r"|today)$|(?:^|[._-])(?:(?:test|virtual)[._-]?(?:time|clock|now|date|today)|as_?of|time_?machine"
    r"|skew_(?:by|s|secs?|seconds))$",
    re.IGNORECASE,
)
"""Settings that give a program another time."""
_MAYBE = re.compile(r"test|virtual|simulat|as_?of", re.IGNORECASE)
"""Those among them that many have for other ends: somebody must speak of the time, too."""
SHIFT_FILE = re.compile(
    r"(?:clock|time|skew|offset|drift)\w*?[._-]?(?:file|path|source|from)$", re.IGNORECASE
)
SHORT = 200
"""Letters of a file that says no more than a number."""
_LIMIT = re.compile(r"max|allow|toler|limit|accept|warn|alert|permit|grace", re.IGNORECASE)
NOTHING = re.compile(r"(?i)[+-]?0*(?:\.0+)?\s*(?:[smhd]|ms|sec\w*)?|false|no|off|none|null|")
_ZONE_KEY = re.compile(r"(?:^|[._-])(?:tz|time_?zone|zone_?info)$", re.IGNORECASE)
_ZONE = re.compile(r"[A-Z][A-Za-z]+/[A-Z][\w+/-]+|UTC|GMT|Etc/\S+|[A-Z]{3,4}[+-]?\d{0,2}")
_OFF = re.compile(
    r"\d ?(?:s|secs?|seconds?|min\w*|h|hours?)\b|future|\bpast\b|ahead|behind|not yet|from now"
    r"|too (?:old|new|early|far)|skew|drift|our (?:clock|time)|expired|run out",
    re.IGNORECASE,
)
"""How somebody says that a time is not now."""
PREVENT = ("watch the offset of clocks", "keep test settings out of production")


def shifted(case: Case, service: str, odd: str, spoken: str) -> Iterator[Idea]:
    """A setting of its own gives it another time."""
    definition = case.definition(service)
    heard = bool(spoken or odd)
    for path, values in case.sources(service):
        for key, value in values.items():
            name, whole = key.rpartition(".")[2], ".".join(key.split(".")[-2:])
            if not _SHIFTED.search(whole) or _LIMIT.search(whole) or NOTHING.fullmatch(value):
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
                0.6 + 0.2 * heard + 0.05 * is_near(case, service)
                - 0.2 * (not heard and _MAYBE.search(whole) is not None), path,
                lines(spoken, row, odd), copy.wants, fix, undo_of(path), PREVENT,
            )  # fmt: skip


def shifted_by(case: Case, service: str, odd: str, spoken: str) -> Iterator[Idea]:
    """A file that it is told of holds by how much its time is another one."""
    for _, values in case.sources(service):
        for key, value in values.items():
            if not SHIFT_FILE.search(key) or not re.fullmatch(r"/[\w./@+-]+", value):
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


def zoned(case: Case, service: str, odd: str, spoken: str) -> Iterator[Idea]:
    """It lives in another zone than others and the machine do, and takes that for the time of
    all."""
    if not (odd or spoken):
        return
    for path, values in case.sources(service):
        for key, value in values.items():
            if not _ZONE_KEY.search(key) or not _ZONE.fullmatch(value):
                continue
            theirs = {
                told
                for other in case.services
                if other != service
                for one, told in case.settings(other).items()
                if _ZONE_KEY.search(one) and _ZONE.fullmatch(told)
            }
            guess = "UTC" if not case.offset and (odd or _OFF.search(spoken)) else ""
            right = theirs.pop() if len(theirs) == 1 else guess
            copy = earlier(case, path)
            rows = [
                x for x in case.content(path).splitlines() if value in x and x.strip()[0] != "#"
            ]
            if not right or right == value or len(rows) != 1:
                continue
            if copy.path and any(value in one for one in copy.changes):
                continue  # what was changed of its settings is put back
            definition = case.definition(service)
            is_entry = definition is not None and path == definition.path
            fix = swapped(path, rows[0], rows[0].replace(value, right), whole=True)
            fix += reread(case, service) if is_entry else (case.restart(service),)
            yield Idea(
                "clock-jump", service, f"{key} of {service} is {value}, and {right} elsewhere",
                0.72 + 0.04 * is_near(case, service), path, lines(spoken, rows[0], odd),
                copy.wants, fix, undo_of(path), PREVENT,
            )  # fmt: skip


def _zero(path: str, name: str, value: str) -> tuple[str, ...]:
    """Commands that set a number to 0, and leave out what is none."""
    key, old = extended(name), extended(value)
    if re.fullmatch(r"[+-]?[\d.]+\s*\w{0,4}", value):
        change = f"s/({key}[\"']?[ =:]+[\"']?){old}/\\10/I"
    else:
        change = f"/^\\s*(export\\s+)?[\\w.]*{key}\\s*[=:]/Id"
    return keeping(path), f"sed -i -E {shlex.quote(change)} {shlex.quote(path)}"
