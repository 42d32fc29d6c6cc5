"""Files that only the user may read, replaced whole or not at all. The one place in core that
touches a disk: those who keep credentials know nothing else in common."""

import hashlib
import os
import re
import secrets
from collections.abc import Callable
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


class PseudonymHasher:
    """Names that platforms give to people and places, as hashes that only this home can make."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def open(
        cls, home: Path, random: Callable[[int], bytes] = secrets.token_bytes
    ) -> "PseudonymHasher":
        """With the key that lies among the home's credentials; the first use makes it."""
        file = credentials_file(home, "gateway", "key")
        try:
            return cls(file.read_bytes())
        except FileNotFoundError:
            private_folder(file.parent)
            write_private(file, random(32))
        return cls(file.read_bytes())

    def __call__(self, *parts: str) -> str:
        digest = hashlib.blake2b(key=self._key, digest_size=10)
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(4, "big") + data)
        return digest.hexdigest()
