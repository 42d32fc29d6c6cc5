"""Takes tasks out of a spool, the oldest first, and leaves a result for each.

    SPOOL/inbox/NAME.json   {"lines": [{"item": "...", "count": 2, "price": 150}, ...]}
    SPOOL/done/NAME.json    {"task": "NAME", "total": 300}

Settings are variables of the environment: SPOOL, LOG_FILE, LEASE (a file: only who holds it works,
others stand by).
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

PAUSE = 0.1
TELL = 5.0


def say(level: str, text: str) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S +0000", time.gmtime())
    with open(os.environ["LOG_FILE"], "a") as file:
        file.write(f"[{stamp}] [{os.getpid()}] [{level}] {text}\n")


def lead(lease: Path) -> None:
    """Come back when the lease is ours."""
    told = 0.0
    while True:
        try:
            with open(lease, "x") as file:
                file.write(f"{os.uname().nodename}:{os.getpid()} {time.strftime('%F %T')}\n")
            say("INFO", f"acquired lease {lease}")
            return
        except FileExistsError:
            if time.monotonic() - told > TELL:
                told = time.monotonic()
                say("INFO", f"standing by: lease {lease} is held by {lease.read_text().strip()}")
        time.sleep(PAUSE)


def total(text: str) -> int:
    lines = json.loads(text)["lines"]
    return sum(int(line["count"]) * int(line["price"]) for line in lines)


def take(task: Path, done: Path) -> None:
    say("INFO", f"processing {task.name}")
    result = {"task": task.stem, "total": total(task.read_text())}
    draft = done / f".{task.name}"
    draft.write_text(json.dumps(result))
    draft.rename(done / task.name)
    task.unlink()


def main() -> None:
    spool = Path(os.environ["SPOOL"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    lease = os.environ.get("LEASE", "")
    if lease:
        lead(Path(lease))
    say("INFO", f"watching {spool}/inbox")
    try:
        while True:
            waiting = sorted((spool / "inbox").glob("*.json"), key=lambda one: one.stat().st_mtime)
            for task in waiting:
                take(task, spool / "done")
            time.sleep(PAUSE)
    finally:
        if lease:
            Path(lease).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
