"""Patterns of log lines: what varies is masked, so that a hundred thousand lines become a few dozen
templates, with counts, a plot of their rate and a sample; errors and new ones first."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import msgspec

from hermes_agent.core.text.format import shortened
from hermes_agent.tools.sources.results import Change, plot
from hermes_agent.tools.sources.times import Window, epoch, stamp

TEXT_CHARS = 1_000
"""How much of a line is looked at."""
TOKEN_CHARS = 100
"""A longer word without a break is data."""
TEMPLATES = 5_000
"""How many templates are told apart; the lines of others are counted together."""
SHOWN = 30
SHOWN_CHARS = 240
BARS = 30
PARTS = 4
"""Into how many parts a time is cut of which only some lines are read."""
OTHERS = "(lines of other patterns)"


class LogEntry(NamedTuple):
    time: float
    """Zero if it is unknown."""
    text: str
    level: str = ""
    """`error`, `warning`, `info`, or empty: told from the text."""
    where: str = ""
    """The unit, container or file."""


class Template(msgspec.Struct):
    text: str
    level: str
    sample: str
    places: dict[str, int] = {}
    """Lines by unit, container or file."""
    before: int = 0
    """Lines before the time that is looked at."""
    count: int = 0
    first: float = 0.0
    last: float = 0.0
    rate: list[int] = []


_RANKS = {"error": 0, "warning": 1}
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_WIDE = "\uff10\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19"
"""Digits that are not masked, until the end."""
_WIDEN = str.maketrans("0123456789", _WIDE)
_NARROW = str.maketrans(_WIDE, "0123456789")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_REQUEST = re.compile(r'"([A-Z]{3,10}) ([^\s"?]{1,500})[^"]*" ([1-5]\d\d)\b')
_CODES = re.compile(r"(?:[Ss]tatus|code|signal)\W{1,3}\d{1,3}\b")
"""Numbers that are names: of a status, of how a process ended."""
_SAID = re.compile(r'\b(msg|message|err|error|reason|event|level|lvl|severity)="([^"]*)"')
_QUOTED = (
    (re.compile('"[^"]*"'), '"<text>"'),
    (re.compile("`[^`]*`"), "`<text>`"),
    (re.compile(r"'[^']*'(?!\w)"), "'<text>'"),
)
_VARIES = re.compile(
    r"(?P<uuid>(?<![0A-Za-z])[0A-Fa-f]{8}(?:-[0A-Fa-f]{4}){3}-[0A-Fa-f]{12}(?![0A-Za-z]))"
    r"|(?P<time>0000-00-00(?:[T_ ]00:00:00)?(?:[.,]0+)?(?:Z|[+-]00:?00)?|00:00:00(?:[.,]0+)?)"
    r"|(?P<mac>(?<![0A-Za-z])[0A-Fa-f]{2}(?::[0A-Fa-f]{2}){5}(?![0A-Za-z:]))"
    r"|(?P<ip>(?<![0A-Za-z.])0{1,3}(?:\.0{1,3}){3}(?:/00?)?(?::0{1,5})?(?![0A-Za-z])"
    r"|(?<![0A-Za-z:])(?=[A-Fa-f:]*0)[0A-Fa-f]{0,4}(?::[0A-Fa-f]{0,4}){3,7}(?![0A-Za-z:]))"
    r"|(?P<id>(?<=-)(?:[b-df-hj-np-tv-xz0]{5}$|(?=[a-z]*0)[b-df-hj-np-tv-xz0]{8,10}(?=-))"
    r"|(?<![0A-Za-z])[0A-Fa-f]{8,}(?![0A-Za-z]))"
    r"|(?P<hex>(?<![0A-Za-z])0x[0A-Fa-f]+(?![0A-Za-z]))"
    r"|(?P<word>(?<![0A-Za-z])[A-Za-z]*0[0A-Za-z]*(?:[.,]0[0A-Za-z]*)*)"
)
"""In a word whose digits are all 0. Kubernetes' own random names have no vowels."""
_NUMBER = re.compile(r"([A-Za-z]{3,}|[nuµm]?|v)0[0.,]*(|[nuµm]?s|[mhdx]|[kKMGT]?i?B|[KMGT]i?)")
_LEVEL = re.compile(
    r"\b(?:level|lvl|severity)\W{1,3}(\w+)|[\[<(]\s?(\w+)\s?[\])>]"
    r"|\b(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|FATAL|PANIC|SEVERE)\b"
    r"|^([IWEF])\d{4} "
)
_LEVELS = {
    "error": "err error crit critical fatal panic emerg emergency alert severe e f",
    "warning": "warn warning w",
    "info": "info notice debug trace informational i",
}
LEVELS = {word: level for level, words in _LEVELS.items() for word in words.split()}
_TROUBLE = re.compile(
    r"error|exception|traceback|fatal|panic|fail(?:ed|ure|s|ing)?\b|refused|denied|out of memory"
    r"|\boom|killed|segfault|core dumped|timed? ?out|unable to|can ?not|can't|unreachable|corrupt"
    r"|no space left|too many|exhausted|reset by peer|deadlock|unhealthy|\babort"
    r"|^[A-Z]{3,10} \S+ status 5\d\d",
    re.IGNORECASE,
)
_WARNING = re.compile(r"warn|deprecat|retry|slow|throttl|degraded|backoff|status 4", re.IGNORECASE)


def level_of(text: str) -> str:
    """As the line says itself, otherwise as its words sound."""
    for found in islice(_LEVEL.finditer(text[:200]), 5):
        if level := LEVELS.get((found[1] or found[2] or found[3] or found[4]).lower()):
            return level
    if _TROUBLE.search(text):
        return "error"
    return "warning" if _WARNING.search(text) else "info"


def template(text: str) -> str:
    """A line without what varies. Takes no longer than the line is long."""
    return _template(_prepared(text))


def _prepared(text: str) -> str:
    """The part of a line that is looked at, with its digits alike but for those that are names."""
    if "\n" in text:
        text = _headline(text)
    if len(text) > TEXT_CHARS:
        text = text[:TEXT_CHARS]
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if '" ' in text and (found := _REQUEST.search(text)) is not None:
        text = f"{found[1]} {found[2]} status {_widened(found[3])}"
    elif "tatus" in text or "code" in text or "signal" in text:
        text = _CODES.sub(lambda found: _widened(found[0]), text)
    return text.encode(errors="replace").translate(_DIGITS).decode()


def _headline(text: str) -> str:
    """The first line, and the last that is not indented: what a stack trace ends with."""
    first, *rest = text.strip().splitlines()
    flush = [line for line in rest if line[:1].strip()]
    return f"{first} / {flush[-1]}" if flush else first


@lru_cache(1_000)
def _widened(text: str) -> str:
    return text.translate(_WIDEN)


def _template(text: str) -> str:
    if '="' in text:
        text = _SAID.sub(r"\1=\2", text)
    for quoted, masked in _QUOTED:
        if masked[0] in text:
            text = quoted.sub(masked, text)
    text = " ".join([_word(one) for one in text.split()])
    return text if text.isascii() else text.translate(_NARROW)


@lru_cache(50_000)
def _word(token: str) -> str:
    """A word with its variable parts masked."""
    path, question, query = token.partition("?")
    if question and "=" in query:
        token = f"{path}?<query>"
    if len(token) > TOKEN_CHARS:
        return "<data>"
    return _VARIES.sub(_mask, token) if "0" in token or len(token) > 7 else token


def _mask(found: re.Match[str]) -> str:
    if found.lastgroup != "word":
        return f"<{found.lastgroup}>"
    if (number := _NUMBER.fullmatch(found[0])) is not None:
        return f"{number[1]}<n>{number[2]}"
    return "<id>"


class LogPatterns:
    """Templates of the lines of a window. Those before it say what is new in it."""

    def __init__(self, span: Window) -> None:
        self.span = span
        self.lines = self.before = 0
        self._bar = max(span.seconds, 1.0) / BARS
        self._found: dict[tuple[str, str], Template] = {}
        self._known: dict[tuple[str, str], Template] = {}
        """By the line with all its digits alike: most lines differ in nothing else."""

    def add(self, entries: Iterable[LogEntry]) -> "LogPatterns":
        start, end, top = self.span.start, self.span.end, BARS - 1
        known, bar = self._known, self._bar
        for entry in entries:
            time, text, level, where = entry
            if time > end:
                continue
            prepared = _prepared(text)
            one = known.get((prepared, level)) or self._of(prepared, entry)
            if 0 < time < start:
                one.before += 1
                self.before += 1
                continue
            if not one.count:
                one.sample, one.first = text[:TEXT_CHARS], time
            self.lines += 1
            one.count += 1
            if where:
                one.places[where] = one.places.get(where, 0) + 1
            if time:
                one.first, one.last = min(one.first or time, time), max(one.last, time)
                one.rate[min(top, int((time - start) / bar))] += 1
        return self

    def _of(self, prepared: str, entry: LogEntry) -> Template:
        text, level = _template(prepared), entry.level
        if (text, level) not in self._found:
            if len(self._found) >= TEMPLATES:
                text, level = OTHERS, "info"
            rank = level or level_of(text if " status " in text else entry.text[:TEXT_CHARS])
            fresh = Template(text, rank, entry.text[:TEXT_CHARS], rate=[0] * BARS)
            self._found.setdefault((text, level), fresh)
        one = self._found[text, level]
        if len(self._known) >= 4 * TEMPLATES:
            self._known.clear()
        self._known[prepared, entry.level] = one
        return one

    def is_new(self, one: Template) -> bool:
        return self.before > 0 and one.before == 0 and one.text != OTHERS

    @property
    def templates(self) -> list[Template]:
        """Those of the window: errors first, new ones first among them, then the most frequent."""
        return sorted(
            (one for one in self._found.values() if one.count),
            key=lambda one: (
                _RANKS.get(one.level, 2), not self.is_new(one), -one.count, one.text
            ),
        )  # fmt: skip

    @property
    def data(self) -> dict[str, int]:
        found = self.templates
        return {
            "lines": self.lines, "patterns": len(found),
            "errors": sum(one.count for one in found if one.level == "error"),
            "new": sum(self.is_new(one) for one in found),
        }  # fmt: skip

    def report(self, limit: int = SHOWN) -> str:
        found, facts, span = self.templates, self.data, self.span
        minutes = max(span.seconds / 60, 1 / 60)
        head = (
            f"{self.lines} lines ({self.lines / minutes:.3g} a minute) in {len(found)} patterns, "
            f"{facts['errors']} lines of errors, {span}; "
        )
        head += (
            f"{facts['new']} patterns are new against {self.before} lines before"
            if self.before
            else "nothing from before to compare with"
        )
        parts = [f"{head}; a bar is {self._bar:.3g} s"]
        parts += [self._shown(one) for one in found[:limit]]
        if len(found) > limit:
            rest = sum(one.count for one in found[limit:])
            parts.append(f"… and {len(found) - limit} more patterns with {rest} lines")
        return "\n".join(parts)

    def _shown(self, one: Template) -> str:
        times = ""
        if one.first:
            times = f"{stamp(one.first)} to {stamp(one.last)} {plot(one.rate)} "
        new = "NEW " if self.is_new(one) else ""
        was = f" ({one.before} before)" if one.before else ""
        sample = shortened(one.sample, SHOWN_CHARS)
        lines = [f"{new}{one.level} {one.count}x{was} {times}{_places(one)}".rstrip()]
        if shortened(one.text, SHOWN_CHARS) != sample:
            lines.append(f"    {shortened(one.text, SHOWN_CHARS)}")
        return "\n".join([*lines, f"    e.g. {sample}" if len(lines) > 1 else f"    {sample}"])

    def changes(self, most: int = 20) -> list[Change]:
        """New kinds of errors, when they began."""
        found = (one for one in self.templates if one.level == "error" and self.is_new(one))
        return [
            Change(one.first, f"new error, {one.count}x {_places(one)}: {one.sample}"[:SHOWN_CHARS])
            for one in islice((one for one in found if one.first), most)
        ]


def spread(span: Window) -> list[Window]:
    """The time before, and the time itself, in parts: what is read of each is spread over it."""
    return [*span.before.parts(PARTS), *span.parts(PARTS)]


async def find_patterns(entries: Iterable[LogEntry], span: Window) -> LogPatterns:
    """In a thread: a hundred thousand lines take a second."""
    return await asyncio.to_thread(LogPatterns(span).add, entries)


def _places(one: Template) -> str:
    """Where most of its lines come from."""
    most = sorted(one.places.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} {count}x" if len(most) > 1 else name for name, count in most[:3])
    more = f" and {len(most) - 3} more" if len(most) > 3 else ""
    return f"in {shown}{more}" if most else ""


def lines_of(entries: Sequence[LogEntry], limit: int) -> str:
    """The last lines, as they came."""
    shown = [
        " ".join(part for part in (stamp(one.time) if one.time else "", one.where,
                                   shortened(one.text, 2 * SHOWN_CHARS)) if part)
        for one in entries[-limit:]
    ]  # fmt: skip
    more = [f"… {len(entries) - limit} earlier lines left out"] if len(entries) > limit else []
    return "\n".join([*more, *shown])


_MESSAGES = ("msg", "message", "log", "event", "MESSAGE")
_CAUSES = ("error", "err", "exception", "reason")
_LEVEL_FIELDS = ("level", "severity", "lvl", "levelname", "log.level", "severity_text")
_TIMES = ("@timestamp", "timestamp", "time", "ts", "t")


def entry(text: str, time: float = 0.0, level: str = "", where: str = "") -> LogEntry:
    """A line as it was written; of one that is JSON, its message, level and time."""
    if text[:1] != "{" or len(text) > 100 * TEXT_CHARS:
        return LogEntry(time, text, level, where)
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return LogEntry(time, text, level, where)
    said = next((fields[name] for name in _MESSAGES if isinstance(fields.get(name), str)), "")
    if not said:
        return LogEntry(time, text, level, where)
    causes = [str(fields[name]) for name in _CAUSES if fields.get(name) not in (None, "", said)]
    own = next((fields[name] for name in _LEVEL_FIELDS if fields.get(name) is not None), "")
    time = time or epoch(next((fields[name] for name in _TIMES if fields.get(name)), 0))
    return LogEntry(time, ": ".join([said.rstrip("\n"), *causes]), level or _level(own), where)


def _level(value: object) -> str:
    if isinstance(value, int | float):  # as Bunyan and Pino number them
        return "error" if value >= 50 else "warning" if value >= 40 else "info"
    return LEVELS.get(str(value).lower(), "")
