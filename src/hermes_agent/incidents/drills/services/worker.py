"""A worker that does the jobs of a spool folder, one after the other, oldest first.

    worker.py FILE.conf

A job is `in/ID.json` with `text`, `width` and `step`. It is claimed by moving it to `work/`, and
its result is `done/ID.json`. A job that was claimed and not finished stays in `work/`: nobody knows
how far it came.
"""

import configparser
import hashlib
import json
import os
import sys
import time
from pathlib import Path


def log(text: str) -> None:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True)


def take_lock(path: Path, patience: float) -> None:
    """One worker at a time: the lock is a file that is made by whoever has it."""
    said = 0.0
    while True:
        try:
            made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            if time.monotonic() - said > patience:
                log(f"WARNING waiting for the lock {path}: {path.read_text().strip()}")
                said = time.monotonic()
            time.sleep(0.1)
            continue
        os.write(made, f"pid {os.getpid()} since {time.strftime('%H:%M:%S')}\n".encode())
        os.close(made)
        return


def pieces(text: str, width: int, step: int) -> list[str]:
    """The text in windows of `width`, each `step` further on, without repeats."""
    found: list[str] = []
    start = 0
    while start < len(text):
        piece = text[start : start + width]
        if not found or found[-1] != piece:
            found.append(piece)
        start += step
    return found


def work(spool: Path, name: str) -> None:
    claimed = spool / "work" / name
    os.rename(spool / "in" / name, claimed)
    job = json.loads(claimed.read_text())
    log(f"INFO job {claimed.stem} begun")
    found = pieces(job["text"], job["width"], job["step"])
    digest = hashlib.sha256("".join(found).encode()).hexdigest()
    result = spool / "done" / (name + ".new")
    result.write_text(json.dumps({"pieces": len(found), "sha256": digest}))
    os.rename(result, spool / "done" / name)
    claimed.unlink()
    log(f"INFO job {claimed.stem} done, {len(found)} pieces")


def main() -> None:
    settings = configparser.ConfigParser()
    with open(sys.argv[1]) as file:
        settings.read_file(file)
    own = settings["service"]
    spool = Path(own["spool"])
    log(f"INFO worker started, spool {spool}")
    for left in sorted((spool / "work").iterdir()):
        log(f"WARNING job {left.stem} was begun and not finished; it stays in {left.parent}")
    while True:
        waiting = sorted((spool / "in").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in waiting:
            if own.get("lock"):
                take_lock(Path(own["lock"]), own.getfloat("patience", 2.0))
            try:
                work(spool, path.name)
            finally:
                if own.get("lock"):
                    Path(own["lock"]).unlink(missing_ok=True)
        time.sleep(own.getfloat("pause", 0.1))


if __name__ == "__main__":
    main()
