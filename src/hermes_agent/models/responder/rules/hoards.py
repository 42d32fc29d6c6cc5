"""Settings by which a program keeps what comes off from its work, as somebody wants who looks into
a fault and forgets: bodies of requests, traces, dumps. They are switched off, each in its line."""

import re
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.rules import edits, room
from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.ideas import keeping, undo_of
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

_KEEPS = re.compile(
    r"in_?file_?only|(?:^|[._-])(?:keep|save|preserve|retain|store)[._-]?(?:all|te?mp\w*|bod(?:y|ies)"
    r"|requests?|responses?|uploads?|files?|failed|intermediate\w*|debug|raw|copies|inputs?|outputs?"
    r"|artifacts?|payloads?)?$|dump|record(?:ing)?(?:$|[._-])|captur|trac(?:e|ing)|profil(?:e|ing|er)"
    r"|(?:^|[._-])debug|snapshots?$|core[._-]?files?|proxy_store$|no[._-]?clean|tee$",
    re.IGNORECASE,
)
"""Keys of settings that have something kept which nobody needs for the work itself."""
_LOOKS_INTO = re.compile(r"dump|record|captur|trac(?:e|ing)|profil|debug|tee$", re.IGNORECASE)
"""Those that are for who looks into a fault: their places may be left out altogether."""
_OFF = {
    "on": "off", "true": "false", "yes": "no", "1": "0", "enabled": "disabled",
    "enable": "disable",
}  # fmt: skip
"""What the opposite of a value is."""
_OF_WORTH = re.compile(
    r"back-?_?up|archiv|audit|secur|complian|invoice|billing|payment|(?:^|[._-])wal(?:$|[._-])"
    r"|(?:save|store)[._-]?(?:uploads?|files?|outputs?|artifacts?|copies)$",
    re.IGNORECASE,
)
"""What is kept because somebody needs it, however much it is: that is for people to say."""
_HOW_MANY = re.compile(r"(?:keep|retain|store|snapshots?)$", re.IGNORECASE)
"""Keys by which it may be said how many are kept."""
_SAME = 4
"""Letters by which words are taken to be one."""
_BY_LINES = re.compile(r"\.(env|conf|cfg|ini|cnf|properties|ya?ml|toml)$|/\.?env$|^/etc/default/")
"""Files in which a line can be put out by a mark before it."""


class Switch(Struct, frozen=True):
    path: str
    key: str
    value: str
    row: str
    fix: tuple[str, ...]

    @property
    def undo(self) -> str:
        return undo_of(self.path)

    @property
    def told(self) -> str:
        return f"{self.key} is {self.value} in {self.path}"


def switches(case: Case, service: str, folder: str) -> Iterator[Switch]:
    """Settings of a service that have things kept which pile up in a folder: those that name it, or
    the place of what is kept, and those that are only switched on."""
    for path, values in case.sources(service) if not _OF_WORTH.search(folder) else ():
        for whole, value in values.items():
            key = whole.rpartition(".")[2]
            if not path or not _KEEPS.search(key) or _OF_WORTH.search(key):
                continue
            row = _row(case, path, key, value)
            off = _OFF.get(value.lower())
            if row and off and _is_about(case, service, key, folder):
                if value == "1" and _HOW_MANY.search(key):
                    continue
                better = off.upper() if value.isupper() and value.isalpha() else off
                fix = (keeping(path), edits.changed(path, key, value, better))
                yield Switch(path, key, value, row, fix)
            elif row and _LOOKS_INTO.search(key) and _BY_LINES.search(path):
                place = value.rstrip("/")
                if place.startswith("/") and folder and room.on(folder, place):
                    yield Switch(path, key, value, row, swapped(path, row, f"# {row.strip()}"))


def _is_about(case: Case, service: str, key: str, folder: str) -> bool:
    """Whether a switch is about what lies in a folder: by words that it shares with the folder, or
    with the setting that names the folder."""
    told = [folder]
    for _, values in case.sources(service):
        told += [one for one, value in values.items() if folder and value.rstrip("/") == folder]
    there = {word for one in told for word in _words(one)}
    return bool(_words(key) & there)


def _words(text: str) -> set[str]:
    found = re.findall(r"[A-Za-z]{4,}", text)
    plain = {"keep", "save", "file", "only", "stor", "home", "depl", "data", "shar", "path"}
    return {word[:_SAME].lower() for word in found} - plain


def _row(case: Case, path: str, key: str, value: str) -> str:
    """The one line that says so; empty where there are more, or none."""
    text = case.content(path)
    definition = next((one for one in case.definitions.values() if one.path == path), None)
    if definition is not None:
        text = "\n".join(parse.files(case.text(probes.PROGRAMS)).get(path, []))
    rows = [row for row in text.splitlines() if not re.match(r"\s*(?:#|;|//)", row)]
    found = [row for row in rows if re.search(rf"\b{re.escape(key)}\b", row) and value in row]
    return found[0] if len(found) == 1 else ""
