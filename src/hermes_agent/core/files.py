"""Files that are replaced whole or not at all, some of them private. The only I/O in core: the
layers above have no other place in common."""

import fcntl
import os
import re
from pathlib import Path

from hermes_agent.core.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def credentials_file(home: Path, name: str, kind: str) -> Path:
    """Where something that belongs to the service `name` lies."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a service",
            "letters, digits, dots, dashes and underscores, with a letter or digit first",
        )
    return home / "credentials" / f"{name}.{kind}"


def private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def write_private(path: Path, data: bytes) -> None:
    """A reader sees the old content or the new; nobody else sees either."""
    import tempfile  # at the leaf: most processes write none

    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def write_durably(path: Path, data: bytes) -> None:
    """Write the whole file or nothing; it is on disk when this returns."""
    draft = path.with_name(path.name + ".new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Lock an open file; False if another process has."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
