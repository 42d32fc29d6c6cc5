"""A permission that somebody changed."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case, paths_in
from hermes_agent.models.responder.ideas import Idea, lines

_DENIED = re.compile(r"permission denied|EACCES|\[Errno 13\]|not permitted|\b13: ", re.IGNORECASE)
_WALKED = re.compile(r"^\s*([dlfpsbc-])([rwxsStT-]{9})\s+(\S+)\s+(\S+)\s+(.+?)(?: -> .*)?$")


def permission(case: Case) -> Iterator[Idea]:
    """A file that its user may no longer use."""
    for service in case.suspects:
        said = [line for line in case.troubles(service)[:10] if _DENIED.search(line)]
        program = case.programs.get(service)
        if program is not None and not program.up and _DENIED.search(program.line):
            said.append(program.line)
        for line in said:
            for path in paths_in(line):
                yield from _permitting(case, case.user_of(path, service), path, line)
        definition = case.definitions.get(service)
        if program is not None and not program.up and definition is not None:
            for word in definition.words[:2]:
                if re.search(r"not executable", program.line) and word in program.line:
                    yield from _permitting(case, service, word, program.line)


def _permitting(case: Case, service: str, path: str, line: str) -> Iterator[Idea]:
    walked = case.look(probes.walk(path))
    beside = probes.rows(str(PurePosixPath(path).parent))
    wants = case.missing((probes.walk(path), beside))
    claim = f"{service} may not use {path}"
    if walked is None:
        yield Idea("permission-change", service, claim, 0.7, path, lines(line), wants)
        return
    wrong = _lacking(walked.lines, path) or [
        (str(PurePosixPath(path).parent), "d?????????", walked.lines[-1] if walked.lines else "")
    ]
    fix, undo = [], []
    others = f"find {shlex.quote(str(PurePosixPath(path).parent))} -maxdepth 1 ! -perm -u=rw"
    if path.startswith(("/var/", "/srv/")):
        wants += case.missing((others,))
        known = {culprit for culprit, _, _ in wrong}
        alike = [one for one in case.text(others).splitlines() if one.startswith("/")]
        fix += [f"chmod u+rw {shlex.quote(one)}" for one in alike[:20] if one not in known]
    for culprit, mode, _ in wrong:
        change = _right_mode(case, culprit, beside) or ("u+rwx" if mode[0] == "d" else "u+rw")
        change = "u+rx" if "not executable" in line else change
        fix.append(f"chmod {change} {shlex.quote(culprit)}")
        undo += [f"chmod {_octal(mode[1:])} {culprit}"] if "?" not in mode else []
    culprit, mode, shown = wrong[0]
    yield Idea(
        "permission-change", service, f"{claim}: the mode of {culprit} was changed",
        0.7 if "?" in mode else 0.9, culprit, lines(line, shown), wants,
        (*fix, case.restart(service)), "; ".join(undo),
        ("change modes by configuration management only",),
    )  # fmt: skip


def _lacking(walked: Sequence[str], path: str) -> list[tuple[str, str, str]]:
    """What its owner lacks on the way to a file, by `namei -l`: path, mode and line."""
    here, found = "", list[tuple[str, str, str]]()
    parent = str(PurePosixPath(path).parent)
    for row in walked:
        part = _WALKED.match(row)
        if not part or row.startswith("f:"):
            continue
        here = "/" if part[5] == "/" else f"{here.rstrip('/')}/{part[5]}"
        own = part[2][:3]
        needed = "x" if part[1] == "d" and here != path else "r"
        written = here in (path, parent) and here.startswith(("/var/", "/run/", "/srv/", "/etc/"))
        if part[1] != "l" and (needed not in own or (written and "w" not in own)):
            found.append((here, part[1] + part[2], row))
    return found


def _right_mode(case: Case, culprit: str, beside: str) -> str:
    """The mode that files like it have, where there are several that agree."""
    name, kind = PurePosixPath(culprit).name, PurePosixPath(culprit).suffix
    rows = [row for row in parse.listing(case.text(beside)) if row.own not in (".", "..", name)]
    own = [row for row in parse.listing(case.text(beside)) if row.own == name]
    alike = [
        row.mode
        for row in rows
        if own and row.mode[0] == own[0].mode[0] and PurePosixPath(row.own).suffix == kind
    ]
    good = {mode for mode in alike if "r" in mode[1:4] and mode[8] != "w"}
    return _octal(good.pop()[1:]) if len(good) == 1 and len(alike) > 1 else ""


def _octal(mode: str) -> str:
    bits = [0 if sign in "-ST" else 1 for sign in mode[:9]]
    return "".join(str(bits[at] * 4 + bits[at + 1] * 2 + bits[at + 2]) for at in (0, 3, 6))


RULES = (permission,)
