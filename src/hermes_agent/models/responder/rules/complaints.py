"""What programs complain of, in whatever words: a setting that they do not know, one whose value
they do not take, one that they miss; and what they would take, where they say so."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Literal

from msgspec import Struct

_NAME = r"(?P<name>-{0,2}[A-Za-z_][\w.-]*)"
_Q = r"[\"'`\u2018\u2019]?"
_LOUD = r"(?-i:[A-Z][A-Z0-9]*_[A-Z0-9_]+)"
"""How variables are called."""
_SORT = (
    r"(?:directive|option|parameter|setting|key|keyword|arguments?|flag|field|property"
    r"|(?:environment )?variable)s?"
)
_ODD = r"(?:unknown|unrecogni[sz]ed|unsupported|unexpected|illegal|undefined|invalid|no such)"
_UNKNOWN = (
    (
        rf"{_ODD} (?:configuration |config |command.?line |keyword )?{_SORT}(?: name)?(?: --)?:? ?"
        rf"[(\[]?{_Q}{_NAME}(?![\w/:]){_Q}(?!: \S)"
    ),
    (
        rf"(?<![\w/.-]){_Q}(?P<name>[\w.-]+){_Q} "
        rf"(?:is (?:not )?(?:an? )?(?:unknown|invalid|known|valid)(?: \w+)? ?{_SORT}|was unexpected"
        r"|directive is not allowed|is not (?:recogni[sz]ed|known))"
    ),
    rf"field {_Q}{_NAME}{_Q} not found in",
)
_VALUE = r"[\"'`\u2018](?P<value>[^\"'`\u2019]*)[\"'`\u2019]"
_INVALID = (
    rf"argument (?P<name>[-\w]+)(?:/[-\w]+)*: invalid [\w ]*?(?:choice|value): {_VALUE}",
    rf"{_ODD} (?:value )?(?:for|of|in) (?:{_SORT} )?{_Q}{_NAME}{_Q}:? (?:is |= ?)?{_VALUE}",
    rf"{_SORT} {_Q}{_NAME}{_Q}:? {_ODD} value:? {_VALUE}",
    r"(?P<value>-?\d[\w.]*)(?: \w+)? is outside the valid range for parameter \"(?P<name>[\w.]+)\"",
    rf"invalid literal for int\(\) with base 10: {_VALUE}",
    rf"(?:{_Q}(?P<name>[\w.-]+){_Q} ?[:=] ?)?{_VALUE}:? (?:is )?not (?:an? |one of )",
    rf"(?:{_Q}(?P<name>[\w.-]+){_Q}: )?expected .{{1,40}}?,? (?:but )?(?:found|got|not) {_VALUE}",
    rf"(?:cannot|can't|could not|failed to) (?:parse|read|convert|understand) {_VALUE} as ",
    rf"parsing {_VALUE}: ",
    r"(?P<name>[A-Za-z_][\w.-]*)(?:: | = |=)(?P<value>-?\d[\w.]*) (?:is )?(?:out of|outside|too)\b",
    rf"could not convert string to float: {_VALUE}",
    (
        rf"{_Q}(?P<name>[\w.-]+){_Q} (?:must|should|has to|cannot|can't|may not) be "
        rf".*?(?:, |but |: )(?:not |got |was |is |found |given )+{_Q}(?P<value>[\w./:@+-]+){_Q}"
    ),
    rf"{_ODD} (?:value )?{_VALUE} (?:for|of|in) (?:{_SORT} )?{_Q}{_NAME}",
    (
        rf"{_VALUE} is (?:not |an )?(?:a |an )?(?:valid|invalid|allowed|unknown|known|supported)"
        r"(?: value)?(?: (?:for|of) (?P<name>[\w.-]+))?"
    ),
    rf"(?:{_ODD}|bad|not a valid) (?P<name>[a-z][\w-]*(?: [a-z][\w-]*)?):? {_VALUE}",
    rf"(?:{_ODD}|bad|not a valid) (?P<name>[a-z][\w-]*(?: [a-z][\w-]*)?):? (?P<value>[\w./:@+-]+)",
)
_MISSING = (
    r"KeyError: [\"'](?P<name>[\w.-]+)",
    r"\b(?P<name>[A-Za-z_]\w*): (?:unbound variable|parameter (?:null or )?not set|must be set)",
    (
        rf"(?:missing|required|requires|needs|expects?)(?: an?| the)?(?: required)?"
        rf"(?: configuration| config)? {_SORT}:? {_Q}{_NAME}"
    ),
    (
        rf"{_SORT} {_Q}(?P<name>[\w.-]+){_Q} (?:is|was|are|has) "
        r"(?:required|missing|not (?:been )?set|not defined|undefined|mandatory|unset|absent)"
    ),
    (
        rf"{_Q}(?P<name>[A-Za-z_][\w.-]*){_Q} (?:is|was) "
        r"(?:required|missing|not set|not defined|undefined|mandatory|unset)"
    ),
    rf"{_SORT} (?:are|is) required: {_Q}{_NAME}",
    rf"no (?:option|key|{_SORT}) {_Q}(?P<name>[\w.-]+){_Q} (?:in|found|given|set|under)",
    (
        rf"(?P<name>{_LOUD}){_Q}[):]? (?:(?:environment )?variable )?(?:(?:is|was|has|must|to|be"
        r"|needs|should)\b ?)*(?:not |un)?(?:been )?(?:empty|undefined|unset|set\b|defined|missing"
        r"|required|mandatory|nothing|blank|in (?:its|the) env|first|returned)"
    ),
    (
        rf"(?:no|needs?|without|missing|lacks?|required?|set|export|expected) (?:\w+ )?{_Q}\$?"
        rf"(?P<name>{_LOUD})\b"
    ),
)
_OTHERS = (
    rf"{_Q}(?P<name>[A-Za-z_][\w.-]*){_Q}: (?:unknown|no such|unexpected|unsupported) {_SORT}",
    rf"(?:unused|superfluous|extra|stray) {_SORT}(?: not permitted)?:? {_Q}{_NAME}",
    rf"know(?:s)? (?:nothing called|no) {_Q}{_NAME}",
)
_KINDS: tuple[tuple[Literal["unknown", "invalid", "missing"], tuple[str, ...]], ...] = (
    ("missing", _MISSING),
    ("unknown", (*_UNKNOWN, *_OTHERS)),
    ("invalid", _INVALID),
)
_CHOICES = re.compile(
    r"(?:choose from|one of|expected|allowed(?: values?)?|valid (?:\w+)(?: are)?|must be|should be|"
    r"available(?: \w+)?|supported(?: \w+)?|known(?: \w+)?|possible(?: \w+)?)(?: are| is)?:? "
    r"(?:one of:? ?)?[(\[{]?(?P<list>[\"'`]?[\w.-]+[\"'`]?(?:(?:, ?| ?\| ?| ?/ ?|,? or |,? and )"
    r"[\"'`]?[\w.-]+[\"'`]?)+)",
    re.IGNORECASE,
)
_HINT = re.compile(
    rf"(?:did you mean|perhaps you meant|maybe you meant|similar:?) {_Q}([\w.-]+)", re.IGNORECASE
)
_PLACE = re.compile(r"(/[\w./@+-]+\w)[\"']?(?::|,? line:? )(\d{1,6})\b")
_PLAIN = frozenset({
    "the", "a", "an", "in", "of", "for", "and", "or", "is", "to", "value", "name", "file", "line",
    "path", "error", "type", "argument", "option", "parameter", "address", "request", "user",
    "command", "response", "status", "data", "input", "format", "host", "this", "that", "it",
    "from", "directory", "with", "by", "at", "on",
})  # fmt: skip
"""Words that are the name of nothing."""
ALIKE = 0.7


class Complaint(Struct, frozen=True):
    kind: Literal["unknown", "invalid", "missing"]
    name: str
    """Of a setting; empty where it is not said."""
    value: str = ""
    choices: tuple[str, ...] = ()
    """What would be taken, as far as that is said."""
    path: str = ""
    row: int = 0
    """Where it stands, as far as that is said."""
    line: str = ""


def complaints(lines: Sequence[str]) -> Iterator[Complaint]:
    """What lines complain of, each once."""
    found = dict[tuple[str, str, str], Complaint]()
    for line in lines:
        one = read(line)
        if one is not None:
            found.setdefault((one.kind, one.name, one.value), one)
    yield from found.values()


def read(line: str) -> Complaint | None:
    """What a line complains of; None where that is no setting."""
    text = line[:2000].replace('\\"', '"').replace("\\'", "'")
    for kind, patterns in _KINDS:
        for pattern in patterns:
            for match in re.finditer(pattern, text, re.IGNORECASE):
                parts = match.groupdict()
                name, value = (parts.get("name") or "").strip("."), parts.get("value") or ""
                if name.lower() in _PLAIN:
                    name = ""
                if value.lower() in _PLAIN or name.rpartition(" ")[2] in _PLAIN:
                    continue
                if not (value or (name and kind != "invalid")):
                    continue
                place = _PLACE.search(text)
                return Complaint(
                    kind, name, value, choices_in(text), place[1] if place else "",
                    int(place[2]) if place else 0, line,
                )  # fmt: skip
    return None


def choices_in(text: str) -> tuple[str, ...]:
    hints = _HINT.findall(text)
    listed = _CHOICES.search(text)
    parts = re.split(r",? or |,? and |[,|/]", listed["list"]) if listed else []
    words = [one.strip(" \"'`.()[]{}") for one in parts]
    return tuple(dict.fromkeys([*hints, *(one for one in words if one)]))


_THERE = re.compile(
    r"[\"'`]?(?P<path>/[\w./@+-]*[\w@+-])[\"'`]? (?:is (?:there|present|in place|set)|(?:already )?"
    r"exists|was found|found|still exists|is still there)\b(?! to be)"
    r"|(?:because of|due to|by|while|as long as|until|remove|delete|found|unlink|rm)(?: the)?"
    r"(?: \w+)?(?: file)?:? [\"'`]?(?P<other>/[\w./@+-]*[\w@+-])[\"'`]?",
    re.IGNORECASE,
)
_HALTS = re.compile(
    r"maintenance|read.?only|disabled|paused?\b|suspend|out of service|offline|halt|drain|frozen|"
    r"freeze|stopped|refus|will not|won't|not (?:start|run|serv|accept)|skip|block|lock|remove|"
    r"delete|switched off|turned off|quarantin|hold\b|on hold",
    re.IGNORECASE,
)


def in_the_way(line: str) -> str:
    """A file of which a line says that nothing goes on because it is there."""
    found = _THERE.search(line) if _HALTS.search(line) else None
    return (found["path"] or found["other"]) if found else ""


def alike(word: str, others: Sequence[str]) -> str:
    """The likest of other words that is not the same; empty where none is alike."""
    plain = {re.sub(r"[-_.]", "", one).lower(): one for one in reversed(others) if one != word}
    same = re.sub(r"[-_.]", "", word).lower()
    found = get_close_matches(same, list(plain), 1, ALIKE)
    return plain[found[0]] if found else ""
