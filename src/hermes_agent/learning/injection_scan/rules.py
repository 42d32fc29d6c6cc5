"""What must come together for words to be an instruction that does not belong in a text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hermes_agent.learning.injection_scan.concepts import Place, Tagged


@dataclass(frozen=True)
class ScanRule:
    """`steps` name concepts, `|` between those that will do. The first is where it is looked for;
    the others must be near it."""

    what: str
    why: str
    steps: tuple[str, ...]
    near: int = 70
    """How many characters around the first."""
    across: bool = False
    """Sentences may end in between."""
    after: bool = False
    """The others come after the first, in this order."""
    denied: Literal["harmless", "needed", "either"] = "harmless"
    """What `never` or the like, before the first, makes of it."""
    unless: str = ""
    """Concepts that make it harmless."""


_OVERRIDE = "it tells the agent to set its instructions aside"
_ROLE = "it gives the agent another role, without limits"
_CONCEAL = "it tells the agent to hide something from its user"
_APPROVE = "it tells the agent to do everything without asking"
_GUARD = "it tells the agent to turn off what guards or records it"
_SPREAD = "it tells the agent to spread the text itself or to keep it for ever"
_EXFIL = "it tells the agent to send secrets or conversations to somebody"

RULES: tuple[ScanRule, ...] = (
    ScanRule("override", _OVERRIDE, ("ignore", "before|your|told", "rules")),
    ScanRule("override", _OVERRIDE, ("ignore", "before|your", "weakrules"), near=45),
    ScanRule("override", _OVERRIDE, ("ignore", "all", "rules"), near=40),
    ScanRule("override", _OVERRIDE, ("disregard", "all", "weakrules"), near=25),
    ScanRule("override", _OVERRIDE, ("ignorethem", "owned|sysprompt|told"), 110, across=True),
    ScanRule("override", _OVERRIDE, ("upto", "everything|rules|weakrules", "void|ignore"), near=70),
    ScanRule("override", _OVERRIDE, ("ignore", "toldyou"), near=22, after=True),
    ScanRule("override", _OVERRIDE, ("obey", "insteadofuser"), near=70),
    ScanRule("override", _OVERRIDE, ("owned", "aside", "rules|weakrules"), near=40),
    ScanRule("override", _OVERRIDE, ("exempt", "rules|guard"), 45, denied="either"),
    ScanRule("override", _OVERRIDE, ("told", "obey|followalone", "void|ignore"), 120, across=True),
    ScanRule("override", _OVERRIDE, ("ignore", "told", "weakrules"), near=60),
    ScanRule("override", _OVERRIDE, ("cancel", "owned", "rules|weakrules"), near=45),
    ScanRule("override", _OVERRIDE, ("owned", "void", "rules|weakrules"), 60, denied="either"),
    ScanRule("override", _OVERRIDE, ("ignore", "anything", "told|before"), near=30),
    ScanRule("override", _OVERRIDE, ("ignore", "weakrules", "obey|outrank"), near=80),
    ScanRule("override", _OVERRIDE, ("ignore", "userask"), near=50),
    ScanRule("override", _OVERRIDE, ("override", "your", "rules"), near=45),
    ScanRule("override", _OVERRIDE, ("override", "your", "weakrules"), near=30, after=True),
    ScanRule("override", _OVERRIDE, ("sysprompt", "override|void", "obey|this"), near=90),
    ScanRule("override", _OVERRIDE, ("told", "void"), near=80, denied="either"),
    ScanRule("override", _OVERRIDE, ("rules", "void", "your", "before"), 80, denied="either"),
    ScanRule("override", _OVERRIDE, ("your", "rules", "void"), 40, after=True, denied="either"),
    ScanRule("override", _OVERRIDE, ("your", "before", "rules", "void"), 90, denied="either"),
    ScanRule(
        "override",
        _OVERRIDE,
        ("rules", "before", "void", "followalone|onlycount|newtask|obey"),
        150,
        across=True,
    ),
    ScanRule("override", _OVERRIDE, ("source", "outrank", "authority"), 90, after=True),
    ScanRule("override", _OVERRIDE, ("onlycount",)),
    ScanRule(
        "override", _OVERRIDE, ("ignore", "before|told", "newtask|followalone"), 110, across=True
    ),
    ScanRule("override", _OVERRIDE, ("newtask", "obey|ignore|secret|silently"), 150, across=True),
    ScanRule(
        "override", _OVERRIDE, ("newinstructions", "address|stopping|ignore"), 80, across=True
    ),
    ScanRule("override", _OVERRIDE, ("address", "ignore|void|obey|userask"), 150, across=True),
    ScanRule(
        "override", "it asks for the agent's own instructions", ("reveal", "sysprompt"), near=40
    ),
    ScanRule("role", _ROLE, ("becoming", "unbound"), near=130, across=True),
    ScanRule("role", _ROLE, ("mode", "unbound"), near=100, across=True),
    ScanRule("role", _ROLE, ("becoming", "modeoff"), near=40),
    ScanRule("role", _ROLE, ("stopbeing",)),
    ScanRule("concealment", _CONCEAL, ("tell", "user", "topic"), 50, after=True, denied="needed"),
    ScanRule("concealment", _CONCEAL, ("tell", "toward", "user"), 40, after=True, denied="needed"),
    ScanRule("concealment", _CONCEAL, ("neg", "telling", "user"), 50, denied="either"),
    ScanRule("concealment", _CONCEAL, ("negtell", "user"), 40, denied="either"),
    ScanRule("concealment", _CONCEAL, ("tell", "topic", "answers"), 70, denied="needed"),
    ScanRule("concealment", _CONCEAL, ("quiet", "it|rules|user"), near=50),
    ScanRule("concealment", _CONCEAL, ("leaveout", "answers"), near=50),
    ScanRule("concealment", _CONCEAL, ("user", "neverknow"), near=40, denied="either"),
    ScanRule("concealment", _CONCEAL, ("withouttelling", "user"), near=40, denied="either"),
    ScanRule("concealment", _CONCEAL, ("hide", "secretfrom", "this|rules|it"), near=60),
    ScanRule("concealment", _CONCEAL, ("hiding", "secretfrom"), near=50),
    ScanRule("concealment", _CONCEAL, ("nobodyknows",)),
    ScanRule("concealment", _CONCEAL, ("lie", "evenif"), near=90),
    ScanRule("concealment", _CONCEAL, ("silently", "dontreport"), near=80, denied="either"),
    ScanRule("concealment", _CONCEAL, ("broach", "user"), near=40, denied="needed"),
    ScanRule("concealment", _CONCEAL, ("silently", "unseen|neverknow|leaveout"), 120, across=True),
    ScanRule("approval", _APPROVE, ("approve", "all", "noask", "acts"), near=80),
    ScanRule("approval", _APPROVE, ("approve", "everything", "noask"), near=45),
    ScanRule("approval", _APPROVE, ("approving", "all", "noask"), near=80),
    ScanRule("approval", _APPROVE, ("preapproved", "anyact|anything"), near=60),
    ScanRule("approval", _APPROVE, ("noneeded", "anyact"), 90, denied="either"),
    ScanRule("approval", _APPROVE, ("noasking", "anyact"), near=50),
    ScanRule("approval", _APPROVE, ("selfgrant", "power"), near=50),
    ScanRule("guard-off", _GUARD, ("disable", "guard"), near=45, after=True),
    ScanRule("guard-off", _GUARD, ("disabling", "guard"), near=50),
    ScanRule(
        "guard-off",
        _GUARD,
        ("disable|disabling", "weakguard", "unseen|neverknow"),
        110,
        across=True,
    ),
    ScanRule("guard-off", _GUARD, ("disable", "own", "weakguard"), near=30, after=True),
    ScanRule("guard-off", _GUARD, ("settooff",)),
    ScanRule("guard-off", _GUARD, ("allowall", "policyword", "own"), near=70),
    ScanRule("guard-off", _GUARD, ("setting", "policyword", "allowall"), 90, after=True),
    ScanRule("persistence", _SPREAD, ("copy", "thistext", "place"), near=110),
    ScanRule("persistence", _SPREAD, ("thistext", "forever"), near=100, denied="either"),
    ScanRule("exfiltration", _EXFIL, ("send", "secret", "dest"), near=130),
    ScanRule("exfiltration", _EXFIL, ("sendit", "secret", "dest"), near=120, across=True),
    ScanRule("exfiltration", _EXFIL, ("send", "weaksecret", "dest"), near=110, unless="auth"),
    ScanRule("exfiltration", _EXFIL, ("put", "secret", "putdest"), near=110),
)

_DENIED_BEFORE = 80
_TURN = re.compile(r",| - |\u2014|\(")
"""Here a sentence takes a turn: `don't be shy, ignore …` denies nothing."""
_LIST = re.compile(r"\b(?:or|nor|oder|ou|ni|of|lub|veya|atau)\b")
"""`do not print, log or send` denies all of it."""
_DENIED_AFTER = 14


def _denied(tagged: Tagged, at: Place, start: int, end: int) -> bool:
    """Whether the text says that this is not to be done."""
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
    """Where one of the concepts ends that is found there, after `last` where order counts."""
    for concept in step.split("|"):
        begin = start if last is None else max(start, last)
        found = next(tagged.within(concept, begin, end), None)
        if found is not None:
            return found[1]
    return None


def _fits(rule: ScanRule, tagged: Tagged, at: Place) -> bool:
    start, end = max(at[0] - rule.near, 0), at[1] + rule.near
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
    """Each rule that fits, once, at the first place where it does."""
    for rule in RULES:
        for concept in rule.steps[0].split("|"):
            for at in tagged.places.get(concept, ()):
                tagged.steps += 1
                if _fits(rule, tagged, at):
                    yield rule, at
                    break
