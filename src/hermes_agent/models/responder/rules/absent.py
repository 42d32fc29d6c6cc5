"""What a service needs is gone: a file, a folder, a program, or what a link leads to."""

import re
import shlex
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.rules import aside
from hermes_agent.models.responder.rules.ideas import (
    KEEP,
    Idea,
    earlier,
    keeping,
    kept_as,
    lines,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules.moved import elsewhere, heads, moved, put_in, search
from hermes_agent.models.responder.rules.port import reread
from hermes_agent.models.responder.rules.sed import basic
from hermes_agent.models.responder.view import parse, probes, settings
from hermes_agent.models.responder.view.case import Case, paths_in

_ABSENT = re.compile(
    r"no such file or directory|ENOENT|errno 2\b|can't open file|cannot open|not found|"
    r"does not exist|doesn't exist|file ?not ?found|no such |missing|bad interpreter|there is no |"
    r"no (?:file|folder|directory|program) |(?:could not|couldn't|cannot|can't|failed to|"
    r"unable to) (?:chdir|cd|exec\w*|find|access|stat|load|open|read|locate|enter|run|start)|"
    r"not there|not a (?:directory|file)",
    re.IGNORECASE,
)
_LEADS = re.compile(r"^\s*l\S+\s+\S+\s+\S+\s+(\S+) -> (\S+)$")
_MADE_ANEW = re.compile(
    r"^/(run|var/run|var/lib|var/log|var/spool|var/cache|var/opt|tmp|data)/|"
    r"/(tmp|cache|log|logs|run|spool|state|sessions|uploads|queue|data)(/|$)"
)
"""Folders that are made empty where they are gone."""
_KEPT = re.compile(r"^/(var/lib|var/opt|data)/|/(data|uploads|state)/")
"""Among them those in which something was kept."""
_PASSING = re.compile(r"/\.?(?:te?mp|caches?|logs?|run|socke?t?s?|locks?|pids?|sessions?|scratch)$")
"""Below them what is made anew all the same."""
UNSURE = 0.5
"""That it is told, and not done."""
_RELATIVE = re.compile(r"[\"'`\s]((?:\.{1,2}/)?[\w@+-][\w.@+-]*(?:/[\w.@+-]+)+)[\"'`:,;\s]")
_PLAIN = re.compile(r"[\w./@+-]+")
LIKE = 0.5
"""How much a name must be like another that is taken in its place."""


class Mend(Struct, frozen=True):
    """How what is gone comes back, or whoever names it is led to where it is."""

    fix: tuple[str, ...] = ()
    where: str = ""
    """The file that is changed."""
    sure: float = 0.6
    undo: str = ""
    now: str = ""
    """Where it is now."""


def absent(case: Case) -> Iterator[Idea]:
    """A file that it needs is gone."""
    for service in case.suspects:
        program = case.programs.get(service)
        said = [line for line in case.troubles(service)[:8] if _ABSENT.search(line)]
        if program is not None and not program.up and _ABSENT.search(program.line):
            said.append(program.line)
        definition = case.definition(service)
        for line in said:
            paths = _paths(case, service, line)
            if definition is not None and "making dispatchers" in line:
                paths += definition.logs
            for path in paths:
                yield from _bringing_back(case, service, path, line)


def _paths(case: Case, service: str, line: str) -> list[str]:
    found, folder = paths_in(line), case.directory(service)
    found += [settings.whole(one, folder) for one in _RELATIVE.findall(f"{line} ")]
    kept = (path.rstrip(".,:;") for path in found)
    return [
        path
        for path in dict.fromkeys(kept)
        if path and not path.startswith(("/usr/", "/proc/", "/dev/")) and "/HTTP/" not in path
    ]


def siblings(path: str) -> str:
    """What there is instead of a path, if one of its parts is called differently."""
    parts = PurePosixPath(path).parts
    tried = []
    for at in range(len(parts) - 1, 1, -1):
        named = "/".join(shlex.quote(part) for part in parts[1:at])
        after = "".join(f"/{shlex.quote(part)}" for part in parts[at + 1 :])
        tried.append(f"/{named}/*{after}" if named else f"/*{after}")
    return f"ls -d {' '.join(tried)} 2>/dev/null | head -n 40"


def _bringing_back(case: Case, asked: str, path: str, line: str) -> Iterator[Idea]:
    here = PurePosixPath(path)
    service = case.user_of(path, asked)
    above, copied = probes.rows(str(here.parent)), probes.kept(here.name)
    walk, like = probes.walk(path), siblings(path)
    higher = probes.rows(str(here.parent.parent))
    wants = case.missing((above, higher, copied, walk, like, _program(here.name)))
    walked = case.look(walk)
    if walked is not None and walked.ok and "No such file" not in walked.output:
        yield from _interpreted(case, service, path, line)
        return  # it is there
    listed = case.look(above)
    folder_gone = listed is not None and not listed.ok
    copies = _copies(case, service, path)
    near = [row for row in copies if PurePosixPath(row.path).parent == here.parent]
    source = max(near or copies, key=lambda row: row.time, default=None)
    mend = _mended(case, service, path, source.path if source else "", folder_gone)
    wants += relink_wants(case, path) + aside.wants(case, service, path)
    told = [""]
    for script in _telling(case, service, path):
        wants += earlier(case, script).wants
        told += [row for row in _text(case, script).splitlines() if path in row]
    gone = str(here.parent) if folder_gone else path
    if _is_kept(gone) and not source:
        wants += (lost := case.missing((search(case, service, gone),)))
        mend = Mend(sure=max(mend.sure, 0.62)) if lost and mend.sure == UNSURE else mend
    now = f"now {source.path if source else mend.now}" if source or mend.now else ""
    yield Idea(
        "bad-config" if path.startswith("/etc/") or mend.where else "service-crash", service,
        f"{path}, which {service} needs, is gone", mend.sure,
        ", ".join(one for one in (path, mend.where, now) if one),
        lines(line, source.line if source else mend.now, *_seen(case, walk), told[-1]), wants,
        (*mend.fix, case.restart(service)) if mend.fix else (), mend.undo,
        ("keep what a service needs in its release",),
    )  # fmt: skip


def _interpreted(case: Case, service: str, path: str, line: str) -> Iterator[Idea]:
    """A script is there, and what is to read it is not, or is misspelt by line ends."""
    if path not in (*case.wrappers(service), *case.command(service)[:4]):
        return
    look = f"sed -n '1,3l' {shlex.quote(path)}"
    wants = case.missing((look,))
    first = next(iter(case.text(look).splitlines()), "")
    if wants:
        yield Idea("bad-config", service, f"{path} is there and cannot be run", 0.61, path,
                   lines(line), wants)  # fmt: skip
        return
    if first.endswith("\\r$"):
        name = shlex.quote(path)
        yield Idea(
            "bad-config", service, f"{path} has line ends of another system", 0.9, path,
            lines(line, first), (),
            (keeping(path), rf"sed -i 's/\r$//' {name}", case.restart(service)),
            undo_of(path), ("have line ends checked before a script is rolled out",),
        )  # fmt: skip
    elif (reader := re.match(r"#!\s*(/[\w./+-]+)", first)) and reader[1] not in line:
        yield from _bringing_back(case, service, reader[1], line)


def _seen(case: Case, walk: str) -> list[str]:
    return [row for row in case.text(walk).splitlines() if "No such file" in row][:1]


def _copies(case: Case, service: str, path: str) -> list[parse.Sized]:
    """Files by its name, or by that and what shows a copy, which are nobody else's."""
    name = PurePosixPath(path).name
    used = {one.path for one in case.definitions.values()}
    others = [one for one in case.services if one != service]
    versions = re.compile(rf"\.?{re.escape(name)}([.~_-].*)?")
    ends = PurePosixPath(path).suffix != ""
    rows = [row for row in parse.sizes(case.text(probes.kept(name))) if row.path != path]
    rows = [row for row in rows if not row.path.startswith((KEEP, "/usr/"))]
    rows = [row for row in rows if "/.cache/" not in row.path and row.path not in used]
    return [
        row
        for row in rows
        if versions.fullmatch(PurePosixPath(row.path).name)
        and (ends or row.path.endswith(name) or probes.BACKUPS.search(row.path))
        and (case.owns(service, row.path) or not any(case.owns(one, row.path) for one in others))
    ]


def _mended(case: Case, service: str, path: str, source: str, folder_gone: bool) -> Mend:
    here = PurePosixPath(path)
    telling = _telling(case, service, path)
    for file in telling:
        copy = earlier(case, file)
        if copy.path and any(row.startswith("> ") and _part_in(path, row) for row in copy.changes):
            back = (*put_back(file, copy.path), *reread(case, service, file))
            return Mend(back, file, 0.9, undo_of(file))
    if (relinked := _relinked(case, path)) is not None:
        return relinked
    other = case.text(_program(here.name)).strip().splitlines()[:1]
    whole = [file for file in telling if path in _text(case, file)]
    if whole and here.parent.name in ("bin", "sbin") and other:
        return _led(case, service, whole[0], path, other[0], 0.87)
    if source and folder_gone and whole:
        return _led(case, service, whole[0], path, source, 0.87)
    away = moved(case, path) or aside.put_away(case, service, path)
    if len(away) == 1:
        names = [shlex.quote(one) for one in away[0]]
        return Mend((f"mv {names[0]} {names[1]}",), "", 0.87, f"mv {names[1]} {names[0]}")
    gone = str(here.parent) if folder_gone else path
    if not source and _is_kept(gone) and (place := elsewhere(case, service, gone)):
        fix, undo = put_in(case, place, gone)
        return Mend(fix, "", 0.88, undo, place)
    if source:
        made = (f"mkdir -p {shlex.quote(str(here.parent))}",) if folder_gone else ()
        copied = (*made, f"cp -p {shlex.quote(source)} {shlex.quote(path)}")
        return Mend(copied, "", 0.87, f"mv {shlex.quote(path)} {shlex.quote(kept_as(path))}")
    for was, now in _instead(case, path):
        for file in telling:
            if was in _text(case, file):
                return _led(case, service, file, was, now, 0.8)
    if here.suffix and not folder_gone:
        return Mend()  # its folder is there: an empty file would help nobody
    if _MADE_ANEW.search(gone + "/") and not away:
        sure = UNSURE if _is_kept(gone) else 0.84
        return Mend((f"mkdir -p {shlex.quote(gone)}",), "", sure, f"rmdir {shlex.quote(gone)}")
    return Mend()


def _is_kept(folder: str) -> bool:
    """Whether something was kept in a folder, by its place or its name: an empty one would hide
    that it is lost."""
    return bool(_KEPT.search(folder + "/")) and not _PASSING.search(folder)


def _telling(case: Case, service: str, path: str) -> list[str]:
    """Files that name a path, or a part of it: settings, the script and the entry."""
    definition = case.definition(service)
    files = [*(file for file, _ in case.sources(service)), *case.wrappers(service)]
    files += [definition.path] if definition else []
    return [file for file in dict.fromkeys(files) if file and _part_in(path, _text(case, file))]


def _part_in(path: str, text: str) -> bool:
    """Whether a text names a path, or a folder on the way to it that is not of all."""
    parts = PurePosixPath(path).parts
    heads = ["/" + "/".join(parts[1:at]) for at in range(len(parts), 3, -1)]
    return any(head in text for head in heads)


def _text(case: Case, file: str) -> str:
    definition = next((one for one in case.definitions.values() if one.path == file), None)
    if definition is not None:
        return "\n".join(parse.files(case.text(probes.PROGRAMS)).get(file, []))
    return case.content(file)


def _led(case: Case, service: str, file: str, was: str, now: str, sure: float) -> Mend:
    """Another path in a file that names one."""
    if not _PLAIN.fullmatch(was) or not _PLAIN.fullmatch(now):
        return Mend()
    name = shlex.quote(file)
    fix = (
        keeping(file),
        f"sed -i 's|{basic(was)}|{now}|g' {name}",
        *reread(case, service, file),
    )
    return Mend(fix, file, sure, undo_of(file))


def _instead(case: Case, path: str) -> list[tuple[str, str]]:
    """Folders on the way to a file that are called differently, as old and new: likest first."""
    parts, found = PurePosixPath(path).parts, list[tuple[float, str, str]]()
    for row in case.text(siblings(path)).splitlines():
        other = PurePosixPath(row.strip()).parts
        if len(other) != len(parts):
            continue
        unlike = [at for at, (one, two) in enumerate(zip(parts, other, strict=True)) if one != two]
        if len(unlike) != 1 or unlike[0] == len(parts) - 1:
            continue
        at = unlike[0]
        alike = SequenceMatcher(None, parts[at], other[at]).ratio()
        was, now = ("/" + "/".join(each[1 : at + 1]) for each in (parts, other))
        if alike >= LIKE:
            found.append((alike, was, now))
    return [(was, now) for _, was, now in sorted(found, key=lambda one: -one[0])]


def _broken_link(case: Case, path: str) -> tuple[str, str]:
    """A link on the way to a file, and where it leads; empty where there is none."""
    found = ("", "")
    for row in case.text(probes.walk(path)).splitlines():
        if part := _LEADS.match(row):
            link = next((one for one in heads(path) if one.endswith(f"/{part[1]}")), "")
            target = settings.whole(part[2], str(PurePosixPath(link).parent)) if link else ""
            found = (link, target) if target and _PLAIN.fullmatch(target) else found
    return found


def _relinked(case: Case, path: str) -> Mend | None:
    """A link on the way leads to what is gone: it is led to the likest of what is there."""
    link, target = _broken_link(case, path)
    rows = case.text(kin(target)).splitlines() if target else []
    there = [row for row in rows if row.startswith("/") and row != link and _is_kin(row, target)]
    if not there or target in there:
        return None
    best = max(there, key=lambda row: (_numbers(row) < _numbers(target), _numbers(row)))
    fix = (f"ln -sfn {shlex.quote(best)} {shlex.quote(link)}",)
    return Mend(fix, link, 0.88, f"ln -sfn {shlex.quote(target)} {shlex.quote(link)}")


def relink_wants(case: Case, path: str) -> tuple[str, ...]:
    """What lies beside that to which a broken link leads."""
    _, target = _broken_link(case, path)
    return case.missing((kin(target),)) if target else ()


def kin(path: str) -> str:
    """What lies beside a path and is called alike, and programs by its name without numbers."""
    here = PurePosixPath(path)
    stem = re.split(r"\d", here.name)[0]
    name = shlex.quote(stem.rstrip(".-_")) if stem.strip(".-_") else ""
    called = f"; command -v {name} {name}3" if name and here.parent.name in ("bin", "sbin") else ""
    return f"ls -d {shlex.quote(str(here.parent))}/{shlex.quote(stem)}* 2>/dev/null{called}"


def _is_kin(path: str, other: str) -> bool:
    """Whether two are versions of one by their names, or nearly called the same."""
    first, second = (PurePosixPath(one).name for one in (path, other))
    plain = [re.sub(r"[\d._-]+", "", one) for one in (first, second)]
    return plain[0] == plain[1] or SequenceMatcher(None, first, second).ratio() >= LIKE


def _numbers(text: str) -> list[int]:
    return [int(part[:15]) for part in re.findall(r"\d+", PurePosixPath(text).name)]


def _program(name: str) -> str:
    return f"command -v {shlex.quote(name)}"


RULES = (absent,)
