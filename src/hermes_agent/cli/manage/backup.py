"""Copies of the home: `hermes backup` and `hermes restore`."""

import argparse
import os
from datetime import datetime
from pathlib import Path

from hermes_agent.cli.actions import emit
from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import count, size, sure
from hermes_agent.cli.output.progress import Progress
from hermes_agent.host.home import Home
from hermes_agent.host.paths import find_home


def backup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", default="", help="default: backups/hermes-DATE-TIME.tar.gz in the home"
    )
    json_option(parser)


def backup(options: argparse.Namespace) -> int:
    """Write a verified copy of the home to a file: the database, settings, documents and results.
    The runtime keeps working meanwhile. Logs, shells and older backups are left out."""
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

    with Progress("writing the backup") as progress:
        done = write_backup(home, target, now, copy, progress.update)
    text = (
        f"wrote {done.file}\n{count(done.files, 'file')}, {size(done.bytes)}, compressed to "
        f"{size(done.file.stat().st_size)}; read back and verified"
    )
    for path in done.left_out:
        text += f"\nleft out: {path} is a link to a folder, or a broken link"
    document = {
        "file": str(done.file), "files": done.files, "bytes": done.bytes, "created": done.created,
        "left_out": list(done.left_out),
    }  # fmt: skip
    return emit(options, document, text)


def restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a file that `hermes backup` wrote")
    parser.add_argument("--check", action="store_true", help="verify the file and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    json_option(parser)


def restore(options: argparse.Namespace) -> int:
    """Restore a home from a backup. The whole file is verified before anything is touched; the
    current home is moved aside, never deleted. The runtime must be down."""
    from hermes_agent.runtime.backup import check_backup, no_backup, owned, restore_backup

    archive = Path(os.path.abspath(options.file))
    home = Path(find_home(os.environ))
    aside: Path | None = None
    if options.check:
        with Progress("checking the backup"):
            done = check_backup(archive)
    else:
        if not archive.exists():
            raise no_backup(archive)
        if os.path.lexists(home) and not options.yes:
            with owned(Home(home)), Progress("checking the backup"):
                check_backup(archive)
            if not sure(f"replace {home} with {archive}?", False):
                print("nothing was changed")
                return 1
        with Progress("checking and unpacking the backup"):
            done, aside = restore_backup(archive, home, datetime.now().astimezone())
    what = "is intact" if options.check else f"was restored to {home}"
    text = f"{archive} {what}: {count(done.files, 'file')}, {size(done.bytes)}, made {done.created}"
    if aside is not None:
        text += f"\nthe previous home is in {aside}"
    document = {
        "file": str(archive), "files": done.files, "bytes": done.bytes, "created": done.created,
        "restored": not options.check, "aside": str(aside) if aside else None,
    }  # fmt: skip
    return emit(options, document, text)
