"""Bring a home back from a backup. Everything in the file is checked before anything is touched;
what is in the home now is moved aside, never deleted. The runtime must be down."""

import argparse
import os
from datetime import datetime
from pathlib import Path

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.output.formatting import print_json, size, sure
from hermes_agent.host.paths import find_home


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="what `hermes backup` wrote")
    parser.add_argument("--check", action="store_true", help="check the file and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    from hermes_agent.runtime.backup import check_backup, no_backup, restore_backup

    archive = Path(os.path.abspath(options.file))
    home = Path(find_home(os.environ))
    aside: Path | None = None
    if options.check:
        done = check_backup(archive)
    else:
        if not archive.exists():
            raise no_backup(archive)
        question = f"put {archive} in the place of {home}?"
        if os.path.lexists(home) and not sure(question, options.yes):
            print("nothing was changed")
            return 1
        done, aside = restore_backup(archive, home, datetime.now().astimezone())
    if options.json:
        print_json({"file": str(archive), "files": done.files, "bytes": done.bytes,
                    "created": done.created, "restored": not options.check,
                    "aside": str(aside) if aside else None})  # fmt: skip
        return 0
    what = "is sound" if options.check else f"was restored to {home}"
    print(f"{archive} {what}: {done.files} files, {size(done.bytes)}, made {done.created}")
    if aside is not None:
        print(f"what was there before is in {aside}")
    return 0
