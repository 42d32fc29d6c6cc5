"""What was written last on the whole machine: a file that was added to a folder from which a
program takes whatever lies there, or one that belongs to no service and has an earlier version."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules.config import blamed
from hermes_agent.models.responder.rules.ideas import (
    Idea,
    earlier,
    keeping,
    lines,
    put_away,
    put_back,
    taken_out,
    undo_of,
)
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import CODE, LOG, SECRET
from hermes_agent.models.responder.view.settings import is_config
from hermes_agent.models.responder.view.versions import KEEP, kept_as, versions

DROP_IN = re.compile(
    r"/(?:[\w.-]+\.d|(?:sites|conf|mods|modules)-(?:enabled|available)|conf(?:ig)?s|includes?"
    r"|plugins?|overrides?|snippets|vhosts|drop-?ins?|hooks?|profiles?)/[^/]+$"
)
"""Places where programs take in whatever lies there."""
_SUPERVISORS = ("/etc/supervisor", "/etc/cron", "/etc/systemd", "/etc/init", "/etc/rc")
"""What lies there is a program or a job of its own."""
_MAY_BE_EMPTY = re.compile(r"\.(?:lock|pid|sock|log|tmp|part|flag)$|__init__\.py$|/\.")
LATER = 1.0
"""Seconds after its neighbours, at least, that it was written."""
_WORD = re.compile(r"(?<![\w.])(?:\d{2,5}|/[\w./-]{4,}|[A-Za-z][\w.-]{3,})(?![\w.])")
_COMMON = frozenset({"server", "listen", "location", "root", "http", "true", "false", "none"})
MOST = 3


def added(case: Case) -> Iterator[Idea]:
    """A file that was put last beside others, into a folder that a service takes in as a whole."""
    for row in list(_lately(case))[:MOST]:
        service = _user(case, row.path)
        if not service:
            continue
        wants = case.missing((probes.show(row.path), probes.copies(row.path)))
        if not wants and versions(case, row.path):
            continue  # it was changed, not added
        heard = _heard(case, service, row.path)
        kept, anew = kept_as(row.path), (case.restart(service), *_others(case, service))
        fix = (put_away(row.path), *anew)
        back = "; ".join((taken_out(row.path), *anew))
        yield Idea(
            "bad-config", service, f"{row.path} was added last, and {service} goes by it since",
            0.42 + 0.25 * bool(heard), row.path, lines(heard, row.line), wants,
            () if wants else fix, back, ("try what is added before it is loaded",), "",
            (f"ls -l {shlex.quote(kept)}",),
        )  # fmt: skip


def rewritten(case: Case) -> Iterator[Idea]:
    """A file that was written last and of which somebody kept an earlier version: what all share
    and belongs to no service, or what a service names and is neither settings nor data, as a
    program that it runs."""
    rows = list(parse.sizes(case.text(probes.CHANGED)))
    own = case.brief.service
    near = [own, *case.needs(own)]
    late = [row for row in rows if _is_late(row, rows)]
    named = [row for row in late if any(_is_tool(case, one, row.path) for one in near)]
    shared = [row for row in late if row not in named and _is_shared(case, row.path)]
    for row in [*named[:MOST], *shared[:MOST]]:
        copy = earlier(case, row.path)
        if not copy.wants and not copy.path:
            continue
        heard = next((one for one in near if blamed(case, one, copy.changes)), "")
        users = [one for one in near if _is_tool(case, one, row.path)]
        troubled = [one for one in case.suspects if one != own and case.troubles(one)]
        restarts = [case.restart(one) for one in users or [own, *troubled] if one in case.programs]
        whose = f"which {users[0]} runs" if users else "which is no service's own"
        yield Idea(
            "bad-deploy" if users else "bad-config", users[0] if users else own,
            f"{row.path}, {whose}, was changed last",
            (0.62 if users else 0.4) + 0.25 * bool(heard), row.path,
            lines(copy.change, row.line, *case.troubles(own)[:1]), copy.wants,
            (*put_back(row.path, copy.path), *restarts[:MOST]) if copy.path else (),
            undo_of(row.path), ("keep what is run and shared under version control",),
        )  # fmt: skip


def emptied(case: Case) -> Iterator[Idea]:
    """A file that a service names has nothing in it since lately, and one by its name that has is
    kept somewhere. What is in it need not be seen."""
    own = case.brief.service
    for row in parse.sizes(case.text(probes.CHANGED)):
        if row.size or LOG.search(row.path) or _MAY_BE_EMPTY.search(row.path):
            continue
        service = next((s for s in [own, *case.needs(own)] if row.path in case.named(s)), "")
        if not service:
            continue
        name, search = PurePosixPath(row.path).name, probes.kept(PurePosixPath(row.path).name)
        wants = case.missing((search,))
        kept = [
            one
            for one in parse.sizes(case.text(search))
            if one.size and one.path != row.path and not one.path.startswith(KEEP)
            and PurePosixPath(one.path).name.startswith(name)
        ]  # fmt: skip
        copy = max(kept, key=lambda one: one.time, default=None)
        if copy is None and not wants:
            continue
        said = next((line for line in case.troubles(service) if name in line), "")
        fix: tuple[str, ...] = ()
        if copy is not None:
            path = shlex.quote(row.path)
            fix = (keeping(row.path), f"cat {shlex.quote(copy.path)} > {path}",
                   case.restart(service))  # fmt: skip
        yield Idea(
            "bad-config", service, f"{row.path}, which {service} goes by, has nothing in it",
            0.66 + 0.16 * bool(said), row.path, lines(said, row.line, copy.line if copy else ""),
            wants, fix, undo_of(row.path),
            ("write such files anew and rename them",),
        )  # fmt: skip


def _is_tool(case: Case, service: str, path: str) -> bool:
    """Whether a service names it, and it is neither settings nor code that others look into."""
    if path not in case.named(service) or SECRET.search(path) or LOG.search(path):
        return False
    return not (is_config(path) or CODE.search(path) or case.is_data(service, path))


def _is_shared(case: Case, path: str) -> bool:
    """Whether it may tell several what to do, and belongs to none of them."""
    if SECRET.search(path) or LOG.search(path) or probes.BACKUPS.search(path):
        return False
    if not (is_config(path) or CODE.search(path) or path.startswith("/etc/")):
        return False
    if path.startswith(_SUPERVISORS) or path in {one.path for one in case.definitions.values()}:
        return False
    return not any(case.owns(service, path) for service in case.services)


def _lately(case: Case) -> Iterator[parse.Sized]:
    """Files in such folders that were written after all others there, the newest first."""
    rows = list(parse.sizes(case.text(probes.CHANGED)))
    for row in rows:
        if not DROP_IN.search(row.path) or row.path.startswith(_SUPERVISORS):
            continue
        if SECRET.search(row.path) or LOG.search(row.path) or probes.BACKUPS.search(row.path):
            continue
        folder = PurePosixPath(row.path).parent
        beside = [one for one in rows if PurePosixPath(one.path).parent == folder and one != row]
        if all(row.time - one.time > LATER for one in beside) and _is_late(row, rows):
            yield row


def _is_late(row: parse.Sized, rows: list[parse.Sized]) -> bool:
    """Whether it is not of the same hand as all the rest: that was written at once."""
    return sum(abs(one.time - row.time) <= LATER for one in rows) <= MOST


def _user(case: Case, path: str) -> str:
    """The service that takes it in: by its settings, its folders or its name."""
    for service in case.suspects:
        if any(PurePosixPath(path).match(pattern) for pattern in case.includes(service)):
            return service
    if CODE.search(path) and not case.user_of(path, ""):
        return ""
    parts = PurePosixPath(path).parts
    named = next((one for one in case.suspects if one.partition(":")[0] in parts), "")
    return named or case.user_of(path, "")


def _heard(case: Case, service: str, path: str) -> str:
    """A line of trouble that speaks of the file, or of something that only stands in it."""
    name = PurePosixPath(path).name
    words = {one for one in _WORD.findall(case.content(path)) if one.lower() not in _COMMON}
    own = {service, case.brief.service, name.partition(".")[0]}
    for one in dict.fromkeys([case.brief.service, service, *case.suspects]):
        for line in case.troubles(one)[:6]:
            if path in line or f"/{name}" in line:
                return line
            spoken = {word for word in _WORD.findall(line) if word not in own}
            if any(re.search(r"\d{4}|/", word) for word in spoken & words):
                return line
    return ""


def _others(case: Case, service: str) -> tuple[str, ...]:
    """The service of the alert is started, too, where it gave up."""
    own = case.brief.service
    program = case.programs.get(own)
    if own == service or program is None or program.up:
        return ()
    return "sleep 1", case.restart(own)


RULES = (added, rewritten, emptied)
