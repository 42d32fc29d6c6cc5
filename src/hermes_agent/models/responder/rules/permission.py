"""Files that a service may no longer use, or that are open to more than it accepts."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.rules.ideas import Idea, lines
from hermes_agent.models.responder.view import parse, probes, settings
from hermes_agent.models.responder.view.case import Case, paths_in
from hermes_agent.models.responder.view.house import SECRET, SHARED, SYSTEM

_DENIED = re.compile(
    r"permission denied|access .{0,80}\bdenied|EACCES|EPERM|\bErrno 13\b|not permitted|\(?\b13: |"
    r"read-?only database|unable to open database|not (?:writ|read)able|not executable|"
    r"insufficient (?:permission|privilege)|\b403\b|forbidden|not (?:allowed|accessible)|may not |"
    r"no (?:read|write|search)?\w* ?(?:access|permission|right)|(?:could not|couldn't|cannot|can't|"
    r"unable to|failed to) (?:be )?(?:open|write|read|writt|creat|access|list|enter|save|append)",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"too (?:open|permissive|loose|wide|lax)|(?:invalid|bad|unsafe|wrong) (?:owner or )?"
    r"(?:permission|mode)|insecure|unprotected|(?:should|must) be (?:private|0?600|mode)|"
    r"(?:read(?:able)?|seen|writ\w+|accessible|open) (?:by|to|for) (?:other|group|all|every|any)|"
    r"others? (?:can|may|could) (?:read|see|write)|"
    r"(?:group|world|others?)[ -]?(?:or[ -]\w+[ -])?(?:has |have )?(?:readable|writ|access)|"
    r"must not be (?:readable|accessible|writable)",
    re.IGNORECASE,
)
_WALKED = re.compile(r"^\s*([dlfpsbc-])([rwxsStT-]{9})\s+(\S+)\s+(\S+)\s+(.+?)(?: -> (.*))?$")
_FOUND = re.compile(r"^([-dlpsbc])([rwxsStT-]{9}) (\S+) (/.+)$")
_NAMED = re.compile(r"[\"'`(=\s]((?:\.{0,2}/)?[\w@+-][\w.@+/-]*/[\w.@+-]+)[\"'`):,;\s]?")
_ROOM = re.compile(r"temporary (?:directory|file)|tempfile|mkstemp|/tmp/|/dev/null|/dev/shm")
USUAL = {
    "/": 0o755, "/tmp": 0o1777, "/var/tmp": 0o1777, "/dev/shm": 0o1777, "/dev/null": 0o666,  # noqa: S108
    "/var": 0o755, "/var/log": 0o755, "/var/lib": 0o755, "/var/opt": 0o755, "/var/spool": 0o755,
    "/etc": 0o755, "/opt": 0o755, "/srv": 0o755, "/run": 0o755, "/home": 0o755,
}  # fmt: skip
"""How places that all share are open to all, on every machine."""
COMMON = f"stat -L -c '%a %n' {' '.join(USUAL)} 2>/dev/null"
MOST = 8


class Barred(Struct, frozen=True):
    """A file whose mode keeps its user out."""

    path: str
    mode: str
    """As `ls` shows it."""
    line: str

    @property
    def folder(self) -> bool:
        return self.mode[:1] == "d"


def permission(case: Case) -> Iterator[Idea]:
    """A file that its user may no longer use."""
    for service in case.suspects:
        program = case.programs.get(service)
        said = [line for line in case.troubles(service)[:10] if _DENIED.search(line)]
        if program is not None and not program.up and _DENIED.search(program.line):
            said.append(program.line)
        for line in dict.fromkeys(said):
            for path in _paths(case, service, line):
                yield from _permitting(case, case.user_of(path, service), path, line)
        for line in (one for one in case.troubles(service)[:6] if _OPEN.search(one)):
            for path in _paths(case, service, line):
                yield from _closing(case, service, path, line)
        yield from _unsaid(case, service, next(iter(said), ""))
        told = [*said, *(one for one in case.troubles(service)[:6] if _ROOM.search(one))]
        yield from _common(case, service, told)


def _paths(case: Case, service: str, line: str) -> list[str]:
    """Files that a line names; relative ones as the service sees them, and its program."""
    found = paths_in(line)
    folder = case.directory(service)
    found += [settings.whole(one, folder) for one in _NAMED.findall(line) if one[0] != "/"]
    if "executable" in line or "exec" in line:
        found += [word for word in case.command(service)[:3] if word in line and word[0] == "/"]
    kept = (path.rstrip(".,:;") for path in found)
    return [
        path
        for path in dict.fromkeys(kept)
        if path and not path.startswith(SYSTEM) and "/HTTP/" not in path
    ]


def _permitting(case: Case, service: str, path: str, line: str) -> Iterator[Idea]:
    walked = case.look(probes.walk(path))
    beside = probes.rows(str(PurePosixPath(path).parent))
    wants = case.missing((probes.walk(path), beside))
    claim = f"{service} may not use {path}"
    if walked is None:
        yield Idea("permission-change", service, claim, 0.7, path, lines(line), wants)
        return
    runs = re.search(r"executable|exec|spawn|command|run ", line, re.IGNORECASE) is not None
    wrong = _lacking(walked.lines, path, runs=runs)
    guessed = not wrong
    if guessed and not re.search(r"No such file", walked.output):
        return  # its owner may do all that is done with it
    parent = str(PurePosixPath(path).parent)
    wrong = wrong or [Barred(parent, "d?????????", walked.lines[-1] if walked.lines else "")]
    alike = _alike(path)
    fix, undo = list[str](), list[str]()
    if path.startswith(("/var/", "/srv/", "/opt/", "/data/")) and parent not in SHARED:
        wants += case.missing((alike,))
        known = {one.path for one in wrong}
        rows = re.findall(r"(?m)^([0-7]{1,4}) (/.+)$", case.text(alike))
        for mode, other in [row for row in rows if row[1] not in known][:20]:
            fix.append(f"chmod u+rw {shlex.quote(other)}")
            undo.append(f"chmod {mode} {shlex.quote(other)}")
    for one in wrong:
        others = "" if SECRET.search(one.path) else _right_mode(case, one.path, beside)
        change = others or ("u+rwx" if one.folder else "u+rw")
        change = "u+rx" if runs and one.path == path and not one.folder else change
        fix.append(f"chmod {change} {shlex.quote(one.path)}")
        if "?" not in one.mode:
            undo.append(f"chmod {octal(one.mode[1:])} {shlex.quote(one.path)}")
    yield Idea(
        "permission-change", service, f"{claim}: the mode of {wrong[0].path} was changed",
        0.7 if guessed else 0.9, wrong[0].path, lines(line, wrong[0].line), wants,
        (*fix, case.restart(service)), "; ".join(undo),
        ("change modes by configuration management only",),
    )  # fmt: skip


def _alike(path: str) -> str:
    """Files beside it that their owner may not use, either."""
    folder = shlex.quote(str(PurePosixPath(path).parent))
    return f"find {folder} -maxdepth 1 ! -perm -u=rw -printf '%m %p\\n'"


def _lacking(walked: Sequence[str], path: str, *, runs: bool = False) -> list[Barred]:
    """What its owner lacks on the way to a file, by `namei -l`."""
    here, found = "", list[Barred]()
    parent = str(PurePosixPath(path).parent)
    for row in walked:
        part = _WALKED.match(row)
        if not part or row.startswith("f:"):
            continue
        here = "/" if part[5] == "/" else f"{here.rstrip('/')}/{part[5]}"
        own = part[2][:3]
        needed = "x" if part[1] == "d" and here != path else "r"
        needed = "x" if runs and here == path else needed
        kept = here in (path, parent) and here.startswith(
            ("/var/", "/run/", "/srv/", "/etc/", "/data/", "/home/", "/opt/")
        )
        written = kept and here not in SHARED
        if part[1] != "l" and (needed not in own or (written and "w" not in own)):
            found.append(Barred(here, part[1] + part[2], row))
    return found


def barred(paths: Sequence[str]) -> str:
    """Files and folders among and below these that their owner may not use."""
    named = " ".join(shlex.quote(path) for path in paths)
    return (
        rf"find {named} -maxdepth 1 -xdev \( -type d ! -perm -u=rwx -o -type f ! -perm -u=rw \) "
        r"-printf '%M %u %p\n' 2>/dev/null | head -n 20"
    )


def _unsaid(case: Case, service: str, line: str) -> Iterator[Idea]:
    """It does not say which file: one that its settings name, and that its owner may not use."""
    if service != case.brief.service and not line and service not in case.needs(case.brief.service):
        return
    own = [path for path in case.named(service) if path not in SHARED]
    own += [str(PurePosixPath(path).parent) for path in own]
    own = [
        path
        for path in dict.fromkeys(own)
        if path not in SHARED and not path.startswith((*SYSTEM, "/opt/bin"))
    ][: 2 * MOST]
    if not own:
        return
    look = barred(own)
    wants = case.missing((look,))
    rows = [row for each in case.text(look).splitlines() if (row := _FOUND.match(each))]
    told = set(case.named(service))
    told |= {str(PurePosixPath(path).parent) for path in told}
    rows = [row for row in rows if row[4] in told] or (rows if line else [])
    if wants and line:
        yield Idea(
            "permission-change", service, f"{service} may not use a file of its own", 0.61,
            service, lines(line), wants,
        )  # fmt: skip
    if not rows:
        return
    rows = list({row[4]: row for row in rows}.values())
    first = rows[0]
    fix = [
        f"chmod {'u+rwx' if row[1] == 'd' else 'u+rw'} {shlex.quote(row[4])}" for row in rows[:MOST]
    ]
    undo = [f"chmod {octal(row[2])} {shlex.quote(row[4])}" for row in rows[:MOST]]
    yield Idea(
        "permission-change", service,
        f"{service} may not use {first[4]}: its mode was changed", 0.88 if line else 0.66,
        first[4], lines(line, first[0], *case.troubles(service)[:1]), wants,
        (*fix, case.restart(service)), "; ".join(undo),
        ("change modes by configuration management only",),
    )  # fmt: skip


def _common(case: Case, service: str, said: Sequence[str]) -> Iterator[Idea]:
    """A place that all share is shut: it is opened as it is on every machine."""
    if not said:
        return
    wants = case.missing((COMMON,))
    rows = [row.split() for row in case.text(COMMON).splitlines()]
    modes = {row[1]: int(row[0], 8) for row in rows if len(row) == 2 and row[0].isdigit()}
    shut = [path for path, mode in modes.items() if USUAL.get(path, 0) & ~mode & 0o700]
    for path in shut:
        named = re.compile(rf"{re.escape(path)}(?=[/'\"\s])")
        line = next((one for one in said if path != "/" and named.search(one)), "")
        yield Idea(
            "permission-change", service, f"{path}, which all share, is shut",
            0.9 if line else 0.75, path, lines(line or said[0]), (),
            (*_opened(path, modes[path]), case.restart(service)),
            f"chmod {modes[path]:o} {path}", ("change modes by configuration management only",),
        )  # fmt: skip
    if wants and not shut:
        yield Idea("permission-change", service, f"{service} may be shut out of a common place",
                   0.58, service, lines(said[0]), wants)  # fmt: skip


def _opened(path: str, mode: int) -> tuple[str, ...]:
    """First for its owner, which is the less; then for all, which people may be asked about."""
    own = "u+rw" if USUAL[path] == 0o666 else "u+rwx"
    rest = USUAL[path] & ~mode & 0o1077
    return (f"chmod {own} {path}", *((f"chmod {USUAL[path]:o} {path}",) if rest else ()))


def _closing(case: Case, service: str, path: str, line: str) -> Iterator[Idea]:
    """It refuses a file because others may use it, too. What all share stays open."""
    if path in SHARED or path in USUAL:
        return
    row = probes.rows(path)
    wants = case.missing((probes.walk(path), row))
    walked = [part for each in case.text(probes.walk(path)).splitlines()
              if (part := _WALKED.match(each)) and not each.startswith("f:")]  # fmt: skip
    if wants or not walked:
        yield Idea("permission-change", service, f"{path} is open to others", 0.7, path,
                   lines(line), wants)  # fmt: skip
        return
    last = walked[-1]
    if last[2][3:] == "------":
        return
    yield Idea(
        "permission-change", service, f"{path} is open to others, and {service} refuses it",
        0.92, path, lines(line, last[0]), (),
        (f"chmod go-rwx {shlex.quote(path)}", case.restart(service)),
        f"chmod {octal(last[2])} {shlex.quote(path)}",
        ("change modes by configuration management only",),
    )  # fmt: skip


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
    return octal(good.pop()[1:]) if len(good) == 1 and len(alike) > 1 else ""


def octal(mode: str) -> str:
    bits = [0 if sign in "-ST" else 1 for sign in mode[:9]]
    plain = "".join(str(bits[at] * 4 + bits[at + 1] * 2 + bits[at + 2]) for at in (0, 3, 6))
    more = sum(bit for at, bit in ((2, 4), (5, 2), (8, 1)) if mode[at] in "sStT")
    return f"{more}{plain}" if more else plain


RULES = (permission,)
