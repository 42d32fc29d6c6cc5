"""The long recalculation: busy for hours, and supposed to be.

    batch.py FOLDER SHARE [LOCK]

Writes how far it is to FOLDER/progress once a second. SHARE (0 to 1) is how much of one processor
it takes. While it is at work, LOCK holds its process id.
"""

import hashlib
import os
import sys
import time
from pathlib import Path


def main() -> None:
    folder, share = Path(sys.argv[1]), float(sys.argv[2])
    if len(sys.argv) > 3:
        Path(sys.argv[3]).write_text(f"{os.getpid()}\n")
    total = b""
    rounds = 0
    written = 0.0
    while True:
        begun = time.monotonic()
        while time.monotonic() - begun < 0.1 * share:
            total = hashlib.sha256(total).digest()
            rounds += 1
        if begun - written >= 1:
            (folder / "progress").write_text(f"{rounds} rounds, {total.hex()[:16]}\n")
            written = begun
        time.sleep(0.1 * (1 - share))


if __name__ == "__main__":
    main()
