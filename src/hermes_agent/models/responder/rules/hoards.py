"""Settings by which a program keeps what comes off from its work, as somebody wants who looks into
a fault and forgets: bodies of requests, traces, dumps; or by which something stays for hours that
nobody uses. They are switched off or made shorter, each in its line."""

import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.rules import edits, room
from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.ideas import keeping, undo_of
from hermes_agent.models.responder.rules.sed import extended, replacement
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

_KEEPS = re.compile(
    r"in_?file_?only|(?:^|[._-])(?:keep|save|preserve|retain|store)[._-]?(?:all|te?mp\w*|bod(?:y|ies)"
    r"|requests?|responses?|uploads?|files?|failed|intermediate\w*|debug|raw|copies|inputs?|outputs?"
    r"|artifacts?|payloads?)?$|dump|record(?:ing)?(?:$|[._-])|captur|trac(?:e|ing)|profil(?:e|ing|er)"
    r"|diagnos|instrument|inspect|toolbar|replay|(?:^|[._-])debug|snapshots?$|core[._-]?files?|proxy_store$|no[._-]?clean|tee$",
    re.IGNORECASE,
)
"""Keys of settings that have something kept which nobody needs for the work itself."""
_LOOKS_INTO = re.compile(
    r"dump|record|captur|trac(?:e|ing)|profil|debug|tee$|diagnos|instrument|inspect|toolbar|replay",
    re.IGNORECASE,
)
"""Those that are for who looks into a fault: their places may be left out altogether."""
_CATCHES = room.TAKEN_DOWN
"""Those that take down what others ask for: who wrote such a line lately looked into a fault."""
_IS_ON = re.compile(r"enabled?|active|on|state|status|mode", re.IGNORECASE)
"""What says whether it is so of all that it stands below."""
_OFF = {
    "on": "off", "true": "false", "yes": "no", "1": "0", "enabled": "disabled",
    "enable": "disable",
}  # fmt: skip
"""What the opposite of a value is."""
_OF_WORTH = re.compile(
    r"back-?_?up|archiv|audit|secur|complian|invoice|billing|payment|(?:^|[._-])wal(?:$|[._-])"
    r"|fraud|intrusion|malware|virus|(?:save|store)[._-]?(?:uploads?|files?|outputs?|artifacts?|copies)$",
    re.IGNORECASE,
)
"""What is kept because somebody needs it, however much it is: that is for people to say."""
_HOW_MANY = re.compile(r"(?:keep|retain|store|snapshots?)$", re.IGNORECASE)
"""Keys by which it may be said how many are kept."""
_SAME = 4
"""Letters by which words are taken to be one."""
_BY_LINES = re.compile(r"\.(env|conf|cfg|ini|cnf|properties|ya?ml|toml)$|/\.?env$|^/etc/default/")
"""Files in which a line can be put out by a mark before it."""


_STAYS = re.compile(
    r"keep[._-]?alive|idle|linger|time[._-]?out|ttl|expir|life[._-]?time|max[._-]?age|retain|retention"
    r"|persist|evict|inactiv|forget|remember|keep[._-]?for|stale|reap|(?:^|[._-])(?:client|session|conn\w*)(?:$|[._-])",
    re.IGNORECASE,
)
"""Keys by which it is said how long something stays that nobody uses."""
_GOES = r"retain|retention|back-?_?up|archiv|audit|histor|trash|delet|purge|days$|weeks$|months$"
_CLEARS = re.compile(_GOES, re.IGNORECASE)
_OF_PEOPLE = re.compile(
    rf"{_GOES}|persist|(?:^|[._-])logs?(?:$|[._-])|journal|messages?|mail|queue|records?|upload|files?"
    r"|data|orders?|jobs?|draft|cart|passw|account|lock[._-]?out|certif|lease|token",
    re.IGNORECASE,
)
"""Keys by which it may be said when what people keep is cleared away: a guess would lose it."""
_SPAN = re.compile(r"(\d{1,12}(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_UNITS = {
    "ms": 0.001, "msec": 0.001, "millis": 0.001, "milliseconds": 0.001, "s": 1, "sec": 1, "secs": 1,
    "second": 1, "seconds": 1, "m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600, "d": 86400, "day": 86400,
    "days": 86400, "w": 604800, "week": 604800, "weeks": 604800,
}  # fmt: skip
_PAIRS = re.compile(r"(?:^|[,;&?\s])([A-Za-z][\w.-]*)[=:]([\w.]+)(?=$|[,;&\s])")
"""Pairs within a value."""
_ASKS_AGAIN = re.compile(
    r"pause|interval|delay|sleep|every|period|wait|backoff|poll|tick|cooldown|throttl|cycle|refresh"
    r"|reload|frequency|update|renew|repeat",
    re.IGNORECASE,
)
"""Keys by which it is said after how long somebody asks again."""
PAUSE_SECONDS = 5
"""What is worth a try between two rounds of work."""
HASTY_SECONDS = 0.25
"""Who asks again sooner is not meant to."""
LONG_SECONDS = 1_800.0
"""What stays unused for longer is not missed by anybody."""
SHORT_SECONDS = 5
"""What is worth a try where nobody says how long it should stay."""
MANY_TIMES = 20
"""What is as many times as much as others have is not meant."""
_MILLIS = 10_000
"""From which on a round number without a unit is one of milliseconds."""


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


def switches(case: Case, service: str, folder: str = "") -> Iterator[Switch]:
    """Settings of a service that have things kept which pile up in a folder: those that name it, or
    the place of what is kept, and those that are only switched on. Where they do not pile up in
    one, those that somebody switched on lately who looks into a fault."""
    written = edits.lately(case, service)
    lately = [] if folder else written
    for path, values in case.sources(service) if not _OF_WORTH.search(folder) else ():
        for whole, value in values.items():
            key = whole.rpartition(".")[2]
            about = whole if _IS_ON.fullmatch(key) else key
            known = _KEEPS.search(about) or _CATCHES.search(about)
            if not path or not known or _OF_WORTH.search(about):
                continue
            row = _row(case, path, key, value)
            off = _OFF.get(value.lower())
            near = folder and _is_about(case, service, about, folder)
            if not folder and path in lately:
                near = _LOOKS_INTO.search(about) is not None
            if row and off and near:
                if value == "1" and _HOW_MANY.search(key):
                    continue
                better = off.upper() if value.isupper() and value.isalpha() else off
                edit = _unflagged(path, key) if _is_flag(row, key) else ""
                fix = (keeping(path), edit or edits.changed(path, key, value, better))
                yield Switch(path, key, value, row, fix)
            elif row and (_LOOKS_INTO.search(key) or (path in written and _CATCHES.search(key))):
                place = value.rstrip("/")
                out = left_out(path, key, value, row)
                if out and place.startswith("/") and folder and room.on(folder, place):
                    yield Switch(path, key, value, row, out)


def left_out(path: str, key: str, value: str, row: str) -> tuple[str, ...]:
    """Commands after which a setting is not made any more, in whatever form it stands there; none
    where others stand in its line, too."""
    bare, own = row.strip(), shlex.quote(path)
    name, said = extended(key), extended(value)
    edit = ""
    if re.search(rf"\s--?{re.escape(key)}[= ]{re.escape(value)}(?=\s|$)", row):
        edit = f"s/[[:space:]]--?{name}[= ]{said}([[:space:]]|$)/\\1/"
    elif re.match(r"environment\s*=.*,", bare, re.IGNORECASE):
        pair = f"{name}=[\"']?{said}[\"']?"
        edit = f"s/^(environment[[:space:]]*=[[:space:]]*){pair},/\\1/I; s/,[[:space:]]*{pair}//"
    elif re.fullmatch(rf'"{re.escape(key)}"\s*:\s*"[^"]*",', bare):
        edit = f"/^[[:space:]]*{extended(bare)}[[:space:]]*$/d"
    elif re.fullmatch(rf'"{re.escape(key)}"\s*:\s*"[^"]*"', bare):  # the last of its block
        edit = f's/^([[:space:]]*)"{name}"([[:space:]]*:)/\\1"_{replacement(key)}"\\2/'
    elif path.endswith((".sh", ".bash")):
        if re.fullmatch(rf"(?:export\s+)?{re.escape(key)}=\S*", bare):
            return swapped(path, row, f"# {bare}", whole=True)
    elif _BY_LINES.search(path) and re.match(rf"(?:\w+\s+)?[\w.-]*{re.escape(key)}\b", bare):
        return swapped(path, row, f"# {bare}", whole=True)
    return (keeping(path), f"sed -i --follow-symlinks -E {shlex.quote(edit)} {own}") * bool(edit)


def _is_flag(row: str, key: str) -> bool:
    """Whether a key stands in a line as a word of a command, and nothing is said of it."""
    return re.search(rf"(?:^|\s)--?{re.escape(key)}(?=\s|$)", row) is not None


def _unflagged(path: str, key: str) -> str:
    """The command that takes such a word out."""
    edit = f"s/([[:space:]])--?{extended(key)}([[:space:]]|$)/\\1/"
    return f"sed -i --follow-symlinks -E {shlex.quote(edit)} {shlex.quote(path)}"


def lingering(case: Case, service: str) -> Iterator[edits.Edit]:
    """Spans of time by which something stays for hours: somebody wrote them lately, or the same is
    short elsewhere."""
    lately, every = edits.lately(case, service), _every(case, service)
    for path, key, value in _own(case, service):
        if not _STAYS.search(key) or _OF_PEOPLE.search(key) or span(key, value) < LONG_SECONDS:
            continue
        others = [one for own, one in every if own == key and 0 < span(key, one) < LONG_SECONDS]
        if path in lately or others:
            better = others[0] if others else _shorter(key, value)
            yield edits.Edit(path, key, value, better, bool(others))


def unlike(case: Case, service: str) -> Iterator[edits.Edit]:
    """Bounds that somebody wrote lately, and that are many times what others have."""
    lately, every = edits.lately(case, service), _every(case, service)
    for path, key, value in _own(case, service):
        if path not in lately or not edits.BOUND.search(key) or not re.fullmatch(r"\d+", value):
            continue
        if _CLEARS.search(key):
            continue
        others = [one for own, one in every if own == key and re.fullmatch(r"[1-9]\d*", one)]
        low = [one for one in others if MANY_TIMES * int(one) <= int(value)]
        if low and len(low) == len(others) - others.count(value):
            yield edits.Edit(path, key, value, low[0], told=True)


def loosened(case: Case, service: str) -> Iterator[edits.Edit]:
    """Values that are pairs themselves, of which one is a bound that others have there and that is
    missing here."""
    others = [(key, value) for name in case.services if name != service
              for _, key, value in _own(case, name)]  # fmt: skip
    for path, key, value in _own(case, service):
        mine = dict(_PAIRS.findall(value))
        for other in (one for own, one in others if own == key):
            missing = [(name, count) for name, count in _PAIRS.findall(other)
                       if name not in mine and edits.BOUND.search(name)
                       and re.fullmatch(r"[1-9]\d{0,7}", count)]  # fmt: skip
            if missing and not _CLEARS.search(missing[0][0]):
                told = re.search(rf"{missing[0][0]}([=:])", other)
                apart = re.search(r"[,;&] ?", f"{value}{other},")
                pair = f"{missing[0][0]}{told[1] if told else '='}{missing[0][1]}"
                better = f"{pair}{apart[0] if apart else ','}{value}" if mine else pair
                if mine or not value:
                    yield edits.Edit(path, key, value, better, told=True)
                break


def hasty(case: Case, service: str, seconds: int) -> Iterator[edits.Edit]:
    """Pauses after which somebody asks again at once: nothing, or a fraction of a second. They are
    as others have them, or so many seconds."""
    every = _every(case, service)
    for path, key, value in _own(case, service):
        number = _SPAN.fullmatch(value.strip())
        again = _ASKS_AGAIN.search(key) and not re.search(r"token|auth|login", key, re.IGNORECASE)
        if number is None or not again or span(key, value) >= HASTY_SECONDS:
            continue
        others = [one for own, one in every if own == key and span(key, one) >= 1]
        better = others[0] if others else _spanned(key, value, seconds)
        if better:
            yield edits.Edit(path, key, value, better, bool(others))


def pauses(case: Case, service: str, *, asks: bool = False) -> Iterator[edits.Edit]:
    """Pauses that are nothing, or next to nothing; who asks others may take more of one."""
    found = list(edits.without_pause(case, service))
    more = list(hasty(case, service, 12 * PAUSE_SECONDS if asks else PAUSE_SECONDS))
    known = set[tuple[str, str]]()
    for edit in (*more, *found) if asks else (*found, *more):
        if (edit.path, edit.key) not in known:
            known.add((edit.path, edit.key))
            yield edit


def _spanned(key: str, value: str, seconds: int) -> str:
    """So many seconds, in what the setting counts; empty where that is not known."""
    number = _SPAN.fullmatch(value.strip())
    unit = number[2].lower() if number else ""
    told = [word.lower() for word in re.split(r"[._-]|(?<=[a-z])(?=[A-Z])", key)]
    each = _UNITS.get(unit or next((x for x in told[::-1] if len(x) > 1 and x in _UNITS), ""), 0)
    if not each:
        return "" if unit else str(seconds)
    return f"{max(1, round(seconds / each))}{number[2] if number else ''}"


def _own(case: Case, service: str) -> list[tuple[str, str, str]]:
    """The settings of a service: the file, the last part of the key, and the value."""
    return [
        (path, key.rpartition(".")[2], value)
        for path, values in case.sources(service)
        for key, value in values.items()
        if path
    ]


def _every(case: Case, service: str) -> list[tuple[str, str]]:
    """Keys and values of all, its own before those of others."""
    names = [service, *(one for one in case.services if one != service)]
    return [(key, value) for name in names for _, key, value in _own(case, name)]


def span(key: str, value: str) -> float:
    """The seconds that a setting comes to; 0 where it is no span of time."""
    found = _SPAN.fullmatch(value.strip())
    if found is None:
        return 0.0
    number, unit = parse.number(found[1]), found[2].lower()
    told = [word for word in re.split(r"[._-]|(?<=[a-z])(?=[A-Z])", key) if word.lower() in _UNITS]
    unit = unit or (told[-1].lower() if told and len(told[-1]) > 1 else "")
    if unit not in _UNITS:
        if unit:
            return 0.0
        return number / 1000 if number >= _MILLIS and number % 1000 == 0 else number
    return number * _UNITS[unit]


def _shorter(key: str, value: str) -> str:
    """A short span, as the setting has it: with a unit, or in what its key says."""
    if re.search(r"[a-z]", value, re.IGNORECASE):
        return f"{SHORT_SECONDS}s"
    each = span(key, value) / max(1.0, parse.number(value.strip()))
    return str(max(1, round(SHORT_SECONDS / each)))


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
    same = "(?i)true|yes|on|1" if value == "true" else re.escape(value)
    named = re.compile(rf"\b{re.escape(key)}\b(.*)$")
    found = [
        row
        for row in rows
        if (told := named.search(row)) and (re.search(same, told[1]) or _is_flag(row, key))
    ]
    return found[0] if len(found) == 1 else ""
