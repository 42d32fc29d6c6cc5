"""Live files: facts, checksums and content, read by commands that change nothing."""

import base64
import binascii
import posixpath
import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from hermes_drift.values import LiveState

CHUNK = 150
"""Paths in one command."""
MAX_BYTES = 400_000
"""Larger files are compared by checksum and not shown."""
MAX_FILES = 20_000
_CLOSED = re.compile("^find: ['\u2018](.+)['\u2019]: Permission denied$", re.MULTILINE)


class Fact(NamedTuple):
    """A live file, folder or link."""

    path: str
    """Below the listed root; empty for the root itself."""
    kind: str
    """`f`, `d`, `l`, or another of find's letters."""
    mode: str
    owner: str
    group: str
    size: int
    modified: float
    changed: float
    """Its ctime, which nobody sets by hand."""
    target: str


class Listing(NamedTuple):
    facts: dict[str, Fact]
    trouble: str
    closed: tuple[str, ...] = ()
    """Folders below the root that could not be read."""

    def sees(self, at: str) -> bool:
        return not any(at == one or at.startswith(f"{one}/") for one in self.closed)


async def listed(live: LiveState, root: str, depth: int | None = None) -> Listing:
    """Everything below a root, links not followed."""
    shape = r"%y\t%m\t%u\t%g\t%s\t%T@\t%C@\t%l\t%P\0"
    bound = "" if depth is None else f"-maxdepth {depth} "
    answer = await live.ask(f"find {shlex.quote(root)} -xdev {bound}-printf '{shape}'")
    facts = {fact.path: fact for fact in map(_fact, answer.out.split("\0")) if fact}
    if not answer.ok and not facts:
        gone = "No such file" in answer.error
        return Listing({}, "" if gone else f"{root}: {answer.trouble}")
    if len(facts) > MAX_FILES:
        return Listing(
            facts, f"{root} has {len(facts)} files, too many to check: declare a part of it"
        )
    closed = tuple(posixpath.relpath(path, root) for path in _CLOSED.findall(answer.error))
    return Listing(facts, "" if answer.ok else f"{root}: {answer.trouble}", closed)


def _fact(line: str) -> Fact | None:
    words = line.split("\t", 8)
    if len(words) < 9:
        return None
    kind, mode, owner, group, size, modified, changed, target, path = words
    return Fact(
        path, kind, mode.zfill(4), owner, group, int(size), float(modified), float(changed), target
    )


async def sums(live: LiveState, paths: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """SHA-256 by path, and what could not be read."""
    found: dict[str, str] = {}
    troubles = []
    for start in range(0, len(paths), CHUNK):
        some = paths[start : start + CHUNK]
        answer = await live.ask(f"sha256sum -z -- {shlex.join(some)}")
        for line in answer.out.split("\0"):
            sum, _, path = line.partition("  ")
            if path:
                found[path] = sum
        if answer.refused:
            troubles.append(f"{len(some)} files: {answer.refused}")
        else:
            lost = [path for path in some if path not in found]
            troubles += [f"{path} cannot be read: {answer.trouble}" for path in lost]
    return found, troubles


async def content(live: LiveState, path: str) -> tuple[bytes | None, str]:
    """A file's bytes, or None and the reason."""
    answer = await live.ask(f"base64 -w0 -- {shlex.quote(path)}")
    if not answer.ok:
        return None, answer.trouble
    try:
        return base64.b64decode(answer.out, validate=True), ""
    except binascii.Error:
        return None, "it changed while it was read"


async def text_of(live: LiveState, path: str, lines: int = 20_000) -> str:
    """The end of a log; empty if it is missing or may not be read."""
    answer = await live.ask(f"tail -n {lines} -- {shlex.quote(path)}")
    return answer.out if answer.ok else ""
