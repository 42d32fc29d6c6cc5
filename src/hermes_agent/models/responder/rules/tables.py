"""Jobs that cron does not begin, or begins in vain, because of what their table says."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules import crontabs
from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.crontabs import Job
from hermes_agent.models.responder.rules.ideas import (
    Idea,
    earlier,
    keeping,
    lines,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules.permission import octal
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

WAIT = "sleep 63"
"""Until the clock has begun the job once more."""
PREVENT = ("alert on the age of what the job makes", "let jobs say aloud that they did not run")
_NOT_FOUND = re.compile(
    r"(?:^|[\s:'\"`])([\w.+-]+)['\"`]?: (?:command )?not found"
    r"|(?:env|nice|timeout|xargs|nohup|setsid|exec|command)\b.*?\W([\w.+-]+)\W: No such"
    r"|No such file or directory: ['\"]([\w.+-]+)['\"]|xec [\"']([\w.+-]+)[\"']: No such"
    r"|(?:xargs|nice|nohup): ([\w.+-]+): No such"
)
"""How shells, tools and languages say that there is no such program."""
_NO_SHELL = re.compile(r"/(?:nologin|false|true)$")


def table(case: Case, name: str, job: Job, said: list[str]) -> Iterator[Idea]:
    """What cron has against the table, and against the line."""
    if wants := case.missing((crontabs.TABLES,)):
        yield Idea("job-missed", name, f"cron may not read {job.table}", 0.6, job.table,
                   lines(job.line), wants)  # fmt: skip
        return
    yield from _passed_over(case, name, job)
    yield from _lying(case, name, job)
    yield from _misread(case, name, job)
    yield from _nobody(case, name, job)
    yield from _cut(name, job)
    yield from _seldom(case, name, job)
    yield from _shell(case, name, job)
    yield from _elsewhere(case, name, job, said)


def _idea(
    name: str, job: Job, claim: str, score: float, fix: tuple[str, ...], *told: str, undo: str = ""
) -> Idea:
    done = (*fix, f"touch {shlex.quote(job.table)}", WAIT)
    return Idea("job-missed", name, claim, score, job.table, lines(*told), (), done,
                undo or undo_of(job.table), PREVENT)  # fmt: skip


def _passed_over(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """It is called as cron reads none."""
    right = crontabs.passed_over(job.table)
    if not right:
        return
    taken = {PurePosixPath(one).name for one in parse.files(case.text(probes.JOBS))}
    new = f"{crontabs.FOLDER}/{right if right not in taken else f'{right}-{len(taken)}'}"
    old, own = shlex.quote(job.table), shlex.quote(new)
    yield Idea(
        "job-missed", name, f"cron passes over {job.table} because of how it is called", 0.93,
        job.table, lines(f"==> {job.table} <==", job.line), (),
        (f"mv {old} {own}", f"touch {own}", WAIT), f"mv {own} {old}", PREVENT,
    )  # fmt: skip


def _lying(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """It may be written by others, is somebody else's, or does not end as it should."""
    seen = crontabs.lying(case.text(crontabs.TABLES), job.table)
    own, row = shlex.quote(job.table), seen.row
    if row is not None and (row.mode[5] == "w" or row.mode[8] == "w"):
        claim = f"cron does not read {job.table}: others may write it"
        yield _idea(name, job, claim, 0.92, (f"chmod go-w {own}",), row.line, job.line,
                    undo=f"chmod {octal(row.mode[1:])} {own}")  # fmt: skip
    if row is not None and row.user != "root" and crontabs.is_system(job.table):
        claim = f"cron does not read {job.table}: it is {row.user}'s"
        yield _idea(name, job, claim, 0.92, (f"chown root {own}",), row.line, job.line,
                    undo=f"chown {shlex.quote(row.user)} {own}")  # fmt: skip
    keep = keeping(job.table)
    if seen.unended:
        claim = f"cron does not read {job.table}: its last line has no end"
        yield _idea(name, job, claim, 0.92, (keep, f"echo >> {own}"), f"unended {job.table}",
                    job.line)  # fmt: skip
    if seen.returns:
        claim = f"lines of {job.table} end as on another system"
        yield _idea(name, job, claim, 0.92, (keep, f"sed -i 's/\\r$//' {own}"),
                    f"returns {job.table}", job.line)  # fmt: skip


def _misread(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """Times that cron cannot read, in this line or in another one: it reads none then."""
    tables = parse.files(case.text(probes.JOBS))
    for one in crontabs.jobs({job.table: tables.get(job.table, [])}):
        wrong = crontabs.misread(one.times)
        if not wrong:
            continue
        copy = earlier(case, job.table)
        claim = f"cron does not read {job.table}: {wrong} stands in it"
        if copy.wants:
            yield Idea("job-missed", name, claim, 0.7, job.table, lines(one.line), copy.wants)
            continue
        if copy.path:
            fix = put_back(job.table, copy.path)
        elif one.line == job.line:
            fix = swapped(job.table, one.times, _right_times(case, name, job))
        else:
            fix = swapped(job.table, one.line, f"# {one.line.strip()}")
        yield _idea(name, job, claim, 0.93, fix, one.line, copy.change)


def _right_times(case: Case, name: str, job: Job) -> str:
    """How often a job should run, by what people say of it and what the check wants."""
    check = case.brief.check
    told = [*crontabs.remarks(parse.files(case.text(probes.JOBS)).get(job.table, []))]
    told += [*crontabs.remarks(case.content(job.script).splitlines())] if job.script else []
    told += [case.about(name), check.name if check else ""]
    age = crontabs.allowed_age(check.command if check else "")
    return crontabs.every(crontabs.wanted_minutes(told, age))


def _nobody(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """It names no user as whom it is run, or one whom nobody knows."""
    known = crontabs.users(case.text(crontabs.TABLES))
    if not crontabs.is_system(job.table) or not known or job.user in known:
        return
    copy = earlier(case, job.table)
    claim = f"the line of {name} in {job.table} names no user"
    if job.user and not (job.user.isalnum() and len(job.command.split()) > 0):
        return
    if job.user:
        claim = f"the line of {name} in {job.table} is to be run as {job.user}, whom nobody knows"
    if copy.wants:
        yield Idea("job-missed", name, claim, 0.8, job.table, lines(job.line), copy.wants)
        return
    if copy.path:
        yield _idea(name, job, claim, 0.92, put_back(job.table, copy.path), job.line, copy.change)
        return
    user = _owner(case, job, known)
    command = job.command
    if job.user and _is_program(job.user, command):
        command = f"{job.user} {command}"
    new = f"{job.times} {user} {command}"
    yield _idea(name, job, claim, 0.85, swapped(job.table, job.line, new), job.line)


def _is_program(word: str, rest: str) -> bool:
    """Whether what stands in the place of the user is the program itself."""
    return re.match(r"[-/\"'$>|;&]", rest) is not None and word in (
        "sh", "bash", "python3", "python", "cd", "nice", "env", "flock", "timeout", "test", "perl",
    )  # fmt: skip


def _owner(case: Case, job: Job, known: list[str]) -> str:
    """Whose script it is; else whoever is named most in tables."""
    folder = probes.rows(str(PurePosixPath(job.script).parent)) if job.script else ""
    name = PurePosixPath(job.script).name
    rows = parse.listing(case.text(folder)) if folder else []
    own = next((row.user for row in rows if row.own == name), "")
    others = [one.user for one in crontabs.jobs(parse.files(case.text(probes.JOBS)))]
    return next((one for one in [own, *others] if one in known), "root")


def _cut(name: str, job: Job) -> Iterator[Idea]:
    """Cron ends a command at the first percent sign that is not escaped."""
    if job.cut < 0:
        return
    new = re.sub(r"(?<!\\)%", r"\\%", job.line)
    dated = re.search(r"date[^%;|&]*$", job.command[: job.cut]) is not None
    yield _idea(
        name, job, f"cron ends the line of {name} in {job.table} at its percent sign",
        0.93 if dated else 0.7, swapped(job.table, job.line, new), job.line,
    )  # fmt: skip


def _seldom(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """It is begun less often than the check lets what it makes be old."""
    check = case.brief.check
    age = crontabs.allowed_age(check.command if check else "")
    if not age or crontabs.misread(job.times) or crontabs.gap(job.times) * 60 <= age:
        return
    copy = earlier(case, job.table)
    claim = f"{name} is begun at {job.times!r} only, by {job.table}"
    if copy.wants:
        yield Idea("job-missed", name, claim, 0.7, job.table, lines(job.line), copy.wants)
        return
    fix = swapped(job.table, job.times, _right_times(case, name, job))
    if copy.path and any(x[0] == "<" and job.program in x for x in copy.changes):
        fix = put_back(job.table, copy.path)
    yield _idea(name, job, claim, 0.88, fix, job.line, copy.change)


def _shell(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """The shell that is to run it is none."""
    shell = job.variables.get("SHELL", "")
    if not shell:
        return
    if wants := case.missing((probes.walk(shell),)):
        yield Idea("job-missed", name, f"{shell} may not be there", 0.5, job.table, (), wants)
    elif _NO_SHELL.search(shell) or "No such file" in case.text(probes.walk(shell)):
        rows = parse.files(case.text(probes.JOBS)).get(job.table, [])
        row = next((x for x in rows if x.strip().startswith("SHELL")), "")
        yield _idea(name, job, f"{shell}, by which {job.table} has jobs run, runs none", 0.92,
                    swapped(job.table, row, "SHELL=/bin/sh"), row)  # fmt: skip


def lies(word: str, owner: str) -> str:
    """Where a program of this name lies, if it may be run: one of root, or of whoever runs it."""
    own = "" if owner == "root" else f"-o -user {shlex.quote(owner)} "
    return (
        "find /usr/local /opt /srv /home /root /usr/bin /bin /usr/sbin /sbin /data /app /usr/lib "
        f"-xdev -maxdepth 5 -name {shlex.quote(word)} -perm -u+x ! -perm -o+w ! -type d "
        rf"\( -user root {own}\) {probes.TRUSTED} -printf '%p\n' 2>/dev/null | head -n 8"
    )


def _elsewhere(case: Case, name: str, job: Job, said: list[str]) -> Iterator[Idea]:
    """A program that it calls lies where cron does not look for it."""
    called = [job.program] if re.fullmatch(r"[\w.+-]+", job.program) else []
    lost = [
        (next(filter(None, found.groups())), line)
        for line in said[:8]
        for found in _NOT_FOUND.finditer(line)
    ]
    for word in dict.fromkeys([*(word for word, _ in lost), *called]):
        if word.isdigit() or word in ("sh", "bash", "run-parts", "find", "test", "true"):
            continue
        if wants := case.missing((lies(word, job.runs_as),)):
            yield Idea("job-missed", name, f"cron may not find {word}", 0.6, job.table,
                       lines(job.line), wants)  # fmt: skip
            continue
        places = case.text(lies(word, job.runs_as)).split()
        folders = [str(PurePosixPath(one).parent) for one in places]
        if not folders or any(_same(one, other) for one in folders for other in job.path):
            continue
        told = next((line for one, line in lost if one == word), "")
        rows = parse.files(case.text(probes.JOBS)).get(job.table, [])
        row = next((x for x in rows if re.match(r"\s*PATH\s*=", x)), "")
        fix = swapped(job.table, row, f"PATH={':'.join(job.path)}:{folders[0]}")
        if not row:
            more = f"1i PATH=/usr/local/sbin:/usr/local/bin:{crontabs.PATH}:{folders[0]}"
            fix = keeping(job.table), f"sed -i {shlex.quote(more)} {shlex.quote(job.table)}"
        claim = f"{word}, which {name} calls, lies in {folders[0]}, where cron does not look"
        yield _idea(name, job, claim, 0.9, fix, told, row, job.line)


def _same(one: str, other: str) -> bool:
    return one.removeprefix("/usr") == other.rstrip("/").removeprefix("/usr")
