"""Well-known files in which programs keep credentials: `secret_files.table`, for the gate, the
sandbox and searches."""

from pathlib import Path

_TEXT = Path(__file__).with_suffix(".table").read_text(encoding="utf-8")


def _section(name: str) -> tuple[str, ...]:
    lines = _TEXT.partition(f"[{name}]\n")[2].partition("\n[")[0].splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


SECRET_FILES = _section("denied")
"""Nothing but their own programs needs them: reading them is denied."""
SECRET_KEYS = _section("for logging in")
"""Commands name these to log in with them; what else reads them is denied."""
SECRET_NAMES = _section("asked about")
"""They may hold secrets: somebody is asked, and what cannot be understood does not see them."""
