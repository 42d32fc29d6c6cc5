"""Boxes and checks that drills which were killed have left in a home."""

from pathlib import Path

from hermes_drills.box.box import Box, boxes


def check_path(home: Path, id: str) -> Path:
    """The file of the health check that watches a box."""
    return home / "checks" / f"drill-{id}.yaml"


def abandoned(home: Path) -> list[Box]:
    """Boxes whose owner is gone."""
    return [box for box in boxes(home / "drills") if box.abandoned]


def sweep(home: Path) -> list[str]:
    """Remove abandoned boxes, the check first, so that it raises no alert; returns their ids."""
    found = abandoned(home)
    for box in found:
        _remove(home, box)
    return [box.folder.name for box in found]


def remove_all(home: Path) -> list[str]:
    """Remove every box and every drill's check; returns the ids of the boxes."""
    found = boxes(home / "drills")
    for path in (home / "checks").glob("drill-*.yaml"):
        path.unlink(missing_ok=True)
    for box in found:
        _remove(home, box)
    return [box.folder.name for box in found]


def _remove(home: Path, box: Box) -> None:
    check_path(home, box.folder.name).unlink(missing_ok=True)
    box.remove()
