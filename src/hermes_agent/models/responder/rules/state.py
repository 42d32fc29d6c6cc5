"""A file in which a service keeps something is damaged, and it ends on it: the last good copy is
put in its place, or one piece of work of many is put aside."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules.ideas import (
    KEEP,
    Idea,
    keeping,
    lines,
    put_away,
    put_back,
    taken_out,
    undo_of,
)
from hermes_agent.models.responder.rules.poison import choked
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case, paths_in
from hermes_agent.models.responder.view.house import CODE, LOG, SECRET, SHARED, SYSTEM
from hermes_agent.models.responder.view.settings import is_config
from hermes_agent.models.responder.view.versions import SHELVES

_DAMAGED = re.compile(
    r"damaged|corrupt|truncat|malformed|unterminated|Expecting \w+|JSONDecodeError|EOFError|"
    r"\bEOF\b|short read|premature|incomplete|garbage|wrong (?:length|size|magic)|bad checksum|"
    r"well-formed|no element found|ends in the middle|unpack requires|inconsistent|make sense of|"
    r"unexpected (?:end|EOF|character|token)|invalid (?:JSON|header|magic|page|checksum|record|"
    r"continuation)|bad magic|(?:checksum|CRC|digest)\w* (?:mismatch|error|fail)|not a database|"
    r"Unpickling|codec can't decode|cannot (?:parse|decode|load|read) |(?:could not|failed to) "
    r"(?:parse|decode|load|restore|deserialize)|is (?:empty|not valid)|zero[- ]length|unreadable",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"permission|EACCES|Errno 13|no such file|ENOENT|no space|too many open|timed? ?out|refused|"
    r"locked|busy|is a directory|input/output|read-only|readonly|memory",
    re.IGNORECASE,
)
"""Why a file may not be read that is whole."""
_SURELY = re.compile(r"damaged|corrupt|malformed|not a database|checksum|bad magic", re.IGNORECASE)
_UNFINISHED = re.compile(r"[._-](tmp|new|part|partial|swp|temp)$|^\.")
_NO_COPY = re.compile(
    r"corrupt|broken|damaged|bad|torn|[._-](lo?ck|pid|sock|idx|index|wal|shm|journal|log|md5|sha\d+|sum"
    r"|sig|asc|tmp)$"
)
"""What is called as the file and a word more, and is no copy of it."""
_MADE_AGAIN = re.compile(r"cache|index|thumb|tmp|temp|session", re.IGNORECASE)
_JSON = re.compile(r"JSON|Expecting|Unterminated|delimiter|unexpected (?:end|token)", re.IGNORECASE)
ELSEWHERE = "/mnt /mnt/* /backup /backups"
"""Where copies may lie, too."""
MANY = 3
"""Files of a folder of which one more or less is one piece of work."""


def damaged(case: Case) -> Iterator[Idea]:
    """What it says of a file that it keeps, or the file of that kind that its settings name."""
    for service in case.suspects:
        program = case.programs.get(service)
        if program is None or (program.up and service != case.brief.service):
            continue
        told = _SURELY if program.up else _DAMAGED
        said = [one for one in case.troubles(service)[:8] if told.search(one)]
        line = next((one for one in said if not _OTHERWISE.search(one)), "")
        if not line:
            continue
        named = [path for path in paths_in(line) if _may_be(case, service, path)]
        if not named and _JSON.search(line):
            named, wants = _unreadable(case, service)
            if wants:
                yield Idea("service-crash", service, f"{service} ends on a file it cannot read",
                           0.64, service, lines(line), wants)  # fmt: skip
        known = [path for path in case.named(service) if _may_be(case, service, path)]
        for path in dict.fromkeys([*named, *(known if not named else [])][:4]):
            yield from _mending(case, service, path, line, path in named)


def _unreadable(case: Case, service: str) -> tuple[list[str], tuple[str, ...]]:
    """Files in folders that it is told of which are no JSON; and what to look at to know."""
    folders = [one for one in case.named(service) if _may_hold(case, service, one)]
    if not folders:
        return [], ()
    named = " ".join(shlex.quote(one) for one in folders[:6])
    look = (
        f"find {named} -maxdepth 1 -type f -size -200k ! -name '*.log' 2>/dev/null | sort | "
        'head -n 200 | while read -r f; do python3 -m json.tool "$f" >/dev/null 2>&1 || '
        'echo "$f"; done'
    )
    found = [row for row in case.text(look).splitlines() if row.startswith("/")]
    return (found if len(found) <= MANY else []), case.missing((look,))


def _may_hold(case: Case, service: str, path: str) -> bool:
    """Whether it may be a folder of pieces of work."""
    return not (
        CODE.search(path) or LOG.search(path) or path.startswith((*SYSTEM, "/etc/"))
        or path == case.directory(service) or path in case.configs(service)
    )  # fmt: skip


def _may_be(case: Case, service: str, path: str) -> bool:
    """Whether it may be a file in which something is kept."""
    started = path in case.command(service) and is_config(path)
    odd = CODE.search(path) or LOG.search(path) or SECRET.search(path) or path in SHARED
    return not (started or odd or path.startswith((*SYSTEM, "/etc/"))) and "." in path


def beside(path: str) -> str:
    """A file, and all that lie beside it and are called as it is."""
    here = PurePosixPath(path)
    folder, name = shlex.quote(str(here.parent)), here.name
    likes = [f"-name {shlex.quote(one)}" for one in (f"{name}*", f".{name}*", f"{here.stem}[._-]*")]
    near = f"find {folder} -maxdepth 3 -type f"
    return (
        rf"{near} \( {' -o '.join(likes)} \) -printf '%s %T@ %u %p\n'; "
        rf"find {probes.KEPT_IN} {ELSEWHERE} -xdev -type f -name {shlex.quote(f'*{name}*')} "
        rf"{probes.TRUSTED} -printf '%s %T@ %u %p\n' 2>/dev/null; {near} | wc -l"
    )


def _mending(case: Case, service: str, path: str, line: str, said: bool) -> Iterator[Idea]:
    look = beside(path)
    wants = case.missing((look, probes.rows(path)))
    claim = f"{path}, in which {service} keeps something, is damaged"
    if wants:
        yield Idea(
            "service-crash", service, claim, 0.66 if said else 0.55, path, lines(line), wants
        )
        return
    rows = list(parse.sizes(case.text(look)))
    own = next((row for row in rows if row.path == path), None)
    if own is None:
        return
    copy = _best([row for row in rows if _is_copy(case, service, row, own)], own)
    row = next(iter(parse.listing(case.text(probes.rows(path)))), None)
    seen = lines(line, row.line if row else own.line, copy.line if copy else "")
    if copy is not None:
        yield Idea(
            "service-crash", service, f"{claim}; {copy.path} is the last good one",
            0.87 if said else 0.72, f"{path}, from {copy.path}", seen, (),
            (*put_back(path, copy.path), case.restart(service)),
            undo_of(path), ("write such files anew and rename them, and keep the last",),
        )  # fmt: skip
    elif said and _is_one_of_many(case, service, path, look):
        yield Idea(
            "service-crash", service, f"{service} ends on {path}, one piece of its work", 0.8, path,
            seen, (), (put_away(path), case.restart(service)), taken_out(path),
            ("let what cannot be read be put aside by itself",),
        )  # fmt: skip
    elif _JSON.search(line) and path in case.named(service) and not path.endswith(".json"):
        yield from _unended(case, service, path, line)


def ends(path: str) -> str:
    """Whether a file is one of JSON in each line whose last line was not ended."""
    own = shlex.quote(path)
    parses = "python3 -m json.tool >/dev/null 2>&1"
    return (
        f"n=$(wc -l < {own}); head -n 1 {own} | {parses} && head -n $n {own} | tail -n 1 | "
        f'{parses} && ! tail -n 1 {own} | {parses} && [ "$(tail -c 1 {own} | wc -l)" = 0 ] && '
        f'echo "the last line of {own} was not ended, after $n lines"'
    )


def _unended(case: Case, service: str, path: str, line: str) -> Iterator[Idea]:
    """What it adds to line by line ends in the middle of one: that was never kept whole."""
    look = ends(path)
    told = next(iter(case.text(look).splitlines()), "")
    wants = case.missing((look,))
    if wants or told.startswith("the last line of"):
        yield Idea(
            "service-crash", service, f"the last line of {path} of {service} was not ended",
            0.64 if wants else 0.84, path, lines(line, told), wants,
            () if wants else (keeping(path), f"sed -i '$d' {shlex.quote(path)}",
                              case.restart(service)),
            undo_of(path), ("let a line that was not ended be left out at the start",),
        )  # fmt: skip


def _is_copy(case: Case, service: str, row: parse.Sized, own: parse.Sized) -> bool:
    """Whether it may be a copy of what a service keeps: neither what another keeps by the same
    name, nor what was taken of the wreck, nor what lies elsewhere and is not marked so."""
    here, path = PurePosixPath(own.path), PurePosixPath(row.path)
    parts = path.parent.parts
    others = [one for one in case.services if one != service and one in parts]
    wreck = row.size == own.size and row.time >= own.time
    near = here.parent in (path.parent, path.parent.parent)
    if row.path == own.path or not row.size or wreck or (others and service not in parts):
        return False
    kin = here.stem == service or service in parts or bool({*here.parts[2:-1]} & {*parts})
    return near or (_is_marked(row.path) and kin)


def _best(copies: list[parse.Sized], own: parse.Sized) -> parse.Sized | None:
    """The newest of the copies that are kept, before one that was not finished; the wreck itself
    is no copy."""
    kept = [
        row for row in copies if not row.path.startswith(KEEP) and not _NO_COPY.search(row.path)
    ]
    whole = [row for row in kept if not _UNFINISHED.search(PurePosixPath(row.path).name)]
    marked = [row for row in whole if _is_marked(row.path)]
    later = [row for row in kept if row not in whole and row.time >= own.time]
    return max(marked or later, key=lambda row: row.time, default=None)


def _is_marked(path: str) -> bool:
    """Whether it is a copy by its name, or by the folder in which it was put away."""
    folders = PurePosixPath(path).parts[1:-1]
    return probes.BACKUPS.search(path) is not None or any(map(SHELVES.search, folders))


def _is_one_of_many(case: Case, service: str, path: str, look: str) -> bool:
    """Whether its settings name the folder and not the file, or what is in it is made again."""
    if path in case.named(service):
        return bool(_MADE_AGAIN.search(path))
    count = case.text(look).split()
    return bool(count) and count[-1].isdigit() and int(count[-1]) >= MANY


RULES = (damaged, choked)
