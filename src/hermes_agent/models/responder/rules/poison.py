"""A worker that ends, or stands still, whenever it comes to one piece of its work: that piece is
put aside, so that those behind it get their turn. Nothing is thrown away."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules.ideas import (
    KEEP,
    Idea,
    kept_as,
    lines,
    put_away,
    taken_out,
)
from hermes_agent.models.responder.view import parse, probes, settings
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import CODE, LOG, SECRET, SYSTEM

_OF_PIECE = re.compile(
    r"\b(?:Value|Key|Type|Index|Attribute|Assertion|ZeroDivision|Overflow|Arithmetic|Lookup|"
    r"Unicode\w*|\w*Decode|Parse|Validation|Schema|Decimal|InvalidOperation|Recursion)\w*"
    r"(?:Error|Exception)\b|invalid|malformed|(?:cannot|can't|could not|unable to|failed to) "
    r"(?:parse|convert|decode|read|process|handle|import)|unexpected|panic|segfault|SIGSEGV|SIGABRT"
    r"|core dumped|is not (?:a|an) |out of range|division by zero|NullPointer|undefined",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"permission|EACCES|Errno (?:13|28|24|2)\b|no such file|ENOENT|no space|too many|timed? ?out|"
    r"refused|locked|busy|read-only|readonly|unreachable|no route|resolve|resolution|reset by|"
    r"\b50[0-9]\b|ImportError|ModuleNotFound|SyntaxError|NameError|address already",
    re.IGNORECASE,
)
"""What is not the fault of a piece of work."""
_WORD = re.compile(r"(?<![\w@+./-])(?:/?[\w@+.-]+/)*([\w@+-][\w.@+-]*\w)(?![\w/-])")
_DONE = re.compile(
    r"/(?:done|processed|archive\w*|sent|out|outbox|results?|finished|completed?|rejected|failed|"
    r"bad|dead\w*|quarantine|errors?|old|backups?)/", re.IGNORECASE,
)  # fmt: skip
_STAMP = re.compile(r"^\W*[\d:T,. /+-]{10,40}\W*|\[\d+\]|\bpid\W?\d+")
_VALUE = re.compile(r"[\"'`]([^\"'`]{3,60})[\"'`]")
_ASKED = re.compile(r"\b(?:GET|POST|PUT|PATCH|HEAD|DELETE|OPTIONS) +(?:/|https?:)|\bHTTP/\d")
"""Lines that tell what somebody asked for: who asks does not say which file is moved."""
LAST, MOST, LOOPS = 60, 6, 3
"""Lines of a log that are read, names that are looked for, and how often one that lives must have
come to the same piece."""
BIG = 50_000_000
ENOUGH, LATELY_MINUTES = 2, 240
"""Pieces that were put aside lately, after which it is hardly the pieces."""
PREVENT = ("let what cannot be done be put aside by itself after some tries",)


def choked(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        program = case.programs.get(service)
        if program is None:
            continue
        ends = _ends(case, service)
        line = _said(case, service) or (ends[-1] if ends and not program.up else "")
        folders = _folders(case, service)
        if not line or not folders:
            continue
        told = _announced(case, service)
        names = list(dict.fromkeys(reversed(told)))[:MOST]
        look = pieces(folders, names) if names else ""
        found = [row for row in parse.sizes(case.text(look)) if _is_waiting(row)] if look else []
        if look and (wants := case.missing((look, put_by(folders)))):
            yield Idea("service-crash", service, f"{service} may end on a piece of its work", 0.62,
                       service, lines(line), wants)  # fmt: skip
            continue
        last = next((one for one in names if any(_is_of(row, one) for row in found)), "")
        tries = sum(one == last for one in told)
        if last and last == names[0] and (not program.up or len(ends) > 1 or tries >= LOOPS):
            row = next(row for row in found if _is_of(row, last))
            others = any(one != last for one in told)
            yield from _aside(case, service, row, line, _line_of(case, service, last), others)
        elif not last and not program.up:
            yield from _quoted(case, service, folders, line)


def _said(case: Case, service: str) -> str:
    """What it says of a piece of work; nothing where something else is the matter."""
    said = case.troubles(service)[:6]
    line = next((one for one in said if _OF_PIECE.search(one)), "")
    return "" if any(_OTHERWISE.search(one) for one in said[:3]) else line


def _ends(case: Case, service: str) -> list[str]:
    """How its supervisor saw it end by itself."""
    own = re.compile(rf"exited: {re.escape(service.rpartition(':')[2])} \(.*not expected")
    return [line for line in case.text(probes.SUPERVISOR_LOG).splitlines() if own.search(line)]


def _folders(case: Case, service: str) -> list[str]:
    """Places that its settings name in which pieces of work may lie."""
    base = case.directory(service)
    told = [one for _, values in case.sources(service) for one in values.paths]
    found = [settings.whole(one, base) for one in told]
    return [
        path for path in dict.fromkeys(found)
        if path and path != base and "." not in PurePosixPath(path).name[1:]
        and not (CODE.search(path) or LOG.search(path) or path.startswith((*SYSTEM, "/etc/")))
    ][:4]  # fmt: skip


def _announced(case: Case, service: str) -> list[str]:
    """What it said that it came to, in the order of its log: words that may be names of pieces."""
    entries = case.entries(service)[-LAST:]
    grave = set(case.troubles(service))
    found = list[str]()
    for entry in entries:
        if entry.text in grave or entry.text.startswith((" ", "\t", "Traceback")):
            continue
        if _ASKED.search(entry.text):
            continue
        words = _WORD.findall(_STAMP.sub(" ", entry.text))
        found += [one for one in words if re.search(r"\d|\.\w", one) and len(one) > 2][-2:]
    return found


def pieces(folders: Sequence[str], names: Sequence[str]) -> str:
    """Files that are called so in folders of work."""
    places = " ".join(shlex.quote(folder) for folder in folders)
    likes = " -o ".join(f"-name {shlex.quote(one)} -o -name {shlex.quote(f'{one}.*')}"
                        for one in names)  # fmt: skip
    return (
        rf"find {places} -xdev -maxdepth 3 -type f \( {likes} \) -printf '%s %T@ %u %p\n' "
        "2>/dev/null | head -n 20"
    )


def put_by(folders: Sequence[str]) -> str:
    """What of folders of work was put aside lately."""
    begins = [kept_as(folder).removesuffix(".replaced") for folder in folders]
    likes = " -o ".join(f"-path {shlex.quote(f'{re.escape(one)}-*.replaced*')}" for one in begins)
    return rf"find {KEEP} -maxdepth 1 -cmin -{LATELY_MINUTES} \( {likes} \) -printf '%p\n'"


def _is_of(row: parse.Sized, name: str) -> bool:
    own = PurePosixPath(row.path).name
    return own == name or own.startswith(f"{name}.")


def _is_waiting(row: parse.Sized) -> bool:
    """Whether it may be a piece that is still to be done."""
    path = row.path
    odd = CODE.search(path) or LOG.search(path) or SECRET.search(path) or path.startswith(KEEP)
    kept = re.search(r"\.(?:db|sqlite3?|lock|pid|sock|conf|toml|ini|ya?ml)$", path)
    return not (odd or kept or _DONE.search(path)) and row.size < BIG


def _line_of(case: Case, service: str, name: str) -> str:
    return next((one.text for one in reversed(case.entries(service)) if name in one.text), "")


def _aside(
    case: Case, service: str, row: parse.Sized, line: str, told: str, others: bool
) -> Iterator[Idea]:
    newly = any(CODE.search(path) for path in case.changed(service))
    score = 0.86 if others and not newly else 0.63
    laid = case.text(put_by(_folders(case, service))).splitlines()
    if sum(one.startswith(f"{KEEP}/") for one in laid) >= ENOUGH:
        yield Idea("service-crash", service, f"{service} ends on one piece of its work after the "
                   "other: it may not be them", 0.5, row.path, lines(line, laid[-1]))  # fmt: skip
        return
    yield Idea(
        "service-crash", service, f"{service} ends on {row.path}, one piece of its work", score,
        row.path, lines(line, told, row.line), (), (put_away(row.path), case.restart(service)),
        taken_out(row.path), PREVENT,
    )  # fmt: skip


def quoting(folders: Sequence[str], value: str) -> str:
    """Files that have a text, in folders of work."""
    places = " ".join(shlex.quote(folder) for folder in folders)
    return (
        f"grep -rlIsF -- {shlex.quote(value)} {places} | head -n 6 | while read -r f; do "
        "find \"$f\" -printf '%s %T@ %u %p\\n'; done"
    )


def _quoted(case: Case, service: str, folders: Sequence[str], line: str) -> Iterator[Idea]:
    """It does not say which piece, but what of it it cannot take: the one that has this."""
    value = next((one for one in _VALUE.findall(line) if not re.search(r"[\\\n]", one)), "")
    if not value or (
        case.configs(service) and any(value in case.content(path) for path in case.configs(service))
    ):
        return
    look = quoting(folders, value)
    if wants := case.missing((look, put_by(folders))):
        yield Idea("service-crash", service, f"{service} may end on a piece of its work", 0.61,
                   service, lines(line), wants)  # fmt: skip
        return
    found = [row for row in parse.sizes(case.text(look)) if _is_waiting(row)]
    if len(found) == 1:
        yield from _aside(case, service, found[0], line, "", True)
