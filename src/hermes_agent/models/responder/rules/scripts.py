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
_LEFT = re.compile(
    r"pause|maint|disab|stop|hold|skip|\boff\b|freeze|frozen|inhibit|no[-_]?run|suspend|block|quiet"
    r"|hush|lockout|nocron",
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


def _kept_off(case: Case, name: str, job: Job) -> Iterator[Idea]:
    """A file makes it go away at once."""
    text = case.content(job.script)
    values, _ = settings.script(text)
    for row in text.splitlines():
        guard = _GUARD.search(row)
        if guard is None or guard[1] or re.search(r"\.(?:lock|pid)\b|\block\b", row):
            continue
        path = settings.filled(guard[2], values)
        if not path.startswith("/") or not _LEFT.search(f"{path} {row}"):
            continue
        if wants := case.missing((probes.walk(path),)):
            yield Idea("job-missed", name, f"{path} may keep {name} from its work", 0.6, path,
                       lines(row), wants)  # fmt: skip
        elif "No such file" not in case.text(probes.walk(path)):
            yield Idea(
                "job-missed", name, f"{path} keeps {name} from its work", 0.9, path,
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
