"""Many files in one folder: of which kinds they are, and which of these may be moved out of the
way."""

import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.rules import room
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

_KIND = re.compile(r"^(\d+) (\d+) ([\d.]+) (\w)\|(\.?)\|([^|]*)\|([^| ]*) (.*)$")
_ENDING = re.compile(
    r"\.(tmp|temp|part|partial|lock|lck|seen|ok|done|swp|pid|cache|old|trace|mark|marker|stamp|flag"
    r"|imported|processed|sent|ack|nack|thumb|preview|frag|chunk|err|retry|failed|bak|orig|hit|miss"
    r"|log|dmp|core|pyc|touch|probe|heartbeat|health|wip|draft|stale)(\.\w+)?$",
    re.IGNORECASE,
)
_BEGIN = re.compile(
    r"(sess|session|tmp|temp|cache|thumb|preview|req|request|trace|mark|lock|core|dump|php|probe"
    r"|check|ping|health|heartbeat|upload|chunk|part|frag|retry|bounce|nginx|proxy|npm|pip|status"
    r"|poll|warm|keep-?alive|uptime|watch|monitor|debug)[-_.]",
    re.IGNORECASE,
)
NUMBERED = "#"
"""The ending of files that are called alike but for a number at the end."""
FETCHES = "wget "
"""What keeps each copy of a page that it fetches again, with a number behind its name."""
_FETCHED = re.compile(
    r"\bwget(?!.*(?:\s-\w*O|--output-document|--delete-after|--spider|\s-\w*N\b|-nc\b)).*?"
    r"\bhttps?://[^\s/'\"]+(/[^\s'\"]*)?"
)
_MAY_GO = re.compile(
    r"may (?:go|be \w+)|can (?:go|be (?:removed|deleted|cleared|thrown|dropped))|safe to|temporary"
    r"|expire|only marks?|not needed|no longer|disposable|rebuil|regenerat|made again|throw|purge"
    r"|clean|scratch|cache",
    re.IGNORECASE,
)
_MUST_STAY = re.compile(r"never|must(?: not| be kept| stay)|do not|don't|precious", re.IGNORECASE)
_CLEARING = re.compile(r"-delete|\brm |tmpreaper|tmpwatch|-mtime|-mmin|unlink|purge|expire|clean")
_KEY = re.compile(
    r"cache|te?mp|session|scratch|thumb|preview|trace|dump|mark|trash|junk|work|staging|partial",
    re.IGNORECASE,
)


class Kind(Struct, frozen=True):
    """Files of a folder that are called alike."""

    count: int
    empty: int
    hidden: bool
    begin: str
    ending: str
    sample: str
    line: str

    @property
    def filter(self) -> str:
        """How `find` tells them from others."""
        begin = re.sub(r"([][*?\\])", r"\\\1", self.begin)
        rest = "[0-9]*" if self.ending == NUMBERED else f"*{self.ending}"
        name = f"{'.' if self.hidden else ''}{begin}{rest}"
        plain = "" if self.hidden else " ! -name '.*'"
        only = " -empty" if self.empty == self.count else ""
        return f"-name {shlex.quote(name)}{plain}{only}"


def sorted_out(folder: str) -> str:
    """How many files there are of each kind: all and empty ones, when the newest was written, the
    kind, and one of them."""
    return (
        f"find {shlex.quote(folder)} -xdev -mindepth 1 -type f -printf '%s %T@ %y %f\\n' "
        '2>/dev/null | awk \'{s = $1; w = $2; t = $3; n = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ /, "", n); '
        'h = ""; b = n; if (b ~ /^\\./) {h = "."; b = substr(b, 2)}; e = ""; p = ""; '
        "if (match(b, /\\.[A-Za-z][A-Za-z_.-]*$/)) e = substr(b, RSTART); "
        'else if (b ~ /^[^0-9]+[._-][0-9]+$/) {p = b; sub(/[0-9]+$/, "", p); '
        f'e = "{NUMBERED}"}}; '
        "if (!p && match(b, /^[A-Za-z]+[-_]/)) p = substr(b, 1, RLENGTH); "
        'k = t "|" h "|" p "|" e; c[k]++; if (s == 0) z[k]++; if (w > x[k]) x[k] = w; o[k] = n} '
        "END {for (k in c) print c[k], z[k] + 0, x[k], k, o[k]}' | sort -rn | head -n 12"
    )


def kinds(case: Case, folder: str) -> list[Kind]:
    """The kinds of a folder's files, the most frequent first."""
    rows = (_KIND.match(line.strip()) for line in case.text(sorted_out(folder)).splitlines())
    found = [
        Kind(int(row[1]), int(row[2]), bool(row[5]), *row.group(6, 7, 8, 0)) for row in rows if row
    ]
    return sorted(found, key=lambda one: -one.count)


def notes(folder: str, mount: str) -> str:
    """What people wrote down beside the files."""
    places = dict.fromkeys([mount, folder, folder.rpartition("/")[0] or "/"])
    named = " ".join(shlex.quote(place) for place in places)
    return (
        f"find {named} -maxdepth 1 -xdev -type f -size -64k \\( -iname 'readme*' -o -name '*.md' "
        "-o -iname 'notes*' -o -iname '*howto*' -o -name '*.txt' -o -iname 'about*' \\) "
        "2>/dev/null | sort -u | head -n 6 | xargs -r tail -v -n 40"
    )


def looks(folder: str, mount: str) -> tuple[str, ...]:
    return sorted_out(folder), notes(folder, mount), probes.mentions(folder)


def told(case: Case, kind: Kind, folder: str, mount: str) -> str:
    """A line that says that such files may go, or by which somebody clears them away."""
    last = folder.rpartition("/")[2]
    names = [name for name in (kind.ending.lstrip("."), kind.begin.rstrip("-_")) if len(name) > 1]
    for line in case.text(notes(folder, mount)).splitlines():
        for part in re.split(r"; |\. |, but ", line):
            named = any(re.search(rf"\b{re.escape(name)}\b", part) for name in [*names, last])
            if named and _MAY_GO.search(part) and not _MUST_STAY.search(part):
                return line
    for line in case.text(probes.mentions(folder)).splitlines():
        if _CLEARING.search(line.partition(":")[2]) and re.search(rf"{re.escape(folder)}\b", line):
            return line
    return ""


def fetches(case: Case, kind: Kind) -> Iterator[tuple[str, str]]:
    """Lines of jobs and scripts that fetch a page and keep each copy, where these are the copies:
    the file and the line."""
    page = kind.begin.removesuffix(".") if kind.ending == NUMBERED else ""
    rows = [line.split(":", 2) for line in case.text(probes.mentions(FETCHES)).splitlines()]
    found = [(row[0], row[2]) for row in rows if len(row) > 2]
    found += [(path, row) for path, rows in parse.files(case.text(probes.JOBS)).items()
              for row in rows]  # fmt: skip
    for path, row in dict.fromkeys(found) if page else ():
        fetched = _FETCHED.search(row)
        name = (fetched[1] or "/").rpartition("/")[2] if fetched else ""
        if fetched and page == (name or "index.html") and not row.lstrip().startswith("#"):
            yield path, row


def may_go(case: Case, found: list[Kind], folder: str, mount: str) -> Iterator[tuple[Kind, str]]:
    """Kinds that may be moved out of the way, and why: somebody says so, they are empty, or are
    called as passing files are. Where a service keeps what people gave it, others must be there
    that are not of this kind."""
    kept = room.kept_for_good(case, folder, mount)
    most = sum(one.count for one in found) / 2
    for kind in found[:2]:
        said = told(case, kind, folder, mount)
        why = f"somebody wrote: {said}" if said else ""
        if not why and not kept and _set_as_passing(case, folder):
            why = "a setting calls the folder so"
        others = not kept or len(found) > 1
        if not why and others and kind.empty == kind.count:
            why = "there is nothing in them"
        if not why and others and (_ENDING.search(kind.ending) or _BEGIN.match(kind.begin)):
            why = "they are called as passing files are"
        if not why and (row := next((row for _, row in fetches(case, kind)), "")):
            why = f"each is a copy of one page: {row.strip()}"
        if why and kind.count >= most:
            yield kind, why


def _set_as_passing(case: Case, folder: str) -> bool:
    return room.is_told_passing(case, folder) or any(
        value.rstrip("/") == folder and _KEY.search(key.rpartition(".")[2])
        for service in case.suspects
        for key, value in case.settings(service).items()
    )
