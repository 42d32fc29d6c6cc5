"""Programs that run in a box, by a bare Python: each is a script of its own that imports the
standard library alone."""

from pathlib import Path

HERE = Path(__file__).parent


def source(name: str) -> str:
    """The text of a program."""
    return (HERE / name).read_text("utf-8")
