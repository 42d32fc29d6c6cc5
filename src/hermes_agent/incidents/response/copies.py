"""Copies files before they change, and puts them back. The copies are on the incident's machine, in
a folder for each incident."""

import re
import shlex
from collections.abc import Sequence

from msgspec import Struct

from hermes_agent.core.errors import ToolError
from hermes_agent.core.incidents import TimelineEntry

FOLDER = "/var/tmp/hermes-copies"  # noqa: S108 - kept over a reboot; only its owner may read it
MAX_KB = 65_536
"""Limit for one path."""
PATHS = 20
KEPT, UNDONE = "kept", "undone"
"""Keys of timeline entries: copies made, and copies put back."""
_LINE = re.compile(r"^(kept|absent|failed) (\d+)$", re.MULTILINE)


class Copy(Struct, frozen=True):
    path: str
    copy: str
    absent: bool = False
    """There was nothing at this path."""


def copy_script(id: str, number: int, paths: Sequence[str], root: str = FOLDER) -> str:
    """A script that copies paths and prints for each number: kept, absent or failed."""
    if not paths or len(paths) > PATHS:
        raise ToolError(f"keep needs 1 to {PATHS} paths", retry="changed")
    if wrong := [path for path in paths if not path.startswith("/") or "\n" in path]:
        raise ToolError(f"not an absolute path: {wrong[0]!r}", retry="changed")
    folder = f"{root}/{id}/{number}"
    lines = [f"mkdir -p -m 700 {root}", f"[ -O {root} ] && [ ! -L {root} ] || exit 1"]
    lines.append(f"mkdir -p -m 700 {folder}")
    for at, path in enumerate(paths):
        given, copy = shlex.quote(path), f"{folder}/{at}"
        small = f'[ "$(du -sk {given} 2>/dev/null | cut -f 1)" -le {MAX_KB} ]'
        lines.append(
            f"if ! [ -e {given} ] && ! [ -L {given} ]; then echo absent {at}; "
            f"elif {small} && cp -a -T {given} {copy}; then echo kept {at}; "
            f"else echo failed {at}; fi"
        )
    return "\n".join(lines)


def copies_made(
    id: str, number: int, paths: Sequence[str], output: str, root: str = FOLDER
) -> tuple[list[Copy], list[str]]:
    """The copies that the script made, and the paths that failed."""
    said = {int(at): what for what, at in _LINE.findall(output)}
    made = [
        Copy(path, f"{root}/{id}/{number}/{at}", said[at] == "absent")
        for at, path in enumerate(paths)
        if said.get(at) in ("kept", "absent")
    ]
    return made, [path for at, path in enumerate(paths) if said.get(at, "failed") == "failed"]


def stored_copies(entries: Sequence[TimelineEntry]) -> list[Copy]:
    """Copies that can be put back, the newest first, so that the original of a path comes last."""
    found: list[Copy] = []
    for entry in entries:
        found += [Copy(**one) for one in entry.data.get(KEPT, ())]
        if entry.data.get(UNDONE):
            found = []
    return found[::-1]


def undo_script(copies: Sequence[Copy]) -> str:
    """A script that restores what differs and moves aside what did not exist before."""
    lines = []
    for one in copies:
        path, copy, shown = shlex.quote(one.path), shlex.quote(one.copy), shlex.quote(one.path)
        if one.absent:
            lines.append(
                f"if [ -e {path} ]; then mv -T {path} {copy}.new && echo moved aside {shown}; fi"
            )
            continue
        same = f"diff -rq --no-dereference {copy} {path} >/dev/null 2>&1"
        like = f"stat -c '%F %a %u %g' {copy}"
        lines.append(
            f'if {same} && [ "$({like})" = "$({like.replace(copy, path)})" ]; '
            f"then echo unchanged {shown}; "
            f"elif cp -a -T --remove-destination {copy} {path}; then echo put back {shown}; "
            f"else echo could not put back {shown}; fi"
        )
    return "\n".join(lines)
