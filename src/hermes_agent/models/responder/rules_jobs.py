"""Jobs that are due by the clock and do not run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import Idea, earlier, lines, put_back, undo_of

_DAEMON = re.compile(r"^(cron|crond|fcron|anacron)$")
_ENTRY = re.compile(r"^(?:@\w+|(?:[\d*/,A-Za-z-]+\s+){4}[\d*/,A-Za-z-]+)\s+(.+)$")
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
        found = re.search(r"(?:^|\s)(/[\w./@+-]+)", self.command)
        return found[1] if found else ""

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
    if not name or name in case.definitions or not _daemons(case):
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
    for job in _jobs(case, name):
        yield from _unreadable(case, name, job)
        yield from _forbidden(case, name, job)
        yield from _locked(case, name, job)


def _daemons(case: Case) -> list[str]:
    return [one for one in case.programs if _DAEMON.match(one)]


def _jobs(case: Case, name: str) -> list[_Job]:
    return [
        _Job(table, line, entry[1])
        for table, rows in parse.files(case.text(probes.JOBS)).items()
        for line in rows
        if (name in line or PurePosixPath(table).name == name)
        and (entry := _ENTRY.match(line.strip()))
    ]


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


def _tails(job: _Job) -> list[str]:
    return [probes.tail(job.log)] if job.log else []


def _said(case: Case, job: _Job) -> list[str]:
    """The end of its log, the last line first."""
    return [line for command in _tails(job) for line in reversed(case.text(command).splitlines())]


RULES = (missed,)
