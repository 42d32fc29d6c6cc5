"""Our reader of AWS's frames against botocore's."""

import struct
from typing import Any
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer, ParserError
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.models.wires.bedrock.event_stream import DamagedFrame, Frame, FrameReader
from tests.support.wires.bedrock import frame, framed

NAMES = st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=30)
HEADERS = st.dictionaries(NAMES, st.text(max_size=40), max_size=5)
FRAMES = st.lists(st.tuples(HEADERS, st.binary(max_size=300)), max_size=6)


def read(*pieces: bytes) -> list[Frame]:
    reader = FrameReader()
    return [frame for piece in pieces for frame in reader.feed(piece)]


def by_botocore(data: bytes) -> list[tuple[Any, bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(message.headers, message.payload) for message in buffer]


@settings(max_examples=150, deadline=None)
@given(FRAMES, st.lists(st.integers(1, 60)))
def test_frames_are_read_as_botocore_reads_them_however_they_are_cut(
    frames: list[tuple[dict[str, str], bytes]], cuts: list[int]
) -> None:
    data = b"".join(frame(payload, headers) for headers, payload in frames)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    assert read(*pieces, data[at:]) == by_botocore(data) == frames


def test_headers_of_every_kind_are_passed_over_or_kept() -> None:
    def header(name: str, kind: int, value: bytes) -> bytes:
        return bytes((len(name),)) + name.encode() + bytes((kind,)) + value

    headers = b"".join(
        (
            header("true", 0, b""), header("false", 1, b""), header("byte", 2, b"\1"),
            header("short", 3, b"\0\1"), header("int", 4, b"\0" * 4), header("long", 5, b"\0" * 8),
            header("bytes", 6, b"\0\2xy"), header("text", 7, b"\0\2hi"),
            header("moment", 8, b"\0" * 8), header("id", 9, b"\0" * 16),
        )
    )  # fmt: skip
    data = framed(headers, b"{}")
    assert set(by_botocore(data)[0][0]) >= {"true", "bytes", "text", "moment", "id"}
    assert read(data) == [({"text": "hi"}, b"{}")]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_one_wrong_bit_is_found(data: st.DataObject) -> None:
    whole = frame(b'{"delta": {"text": "hello"}}', {":event-type": "contentBlockDelta"})
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    changed = bytearray(whole)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedFrame):
        read(bytes(changed))
    with pytest.raises(ParserError):
        by_botocore(bytes(changed))


@pytest.mark.parametrize(
    ("length", "headers"),
    [(0, 0), (15, 0), (16, 1), (2**32 - 1, 0), (100_000_000, 0), (1_000_000, 200_000)],
)
def test_impossible_lengths_are_refused_before_anything_is_kept(length: int, headers: int) -> None:
    prelude = struct.pack("!II", length, headers)
    with pytest.raises(DamagedFrame):
        read(prelude + struct.pack("!I", crc32(prelude)) + b"\0" * 100)


@pytest.mark.parametrize(
    "headers",
    [b"\5ab", b"\1a", b"\1a\x63", b"\1a\7", b"\1a\7\0", b"\1a\7\0\x09hi", b"\1\xff\7\0\0",
     b"\1a\7\0\1\xff", b"\1a\5\0"],
)  # fmt: skip
def test_headers_that_cannot_be_read_are_damage(headers: bytes) -> None:
    with pytest.raises(DamagedFrame):
        read(framed(headers, b"{}"))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_frames_are_damage_or_wait_for_more(data: bytes) -> None:
    if len(data) < 12:
        assert read(data) == []
    else:
        with pytest.raises(DamagedFrame):
            read(data)


def test_a_large_frame_in_small_pieces_is_put_together_once() -> None:
    payload = b"x" * 2_000_000
    data = frame(payload, {"a": "b"})
    pieces = [data[at : at + 1000] for at in range(0, len(data), 1000)]
    assert read(*pieces) == [({"a": "b"}, payload)]
