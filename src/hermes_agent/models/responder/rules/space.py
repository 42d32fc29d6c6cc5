"""File systems without room."""

import re
import shlex
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from hermes_agent.models.responder.rules import edits, hoards, room, strays
from hermes_agent.models.responder.rules.flood import (
    calm,
    filling,
    is_log,
    is_slow,
    started_anew,
)
from hermes_agent.models.responder.rules.ideas import Idea, earlier, lines
from hermes_agent.models.responder.rules.load import LONG, since_changed
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import CODE

FULL, ROOMY = 95, 70
"""Percent: from where on a file system is full, and below which it should come."""
ENOUGH = 92
"""Percent below which it is worth a try."""
GROWING_SECONDS = 120.0
SINCE_SECONDS = 60.0
"""What was written so long before somebody began may be of that one still."""
LESSER = 5
"""By how much a log may be smaller than the largest that is written, to be one that fills."""
NO_ROOM = (
    r"no space left|disk (?:is )?full|ENOSPC|disk quota exceeded|errno 28\b|out of (?:disk )?space"
)
_RETAINS = re.compile(
    r"keep|kept|retain|retention|expir|ttl|max_?age|days|hours|clean|purge|prune|sweep|rotate|history"
    r"|generations|copies",
    re.IGNORECASE,
)
"""Settings by which older things are cleared away."""
_PREVENT = ("rotate and expire what fills it", "alert on disk use above 80 %")


def full_disk(case: Case) -> Iterator[Idea]:
    for mount in parse.mounts(case.text(probes.SPACE)):
        if mount.percent < FULL or mount.source in ("overlay", "devtmpfs"):
            continue
        wants = case.missing(
            (probes.large(mount.path), probes.DELETED, probes.OPEN_FILES, room.links(mount.path))
        )
        service = room.whose(case, mount.path, NO_ROOM)
        spoken = next(case.said(service, NO_ROOM), "") if service else ""
        told = re.search(NO_ROOM, case.symptom, re.IGNORECASE)
        near = spoken or told or room.below(case, service, mount.path)
        known = Idea(
            "disk-full", service or case.brief.service,
            f"the file system {mount.path} has no room left", 0.75 if near else 0.5, mount.path,
            lines(mount.line, spoken), wants,
        )  # fmt: skip
        if wants:
            yield known
        else:
            yield from _freeing(case, mount, known)


def _freeing(case: Case, mount: parse.Mount, known: Idea) -> Iterator[Idea]:
    gone = _deleted(case, mount)
    if gone is not None:
        yield replace(
            known, score=min(0.9, known.score + 0.15), locus=gone[1], fix=gone[0],
            claim=f"{known.claim}: a file that was removed is still open ({gone[1]})",
            evidence=(*known.evidence[:2], *lines(gone[2])),
            prevent=("have the log reopened after rotation", "alert on disk use above 80 %"),
        )  # fmt: skip
    found = list(parse.sizes(case.text(probes.large(mount.path))))
    yield from _written_by_strangers(case, mount, known, found)
    yield from _written_by_scripts(case, mount, known, found)
    yield from _read_by_others(case, known, found)
    spare = [one for one in found if room.disposable(one, case.now)]
    spare = [one for one in spare if not room.held(case, one.path)]
    logs = [one for one in found if one not in spare and is_log(case, one.path)]
    growing = [one for one in logs if case.now - one.time < GROWING_SECONDS]
    growing = [one for one in growing if LESSER * one.size >= growing[0].size]
    if growing:
        yield from filling(case, known, growing)
    cleared = list(_clearing(case, mount, known, found, spare))
    yield from cleared
    yield from _at_its_source(case, known, cleared, found)
    slow = [one for one in logs if one not in growing or is_slow(case, one.path, mount.size)]
    if slow and _is_worth_it(mount, slow[:3]):
        paths = [one.path for one in slow[:3]]
        freed = _freed(known, slow[:3], room.emptied(case, paths, mount.path), 0.05)
        yield replace(freed, proof=calm(growing[0].path) if growing else "")
    if gone is None and not spare and not logs and found:
        yield replace(
            known, score=min(known.score, 0.55), locus=found[0].path,
            evidence=(*known.evidence[:2], *lines(found[0].line)),
        )  # fmt: skip


def _clearing(
    case: Case,
    mount: parse.Mount,
    known: Idea,
    found: list[parse.Sized],
    spare: list[parse.Sized],
) -> Iterator[Idea]:
    """What nobody will miss is removed. What was made for a moment, and the older ones of many
    copies, are only moved to where there is room."""
    if spare and _is_worth_it(mount, spare):
        yield _freed(known, spare, ("rm -f -- " + _named(spare),), 0.1)
    if spare:
        yield from _moved(case, mount, known, spare, 0.08)
    rest = [one for one in found if one not in spare and not room.held(case, one.path)]
    passing = [
        one
        for one in rest
        if (
            room.half_done(one.path, mount.path, case.now - one.time)
            or (room.forgotten(one, case.now) and room.many(one, rest))
        )
        and not room.kept_for_good(case, one.path, mount.path)
        and not room.in_use(case, one.path, mount.path)
    ]
    copies = [one for one in room.series(case, rest, mount.path) if one not in passing]
    yield from _moved(case, mount, known, passing, 0.07)
    yield from _moved(case, mount, known, copies, 0.06)
    if passing and copies:
        yield from _moved(case, mount, known, [*passing, *copies], 0.055)


def _at_its_source(
    case: Case, known: Idea, cleared: list[Idea], found: list[parse.Sized]
) -> Iterator[Idea]:
    """With an end to what makes many files of a kind: a setting has them kept."""
    folder = room.pile(found)
    if not folder:
        return
    best = max(cleared, key=lambda idea: idea.score, default=known)
    services = dict.fromkeys([case.user_of(folder, known.component), known.component])
    for service in services:
        unread = case.missing(probes.show(path) for path in case.configs(service)[:3])
        if unread:
            yield replace(known, wants=unread, score=known.score + 0.05)
        for edit in edits.without_bound(case, service):
            if _RETAINS.search(edit.key) and cleared:
                yield replace(
                    best, component=service, score=min(0.96, best.score + 0.04), undo=edit.undo,
                    locus=f"{folder}, {edit.path}", claim=f"{best.claim}; {edit.key} is "
                    f"{edit.value} in {edit.path}, so that nothing is cleared away",
                    fix=(*edit.fix, *started_anew(case, service, edit.path), *best.fix),
                )  # fmt: skip
        for idea in since_changed(case, replace(best, component=service, fix=()), service):
            changes = earlier(case, idea.locus).changes if idea.fix else ()
            if any(_RETAINS.search(line) for line in changes):
                yield replace(idea, fix=(*idea.fix, *best.fix), locus=f"{folder}, {idea.locus}")
        for one in hoards.switches(case, service, folder):
            yield replace(
                best, component=service, score=min(0.97, best.score + 0.08),
                locus=f"{folder}, {one.path}", claim=f"{known.claim}: {folder}, since {one.told}",
                evidence=(*known.evidence[:1], *lines(one.row), *best.evidence[-1:]),
                fix=(*one.fix, *started_anew(case, service, one.path), "sleep 1", *best.fix),
                undo=one.undo, prevent=("keep such things for a limited time", _PREVENT[1]),
            )  # fmt: skip


def _moved(
    case: Case, mount: parse.Mount, known: Idea, rows: list[parse.Sized], more: float
) -> Iterator[Idea]:
    chosen = list[parse.Sized]()
    for one in room.crowded_first(rows):  # no more than it takes
        chosen.append(one)
        if _left(mount, chosen) < ROOMY:
            break
    size = sum(one.size for one in chosen)
    if chosen and _is_worth_it(mount, chosen) and room.is_room_aside(case, size, mount.path):
        paths = [one.path for one in chosen]
        moved = _freed(known, chosen, room.aside(paths), more)
        yield replace(moved, undo=room.back(paths), piles=room.pile(chosen))


def _freed(known: Idea, chosen: list[parse.Sized], fix: tuple[str, ...], more: float) -> Idea:
    return replace(
        known,
        score=min(0.88, known.score + more),
        locus=chosen[0].path,
        claim=f"{known.claim}: {chosen[0].path} and {len(chosen) - 1} more take it",
        evidence=(*known.evidence[:2], *lines(chosen[0].line)),
        fix=fix,
        undo="nothing of use is lost: rotated logs, dumps and scratch files only",
        prevent=_PREVENT,
    )


def _named(rows: list[parse.Sized]) -> str:
    return " ".join(shlex.quote(one.path) for one in rows)


def _left(mount: parse.Mount, rows: list[parse.Sized]) -> float:
    """Percent in use without these."""
    return mount.percent - 100 * (sum(one.size for one in rows) / 1024) / max(mount.size, 1)


def _is_worth_it(mount: parse.Mount, rows: list[parse.Sized]) -> bool:
    return _left(mount, rows) < ENOUGH


def _written_by_strangers(
    case: Case, mount: parse.Mount, known: Idea, found: list[parse.Sized]
) -> Iterator[Idea]:
    """Somebody whom nobody looks after writes a large file there: it is ended first, and then the
    file is moved away, or emptied where there is no room for it elsewhere."""
    for one in [row for row in found if _is_worth_it(mount, [row])][:6]:
        for pid, number in room.holders(case, one.path):
            chain = case.strangers(pid, harmful=True)
            if not chain:
                continue
            wants = case.missing((room.flags(pid, number),))
            if not wants and not room.writes(case, pid, number):
                continue
            there = room.is_room_aside(case, one.size, mount.path)
            own = shlex.quote(one.path)
            emptied = (f"[ ! -L {own} ] && truncate -s 0 {own}",)
            clear = room.aside([one.path]) if there else emptied
            if room.kept_for_good(case, one.path, mount.path):
                there, clear = False, checkpoint(one.path)  # only its writer is ended
            ids = " ".join(str(each.pid) for each in chain)
            yield replace(
                known,
                score=0.93,
                locus=f"{one.path}, written by pid {pid}: {chain[-1].command[:80]}",
                claim=f"{known.claim}: process {pid} ({chain[-1].command[:60]}), which nobody "
                f"looks after, writes {one.path}",
                evidence=(*known.evidence[:1], *lines(chain[-1].line, one.line)),
                wants=wants,
                fix=() if wants else (f"kill {ids}", "sleep 1", *clear),
                undo=room.back([one.path]) if there else "it was started by hand: start it again",
                prevent=("record for a limited time", "alert on disk use above 80 %"),
            )


def _written_by_scripts(
    case: Case, mount: parse.Mount, known: Idea, found: list[parse.Sized]
) -> Iterator[Idea]:
    """A script that runs, and nobody looks after it, names the file that takes the room and opens
    it only now and then: it is ended first, and the file is moved away."""
    large = [row for row in found if _is_worth_it(mount, [row]) and not room.held(case, row.path)]
    for one in large[:2]:
        if room.kept_for_good(case, one.path, mount.path):
            continue
        look = probes.mentions(one.path)
        rows = [line.partition(":") for line in case.text(look).splitlines()]
        names = {script: line for script, _, line in rows}
        for process in case.processes:
            words = _scripts(process, names)
            chain = case.strangers(process.pid, harmful=True) if words else []
            since = case.now - process.age - SINCE_SECONDS
            if not chain or one.time < since or not room.is_room_aside(case, one.size, mount.path):
                continue
            row = names[words[0]]
            yield replace(
                known, score=0.94, fix=(*strays.ended(chain), *room.aside([one.path])),
                locus=f"{one.path}, written by pid {process.pid}: {process.command[:80]}",
                claim=f"{known.claim}: process {process.pid} ({process.command[:60]}), which "
                f"nobody looks after, writes {one.path}", undo=room.back([one.path]),
                evidence=(*known.evidence[:1], *lines(process.line, row)),
                prevent=("record for a limited time", _PREVENT[1]),
            )  # fmt: skip
        if wants := case.missing((look,)):
            yield replace(known, score=known.score + 0.02, wants=wants)


def _scripts(process: parse.Process, files: Iterable[str]) -> list[str]:
    """Those files that a process runs: by their whole path, or by their name where that is all its
    command says. What is only read, as settings are, is none."""
    words = process.command.split()[:3]
    return [
        path
        for path in sorted(files)
        if CODE.search(path) or "." not in path.rpartition("/")[2]
        if path in words or path.rpartition("/")[2] in (word.removeprefix("./") for word in words)
    ]


def checkpoint(path: str) -> tuple[str, ...]:
    """Commands that have SQLite take over what lies in a log of its own, where it is one."""
    base = path.removesuffix("-wal")
    return (f"sqlite3 {shlex.quote(base)} 'pragma wal_checkpoint(truncate)'",) * (base != path)


def _read_by_others(case: Case, known: Idea, found: list[parse.Sized]) -> Iterator[Idea]:
    """A log of SQLite that cannot be cleared, as another service reads from it without end: that
    one is started anew, and nothing of the log is lost."""
    for one in [row for row in found[:4] if checkpoint(row.path)]:
        base = one.path.removesuffix("-wal")
        main = case.user_of(base, known.component)
        for pid, _ in room.holders(case, one.path):
            owner, process = case.owner(pid), case.process(pid)
            if LONG.search(case.about(owner)):
                continue  # it reads for long by right
            if owner and owner != main and process is not None:
                yield replace(
                    known, score=0.84, component=owner, locus=f"{one.path}, read by {owner}",
                    claim=f"{known.claim}: {owner} reads {base} without end, so that its log grows",
                    evidence=(*known.evidence[:1], *lines(one.line, process.line)),
                    fix=(case.restart(owner), "sleep 1", *checkpoint(one.path)),
                    prevent=("let readers begin anew now and then", _PREVENT[1]),
                )  # fmt: skip


def _deleted(case: Case, mount: parse.Mount) -> tuple[tuple[str, ...], str, str] | None:
    """How to free what was removed and is still open; where; and the line that shows it."""
    for line in case.text(probes.DELETED).splitlines():
        found = re.match(r"/proc/(\d+)/fd/(\d+) (/.*) \(deleted\)$", line)
        if found and room.on(found[3], mount.path) and not found[3].startswith(("/dev", "/memfd")):
            pid = int(found[1])
            owner = case.owner(pid)
            if owner:
                return (case.restart(owner),), f"pid {pid}: {found[3]}", line
            if is_log(case, found[3]) or room.half_done(found[3], mount.path):
                return (f"truncate -s 0 /proc/{pid}/fd/{found[2]}",), f"pid {pid}: {found[3]}", line
    return None


RULES = (full_disk,)
