"""Reads the `.table` files of this package: headings in brackets, and the lines below them."""

from collections.abc import Sequence
from pathlib import Path


def read(path: Path) -> Sequence[tuple[str, Sequence[str]]]:
    """The parts of a table in order. A line that begins with a space continues the one before."""
    parts: list[tuple[str, list[str]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            parts.append((line[1:-1], []))
        elif line.startswith(" "):
            parts[-1][1][-1] += " " + line.strip()
        elif line and not line.startswith("#"):
            parts[-1][1].append(line)
    return parts
