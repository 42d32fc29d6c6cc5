"""Whether those whom a remedy concerns are content after it: they say nothing new of what they
complained of before, and none of them is down."""

import re
import shlex
from collections.abc import Mapping, Sequence

from hermes_agent.models.responder.rules.cascade import fell, fell_with
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.view import parse, stamps
from hermes_agent.models.responder.view.case import DAY, RECENT_SECONDS, Case
from hermes_agent.models.responder.view.grown import added, gist
from hermes_agent.models.responder.view.needed import chain

LOGS, LINES = 10, 12
"""Logs that are looked at, and the last lines of each."""
FELL = ("FATAL", "BACKOFF", "failed")
"""States of what was given up."""
_FAILS = re.compile(
    r"error|fail|refus|denied|timed? ?out|cannot|can't|could not|unable|exception|traceback|fatal"
    r"|critical|panic|no space|too many|not found|no such|gave up|giving up|unreachable|reset by"
    r"|broken pipe|rejected|\b50[0-9]\b",
    re.IGNORECASE,
)
_SERVED = re.compile(r"\" [1-4]\d\d [\d-]")
"""Requests that were answered, as web servers write them down: who asks for what is not there is
told so every day."""
_BROKEN = re.compile(r"\" 5\d\d [\d-]")
"""Requests that were not."""


def concerned(before: Case, idea: Idea) -> list[str]:
    """The service of the alert with all below it, what was mended, and those who need that."""
    own = [before.brief.service, idea.component, *before.needs(before.brief.service)]
    above = [one for one in before.services if idea.component in chain(before, one)]
    return [one for one in dict.fromkeys([*own, *above]) if one]


def logs(before: Case, idea: Idea) -> list[str]:
    """The logs of those who complained, of the service of the alert and of what was mended, as far
    as they are files; of one that rushed it is only asked whether it does still."""
    rushed = idea.locus.split(", ") if idea.category == "log-flood" and idea.proof else []
    always = (before.brief.service, idea.component)
    found = [
        path
        for service in concerned(before, idea)
        if service in always or troubled(before, service)
        for path in before.log_files(service)
        if path in before.logs and path.startswith("/") and path not in rushed
    ]
    return list(dict.fromkeys(found))[:LOGS]


def sizes(paths: Sequence[str]) -> str:
    return f"stat -c '%s %n' {' '.join(map(shlex.quote, paths))}"


def ends(paths: Sequence[str]) -> str:
    """How long logs are, and their ends."""
    named = " ".join(map(shlex.quote, paths))
    return f"{sizes(paths)}; tail -v -n {LINES} {named}"


def troubled(before: Case, service: str) -> dict[str, str]:
    """What a service complained of, by what it comes to; what it says every day is left out."""
    usual = _usual(before, service)
    said = {gist(line): line for line in before.troubles(service) if _is_failure(line)}
    return {key: line for key, line in said.items() if key and key not in usual}


def _usual(before: Case, service: str) -> set[str]:
    return {
        gist(line.text)
        for line in before.entries(service)
        if line.at and RECENT_SECONDS < before.now - line.at < DAY
    }


def complaint(first: str, last: str, before: Case, idea: Idea) -> tuple[str, str]:
    """Who still says the same, newly between two looks, or that something else fails now, and what;
    empty where nobody does."""
    had, has = measured(first), measured(last)
    rows = parse.files(last[last.find("==> ") :]) if "==> " in last else {}
    for service in concerned(before, idea):
        was, usual = troubled(before, service), _usual(before, service)
        for path in before.log_files(service):
            grown = has.get(path, 0) - had.get(path, 0)
            grown = has.get(path, 0) if grown < 0 else grown
            for line in added(rows.get(path, []), grown):
                grave = _is_grave(line) and gist(line) not in usual
                if _is_failure(line) and (gist(line) in was or grave):
                    return service, line
    return "", ""


def _is_grave(line: str) -> bool:
    """Whether a line says itself that something failed: people's use of a service does, though a
    check of it may not."""
    return stamps.is_grave(line) or _BROKEN.search(line) is not None


def measured(text: str) -> Mapping[str, int]:
    """What `stat` said of sizes."""
    return {row[2]: int(row[1]) for row in re.finditer(r"(?m)^(\d{1,15}) (/.*)$", text)}


def fallen(before: Case, now: Case, idea: Idea, mended: Sequence[str] = ()) -> list[str]:
    """Services concerned that are down, though nobody stopped them: those that must be up for the
    service of the alert, those that fell with what was mended (`mended`: earlier) or with what the
    alert needs, and those that fell since. Who ended of those above may be done with its work."""
    own = [before.brief.service, idea.component, *before.needs(before.brief.service)]
    roots = [idea.component, *mended, *(one for one in own if fell(before, one))]
    with_it = [name for root in dict.fromkeys(roots) for name in fell_with(before, root)]
    found = []
    for name in dict.fromkeys([*concerned(before, idea), *with_it]):
        was, is_now = before.programs.get(name), now.programs.get(name)
        if is_now is None or is_now.up:
            continue
        ran = was is not None and was.up
        gone = is_now.state in FELL and (ran or name in own)
        started = name == idea.component and idea.category == "service-crash"
        meant = name == own[0] or started or (ran and name in own)
        ended = is_now.state == "EXITED" and meant
        again = is_now.name in with_it and is_now.state in (*FELL, "EXITED")
        if gone or ended or again:
            found.append(is_now.name)
    return list(dict.fromkeys(found))


def _is_failure(line: str) -> bool:
    return _FAILS.search(line) is not None and _SERVED.search(line) is None
