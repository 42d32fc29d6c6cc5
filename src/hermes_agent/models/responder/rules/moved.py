"""A folder in which a service keeps something is gone from its place, and lies elsewhere: beside it
by a longer name, in another folder, or on another volume."""

import re
import shlex
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules.aside import COPY
from hermes_agent.models.responder.rules.room import mount_of
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import SHARED

CLUSTER = "global/pg_control"
"""What lies in a folder of PostgreSQL, and nowhere else."""
WHERE = (
    "/srv /opt /var /root /home /data /app /mnt /mnt/* /media /media/* /storage /storage/* "
    "/volumes /volumes/* /tmp"
)
_OF_POSTGRES = re.compile(r"postgres(?:ql)?(?:/(\d+)(?:\.\d+)?/bin/postgres)?")


def moved(case: Case, path: str) -> list[tuple[str, str]]:
    """Folders that lie beside one that is gone, with a word more in their names: new and old."""
    found = list[tuple[str, str]]()
    for was in heads(path)[:2]:
        gone, above = PurePosixPath(was), probes.rows(str(PurePosixPath(was).parent))
        rows = list(parse.listing(case.text(above)))
        if not rows or any(row.own == gone.name for row in rows):
            continue
        word = re.compile(rf"\.?{re.escape(gone.name)}[._~-].*|.+[._-]{re.escape(gone.name)}")
        found += [
            (str(gone.parent / row.own), was)
            for row in rows
            if row.mode.startswith("d") and word.fullmatch(row.own)
        ]
    return found


def heads(path: str) -> list[str]:
    parts = PurePosixPath(path).parts
    return ["/" + "/".join(parts[1:at]) for at in range(len(parts), 1, -1)]


def search(case: Case, service: str, path: str) -> str:
    """The command that looks for a folder in all other places: by what is in it where that is known
    of its program, else by its name; empty ones are none."""
    own = shlex.quote(path)
    if version(case, service):
        return (
            f"find {WHERE} -xdev -maxdepth 6 -type f -path {shlex.quote(f'*/{CLUSTER}')} "
            '2>/dev/null | sort -u | while read -r f; do d=${f%/global/*}; echo "$(stat -c '
            '\'%u %Z\' "$d") $(cat "$d/PG_VERSION") $(ls "$d" | grep -cx postmaster.pid) $d"; done'
        )
    names = dict.fromkeys([PurePosixPath(path).name, *_called(service, path)])
    likes = " -o ".join(f"-name {shlex.quote(one)}" for one in names)
    return (
        rf"find {WHERE} -xdev -maxdepth 5 -type d -cmin -1440 \( {likes} \) ! -empty "
        rf"! -path {own} {probes.TRUSTED} -printf '%u %C@ - 0 %p\n' 2>/dev/null | sort -u | "
        "head -n 20"
    )


def _called(service: str, path: str) -> list[str]:
    """How somebody may call it elsewhere, where it needs the name of its service."""
    name = PurePosixPath(path).name
    return [f"{service}{mark}{name}" for mark in "-_."]


def version(case: Case, service: str) -> str:
    """The version of PostgreSQL that a service is; empty where it is another program."""
    for word in case.command(service):
        found = _OF_POSTGRES.search(word)
        if found and PurePosixPath(word).name == "postgres":
            return found[1] or "any"
    return ""


def elsewhere(case: Case, service: str, path: str) -> str:
    """The one folder that is what is gone; empty where none is, or several may be."""
    found, wanted = list[str](), version(case, service)
    for row in case.text(search(case, service, path)).splitlines():
        words = row.split(maxsplit=4)
        if len(words) < 5 or not words[4].startswith("/"):
            continue
        kind, used, place = words[2], words[3], words[4]
        if used != "0" or (wanted and wanted not in ("any", kind)) or place in SHARED:
            continue
        if place != path and not COPY.search(place) and not _is_others(case, service, place):
            found.append(place)
    top = [one for one in found if not any(one.startswith(f"{up}/") for up in found)]
    return top[0] if len(top) == 1 else ""


def _is_others(case: Case, service: str, place: str) -> bool:
    """Whether another service has it, or it lies in a folder that is called as that one is."""
    others = [one for one in case.services if one != service]
    parts = PurePosixPath(place).parts
    theirs = any(one in parts for one in others) and service not in parts
    return theirs or any(case.owns(one, place) for one in others)


def put_in(case: Case, place: str, path: str) -> tuple[tuple[str, ...], str]:
    """Commands that have a folder in its place again, and how that is undone: it is moved within a
    volume, and only led to on another, where there was a reason for it."""
    new, own = shlex.quote(place), shlex.quote(path)
    mounts = [one.path for one in parse.mounts(case.text(probes.SPACE))]
    if mount_of(place, mounts) == mount_of(path, mounts):
        return (f"mv -nT {new} {own}",), f"mv -nT {own} {new}"
    return (f"ln -sT {new} {own}",), f"rm {own}"
