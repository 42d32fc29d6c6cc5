"""A program that is one file and was copied from a shelf of builds: which of them it is, and which
came before."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.rules.config import is_near, is_shared
from hermes_agent.models.responder.rules.former import (
    NUMBERED,
    PREVENT,
    RECENT_SECONDS,
    family,
    journal,
    numbers,
)
from hermes_agent.models.responder.rules.ideas import Idea, keeping, kept_as, lines, undo_of
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import CODE
from hermes_agent.models.responder.view.settings import is_config

_CODE_SAID = re.compile(
    r"Traceback|\b\w*(?:Error|Exception)\b|panic|segfault|core dumped|undefined|unhandled",
    re.IGNORECASE,
)
_PACKED = re.compile(r"\.(pyz|jar|war|phar|exe|dll|bin|run|whl|egg|wasm|AppImage)$")
_OF_SYSTEM = ("/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/", "/usr/lib", "/lib", "/opt/bin/")
_ROW = re.compile(r"^([0-9a-f]{16}) (\d+) ([\d.]+) (\S+) (/.*)$")
_FOR_OTHERS = re.compile(r"(?i)(?:^|[._-])(test|dev|stag\w*|debug|arm64|aarch64|i386|win\w*)")
SHELVES = f"{probes.KEPT_IN} /var/cache /app /mnt"
MOST, FILES = 3, 12


class Build(Struct, frozen=True):
    sum: str
    time: float
    owner: str
    path: str
    line: str


def shelved(path: str) -> str:
    """The file, and those that are called as it is and a number, with a sum of what is in them;
    nothing where it is a link, or lies behind one."""
    here, own = PurePosixPath(path), shlex.quote(path)
    stem = re.sub(r"[-_.]v?\d[\w.]*$", "", here.stem) or here.stem
    names = " -o ".join(
        f"-name {shlex.quote(one)}" for one in (here.name, f"{stem}[-_.@]*{here.suffix}")
    )
    trusted = "" if path.startswith("/home/") else f"{probes.TRUSTED} "
    return (
        f'[ "$(realpath {own})" = {own} ] && '
        f"{{ find {own} -maxdepth 0 -type f -links 1 -printf '%s %T@ %u %p\\n'; "
        f"find {SHELVES} -xdev -maxdepth 6 -type f ! -path {own} -size -200M \\( {names} \\) "
        f"{trusted}-printf '%s %T@ %u %p\\n' 2>/dev/null | sort -k2,2nr | head -n {FILES}; }} | "
        "while read -r s t u f; do "
        'echo "$(sha256sum < "$f" | cut -c 1-16) $s $t $(stat -c %U "$f") $f"; done'
    )


def builds(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        if case.command(service) and is_near(case, service):
            for path in _programs(case, service):
                yield from _replaced(case, service, path)


def _programs(case: Case, service: str) -> list[str]:
    """Files that are run for it."""
    found = [*case.named(service)]
    for pid in case.pids(service)[:2]:
        process = case.process(pid)
        found += (
            [word for word in process.command.split()[:4] if word[:1] == "/"] if process else []
        )
    kept = [
        path
        for path in dict.fromkeys(found)
        if (CODE.search(path) or _PACKED.search(path) or "/bin/" in path)
        and not path.startswith(_OF_SYSTEM)
        and not is_config(path)
        and not is_shared(case, service, path)
    ]
    return sorted(kept, key=lambda path: _PACKED.search(path) is None)[:MOST]


def _replaced(case: Case, service: str, path: str) -> Iterator[Idea]:
    troubles, told = case.troubles(service), journal(case, service)
    program = case.programs.get(service)
    down = program is not None and not program.up
    if not (troubles or told or down):
        return
    look = shelved(path)
    if wants := case.missing((look,)):
        claim = f"{path} of {service} may have been replaced by a worse build"
        yield Idea("bad-deploy", service, claim, 0.45 + 0.1 * bool(told), path, (), wants)
        return
    rows = list(_rows(case.text(look)))
    own = next((one for one in rows if one.path == path), None)
    if own is None:
        return
    others = [one for one in rows if one.path != path and one.owner in ("root", own.owner)]
    now, before = _before(service, own, others)
    if before is None:
        return
    lately = 0 <= case.now - own.time < RECENT_SECONDS
    code = next((line for line in troubles if _CODE_SAID.search(line)), "")
    score = 0.35 + 0.2 * bool(code) + 0.1 * bool(troubles or down) + 0.1 * bool(told)
    score += 0.1 * lately + 0.1 * (now is not None)
    score = score if now or lately or told else min(score, 0.5)
    yield Idea(
        "bad-deploy", service,
        f"{path} of {service}" + (f", which is {now.path}," if now else "")
        + f" is worse than {before.path}",
        min(score, 0.86), f"{path}: {PurePosixPath((now or own).path).name}",
        lines(code or next(iter(troubles), ""), told, (now or own).line, before.line), (),
        (*installed(path, before.path), case.restart(service)),
        undo_of(path).replace("cp -p ", "cp -pf ", 1), PREVENT,
    )  # fmt: skip


def installed(path: str, build: str) -> tuple[str, ...]:
    """Commands that put a build in the place of a program, though it is being run."""
    own = shlex.quote(path)
    mode = f"chmod --reference={shlex.quote(kept_as(path))} {own}"
    plain = CODE.search(path) or _PACKED.search(path)
    return keeping(path), f"cp -f {shlex.quote(build)} {own}", *(() if plain else (mode,))


def _before(service: str, own: Build, others: list[Build]) -> tuple[Build | None, Build | None]:
    """The build that a file is, and the one before it. Where it is none of them, the newest that
    is older than the file, if all are of this service by their names."""
    shelf = [one for one in others if _number(one.path) and not _FOR_OTHERS.search(one.path)]
    now = next((one for one in shelf if one.sum == own.sum), None)
    if now is not None:
        kin = [one for one in shelf if _shape(one.path) == _shape(now.path)]
        older = [
            one for one in kin
            if one.sum != now.sum and _number(one.path) < _number(now.path)
        ]  # fmt: skip
        older.sort(key=lambda one: _number(one.path))
        return now, older[-1] if older else None
    named = [one for one in shelf if family(service) in one.path and one.time < own.time]
    if len({_shape(one.path) for one in named}) != 1:
        return None, None
    return None, max(named, key=lambda one: _number(one.path))


def _number(path: str) -> list[int]:
    """The number of a build, by its name or by the folder in which it lies."""
    here = PurePosixPath(path)
    for part in (here.name, here.parent.name):
        if NUMBERED.fullmatch(part) and re.search(r"\d", part.removesuffix(here.suffix)):
            return numbers(part)
    return []


def _shape(path: str) -> str:
    return re.sub(r"\d+", "#", path)


def _rows(text: str) -> Iterator[Build]:
    for line in text.splitlines():
        if row := _ROW.match(line):
            yield Build(row[1], parse.number(row[3]), row[4], row[5], line)


RULES = (builds,)
