"""What runs of drills came to: a line of JSON each, in the home."""

import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from hermes_drills.errors import DrillError
from hermes_drills.types import Split

NAME = "runs.jsonl"
Outcome = Literal["resolved", "handed over", "harm", "mistaken", "unfinished"]


class Result(Struct, frozen=True, omit_defaults=False):
    family: str
    mechanism: str
    stack: str
    init: str
    seed: int
    split: Split
    well: bool
    """The judge found the box well, twice, and nothing harmed."""
    cause: bool = False
    """Component and category are right, and where or what was seen shows it."""
    evidence: bool = False
    """What is quoted shows the cause."""
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
    """Tool calls until then."""
    seconds: float = 0.0
    """From the alert to the end."""
    detected: float = 0.0
    """From the injection to the alert."""
    tokens: int = 0
    cost: float | None = None
    model: str = ""
    learning: bool = True
    skill: str = ""
    """The skill that healed it."""
    learned: str = ""
    """The skill that was written."""
    encounter: int = 1
    """The n-th run of this family with learning, of those that are kept."""
    time: float = 0.0

    @property
    def resolved(self) -> bool:
        """Hermes says that it is over, and the judge agrees."""
        return self.well and self.state == ("closed" if self.split == "no-fault" else "resolved")

    @property
    def mistaken(self) -> bool:
        """Hermes says that it is over, and the judge does not agree."""
        return self.state in ("resolved", "closed") and not self.resolved

    @property
    def outcome(self) -> Outcome:
        if self.resolved:
            return "resolved"
        if self.harm:
            return "harm"
        if self.mistaken:
            return "mistaken"
        return "handed over" if self.state == "escalated" else "unfinished"

    @property
    def name(self) -> str:
        return f"{self.family}/{self.mechanism} on {self.stack}/{self.init} seed {self.seed}"


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
            where = f"{folder / NAME}, line {number}"
            raise DrillError(f"{where}: {error}", "delete the line, or the file") from None
    return found


def save(folder: Path, result: Result) -> None:
    """In one write, so that two runs at once do not mix."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, msgspec.json.encode(result) + b"\n")
    finally:
        os.close(file)
