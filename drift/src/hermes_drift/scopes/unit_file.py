"""Unit files of systemd, read as the manager reads them."""

from collections.abc import Mapping

Settings = Mapping[str, tuple[str, ...]]
"""`Service.ExecStart` and its values; an empty assignment takes away what came before."""


def settings_of(text: str) -> Settings:
    found: dict[str, list[str]] = {}
    section = ""
    for line in _lines(text):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        name, equals, value = line.partition("=")
        if not equals:
            continue
        values = found.setdefault(f"{section}.{name.strip()}", [])
        if value.strip():
            values.append(value.strip())
        else:
            values[:] = [""]
    return {name: tuple(values) for name, values in found.items()}


def _lines(text: str) -> list[str]:
    """Without comments, and with those joined that a backslash continues."""
    lines: list[str] = []
    held = ""
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(("#", ";")) or (not bare and not held):
            continue
        if bare.endswith("\\"):
            held += bare[:-1].rstrip() + " "
            continue
        lines.append(held + bare)
        held = ""
    return [*lines, held.strip()] if held else lines
