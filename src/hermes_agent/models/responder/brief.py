"""The responder's input: the fenced JSON at the end of a message."""

import re
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.skills import Runbook

FENCED = re.compile(r"^```json[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


class BriefCheck(Struct, frozen=True):
    name: str = ""
    command: str = ""
    output: str = ""
    exit: int | None = None
    ok: bool | None = None


class BriefFacts(Struct, frozen=True):
    """How a service runs."""

    service: str
    init: str = ""
    unit: str = ""
    restart: str = ""
    status: str = ""
    recent: str = ""
    configs: tuple[str, ...] = ()


class BriefCandidate(Struct, frozen=True):
    """A skill whose signs were checked for a service."""

    skill: str
    service: str
    category: str = "unknown"
    state: str = ""
    fits: bool = False
    failed: str = ""
    when: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.skill, self.service

    @property
    def learned(self) -> bool:
        """Whether it was learned from an earlier incident here."""
        return self.state in ("proven", "candidate")


class Signs(Struct, frozen=True):
    """Which skills fit the incident."""

    candidates: tuple[BriefCandidate, ...] = ()
    ruled_out: tuple[str, ...] = ()


class Brief(Struct, frozen=True):
    """An incident to be worked on."""

    incident: str
    service: str = ""
    check: BriefCheck | None = None
    facts: tuple[BriefFacts, ...] = ()
    candidates: tuple[BriefCandidate, ...] = ()
    ruled_out: tuple[str, ...] = ()


class Aftermath(Struct, frozen=True):
    """A resolved incident, from which a skill may be written."""

    aftermath: bool
    category: str = ""
    component: str = ""
    service: str = ""
    skill_wanted: str = ""
    known: bool = False


Task = Brief | Aftermath
_KINDS: tuple[tuple[str, type[Task]], ...] = (("aftermath", Aftermath), ("incident", Brief))


def task_of(text: str) -> Task | None:
    """The task in the last block of a message that has one."""
    for value in _blocks(text):
        for field, kind in _KINDS:
            if field in value:
                try:
                    return msgspec.convert(value, kind)
                except msgspec.ValidationError:
                    break
    return None


def signs_in(text: str) -> Signs:
    """Which skills fit, after the runtime has checked them again."""
    for value in _blocks(text):
        if "candidates" in value:
            try:
                return msgspec.convert(value, Signs)
            except msgspec.ValidationError:
                continue
    return Signs()


def runbook_in(text: str) -> Runbook | None:
    """The runbook of an opened skill, with its placeholders filled in."""
    for value in _blocks(text):
        try:
            return msgspec.convert(value, Runbook)
        except msgspec.ValidationError:
            continue
    return None


def _blocks(text: str) -> list[dict[str, Any]]:
    found = []
    for block in reversed(FENCED.findall(text)):
        try:
            found.append(msgspec.json.decode(block, type=dict[str, Any]))
        except (msgspec.MsgspecError, RecursionError):
            continue
    return found
