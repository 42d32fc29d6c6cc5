"""A program that reads what it writes itself: each line that it logs of what it read is one more to
be read. Its log goes back to where it was, or is left out of what it reads."""

import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.rules import edits, room
from hermes_agent.models.responder.rules.ideas import keeping, undo_of
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case

_LOGS = re.compile(r"log|out|journal|dest|write|report", re.IGNORECASE)
_READS = re.compile(
    r"watch|input|source|src|read|paths?$|files?$|include|tail|follow|collect|monitor|glob|scan|from"
    r"|ingest|import",
    re.IGNORECASE,
)
_PATTERN = re.compile(r"[*?\[]")
_LEAVES_OUT = re.compile(r"exclu|ignor|skip|except|omit|blacklist|denylist|without", re.IGNORECASE)


class Echo(Struct, frozen=True):
    path: str
    """The file of settings."""
    why: str
    row: str
    fix: tuple[str, ...]
    sure: float

    @property
    def undo(self) -> str:
        return undo_of(self.path)


def elsewhere(name: str) -> str:
    """Files of a name, wherever logs may lie and not anybody may put one."""
    return (
        f"find /var/log /srv /opt /var/lib /home /var/www -xdev -maxdepth 5 -type f "
        f"-name {shlex.quote(name)} {probes.TRUSTED} 2>/dev/null | head -n 20"
    )


def is_echo(case: Case, service: str, log: str) -> bool:
    """Whether it reads its own log: who is started anew begins again with the next line."""
    return any(_reading(case, service, log))


def wants(case: Case, service: str, log: str) -> tuple[str, ...]:
    """What is to be seen before it can be said where the log was."""
    if not is_echo(case, service, log):
        return ()
    return case.missing((elsewhere(PurePosixPath(log).name),))


def echoes(case: Case, service: str, log: str) -> Iterator[Echo]:
    """Lines of its settings to be changed where it reads its own log."""
    name = PurePosixPath(log).name
    for key, pattern in _reading(case, service, log):
        why = f"{service} reads its own log, as {key} is {pattern}"
        for path, values in case.sources(service):
            for whole, value in values.items():
                own = whole.rpartition(".")[2]
                if not path or own == key:
                    continue
                if value == log and _LOGS.search(own):
                    former = list(_former(case, log, pattern))
                    for place in former or _apart(case, service, log, pattern):
                        fix = keeping(path), edits.changed(path, own, value, place)
                        yield Echo(path, why, f"{own}={value}", fix, 0.04 if former else 0.0)
                elif _LEAVES_OUT.search(own) and value and name not in value:
                    apart = next((x for x in (", ", ",", ";", ":", " ") if x in value), ",")
                    fix = keeping(path), edits.changed(path, own, value, f"{value}{apart}{name}")
                    yield Echo(path, why, f"{own}={value}", fix, 0.02)


def _reading(case: Case, service: str, log: str) -> Iterator[tuple[str, str]]:
    """Settings by which it reads files, its own log among them: the key and what it is."""
    for _, values in case.sources(service):
        for whole, value in values.items():
            key = whole.rpartition(".")[2]
            if _LEAVES_OUT.search(key) or value == log:
                continue
            for part in re.split(r"[\s,;]+", value):
                told = _READS.search(key) or _PATTERN.search(part)  # nobody writes by a pattern
                if told and part.startswith("/") and _is_read(log, part.rstrip("/")):
                    yield key, part
                    return


def _is_read(log: str, pattern: str) -> bool:
    if _PATTERN.search(pattern):
        return fnmatch(log, pattern)
    return pattern.count("/") > 1 and room.on(log, pattern)


def _former(case: Case, log: str, pattern: str) -> Iterator[str]:
    """Where it logged before: a file of that name lies where it does not read."""
    rows = case.text(elsewhere(PurePosixPath(log).name)).splitlines()
    for path in rows:
        if path.startswith("/") and path != log and not _is_read(path, pattern):
            yield path
            return


def _apart(case: Case, service: str, log: str, pattern: str) -> Iterator[str]:
    """Where whoever may write anywhere can log instead."""
    path = f"/var/log/{PurePosixPath(log).name}"
    owners = [one.user for pid in case.pids(service) if (one := case.process(pid))]
    if owners and set(owners) == {"root"} and path != log and not _is_read(path, pattern):
        yield path
