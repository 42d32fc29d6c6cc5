"""What fell takes others with it, which do not get up by themselves."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder.rules.ideas import Idea, lines, put_away, taken_out
from hermes_agent.models.responder.view import parse, probes, settings
from hermes_agent.models.responder.view.case import Case, stamp
from hermes_agent.models.responder.view.needed import chain, needed_by

YOUNGER_SECONDS = 3
"""By how much one must have been started later than those that need it."""
_LOST = re.compile(
    r"refused|broken pipe|reset|closed|breaker|circuit|unavailable|\b50[234]\b|not connected|"
    r"connection (?:lost|aborted)|bad file descriptor|EPIPE|gave up|giving up|rejected|suspend|"
    r"server has gone away|terminat|no longer|stale|degraded|read-only|maintenance|upstream",
    re.IGNORECASE,
)
_REST = re.compile(
    r"maintenance|\bresting\b|\bpaus|suspend|tripped|breaker|circuit|\bfenc|\bdrain|safe.?mode|"
    r"read.?only|quarantin|\block(?:ed )?out|\blatch|out of service|\bmarker|\bflag|sentinel|"
    r"degraded|\bhalt|is there\b|is present|exists\b|remove .{1,80} to |gave up|giving up|offline|"
    r"\bdisabled?\b|\bhold\b|standby|blocked by|\bshed|eject|\bgated?\b|cool.?(?:down|off)|"
    r"back.?off|\bskip|not accepting|stood down|stand.?down|\bpark|frozen|freez|file present",
    re.IGNORECASE,
)
"""How it is said that somebody does not work on purpose."""
_ENTERED = r"enter|wrote|creat|writ|tripp|set |giv|gave|remove|clear|resume|switch|open"
_FAILED = re.compile(r"fail|error|time.?out|unreach|lost|down|miss|after \d", re.IGNORECASE)
_DAMAGED = re.compile(
    r"damag|corrupt|pars|decod|expecting|malformed|invalid|permission|denied|no such|not found|"
    r"cannot (?:read|open|write)|no space|locked",
    re.IGNORECASE,
)
"""How it is said that something is wrong with a file, and not that it is there."""
_NO_MARK = re.compile(
    r"\.(?:py|sh|conf|toml|ya?ml|ini|cfg|log|db|sqlite3?|sock|crt|pem|key)$|^/proc/|^/dev/|/$"
)
_OF_SYSTEM = re.compile(r"^/(?:etc|usr|s?bin|lib\w*|boot|root|home|var/spool/cron)/|/\.\.?/")
"""Where a file is of the machine or of people, unless settings name it: who writes a line of a log
does not say that it goes."""
MARK_BYTES, MARK_SECONDS = 4096, 10_800.0
"""How large such a file may be, and how old."""


def left_behind(case: Case) -> Iterator[Idea]:
    """Something below was started anew; what needs it was not, and does not work since."""
    fallen: list[str] = []
    evidence: list[str] = []
    roots: list[str] = []
    for service in reversed(chain(case, case.brief.service)):
        below = needed_by(case, service)
        renewed = [one for one in below if _is_younger(case, one, service)]
        program = case.programs.get(service)
        if program is None or not (renewed or set(below) & set(fallen)):
            continue
        spoken = next((line for line in case.troubles(service) if _LOST.search(line)), "")
        if not program.up or spoken or service == case.brief.service:
            fallen.append(service)
            roots += renewed
            evidence += [spoken or program.line]
    if not fallen or not roots:
        return
    root = case.programs.get(roots[0])
    told = fell(case, roots[0])
    score = 0.8 if any(not case.programs[one].up for one in fallen) else 0.74
    yield Idea(
        "cascading-failure", roots[0],
        f"{', '.join(fallen)} did not get over the time when {roots[0]} was away",
        score if told else 0.56, roots[0],
        lines(*evidence, told, root.line if root else ""), (),
        tuple(case.restart(one) for one in fallen), "",
        ("let those that lose a connection connect again by themselves",),
    )  # fmt: skip


def resting(case: Case) -> Iterator[Idea]:
    """A service wrote down that it gave up, and goes by that though what it needs is back. What
    people put there is left: it tells of no failure."""
    for service in case.suspects:
        for path, spoken in _marks(case, service).items():
            look = mark(path)
            wants = case.missing((look,))
            found = case.look(look)
            claim = f"{service} rests, because {path} is there"
            if wants:
                yield Idea("cascading-failure", service, claim, 0.66, path, lines(spoken), wants)
            if found is None or not found.ok or not found.lines:
                continue
            size, at = (parse.number(word) for word in found.lines[0].split()[:2])
            text = found.lines[1:]
            told = [line for line in text if gave_up(line)]
            told += list(case.said(service, rf"(?:{_ENTERED}).*{re.escape(path)}"))
            if size > MARK_BYTES or case.now - at > MARK_SECONDS or not told:
                continue
            below = needed_by(case, service)
            away = [one for one in below if not _is_up(case, one)]
            root = next(iter([*away, *below]), service)
            yield Idea(
                "cascading-failure", root,
                f"{claim}, though what it needs is back", 0.5 if away else 0.86, path,
                lines(spoken, *told), (), (put_away(path), case.restart(service)),
                taken_out(path), ("let what gives up try again by itself",),
            )  # fmt: skip


def fell_with(case: Case, root: str) -> list[str]:
    """Services that need it, near or far, and were given up or ended after it; each once, as its
    supervisor calls it."""
    found = [
        program.name
        for name, program in case.programs.items()
        if root not in (name, program.name) and root in chain(case, name)
        if program.state in ("FATAL", "BACKOFF", "failed", "EXITED")
        if _followed(case, program, root)
    ]
    return list(dict.fromkeys(found))


def _followed(case: Case, program: parse.Program, root: str) -> bool:
    """Whether one that is down fell after what it needs: who fell before has another trouble. One
    that ended by itself must have failed: else it was done with its work."""
    line = fell(case, program.name)
    own, other = (stamp(one) for one in (line, fell(case, root)))
    if program.state == "EXITED":
        return 0.0 < other <= own and "not expected" in line
    return not own or not other or other <= own


def gave_up(text: str) -> bool:
    """Whether a text tells of a failure, as what a service notes when it gives up."""
    return bool(_LOST.search(text) or _FAILED.search(text))


def mark(path: str) -> str:
    """When a small file was written, and what it says."""
    own = shlex.quote(path)
    return f"stat -c '%s %Y %U' {own} && head -c 400 {own}"


def _marks(case: Case, service: str) -> dict[str, str]:
    """Files by which a service may say that it rests, with what tells of each: it complains of
    one, or a setting names it."""
    found = dict[str, str]()
    troubles = case.troubles(service)
    base = case.directory(service)
    told = [one for _, values in case.sources(service) for one in values.paths]
    named = {settings.whole(one, base) for one in told}
    for line in troubles[:6]:
        paths = [path.rstrip(".,;:") for path in parse.paths_in(line)]
        if not _REST.search(re.sub(r"/\S+", "", line)):
            marks = [one for one in paths if one in named or _REST.search(one)]
            paths = [] if _DAMAGED.search(line) else marks
        found |= dict.fromkeys(paths, line)
    spoken = next((x for x in troubles if _REST.search(x) and not _DAMAGED.search(x)), "")
    for _, values in case.sources(service) if spoken else ():
        for key, value in values.items():
            if _REST.search(re.sub(r"[_.-]", " ", key)) and "/" in value:
                found.setdefault(settings.whole(value, base), spoken)
    return {
        path: line
        for path, line in found.items()
        if not _NO_MARK.search(path) and case.user_of(path, service) == service
        if path in named or not _OF_SYSTEM.search(path) or case.owns(service, path)
    }


def _is_up(case: Case, service: str) -> bool:
    program = case.programs.get(service)
    return program is None or program.up


def fell(case: Case, service: str) -> str:
    """Where its supervisor tells that it ended by itself; who was only started anew did not."""
    name = re.escape(service.rpartition(":")[2])
    told = rf"(?:exited|gave up|spawnerr)\S*:? {name}\b"
    log = case.text(probes.SUPERVISOR_LOG).splitlines()
    return next((line for line in reversed(log) if re.search(told, line)), "")


def _is_younger(case: Case, below: str, service: str) -> bool:
    """Whether what is below runs, and was started after what needs it, or after that ended."""
    own, other = (_age(case, one) for one in (service, below))
    program = case.programs.get(service)
    if other is None or program is None:
        return False
    if own is None:
        return not program.up
    return own - other >= YOUNGER_SECONDS


def _age(case: Case, service: str) -> int | None:
    program = case.programs.get(service)
    process = case.process(program.pid) if program is not None and program.pid else None
    return process.age if process is not None else None


RULES = (left_behind, resting)
