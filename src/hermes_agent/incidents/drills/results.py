"""What runs of drills came to: one line of JSON each, in the home."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.incidents.drills.format import Tier

NAME = "results.jsonl"


class Result(Struct, frozen=True, omit_defaults=False):
    drill: str
    variant: str
    seed: int
    tier: Tier
    """Whether the variant is practised or kept apart for evaluation."""
    resolved: bool
    """By the hidden check, twice, and nothing was harmed; of a drill without a fault: it was
    called a false alarm, and nothing was changed."""
    cause: bool
    """Component and category are right, and where or what was seen shows it."""
    evidence: bool
    """What is quoted holds what shows the cause."""
    component: bool = False
    category: bool = False
    locus: bool = False
    wrong: tuple[str, ...] = ()
    """What was still not well."""
    harm: tuple[str, ...] = ()
    incident: str = ""
    state: str = ""
    """How the incident ended."""
    said: str = ""
    """The diagnosis: component, category, locus."""
    steps: int = 0
    """Replies of the model until it was over, those of children included."""
    calls: int = 0
    seconds: float = 0.0
    """From the declaration to the end."""
    detected: float = 0.0
    """Seconds from the injection to the declaration."""
    tokens: int = 0
    cost: float | None = None
    model: str = ""
    """All that answered: where one fails, another goes on."""
    learning: bool = True
    skill: str = ""
    """The skill by which it was healed."""
    learned: str = ""
    """The skill that was written."""
    report: bool = False
    encounter: int = 1
    """The n-th run of this drill with learning, of those that are kept."""
    time: float = 0.0


def load(folder: Path) -> list[Result]:
    """The oldest first."""
    try:
        lines = (folder / NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(msgspec.json.decode(line, type=Result))
        except msgspec.DecodeError as error:
            raise HermesError(
                f"{folder / NAME}, line {number}: {error}", "remove the line, or the file"
            ) from None
    return found


def keep(folder: Path, result: Result) -> None:
    """In one write, so that two runs at once do not mix."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, msgspec.json.encode(result) + b"\n")
    finally:
        os.close(file)
