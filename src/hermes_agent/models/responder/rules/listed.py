"""Entries that the supervisor does not have: renamed, put aside, never taken in, or written so that
it cannot read them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.ideas import (
    Idea,
    earlier,
    keeping,
    lines,
    put_away,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules.sed import extended
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import HIDDEN

REREAD = "supervisorctl reread"
_REFUSES = re.compile(r"error|CANT_REREAD", re.IGNORECASE)
_NO_FOLDER = re.compile(r"directory named as part of the path (\S+) does not exist")
_NO_USER = re.compile(r"[Ii]nvalid user name (\S+)")
_EXPANDED = re.compile(r"badly formatted|cannot be expanded|format (?:string|character)|'%'")
_BADLY = re.compile(r"for '(?P<key>\w+)' is badly formatted: .*in section '(?P<section>[^']+)'")
_NAMES = (
    r"\((here|host_node_name|program_name|process_num|group_name|numprocs|ENV_[A-Za-z0-9_]+)\)"
    r"0?[0-9]*[sd]"
)
"""What the supervisor puts in behind a sign, as `sed -E` reads it too."""
_SIGN = re.compile(rf"%%|%{_NAMES}|(?P<lone>%)")
_VALUE = re.compile(
    r"(?:invalid '\w+' |\bbad [\w ]+ )?(?:value|name) '(?P<quoted>[^']+)'"
    r"|(?:not a valid [\w ]+: |with base 10: )'(?P<sort>[^']*)'|^ERROR: \S+ '?(?P<bound>\S+?)'? is "
    r"(?:below|above) |[Ii]nvalid [\w ]+ \"?(?P<bare>[^\s\"']+)"
)
_PLACE = re.compile(r"\(?file: '?(/[^'\s)]+)")
_OWN = re.compile(r"command|user|directory|environment|numprocs|process_name|\w+_logfile$")
"""What only this program can be told: it is not left to what is usual."""
PREVENT = ("try a changed entry before it is rolled out",)


def unlisted(case: Case) -> Iterator[Idea]:
    """The supervisor has no entry for the service of the alert, or for one that it needs: it was
    renamed, put aside, never taken in, or cannot be read."""
    known = {one.name for one in case.brief.services} | {case.brief.service}
    if not case.supervised:
        return
    for service in (name for name in case.suspects if name in known):
        if service in case.programs:
            continue
        look = _entries(service)
        wants = case.missing((look, REREAD))
        files = [row for row in case.text(look).splitlines() if row.startswith("/")]
        if wants:
            yield Idea("service-crash", service, f"the supervisor has no entry for {service}", 0.66,
                       service, lines(case.text(probes.STATUS).splitlines()[0]), wants)  # fmt: skip
        elif files:
            yield from _taken_in(case, service, files)


def _entries(service: str) -> str:
    """Files of root that have it: whatever is taken in is run as it says."""
    return (
        f"grep -rlsF -- {shlex.quote(f'[program:{service}]')} /etc /opt /srv /root /home "
        "/var/backups /var/tmp /var/lib/supervisor 2>/dev/null | while read -r f; do "
        'find "$f" -user root ! -perm /022 -print; done | head -n 10'
    )


def _taken_in(case: Case, service: str, files: Sequence[str]) -> Iterator[Idea]:
    answer = case.look(REREAD)
    refused = next(answer.having(_REFUSES.pattern), "") if answer is not None else ""
    taken = parse.files(case.text(probes.PROGRAMS))
    folder = next((str(PurePosixPath(path).parent) for path in taken), "/etc/supervisor/conf.d")
    files = sorted(files, key=lambda path: not path.startswith(f"{folder}/"))
    here = [path for path in files if path in taken]
    named = _PLACE.search(refused)
    mend: tuple[str, ...] = ()
    undo, place = "", named[1] if named and named[1] in taken else (here or files)[0]
    if refused:
        mend, undo = _readable(case, place, refused)
    elif not here:
        goal = f"{folder}/{service}.conf"
        mend = (f"cp -p {shlex.quote(files[0])} {shlex.quote(goal)}",)
        back = undo_of(goal) if goal in taken else put_away(goal)
        mend = (keeping(goal), *mend) if goal in taken else mend
        undo = f"{back}; supervisorctl update {shlex.quote(service)}"
    if refused and not mend:
        yield Idea("bad-config", service, f"the supervisor cannot read {place}", 0.55, place,
                   lines(refused), earlier(case, place).wants)  # fmt: skip
        return
    yield Idea(
        "bad-config" if refused else "service-crash", service,
        f"the supervisor has no entry for {service}: it is in {place}", 0.9, place,
        lines(refused, *(answer.lines if answer else ()), *files), earlier(case, place).wants,
        (*mend, REREAD, f"supervisorctl update {shlex.quote(service)}", case.restart(service)),
        undo, PREVENT,
    )  # fmt: skip


def _readable(case: Case, place: str, refused: str) -> tuple[tuple[str, ...], str]:
    """What makes an entry readable that the supervisor refuses."""
    if gone := _NO_FOLDER.search(refused):
        folder = str(PurePosixPath(gone[1]).parent)
        return (f"mkdir -p {shlex.quote(folder)}",), f"rmdir {shlex.quote(folder)}"
    copy = earlier(case, place)
    if copy.path:
        return put_back(place, copy.path), undo_of(place)
    rows = parse.files(case.text(probes.PROGRAMS)).get(place, [])
    rows = [row for row in rows if row.strip()[:1] not in (";", "#", "")]
    shown = [row for row in rows if not HIDDEN.search(row)]
    mend: tuple[str, ...] = ()
    if _EXPANDED.search(refused):
        changes = [swapped(place, row, doubled(row))[1] for row in shown if doubled(row) != row]
        changes += _doubled_unseen(place, [row for row in rows if row not in shown], refused)
        mend = (keeping(place), *changes) if changes else ()
    elif wrong := _VALUE.search(refused):
        value = next((one for one in wrong.groups() if one), "")
        told = [row for row in shown if re.fullmatch(rf"\w+\s*=\s*{re.escape(value)}\s*", row)]
        mend = _as_usual(case, place, told[0]) if len(told) == 1 else ()
    return mend, undo_of(place) if mend else ""


def doubled(row: str) -> str:
    """A row in which each sign that stands for itself is written as the supervisor reads it."""
    return _SIGN.sub(lambda found: "%%" if found["lone"] else found[0], row)


def _doubled_unseen(place: str, rows: Sequence[str], refused: str) -> list[str]:
    """The same for a setting with a secret in it, which is refused by its name: it is written
    anew where it stands, and nobody has to see it. No line has a break in it, so that breaks stand
    for the signs that stay."""
    named = _BADLY.search(refused)
    if named is None or not any(re.match(rf"{named['key']}\s*[=:]", row) for row in rows):
        return []
    within = rf"/^\[{extended(named['section'])}\]/,/^\[/"
    setting = rf"/^{named['key']}[[:space:]]*[=:]/"
    change = rf"s/%%/\n\n/g; s/%({_NAMES})/\n\1/g; s/%/%%/g; y/\n/%/"
    script = f"{within} {{ {setting} {{ {change} }} }}"
    return [f"sed -i -E {shlex.quote(script)} {shlex.quote(place)}"]


def _as_usual(case: Case, place: str, row: str) -> tuple[str, ...]:
    """A setting as all others have it that have one; else it is left to what is usual."""
    key, _, value = (part.strip() for part in row.partition("="))
    used = {one.settings.get(key, "") for one in case.definitions.values()} - {"", value}
    if len(used) == 1 and (key == "user" or not _OWN.match(key)) and "root" not in used:
        return swapped(place, row, f"{key}={used.pop()}", whole=True)
    return () if _OWN.match(key) else swapped(place, row, f";{row}", whole=True)


RULES = (unlisted,)
