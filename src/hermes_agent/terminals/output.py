"""What a command wrote, as text: an excerpt when it has ended, news while it runs."""

import codecs
import os
from collections.abc import Callable

from hermes_agent.terminals.command_backend import OutputExcerpt

NEWS_BYTES = 65_536
"""The most that is passed on at once; a flood is skipped, not queued."""


def wanted(limit: int) -> tuple[int, int, int]:
    """How much to read of a file for an excerpt of `limit` characters: up to which size whole,
    else how many bytes of its head and of its tail. A character has at most four bytes."""
    return 4 * limit, 2 * limit + 4, 2 * limit


def piece(path: str, limit: int) -> OutputExcerpt:
    """What an excerpt needs of a local file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return OutputExcerpt()
    try:
        size = os.fstat(file).st_size
        whole, head, tail = wanted(limit)
        if size <= whole:
            return OutputExcerpt(size, os.pread(file, size, 0))
        return OutputExcerpt(size, os.pread(file, head, 0), os.pread(file, tail, size - tail))
    finally:
        os.close(file)


def excerpt(piece: OutputExcerpt, limit: int, path: str) -> str:
    """The text, cut in the middle beyond `limit` characters."""
    head = piece.head.decode("utf-8", "replace")
    if piece.tail is None:
        if len(head) <= limit:
            return head
        end = head
    else:
        end = piece.tail.decode("utf-8", "replace")
    head, tail = head[: limit - limit // 2], end[len(end) - limit // 2 :]
    gone = max(0, piece.size - len(head.encode()) - len(tail.encode()))
    return f"{head}\n[... {gone:,} bytes left out; all of it is in {path} ...]\n{tail}"


def beyond(path: str, place: int) -> tuple[int, bytes]:
    """What a local file has beyond an offset, only the last part of it when that is much."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return place, b""
    try:
        size = os.fstat(file).st_size
        start = max(place, size - NEWS_BYTES)
        return start, os.pread(file, max(0, size - start), start)
    finally:
        os.close(file)


class OutputTail:
    """Passes on what stdout and stderr gain."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.places = [0, 0]
        self._tell = tell
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = [decoder("replace"), decoder("replace")]

    def take(self, stream: int, start: int, data: bytes) -> None:
        skipped = start - self.places[stream]
        text = f"\n[... {skipped:,} bytes skipped ...]\n" if skipped > 0 else ""
        text += self._decoders[stream].decode(data)
        self.places[stream] = start + len(data)
        if text:
            self._tell(text)
