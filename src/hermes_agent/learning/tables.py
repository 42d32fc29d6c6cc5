"""Reads the data files of this package: tables, and prompts for models."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path


def read(path: Path) -> Sequence[tuple[str, Sequence[str]]]:
    """The headings in brackets, each with its lines, in order. A line that begins with a space
    continues the one before."""
    parts: list[tuple[str, list[str]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            parts.append((line[1:-1], []))
        elif line.startswith(" "):
            parts[-1][1][-1] += " " + line.strip()
        elif line and not line.startswith("#"):
            parts[-1][1].append(line)
    return parts


def read_prompts(path: Path) -> Mapping[str, str]:
    """The sections of a Markdown file by their headings."""
    _, *parts = re.split(r"^## (.*)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
