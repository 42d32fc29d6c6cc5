"""The guarded proxy, spoken to as a browser does."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from hermes_agent.policy.network.egress import Resolver
from hermes_agent.policy.network.proxy import GREETING, GuardingProxy, open_proxy
from tests.support.patience import PATIENCE


@asynccontextmanager
async def proxy(
    *allowed: str, denied: str = "", resolver: Resolver | None = None, **names: Sequence[str]
) -> AsyncIterator[GuardingProxy]:
    async def look_up(name: str) -> Sequence[str]:
        known = names.get(name.replace(".", "_"))
        if known is None:
            raise OSError(-2, "Name or service not known")
        return known

    def reach(host: str, _address: str, public: bool) -> bool:
        return host != denied if public else host in allowed

    made = await open_proxy(reach, resolver=resolver or look_up)
    try:
        yield made
    finally:
        await made.close()


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], "asyncio.Future[None] | object"]


@asynccontextmanager
async def server(talk: Talk, host: str = "127.0.0.1") -> AsyncIterator[int]:
    made = await asyncio.start_server(talk, host, 0)
    try:
        yield made.sockets[0].getsockname()[1]
    finally:
        made.close()


class Echo:
    """Answers each request with what it was; keeps the connection open, whatever it is told."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.bodies: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                body = b""
                if "Content-Length: " in head:
                    size = int(head.partition("Content-Length: ")[2].partition("\r")[0])
                    body = await reader.readexactly(size)
                elif "chunked" in head:
                    body = await reader.readuntil(b"0\r\n\r\n")
                self.bodies.append(body)
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: 9\r\n\r\nhello")
                await writer.drain()
        except (EOFError, OSError):
            writer.close()


def secret(made: GuardingProxy) -> str:
    code = base64.b64encode(f"hermes:{made.secret}".encode()).decode()
    return f"Proxy-Authorization: Basic {code}\r\n"


async def said(made: GuardingProxy, request: str, *, until: bytes = b"") -> str:
    """What the proxy answers, up to its end or some bytes."""
    host, _, port = made.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request.encode())
        answer = await (reader.readuntil(until) if until else reader.read())
        return answer.decode()
    finally:
        writer.close()


async def test_a_request_reaches_the_checked_address_under_its_own_name() -> None:
    echo = Echo()
    async with server(echo) as port, proxy("good.test", good_test=["127.0.0.1"]) as made:
        request = f"GET http://good.test:{port}/a?b=c HTTP/1.1\r\nHost: good.test\r\n"
        answer = await said(
            made, f"{request}{secret(made)}Proxy-Connection: x\r\n\r\n", until=b"hello"
        )
    assert "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK" in answer
    assert "Connection: close" in answer
    assert "Keep-Alive" not in answer
    assert echo.heads == ["GET /a?b=c HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n"]


async def test_without_the_password_nothing_is_done() -> None:
    echo = Echo()
    async with server(echo) as port, proxy("127.0.0.1") as made:
        wrong = base64.b64encode(b"hermes:guess").decode()
        for header in ("", f"Proxy-Authorization: Basic {wrong}\r\n", "Proxy-Authorization: x\r\n"):
            for line in (f"GET http://127.0.0.1:{port}/", f"CONNECT 127.0.0.1:{port}"):
                answer = await said(made, f"{line} HTTP/1.1\r\n{header}\r\n")
                assert answer.startswith("HTTP/1.1 407 ")
                assert "Proxy-Authenticate: Basic" in answer
    assert echo.heads == []
    assert not made.failed


async def test_it_answers_its_own_greeting() -> None:
    async with proxy() as made:
        answer = await said(made, f"GET http://{GREETING}/ HTTP/1.1\r\n{secret(made)}\r\n")
        assert answer.startswith("HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "0x7f.1", "[::1]", "10.0.0.1", "169.254.169.254", "inner.test", "two.test"],
)
async def test_an_address_that_is_not_public_is_refused_and_remembered(host: str) -> None:
    names = {"inner_test": ["127.0.0.1"], "two_test": ["93.184.216.34", "127.0.0.1"]}
    async with proxy("other.test", **names) as made:
        for line in (f"GET http://{host}:1/", f"CONNECT {host}:1"):
            answer = await said(made, f"{line} HTTP/1.1\r\n{secret(made)}\r\n")
            assert answer.startswith("HTTP/1.1 403 ")
            assert "addresses are refused" in answer
        assert len(made.failed) == 1
        assert "addresses are refused" in next(iter(made.failed.values()))


async def test_a_public_host_that_a_rule_denies_is_refused() -> None:
    async with proxy(denied="bad.test", bad_test=["93.184.216.34"]) as made:
        for line in ("GET http://bad.test/", "CONNECT bad.test:443"):
            answer = await said(made, f"{line} HTTP/1.1\r\n{secret(made)}\r\n")
            assert answer.startswith("HTTP/1.1 403 ")
        assert "a rule denies it" in made.failed["bad.test"]


async def test_a_tunnel_carries_bytes_both_ways() -> None:
    async def double(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line + line)
        writer.close()

    async with server(double) as port, proxy("good.test", good_test=["127.0.0.1"]) as made:
        host, _, own = made.address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(own))
        writer.write(f"CONNECT good.test:{port} HTTP/1.1\r\n{secret(made)}\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        for word in (b"one\n", b"two\n"):
            writer.write(word)
            assert await reader.readexactly(8) == word + word
        writer.close()


async def test_an_upgrade_becomes_a_tunnel() -> None:
    async def upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Connection: Upgrade" in head
        writer.write(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\n\r\n")
        writer.write(await reader.readline())
        writer.close()

    async with server(upgrade) as port, proxy("127.0.0.1") as made:
        head = f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n{secret(made)}Upgrade: websocket\r\n\r\n"
        answer = await said(made, f"{head}frames\n", until=b"frames\n")
    assert answer.startswith("HTTP/1.1 101 ")
    assert "Connection: Upgrade" in answer


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Length: 4\r\n", "body"),
        ("Transfer-Encoding: chunked\r\n", "4\r\nbody\r\n0\r\n\r\n"),
    ],
)
async def test_a_body_is_sent_and_nothing_of_the_next_request(headers: str, body: str) -> None:
    echo = Echo()
    async with server(echo) as port, proxy("127.0.0.1") as made:
        url = f"http://127.0.0.1:{port}/"
        first = f"POST {url} HTTP/1.1\r\n{secret(made)}{headers}\r\n{body}"
        await said(made, f"{first}GET http://10.0.0.1/secret HTTP/1.1\r\n\r\n", until=b"hello")
        await said(made, f"GET {url} HTTP/1.1\r\n{secret(made)}\r\n", until=b"hello")
    assert echo.bodies == [body.encode(), b""]
    assert len(echo.heads) == 2


async def test_a_name_that_nobody_knows_and_a_server_that_is_not_there_are_said_so() -> None:
    async with (
        server(Echo()) as port,
        proxy("127.0.0.1", "good.test", good_test=["127.0.0.1"]) as made,
    ):
        answer = await said(made, f"GET http://nowhere.test/ HTTP/1.1\r\n{secret(made)}\r\n")
        assert answer.startswith("HTTP/1.1 502 ")
        assert (
            made.failed["nowhere.test"] == "cannot find 'nowhere.test': Name or service not known"
        )
        answer = await said(made, f"CONNECT good.test:1 HTTP/1.1\r\n{secret(made)}\r\n")
        assert answer.startswith("HTTP/1.1 502 ")
        assert "cannot connect to 'good.test'" in made.failed["good.test"]
        line = f"GET http://good.test:{port}/ HTTP/1.1\r\n{secret(made)}\r\n"
        await said(made, line, until=b"hello")
        assert "good.test" not in made.failed


@pytest.mark.parametrize(
    "line",
    ["GET /", "GET https://a.test/", "CONNECT a.test", "GET http://", "CONNECT a.test:x", "x"],
)
async def test_a_request_without_a_host_is_refused(line: str) -> None:
    async with proxy() as made:
        answer = await said(made, f"{line} HTTP/1.1\r\n{secret(made)}\r\n")
        assert answer.startswith("HTTP/1.1 400 ")


async def test_what_is_not_http_is_cut_off() -> None:
    async with proxy() as made:
        host, _, port = made.address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"x" * 200_000)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()


@pytest.mark.parametrize("rounds", range(9))
async def test_closing_ends_what_is_under_way(rounds: int) -> None:
    """Also what was let in a moment ago and has not been heard yet."""
    hanging = asyncio.get_running_loop().create_future()

    async def slow(_name: str) -> Sequence[str]:
        return await hanging

    async with proxy(resolver=slow) as made:
        asked = asyncio.create_task(said(made, f"CONNECT a.test:1 HTTP/1.1\r\n{secret(made)}\r\n"))
        for _ in range(rounds):
            await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        answer = (await asyncio.gather(asked, return_exceptions=True))[0]
    assert answer == "" or isinstance(answer, OSError)
