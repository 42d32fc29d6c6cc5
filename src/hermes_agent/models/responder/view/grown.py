"""What was added to logs between two looks, whether or not their lines say when they were
written."""

import re
from collections.abc import Sequence

from hermes_agent.models.responder.view.case import Case

_WITH_DIGITS = re.compile(r"\b(?=\w*\d)(?![45]\d\d\b)\w+")
_WORDS = re.compile(r"[A-Za-z_]{2,}|[45]\d\d")


def gist(line: str) -> str:
    """What a line says, without when, of whom and with which numbers; the codes of answers stay."""
    return " ".join(_WORDS.findall(_WITH_DIGITS.sub(" ", line))[:40])


def added(rows: Sequence[str], size: int) -> list[str]:
    """Of the last lines of a log those that its last bytes are, as many as it grew by."""
    found = list[str]()
    for row in reversed(rows):
        if size <= 0:
            break
        size -= len(row.encode()) + 1
        found.insert(0, row)
    return found


def new_troubles(before: Case, after: Case, service: str) -> list[str]:
    """What a service complained of between two looks: by the times of its lines, and where they
    have none by what its log grew by."""
    found = after.troubles_since(service, before.now)
    said = set(after.troubles(service))
    for path in after.log_files(service):
        rows = after.logs.get(path, [])
        if not rows or any(line.at for line in after.entries(service) if line.path == path):
            continue
        was, now = before.log_rows.get(path), after.log_rows.get(path)
        if now is not None and was is not None:
            grown = now.size - was.size if now.size >= was.size else now.size
            fresh = added(rows, int(grown))
        else:
            fresh = _after(before.logs.get(path, []), rows)
        found += [row for row in fresh if row in said]
    return list(dict.fromkeys(found))


def _after(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The lines of an end that come after those of an earlier end; of lines that are all alike
    none are known to."""
    for count in range(min(len(old), len(new)), 0, -1):
        if list(old[-count:]) == list(new[:count]):
            return list(new[count:])
    return list(new) if old else []
