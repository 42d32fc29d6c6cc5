"""What the doctor says of drills: whether some were killed and left their boxes behind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal


def look(home: Path) -> Iterator[tuple[Literal["warn"], str, str]]:
    from hermes_agent.incidents.drills.left import abandoned

    if names := [box.folder.name for box in abandoned(home)]:
        what = f"left by drills that were killed: the boxes {', '.join(names)} and their checks"
        yield "warn", what, "the next `hermes drill` command removes them"
