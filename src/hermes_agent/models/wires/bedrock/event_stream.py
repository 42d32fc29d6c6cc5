"""AWS's binary event streams (`application/vnd.amazon.eventstream`): bytes in, frames out."""

from collections.abc import Iterator
from struct import Struct, error
from zlib import crc32

MAX_FRAME_BYTES = 24_000_000
"""AWS's own limit, more or less."""
MAX_HEADER_BYTES = 128 * 1024
KEPT_HEADERS = 64
"""How many different headers of a stream are cached."""

_PRELUDE = Struct("!III")  # length of the frame, length of its headers, checksum of both
_CHECKSUM = Struct("!I")
_FRAME_BYTES = _PRELUDE.size + _CHECKSUM.size
_SHORT = Struct("!H")
_FIXED_BYTES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Sizes of the fixed-size header types: true, false, numbers, timestamp, UUID."""
_BYTES, _STRING = 6, 7


class DamagedFrame(ValueError):
    """An invalid or corrupt frame."""


Frame = tuple[dict[str, str], bytes]
"""The headers whose value is text, and the payload."""


class FrameReader:
    """Splits a stream into frames and verifies their checksums."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._size = 0
        self._needed = _PRELUDE.size
        # The frames of a stream have a handful of different headers: each is read once.
        self._known: dict[bytes, dict[str, str]] = {}

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """The frames that this chunk completes."""
        if self._waiting:
            self._waiting.append(piece)
            self._size += len(piece)
            if self._size < self._needed:
                return
            piece = b"".join(self._waiting)
        start, end, self._needed = 0, len(piece), _PRELUDE.size
        while end - start >= _PRELUDE.size:
            length, header_length, checksum = _PRELUDE.unpack_from(piece, start)
            if crc32(piece[start : start + 8]) != checksum:
                raise DamagedFrame("the beginning of a frame has a wrong checksum")
            if header_length + _FRAME_BYTES > length or header_length > MAX_HEADER_BYTES:
                raise DamagedFrame("the headers of a frame are too long")
            if length > MAX_FRAME_BYTES:
                raise DamagedFrame("a frame is too long")
            if end - start < length:
                self._needed = length
                break
            headers_end, payload_end = start + _PRELUDE.size + header_length, start + length - 4
            (checksum,) = _CHECKSUM.unpack_from(piece, payload_end)
            if crc32(piece[start:payload_end]) != checksum:
                raise DamagedFrame("a frame has a wrong checksum")
            headers = self._headers(piece[start + _PRELUDE.size : headers_end])
            yield headers, piece[headers_end:payload_end]
            start += length
        self._waiting = [piece[start:]] if start < end else []
        self._size = end - start

    def _headers(self, raw: bytes) -> dict[str, str]:
        headers = self._known.get(raw)
        if headers is None:
            headers = _read_headers(raw)
            if len(self._known) < KEPT_HEADERS:
                self._known[raw] = headers
        return headers


def _read_headers(raw: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(raw):
            name_end = at + 1 + raw[at]
            name, kind = raw[at + 1 : name_end].decode(), raw[name_end]
            at = name_end + 1
            if kind in (_BYTES, _STRING):
                (size,) = _SHORT.unpack_from(raw, at)
                at += _SHORT.size
                if kind == _STRING:
                    headers[name] = raw[at : at + size].decode()
            else:
                size = _FIXED_BYTES[kind]
            at += size
    except (IndexError, KeyError, UnicodeDecodeError, error):
        raise DamagedFrame("the headers of a frame cannot be read") from None
    if at > len(raw):
        raise DamagedFrame("the headers of a frame cannot be read")
    return headers
