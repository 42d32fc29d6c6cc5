"""Whether the write-ahead log beside a database has lost what was committed. SQLite goes on without
what it cannot read there, and says nothing. The index of the log is a file that outlives a killed
process, and says how many frames there were; after a loss of power it may be older, never newer."""

import struct
from pathlib import Path

_HEADER = struct.Struct("=12xBxH I4x8s8s8x")
"""Of the index: whether it is valid, the size of a page, the frames, their checksum, the salts."""
_BACKFILLED = 96
"""Where the index says how many frames have been copied to the database."""
_LOG_HEADER, _FRAME_HEADER = 32, 24


def lost_commits(database: Path) -> bool:
    """To be asked before this process opens the database: closing its files drops its locks."""
    log, index = (database.with_name(database.name + end) for end in ("-wal", "-shm"))
    if not index.exists():
        return False
    said = index.read_bytes()[: _BACKFILLED + 4]
    if len(said) < _BACKFILLED + 4 or said[:48] != said[48:96]:
        return False  # it was being written
    valid, page, frames, _, salts = _HEADER.unpack(said[:48])
    (copied,) = struct.unpack("=I", said[_BACKFILLED:])
    if not valid or frames <= copied:
        return False
    data = log.read_bytes() if log.exists() else None
    if data is None or len(data) == 0:
        return data is None  # a checkpoint may have emptied it
    head = data[:_LOG_HEADER]
    if len(head) < _LOG_HEADER or head[24:] != _checksum(head, head[:24]):
        return True
    if head[16:24] != salts:
        return False  # the index is that of an earlier log
    return _readable(data, page, salts, int(frames)) < int(frames)


def _readable(data: bytes, page: int, salts: bytes, most: int) -> int:
    """How many frames SQLite would take."""
    head, size = data[:_LOG_HEADER], _FRAME_HEADER + (65_536 if page == 1 else page)
    last, view = head[24:], memoryview(data)
    for number in range(most):
        frame = view[_LOG_HEADER + number * size :][:size]
        if len(frame) < size or frame[8:16] != salts:
            return number
        last = _checksum(head, frame[:8], last)
        last = _checksum(head, frame[_FRAME_HEADER:], last)
        if frame[16:24] != last:
            return number
    return most


def _checksum(head: bytes, data: "bytes | memoryview", seed: bytes = bytes(8)) -> bytes:
    (magic,) = struct.unpack(">I", head[:4])
    order = ">" if magic & 1 else "<"
    first, second = struct.unpack(">II", seed)
    for one, other in struct.iter_unpack(f"{order}II", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return struct.pack(">II", first, second)
