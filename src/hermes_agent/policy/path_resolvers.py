"""Resolve paths without a terminal: on this machine's disk, or from given links."""

import glob
import os
import posixpath
import re
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from hermes_agent.core.effects import Resolve

MAX_COUNT = 500
_MAX_LINKS = 40
_ONLY_SHELLS = re.compile(r"\[[^/]*\[[:.=]|\\")
"""Character classes and escapes that Python reads differently from shells."""

T = TypeVar("T")


async def on_disk(paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
    """As the local terminal would find them."""
    return [_found(path) for path in paths]


def _found(path: str) -> tuple[str, ...]:
    """Empty for a pattern that a shell would match more files with."""
    names = [path]
    if glob.has_magic(path):
        found = glob.glob(path.replace("[^", "[!"))  # noqa: PTH207 - absolute patterns
        if len(found) > MAX_COUNT or _ONLY_SHELLS.search(path):
            return ()
        names = (
            sorted({*found, path}) if found and os.path.lexists(path) else sorted(found) or [path]
        )
    return tuple(dict.fromkeys(os.path.realpath(name) for name in names))


def by_words(workspace: str, links: Mapping[str, str]) -> Resolve:
    """Without disk access: only these links exist, relative ones in the workspace."""
    known = {
        posixpath.normpath(posixpath.join(workspace, link)): posixpath.normpath(
            posixpath.join(workspace, posixpath.dirname(link), target)
        )
        for link, target in links.items()
    }

    async def resolve(paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        return [(_followed(path, known),) for path in paths]

    return resolve


def _followed(path: str, links: Mapping[str, str]) -> str:
    names = [name for name in path.split("/") if name not in ("", ".")]
    here = ""
    followed = 0
    while names:
        name = names.pop(0)
        here = posixpath.dirname(here) if name == ".." else f"{here.rstrip('/')}/{name}"
        if here in links and followed < _MAX_LINKS:
            followed += 1
            names = [*links[here].strip("/").split("/"), *names]
            here = ""
    return here or "/"


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("it waited for something")
