"""`hermes skills report`: the lift table on this terminal, or as an image."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.learning.evaluation.table import picture, report

WIDEST = 100


def report_text(rows: Sequence[Mapping[str, Any]]) -> str:
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    return report(rows, width=width, plain=not can_draw(sys.stdout.encoding, os.environ))


def can_draw(encoding: str | None, environ: Mapping[str, str]) -> bool:
    """Whether bars and dots can be shown."""
    try:
        "●▁┄".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return environ.get("TERM") != "dumb"


def write_image(rows: Sequence[Mapping[str, Any]], path: str) -> None:
    if not path.endswith(".svg"):
        raise UsageError(f"{path!r} is no name of an SVG image", "name it FILE.svg")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture(rows))
    except OSError as error:
        raise HermesError(f"cannot write {path}: {error.strerror}", "name another file") from None
    print(f"wrote {path}", file=sys.stderr)
