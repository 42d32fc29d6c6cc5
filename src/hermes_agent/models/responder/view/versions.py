"""Earlier versions of a file, by whatever name and in whatever place somebody kept them."""

import re
import shlex
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import CODE, SHARED

KEEP = "/var/tmp"  # noqa: S108 - a copy of what is replaced goes where the box has room
SHELVES = re.compile(
    r"(?i)^\.?(back-?ups?|bak|old|previous|prev|orig|originals?|saved?|archives?|history|versions?"
    r"|snapshots?|rollback|known-good|good|last-good|releases?|deploys?|revisions?|attic|dumps?)$"
)
"""Folders where earlier versions are put away."""
ANYWHERE = frozenset({
    "/", "etc", "var", "srv", "opt", "lib", "root", "home", "conf.d", "backups", "usr", "local",
    "share", "data", "config", "conf",
})  # fmt: skip
"""Folders that say nothing of what belongs together."""
DEFAULTS = re.compile(
    r"[._-](dist|default|defaults|sample|example|template|tmpl|dpkg-dist|rpmnew|in)(\.\w+)?$"
)
"""How files are called that come with a program."""
PLAIN = frozenset({"config", "settings", "main", "default", "app", "server", "env", "local"})
"""What files of many services are called."""
GIT = "git:"
_READERS = {".gz": "zcat", ".xz": "xzcat", ".bz2": "bzcat"}
ALIKE = 6
"""Lines in which files may differ that are taken to be versions of one, however small they are."""
SHARE = 0.5
"""Or this share of their lines."""
CLOSE = 2
"""Changes that are so few that two files were one, whatever they are called: one line."""
_FOR_OTHERS = re.compile(r"(?i)(?:^|[._-])(stag\w*|test\w*|dev\w*|local|prod\w*|qa|canary|demo)")
"""How files are called that are for another place than this."""
_VERSION = re.compile(r"[A-Za-z]-?\d+\.\d+$")
"""How folders of programs are called that others came before: nobody puts copies there."""
CUT = 50
"""Lines of a difference that is so long that the rest of it is not shown."""


class Copy(Struct, frozen=True):
    """An earlier version of a file."""

    wants: tuple[str, ...] = ()
    path: str = ""
    """Where it is: a file, or `git:` and its revision."""
    change: str = ""
    """A line of how the file differs from it."""
    changes: tuple[str, ...] = ()
    """All such lines: `< ` what it had, `> ` what the file has now."""


def earlier(case: Case, path: str) -> Copy:
    """The likeliest earlier version of a file that differs from it, where there is one."""
    search = probes.copies(path)
    if case.look(search) is None:
        return Copy((search,))
    return next(iter(versions(case, path)), Copy())


def versions(case: Case, path: str) -> list[Copy]:
    """All earlier versions that differ, the likeliest first: what git has, what is kept under a
    name or in a folder that says so, what is alike by its name, and what came with the program."""
    found = parse.files(case.text(probes.copies(path)))
    counted = next(iter(found.get("lines", [])), "0").split()
    length = int(parse.number(counted[0] if counted else "0"))
    ordered: list[tuple[int, Copy]] = []
    for copy, differs in found.items():
        changes = tuple(line for line in differs if line[:2] in ("< ", "> "))
        if not changes or copy.startswith(KEEP) or copy in ("link", "lines"):
            continue
        if len(changes) >= length and all(line[0] == ">" for line in changes):
            continue  # there is nothing in it
        alike = len(changes) <= max(ALIKE, 2 * SHARE * length) and len(differs) < CUT
        close = len(changes) <= CLOSE and len(changes) < length
        rank = _rank(copy, path, alike, close)
        if rank is not None and not (rank > 0 and _is_of_another(case, copy, path)):
            ordered.append((rank, Copy((), copy, changes[-1], changes)))
    ordered.sort(key=lambda one: one[0])
    return [copy for _, copy in ordered]


def _rank(copy: str, path: str, alike: bool, close: bool) -> int | None:
    """How likely it is a version of a file, 0 most; None where it is none."""
    if copy.startswith(GIT):
        return 0
    if copy.startswith(probes.ARCHIVED):
        inside = _member(copy)[1].removeprefix("./").lstrip("/")
        whole = path.endswith(f"/{inside}") and inside.count("/") > 0
        return 1 if whole and alike else 2 if alike else None
    if _is_counterpart(copy, path):
        return None
    if _is_kept(copy, path):
        return 1
    if not alike:
        return None
    if DEFAULTS.search(PurePosixPath(copy).name):
        return 4
    if _is_named_so(copy, path):
        return 2
    if _is_beside(copy, path):
        return 3
    return 5 if _is_near(copy, path) and close else None


def _member(copy: str) -> tuple[str, str]:
    """An archive, and what a copy is called in it."""
    archive, _, inside = copy.removeprefix(probes.ARCHIVED).partition(":")
    return archive, inside


def _is_counterpart(copy: str, path: str) -> bool:
    """Whether it is what another release or instance has in its place: it belongs to that one."""
    own, old = PurePosixPath(copy), PurePosixPath(path)
    first, second = (re.sub(r"\d+", "#", str(one)) for one in (own.parent, old.parent))
    return own.name == old.name and own.parent != old.parent and first == second


def _is_named_so(copy: str, path: str) -> bool:
    """By the same name, or by that with what shows a copy; other endings are other files."""
    stem, name = (PurePosixPath(one).name.removeprefix(".") for one in (copy, path))
    return stem == name or (name in stem and probes.BACKUPS.search(stem) is not None)


def _is_kept(copy: str, path: str) -> bool:
    """Whether a file is an earlier version of another: beside it by its name, or put away where
    such files are kept, below a folder of the same family."""
    own, old = PurePosixPath(copy), PurePosixPath(path)
    stem = own.name.removeprefix(".")
    marked = probes.BACKUPS.search(stem) or probes.BACKUPS.search(own.stem)
    if own.parent == old.parent:
        return marked is not None and old.stem.removeprefix(".") in stem
    shelved = any(
        SHELVES.search(part) or (probes.BACKUPS.search(part) and not _VERSION.search(part))
        for part in own.parts[1:-1]
    )
    family = (set(own.parts[:-1]) & set(old.parts[:-1])) - ANYWHERE
    kin = bool(family) or not (CODE.search(path) or old.stem in PLAIN)
    name, former = (one.removeprefix(".") for one in (old.name, old.stem))
    called = re.match(rf"{re.escape(name)}(?![A-Za-z])", stem) is not None
    return shelved and kin and (called or (former in stem and bool(marked)))


def _is_beside(copy: str, path: str) -> bool:
    """Whether it lies in the same folder, called as the file and a word more that is set apart."""
    own, old = PurePosixPath(copy), PurePosixPath(path)
    apart = re.sub(rf"[._-]?{re.escape(old.stem)}[._-]?", "", own.stem)
    return own.parent == old.parent and own.suffix == old.suffix and apart != own.stem


def _is_near(copy: str, path: str) -> bool:
    """Whether it lies in the same folder or one below, as the same sort of settings; whatever it is
    called, what is nearly the same was one with it."""
    own, old = PurePosixPath(copy), PurePosixPath(path)
    return (
        own.suffix == old.suffix
        and old.parent in (own.parent, own.parent.parent)
        and str(old.parent) not in SHARED
        and not CODE.search(path)
        and not _FOR_OTHERS.search(own.name)
    )


def _is_of_another(case: Case, copy: str, path: str) -> bool:
    """Whether a service goes by this file, or has it in its folders, while the other file is not
    its own: then it is no copy, and right as it is."""
    if copy.startswith(probes.ARCHIVED):
        copy = "/" + _member(copy)[1].removeprefix("./").lstrip("/")
        return copy != path and any(case.owns(one, copy) for one in case.services)
    if any(copy in case.named(service) for service in case.services):
        return True
    if any(one.path == copy for one in case.definitions.values()):
        return True
    named, own = (set(PurePosixPath(one).parts) & set(case.services) for one in (copy, path))
    if named and own and not named & own:
        return True
    theirs = [one for one in case.services if case.owns(one, copy)]
    return bool(theirs) and not any(case.owns(one, path) for one in theirs)


def kept_as(path: str) -> str:
    """Where a file is kept before it is changed: files of one name do not get in each other's
    way."""
    return f"{KEEP}/{path.strip('/').replace('/', '-')}.replaced"


def put_back(path: str, copy: str) -> tuple[str, ...]:
    """Commands that put an earlier version in the place of a file."""
    here = PurePosixPath(path)
    keep = keeping(path)
    if copy.startswith(GIT):
        revision = re.sub(r"[^0-9A-Za-z~^]", "", copy.removeprefix(GIT))
        git = f"git -c safe.directory='*' -C {shlex.quote(str(here.parent))}"
        return keep, f"{git} show {revision}:./{shlex.quote(here.name)} > {shlex.quote(path)}"
    if copy.startswith(probes.ARCHIVED):
        archive, inside = map(shlex.quote, _member(copy))
        return keep, f"tar -xOf {archive} {inside} > {shlex.quote(path)}"
    reader = _READERS.get(PurePosixPath(copy).suffix, "")
    if reader and PurePosixPath(path).suffix not in _READERS:
        return keep, f"{reader} {shlex.quote(copy)} > {shlex.quote(path)}"
    return keep, f"cp {shlex.quote(copy)} {shlex.quote(path)}"


def keeping(path: str) -> str:
    """The command that keeps a copy, which nobody may read who may not read the file. What is there
    by that name is not written to, whoever put it there, and a copy of before stays."""
    return f"cp -p -T --backup=numbered {shlex.quote(path)} {shlex.quote(kept_as(path))}"


def undo_of(path: str) -> str:
    return f"cp -p {shlex.quote(kept_as(path))} {shlex.quote(path)}"


def put_away(path: str) -> str:
    """The command that moves a file to where copies are kept, over nothing that is there."""
    return f"mv -T --backup=numbered {shlex.quote(path)} {shlex.quote(kept_as(path))}"


def taken_out(path: str) -> str:
    """The command that moves back what was put away."""
    return f"mv -T {shlex.quote(kept_as(path))} {shlex.quote(path)}"
