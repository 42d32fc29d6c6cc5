"""Locks, pid files and sockets that were left behind."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules.cascade import gave_up
from hermes_agent.models.responder.rules.ideas import KEEP, Idea, lines, put_away, taken_out
from hermes_agent.models.responder.rules.scripts import LOCK_CHARS
from hermes_agent.models.responder.rules.taken import HOST, holder_of, taken
from hermes_agent.models.responder.view import parse, probes, settings
from hermes_agent.models.responder.view.case import Case, paths_in
from hermes_agent.models.responder.view.house import CODE, SYSTEM

_LOCKED = re.compile(
    r"lock|pid ?file|\.pid\b|\.sock\b|another (?:\w+ )?(?:instance|process|copy|one)|"
    r"already (?:running|started|locked|active|exists)|file exists|EEXIST|EAGAIN|"
    r"resource temporarily unavailable|\bin use\b|held by|is it running|waiting for|"
    r"(?:other|previous|earlier) (?:instance|process|run|job)|has not finished|in progress|"
    r"\bbusy\b|at work\b|here already|maintenance|(?:taken|reserved|owned|claimed) by|"
    r"some(?:body| ?one) else|cannot acquire|another .{1,40} running|did not finish|\bstale\b|"
    r"marker|guard|(?:is|still) (?:present|in place|there)\b|claim|"
    r"(?:skip|paus|refus|wait|suspend|postpon)\w*\b.* (?:while|until|because|since)\b",
    re.IGNORECASE,
)
_LOCK = re.compile(
    r"lock|\.lck$|\.pid$|\.sock$|\.socket$|^/run/|^/var/run/|mutex|semaphore|in[-_]?progress|"
    r"\.busy$|\.running$|\.active$|/pids?/|maintenance|\.(?:flag|hold|inuse|claim|owner|guard)$",
    re.IGNORECASE,
)
_KEY = re.compile(r"lock|pid|sock|mutex|single", re.IGNORECASE)
_SOFT = re.compile(
    r"guard|busy|claim|mark|flag|hold|occup|running|maint|pause|owner", re.IGNORECASE
)
"""Settings of which some name a lock: what lies there must say whose it is."""
_SPOKEN = re.compile(r"[\"'\s=(]((?:\.{0,2}/)?[\w.@+-]+(?:/[\w.@+-]+)*)")
_NUMBER = re.compile(r"\d{1,8}")
_PID = re.compile(
    r"\b(?:pid|process)\W{0,4}(\d{1,8})\b|^(\d{1,8})\s*$", re.IGNORECASE | re.MULTILINE
)
_BARE = re.compile(r"[\"'\s=(]([\w@+-][\w.@+-]*\.(?:lock|lck|pid|sock|flag))\b")
_INTERPRETERS = re.compile(
    r"(?:env|nohup|exec|python[\d.]*|node|ruby|perl|php|java|sh|bash|dash|as-app|setpriv|nice)$"
)
_TURNED_AWAY = re.compile(r"\b50[23]\b|unavailable|maintenance|in progress", re.IGNORECASE)
_FRONTS = ("nginx", "apache2", "httpd", "haproxy", "caddy", "lighttpd", "openresty")
_TEST = re.compile(r"(?<!!)(?<!! )-[ef]\s+[\"'{]?((?:/|\$document_root/)[\w./@+-]+)")
_LISTENS = re.compile(r"(?m)^\s*(?:listen|bind)\s+(?:\S*:)?(\d{2,5})\b")
_SIGNED = re.compile(r"\b(?:pid|process)\W{0,4}\d", re.IGNORECASE)
_LEFT = re.compile(r"\b(?:pid|process)\W{0,4}\d|\A\s*\d{1,7}(?![\w:.,/-])", re.IGNORECASE)
_MEANT = re.compile(r"until|do not|don't|on purpose|back (?:at|in|by|soon)", re.IGNORECASE)
_HOST = re.compile(
    r"\b(?:host(?:name)?|node|machine|server)[\"']?\s?[:=]\s?[\"']?(?P<told>[A-Za-z][\w.-]+)"
    r"|(?<![\w.-])(?!(?:pid|process|port|since|at|started)\b)(?P<before>[A-Za-z][\w.-]+)[:@/]\d"
    r"|\d@(?P<after>[A-Za-z][\w.-]+)",
    re.IGNORECASE,
)
SOCKETS = "ss -lxp"
MOST = 4


def locked(case: Case) -> Iterator[Idea]:
    """A lock of a process that is gone."""
    for service in case.suspects:
        spoken = [line for line in case.troubles(service)[:8] if _LOCKED.search(line)]
        spoken = spoken or list(case.said(service, _LOCKED.pattern))[:2]
        known = _known(case, service)
        yield from _signed(case, service, spoken[:3], known)
        for line in spoken[:3]:
            named = [path for path in _named(case, service, line) if _LOCK.search(path)]
            placed, wants = _placed(case, service, line)
            named += placed
            for path in dict.fromkeys([*named, *known][:MOST]):
                yield from _unlocking(case, service, path, line, path in named)
            if wants:
                yield Idea("stale-lock", service, f"{service} meets a lock", 0.62, service,
                           lines(line), wants)  # fmt: skip
            elif not named and not known:
                yield from _searching(case, service, line)
                if more := case.missing(probes.show(path) for path in _code(case, service)):
                    yield Idea("stale-lock", service, f"{service} waits for a lock", 0.55, service,
                               lines(line), more)  # fmt: skip


def _signed(
    case: Case, service: str, spoken: Sequence[str], known: Sequence[str]
) -> Iterator[Idea]:
    """Files that may be anything, and say themselves whose they are: those that the last words of
    what does not come up name, and those of settings that are called so."""
    program, folder = case.programs.get(service), case.directory(service)
    down = program is not None and not program.up
    told = [(path, line) for line in case.troubles(service)[:3] if down for path in paths_in(line)]
    told += [
        (settings.whole(value, folder), spoken[0])
        for key, value in case.settings(service).items()
        if spoken and _SOFT.search(key.rpartition(".")[2]) and value.startswith(("/", "./"))
    ]
    own = (*case.configs(service), *case.wrappers(service), *case.command(service), *known)
    odd = (*SYSTEM, "/etc/", "/opt/bin/")
    for path, line in dict.fromkeys((path.rstrip(".,:;"), line) for path, line in told):
        if path in own or path.startswith(odd) or CODE.search(path) or path.endswith(".log"):
            continue
        look = probes.show(path)
        text = case.text(look)
        if case.look(look) is None or (_SIGNED.search(text) and len(text) <= LOCK_CHARS):
            yield from _unlocking(case, service, path, line, path in line)


def marked(case: Case) -> Iterator[Idea]:
    """Whoever is in front, or starts it, turns people away as long as a file is there, and that was
    left by a process that is gone. Of one that does not say who left it, nothing is known."""
    near = (case.brief.service, *case.needs(case.brief.service))
    check = case.brief.check.command if case.brief.check else ""
    asked = {str(port) for _, port, _ in case.urls(check)}
    for service in case.suspects if _TURNED_AWAY.search(case.symptom) else []:
        front = any(PurePosixPath(word).name in _FRONTS for word in case.command(service))
        if not front and service not in near:
            continue
        texts = {
            path: case.content(path) for path in [*case.configs(service), *case.wrappers(service)]
        }
        if front:
            found = parse.files(case.text(probes.SITES))
            texts |= {path: "\n".join(rows) for path, rows in found.items()}
            if wants := case.missing((probes.SITES,)):
                yield Idea("stale-lock", service, f"{service} may turn people away", 0.58, service,
                           lines(case.symptom[-200:]), wants)  # fmt: skip
        for text in texts.values():
            heard = set(_LISTENS.findall(text))
            for path, row in _tested(text) if not heard or not asked or heard & asked else ():
                yield from _unlocking(case, service, path, row, True, mark=True)


def _tested(text: str) -> Iterator[tuple[str, str]]:
    """Files that must not be there for something to go on, with the rows that say so."""
    root = re.search(r"(?m)^\s*root\s+\"?(/[\w./@+-]+)", text)
    for row in text.splitlines():
        found = _TEST.search(row) if row.strip()[:1] not in ("#", ";") else None
        path = found[1].replace("$document_root", root[1] if root else "$") if found else ""
        if re.fullmatch(r"/[\w./@+-]+", path) and not path.startswith(SYSTEM):
            yield path, row.strip()


def _named(case: Case, service: str, line: str) -> list[str]:
    """Paths that a line names, relative ones as the service sees them."""
    found = paths_in(line)
    folder = case.directory(service)
    found += [
        settings.whole(one, folder)
        for one in _SPOKEN.findall(line)
        if one[0] != "/" and re.search(r"\.(lock|lck|pid|sock)$|lock$", one)
    ]
    kept = (path.rstrip(".,:;") for path in found)
    return [path for path in dict.fromkeys(kept) if path and not path.startswith(SYSTEM)]


def _placed(case: Case, service: str, line: str) -> tuple[list[str], tuple[str, ...]]:
    """Where a lock lies that a line calls by its bare name: in one of the folders of the service
    or of those that its last words name; and what to look at to know."""
    names = [one for one in _BARE.findall(f" {line}") if f"/{one}" not in line]
    folders = [*case.folders(service), *case.named(service)]
    folders += [path for _, said in case.log(service)[-8:] for path in paths_in(said)]
    folders = [one for one in dict.fromkeys(folders) if not one.startswith(SYSTEM)][:12]
    if not names or not folders:
        return [], ()
    within = " ".join(shlex.quote(folder) for folder in folders)
    look = f"find {within} -maxdepth 2 -xdev -name {shlex.quote(names[0])} 2>/dev/null"
    return [row for row in case.text(look).splitlines() if row[:1] == "/"], case.missing((look,))


def _known(case: Case, service: str) -> list[str]:
    """Locks that its settings or its script name."""
    found = list[str]()
    folder = case.directory(service)
    for key, value in case.settings(service).items():
        own = key.rpartition(".")[2]
        if re.fullmatch(r"[\w./@+-]*/[\w./@+-]+", value) and (
            _KEY.search(own) or re.search(r"\.(lock|lck|pid)$|lock$", value, re.IGNORECASE)
        ):
            found.append(settings.whole(value, folder))
    for script in [*case.wrappers(service), *_code(case, service)]:
        found += [one for one in paths_in(case.content(script)) if _LOCK.search(one)]
    kept = [one for one in dict.fromkeys(found) if one and not one.startswith(SYSTEM)]
    return [one for one in kept if not one.endswith((".log", ".conf"))]


def _code(case: Case, service: str) -> list[str]:
    """The program that it runs, as text."""
    return [path for path in case.command(service) if CODE.search(path) and path[:1] == "/"][:2]


def search(name: str, folders: tuple[str, ...]) -> str:
    """Files that look like locks, where such files lie, by their kind, time, path and target."""
    own = " ".join(shlex.quote(folder) for folder in folders)
    return (
        f"find /run /var/lock /tmp /var/tmp {own} -maxdepth 4 -xdev "
        r"\( -iname '*lock*' -o -iname '*.lck' -o -name '*.pid' -o -name "
        f"{shlex.quote(name + '*')} "
        r"\) ! -type s ! -name '*.json' -printf '%y %T@ %p %l\n' 2>/dev/null | head -n 30"
    )


def _searching(case: Case, service: str, line: str) -> Iterator[Idea]:
    """It speaks of a lock and not where that is: one that lies where its files are. Of a service
    that the alert is not about, nothing is guessed."""
    if service not in (case.brief.service, *case.needs(case.brief.service)):
        return
    name = service.rpartition(":")[2]
    folders = tuple(case.folders(service)[:4])
    look = search(name, folders)
    wants = case.missing((look,))
    if wants:
        yield Idea("stale-lock", service, f"{service} waits for a lock", 0.55, service,
                   lines(line), wants)  # fmt: skip
        return
    for row in case.text(look).splitlines():
        words = row.split()
        path = words[2] if len(words) > 2 else ""
        inside = any(path.startswith(f"{folder}/") for folder in folders)
        if _LOCK.search(path) and (inside or name in PurePosixPath(path).name):
            if path.endswith((".log", ".conf", ".py")) or ".lock" in path.rpartition("/")[0]:
                continue
            if path.startswith(f"{KEEP}/"):
                continue  # where things are put aside
            yield from _unlocking(case, service, path, line, False)


def _unlocking(
    case: Case, service: str, path: str, line: str, named: bool, *, mark: bool = False
) -> Iterator[Idea]:
    """`mark`: it is no lock of a service, and only one that says which process left it counts."""
    if path.endswith((".sock", ".socket")):
        yield from _deaf(case, service, path, line)
        return
    shown, open_by, listed = probes.show(path), probes.holders(path), probes.rows(path)
    found = case.look(shown)
    if found is not None and not _PID.search(found.output) and gave_up(found.output):
        return  # it says why somebody does not go on, not who is at work
    wants = case.missing((shown, listed, open_by))
    claim = f"{path} is a lock of a process that is gone"
    if found is None or case.look(listed) is None:
        yield Idea("stale-lock", service, claim, 0.62 if named else 0.55, path, lines(line), wants)
        return
    rows = list(parse.listing(case.text(listed)))
    folder = any(row.own == "." for row in rows)
    if not rows or (folder and not re.search(r"lock|lck|mutex|pid", path, re.IGNORECASE)):
        return  # it is not there, or is no lock
    held = [pid for pid in parse.holders(case.text(open_by)) if pid not in case.pids(service)]
    if held:
        yield from _holding(case, service, path, line, held[0])
        return
    inside = probes.shown(f"{shlex.quote(path)}/*")
    if folder and (more := case.missing((inside,))):
        yield Idea("stale-lock", service, claim, 0.62, path, lines(line), (*wants, *more))
        return
    inner = " ".join(row.own for row in rows if row.own not in (".", "..")) if folder else ""
    text = rows[0].target or (found.output if found.ok else "")
    pid = _holder(f"{inner}\n{case.text(inside)}" if folder else text)
    pid = pid if not mark or (_LEFT.search(text) and not _MEANT.search(text)) else 0
    if (mark or not pid) and (more := case.missing((users(path),))):
        yield Idea("stale-lock", service, claim, 0.62, path, lines(line), (*wants, *more))
        return
    if not pid and _is_used(case, service, path):
        return  # it says nothing of who has it, and somebody else was told of it
    away, more = _elsewhere(case, text)
    if more or away:
        told = f"{path} is a lock of {away or 'another machine'}, which is not seen from here"
        yield Idea("stale-lock", service, told, 0.62, path, lines(line, text.strip()), more)
        return
    holder = case.process(pid)
    if mark and (holder is not None or _is_used(case, service, path)):
        return
    if holder is not None and not case.owner(holder.pid) and _is_kin(case, service, holder):
        yield from _holding(case, service, path, line, holder.pid)
        return
    if holder is not None and _is_its_own(case, service, holder, path):
        return  # it is right
    other = f"; process {holder.pid} is another program" if holder else ""
    yield Idea(
        "stale-lock", service, claim + other, _sure(named, mark and not pid), path,
        lines(line, holder.line if holder else "", rows[0].line, text.strip() if mark else ""),
        wants, (put_away(path), *(("sleep 1",) if mark else _again(case, service, line))),
        taken_out(path),
        ("take locks with flock, which end with their process",),
    )  # fmt: skip


def _elsewhere(case: Case, text: str) -> tuple[str, tuple[str, ...]]:
    """The machine of which a lock says that it has it, where that is not this one; and what to look
    at to know."""
    found = _HOST.search(text)
    name = next((one for one in found.groups() if one), "") if found else ""
    own = case.text(HOST).strip()
    if not name or name.lower() == "localhost":
        return "", ()
    same = own.split(".")[0].lower() == name.split(".")[0].lower()
    return ("" if same or not own else name), case.missing((HOST,))


def _sure(named: bool, unsigned: bool) -> float:
    """Of a mark that does not say who left it, nothing is done."""
    return 0.93 if named and not unsigned else 0.55 if unsigned else 0.82


def users(path: str) -> str:
    """Processes that were told of a file when they were started."""
    return f"grep -lasF -- {shlex.quote(path)} /proc/[0-9]*/cmdline /proc/[0-9]*/environ"


def _is_used(case: Case, service: str, path: str) -> bool:
    """Whether one that is not of a service was told of its lock, and may have it."""
    told = {int(pid) for pid in re.findall(r"/proc/(\d{1,9})/", case.text(users(path)))}
    return any(case.process(pid) is not None for pid in told - set(case.pids(service)))


def _again(case: Case, service: str, line: str) -> tuple[str, ...]:
    """Whoever runs and waits goes on by itself: to start it anew might end it in the middle."""
    program = case.programs.get(service)
    waits = re.search(r"\bwait|trying again|will (?:try|retry)|retry", line, re.IGNORECASE)
    if program is not None and program.up and waits:
        return ("sleep 2",)
    return (case.restart(service),)


def _holder(text: str) -> int:
    """The process that a lock names: by a word that says so, or alone in its line; 0 if none."""
    text = re.sub(r"(?m)^==> .* <==$", "", text)
    if named := _PID.search(text):
        return int(named[1] or named[2])
    found = _NUMBER.search(text)
    return holder_of(text) or (int(found[0]) if found else 0)


def _is_kin(case: Case, service: str, holder: parse.Process) -> bool:
    """Whether a process is of the same program as a service."""
    own = [word for word in case.command(service) if not word.startswith("-")]
    its = [word for word in settings.split(holder.command) if not word.startswith("-")]
    first = [
        next((PurePosixPath(x).name for x in words if not _INTERPRETERS.search(x)), "")
        for words in (own, its)
    ]
    return bool(first[0]) and first[0] == first[1].rstrip(":")


def _is_its_own(case: Case, service: str, holder: parse.Process, path: str) -> bool:
    """Whether the process that a lock names is one that may rightly hold it."""
    if holder.pid in case.pids(service):
        return True
    definition = case.definition(service)
    told = definition.command if definition else ""
    if told and told.endswith(holder.command):
        return True
    owner = case.owner(holder.pid)
    if not owner:  # a job of the same house
        return any(case.owns(service, one) for one in paths_in(holder.command))
    return owner != service and path in case.named(owner)


def _deaf(case: Case, service: str, path: str, line: str) -> Iterator[Idea]:
    """A socket that is there, and nobody listens on it."""
    heard = case.look(SOCKETS)
    wants = case.missing((SOCKETS, probes.rows(path)))
    users = [one for one in case.text(SOCKETS).splitlines() if path in one.split()]
    if users:
        pid = re.search(r"pid=(\d{1,9})", users[0])
        if pid and not case.owner(int(pid[1])):
            yield from _holding(case, service, path, line, int(pid[1]))
        return
    row = next(iter(case.text(probes.rows(path)).splitlines()), "")
    if heard is not None and not row.startswith("s"):
        return
    yield Idea(
        "stale-lock", service, f"{path} was left behind, and nobody listens on it", 0.9, path,
        lines(line, row), wants, (f"rm -f {shlex.quote(path)}", case.restart(service)),
        "the service makes it again", ("remove a left-over socket before listening",),
    )  # fmt: skip


def _holding(case: Case, service: str, path: str, line: str, pid: int) -> Iterator[Idea]:
    """A living process has the lock: one that nobody looks after is ended, no other."""
    chain = case.strangers(pid, harmful=True)
    if not chain:
        return
    last, program = chain[-1], case.programs.get(service)
    kin = _is_kin(case, service, last)
    how = "kill -INT" if last.command.rpartition("/")[2].startswith("postgres") else "kill"
    again = (case.restart(service),) if program is not None and not program.up else ()
    yield Idea(
        "stale-lock" if kin else "runaway-process", service,
        f"process {pid} ({last.command[:80]}), which nobody looks after, holds {path}", 0.93,
        f"pid {pid}: {last.command[:80]}, {path}", lines(line, last.line),
        case.missing((probes.BUSY,)),
        (f"{how} {' '.join(str(one.pid) for one in chain)}", "sleep 1", *again),
        "it was started by hand: start it again",
        ("let jobs give up a lock after a while", "start jobs by the supervisor only"),
    )  # fmt: skip


RULES = (locked, marked, taken)
