"""Processes that take more and more: memory, open files."""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from hermes_agent.models.responder.rules import edits, hoards, strays, waiting
from hermes_agent.models.responder.rules.flood import started_anew
from hermes_agent.models.responder.rules.ideas import Copy, Idea, earlier, lines
from hermes_agent.models.responder.rules.load import anew, line_of, since_changed
from hermes_agent.models.responder.rules.said import told
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import CROWD, Case

_TOO_MANY = r"too many open files|\bEMFILE|\bENFILE|errno[ :=]*24\b|file descriptors? (?:limit|exh)"
_NO_MEMORY = (
    r"MemoryError|cannot allocate memory|out of memory|\boom\b|oom-kill|errno[ :=]*12\b|bad_alloc"
    r"|\bENOMEM|heap (?:space|exhausted|out of)|memory (?:exhausted|limit)|OutOfMemory"
    r"|(?:allocat\w+|malloc|mmap)\b.{0,40}fail|start (?:a )?new thread|create (?:\w+ )?thread"
)
NEAR = 0.85
"""The share of the memory that it may have from which on it is near the end."""
_OPEN_FILES = re.compile(r"Max open files\s+(\d+)")
_OPENS = re.compile(
    r"trac|debug|dump|record|captur|idle|clos|time_?out|keep_?alive|pool|watch|cach|reuse|persist"
    r"|rotat|open|connect|per_host|max_|nofile|ulimit|linger",
    re.IGNORECASE,
)
"""Settings that may have files or connections stay open."""
_GROWN = 1.02
_RELIEVED = re.compile(r"requests?|jobs?|tasks?|recycl|connections_per|per_child", re.IGNORECASE)
SOON = "8"
"""Pieces of work after which a worker is relieved, where nobody says: so that it is soon seen
whether that helps."""
CALM_SECONDS = 60
"""What is worth a try for one that asks without end, where nobody says how often it should."""
_BIG = 40_000
"""Kilobytes from which on a process may be one that leaks."""


def leaking(case: Case) -> Iterator[Idea]:
    """A process takes more and more memory: it says so, it is seen to, or hardly any is left of
    what it may have."""
    later = {one.pid: one for one in parse.processes(case.text(probes.AGAIN))}
    for service in case.suspects:
        spoken = next(case.said(service, _NO_MEMORY), "")
        killed = _killed(case, service) if spoken else ""
        for pid in case.pids(service):
            process = case.process(pid)
            near = _near_limit(case, pid)
            if process is None or (process.rss < _BIG and not spoken and not near):
                continue
            after = later.get(pid)
            grown = after is not None and after.rss > process.rss * _GROWN
            limit = _limit(case, service)
            tight = bool(near) or (limit > 0 and process.rss > limit * 0.6)
            if not (spoken or grown or tight) and after is not None:
                continue
            score = 0.3 + 0.35 * bool(spoken) + 0.3 * grown + 0.1 * tight + 0.3 * bool(near)
            told = f"process {pid} of {service} takes more and more memory"
            known = Idea(
                "memory-leak", service, told, min(score, 0.9), f"pid {pid}: {process.command[:80]}",
                lines(near, spoken, process.line, after.line if after and grown else "", killed),
                case.missing((probes.AGAIN,)), (case.restart(service),), "",
                ("restart it before its limit until the leak is mended", "alert on its memory"),
            )  # fmt: skip
            yield known
            if score >= 0.6:
                yield from since_changed(case, known, service)
                yield from _unbound(case, known, service)
                yield from _looked_into(case, known, service)
                yield from _refused(case, known, service)
                yield from _fed(case, known, service)


def _unbound(case: Case, known: Idea, service: str) -> Iterator[Idea]:
    """A bound was taken away lately, or is many times what others have, and nothing was kept of how
    it was."""
    others = [one for one in case.services if one != service]
    unread = case.missing(
        probes.show(path) for one in (service, *others[:3]) for path in case.configs(one)[:2]
    )
    if unread:
        yield replace(known, wants=(*known.wants, *unread), fix=())
    found = [*edits.without_bound(case, service), *hoards.unlike(case, service)]
    found = [replace(one, better=SOON) if _may_be_sooner(one) else one for one in found]
    for edit in (*found, *hoards.loosened(case, service)):
        if earlier(case, edit.path).path:
            continue
        yield replace(
            known, score=min(0.93, known.score + 0.03), locus=edit.path,
            claim=f"{known.claim}: {edit.key} is {edit.value} in {edit.path}",
            evidence=(*known.evidence[:2], *lines(line_of(case, edit.path, edit.key))),
            fix=(*edit.fix, *anew(case, service, edit.path)), undo=edit.undo,
            prevent=("refuse a bound that binds nothing", *known.prevent[1:]),
            bound=int(edit.better) if not edit.told and edit.better.isdigit() else 0,
        )  # fmt: skip


def _may_be_sooner(edit: edits.Edit) -> bool:
    """Whether it says after how much work somebody is relieved, and nobody says how much that
    should be."""
    return not edit.told and _RELIEVED.search(edit.key) is not None and edit.better.isdigit()


def _looked_into(case: Case, known: Idea, service: str) -> Iterator[Idea]:
    """Somebody had more kept lately than the work needs, to look into a fault; or what nobody uses
    any more stays for hours."""
    for one in hoards.switches(case, service):
        if not earlier(case, one.path).path:
            yield replace(
                known, score=min(0.93, known.score + 0.03), locus=f"{one.path}: {one.row.strip()}",
                claim=f"{known.claim}, since {one.told}",
                evidence=(*known.evidence[:2], *lines(one.row)),
                fix=(*one.fix, *anew(case, service, one.path)), undo=one.undo,
                prevent=("switch off what was for a look", *known.prevent[1:]),
            )  # fmt: skip
    yield from _lingering(case, known, service)


def _lingering(case: Case, known: Idea, service: str) -> Iterator[Idea]:
    """What nobody uses stays for hours."""
    for edit in hoards.lingering(case, service):
        if not earlier(case, edit.path).path:
            row = line_of(case, edit.path, edit.key)
            yield replace(
                known, score=min(0.96, known.score + 0.02 + 0.02 * edit.told),
                locus=f"{edit.path}: {row.strip()}",
                claim=f"{known.claim}: {edit.key} is {edit.value} in {edit.path}",
                evidence=(*known.evidence[:2], *lines(row)),
                fix=(*edit.fix, *started_anew(case, service, edit.path)), undo=edit.undo,
                prevent=("let what is idle go after seconds", *known.prevent[1:]),
            )  # fmt: skip


def _refused(case: Case, known: Idea, service: str) -> Iterator[Idea]:
    """It says that it does not take one of its settings: what goes by that one, such as what clears
    away, does not go at all, and a restart would not change it."""
    for idea in told(case):
        if idea.component == service and idea.fix:
            yield replace(
                known, score=min(0.95, known.score + 0.1 * idea.score), locus=idea.locus,
                claim=f"{known.claim}, and {idea.claim}", fix=idea.fix, undo=idea.undo,
                evidence=(*known.evidence[:1], *idea.evidence[:2]),
                prevent=(*idea.prevent[:1], *known.prevent[1:]),
            )  # fmt: skip


def _fed(case: Case, known: Idea, service: str) -> Iterator[Idea]:
    """Somebody for whom it keeps what it cannot get rid of, or who asks without end: without an end
    to that, it only begins again."""
    if case.missing((probes.CLIENTS,)):
        yield replace(known, wants=(*known.wants, probes.CLIENTS), fix=())
        return
    said = "\n".join([*list(case.said(service, _NO_MEMORY))[:5], case.symptom])
    for one, chain in strays.clinging(case, service, said):
        sure = one.named or one.unread or one.count >= CROWD
        yield replace(
            known, score=min(0.97, known.score + (0.07 if sure else 0.03)),
            claim=f"{known.claim}: process {one.pid} ({chain[-1].command[:60]}), which nobody "
            f"looks after, holds on to it, by {one.count} connections",
            locus=f"pid {one.pid}: {chain[-1].command[:80]}",
            evidence=(*known.evidence[:1], *lines(chain[-1].line, one.line)),
            fix=(*strays.ended(chain), case.restart(service)),
            undo="it was started by hand: start it again",
            prevent=("drop what a client does not read in time", *known.prevent[1:]),
        )  # fmt: skip
    for one in strays.clients(case, service, said):
        owner = case.owner(one.pid)
        if owner and owner != service and (one.named or one.unread):
            held = replace(
                known, score=min(0.95, known.score + 0.05),
                claim=f"{known.claim}: {owner} does not take what it is sent",
                evidence=(*known.evidence[:2], *lines(one.line)),
                fix=(case.restart(owner), "sleep 1", case.restart(service)),
            )  # fmt: skip
            yield held
            yield from since_changed(case, held, owner, service)


def _near_limit(case: Case, pid: int) -> str:
    """The line that shows that it has hardly any memory left, of what it may have."""
    found = case.look(probes.VITALS)
    rows = found.having(rf"^{pid} has \S+ of \S+ bytes$") if found else iter(())
    return next((row for row in rows if _share(row) >= NEAR), "")


def _share(row: str) -> float:
    words = row.split()
    return parse.number(words[2]) / max(1.0, parse.number(words[4]))


def _limit(case: Case, service: str) -> int:
    """Kilobytes that it may have, as its entry says; 0 where it does not."""
    definition = case.definition(service)
    found = re.search(r"--(?:as|data|rss)=(\d+)", definition.command) if definition else None
    return int(found[1]) // 1024 if found and len(found[1]) < 16 else 0


def _killed(case: Case, service: str) -> str:
    text = case.text(probes.SUPERVISOR_LOG)
    found = [line for line in text.splitlines() if service in line and "exited" in line]
    return found[-1] if found else ""


def descriptors(case: Case) -> Iterator[Idea]:
    """A process runs out of open files."""
    for service in case.suspects:
        spoken = next(case.said(service, _TOO_MANY), "")
        for pid in case.pids(service):
            count, most = _opened(case, pid)
            near = most > 0 and count >= 0.8 * most and count > 8
            if not (spoken or near):
                continue
            wants = case.missing((probes.descriptors(pid), probes.limits(pid), probes.CONNECTIONS))
            if spoken and count and not near and count < 12:
                continue
            opened = case.look(probes.descriptors(pid))
            shown = next(iter(case.text(probes.limits(pid)).splitlines()), "")
            most_of = _repeated(opened.lines if opened else [])
            target = most_of[0].rpartition(" -> ")[2] if most_of else ""
            kept = f"; most are as {target}" if target else ""
            yield from _clinging(case, service, spoken or shown, count)
            known = Idea(
                "descriptor-leak", service,
                f"process {pid} of {service} has {count} of its {most or '?'} files open",
                0.6 + 0.15 * bool(spoken) + 0.18 * near, f"{_where(case, pid, service)}{kept}",
                lines(spoken, shown, *most_of), (*wants, *waiting.wants(case, service)),
                () if wants else (case.restart(service),), "",
                ("close what is opened, also when it fails", "alert on open files"),
            )  # fmt: skip
            yield known
            if near and not wants:
                yield from _in_the_way(case, known, service)
                yield from _never_closed(case, known, service, target)


def _in_the_way(case: Case, known: Idea, service: str) -> Iterator[Idea]:
    """Its helpers wait for somebody whom nobody looks after: once that one is ended they go on, and
    none of their work is lost."""
    for one in waiting.holders(case, service):
        ended = strays.ended(one.chain)
        for more, fix in ((0.04, ended), (0.03, (*ended, case.restart(service)))):
            yield replace(
                known, score=min(0.97, known.score + more), fix=fix,
                claim=f"{known.claim}: {one.waiting} of its helpers wait for {one.path}, which "
                f"process {one.process.pid} ({one.process.command[:60]}) has, and nobody looks "
                "after that one",
                locus=f"{one.path}, pid {one.process.pid}: {one.process.command[:80]}",
                evidence=(*known.evidence[:1], *lines(one.process.line, one.line)),
                undo="it was started by hand: start it again",
                prevent=("give those who wait an end", *known.prevent[1:]),
            )  # fmt: skip


def _never_closed(case: Case, known: Idea, service: str, target: str) -> Iterator[Idea]:
    """Files of a place that a setting names, which somebody switched on or changed lately."""
    folder = target.rpartition("/")[0] if target.startswith("/") else ""
    unread = case.missing(probes.show(path) for path in case.configs(service)[:3])
    if unread:
        yield replace(known, wants=(*known.wants, *unread), fix=())
    for idea in since_changed(case, known, service):
        if not idea.fix or _speaks_of(earlier(case, idea.locus), folder):
            yield idea
    if target.startswith("socket:"):
        yield from _lingering(case, known, service)
    for one in hoards.switches(case, service, folder):
        yield replace(
            known, score=min(0.96, known.score + 0.03), locus=f"{one.path}: {one.row.strip()}",
            claim=f"{known.claim}, most as {folder or target}, since {one.told}",
            evidence=(*known.evidence[:1], *lines(one.row), *known.evidence[-1:]),
            fix=(*one.fix, *anew(case, service, one.path)), undo=one.undo,
        )  # fmt: skip


def _speaks_of(copy: Copy, folder: str) -> bool:
    """Whether what was changed has to do with files that stay open."""
    return any((folder and folder in one) or _OPENS.search(one) for one in copy.changes)


def _where(case: Case, pid: int, service: str) -> str:
    process = case.process(pid)
    return f"pid {pid}: {process.command[:90]}" if process else f"pid {pid} of {service}"


def _opened(case: Case, pid: int) -> tuple[int, int]:
    """How many files a process has open, and how many it may have."""
    vitals = case.look(probes.VITALS)
    opened = case.look(probes.descriptors(pid))
    count = len(parse.descriptors(opened.output)) if opened else 0
    limit = _OPEN_FILES.search(case.text(probes.limits(pid)))
    most = int(limit[1]) if limit else 0
    for line in vitals.lines if vitals else []:
        words = line.split()
        if words[1:] == [f"/proc/{pid}/fd"]:
            count = count or int(parse.number(words[0]))
        elif words[0] == str(pid) and words[1] == "may":
            most = most or int(parse.number(words[3]))
    return count, most


def _clinging(case: Case, service: str, said: str, have: int) -> Iterator[Idea]:
    """Somebody who holds connections to it and lets none go: a stranger is ended, one that is
    looked after is started anew, as it was before where it was changed."""
    for port in case.ports(service):
        for pid, count, line in case.crowd(port):
            chain, owner = case.strangers(pid, harmful=True), case.owner(pid)
            process = case.process(pid)
            if process is None or owner == service or not (chain or owner):
                continue
            if not chain and 2 * count < have:  # the others are its own
                continue
            who = "which nobody looks after" if chain else f"which is of {owner}"
            ids = " ".join(str(one.pid) for one in chain)
            ending = f"kill {ids}" if chain else case.restart(owner)
            known = Idea(
                "descriptor-leak", service if chain else owner,
                f"process {pid} ({process.command[:60]}), {who}, holds {count} connections to "
                f"{service}", 0.95 if chain else 0.88 + 0.06 * (count > 3 * CROWD),
                f"pid {pid}: {process.command[:80]}", lines(said, process.line, line), (),
                (ending, "sleep 1", case.restart(service)),
                "it was started by hand: start it again" if chain else "",
                ("close connections that are idle", "limit connections of one client"),
            )  # fmt: skip
            yield known
            if not chain:
                yield from since_changed(case, known, owner, service)
                yield from _hasty(case, known, owner, service)


def _hasty(case: Case, known: Idea, owner: str, service: str) -> Iterator[Idea]:
    """Whoever holds on to it makes hardly any pause before it asks anew."""
    if unread := case.missing(probes.show(path) for path in case.configs(owner)[:3]):
        yield replace(known, wants=unread, fix=())
    for edit in hoards.hasty(case, owner, CALM_SECONDS):
        if not earlier(case, edit.path).path:
            row = line_of(case, edit.path, edit.key)
            fix = (*edit.fix, *anew(case, owner, edit.path), "sleep 1", case.restart(service))
            yield replace(
                known, score=min(0.97, known.score + 0.03), fix=fix, undo=edit.undo,
                claim=f"{known.claim}: {edit.key} is {edit.value} in {edit.path}",
                locus=f"{edit.path}: {row.strip()}", evidence=(*known.evidence[:2], *lines(row)),
                prevent=("refuse a pause of nothing", *known.prevent[:1]),
            )  # fmt: skip


def _repeated(found: list[str]) -> list[str]:
    """A line of the kind of which there are most."""
    kinds: dict[str, list[str]] = {}
    for line in found:
        target = line.rpartition(" -> ")[2]
        kinds.setdefault(re.sub(r"\d+", "", target), []).append(line)
    most = max(kinds.values(), key=len, default=[])
    return most[-1:]


RULES = (leaking, descriptors)
