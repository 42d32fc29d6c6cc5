"""Makes exports that people ask for.

    exporter.py FOLDER

A request is `FOLDER/requests/ID` with the number of rows. The rows are collected in a scratch file
that has no name any more (so nothing is left when the exporter dies), and are then moved to
`FOLDER/ready/ID`.
"""

import os
import shutil
import sys
import time
from pathlib import Path


def log(text: str) -> None:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True)


def export(folder: Path, id: str, rows: int) -> None:
    scratch = folder / f"export-{id}.part"
    with open(scratch, "w+b", buffering=0) as file:
        scratch.unlink()
        for number in range(rows):
            line = f"{id} {number} ".encode().ljust(4096, b".") + b"\n"
            waited = False
            while line:
                try:
                    line = line[file.write(line) or 0 :]
                except OSError as error:
                    if not waited:
                        log(f"WARNING export {id}: {error.strerror} at {number}; waiting for room")
                    waited = True
                    time.sleep(0.2)
        file.seek(0)
        with open(folder / "ready" / id, "wb") as ready:
            shutil.copyfileobj(file, ready)
    log(f"INFO export {id} is ready, {rows} rows")


def main() -> None:
    folder = Path(sys.argv[1])
    log(f"INFO exporter looks at {folder}/requests")
    while True:
        for request in sorted((folder / "requests").iterdir()):
            rows = int(request.read_text())
            os.unlink(request)
            log(f"INFO export {request.name} of {rows} rows begun")
            export(folder, request.name, rows)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
