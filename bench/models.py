"""The wire formats: what reading an answer costs beside reading its bytes with plain httpx, many
streams at once, connections and TLS contexts that are used again, and what each import takes. The
answers are those of the tests."""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from zlib import crc32

import httpx
import msgspec

from bench.calls import REQUEST, Calls
from bench.replay import CONNECTIONS
from bench.table import Figure, scaled
from hermes_agent.core.messages import Usage
from tests.support.wires import Case, WireUnderTest

WIRES = {
    "openai_chat": "openai.chat",
    "openai_responses": "openai.responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "bedrock": "bedrock.client",
    "mistral": "mistral",
}
"""The wire formats, with the module of each below `models.wires` that opens a client."""
FIRST = "openai_chat"
MANY = scaled(500, 20)
SIZES = {1: scaled(300, 1), MANY: scaled(30, 1), scaled(5_000, 60): scaled(8, 1)}
"""Pieces of an answer, and how often it is read; one piece shows what a request costs."""
PACKED = 50
"""Events in one chunk, as many proxies send them."""
AT_ONCE = scaled(100, 5)
CALLS = scaled(200, 10)
IMPORTS = scaled(9, 1)
BASE = "hermes_agent.models.wires.streaming"
"""What every format imports, with all that it needs."""

Ask = Callable[[], Awaitable[None]]
Read = Callable[[httpx.Response], Awaitable[None]]


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for name in WIRES:
            for size in SIZES:
                (Path(folder) / f"{name}-{size}").write_bytes(_response(_wire(name), size))
            packed = _response(_wire(name), max(SIZES), PACKED)
            (Path(folder) / f"{name}-packed").write_bytes(packed)
        with replay(Path(folder)) as port:
            root = f"http://127.0.0.1:{port}"
            for name in WIRES:
                yield from _reading(name, root)
            for name in WIRES:
                yield _many(name, root)
            opened = _opened(Path(folder))
            asyncio.run(_call(FIRST, root, CALLS))
            yield Figure(
                f"connections for {CALLS} calls, one after the other",
                _opened(Path(folder)) - opened, "", 1, "", 1, "",
            )  # fmt: skip
        yield from _over_tls(Path(folder))
    for name in WIRES:
        yield _importing(name)


def _wire(name: str) -> WireUnderTest:
    wire: WireUnderTest = import_module(f"tests.support.wires.{name}").WIRE
    return wire


def _response(wire: WireUnderTest, size: int, packed: int = 1) -> bytes:
    """A whole HTTP response, so many events in a chunk: one, as services send them, or more."""
    raw = wire.answer(Case("bench", ("word ",) * size, usage=Usage(10, size)))
    headers = "".join(f"{name}: {value}\r\n" for name, value in raw.headers.items())
    head = f"HTTP/1.1 200 OK\r\n{headers}transfer-encoding: chunked\r\n\r\n".encode()
    pieces = [b"".join(raw.pieces[at : at + packed]) for at in range(0, len(raw.pieces), packed)]
    chunks = (b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head + b"".join(chunks) + b"0\r\n\r\n"


@contextmanager
def replay(folder: Path, certificate: str = "") -> Iterator[int]:
    """The port of a server of these answers, in a process of its own."""
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.replay", str(folder), certificate], stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline())
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _opened(folder: Path) -> int:
    return (folder / CONNECTIONS).stat().st_size


# reading


def _reading(name: str, root: str) -> Iterator[Figure]:
    for size, rounds in SIZES.items():
        plain, ours = asyncio.run(_both(name, f"{root}/{name}-{size}", rounds))
        yield Figure(
            f"{name}: an answer in {size:,} piece{'s' * (size > 1)}, times plain httpx",
            ours / plain, "x", plain * 1000, "ms with httpx", 1.5, "x",
        )  # fmt: skip
    size, rounds = max(SIZES), 3 * SIZES[max(SIZES)]
    cut, plainly = ("frames", _cut_frames) if name == "bedrock" else ("lines", _cut_lines)
    plain, ours = asyncio.run(_both(name, f"{root}/{name}-packed", rounds, plainly))
    yield Figure(
        f"{name}: {size:,} pieces, {PACKED} in a chunk, times httpx that only cuts {cut}",
        ours / plain, "x", plain * 1000, f"ms for {cut}", 1.5, "x",
    )  # fmt: skip


async def _read(response: httpx.Response) -> None:
    async for _piece in response.aiter_bytes():
        pass


async def _cut_lines(response: httpx.Response) -> None:
    async for _line in response.aiter_lines():
        pass


async def _cut_frames(response: httpx.Response) -> None:
    """By their lengths, each checked as the format wants it."""
    rest = b""
    async for piece in response.aiter_bytes():
        rest += piece
        at, end = 0, len(rest)
        while end - at >= 4 and end - at >= (length := int.from_bytes(rest[at : at + 4])):
            crc32(rest[at : at + length - 4])
            at += length
        rest = rest[at:]


async def _both(name: str, url: str, rounds: int, plainly: Read = _read) -> tuple[float, float]:
    """The processor time of this process, which only reads, for one answer: the least of rounds
    in turn, so that neither has a quieter machine."""
    plain, ours = [], []
    async with _Asking(name, url, plainly) as (ask_plain, ask_ours):
        for _ in range(rounds):
            plain.append(await _seconds(ask_plain))
            ours.append(await _seconds(ask_ours))
    return min(plain), min(ours)


async def _seconds(ask: Ask) -> float:
    began = time.process_time()
    await ask()
    return time.process_time() - began


class _Asking:
    """Both ways to ask: plainly, and through the format."""

    def __init__(self, name: str, url: str, plainly: Read = _read) -> None:
        self._plainly = plainly
        self._wire = _wire(name)
        self._url = url
        self._plain = httpx.AsyncClient(verify=False, timeout=30, limits=httpx.Limits())
        self._speaker = self._wire.open(self._wire.endpoint(url))

    async def __aenter__(self) -> tuple[Ask, Ask]:
        return self._ask_plain, self._ask_ours

    async def __aexit__(self, *_: object) -> None:
        await self._plain.aclose()
        await self._speaker.close()

    async def _ask_plain(self) -> None:
        async with self._plain.stream("POST", self._url + "/x", content=b"{}") as response:
            await self._plainly(response)

    async def _ask_ours(self) -> None:
        async for _chunk in self._speaker.stream(REQUEST, self._wire.credential):
            pass


def _many(name: str, root: str) -> Figure:
    """Streams at once, by wall time: the best of three tries for each way."""

    async def rate(ask: Ask) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
        return AT_ONCE / (time.perf_counter() - began)

    async def best() -> tuple[float, float]:
        async with _Asking(name, f"{root}/{name}-{MANY}") as (ask_plain, ask_ours):
            rates = [(await rate(ask_plain), await rate(ask_ours)) for _ in range(3)]
        return max(plain for plain, _ in rates), max(ours for _, ours in rates)

    plain, ours = asyncio.run(best())
    return Figure(
        f"{name}: {AT_ONCE} streams of {MANY} pieces at once",
        ours, "answers/s", plain, "answers/s with httpx",
    )  # fmt: skip


# connections


async def _call(name: str, root: str, times: int) -> None:
    async with _Asking(name, f"{root}/{name}-{MANY}") as (_, ask_ours):
        for _round in range(times):
            await ask_ours()


def _over_tls(folder: Path) -> Iterator[Figure]:
    """Many calls by one format and one by each other, in a process that trusts the server."""
    certificate = folder / "server.pem"
    _make_certificate(certificate)
    with replay(folder, str(certificate)) as port:
        calls = [
            Calls(
                f"hermes_agent.models.wires.{WIRES[name]}",
                _wire(name).endpoint(f"https://localhost:{port}/{name}-{MANY}"),
                _wire(name).credential,
                CALLS if name == FIRST else 1,
            )
            for name in WIRES
        ]
        opened = _opened(folder)
        done = subprocess.run(
            [sys.executable, "-m", "bench.calls"],
            input=msgspec.json.encode(calls),
            env={**os.environ, "SSL_CERT_FILE": str(certificate)},
            stdout=subprocess.PIPE,
            check=True,
        )
        opened = _opened(folder) - opened
    many = f"{CALLS + len(WIRES) - 1} calls of {len(WIRES)} formats over TLS"
    limit = len(WIRES)
    yield Figure(f"connections for {many}", opened, "", limit, "one each", limit, "")
    yield Figure(f"TLS contexts for {many}", int(done.stdout), "", 1, "", 1, "")


def _make_certificate(path: Path) -> None:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))


# imports


def _importing(name: str) -> Figure:
    """In a fresh interpreter that has what every format needs."""
    module = f"hermes_agent.models.wires.{WIRES[name]}"
    base, own = [], []
    for _ in range(IMPORTS):
        code = (
            "import time; began = time.perf_counter()\n"
            f"import {BASE}\n"
            f"middle = time.perf_counter(); import {module}\n"
            "print(middle - began, time.perf_counter() - middle)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        first, second = map(float, done.stdout.split())
        base.append(first)
        own.append(second)
    return Figure(
        f"importing {name}, beyond what all formats import",
        statistics.median(own) * 1000, "ms",
        statistics.median(base) * 1000, "ms for what all import", 20.0, "ms",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit("run `python -m bench models`")
