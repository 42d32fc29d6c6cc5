"""What a command wrote, as text for the caller: an excerpt when it has ended, news while it runs."""

import codecs
from collections.abc import Callable
from pathlib import Path

NEWS_BYTES = 65_536
"""The most that is passed on at once while a command runs; a flood is skipped, not queued."""


def excerpt(path: Path, limit: int) -> tuple[str, int]:
    """The text of a file, cut in the middle beyond `limit` characters, and its size in bytes."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return "", 0
    with file:
        size = file.seek(0, 2)
        file.seek(0)
        if size <= 4 * limit:
            text = file.read(size).decode("utf-8", "replace")
            if len(text) <= limit:
                return text, size
            head, tail = text[: limit - limit // 2], text[len(text) - limit // 2 :]
        else:
            # A character has at most four bytes, so these hold half the limit each.
            head = file.read(2 * limit + 2).decode("utf-8", "replace")[: limit - limit // 2]
            file.seek(size - 2 * limit)
            end = file.read().decode("utf-8", "replace")
            tail = end[len(end) - limit // 2 :]
    gone = max(0, size - len(head.encode()) - len(tail.encode()))
    return f"{head}\n[... {gone:,} bytes left out; all of it is in {path} ...]\n{tail}", size


class News:
    """Passes on what the two output files gain."""

    def __init__(self, paths: tuple[Path, Path], tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._places = {path: 0 for path in paths}
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
