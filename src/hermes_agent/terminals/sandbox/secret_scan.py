"""Which files and folders hold secrets, by name: those of the table of secret files, those in a
workspace, and those of applications elsewhere. What a folder holds is remembered until it
changes, for all sessions."""

import ctypes
import fnmatch
import os
import stat
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hermes_agent.core.protocols import Clock
from hermes_agent.core.text.secret_files import SECRET_FILES, SECRET_KEYS
from hermes_agent.core.text.sensitive_paths import (
    holds_secrets,
    is_example,
    may_hold_secrets,
    sounding_secret,
)

Found = frozenset[tuple[str, int]]
"""Paths without links in them, and which file it is: another one there is another secret."""

SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "site-packages", "__pycache__"})
SCAN_FOLDERS = 2000
"""The most folders of a workspace that are scanned for secrets."""
ELSEWHERE = ("/var/www", "/usr/local/etc")
NOT_ELSEWHERE = frozenset(
    {"bin", "boot", "dev", "home", "lib", "lib32", "lib64", "libx32", "lost+found", "media", "mnt",
     "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var"}
)  # fmt: skip
"""Of the folders of `/`: the system's own, people's homes, and what may be slow to read."""
ELSEWHERE_FOLDERS, ELSEWHERE_LEVELS, HOME_LEVELS = 300, 7, 3
"""The most for each of these and each home."""
ELSEWHERE_SECONDS = 10.0
"""How long what is known of other applications counts."""
SETTLED_SECONDS = 0.1
"""A folder that changed later than this before it was read may change again unnoticed."""
UNSETTLED = -1
MOST_KNOWN = 20_000
NO_FOLLOW, BORN = 0x100, 0x800
"""For `statx`."""

_libc = ctypes.CDLL(None)


class _Folder(NamedTuple):
    changed: int
    names: dict[str, int]
    """With their inodes."""
    inner: tuple[str, ...]
    secret: tuple[str, ...]
    links: tuple[str, ...] = ()
    """Those of a name that a file with secrets may have, whatever they lead to is called."""


_known: dict[str, _Folder] = {}
_elsewhere: dict[tuple[str, ...], tuple[float, Found]] = {}
"""By the homes that were looked at, until when it counts."""


def sockets() -> Iterator[Path]:
    """Paths of the sockets on this machine. A read-only mount does not prevent connecting."""
    for line in Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
        columns = line.split(maxsplit=7)
        if len(columns) == 8 and not columns[7].startswith(("@", "/dev/", "/proc/")):
            yield Path(columns[7])


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - fast: every command asks for dozens
    except OSError:  # gone, or not ours to read; then commands cannot read it either
        return 0


class SecretScan:
    """For one workspace. `wide` also finds what only may hold secrets."""

    def __init__(
        self, homes: Iterable[str], workspace: str, *, wide: bool, clock: Clock = time.time
    ) -> None:
        self._homes = sorted({os.path.realpath(home) for home in homes})
        self._workspace = os.path.realpath(workspace)
        self._wide = wide
        self._clock = clock
        self._looked: dict[str, int] = {}
        self._near: Found = frozenset()

    def found(self) -> Found:
        """All that is there now; of other applications, what was there some seconds ago."""
        until, far = _elsewhere.get(key := (*self._homes,), (0.0, frozenset()))
        if self._clock() >= until:
            tops = (f"/{name}" for name in self._look("/").inner if name not in NOT_ELSEWHERE)
            places = {
                **dict.fromkeys((*ELSEWHERE, *tops), ELSEWHERE_LEVELS),
                **dict.fromkeys(self._homes, HOME_LEVELS),
            }
            roots = (self._applications(*place) for place in places.items())
            far = _told_apart(one for root in roots for one in root)
            _elsewhere[key] = self._clock() + ELSEWHERE_SECONDS, far
            self._looked = {}
        if not self._looked or any(
            _changed(folder) != changed for folder, changed in self._looked.items()
        ):
            self._looked = {}
            self._near = _told_apart((*self.well_known(), *self.in_workspace()))
        own = f"{self._workspace}/"
        return self._near | {one for one in far if not one[0].startswith(own)}

    def well_known(self) -> Iterator[tuple[str, int]]:
        """The rows of the table, in every home."""
        of_system, of_home = _trees()
        yield from self._rows("", of_system)
        for home in self._homes:
            yield from self._rows(home, of_home)

    def in_workspace(self) -> Iterator[tuple[str, int]]:
        """Where a folder of which all is secret is found as a whole; also sockets that a program
        may listen on, which may be known by their last name alone."""
        waiting, seen = deque([self._workspace]), 0
        listened = {path.name for path in sockets()}
        while waiting and seen < SCAN_FOLDERS:
            seen += 1
            folder = waiting.popleft()
            known = self._look(folder)
            for name in known.secret:
                if self._wide or holds_secrets(f"{folder}/{name}"):
                    yield f"{folder}/{name}", known.names[name]
            for name in known.links:
                if self._wide or holds_secrets(f"{folder}/{name}"):
                    yield from self._behind(f"{folder}/{name}")
            for name in known.names.keys() & listened:
                if Path(folder, name).is_socket():
                    yield f"{folder}/{name}", known.names[name]
            for name in known.inner:
                path = f"{folder}/{name}"
                # Only a folder whose files are all secret: `.env` may be somebody's Python.
                if "/." in path and holds_secrets(f"{path}/any"):
                    yield path, known.names[name]
                else:
                    waiting.append(path)

    def _applications(self, root: str, levels: int) -> Iterator[tuple[str, int]]:
        """Files alone, in the outer folders; of hidden ones, the table knows what is further in."""
        waiting, seen = deque([(os.path.realpath(root), 0)]), 0
        while waiting and seen < ELSEWHERE_FOLDERS:
            seen += 1
            folder, level = waiting.popleft()
            known = self._look(folder)
            yield from ((f"{folder}/{name}", known.names[name]) for name in known.secret)
            for name in known.links:
                yield from self._behind(f"{folder}/{name}")
            for name in known.inner if level < levels else ():
                hidden = name.startswith(".")
                if not hidden or level == 0:
                    waiting.append((f"{folder}/{name}", levels if hidden else level + 1))

    def _rows(self, folder: str, tree: dict[str, Any]) -> Iterator[tuple[str, int]]:
        names = self._look(folder or "/").names
        for part, inner in tree.items():
            made = any(sign in part for sign in "*[")
            for name in fnmatch.filter(names, part) if made else (part,) if part in names else ():
                path = f"{folder}/{name}"
                if "" in inner:
                    yield from self._behind(path, any_kind=True)
                if len(inner) > ("" in inner):
                    yield from self._rows(path, inner)

    def _behind(self, path: str, *, any_kind: bool = False) -> Iterator[tuple[str, int]]:
        """What is there in the end."""
        real = os.path.realpath(path)
        above, last = os.path.split(real)
        inode = self._look(above).names.get(last)
        if inode and (any_kind or _is_file_with_secrets(Path(real))):
            yield real, inode

    def _look(self, folder: str) -> _Folder:
        changed = _changed(folder)
        known = _known.get(folder)
        if known is None or known.changed != changed:
            if len(_known) > MOST_KNOWN:
                _known.clear()
            known = _known[folder] = _read(folder, changed, self._clock())
        self._looked[folder] = known.changed
        return known


def _read(folder: str, changed: int, now: float) -> _Folder:
    names, inner = {}, []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names[entry.name] = entry.inode()
                if entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED:
                    inner.append(entry.name)
    except OSError:  # as above
        return _Folder(changed, {}, (), ())
    folders = set(inner)
    secret = [
        name
        for name in sounding_secret(names)
        if name not in folders and may_hold_secrets(f"{folder}/{name}")
    ]
    if "/." in folder:  # only there, by the table
        secret += [name for name in names.keys() - folders if holds_secrets(f"{folder}/{name}")]
    links = {name for name in secret if Path(folder, name).is_symlink()}
    files = (name for name in {*secret} - links if not _is_harmless(Path(folder, name)))
    settled = changed < (now - SETTLED_SECONDS) * 1e9
    kept = changed if settled else UNSETTLED
    return _Folder(kept, names, tuple(inner), tuple(files), (*links,))


def _told_apart(found: Iterable[tuple[str, int]]) -> Found:
    """A file that was made anew may have the inode of the one that was there."""
    return frozenset((path, inode ^ _born(path)) for path, inode in found)


def _born(path: str) -> int:
    """When it was made; 0 where that is not known."""
    facts = ctypes.create_string_buffer(256)
    try:
        failed = _libc.statx(-100, os.fsencode(path), NO_FOLLOW, BORN, facts)
    except AttributeError:  # an old library
        return 0
    if failed or not struct.unpack_from("=I", facts)[0] & BORN:
        return 0
    seconds, rest = struct.unpack_from("=qI", facts, 80)
    return int(seconds * 1_000_000_000 + rest)


def _is_file_with_secrets(path: Path) -> bool:
    """Not what may be called like that for being an example, or nothing."""
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
    return regular and not is_example(str(path)) and not _is_harmless(path)


def _is_harmless(path: Path) -> bool:
    """A certificate without a private key, which programs need."""
    if path.suffix.lower() not in (".pem", ".crt", ".cer"):
        return False
    try:
        return b"PRIVATE KEY" not in path.read_bytes()[:1_000_000]
    except OSError:
        return False


@cache
def _trees() -> tuple[dict[str, Any], dict[str, Any]]:
    """The rows of the table by their parts, those of the system and those of a home; an empty part
    is the end of a row."""
    trees: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for row in (*SECRET_FILES, *SECRET_KEYS, *SYSTEM):
        tree = trees[not row.startswith("/")]
        for part in row.removesuffix("/**").removeprefix("~/").strip("/").split("/"):
            tree = tree.setdefault(part, {})
        tree[""] = {}
    return trees


SYSTEM = (
    "/etc/sudoers", "/etc/sudoers.d", "/etc/kubernetes", "/etc/rancher", "/etc/letsencrypt",
    "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/fs/bpf",
    "/sys/firmware",
)  # fmt: skip
"""What else is hidden by name: root could read it."""
