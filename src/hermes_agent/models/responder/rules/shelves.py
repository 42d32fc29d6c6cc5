"""Versions that pile up: folders beside each other of which one is in use, such as all that was
ever deployed. The oldest are moved out of the way, as many as it takes."""

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.rules import room
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.settings import whole

LEAST = 4
"""Folders of a kind from which on they are a series."""
BEFORE, NEWEST = 2, 3
"""How many stay of those before the one in use, for whoever wants to go back, and of the newest."""
_VERSIONS = re.compile(r"(?i)^(releases?|builds?|deploy(?:s|ments?)?)$")
"""How a folder of them is called, where it is not seen that one is in use; people keep versions and
revisions of what they write."""
_ROW = re.compile(r"^(files|kilobytes) (\d+)\s+(/.*)$")
_TIME = re.compile(r"^written ([\d.]+) (/.*)$")


class Version(Struct, frozen=True):
    path: str
    files: int
    kilobytes: int
    time: float


def look(folder: str) -> str:
    """How many files, and how much, there is in each folder of a folder, and how old it is."""
    own = shlex.quote(folder)
    return (
        f"du --inodes -x -d 1 {own} 2>/dev/null | sed 's/^/files /'; "
        f"du -k -x -d 1 {own} 2>/dev/null | sed 's/^/kilobytes /'; "
        f"find {own} -xdev -mindepth 1 -maxdepth 1 -type d -printf 'written %T@ %p\\n'"
    )


def wants(case: Case, folder: str, mount: str) -> tuple[str, ...]:
    return case.missing((look(folder), room.links(mount), probes.OPEN_FILES))


def older(
    case: Case, folder: str, mount: str, enough: Callable[[Sequence[Version]], bool]
) -> list[Version]:
    """Versions that may be moved, the oldest first and as many as it takes; none where it is not
    seen that one of them is in use, or that they are called so, or where it is not enough."""
    rows = _versions(case, folder)
    kinds = dict[str, list[Version]]()
    for one in rows:
        kinds.setdefault(re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", one.path), []).append(one)
    mine = max(kinds.values(), key=len, default=[])
    mine.sort(key=lambda one: one.path)
    used = [at for at, one in enumerate(mine) if _is_used(case, one.path, mount)]
    if len(mine) < LEAST or not (used or _VERSIONS.match(PurePosixPath(folder).name)):
        return []
    newest = sorted(mine, key=lambda one: one.time)[-NEWEST:]
    last = min([max(0, at - BEFORE) for at in used], default=len(mine) - NEWEST)
    chosen = list[Version]()
    for one in mine[:last]:
        if one not in newest:
            chosen.append(one)
            if enough(chosen):
                return chosen
    return []


def moved(rows: Sequence[Version]) -> tuple[tuple[str, ...], str]:
    """Commands that move them, and what undoes that."""
    paths = [one.path for one in rows]
    return room.aside(paths), room.back(paths)


def _versions(case: Case, folder: str) -> list[Version]:
    files, sizes, times = dict[str, int](), dict[str, int](), dict[str, float]()
    for line in case.text(look(folder)).splitlines():
        if row := _ROW.match(line):
            (files if row[1] == "files" else sizes)[row[3]] = int(row[2])
        elif written := _TIME.match(line):
            times[written[2]] = parse.number(written[1])
    return [
        Version(path, files.get(path, 0), sizes.get(path, 0), at)
        for path, at in times.items()
        if PurePosixPath(path).parent == PurePosixPath(folder)
    ]


def _is_used(case: Case, path: str, mount: str) -> bool:
    """Whether a link leads there, somebody runs there, has something of it open, or is told it."""
    for line in case.text(room.links(mount)).splitlines():
        own, _, target = line.partition(" -> ")
        to = whole(target.strip(), own.rpartition("/")[0])
        if to and room.on(to, path):
            return True
    if any(room.on(own, path) for files in case.held.values() for own, _ in files):
        return True
    return any(room.on(one, path) for service in case.services for one in case.named(service))
