"""File systems without room for more files."""

import re
import shlex
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from hermes_agent.models.responder.rules import crowds, hoards, room, shelves, strays
from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.flood import started_anew
from hermes_agent.models.responder.rules.ideas import Idea, earlier, lines, put_back, undo_of
from hermes_agent.models.responder.rules.load import anew
from hermes_agent.models.responder.rules.space import FULL, NO_ROOM, ROOMY
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

SHARE = 0.6
"""Of all files of a file system that a folder must hold to be what fills it."""
SMALL = 0.4
"""Of all room: where large files take less, small ones do."""
_RETENTION = re.compile(
    r"keep|retain|retention|expir|ttl|age|days|hours|clean|purge|prune|max|limit|sweep|gc|rotate",
    re.IGNORECASE,
)
"""Settings by which such files are cleared away."""
_WORK = re.compile(
    r"/(spool|work|partial|uploads-tmp|tmp|temp|scratch)(?:[-_][^/]*)?/(?!(?:.*/)?(?:cache|sess\w*)/)",
    re.IGNORECASE,
)
"""Passing files that may be work which waits, or what somebody put there: they are moved, never
deleted."""
AGES = (("-mmin +60", 0.0), ("-mmin +5", 0.05))
_WORKED_ON = re.compile(r"https?://\S+.*(?:&&|;|(?<!\|)\|(?!\|))\s*\S")
"""A page that is fetched for what comes next in the line."""


def no_inodes(case: Case) -> Iterator[Idea]:
    """Too many files: the old ones in the folder that holds most of them go, or are moved away."""
    for mount in parse.mounts(case.text(probes.INODES)):
        if mount.percent < FULL:
            continue
        service = room.whose(case, mount.path, NO_ROOM)
        spoken = next(case.said(service, NO_ROOM), "")
        told = re.search(NO_ROOM, case.symptom, re.IGNORECASE)
        near = spoken or told or room.below(case, service, mount.path)
        known = Idea(
            "inode-full", service, f"the file system {mount.path} has no room for more files",
            0.8 if near else 0.6, mount.path, lines(mount.line, spoken),
            case.missing((room.crowds(mount.path),)),
            prevent=("expire such files by age", "alert on inodes above 80 %"),
        )  # fmt: skip
        folder, line = crowded(case.text(room.crowds(mount.path)), mount.path)
        if not folder:  # they are spread: of one kind they may be all the same
            wants = (*known.wants, *case.missing(crowds.looks(mount.path, mount.path)))
            known = replace(known, wants=wants)
            yield known
            yield from _some_of(case, known, mount.path, mount.path)
            continue
        known = replace(
            known,
            claim=f"{known.claim}: {folder} holds too many",
            locus=folder,
            evidence=lines(mount.line, line, spoken),
            wants=case.missing((probes.names_in(folder),)),
            piles=folder,
        )
        yield from thinned(case, known, folder, mount)


def crowded(text: str, mount: str) -> tuple[str, str]:
    """The deepest folder that holds most of what was counted, and the line that shows it."""
    rows = {path: (count, line) for count, path, line in parse.counted(text)}
    here = mount
    while True:
        inner = [path for path in rows if path.rpartition("/")[0] == here.rstrip("/")]
        most = max(inner, key=lambda path: rows[path][0], default="")
        if not most or here not in rows or rows[most][0] < SHARE * rows[here][0]:
            break
        here = most
    return (here, rows[here][1]) if here != mount and here in rows else ("", "")


def thinned(case: Case, known: Idea, folder: str, mount: parse.Mount) -> Iterator[Idea]:
    """What there is too much of in a folder goes, as far as it is not what people keep."""
    below = folder[len(mount.path.rstrip("/")) :]
    passing = room.PASSING.search(f"{folder}/") is not None
    kept = room.kept_for_good(case, folder, mount.path) and not passing
    looks = (*crowds.looks(folder, mount.path), *shelves.wants(case, folder, mount.path))
    if passing or (not kept and room.BY_PRODUCTS.search(f"{below}/")):
        cleared = list(_all_of(known, folder, passing))
    else:
        wants = (*known.wants, *case.missing(looks))
        cleared = list(_some_of(case, replace(known, wants=wants), folder, mount.path))
        cleared += _older_versions(case, known, folder, mount)
    yield from cleared
    yield from _from_its_source(case, cleared, known.component, folder)
    yield from _switched_off(case, cleared, known.component, folder)
    empty = f"find {shlex.quote(folder)} -xdev -mindepth 1 -depth -type d -empty"
    ages = () if kept or known.category != "inode-full" else (("-mmin +60 ", 0.06), ("", 0.08))
    for age, less in ages:
        yield replace(known, score=known.score - less, fix=(f"{empty} {age}-exec rmdir {{}} +",),
                      undo="only empty folders are removed")  # fmt: skip
    if not cleared:
        yield replace(known, wants=(*known.wants, *case.missing(looks)))


def _older_versions(case: Case, known: Idea, folder: str, mount: parse.Mount) -> Iterator[Idea]:
    """Of all that was ever deployed, the oldest are moved."""
    small = known.category == "inode-full"

    def enough(rows: Sequence[shelves.Version]) -> bool:
        taken = sum(one.files if small else one.kilobytes for one in rows)
        return mount.percent - 100 * taken / max(mount.size, 1) < ROOMY

    rows = shelves.older(case, folder, mount.path, enough)
    if rows and room.is_room_aside(case, sum(one.kilobytes for one in rows) * 1024, mount.path):
        fix, undo = shelves.moved(rows)
        yield replace(
            known, score=known.score + 0.04, fix=fix, undo=undo,
            claim=f"{known.claim}: {len(rows)} old versions such as {rows[0].path}",
            prevent=("keep the last few releases only", *known.prevent[1:]),
        )  # fmt: skip


def _switched_off(case: Case, cleared: list[Idea], service: str, folder: str) -> Iterator[Idea]:
    """With an end to what has them kept: a setting that somebody switched on."""
    if not cleared:
        return
    best = max(cleared, key=lambda idea: idea.score)
    for name in dict.fromkeys([case.user_of(folder, service), service]):
        for one in hoards.switches(case, name, folder):
            yield replace(
                best, component=name, score=best.score + 0.05, undo=one.undo,
                fix=(*one.fix, *started_anew(case, name, one.path), "sleep 1", *best.fix),
                claim=f"{best.claim}, since {one.told}", locus=f"{folder}, {one.path}",
                evidence=(*best.evidence[:2], *lines(one.row)),
            )  # fmt: skip


def _moved(folder: str, which: str) -> tuple[str, ...]:
    """Commands that move files out of the way, and write down where each was."""
    own = f"find {shlex.quote(folder)} -xdev -type f {which}"
    return (
        room.MAKE_ASIDE,
        f"{room.IS_OWN} && {own} -print >> {room.ASIDE}/moved-from.txt",
        f"{room.IS_OWN} && {own} -exec mv --backup=numbered -t {room.ASIDE} -- {{}} +",
    )


def _all_of(known: Idea, folder: str, passing: bool) -> Iterator[Idea]:
    """All that is old of a folder of passing files, or of what comes off from work."""
    own = shlex.quote(folder)
    for age, less in AGES:
        if passing and not less and not _WORK.search(f"{folder}/"):
            yield replace(
                known, score=known.score + 0.1 - less,
                fix=(f"find {own} -xdev -type f {age} -delete",),
                undo="they are passing files, made again when wanted",
            )  # fmt: skip
        yield replace(
            known, score=known.score + 0.04 - less, fix=_moved(folder, age),
            undo=f"{room.ASIDE}/moved-from.txt tells where each of them was",
        )  # fmt: skip
        moving = f"-exec mv --backup=numbered -t {room.ASIDE} -- {{}} +"
        found = f"find {own} -xdev -mindepth 1 -maxdepth 1 -type d {age}"
        yield replace(
            known, score=known.score + 0.02 - less,
            fix=(room.MAKE_ASIDE, f"{room.IS_OWN} && {found} {moving}"),
            undo=f"what was moved is in {room.ASIDE}, and was in {folder}",
        )  # fmt: skip


def _some_of(case: Case, known: Idea, folder: str, mount: str) -> Iterator[Idea]:
    """The kind of which there are most, where it is seen that they are not what people keep; with
    an end to the fetching of a page of which each copy was kept."""
    most = next(iter(crowds.kinds(case, folder)), None)
    if most is not None and most.ending == crowds.NUMBERED:
        wants = case.missing((probes.mentions(crowds.FETCHES), probes.JOBS))
        if wants:
            yield replace(known, wants=(*known.wants, *wants))
            return
    for kind, why in crowds.may_go(case, crowds.kinds(case, folder), folder, mount):
        said = crowds.told(case, kind, folder, mount)
        for age, less in AGES:
            moved = replace(
                known, score=known.score + 0.04 - less, fix=_moved(folder, f"{kind.filter} {age}"),
                claim=f"{known.claim}: {kind.count} such as {kind.sample}; {why[:120]}",
                evidence=(*known.evidence[:2], *lines(said or kind.line)),
                undo=f"{room.ASIDE}/moved-from.txt tells where each of them was",
            )  # fmt: skip
            yield moved
            for path, row in crowds.fetches(case, kind):
                if _WORKED_ON.search(row):
                    continue
                new = row.replace(crowds.FETCHES, f"{crowds.FETCHES}-O /dev/null ", 1)
                yield replace(
                    moved, score=moved.score + 0.04, fix=(*swapped(path, row, new), *moved.fix),
                    claim=f"{known.claim}: {kind.count} such as {kind.sample}, copies of a page "
                    f"that {path} has fetched again and again", locus=f"{folder}, {path}",
                    evidence=(*known.evidence[:2], *lines(row)), undo=undo_of(path),
                    prevent=("let a fetched page go where nobody reads it", *known.prevent[1:]),
                )  # fmt: skip


def _from_its_source(case: Case, cleared: list[Idea], service: str, folder: str) -> Iterator[Idea]:
    """With an end to what makes them: a stranger that works there, or settings by which they were
    cleared away before."""
    if not cleared:
        return
    best = max(cleared, key=lambda idea: idea.score)
    for process in case.processes:
        chain = case.strangers(process.pid, harmful=True)
        if chain and re.search(rf"(^|[ =]){re.escape(folder)}(/| |$)", process.command):
            yield replace(
                best, score=best.score + 0.05, fix=(*strays.ended(chain), *best.fix),
                claim=f"{best.claim}; process {process.pid} ({process.command[:60]}), which nobody "
                "looks after, works there",
                evidence=(*best.evidence[:2], *lines(process.line)),
            )  # fmt: skip
            break
    for path in [one for one in case.configs(service) if one in case.changed(service)][:2]:
        copy = earlier(case, path)
        if copy.wants:
            yield replace(best, wants=(*best.wants, *copy.wants), fix=())
        elif any(_RETENTION.search(line) for line in copy.changes):
            yield replace(
                best, score=best.score + 0.04, undo=undo_of(path),
                fix=(*put_back(path, copy.path), *anew(case, service, path), *best.fix),
                claim=f"{best.claim}, since {path} was changed",
                evidence=(*best.evidence[:2], *lines(copy.change)),
            )  # fmt: skip


def small_files(case: Case) -> Iterator[Idea]:
    """No room, and no large file takes it: very many small ones do."""
    for mount in parse.mounts(case.text(probes.SPACE)):
        large = case.look(probes.large(mount.path))
        if mount.percent < FULL or mount.source in ("overlay", "devtmpfs") or large is None:
            continue
        if sum(one.size for one in parse.sizes(large.output)) > SMALL * mount.size * 1024:
            continue
        service = room.whose(case, mount.path, NO_ROOM)
        spoken = next(case.said(service, NO_ROOM), "")
        known = Idea(
            "disk-full", service, f"the file system {mount.path} has no room left", 0.74,
            mount.path, lines(mount.line, spoken), case.missing((room.heaps(mount.path),)),
            prevent=("expire such files by age", "alert on disk use above 80 %"),
        )  # fmt: skip
        folder, line = crowded(case.text(room.heaps(mount.path)), mount.path)
        if not folder:
            yield known
            continue
        known = replace(
            known, claim=f"{known.claim}: {folder} takes most of it", locus=folder, piles=folder,
            evidence=lines(mount.line, line, spoken),
        )  # fmt: skip
        yield from thinned(case, known, folder, mount)


RULES = (no_inodes, small_files)
