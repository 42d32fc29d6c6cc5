"""A service says itself which of its settings it does not take: that one line is led right, by what
it would take, by what others have there, or by the word that is nearly the same; where nothing
tells what would be right, the line is put out, so that what it does by itself counts."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.rules.complaints import (
    Complaint,
    alike,
    choices_in,
    in_the_way,
    read,
)
from hermes_agent.models.responder.rules.config import PREVENT, is_near, reread, swapped
from hermes_agent.models.responder.rules.ideas import Idea, lines, put_away, taken_out, undo_of
from hermes_agent.models.responder.view import parse, probes, settings
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import CODE

SAID, AFTER, MOST, REPEATED = 40, 3, 3, 6
"""Lines of its log that are read, those after a complaint that may say more, complaints, and lines
that may be rows of settings."""
_REPEATS = re.compile(r"(?:.{0,60}(?:>+|:)\s*)?(?P<mark>[\"'`]?)(?P<row>\S.*?)(?P=mark)$")
_REMARK = re.compile(r"^\s*(?:#+|;+|//)\s?")
_KEY = re.compile(r"^\s*(?:export\s+|set\s+|-\s+)?[\"']?([A-Za-z_][\w.-]*)[\"']?\s*(?:[=:]|\s)")
_QUOTED = re.compile(r"[\"']([A-Za-z_][\w.-]{2,})[\"']")
_OPENS = re.compile(r"[{\[(,\\]\s*$")
_EACH_ITS_OWN = re.compile(
    r"port|listen|bind|name|\bid\b|log|path|dir|store|file|url|host|addr|key|pass|token|user",
    re.IGNORECASE,
)
"""Settings in which services differ by right."""
_GUARDS = re.compile(
    r"auth|allow|deny|secur|tls|ssl|verif|passw|token|secret|acl|permi|limit|max|quota|trust|cert",
    re.IGNORECASE,
)
_KEEPS_OUT = re.compile(r"auth|allow|deny|secur|tls|ssl|verif|acl|permi|trust|cert", re.IGNORECASE)
"""Settings of which one service may need more than all others."""
_NEVER = re.compile(r"^/(?:proc|dev|sys|usr|bin|lib)/|\.(?:db|sqlite3?|sock|key|crt|pem)$")
MARK_BYTES = 4096
"""A file that is bigger is more than a mark."""
SURE, FAIR, POOR = 0.78, 0.64, 0.5


class _Row(Struct, frozen=True):
    """A line of one of its files."""

    path: str
    text: str

    @property
    def key(self) -> str:
        found = _KEY.match(self.text)
        return found[1] if found else ""


def told(case: Case) -> Iterator[Idea]:
    """What its log says of a setting is heeded."""
    for service in case.suspects:
        if not is_near(case, service):
            continue
        for one in [*_complaints(case, service), *_repeated(case, service)][:MOST]:
            yield from _heeded(case, service, one)


def halted_by(case: Case) -> Iterator[Idea]:
    """It says that it does nothing because of a file that is there: a mark that somebody, or what
    was down before, left behind. Who has it open needs it still."""
    for service in case.suspects:
        for line in case.troubles(service)[:SAID]:
            path = in_the_way(line)
            if not path or CODE.search(path) or settings.is_config(path) or _NEVER.search(path):
                continue
            look, open_by = probes.rows(path), probes.holders(path)
            rows = list(parse.listing(case.text(look)))
            wants = case.missing((look, open_by))
            if not wants and (not rows or parse.holders(case.text(open_by))):
                continue
            small = len(rows) == 1 and rows[0].mode[0] == "-" and rows[0].size <= MARK_BYTES
            fix = (put_away(path), case.restart(service))
            lock = re.search(r"lock|pid", path, re.IGNORECASE) is not None
            yield Idea(
                "stale-lock" if lock else "cascading-failure", service,
                f"{service} does nothing as long as {path} is there", 0.61, path,
                lines(line, rows[0].line if rows else ""), wants, fix if small else (),
                taken_out(path), ("let marks of this kind end by themselves",),
            )  # fmt: skip
            break


def _complaints(case: Case, service: str) -> Iterator[Complaint]:
    """What it complains of, last first; what it would take may be said in a line of its own."""
    said = [line for _, line in case.log(service)][-SAID:]
    grave = set(case.troubles(service))
    known = set[tuple[str, str, str]]()
    for at in range(len(said) - 1, -1, -1):
        one = read(said[at]) if said[at] in grave else None
        if one is None or (one.kind, one.name, one.value) in known:
            continue
        known.add((one.kind, one.name, one.value))
        more = choices_in(" ".join(said[at : at + AFTER])) if not one.choices else one.choices
        yield Complaint(one.kind, one.name, one.value, more, one.path, one.row, one.line)


def _repeated(case: Case, service: str) -> Iterator[Complaint]:
    """Rows of its settings that its last words repeat as they stand there: it does not take them,
    for their names where nobody else has such a one, else for what they say."""
    program = case.programs.get(service)
    last = case.troubles(service)[:REPEATED]
    if program is None or program.up:
        return
    known = {_plain(key) for key in _known_keys(case, service)}
    for line in last:
        told = _REPEATS.match(line.strip())
        rows = [row for row in _rows(case, service) if told and row.text.strip() == told["row"]]
        for row in [one for one in rows if one.key and not _REMARK.match(one.text)][:1]:
            value = row.text.strip().removeprefix(row.key).strip(" \t=:\"'")
            if _plain(row.key) in known:
                yield Complaint("invalid", row.key, value, choices_in(" ".join(last)), line=line)
            else:
                yield Complaint("unknown", row.key, line=line)


def _heeded(case: Case, service: str, one: Complaint) -> Iterator[Idea]:
    rows = [row for row in _rows(case, service) if _is_meant(row, one)]
    code = next((path for path in case.named(service) if CODE.search(path)), "")
    wants = case.missing((probes.show(code),)) if code and one.kind != "invalid" else ()
    for row, new, sure in _mended(case, service, one, rows):
        if wants and sure < SURE:
            break
        definition = case.definition(service)
        is_entry = definition is not None and definition.path == row.path
        anew = reread(case, service) if is_entry else (case.restart(service),)
        what = f"{one.name or row.key} of {service} in {row.path}"
        how = f"is {one.value!r}" if one.kind == "invalid" else f"is {one.kind}"
        yield Idea(
            "bad-config", service, f"{what} {how}, which it does not take", sure, row.path,
            lines(one.line, row.text), (),
            (*swapped(row.path, row.text, new, whole=True), *anew),
            undo_of(row.path), PREVENT,
        )  # fmt: skip
    if wants:
        yield Idea(
            "bad-config", service, f"{service} does not take {one.name or one.value}", POOR,
            one.path or service, lines(one.line), wants,
        )  # fmt: skip


def _rows(case: Case, service: str) -> list[_Row]:
    """The lines of all its files that were read, each that stands there once."""
    definition = case.definition(service)
    files = [*(path for path, _ in case.sources(service)), *case.wrappers(service)]
    found = list[_Row]()
    for path in dict.fromkeys(files):
        text = case.content(path)
        if definition is not None and path == definition.path:
            text = "\n".join(parse.files(case.text(probes.PROGRAMS)).get(path, []))
        rows = text.splitlines()
        found += [_Row(path, row) for row in rows if row.strip() and rows.count(row) == 1]
    return found


def _is_meant(row: _Row, one: Complaint) -> bool:
    if _REMARK.match(row.text):
        return False
    if one.kind == "invalid":
        token = rf"(?<![\w.-]){re.escape(one.value)}(?![\w.-])"
        return bool(one.value) and re.search(token, row.text) is not None
    return _plain(row.key) == _plain(one.name)


def _plain(name: str) -> str:
    return re.sub(r"[-_.\s]", "", name.rpartition(".")[2]).lower()


def _mended(
    case: Case, service: str, one: Complaint, rows: list[_Row]
) -> Iterator[tuple[_Row, str, float]]:
    """A line, what it should be, and how sure that is."""
    if one.kind == "missing":
        yield from _supplied(case, service, one)
        return
    named = [row for row in rows if _plain(row.key) == _plain(one.name)]
    rows = named or rows
    if len(rows) != 1:
        return
    row = rows[0]
    if one.kind == "unknown":
        right = alike(row.key, [*one.choices, *_known_keys(case, service)])
        if right:
            yield row, row.text.replace(row.key, right, 1), SURE
    else:
        theirs = "" if _KEEPS_OUT.search(row.key) else _theirs(case, service, row.key)
        right = alike(one.value, one.choices) or theirs or alike(one.value, _values(case, row.key))
        if right and right != one.value:
            yield row, row.text.replace(one.value, right, 1), SURE
    if _may_go(row):
        yield row, f"# {row.text.strip()}", FAIR if one.kind == "unknown" else POOR


def _may_go(row: _Row) -> bool:
    """Whether a line can be put out without breaking what is around it."""
    name = PurePosixPath(row.path).name
    if name.endswith((".json", ".xml", ".sh", ".bash")) or "." not in name:
        return False
    bare = row.text.strip()
    if _GUARDS.search(bare):
        return False  # what keeps people out, or keeps something small, is not put out
    return not _OPENS.search(bare) and bare[:1] not in "{}[]()" and bool(row.key)


def _known_keys(case: Case, service: str) -> list[str]:
    """Names that the program knows: as its code and the settings of others have them."""
    found = [key.rpartition(".")[2] for other in case.services if other != service
             for key in case.settings(other)]  # fmt: skip
    for path in case.named(service):
        if CODE.search(path):
            found += _QUOTED.findall(case.content(path))
    return list(dict.fromkeys(found))


def _theirs(case: Case, service: str, key: str) -> str:
    """What all others have there that have such a setting; empty where they do not agree."""
    if _EACH_ITS_OWN.search(key):
        return ""
    values = [
        value
        for other in case.services
        if other != service and case.programs.get(other) is not None and case.programs[other].up
        for own, value in case.settings(other).items()
        if _plain(own) == _plain(key)
    ]
    return values[0] if values and len(set(values)) == 1 else ""


def _values(case: Case, key: str) -> list[str]:
    return [
        value
        for service in case.services
        for own, value in case.settings(service).items()
        if _plain(own) == _plain(key)
    ]


def _supplied(case: Case, service: str, one: Complaint) -> Iterator[tuple[_Row, str, float]]:
    """A setting that is missed: it was put out as a remark, or is misspelt."""
    rows = _rows(case, service)
    for row in rows:
        bare = _REMARK.sub("", row.text, count=1)
        if _REMARK.match(row.text) and _plain(_Row("", bare).key) == _plain(one.name):
            yield row, bare, SURE
            return
    keys = {row.key: row for row in rows if row.key and not _REMARK.match(row.text)}
    used = set(_known_keys(case, service))
    wrong = alike(one.name, [key for key in keys if key not in used])
    if wrong:
        row = keys[wrong]
        yield row, row.text.replace(wrong, one.name, 1), SURE


RULES = (told, halted_by)
