"""What a server's program says beside the protocol, in a file that does not grow without end."""

import os
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 500_000
"""Of one file; when it is full it becomes `NAME.old`, and the one before that goes."""
TAIL_BYTES = 2_000


class Log:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._tail = b""

    def write(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        file = self._file or self._opened()
        if file.tell() + len(data) > MAX_BYTES:
            file.close()
            self._path.replace(self._path.with_suffix(".old"))
            file = self._opened()
        file.write(data[-MAX_BYTES:])
        file.flush()
        self._file = file

    def _opened(self) -> BinaryIO:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        file = os.fdopen(handle, "wb")
        file.seek(0, os.SEEK_END)
        return file

    def last_words(self, most: int = 300) -> str:
        """The end of what this run said, on one line."""
        text = " ".join(self._tail.decode("utf-8", "replace").split())
        shown = "".join(sign for sign in text if sign.isprintable())
        return shown if len(shown) <= most else "…" + shown[-most:]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
