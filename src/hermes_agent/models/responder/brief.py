"""What the responder is told: the fenced JSON at the end of a message."""

import re
from typing import Any

import msgspec
from msgspec import Struct

PREVENTION = "-prevention"
"""How the names of skills end that incidents taught."""
FENCED = re.compile(r"^```json[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


class BriefCheck(Struct, frozen=True):
    name: str = ""
    command: str = ""
    output: str = ""
    exit: int | None = None
    ok: bool | None = None


class BriefService(Struct, frozen=True):
    name: str
    needs: tuple[str, ...] = ()
    about: str = ""


class BriefSkill(Struct, frozen=True):
    name: str
    state: str = ""
    fits: bool | None = None
    """Whether the signs in its runbook are there; None where nobody has looked."""

    @property
    def category(self) -> str:
        """The cause of which it tells; empty where it is no skill of incidents."""
        return self.name.removesuffix(PREVENTION) if self.name.endswith(PREVENTION) else ""


class Brief(Struct, frozen=True):
    """An incident to be worked on."""

    incident: str
    service: str = ""
    check: BriefCheck | None = None
    services: tuple[BriefService, ...] = ()
    skills: tuple[BriefSkill, ...] = ()


class Aftermath(Struct, frozen=True):
    """An incident that is over, of which a skill may be written."""

    aftermath: bool
    category: str = ""
    component: str = ""
    skill_wanted: str = ""
    known: bool = False


class Look(Struct, frozen=True):
    """What a child is asked for: one service, looked at closely."""

    look: str
    check: str = ""
    about: str = ""
    needs: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    room: int = 2_000
    """Characters that it may tell as data."""


Task = Brief | Aftermath | Look
_KINDS: tuple[tuple[str, type[Task]], ...] = (
    ("incident", Brief), ("aftermath", Aftermath), ("look", Look),
)  # fmt: skip


def task_of(text: str) -> Task | None:
    """The last block of a message that is one of ours."""
    for block in reversed(FENCED.findall(text)):
        try:
            value = msgspec.json.decode(block, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError):
            continue
        for field, kind in _KINDS:
            if field in value and (field != "incident" or "aftermath" not in value):
                try:
                    return msgspec.convert(value, kind)
                except msgspec.ValidationError:
                    break
    return None
