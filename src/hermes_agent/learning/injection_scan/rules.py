"""Finds injected instructions: concepts that occur together, by `rules.table`."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from hermes_agent.learning.injection_scan.concepts import Place, Tagged
from hermes_agent.learning.tables import read


class ScanRule(Struct, frozen=True):
    """A line of `rules.table`, which explains the fields."""

    what: str
    why: str
    steps: tuple[str, ...]
    near: str = "70"
    across: str = ""
    after: str = ""
    denied: str = "harmless"
    unless: str = ""


@cache
def _rules() -> tuple[ScanRule, ...]:
    made: list[ScanRule] = []
    for heading, lines in read(Path(__file__).with_name("rules.table")):
        what, _, why = heading.partition(": ")
        for line in lines:
            steps, _, options = line.partition("; ")
            given = dict(one.split("=") for one in options.split())
            made.append(ScanRule(what, why, tuple(steps.split(", ")), **given))
    return tuple(made)


_DENIED_BEFORE = 80
_TURN = re.compile(r",| - |\u2014|\(")
"""Ends the reach of a negation: `don't be shy, ignore …` denies nothing."""
_LIST = re.compile(r"\b(?:or|nor|oder|ou|ni|of|lub|veya|atau)\b")
"""`do not print, log or send` denies all of it."""
_DENIED_AFTER = 14


def _denied(tagged: Tagged, at: Place, start: int, end: int) -> bool:
    """Whether the text says not to do this."""
    for neg in tagged.within("neg", max(start, at[0] - _DENIED_BEFORE), at[0]):
        if neg[1] > at[0] or tagged.has("notreally", neg[1], min(neg[1] + 3, at[0] + 1)):
            continue
        between = tagged.text[neg[1] : at[0]]
        turns = _TURN.search(between) and not _LIST.search(between)
        if not turns and not tagged.has("breaks", neg[1], at[0]):
            return True
    after = next(tagged.within("neg", at[1], min(at[1] + _DENIED_AFTER, end)), None)
    return after is not None and not tagged.text[after[0] : after[1]].isascii()


def _near(tagged: Tagged, step: str, start: int, end: int, last: int | None) -> int | None:
    """The end of the first of these concepts there, after `last` if order matters."""
    for concept in step.split("|"):
        begin = start if last is None else max(start, last)
        found = next(tagged.within(concept, begin, end), None)
        if found is not None:
            return found[1]
    return None


def _fits(rule: ScanRule, tagged: Tagged, at: Place) -> bool:
    near = int(rule.near)
    start, end = max(at[0] - near, 0), at[1] + near
    sentence = tagged.sentence(at[0])
    if not rule.across:
        start, end = max(start, sentence[0]), min(end, sentence[1])
    last = at[1] if rule.after else None
    for step in rule.steps[1:]:
        found = _near(tagged, step, start, end, last)
        if found is None:
            return False
        if rule.after:
            last = found
    if any(tagged.has(concept, start, end) for concept in rule.unless.split("|") if concept):
        return False
    if rule.denied == "either":
        return True
    return _denied(tagged, at, sentence[0], end) is (rule.denied == "needed")


def matches(tagged: Tagged) -> Iterator[tuple[ScanRule, Place]]:
    """Each rule that fits, at the first place where it does."""
    for rule in _rules():
        for concept in rule.steps[0].split("|"):
            for at in tagged.places.get(concept, ()):
                tagged.steps += 1
                if _fits(rule, tagged, at):
                    yield rule, at
                    break
