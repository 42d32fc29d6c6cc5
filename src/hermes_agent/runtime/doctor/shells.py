"""What the doctor says of shells that are held open."""

from pathlib import Path
from typing import Literal

from hermes_agent.terminals.shell.spool import Spool, process_lives

Report = tuple[Literal["ok", "warn"], str, str]


def look(home: Path, idle_seconds: float, now: float) -> Report:
    """One that is idle ends by itself, so an old one is stuck."""
    held, stuck = 0, []
    for note in sorted((home / "terminals").glob("*/local/keeper.*")):
        words = _words_in(note)
        if len(words) < 2 or not words[0].isdigit() or not process_lives(int(words[0]), words[1]):
            continue
        held += 1
        last = Spool(note.parent).now()
        ended = note.parent / f"{last}.r"
        since = ended.stat().st_mtime if last and ended.exists() else now
        if now - since > 2 * idle_seconds + 60:
            stuck.append(words[0])
    if stuck:
        pids = ", ".join(stuck)
        return "warn", f"idle for too long: pid {pids}", f"kill {pids}"
    return "ok", f"{held} held open" if held else "none held open", ""


def _words_in(note: Path) -> list[str]:
    try:
        return note.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return []  # its shell has ended just now
