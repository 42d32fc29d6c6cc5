"""File systems without room: for bytes, for files, and logs that fill them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import KEEP, Idea, earlier, lines, put_back, undo_of

FULL, ROOMY = 95, 80
"""Percent: from where on a file system is full, and below which it must come."""
FLOOD_BYTES = 20_000
"""What a log grows in a second that is more than anybody reads."""
_NO_ROOM = r"no space left|disk full|ENOSPC|disk quota exceeded"
_ROTATED = re.compile(r"\.(log|out|err)([.-]\d[\w.-]*|\.old)(\.(gz|xz|bz2|zst))?$")
_OLD_LOG = re.compile(r"(\.(gz|xz|bz2|zst|old)|[.-]\d{1,3}|[.-]\d{4}-?\d\d-?\d\d\S*)$")
_DUMP = re.compile(r"/(core|vgcore|core[.-][^/]+|[^/]+\.(core|hprof|dmp|stackdump|mdmp))$")
_SCRATCH = ("/tmp/", "/var/tmp/", "/var/cache/", "/var/crash/")  # noqa: S108 - of the machine
OLD_SECONDS = 3_600.0
"""What lies in a scratch folder for longer is forgotten."""
_LOUD_ENTRY = re.compile(
    r"LOG_?LEVEL=\"?(debug|trace)| --?(debug|verbose|trace)( |$)", re.IGNORECASE
)
GROWING_SECONDS = 15.0
_PASSING = re.compile(
    r"/(sess|session|sessions|cache|caches|tmp|temp|scratch|thumbs|thumbnails|spool|"
    r"\.cache|http-cache|proxy_cache|opcache|uploads-tmp|work|partial)([-_/]|$)",
    re.IGNORECASE,
)
_CHATTY = re.compile(r"^\s*(\w*(?:level|verbos|debug|trace)\w*)\s*[=:]\s*(\S+)", re.IGNORECASE)
_LOUD = re.compile(r"debug|trace|true|on|yes|all|verbose|[1-9]\d*", re.IGNORECASE)


def full_disk(case: Case) -> Iterator[Idea]:
    for mount in parse.mounts(case.text(probes.SPACE)):
        if mount.percent < FULL or mount.source in ("overlay", "devtmpfs"):
            continue
        wants = case.missing((probes.large(mount.path), probes.DELETED, probes.OPEN_FILES))
        service = _whose(case, mount.path)
        spoken = next(case.said(service, _NO_ROOM), "") if service else ""
        score = 0.75 if spoken or _below(case, service, mount.path) else 0.5
        claim = f"the file system {mount.path} has no room left"
        known = Idea(
            "disk-full", service or case.brief.service, claim, score, mount.path,
            lines(mount.line, spoken), wants,
        )  # fmt: skip
        if wants:
            yield known
        else:
            yield from _freeing(case, mount, known)


def _freeing(case: Case, mount: parse.Mount, known: Idea) -> Iterator[Idea]:
    from msgspec.structs import replace

    gone = _deleted(case, mount)
    if gone is not None:
        yield replace(
            known, score=min(0.9, known.score + 0.15), locus=gone[1], fix=gone[0],
            claim=f"{known.claim}: a file that was removed is still open ({gone[1]})",
            evidence=(*known.evidence[:2], *lines(gone[2])),
            prevent=("have the log reopened after rotation", "alert on disk use above 80 %"),
        )  # fmt: skip
    found = list(parse.sizes(case.text(probes.large(mount.path))))
    spare = [one for one in found if _disposable(one, case.now) and not _held(case, one.path)]
    open_logs = [one for one in found if _is_log(one.path) and one not in spare]
    growing = [one for one in open_logs if case.now - one.time < GROWING_SECONDS]
    if growing:
        yield from _flooding(case, known, growing)
    for chosen, fix in ((spare, _removal(spare)), (open_logs[:3], _emptying(open_logs[:3]))):
        freed = sum(one.size for one in chosen) // 1024
        if freed and mount.percent - 100 * freed // max(mount.size, 1) < 92:
            yield replace(
                known,
                score=min(0.88, known.score + (0.1 if chosen is spare else 0.05)),
                locus=chosen[0].path,
                claim=f"{known.claim}: {chosen[0].path} and {len(chosen) - 1} more take it",
                evidence=(*known.evidence[:2], *lines(chosen[0].line)),
                fix=fix,
                undo="nothing of use is lost: rotated logs, dumps and scratch files only",
                prevent=("rotate and expire what fills it", "alert on disk use above 80 %"),
            )
    if gone is None and not spare and not open_logs and found:
        yield replace(
            known, score=min(known.score, 0.55), locus=found[0].path,
            evidence=(*known.evidence[:2], *lines(found[0].line)),
        )  # fmt: skip


def _flooding(case: Case, known: Idea, growing: list[parse.Sized]) -> Iterator[Idea]:
    """A log that is written right now fills it: whoever writes it is quietened first."""
    log = growing[0]
    stem = PurePosixPath(log.path).name.partition(".")[0]
    writer = stem if stem in case.services else known.component
    definition = case.definitions.get(writer)
    chatty = [line for _, line in case.log(writer) if re.search(r"\b(DEBUG|TRACE)\b", line)]
    told = chatty[-1:] or case.troubles(writer)[:1]
    wants: tuple[str, ...] = ()
    for path in [*case.configs(writer), *([definition.path] if definition else [])]:
        copy = earlier(case, path)
        wants += copy.wants
        fix = put_back(path, copy.path) if copy.path else _muted(case, path)
        if fix and definition is not None and path == definition.path and case.supervised:
            fix += ("supervisorctl reread", f"supervisorctl update {shlex.quote(writer)}")
        if fix:
            yield Idea(
                "log-flood", writer, f"{writer} fills {known.locus} with {log.path}", 0.95,
                log.path, (*known.evidence[:1], *lines(log.line, copy.change, *told))[:3], (),
                (*fix, case.restart(writer), *_emptying(growing)), undo_of(path),
                ("keep the log level at info", "rotate logs by size"),
            )  # fmt: skip
    if wants:
        yield Idea(
            "log-flood", writer, f"{writer} fills {known.locus} with {log.path}", 0.9, log.path,
            lines(*known.evidence[:1], log.line, *told), wants,
        )  # fmt: skip


def _muted(case: Case, path: str) -> tuple[str, ...]:
    """A level in an entry's environment, or a flag of its command, taken back."""
    shown = _shown(case, path)
    if not any(_LOUD_ENTRY.search(line) for line in shown):
        return ()
    own = shlex.quote(path)
    quieter = (
        "sed -i -E 's/(LOG_?LEVEL=\"?)(debug|trace)/\\1info/I; "
        f"s/ --?(debug|verbose|trace)( |$)/\\2/' {own}"
    )
    return (f"cp {own} {KEEP}/{PurePosixPath(path).name}.replaced", quieter)


def _removal(chosen: list[parse.Sized]) -> tuple[str, ...]:
    return ("rm -f -- " + " ".join(shlex.quote(one.path) for one in chosen),)


def _emptying(chosen: list[parse.Sized]) -> tuple[str, ...]:
    return ("truncate -s 0 " + " ".join(shlex.quote(one.path) for one in chosen),)


def _deleted(case: Case, mount: parse.Mount) -> tuple[tuple[str, ...], str, str] | None:
    """How to free what was removed and is still open; where; and the line that shows it."""
    for line in case.text(probes.DELETED).splitlines():
        found = re.match(r"/proc/(\d+)/fd/(\d+) (/.*) \(deleted\)$", line)
        if found and _on(found[3], mount.path) and not found[3].startswith(("/dev", "/memfd")):
            pid = int(found[1])
            owner = case.owner(pid)
            if owner:
                return (case.restart(owner),), f"pid {pid}: {found[3]}", line
            return (f"truncate -s 0 /proc/{pid}/fd/{found[2]}",), f"pid {pid}: {found[3]}", line
    return None


def _disposable(one: parse.Sized, now: float) -> bool:
    """Whether nobody will miss it: old logs, dumps, and what lies forgotten in scratch folders."""
    if _DUMP.search(one.path) or _ROTATED.search(one.path):
        return True
    if "/log" in one.path and _OLD_LOG.search(one.path):
        return True
    if one.path.startswith(_SCRATCH):
        return True
    return _PASSING.search(one.path) is not None and now - one.time > OLD_SECONDS


def _is_log(path: str) -> bool:
    return path.startswith("/var/log/") or path.endswith((".log", ".out"))


def _held(case: Case, path: str) -> bool:
    return any(line.endswith(f" {path}") for line in case.text(probes.OPEN_FILES).splitlines())


def _on(path: str, mount: str) -> bool:
    return mount == "/" or path == mount or path.startswith(mount.rstrip("/") + "/")


def _below(case: Case, service: str, mount: str) -> bool:
    if mount == "/" or not service:
        return mount == "/"
    values = " ".join(case.settings(service).values())
    return _on(f"/var/log/{service}", mount) or mount in values or service in mount


def _whose(case: Case, mount: str) -> str:
    """The service that suffers from it."""
    for service in case.suspects:
        if next(case.said(service, _NO_ROOM), ""):
            return service
    named = [one for one in case.suspects if mount != "/" and _below(case, one, mount)]
    return named[0] if named else case.brief.service


def no_inodes(case: Case) -> Iterator[Idea]:
    for mount in parse.mounts(case.text(probes.INODES)):
        if mount.percent < FULL:
            continue
        service = _whose(case, mount.path)
        spoken = next(case.said(service, _NO_ROOM), "")
        claim = f"the file system {mount.path} has no room for more files"
        score = 0.8 if spoken or _below(case, service, mount.path) else 0.6
        wants = case.missing((probes.many(mount.path),))
        crowd = [
            one
            for one in parse.counted(case.text(probes.many(mount.path)))
            if one[1].startswith("/") and one[1] != mount.path
        ]
        passing = [one for one in crowd if _PASSING.search(f"{one[1]}/")]
        chosen = (passing or crowd)[:1]
        if not chosen:
            yield Idea("inode-full", service, claim, score, mount.path,
                       lines(mount.line, spoken), wants)  # fmt: skip
            continue
        _, folder, line = chosen[0]
        evidence = lines(mount.line, line, spoken)
        for age, less in (("-mmin +60 ", 0.0), ("-mmin +5 ", 0.05)):
            fix = f"find {shlex.quote(folder)} -xdev -type f {age}-delete"
            yield Idea(
                "inode-full", service, f"{claim}: {folder} holds too many",
                score + 0.1 * bool(passing) - less, folder, evidence,
                case.missing((probes.names_in(folder),)), (fix,) if passing else (),
                "they are passing files, made again when wanted",
                ("expire such files by age", "alert on inodes above 80 %"),
            )  # fmt: skip


def flood(case: Case) -> Iterator[Idea]:
    """A log that grows without measure, because somebody is too chatty."""
    for service in case.suspects:
        for path in [*case.configs(service), *_definition(case, service)]:
            for line in case.text(probes.show(path)).splitlines() or _shown(case, path):
                setting = _CHATTY.match(line)
                if setting and _LOUD.fullmatch(setting[2].strip("\"';")):
                    yield from _quieter(case, service, path, line, setting)
    for path, before, after in growth(case):
        if after - before > FLOOD_BYTES:
            owner = next((s for s in case.suspects if s in path), case.brief.service)
            yield Idea(
                "log-flood", owner, f"{path} grows by {(after - before) // 1024} KB a second",
                0.65, path, lines(f"{after} {path}"), (), (),
                prevent=("rotate by size", "log at info"),
            )  # fmt: skip


def growth(case: Case) -> Iterator[tuple[str, int, int]]:
    for one in case.observed:
        if one.command.startswith("stat -c '%s %n'"):
            sizes: dict[str, int] = {}
            for size, path, _ in parse.counted(one.output):
                if path in sizes:
                    yield path, sizes[path], size
                sizes[path] = size


def _definition(case: Case, service: str) -> list[str]:
    found = case.definitions.get(service)
    return [found.path] if found else []


def _shown(case: Case, path: str) -> list[str]:
    return parse.files(case.text(probes.PROGRAMS)).get(path, [])


def _quieter(
    case: Case, service: str, path: str, line: str, setting: "re.Match[str]"
) -> Iterator[Idea]:
    logs = [one for one in case.logs if service in PurePosixPath(one).parts or service in one]
    logs = [one for one in logs if case.logs[one]][:3]
    sampled = case.missing((probes.sizes_twice(logs),)) if logs else ()
    grows = [one for one in growth(case) if one[0] in logs and one[2] > one[1]]
    fast = [one for one in grows if one[2] - one[1] > FLOOD_BYTES // 4]
    chatty = next(case.said(service, r"\b(DEBUG|TRACE)\b"), "")
    copy = earlier(case, path)
    value = "info" if setting[2].lower().strip("\"'") not in ("true", "on", "yes") else "false"
    pattern = re.escape(setting[1])
    fix = (
        put_back(path, copy.path)
        if copy.path
        else (f"sed -i -E 's/^(\\s*{pattern}\\s*[=:]\\s*).*$/\\1{value}/I' {shlex.quote(path)}",)
    )
    full = [one.path for one in parse.mounts(case.text(probes.SPACE)) if one.percent >= 90]
    emptied = [one for one in logs if fast or any(_on(one, mount) for mount in full)]
    score = 0.35 + 0.3 * bool(fast) + 0.15 * bool(chatty) + 0.15 * bool(full and chatty)
    yield Idea(
        "log-flood", service, f"{service} logs far too much: {line.strip()} in {path}",
        min(score, 0.95), fast[0][0] if fast else f"{path}: {line.strip()}",
        lines(chatty, line), (*copy.wants, *sampled),
        (*fix, case.restart(service), *(f"truncate -s 0 {shlex.quote(one)}" for one in emptied)),
        undo_of(path), ("keep the log level at info", "rotate logs by size"),
    )  # fmt: skip


RULES = (full_disk, no_inodes, flood)
