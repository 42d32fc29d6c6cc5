"""Jobs that are begun and do nothing: their script is elsewhere, cannot be run as it is written, or
goes away at once because of a file that somebody left."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules import crontabs
from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.crontabs import Job
from hermes_agent.models.responder.rules.ideas import (
    Idea,
    keeping,
    lines,
    put_away,
    taken_out,
    undo_of,
)
from hermes_agent.models.responder.rules.tables import PREVENT, WAIT, lies
from hermes_agent.models.responder.view import parse, probes, settings
from hermes_agent.models.responder.view.case import Case

_GUARD = re.compile(
    r"(?:\[\[?|\btest)\s+(!\s+)?-[efsr]\s+[\"']?([^\s\"'\]]+)[\"']?\s*(?:\]\]?)?\s*"
    r"(?:&&\s*(?:\{\s*)?(?:echo[^;&]*[;&]+\s*)?exit\b|;\s*then\b|$)"
)
"""A file that keeps a script from its work while it is there."""
_UNLESS = re.compile(
    r"(?:\[\[?|\btest)\s+()!\s+-[efsrd]\s+[\"']?([^\s\"'\]]+)[\"']?\s*(?:\]\]?)?\s*\|\|\s*"
    r"(?:\{\s*)?(?:echo[^;&]*[;&]+\s*)?exit\b"
)
_ELSEWISE = re.compile(
    r"\bif\b(?!.*\bnot\b)()[^\n]*(?:\bexists|\bisfile|\bPath|-e)\(?\s*[\"'](/[^\"']+)[\"'][^\n]*"
    r"[:{]\s*(?:\w+\.)?(?:exit|_exit|return|raise SystemExit)\b"
)
"""The same as others write it: unless it is there, and in other languages."""
_AT_WORK = re.compile(
    r"still (?:at work|running|active)|already (?:running|active|started)|lock|in progress"
    r"|(?:another|earlier|previous|other|last) (?:instance|copy|run|job)|\bbusy\b|at a time",
    re.IGNORECASE,
)
LOCK = re.compile(r"(/(?:run|var/run|var/lock|tmp|var/lib)/[\w./-]*(?:lock|pid)[\w.-]*)")
_LOCKING = re.compile(
    r"(?:(?:\[\[?|\btest)\s+-[efsrdL]\s+(?=[^|]*(?:&&|then))|\bmkdir\s+(?!-)(?=.*(?:\|\||&&|then)))"
    r"[\"']?([^\s\"';|&\]]+)"
)
"""How a script asks whether another run is at work: what must be there for it to go on is none."""
_NAMED_SO = re.compile(
    r"(?<![a-z])(?:lck|pid|run|running|busy|active|guard|claim|mutex|mark|marker|progress|working)"
    r"(?![a-z])[^/]*$|(?<![bc])lock(?:ed|file|dir)?(?![a-z])[^/]*$",
    re.IGNORECASE,
)
LOCK_CHARS = 500
"""Letters of a file that says no more than whose it is."""
_PASSING = re.compile(r"^/(?:run|var/run|var/lock|tmp|var/tmp|dev/shm)/")
_LEFT = re.compile(
    r"pause|maint|disab|stop|hold|skip|\boff\b|freeze|frozen|inhibit|no[-_]?run|suspend|block|quiet"
    r"|hush|lockout|nocron|blackout|embargo|snooz|silenc|\bmute|closed|keep[-_]?off|do[-_]?not"
    r"|standstill|(?:^|[/_.-])no[-_][a-z]+|moratori|idle",
    re.IGNORECASE,
)
_SOURCED = re.compile(
    r"^\s*(?:\[[^\]]*\]\s*&&\s*)?(?:\.|source)\s+[\"']?(\S+?)[\"']?\s*(?:[;&|].*)?$", re.MULTILINE
)
_ASKED = re.compile(
    r"(?:\[\[?|\btest)\s+[\"']?\$\{?(\w+)(?::?-[^}]*)?\}?[\"']?\s+(=|==|!=|-eq|-ne)\s+"
    r"[\"']?([\w.-]+)[\"']?\s*(?:\]\]?)?\s*(\|\||&&|;\s*then\b)\s*(?:\{\s*)?"
    r"(?:echo[^;&]*[;&]+\s*)?(?:exit\b|$)"
)
"""A setting that a script asks for before it goes on or goes away."""
_OPPOSITE = {
    "1": "0", "0": "1", "yes": "no", "no": "yes", "true": "false", "false": "true", "on": "off",
    "off": "on", "enabled": "disabled", "disabled": "enabled",
}  # fmt: skip
_GUARDED = re.compile(
    r"dry|confirm|sure|force|allow|danger|destr|prod|primary|leader|master|standby|role",
    re.IGNORECASE,
)
"""Settings by which more is said than whether a job runs: nobody but people says that."""
_ON_PURPOSE = re.compile(
    r"until|do not|don't|never|on purpose|intention|deliberate|because|migrat|freeze|ticket"
    r"|\bask(?:ed)?\b|must|only (?:on|after|when)",
    re.IGNORECASE,
)
_BAD_START = re.compile(r"bad interpreter|exec format|\^M|\\r|not found", re.IGNORECASE)


def script(case: Case, name: str, job: Job, said: list[str]) -> Iterator[Idea]:
    if job.program.rpartition("/")[2] == "run-parts":
        yield from _parts(case, name, job)
    if not job.script:
        return
    yield from _moved(case, name, job, said)
    yield from _started(case, name, job, said)
    yield from _locked(case, name, job, said)
    yield from _kept_off(case, name, job)
    yield from _switched_off(case, name, job)


def first_line(path: str) -> str:
    """How a script begins, with what is not to be seen otherwise; and whether that program is
    there."""
    own = shlex.quote(path)
    return (
        f"head -n 1 {own} | cat -A; p=$(head -n 1 {own} | sed -n 's/^#! *\\([^ ]*\\).*/\\1/p' | "
        'tr -d \'\\r\'); [ -z "$p" ] || [ -x "$p" ] || echo "absent $p"'
    )


def _moved(case: Case, name: str, job: Job, said: list[str]) -> Iterator[Idea]:
    """It is not where its line says; one of its name lies elsewhere."""
    if wants := case.missing((probes.walk(job.script),)):
        yield Idea("job-missed", name, f"{job.script} may be gone", 0.5, job.script,
                   lines(job.line), wants)  # fmt: skip
        return
    if "No such file" not in case.text(probes.walk(job.script)):
        return
    own = PurePosixPath(job.script)
    looks = tuple(lies(one, job.runs_as) for one in (own.name, f"{own.stem}*", f"*{own.stem}*"))
    claim = f"{job.script}, which {job.table} names, is not there"
    if wants := case.missing(looks):
        yield Idea("job-missed", name, claim, 0.75, job.script, lines(job.line), wants)
        return
    told = next((line for line in said if job.script in line), "")
    found = dict.fromkeys(path for look in looks for path in case.text(look).split())
    taken = [one.script for one in crontabs.jobs(parse.files(case.text(probes.JOBS)))]
    for path in [one for one in found if one not in taken][:2]:
        yield Idea(
            "job-missed", name, f"{claim}: it lies at {path}", 0.9, job.script,
            lines(told, job.line), (),
            (*swapped(job.table, job.script, path), f"touch {shlex.quote(job.table)}", WAIT),
            undo_of(job.table), PREVENT,
        )  # fmt: skip


def _started(case: Case, name: str, job: Job, said: list[str]) -> Iterator[Idea]:
    """What is to run it is not there, or its lines end as on another system."""
    look = first_line(job.script)
    if wants := case.missing((look,)):
        yield Idea("job-missed", name, f"{job.script} may not be started", 0.5, job.script,
                   lines(job.line), wants)  # fmt: skip
        return
    told = next((line for line in said if _BAD_START.search(line)), "")
    text, own = case.text(look), shlex.quote(job.script)
    keep = keeping(job.script)
    if "^M$" in text:
        yield Idea(
            "job-missed", name, f"lines of {job.script} end as on another system", 0.92,
            job.script, lines(text.splitlines()[0], told), (),
            (keep, f"sed -i 's/\\r$//' {own}", WAIT), undo_of(job.script), PREVENT,
        )  # fmt: skip
    absent = re.search(r"^absent (\S+)$", text, re.MULTILINE)
    if absent is None:
        return
    place = lies(PurePosixPath(absent[1]).name, job.runs_as)
    claim = f"{absent[1]}, which is to run {job.script}, is not there"
    if wants := case.missing((place,)):
        yield Idea("job-missed", name, claim, 0.8, job.script, lines(absent[0]), wants)
    for path in case.text(place).split()[:1]:
        yield Idea(
            "job-missed", name, claim, 0.92, job.script, lines(text.splitlines()[0], told), (),
            (*swapped(job.script, f"#!{absent[1]}", f"#!{path}"), WAIT), undo_of(job.script),
            PREVENT,
        )  # fmt: skip


def _locked(case: Case, name: str, job: Job, said: list[str]) -> Iterator[Idea]:
    """A lock of a run that is gone: a file, or a folder."""
    spoken = next((line for line in said if _AT_WORK.search(line)), "")
    if wants := case.missing((probes.show(job.script),)) if spoken else ():
        yield Idea("job-missed", name, f"{name} waits for an earlier run", 0.6, name,
                   lines(spoken), wants)  # fmt: skip
        return
    text = case.content(job.script)
    values, _ = settings.script(text)
    rows = text.splitlines()
    asked = [
        settings.filled(found[1], values)
        for at, row in enumerate(rows)
        if (found := _LOCKING.search(row))
        if spoken or _AT_WORK.search(f"{row} {found[1]}") or _makes(rows, at, found[1])
    ]
    asked = [path for path in asked if path.startswith("/") and not _LEFT.search(path)]
    asked = [path for path in asked if _is_passing(path)]
    told = LOCK.findall(f"{spoken}\n{text}") if spoken else []
    if any(job.script in one.command for one in case.processes):
        return  # a run is at work
    for path in dict.fromkeys([*told, *asked]):
        looks = (probes.show(path), probes.holders(path))
        if wants := case.missing(looks):
            yield Idea("job-missed", name, f"{name} may wait for an earlier run", 0.6, path,
                       lines(spoken), wants)  # fmt: skip
            continue
        content = case.look(looks[0])
        folder = content is not None and "s a directory" in content.output
        there = content is not None and (content.ok or folder)
        if content is None or not there or parse.holders(case.text(looks[1])):
            continue
        if _is_held(case, job, path, content.output):
            continue
        yield Idea(
            "job-missed", name, f"{path} is the lock of a run of {name} that is gone", 0.92, path,
            lines(spoken, *content.lines[:2]), (), (put_away(path), WAIT), taken_out(path), PREVENT,
        )  # fmt: skip


def _makes(rows: list[str], at: int, path: str) -> bool:
    """Whether a script goes away where a file is there, and else makes it itself."""
    leaves = any(re.search(r"\b(?:exit|return)\b", row) for row in rows[at : at + 4])
    made = rf"(?:>|\bmkdir|\btouch|\bln -s \S+)\s*[\"']?{re.escape(path)}"
    return leaves and any(re.search(made, row) for row in rows[at + 1 :])


def _is_passing(path: str) -> bool:
    """Whether a path may be that of a lock: by its place or its name."""
    return _PASSING.search(path) is not None or _NAMED_SO.search(path) is not None


def _is_held(case: Case, job: Job, path: str, text: str) -> bool:
    """Whether a file is no lock, or names somebody at work who is called as it is."""
    number = re.search(r"\d{1,8}", text)
    holder = case.process(int(number[0])) if number else None
    names = (job.script, PurePosixPath(path).stem)
    return len(text) > LOCK_CHARS or (
        holder is not None and any(x in holder.command for x in names)
    )


def _kept_off(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """A file makes it go away at once."""
    text = case.content(job.script)
    values, _ = settings.script(text)
    rows = text.splitlines()
    for at, row in enumerate(rows):
        both = "\n".join(rows[at : at + 2])
        guard = _UNLESS.search(row) or _GUARD.search(row) or _ELSEWISE.search(both)
        if guard is None or guard[1]:
            continue
        if re.search(r"\.(?:lock|pid)\b|\block\b", row):
            continue
        path = settings.filled(guard[2], values)
        if not path.startswith("/") or not _LEFT.search(f"{path} {row}"):
            continue
        if wants := case.missing((probes.walk(path), probes.show(path))):
            yield Idea("job-missed", name, f"{path} may keep {name} from its work", 0.6, path,
                       lines(row), wants)  # fmt: skip
        elif "No such file" not in case.text(probes.walk(path)):
            meant = _ON_PURPOSE.search(case.content(path)) is not None
            yield Idea(
                "job-missed", name, f"{path} keeps {name} from its work", 0.5 if meant else 0.9,
                path,
                lines(row, *case.text(probes.walk(path)).splitlines()[-1:]), (),
                (put_away(path), WAIT), taken_out(path), PREVENT,
            )  # fmt: skip


def _switched_off(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """A setting that its script reads makes it go away at once."""
    text = case.content(job.script)
    files = [path for path in _SOURCED.findall(text) if path.startswith("/")]
    rows = text.splitlines()
    for at, row in enumerate(rows):
        asked = _ASKED.search(row)
        if asked is None or not _leaves(asked, rows[at + 1 : at + 4]):
            continue
        if wants := case.missing(probes.show(path) for path in files[:3]):
            yield Idea("job-missed", name, f"a setting may keep {name} from its work", 0.55,
                       job.script, lines(row), wants)  # fmt: skip
            return
        for path in [*files[:3], job.script]:
            told = re.search(
                rf"^\s*(?:export\s+)?{asked[1]}=([\"']?)([\w.-]*)\1\s*(?:#.*)?$",
                case.content(path), re.MULTILINE,
            )  # fmt: skip
            right = _right(asked, told[2]) if told else ""
            if told is None or not right:
                continue
            line = told[0].strip()
            meant = _ON_PURPOSE.search(_remarks(case.content(path), line)) is not None
            yield Idea(
                "job-missed", name, f"{line} in {path} keeps {name} from its work",
                0.5 if meant else 0.88, f"{path}: {line}", lines(line, row), (),
                (*swapped(path, line, line.replace(f"={told[1]}{told[2]}", f"={told[1]}{right}")),
                 WAIT), undo_of(path), PREVENT,
            )  # fmt: skip


def _leaves(asked: re.Match[str], after: list[str]) -> bool:
    """Whether a script ends there: in the same row, or in what follows it."""
    if asked[0].endswith("exit"):
        return True
    body = [row.strip() for row in after]
    ends = next((at for at, row in enumerate(body) if re.match(r"fi\b|else\b|elif\b", row)), 3)
    return any(re.match(r"(?:echo.*[;&]\s*)?exit\b", row) for row in body[:ends])


def _remarks(text: str, line: str) -> str:
    """What somebody wrote beside a line and right above it."""
    rows = [row.strip() for row in text.splitlines()]
    at = rows.index(line) if line in rows else 0
    above = at
    while above and rows[above - 1].startswith("#"):
        above -= 1
    return " ".join((*rows[above:at], line.partition("#")[2]))


def _right(asked: re.Match[str], value: str) -> str:
    """What a setting must be for the script to go on; empty where it is, where that is not clear,
    and where it is no plain switch: on which machine or for whom a job is, people say."""
    switch = asked[3].lower() in _OPPOSITE and value.lower() in ("", *_OPPOSITE)
    if not switch or _GUARDED.search(asked[1]):
        return ""
    equal = asked[2] in ("=", "==", "-eq")
    leaves_if_so = asked[4] != "||"
    if (value == asked[3]) is not equal:  # what is asked does not hold
        return "" if leaves_if_so else asked[3] if equal else ""
    if not leaves_if_so:
        return ""
    return asked[3] if not equal else _OPPOSITE.get(asked[3].lower(), "")


def _parts(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """It is one of a folder of which all are run that are called plainly and may be run."""
    folder = next((word.rstrip("/") for word in job.words[1:] if word.startswith("/")), "")
    if not folder:
        return
    if wants := case.missing((probes.rows(folder),)):
        yield Idea("job-missed", name, f"{folder} may hold what is passed over", 0.6, folder,
                   lines(job.line), wants)  # fmt: skip
        return
    for row in parse.listing(case.text(probes.rows(folder))):
        stem = row.own.partition(".")[0]
        if row.mode[0] == "d" or (stem not in name and name not in stem):
            continue
        own, new = shlex.quote(f"{folder}/{row.own}"), shlex.quote(f"{folder}/{stem}")
        plain = crontabs.FILE.fullmatch(row.own) is not None
        fix: tuple[str, ...] = () if plain else (f"mv {own} {new}",)
        fix += () if "x" in row.mode else (f"chmod +x {new}",)
        if fix:
            why = "may not be run" if plain else "is passed over because of how it is called"
            yield Idea(
                "job-missed", name, f"{folder}/{row.own} {why}", 0.9, f"{folder}/{row.own}",
                lines(row.line, job.line), (), (*fix, WAIT),
                f"mv {new} {own}" if not plain else f"chmod -x {own}", PREVENT,
            )  # fmt: skip
