"""Jobs that are due by the clock and do not run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case, paths_in
from hermes_agent.models.responder.house import SYSTEM
from hermes_agent.models.responder.ideas import Idea, earlier, lines, put_back, undo_of
from hermes_agent.models.responder.rules_config import swapped

_DAEMON = re.compile(r"^(cron|crond|fcron|anacron)$")
_ENTRY = re.compile(r"^(?:@\w+|(?:[\d*/,A-Za-z-]+\s+){4}[\d*/,A-Za-z-]+)\s+(.+)$")
_PUT_OUT = re.compile(r"^\s*#.*?((?:@\w+|(?:[\d*/,-]+\s+){5})\s*\S.*)$")
_AGED = re.compile(r"\bstat\b|-mmin|-mtime|-newer|date -r|\bage\b|\bold\b|stale|fresh")
_FLOCK = re.compile(r"\bflock\s+(?:-\w+(?:\s+\d+)?\s+|--\S+\s+)*(/[\w./@+-]+)")
_ABSENT = re.compile(
    r"can't cd to|cd: |no such file|nonexistent|does not exist|not found|cannot (?:open|create)",
    re.IGNORECASE,
)
LONG_SECONDS = 1800
"""A run that takes longer than so many, where the next was due long ago, hangs."""
_AT_WORK = re.compile(r"still (?:at work|running)|already running|lock", re.IGNORECASE)
_LOCK = re.compile(r"(/(?:run|var/run|var/lock|tmp|var/lib)/[\w./-]*(?:lock|pid)[\w.-]*)")
WAIT = "sleep 63"
"""Until the clock has begun the job once more."""
PREVENT = ("alert on the age of what the job makes", "let jobs say aloud that they did not run")


class _Job(Struct, frozen=True):
    table: str
    line: str
    command: str
    """With the user, where there is one."""

    @property
    def script(self) -> str:
        plain = re.sub(r">>?\s*\S+", " ", _FLOCK.sub(" ", self.command))
        paths = re.findall(r"(?:^|[\s\"'])(/[\w./@+-]+)", plain)
        own = [path for path in paths if not path.startswith(SYSTEM)]
        return next(iter([*own, *paths]), "")

    @property
    def log(self) -> str:
        found = re.search(r">>?\s*(/[\w./@+-]+)", self.command)
        return found[1] if found else ""

    @property
    def user(self) -> str:
        found = re.match(r"([a-z_][\w-]*)\s+\S", self.command)
        return found[1] if found else ""


def missed(case: Case) -> Iterator[Idea]:
    name = case.brief.service
    command = case.brief.check.command if case.brief.check else ""
    known = case.definition(name) is not None
    if not name or (known and not _AGED.search(command)) or not _daemons(case):
        return
    wants = case.missing((probes.JOBS,))
    if wants:
        yield Idea("job-missed", name, f"the job {name} may not be run", 0.5, name, (), wants)
    for daemon in _daemons(case):
        program = case.programs[daemon]
        if not program.up:
            yield Idea(
                "job-missed", daemon, f"{daemon}, which begins {name}, does not run", 0.93, daemon,
                lines(program.line), (), (case.restart(daemon), WAIT),
                f"supervisorctl stop {daemon}", ("have it restarted by itself", *PREVENT),
            )  # fmt: skip
    yield from _put_out(case, name)
    for job in _jobs(case, name):
        yield from _unreadable(case, name, job)
        yield from _forbidden(case, name, job)
        yield from _locked(case, name, job)
        yield from _held(case, name, job)
        yield from _lacking(case, name, job)
        yield from _otherwise(case, name, job)


def _daemons(case: Case) -> list[str]:
    return [one for one in case.programs if _DAEMON.match(one)]


def _marks(case: Case, name: str) -> list[str]:
    """What shows that a job is meant: its name, and the files that the check looks at."""
    command = case.brief.check.command if case.brief.check else ""
    return [name, *paths_in(command)]


def _jobs(case: Case, name: str) -> list[_Job]:
    marks = _marks(case, name)
    found = []
    for table, rows in parse.files(case.text(probes.JOBS)).items():
        for line in rows:
            entry = _ENTRY.match(line.strip())
            job = _Job(table, line, entry[1]) if entry else None
            if job is None:
                continue
            told = f"{line}\n{case.content(job.script)}" if job.script else line
            if PurePosixPath(table).name == name or any(mark in told for mark in marks):
                found.append(job)
    return found


def _put_out(case: Case, name: str) -> Iterator[Idea]:
    """A line that somebody made a remark of."""
    for table, rows in parse.files(case.text(probes.JOBS)).items():
        live = [row for row in rows if not row.lstrip().startswith("#")]
        for row in rows:
            former = _PUT_OUT.match(row)
            if former is None or not any(mark in row for mark in _marks(case, name)):
                continue
            script = _Job(table, row, former[1]).script
            if script and not any(script in one for one in live):
                yield Idea(
                    "job-missed", name, f"the line of {name} in {table} is put out of use", 0.9,
                    table, lines(row), (),
                    (*swapped(table, row, former[1]), f"touch {shlex.quote(table)}", WAIT),
                    undo_of(table), PREVENT,
                )  # fmt: skip


def _unreadable(case: Case, name: str, job: _Job) -> Iterator[Idea]:
    """A line of the system's tables without the user as whom it is run."""
    if job.user or not job.table.startswith(("/etc/cron.d/", "/etc/crontab")):
        return
    copy = earlier(case, job.table)
    own = shlex.quote(job.table)
    fix = (*put_back(job.table, copy.path), f"touch {own}", WAIT) if copy.path else ()
    yield Idea(
        "job-missed", name, f"the line of {name} in {job.table} names no user", 0.9, job.table,
        lines(job.line, copy.change), copy.wants, fix, undo_of(job.table), PREVENT,
    )  # fmt: skip


def _forbidden(case: Case, name: str, job: _Job) -> Iterator[Idea]:
    """A script that may not be run."""
    if not job.script:
        return
    folder = probes.rows(str(PurePosixPath(job.script).parent))
    wants = case.missing((folder, *_tails(job)))
    row = next(
        (
            one
            for one in parse.listing(case.text(folder))
            if one.own == PurePosixPath(job.script).name
        ),
        None,
    )
    if wants:
        claim = f"{job.script} may not be run"
        yield Idea("job-missed", name, claim, 0.5, job.script, lines(job.line), wants)
    elif row is not None and "x" not in row.mode[1:]:
        said = next((x for x in _said(case, job) if "ermission denied" in x), "")
        own = shlex.quote(job.script)
        yield Idea(
            "job-missed", name, f"{job.script} may not be run any more", 0.92, job.script,
            lines(row.line, said), (), (f"chmod +x {own}", WAIT), f"chmod -x {own}", PREVENT,
        )  # fmt: skip


def _locked(case: Case, name: str, job: _Job) -> Iterator[Idea]:
    """A lock of a run that is gone."""
    said = next((line for line in _said(case, job) if _AT_WORK.search(line)), "")
    if not said or not job.script:
        return
    wants = case.missing((probes.show(job.script),))
    for path in dict.fromkeys(_LOCK.findall(f"{said}\n{case.text(probes.show(job.script))}")):
        content = case.look(probes.show(path))
        wants += case.missing((probes.show(path), probes.holders(path)))
        number = re.search(r"\d{1,8}", content.output) if content and content.ok else None
        holder = case.process(int(number[0])) if number else None
        if (
            wants
            or content is None
            or not content.ok
            or parse.holders(case.text(probes.holders(path)))
        ):
            continue
        if holder is not None and job.script in holder.command:
            continue
        yield Idea(
            "job-missed", name, f"{path} is the lock of a run of {name} that is gone", 0.92, path,
            lines(said, *content.lines), (), (f"rm -f {shlex.quote(path)}", WAIT),
            f"write {content.output.strip()!r} into {path} again", PREVENT,
        )  # fmt: skip
    if wants:
        yield Idea(
            "job-missed", name, f"{name} waits for an earlier run", 0.6, name, lines(said), wants
        )


def _held(case: Case, name: str, job: _Job) -> Iterator[Idea]:
    """A run that was halted, or hangs, holds the lock that the next ones want."""
    script = case.content(job.script) if job.script else ""
    for path in dict.fromkeys(_FLOCK.findall(f"{job.line}\n{script}")):
        if wants := case.missing((probes.holders(path),)):
            yield Idea("job-missed", name, f"a run of {name} may hold {path}", 0.55, path,
                       lines(job.line), wants)  # fmt: skip
            continue
        pids = list(dict.fromkeys(parse.holders(case.text(probes.holders(path)))))
        runs = [one for pid in pids if (one := case.process(pid)) is not None]
        runs = [one for one in runs if not case.owner(one.pid)]
        halted = [one for one in runs if one.state.startswith("T")]
        hangs = bool(runs) and min(one.age for one in runs) > LONG_SECONDS
        if not halted and not hangs:
            continue
        named = " ".join(str(one.pid) for one in runs)
        shown = (halted or runs)[0]
        yield Idea(
            "job-missed", name, f"a run of {name} {'was halted' if halted else 'hangs'} and holds "
            f"{path}", 0.92 if halted else 0.75, f"{path}, pid {shown.pid}",
            lines(shown.line, job.line), (), (f"kill {named}", f"kill -CONT {named}", WAIT),
            "the run was ended and cannot be had again", PREVENT,
        )  # fmt: skip


def _lacking(case: Case, name: str, job: _Job) -> Iterator[Idea]:
    """Something that the script needs is gone."""
    said = next((line for line in _said(case, job) if _ABSENT.search(line)), "")
    script = case.content(job.script) if job.script else ""
    if not said or not script:
        if job.script and (wants := case.missing((probes.show(job.script),))):
            yield Idea("job-missed", name, f"{job.script} may fail", 0.5, job.script,
                       lines(job.line), wants)  # fmt: skip
        return
    for path in [one for one in paths_in(said) if one != job.script][:3]:
        if wants := case.missing((probes.walk(path),)):
            yield Idea("job-missed", name, f"{job.script} lacks {path}", 0.6, path, lines(said),
                       wants)  # fmt: skip
            continue
        if "No such file" not in case.text(probes.walk(path)):
            continue
        folder = path if _is_folder(path, script, said) else str(PurePosixPath(path).parent)
        yield Idea(
            "job-missed", name, f"{path}, which {job.script} needs, is gone", 0.85, path,
            lines(said, *(x for x in script.splitlines() if path in x)), (),
            (f"mkdir -p {shlex.quote(folder)}", WAIT), f"rmdir {folder}", PREVENT,
        )  # fmt: skip


def _is_folder(path: str, script: str, said: str) -> bool:
    own = re.escape(path)
    used = rf"\b(?:cd|chdir|pushd|ls|find)\s+(?:-\S+\s+)*[\"']?{own}(?:[\"'\s/;]|$)|{own}/"
    return re.search(used, script) is not None or re.search(r"\bcd\b", said) is not None


def _otherwise(case: Case, name: str, job: _Job) -> Iterator[Idea]:
    """Its table or its script is not what it was."""
    for path in (job.table, job.script):
        if not path or path == "/etc/crontab":
            continue
        copy = earlier(case, path)
        if not copy.path and not copy.wants:
            continue
        said = next((line for line in _said(case, job) if case.recent(line)), "")
        fix = (*put_back(path, copy.path), f"touch {shlex.quote(path)}", WAIT) if copy.path else ()
        yield Idea(
            "job-missed", name, f"{path} of {name} is not what it was", 0.45 + 0.2 * bool(fix),
            path, lines(copy.change, said, job.line), copy.wants, fix, undo_of(path), PREVENT,
        )  # fmt: skip


def _tails(job: _Job) -> list[str]:
    return [probes.tail(job.log)] if job.log else []


def _said(case: Case, job: _Job) -> list[str]:
    """The end of its log, the last line first."""
    return [line for command in _tails(job) for line in reversed(case.text(command).splitlines())]


RULES = (missed,)
