"""What drills that were killed have left in a home: boxes, and the checks that look at them."""

from pathlib import Path

from hermes_agent.incidents.drills.box import Box, boxes


def check_of(home: Path, id: str) -> Path:
    """The file of the health check that looks at a box."""
    return home / "checks" / f"drill-{id}.yaml"


def checks(home: Path) -> list[Path]:
    """Those of all boxes, whether there are any or not."""
    return sorted((home / "checks").glob("drill-*.yaml"))


def abandoned(home: Path) -> list[Box]:
    """Boxes whose owner is gone."""
    return [box for box in boxes(home / "drills") if box.abandoned]


def sweep(home: Path) -> list[str]:
    """Remove what nobody owns any more, the check first: it is not to see the box go. Returns what
    the boxes were called."""
    found = abandoned(home)
    for box in found:
        check_of(home, box.folder.name).unlink(missing_ok=True)
        box.remove()
    return [box.folder.name for box in found]
