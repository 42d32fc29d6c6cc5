"""Pieces of work that lie in folders: which of them somebody cannot get done with."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import CODE, LOG

QUEUE = re.compile(
    r"[\w-]*(queue|spool|inbox|incoming|pending|todo|jobs?|work|tasks?|drop|outbox|ingest"
    r"|processing|waiting)|in|in[-_]progress",
    re.IGNORECASE,
)
"""Folders in which work waits."""
DONE = re.compile(
    r"/(done|finished|processed|results?|sent|archived?|out|output|failed|dead|rejected|old)(/|$)",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[\w@+][\w@+.-]*")
_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\dZ+:-]*|\b\d\d:\d\d:\d\d\S*|\bpid[ =]\d+"
)
_PLAIN = re.compile(r"[\d.:]{1,6}|\d{1,3}(\.\d{1,3}){3}|[A-Za-z_]+|v?\d+\.\d+(\.\d+)?")
"""Words that are no names of pieces: short numbers, addresses, plain words, versions."""
LAST, TOKENS, MOST = 3, 6, 300


class Piece(Struct, frozen=True):
    path: str
    why: str
    line: str
    """What shows it."""
    sure: float


def tokens(said: str) -> list[str]:
    """Words of a line that may name a piece of work."""
    words = [word.strip(".-") for word in _TOKEN.findall(_STAMP.sub(" ", said))]
    return [word for word in dict.fromkeys(words) if not _PLAIN.fullmatch(word)][:TOKENS]


def folders(case: Case, service: str) -> list[str]:
    """Folders that it goes by in which work may wait."""
    return [path for path in case.named(service) if _is_queue(case, path)][:5]


def _is_queue(case: Case, path: str) -> bool:
    """Whether work waits at or below a path, by what its folders are called; the name of a service
    says nothing of that."""
    parts = [part for part in PurePosixPath(path).parts if part not in case.services]
    waits = any(QUEUE.fullmatch(part) for part in parts)
    return waits and not (DONE.search(path) or CODE.search(path) or LOG.search(path))


def waiting(inside: Sequence[str]) -> str:
    """Pieces that wait, what was read last first: when each was read, and written."""
    named = " ".join(shlex.quote(folder) for folder in inside)
    return (
        f"find {named} -maxdepth 3 -xdev -type f ! -name '.*' -printf '%A@ %T@ %p\\n' 2>/dev/null"
        f" | sort -rn | head -n {MOST}"
    )


def lying(case: Case, service: str, words: Sequence[str]) -> str:
    """Files that are called as words are, wherever work may lie."""
    own = [path for path in case.named(service) if not _is_own(path)][:6]
    places = " ".join(dict.fromkeys(["/var/spool", "/var/lib", "/srv", *map(shlex.quote, own)]))
    names = " -o ".join(f"-name {shlex.quote(f'*{word}*')}" for word in words)
    return (
        rf"find {places} -xdev -type f \( {names} \) ! -path '*/log/*' ! -name '*.log' "
        "2>/dev/null | head -n 30"
    )


def seeking(case: Case, service: str, said: str) -> tuple[str, ...]:
    """What is to be seen before it is known where pieces lie that a line calls by their names."""
    words = tokens(said)
    return case.missing((lying(case, service, words),)) if words else ()


def called(case: Case, service: str, said: str) -> list[str]:
    """Pieces that a line calls by their names, as far as was looked."""
    words = tokens(said)
    found = case.text(lying(case, service, words)).splitlines() if words else []
    return [path for path in found if _is_piece(case, service, path)]


def wants(case: Case, service: str, pid: int) -> tuple[str, ...]:
    """What is to be seen before it can be said at which piece a process is."""
    looks = [probes.descriptors(pid)]
    if inside := folders(case, service):
        looks.append(waiting(inside))
    if words := _spoken(case, service):
        looks.append(lying(case, service, list(words)))
    return case.missing(looks)


def at_work(case: Case, service: str, process: parse.Process) -> Iterator[Piece]:
    """Pieces that a process may be at, the surest first: its command names it, it has it open, it
    spoke of it last, or it was read last of those that wait."""
    rows = case.text(waiting(inside)).splitlines() if (inside := folders(case, service)) else []
    told = " ".join(case.command(service))
    for path in parse.paths_in(process.command):
        if path not in told and _is_piece(case, service, path):
            yield Piece(path, "its command names it", process.line, 0.2)
    opened = case.text(probes.descriptors(process.pid))
    for number, path in parse.descriptors(opened).items():
        if number > 2 and _is_piece(case, service, path):
            line = next((row for row in opened.splitlines() if path in row), "")
            yield Piece(path, "it has it open", line, 0.18)
    words = _spoken(case, service)
    found = case.text(lying(case, service, list(words))).splitlines() if words else []
    for word, said in words.items():
        near = [path for path in found if word in path.rpartition("/")[2]]
        near = [path for path in near if _is_piece(case, service, path)]
        exact = [path for path in near if path.rpartition("/")[2].partition(".")[0] in said]
        for path in (exact or near)[:2]:
            yield Piece(path, "it spoke of it last", said, 0.2)
    for row in rows:
        read, written, path = (*row.split(None, 2), "", "", "")[:3]
        if path.startswith("/") and parse.number(read) > parse.number(written) > 0:
            yield Piece(path, "it read it last", row, 0.02)
            break


def _spoken(case: Case, service: str) -> dict[str, str]:
    """Words that may be names of pieces, of what it said last, with the line of each."""
    said = [line for _, line in case.log(service)][-LAST:]
    found = dict[str, str]()
    for line in reversed(said):
        for word in tokens(line):
            found.setdefault(word, line)
    return dict(list(found.items())[:TOKENS])


def _is_own(path: str) -> bool:
    return bool(CODE.search(path) or LOG.search(path) or path.startswith("/etc/"))


def _is_piece(case: Case, service: str, path: str) -> bool:
    """Whether a file may be work: it lies where work waits, and is no lock."""
    lock = re.search(r"lock|\.lck$|\.pid$|/\.", path)
    return not lock and path not in case.named(service) and _is_queue(case, path)
