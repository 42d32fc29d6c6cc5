"""Write a checked copy of the home to a file: the database, settings, documents and results. The
runtime goes on working meanwhile. Logs, shells and older backups are left out."""

import argparse
import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import print_json, size

LARGE = 50_000_000
"""From this size on, progress is shown."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", default="", help="default: backups/hermes-DATE-TIME.tar.gz in the home"
    )
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    from hermes_agent.runtime.backup import copy_database, default_target, write_backup

    api = RuntimeClient()
    home = Path(api.home)
    now = datetime.now().astimezone()
    target = Path(os.path.abspath(options.file)) if options.file else default_target(home, now)

    def copy(database: Path) -> None:
        if api.is_up():
            api.post("/v1/backup", to=str(database))
        else:
            copy_database(home, database)

    done = write_backup(home, target, now, copy, progress_to_terminal())
    if options.json:
        print_json({"file": str(done.file), "files": done.files, "bytes": done.bytes,
                    "created": done.created, "left_out": list(done.left_out)})  # fmt: skip
        return 0
    packed = done.file.stat().st_size
    print(f"wrote {done.file}")
    print(f"{done.files} files, {size(done.bytes)}, packed {size(packed)}; read back and checked")
    for path in done.left_out:
        print(f"left out: {path} is a link to a folder, or to nothing")
    return 0


def progress_to_terminal() -> Callable[[int, int], None]:
    shown = -1

    def progress(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total if total else 100
        if total < LARGE or percent == shown or not sys.stderr.isatty():
            return
        shown = percent
        end = "\n" if percent >= 100 else ""
        print(f"\r{percent:3d} % of {size(total)}", end=end, file=sys.stderr, flush=True)

    return progress
