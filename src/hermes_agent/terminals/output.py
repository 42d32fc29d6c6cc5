"""What a command wrote, as text: an excerpt when it has ended, news while it runs."""

import codecs
import os
from collections.abc import Callable
from pathlib import Path

NEWS_BYTES = 65_536
"""The most that is passed on at once while a command runs; a flood is skipped, not queued."""


def excerpt(path: str, limit: int) -> tuple[str, int]:
    """The text of a file, cut in the middle beyond `limit` characters, and its size in bytes."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return "", 0
    try:
        size = os.fstat(file).st_size
        # A character has at most four bytes.
        if size <= 4 * limit:
            text = os.pread(file, size, 0).decode("utf-8", "replace")
            if len(text) <= limit:
                return text, size
            head = end = text
        else:
            head = os.pread(file, 2 * limit + 4, 0).decode("utf-8", "replace")
            end = os.pread(file, 2 * limit, size - 2 * limit).decode("utf-8", "replace")
    finally:
        os.close(file)
    head, tail = head[: limit - limit // 2], end[len(end) - limit // 2 :]
    gone = max(0, size - len(head.encode()) - len(tail.encode()))
    return f"{head}\n[... {gone:,} bytes left out; all of it is in {path} ...]\n{tail}", size


class News:
    """Passes on what the two output files gain."""

    def __init__(self, paths: tuple[Path, Path], tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._places = dict.fromkeys(paths, 0)
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {path: decoder("replace") for path in paths}

    def skip(self) -> None:
        """Leave out what is there already."""
        for path in self._places:
            self._places[path] = path.stat().st_size if path.exists() else 0

    def pass_on(self) -> None:
        for path, place in self._places.items():
            try:
                file = path.open("rb")
            except FileNotFoundError:
                continue
            with file:
                size = file.seek(0, 2)
                text = ""
                if size - place > NEWS_BYTES:
                    text = f"\n[... {size - place - NEWS_BYTES:,} bytes skipped ...]\n"
                    place = size - NEWS_BYTES
                file.seek(place)
                text += self._decoders[path].decode(file.read(size - place))
            self._places[path] = size
            if text:
                self._tell(text)
