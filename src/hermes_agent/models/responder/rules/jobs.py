"""Jobs that are due by the clock and do not run."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from hermes_agent.models.responder.rules import crontabs, scripts, tables
from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.crontabs import Job
from hermes_agent.models.responder.rules.ideas import (
    Idea,
    earlier,
    lines,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules.tables import PREVENT, WAIT
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case, paths_in
from hermes_agent.models.responder.view.house import CODE, LOG

_DAEMON = re.compile(r"(?:^|/)(?:cron|crond|fcron|anacron|supercronic)$")
_PUT_OUT = re.compile(
    r"^\s*#.*?(?<![\w@*/,])((?:@[a-z]+\s+|(?:[\d*][\d*/,-]*\s+){3}(?:[\w*][\w*/,-]*\s+){2})\S.*)$"
)
_AGED = re.compile(
    r"\bstat\b|-mmin|-mtime|-newer|date -r|\bage\b|\bold\b|stale|fresh|overdue|outdated|\blate\b"
)
_ABSENT = re.compile(
    r"can't cd to|cd: |no such file|nonexistent|does not exist|not found|cannot (?:open|create)",
    re.IGNORECASE,
)
_LACKS = re.compile(rf"{_ABSENT.pattern}|missing|lack|\bno\b|empty|cannot|wait", re.IGNORECASE)
"""How it is said that something is not there."""
_OF_ANYBODY = ("/home/", "/var/lib/", "/run/")
"""Where others than people who look after the machine may write: no table comes from there."""
_ANY = f"{crontabs.FOLDER}/x"
_LAST = 6
"""Lines that a job said last, and other jobs that are looked at."""


def missed(case: Case) -> Iterator[Idea]:
    name = case.brief.service
    check = f"{case.brief.check.command} {case.symptom}" if case.brief.check else ""
    known = case.definition(name) is not None
    daemons = _daemons(case)
    if not name or (known and not _AGED.search(check)) or not daemons:
        return
    wants = case.missing((probes.JOBS,))
    if wants:
        yield Idea("job-missed", name, f"the job {name} may not be run", 0.5, name, (), wants)
        return
    yield from _no_daemon(case, name, daemons)
    found = list(_jobs(case, name))
    yield from _put_out(case, name)
    if not found:
        yield from _taken_out(case, name)
    for job in found:
        yield from _wrong(case, name, job)
        yield from _next_run(name, job)
    yield from _made_before(case, name, found)


def _wrong(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """What may keep a job from its work."""
    yield from tables.table(case, name, job, _said(case, job))
    yield from scripts.script(case, name, job, _said(case, job))
    yield from _forbidden(case, name, job)
    yield from _held(case, name, job)
    yield from _lacking(case, name, job)
    yield from _otherwise(case, name, job)


def _made_before(case: Case, name: str, found: Sequence[Job]) -> Iterator[Idea]:
    """A file that it lacks is made by another job, which may be the one that is missed."""
    said = [line for job in found for line in _said(case, job)[:_LAST] if _LACKS.search(line)]
    own = {path for job in found for path in (job.script, job.log, job.table)}
    wanted = [path for line in said for path in paths_in(line) if path not in own]
    wanted = [path for path in wanted if not LOG.search(path)]
    others = [
        job for job in crontabs.jobs(parse.files(case.text(probes.JOBS))) if job not in found
    ][:_LAST]
    if not wanted or not others:
        return
    scripts_of = [probes.show(job.script) for job in others if job.script]
    if wants := case.missing(scripts_of):
        yield Idea("job-missed", name, f"another job may make what {name} lacks", 0.6, wanted[0],
                   lines(said[0]), wants)  # fmt: skip
        return
    for job in others:
        text = f"{job.line}\n{case.content(job.script)}" if job.script else job.line
        path = next((one for one in wanted if one in text), "")
        for idea in _wrong(case, PurePosixPath(job.table).name, job) if path else ():
            shown = next(line for line in said if path in line)
            fix = (*idea.fix, "sleep 60") if idea.fix else ()  # it is made, then what needs it
            told = lines(*idea.evidence, shown)
            yield replace(idea, score=idea.score - 0.02, evidence=told, fix=fix)


def _next_run(name: str, job: Job) -> Iterator[Idea]:
    """Nothing speaks against the next run any more: it is waited for before people are asked."""
    if crontabs.gap(job.times) <= 1:
        claim = f"runs of {name} were missed, and the cause is not to be seen any more"
        yield Idea("job-missed", name, claim, 0.25, job.table, lines(job.line), (), (WAIT,), "",
                   PREVENT)  # fmt: skip


def _no_daemon(case: Case, name: str, daemons: list[str]) -> Iterator[Idea]:
    for daemon in daemons:
        program = case.programs[daemon]
        if not program.up:
            yield Idea(
                "job-missed", daemon, f"{daemon}, which begins {name}, does not run", 0.93, daemon,
                lines(program.line), (), (case.restart(daemon), WAIT),
                f"supervisorctl stop {daemon}", ("have it restarted by itself", *PREVENT),
            )  # fmt: skip
            continue
        own = case.process(program.pid)
        if own is not None and own.state.startswith("T"):
            yield Idea(
                "job-missed", daemon, f"{daemon}, which begins {name}, was halted", 0.97,
                f"{daemon}, pid {own.pid}", lines(own.line, program.line), (),
                (f"kill -CONT {own.pid}", WAIT), f"kill -STOP {own.pid}", PREVENT,
            )  # fmt: skip


def _daemons(case: Case) -> list[str]:
    """Programs that begin jobs: by their names, and by what they run."""
    found = [one for one in case.programs if _DAEMON.search(one)]
    found += [one for one in case.programs if any(map(_DAEMON.search, case.command(one)))]
    return list(dict.fromkeys(found))


def _marks(case: Case, name: str) -> list[str]:
    """What shows that a job is meant: its name, and the files that the check looks at."""
    command = case.brief.check.command if case.brief.check else ""
    return [name, *paths_in(f"{command}\n{case.symptom}")]


def _jobs(case: Case, name: str) -> list[Job]:
    """Lines that begin the job. One in a file that cron passes over counts only where no other
    does."""
    marks = _marks(case, name)
    found = []
    for job in crontabs.jobs(parse.files(case.text(probes.JOBS))):
        told = f"{job.line}\n{case.content(job.script)}" if job.script else job.line
        own = PurePosixPath(job.table).name.partition(".")[0]
        if own == name or any(mark in told for mark in marks):
            found.append(job)
    read = [job for job in found if not crontabs.passed_over(job.table)]
    return read or found


def _taken_out(case: Case, name: str) -> Iterator[Idea]:
    """No table has it: one that somebody moved away may."""
    marks = _marks(case, name)
    if wants := case.missing(probes.mentions(mark) for mark in marks[:2]):
        yield Idea("job-missed", name, f"no table of cron has {name}", 0.6, name, (), wants)
        return
    told = (line for mark in marks[:2] for line in case.text(probes.mentions(mark)).splitlines())
    for line in dict.fromkeys(told):
        path, _, rest = line.partition(":")
        row = rest.partition(":")[2]
        there = path if path.startswith(("/etc/cron", "/var/spool/cron")) else _ANY
        jobs = [one for one in crontabs.jobs({there: [row]}) if not crontabs.misread(one.times)]
        if not jobs or not jobs[0].user or CODE.search(path):
            continue
        if path.startswith((f"{crontabs.FOLDER}/", *_OF_ANYBODY)):
            continue
        new = shlex.quote(f"{crontabs.FOLDER}/{crontabs.legal(PurePosixPath(path).name, name)}")
        yield Idea(
            "job-missed", name, f"the table of {name} was taken out: it lies at {path}", 0.8, path,
            lines(row), (), (taken_over(path, new), f"chmod 644 {new}", WAIT),
            f"mv {new} /var/tmp/", PREVENT,
        )  # fmt: skip


def taken_over(path: str, new: str) -> str:
    """The command that has a file be a table of root: only one that is root's and that nobody else
    may write to."""
    own = shlex.quote(path)
    return f'[ "$(find {own} -type f -user root ! -perm /022)" ] && cp -n {own} {new}'


def _script_of(table: str, row: str) -> str:
    """What a line begins; nothing where it only looks like one."""
    found = [one for one in crontabs.jobs({table: [row]}) if not crontabs.misread(one.times)]
    return (found[0].script or found[0].program) if found else ""


def _put_out(case: Case, name: str) -> Iterator[Idea]:
    """A line that somebody made a remark of."""
    for table, rows in parse.files(case.text(probes.JOBS)).items():
        live = [row for row in rows if not row.lstrip().startswith("#")]
        for row in rows:
            former = _PUT_OUT.match(row)
            if former is None or not any(mark in row for mark in _marks(case, name)):
                continue
            script = _script_of(table, former[1])
            if script and not any(script in one for one in live):
                yield Idea(
                    "job-missed", name, f"the line of {name} in {table} is put out of use", 0.9,
                    table, lines(row), (),
                    (*swapped(table, row, former[1]), f"touch {shlex.quote(table)}", WAIT),
                    undo_of(table), PREVENT,
                )  # fmt: skip


def _forbidden(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """A script that may not be run."""
    if not job.script:
        return
    folder = probes.rows(str(PurePosixPath(job.script).parent))
    wants = case.missing((folder, *_tails(case, job)))
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


def _held(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """A run that was halted, or hangs, holds the lock that the next ones want."""
    script = case.content(job.script) if job.script else ""
    for path in dict.fromkeys(crontabs.flocks(f"{job.line}\n{script}")):
        if wants := case.missing((probes.holders(path),)):
            yield Idea("job-missed", name, f"a run of {name} may hold {path}", 0.55, path,
                       lines(job.line), wants)  # fmt: skip
            continue
        pids = list(dict.fromkeys(parse.holders(case.text(probes.holders(path)))))
        yield from _at_work(case, name, job, path, pids)
    for path in dict.fromkeys(scripts.LOCK.findall(script)):
        if wants := case.missing((probes.show(path),)):
            yield Idea("job-missed", name, f"a run of {name} may hold {path}", 0.5, path,
                       lines(job.line), wants)  # fmt: skip
            continue
        number = re.search(r"\d{1,8}", case.content(path))
        one = case.process(int(number[0])) if number else None
        if one is not None and PurePosixPath(job.script).name in one.command:
            yield from _at_work(case, name, job, path, [one.pid, *_below(case, one.pid)])


def _at_work(case: Case, name: str, job: Job, path: str, pids: Sequence[int]) -> Iterator[Idea]:
    runs = [one for pid in pids if (one := case.process(pid)) is not None]
    runs = [one for one in runs if not case.owner(one.pid) or _DAEMON.search(case.owner(one.pid))]
    if not runs:
        return
    halted = [one for one in runs if one.state.startswith("T")]
    look = stirs([one.pid for one in runs])
    if not halted and (wants := case.missing((look,))):
        yield Idea("job-missed", name, f"a run of {name} holds {path}", 0.6, path,
                   lines(runs[0].line), wants)  # fmt: skip
        return
    before, _, after = case.text(look).partition("--")
    still = bool(before.strip()) and before.strip() == after.strip()
    if not halted and not still:
        return  # however long it takes, it is at work
    named = " ".join(str(one.pid) for one in runs)
    shown = (halted or runs)[0]
    yield Idea(
        "job-missed", name, f"a run of {name} {'was halted' if halted else 'hangs'} and holds "
        f"{path}", 0.92 if halted else 0.75, f"{path}, pid {shown.pid}",
        lines(shown.line, job.line), (), (f"kill {named}", f"kill -CONT {named}", WAIT),
        "the run was ended and cannot be had again", PREVENT,
    )  # fmt: skip


def _below(case: Case, pid: int) -> list[int]:
    found = [one.pid for one in case.processes if one.parent == pid]
    return [*found, *(more for one in found for more in _below(case, one))]


def stirs(pids: Sequence[int]) -> str:
    """What processes have used and moved so far, and again after a while."""
    named = " ".join(map(str, pids))
    once = (
        f"for p in {named}; do awk '{{print $14 + $15}}' /proc/$p/stat; "
        "grep -E '^[rw]char' /proc/$p/io; done 2>/dev/null"
    )
    return f"{once}; echo --; sleep 8; {once}"


def _lacking(case: Case, name: str, job: Job) -> Iterator[Idea]:
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
        whole = _is_folder(path, script, said)
        folder = path if whole else str(PurePosixPath(path).parent)
        if not whole and _lacks_only(PurePosixPath(path).name, case.text(probes.walk(path))):
            continue  # the folder is there: somebody else makes the file
        yield Idea(
            "job-missed", name, f"{path}, which {job.script} needs, is gone", 0.85, path,
            lines(said, *(x for x in script.splitlines() if path in x)), (),
            (f"mkdir -p {shlex.quote(folder)}", WAIT), f"rmdir {shlex.quote(folder)}", PREVENT,
        )  # fmt: skip


def _lacks_only(name: str, walked: str) -> bool:
    """Whether all is there that leads to a file."""
    absent = [row for row in walked.splitlines() if "No such file" in row]
    return len(absent) == 1 and re.search(rf"^\s*{re.escape(name)} - ", absent[0]) is not None


def _is_folder(path: str, script: str, said: str) -> bool:
    own = re.escape(path)
    used = rf"\b(?:cd|chdir|pushd|ls|find)\s+(?:-\S+\s+)*[\"']?{own}(?:[\"'\s/;]|$)|{own}/"
    return re.search(used, script) is not None or re.search(r"\bcd\b", said) is not None


def _otherwise(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """Its table or its script is not what it was."""
    for path in (job.table, job.script):
        if not path or path == "/etc/crontab":
            continue
        copy = earlier(case, path)
        before = [one[2:] for one in copy.changes if one[0] == "<"]
        if not copy.path and not copy.wants:
            continue
        if path == job.table and before and not crontabs.jobs({path: before}):
            continue  # that is no table
        said = next((line for line in _said(case, job) if case.recent(line)), "")
        fix = (*put_back(path, copy.path), f"touch {shlex.quote(path)}", WAIT) if copy.path else ()
        yield Idea(
            "job-missed", name, f"{path} of {name} is not what it was", 0.45 + 0.2 * bool(fix),
            path, lines(copy.change, said, job.line), copy.wants, fix, undo_of(path), PREVENT,
        )  # fmt: skip


def _tails(case: Case, job: Job) -> list[str]:
    """Logs that its line or its script names."""
    script = case.content(job.script) if job.script else ""
    own = [path for path in paths_in(script) if LOG.search(path)]
    return [probes.tail(path) for path in dict.fromkeys([job.log, *own]) if path][:3]


def _said(case: Case, job: Job) -> list[str]:
    """The ends of its logs, the last line first."""
    tails = _tails(case, job)
    return [line for command in tails for line in reversed(case.text(command).splitlines())]


RULES = (missed,)
