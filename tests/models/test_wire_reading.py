"""How an answer is read from the wire, below every format."""

import gzip
from collections.abc import Iterator

import httpx
import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.models.wires.http import HttpConnection, cleaned
from hermes_agent.models.wires.streaming import EventReader
from tests.support.model_server import ModelServer, Raw

STREAM = (
    b": a comment\r\nevent: x\r\ndata: {\"a\": 1}\r\n\r\n\n\nid: 7\nretry: 10\n"
    b"data:two\n   \ndata:  three \xe2\x80\xa8 \n"
)  # fmt: skip
EVENTS = [b'{"a": 1}', b"two", b"three \xe2\x80\xa8"]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


async def read(server: ModelServer, raw: Raw) -> list[bytes]:
    server.answer_next(raw)
    wire, reader = HttpConnection(server.root, {}, 30.0), EventReader("it")
    try:
        async with wire.post("/x", b"{}", {}) as answer:
            found = [data async for piece in answer.pieces() for data in reader.feed(piece)]
    finally:
        await wire.close()
    return [data.strip() for data in (*found, *reader.end())]


async def test_events_are_found_however_they_are_cut(server: ModelServer) -> None:
    whole = STREAM
    for size in (1, 2, 3, 5, 17, len(whole)):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert await read(server, Raw(pieces)) == EVENTS


async def test_the_last_line_counts_without_its_end(server: ModelServer) -> None:
    assert await read(server, Raw([b"data: one\n\ndata: two"])) == [b"one", b"two"]
    assert await read(server, Raw([b"data: one\n", b"dat", b"a: two"])) == [b"one", b"two"]


async def test_a_packed_answer_is_unpacked(server: ModelServer) -> None:
    packed = gzip.compress(STREAM)
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    assert await read(server, Raw([packed[:20], packed[20:]], 200, headers)) == EVENTS


@pytest.mark.parametrize("line", [b"<html>", b"data", b"dataset: 1", b"what: 1", b"{}"])
async def test_a_line_that_is_no_field_is_garbage(server: ModelServer, line: bytes) -> None:
    for raw in (Raw([b"data: 1\n" + line + b"\ndata: 2\n"]), Raw([b"data: 1\n" + line])):
        with pytest.raises(ModelError) as caught:
            await read(server, raw)
        assert caught.value.kind == "garbage"


SECRET = "sk-live-0123456789-abcdef"


@pytest.mark.parametrize("cut", range(len(SECRET) + 1))
def test_a_secret_leaves_nothing_behind_wherever_it_was_cut(cut: int) -> None:
    for after in ("", "…", " and more", SECRET):
        error = cleaned(ModelError("auth", f"bad {SECRET[:cut]}{after}", SECRET[:cut]), [SECRET])
        assert SECRET[:8] not in error.message + error.hint
        assert error.message.startswith("bad ")
        assert error.message.endswith(after) or after == SECRET


def test_a_secret_that_begins_another_and_a_short_one_are_taken_out_whole() -> None:
    secrets = [SECRET, f"{SECRET}-longer", "abc", ""]
    error = cleaned(ModelError("auth", f"{SECRET}-longer, {SECRET}, abc, sk-live"), secrets)
    assert error.message == "[key], [key], [key], sk-live"


NO_PAUSES = ["9" * 400, "1.2.3", "-5", "inf", "nan", "1e400"]


@pytest.mark.parametrize("said", NO_PAUSES)
async def test_a_pause_that_is_no_time_is_none(server: ModelServer, said: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        assert await pause(server, {name: said}) is None


async def test_a_pause_is_a_day_at_most(server: ModelServer) -> None:
    assert await pause(server, {"retry-after": "9" * 20}) == 86_400.0
    assert await pause(server, {"retry-after-ms": "9" * 20}) == 86_400.0
    far = {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}
    assert await pause(server, far) == 86_400.0


def test_a_host_without_an_address_is_said_in_words() -> None:
    error = httpx.ConnectError("[Errno -2] Name or service not known")
    said = HttpConnection("https://api.example/v1", {}, 30.0).trouble(error).message
    assert said.endswith(": no address for api.example: no network or name server?")


async def pause(server: ModelServer, headers: dict[str, str]) -> float | None:
    server.answer_next(Raw([], 429, headers))
    wire = HttpConnection(server.root, {}, 30.0)
    try:
        async with wire.post("/x", b"{}", {}) as answer:
            return answer.retry_after()
    finally:
        await wire.close()
