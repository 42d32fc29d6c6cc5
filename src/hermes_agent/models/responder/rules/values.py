"""A setting that leads nowhere, while what is meant is there: a folder whose name is misspelt, an
address that the machine does not have."""

import difflib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules.config import is_near, reread, swapped
from hermes_agent.models.responder.rules.ideas import Idea, lines, undo_of
from hermes_agent.models.responder.rules.limits import limits
from hermes_agent.models.responder.rules.meant import meant
from hermes_agent.models.responder.rules.routes import astray
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case, paths_in

_GONE = re.compile(
    r"no such (?:file|dir)|ENOENT|does not exist|doesn't exist|not found|cannot (?:find|open)"
    r"|not a directory",
    re.IGNORECASE,
)
_NOT_HERE = re.compile(
    r"cannot assign requested address|EADDRNOTAVAIL|errno 99|can't assign requested", re.IGNORECASE
)
_ADDRESS = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,3}){3})(?![\d.])")
ANY = ("0.0.0.0", "127.0.0.1")
CLOSE = 0.75
"""How alike names must be of which one is taken for the other."""
PREVENT = ("test a configuration before it is loaded",)


def values(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        if is_near(case, service):
            yield from _misspelt(case, service)
            yield from _not_here(case, service)


def _misspelt(case: Case, service: str) -> Iterator[Idea]:
    """A folder or file that is not there, and beside its place one that is called nearly so."""
    troubles = [line for line in [*case.troubles(service)[:8], case.symptom] if _GONE.search(line)]
    spoken = [path for line in troubles for path in paths_in(line)]
    for path, told in case.sources(service):
        for key, value in told.items():
            place = value.rstrip("/")
            said = next((x for x in spoken if x == place or x.startswith(f"{place}/")), "")
            if not re.fullmatch(r"/[\w.@+-]+(?:/[\w.@+-]+)+", place) or not said:
                continue
            here = PurePosixPath(place)
            beside = probes.rows(str(here.parent))
            if wants := case.missing((beside,)):
                yield Idea("bad-config", service, f"{key} of {service} may be misspelt", 0.6, path,
                           lines(*troubles[:1]), wants)  # fmt: skip
                continue
            rows = [x for x in parse.listing(case.text(beside)) if x.own not in (".", "..")]
            names = [x.own for x in rows if not probes.BACKUPS.search(x.own)]
            right = difflib.get_close_matches(here.name, names, 1, CLOSE)
            if here.name in names or not right:
                continue
            yield from _led_right(
                case, service, path, value, str(here.parent / right[0]), f"{key} leads to {value}",
                next(x for x in troubles if said in x),
            )  # fmt: skip


def _not_here(case: Case, service: str) -> Iterator[Idea]:
    """It is to listen at an address that is another machine's."""
    said = next((x for x in case.said_ever(service, _NOT_HERE.pattern)), "")
    if not said:
        return
    if wants := case.missing((probes.LINKS,)):
        yield Idea("bad-config", service, f"{service} is to listen at an address that is not here",
                   0.7, service, lines(said), wants)  # fmt: skip
        return
    check = case.brief.check.command if case.brief.check else ""
    asked = [one for one in _ADDRESS.findall(check) if one in case.text(probes.LINKS)]
    for path, told in case.sources(service):
        for key, value in told.items():
            for wrong in _ADDRESS.findall(value):
                own = wrong in ANY or wrong in case.text(probes.LINKS) or "://" in value
                if own or (wrong in said) < bool(_ADDRESS.search(said)):
                    continue
                right = value.replace(wrong, (asked or [ANY[1]])[0])
                claim = f"{key} is {value}, an address that is not here"
                yield from _led_right(case, service, path, value, right, claim, said)


def _led_right(
    case: Case, service: str, path: str, value: str, right: str, claim: str, said: str
) -> Iterator[Idea]:
    """The row that says so is changed in this one word."""
    rows = [row for row in case.content(path).splitlines() if value in row]
    definition = case.definition(service)
    entry = definition is not None and path == definition.path
    if entry and definition is not None:
        rows = [
            row
            for own, texts in parse.files(case.text(probes.PROGRAMS)).items()
            for row in texts
            if own == path and value in row
        ]
    if len(rows) != 1:
        return
    fix = swapped(path, rows[0], rows[0].replace(value, right))
    yield Idea(
        "bad-config", service, f"{path} of {service} is wrong: {claim}, and {right} is there",
        0.9, path, lines(said, rows[0]), (),
        (*fix, *(reread(case, service) if entry else (case.restart(service),))), undo_of(path),
        PREVENT,
    )  # fmt: skip


RULES = (values, limits, meant, astray)
