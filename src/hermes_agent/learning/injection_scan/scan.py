"""Scans text that an agent reads again and again: notes, skills, context files.

It finds injected instructions, commands that open a machine or leak secrets, and hidden characters.
No rule knows every wording: it is one defence among several, and the gate is behind it.
"""

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from hermes_agent.learning.injection_scan.commands import matches as command_matches
from hermes_agent.learning.injection_scan.concepts import tag, tag_run
from hermes_agent.learning.injection_scan.decode import Within, within
from hermes_agent.learning.injection_scan.normalize import Folded, fold, hidden
from hermes_agent.learning.injection_scan.rules import matches as rule_matches

Kind = Literal["memory", "skill", "context"]
"""Memory is scanned most strictly; skills and context files may quote what they warn of."""

_EXCERPT = 120
_DEPTH = 3
_AROUND = 600
_CUE = re.compile(
    r"\battack|inject|malicious|suspicious|detect|look for|look out|search for|searches for"
    r"|check for|\brefus|payload|phish|red.?team|indicator|as data|\bflags?\b|scanner|\bclaims?\b"
    r"|backdoor|compromis|forensic|never follow|do not follow|jailbreak|threat|untrusted"
    r"|vulnerab|exploit|adversar|reverse shell|persistence|incident|abuse|signs of"
)
_QUOTES = ('"', "`")
_SEARCHES = re.compile(r"\b(?:grep|rg|ag|ausearch|journalctl|yara)\b")


class InjectionFinding(Struct, frozen=True):
    what: str
    """`override`, `exfiltration`, `hidden characters`, …"""
    why: str
    excerpt: str
    start: int


def scan(text: str, kind: Kind) -> tuple[InjectionFinding, ...]:
    """What is wrong with a text, in order. Takes time linear in its length."""
    found = [
        InjectionFinding("hidden characters", why, _excerpt(text, start), start)
        for why, start in hidden(text)
    ]
    seen: set[tuple[str, int]] = set()
    for finding in _findings(text, kind):
        if (finding.what, finding.start) not in seen:
            seen.add((finding.what, finding.start))
            found.append(finding)
    return tuple(sorted(found, key=lambda finding: finding.start))


def reason(text: str, kind: Kind) -> str:
    """Why a text is refused, in a sentence; empty if it is clean."""
    found = scan(text, kind)
    if not found:
        return ""
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"the text looks dangerous: {first.why}, at {first.excerpt!r}{more}"


def _findings(text: str, kind: Kind) -> Iterator[InjectionFinding]:
    folded = fold(text)
    for what, why, start in _plain(folded, kind):
        origin = folded.origin(start)
        yield InjectionFinding(what, why, _excerpt(text, origin), origin)
    yield from _deeper(text, folded, kind)


def _plain(folded: Folded, kind: Kind) -> Iterator[tuple[str, str, int]]:
    """What the rules find in a text itself."""
    lower = folded.lower
    for rule, place in rule_matches(tag(lower)):
        if kind == "memory" or not _mentioned(lower, place[0], place[1]):
            yield rule.what, rule.why, place[0]
    for pattern, start, end in command_matches(lower):
        shown = kind != "memory" and (
            (pattern.quoted and _is_code(lower, start)) or _mentioned(lower, start, end)
        )
        if not shown:
            yield pattern.what, pattern.why, start


def _deeper(text: str, folded: Folded, kind: Kind) -> Iterator[InjectionFinding]:
    """What the rules find in texts hidden in this one."""
    waiting = [(inner, inner.start, inner.how, 1) for inner in within(folded.text)]
    while waiting:
        inner, start, how, depth = waiting.pop()
        origin = folded.origin(start)
        for what, why in _inner(inner, kind):
            yield InjectionFinding(what, f"{why} (hidden by {how})", _excerpt(text, origin), origin)
        if depth < _DEPTH and not inner.run:
            waiting += [
                (deeper, start, f"{how} and {deeper.how}", depth + 1)
                for deeper in within(fold(inner.text).text)
                if len(deeper.text) < len(inner.text)
            ]


def _inner(inner: Within, kind: Kind) -> Iterator[tuple[str, str]]:
    folded = fold(inner.text)
    if inner.run:
        for rule, _ in rule_matches(tag_run(folded.lower)):
            yield rule.what, rule.why
        return
    for what, why, _ in _plain(folded, kind):
        yield what, why


def _excerpt(text: str, start: int) -> str:
    """The text from there on; hidden characters are shown by their code points."""
    cut = (
        text[start : start + _EXCERPT].split("\n", maxsplit=1)[0].strip()
        or text[start : start + _EXCERPT]
    )
    return "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in cut)


def _is_code(text: str, at: int) -> bool:
    """Whether a place is within backticks, quotes or a code block."""
    line = text.rfind("\n", 0, at) + 1
    before = text[max(line, at - _AROUND) : at]
    if any(before.count(quote) % 2 for quote in ("`", '"')) or before.endswith(("'", '"', "`")):
        return True
    if "=" in before or "(" in before or "{" in before:
        return True
    return text.count("```", 0, at) % 2 == 1


def _mentioned(text: str, start: int, end: int) -> bool:
    """Whether a text quotes something to warn of it or to search for it."""
    begin = text.rfind("\n\n", max(start - _AROUND, 0), start)
    begin = max(start - _AROUND, 0) if begin < 0 else begin
    before = text[begin:start]
    stop = text.find("\n\n", end, end + _AROUND)
    paragraph = text[begin : stop if stop >= 0 else end + _AROUND]
    line = before.rsplit("\n", 1)[-1]
    quoted = any(before.count(quote) % 2 for quote in _QUOTES) or _SEARCHES.search(line)
    if not quoted:
        return False
    head = text[max(begin - _AROUND, 0) : begin]
    return bool(_CUE.search(paragraph) or _CUE.search(head))
