"""What the prompt of a new session tells of where it is, read once."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hermes_agent.agent.prompt import CONTEXT_FILES, Surroundings
from hermes_agent.core.places import PlaceSettings
from hermes_agent.terminals.kinds import kind_of


def look_around(
    workspace: str, soul: Path, now: float, places: Sequence[tuple[str, PlaceSettings]]
) -> Surroundings:
    context = [
        (name, (Path(workspace) / name).read_text(encoding="utf-8", errors="replace"))
        for name in CONTEXT_FILES
        if (Path(workspace) / name).is_file()
    ]
    return Surroundings(
        workspace=os.path.realpath(workspace),
        platform=f"{platform.system()} {platform.machine()}",
        date=datetime.fromtimestamp(now, UTC).date().isoformat(),
        identity=soul.read_text(encoding="utf-8", errors="replace") if soul.is_file() else "",
        context=tuple(context),
        terminals=tuple(
            (name, kind_of(place).name, getattr(place, "workspace", os.path.realpath(workspace)))
            for name, place in places
        ),
    )
