"""A folder that somebody put away, elsewhere and by another name: what was written into it lately
shows that it was in use."""

import re
import shlex
from pathlib import PurePosixPath

from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import DAY, Case

READ = 4
"""Files of settings that are read first."""
OWN = re.compile(r"/(?:etc|opt|srv|run|var/(?:lib|log|cache|spool|opt|www))/([^/]+)$")
"""Where a service has folders of its own by its name."""
SHORT = 3
"""Letters from which on a name tells whose a folder is."""
COPY = re.compile(r"backup|snapshot|\bcopy|mirror|replica|export|/\.|archive", re.IGNORECASE)
"""What is called so was copied, and not put away: what it lacks would be lost."""
_GONE = re.compile(r"^\s+(\S+) - No such file", re.MULTILINE)


def put_away(case: Case, service: str, path: str) -> list[tuple[str, str]]:
    """Folders that may be one on the way to a path, which is gone, and that one: new and old."""
    gone = _gone(case, path)
    if not gone or _unread(case, service):
        return []
    found = dict[str, str]()
    for row in case.text(_written(gone, service)).splitlines():
        at, _, where = row.partition(" ")
        folder = _named(where, gone, service)
        if folder and case.now - parse.number(at) < DAY and not _is_used(case, service, folder):
            found[folder] = gone
    return list(found.items())


def wants(case: Case, service: str, path: str) -> tuple[str, ...]:
    gone = _gone(case, path)
    return (*case.missing((_written(gone, service),)), *_unread(case, service)) if gone else ()


def _unread(case: Case, service: str) -> tuple[str, ...]:
    """Settings that may name a folder, which then lies where it belongs."""
    return case.missing(probes.show(path) for path in case.configs(service)[:READ])


def _gone(case: Case, path: str) -> str:
    """The highest folder on the way to a path that is not there."""
    found = _GONE.search(case.text(probes.walk(path)))
    parts = PurePosixPath(path).parts
    for at in range(2, len(parts)):
        if found and parts[at - 1] == found[1]:
            return "/" + "/".join(parts[1:at])
    return ""


def _words(gone: str, service: str) -> list[str]:
    given = (PurePosixPath(gone).name, service.rpartition(":")[2])
    return [one for one in dict.fromkeys(given) if len(one) >= SHORT]


def _written(gone: str, service: str) -> str:
    """Folders by either name into which something was written within a day, and when."""
    named = " -o ".join(f"-path {shlex.quote(f'*{one}*/*')}" for one in _words(gone, service))
    return (
        f"find {probes.KEPT_IN} -xdev -type f -mmin -1440 \\( {named} \\) {probes.TRUSTED} "
        r"-printf '%T@ %h\n' | sort -rn | awk '!($2 in seen) {seen[$2]; print}' | head -n 60"
    )


def _named(where: str, gone: str, service: str) -> str:
    """The highest folder on the way that is called after what is gone, and nothing above that."""
    parts = PurePosixPath(where).parts
    words = _words(gone, service)
    for at in range(3, len(parts) + 1):
        folder, name = "/" + "/".join(parts[1:at]), parts[at - 1]
        above = gone.startswith(f"{folder}/")
        if not above and any(re.search(rf"(?<![^\W_]){re.escape(x)}(?![^\W_])", name)
                             for x in words):  # fmt: skip
            rest = re.sub("|".join(map(re.escape, words)), "", folder)
            return "" if COPY.search(rest) else folder
    return ""


def _is_used(case: Case, service: str, folder: str) -> bool:
    """Whether somebody works with a folder, or with something in it: it lies where it belongs. So
    does what others have in theirs."""
    at_home = OWN.match(folder)
    if at_home and at_home[1] in case.services:
        return True
    held = [path for rows in case.held.values() for path, _ in rows]
    named = [path for one in case.services for path in (*case.named(one), *case.log_files(one))]
    if any(f"{path}/".startswith(f"{folder}/") for path in (*held, *named)):
        return True
    others = [path for one in case.services if one != service for path in case.folders(one)]
    return any(f"{folder}/".startswith(f"{path}/") for path in others)
