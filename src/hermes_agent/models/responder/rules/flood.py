"""Logs that grow without measure: who writes them, and why."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from hermes_agent.models.responder.rules import echoes, edits, hoards, levels, pieces, room
from hermes_agent.models.responder.rules.ideas import (
    Idea,
    earlier,
    keeping,
    lines,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules.load import anew, since_changed
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import CROWD, TAG, Case, paths_in, stamp
from hermes_agent.models.responder.view.house import CODE, LOG

FLOOD_BYTES = 20_000
"""What a log grows in a second that is more than anybody reads."""
BUSY_BYTES = 100_000
"""From which size on it is worth to look whether a log grows."""
SLOW_LINES, SLOW_SECONDS = 8, 2 * 86_400.0
"""Lines from which on it can be told how fast a log grows, and the time in which it may not fill
its file system."""
_LOG_KEY = re.compile(r"log(?!in)|journal_?file|access|output", re.IGNORECASE)
_LOUD_LINE = re.compile(r"\b(DEBUG|TRACE|VERBOSE)\b", re.IGNORECASE)
_FLAG = re.compile(
    r" --?(debug|verbose|trace|vv+|chatty|loud|talkative|xtrace|very-verbose|log-(?:all|everything|"
    r"requests|queries|sql|bodies))(?= |$)",
    re.IGNORECASE,
)
_AGAIN = re.compile(
    r"error|fail|cannot|could not|retry|again|invalid|unexpected|expect|refus|reject|bad|unable"
    r"|exception|warn|malformed|corrupt|parse|decode|skipp",
    re.IGNORECASE,
)
_REQUEST = re.compile(r"\b(GET|PUT|POST|HEAD|DELETE|OPTIONS|PATCH) /|\" \d{3} |connection from")
_RELOADS = re.compile(r"postgres|postmaster|nginx")
"""Those that read their settings anew when they are told to."""
_PREVENT = ("keep the log level at info", "rotate logs by size")


def is_log(case: Case, path: str) -> bool:
    """Whether a file is a log, by its name, its place, or what settings call it."""
    if room.NO_TEXT.search(path):
        return False
    if path.startswith("/var/log/") or path.endswith((".log", ".out")) or LOG.search(path):
        return True
    return any(
        value == path and _LOG_KEY.search(key)
        for service in case.suspects
        for key, value in case.settings(service).items()
    )


def writer_of(case: Case, path: str, otherwise: str) -> str:
    """Who writes a log: who has it open, whose settings name it, or who is called as it is."""
    for pid, _ in room.holders(case, path):
        if owner := case.owner(pid):
            return owner
    for service in case.suspects:
        definition = case.definition(service)
        told = definition.logs if definition else []
        if path in told or path in case.settings(service).values():
            return service
    stem = PurePosixPath(path).name.partition(".")[0]
    return stem if stem in case.services else case.user_of(path, otherwise)


def speaker_of(case: Case, log: str, writer: str) -> str:
    """Whose lines they are that fill a log which one writes for many: as most of them say."""
    said = case.text(probes.tail(log)).splitlines() or case.logs.get(log, [])
    for name in case.services:
        tag = re.compile(TAG.format(re.escape(name)))
        if name != writer and 2 * sum(bool(tag.search(line)) for line in said) > len(said):
            return name
    return writer


def filling(case: Case, known: Idea, growing: Sequence[parse.Sized]) -> Iterator[Idea]:
    """Logs that are written right now fill a file system: whoever writes is quietened first."""
    log = growing[0]
    writer = speaker_of(case, log.path, writer_of(case, log.path, known.component))
    emptied = room.emptied(case, [one.path for one in growing], known.locus)
    claim = f"{writer} fills {known.locus} with {log.path}"
    evidence = lines(*known.evidence[:1], log.line)
    wants = case.missing((probes.tail(log.path),))
    if wants:
        yield Idea("log-flood", writer, claim, 0.9, log.path, evidence, wants)
        return
    yield from _quietened(case, writer, claim, log.path, evidence, emptied)


def flood(case: Case) -> Iterator[Idea]:
    """A log that grows without measure, while there is still room."""
    if any(one.percent >= 95 for one in parse.mounts(case.text(probes.SPACE))):
        return
    for service in case.suspects:
        named = [path for path in case.settings(service).values() if path.startswith("/")]
        named = [path for path in named if is_log(case, path)]
        logs = [*named, *(path for path in case.log_files(service) if case.logs.get(path))]
        logs = [path for path in dict.fromkeys(logs) if not probes.BACKUPS.search(path)][:4]
        rows = (case.log_rows.get(path) for path in logs)
        busy = any(row and row.size > BUSY_BYTES and case.now - row.time < 10 for row in rows)
        busy = busy or _rushes(case, logs)
        if not logs or not (busy or any(loud(case, service))):
            continue
        sampled = case.missing((probes.sizes_twice(logs),))
        fast = [path for path, was, now in growth(case) if path in logs and now - was > FLOOD_BYTES]
        chatty = next(case.said(service, _LOUD_LINE.pattern), "")
        if sampled or not fast:
            yield Idea(
                "log-flood", service, f"{service} may log too much", 0.35 + 0.15 * bool(chatty),
                logs[0], lines(chatty), sampled,
            )  # fmt: skip
            continue
        claim = f"{service} logs far too much to {fast[0]}"
        emptied = room.emptied(case, fast)
        yield from _quietened(case, service, claim, fast[0], lines(chatty), emptied, 0.28)
    for path, was, now in growth(case):
        if now - was > FLOOD_BYTES:
            writer = speaker_of(case, path, writer_of(case, path, case.brief.service))
            claim = f"{path} grows by {(now - was) // 1024} KB a second"
            emptied = room.emptied(case, [path])
            seen = lines(f"{now} {path}")
            yield from _quietened(case, writer, claim, path, seen, emptied, 0.25)


def _rushes(case: Case, logs: Sequence[str]) -> bool:
    """Whether the last lines of a log are nearly all alike, many in a second."""
    for path in logs:
        kinds = [re.sub(r"\d+", "", line)[:60] for line in case.logs.get(path, [])[-12:]]
        if len(kinds) >= 8 and len(set(kinds)) <= 2 and len({*case.logs[path][-12:]}) < 12:
            return True
    return False


def growth(case: Case) -> Iterator[tuple[str, int, int]]:
    for one in case.observed:
        if one.command.startswith("stat -c '%s %n'"):
            sizes: dict[str, int] = {}
            for size, path, _ in parse.counted(one.output):
                if path in sizes:
                    yield path, sizes[path], size
                sizes[path] = size


def _quietened(
    case: Case,
    writer: str,
    claim: str,
    log: str,
    evidence: tuple[str, ...],
    emptied: tuple[str, ...],
    less: float = 0.0,
) -> Iterator[Idea]:
    """Why it writes so much, and what ends that: a level, something that was changed lately, a
    piece of work that cannot be done, somebody who asks too much; or it is started anew."""
    said = [line for line in case.text(probes.tail(log)).splitlines() if line.strip()]
    told = _commonest(said or [line for path, line in case.log(writer) if path == log])

    def idea(why: str, score: float, fix: tuple[str, ...], undo: str, *seen: str) -> Idea:
        quoted = lines(*seen, told, *evidence)[:2] + evidence[:1]
        return Idea(
            "log-flood", writer, f"{claim}: {why}", score - less, log, quoted, (),
            (*fix, *emptied), undo, _PREVENT, calm(log),
        )  # fmt: skip

    for path, line, edit in loud(case, writer):
        fix = (keeping(path), edit, *started_anew(case, writer, path))
        sure = 0.96 if _LOUD_LINE.search(told) else 0.9
        yield idea(f"{line} in {path}", sure, fix, undo_of(path), line)
    wants = list[str]()
    for path in _places(case, writer):
        copy = earlier(case, path)
        wants += copy.wants
        if copy.path:
            fix = (*put_back(path, copy.path), *started_anew(case, writer, path))
            yield idea(f"since {path} was changed", 0.94, fix, undo_of(path), copy.change)
    wants += echoes.wants(case, writer, log)
    for echo in echoes.echoes(case, writer, log):
        fix = (*echo.fix, *started_anew(case, writer, echo.path), "sleep 1")
        yield idea(echo.why, 0.92 + echo.sure, fix, echo.undo, echo.row)
    if _AGAIN.search(told):
        wants += pieces.seeking(case, writer, told)
        for odd in hoards.pauses(case, writer):
            fix = (*odd.fix, *started_anew(case, writer, odd.path))
            yield idea(f"{odd.key} is {odd.value}, so that it makes no pause", 0.88, fix, odd.undo)
    for path in _work(case, writer, told, log):
        listed = case.look(probes.rows(path))
        wants += case.missing((probes.rows(path),))
        if listed is not None and any(row.mode[0] == "-" for row in parse.listing(listed.output)):
            fix = room.aside([path])
            yield idea(f"it tries {path} again and again", 0.92, fix, room.back([path]))
    yield from _asked_too_much(case, writer, claim, log, told, emptied, less)
    wants += case.missing((probes.CLIENTS,))
    yield Idea("log-flood", writer, claim, 0.9 - less, log, lines(told, *evidence), tuple(wants))
    if not echoes.is_echo(case, writer, log):
        yield idea("it is started anew", 0.86, (case.restart(writer),), "")


def calm(log: str) -> str:
    """A look that comes out well where a log grows no faster than anybody reads."""
    size = f"$(stat -c %s {shlex.quote(log)})"
    return f"a={size}; sleep 2; b={size}; echo from $a to $b; test $((b - a)) -lt {2 * FLOOD_BYTES}"


def is_slow(case: Case, log: str, size: int) -> bool:
    """Whether a log, as its last lines are dated, grows by so little that it takes days to fill a
    file system of so many kilobytes: it was only never shortened."""
    said = [line for line in case.text(probes.tail(log)).splitlines() if line.strip()]
    said = said or case.logs.get(log, [])
    times = [at for line in said if (at := stamp(line, case.now, case.offset))]
    if len(times) < SLOW_LINES or len(times) < len(said) / 2:
        return False
    each = sum(len(line) + 1 for line in said) / max(1.0, max(times) - min(times))
    return each * SLOW_SECONDS < size * 1024


def _commonest(said: Sequence[str]) -> str:
    """The last line of the kind of which there are most."""
    kinds: dict[str, list[str]] = {}
    for line in said:
        kinds.setdefault(re.sub(r"\d+", "", line)[:60], []).append(line)
    return max(kinds.values(), key=len, default=[""])[-1]


def _places(case: Case, service: str) -> list[str]:
    definition = case.definition(service)
    own = [*case.configs(service), *case.wrappers(service)]
    return list(dict.fromkeys([*own, *([definition.path] if definition else [])]))


def started_anew(case: Case, service: str, path: str) -> tuple[str, ...]:
    """What it takes until a service heeds a file; what many work with at once reads it anew."""
    program = case.programs.get(service)
    main = case.process(program.pid) if program is not None else None
    definition = case.definition(service)
    its_own = definition is None or path != definition.path
    if its_own and main is not None and _RELOADS.search(main.command):
        return (f"kill -HUP {main.pid}", "sleep 1")
    return anew(case, service, path)


def loud(case: Case, service: str) -> Iterator[tuple[str, str, str]]:
    """Settings by which it says too much: the file, how it stands there, and what mends it."""
    for path, values in case.sources(service):
        for key, value in values.items():
            own = key.rpartition(".")[2]
            quiet = levels.quieter(key, value)
            flagged = value == "true" and _FLAG.search(f" --{own}") is not None
            if path and quiet and not (flagged and own not in case.content(path)):
                said = value.strip("'\" ")
                yield path, f"{own} {value}", edits.changed(path, own, said, quiet)
    for path in case.wrappers(service):
        traced = re.search(r"^(set -\w*x\w*|#!.*sh -\w*x\w*)\s*$", case.content(path), re.MULTILINE)
        if traced:
            off = f"sed -i -E '/^set -\\w*x/d; 1s/ -\\w*x\\w*$//' {shlex.quote(path)}"
            yield path, traced[0].strip(), off
        rows = [x for x in case.content(path).splitlines() if not x.lstrip().startswith("#")]
        flags = [found for row in rows if (found := _FLAG.search(row))]
        for only in flags if len(flags) == 1 else ():
            off = f"sed -i --follow-symlinks -E 's/{only[0]}( |$)/\\1/' {shlex.quote(path)}"
            yield path, only[0].strip(), off
    definition = case.definition(service)
    if definition is not None and (flag := _FLAG.search(definition.command)):
        own = shlex.quote(definition.path)
        yield definition.path, flag[0].strip(), f"sed -i -E '/^command/s/{flag[0]}( |$)/\\1/' {own}"


def _work(case: Case, service: str, told: str, log: str) -> list[str]:
    """Files in a line that tells of failure, which are neither its own nor a log: what it cannot
    get done with."""
    if not _AGAIN.search(told):
        return []
    definition = case.definition(service)
    own = {log, definition.path if definition else "", *case.named(service)}
    found = [path.rstrip(":,;.") for path in paths_in(told)]
    return [
        path
        for path in found
        if path not in own and not CODE.search(path) and not path.startswith(("/etc/", "/proc/"))
        and not is_log(case, path)
    ][:2] or pieces.called(case, service, told)[:2]  # fmt: skip


def _asked_too_much(
    case: Case,
    service: str,
    claim: str,
    log: str,
    told: str,
    emptied: tuple[str, ...],
    less: float,
) -> Iterator[Idea]:
    """Somebody whom nobody looks after asks it without end."""
    least = 1 if _REQUEST.search(told) else CROWD
    for port in case.ports(service):
        for pid, count, line in case.crowd(port, least):
            chain = case.strangers(pid, harmful=True)
            if not chain:
                owner = case.owner(pid)
                if owner and owner != service:
                    yield from _eager(case, owner, claim, log, told, emptied, less)
                continue
            ids = " ".join(str(one.pid) for one in chain)
            yield Idea(
                "log-flood", service, f"{claim}: process {pid} ({chain[-1].command[:60]}) asks it "
                f"without end, by {count} connections", 0.93 - less, log,
                lines(told, chain[-1].line, line), (), (f"kill {ids}", "sleep 1", *emptied),
                "it was started by hand: start it again", _PREVENT, calm(log),
            )  # fmt: skip


def _eager(
    case: Case,
    owner: str,
    claim: str,
    log: str,
    told: str,
    emptied: tuple[str, ...],
    less: float,
) -> Iterator[Idea]:
    """One that is looked after asks it without end, since it was changed or makes no pause."""
    known = Idea(
        "log-flood", owner, f"{claim}: {owner} asks it without end", 0.86 - less, log, lines(told),
        prevent=_PREVENT, proof=calm(log),
    )  # fmt: skip
    unread = case.missing(probes.show(path) for path in case.configs(owner)[:2])
    if unread:
        yield replace(known, wants=unread)
    for edit in hoards.pauses(case, owner, asks=True):
        fix = (*edit.fix, *anew(case, owner, edit.path), "sleep 1", *emptied)
        why = f"{known.claim}: {edit.key} is {edit.value}"
        yield replace(known, score=0.92 - less, locus=f"{edit.path}, {log}", fix=fix, claim=why,
                      undo=edit.undo)  # fmt: skip
    for idea in since_changed(case, known, owner):
        fix = (*idea.fix, "sleep 1", *emptied) if idea.fix else ()
        yield replace(idea, fix=fix, locus=f"{idea.locus}, {log}")


RULES = (flood,)
