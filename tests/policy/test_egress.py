import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tools import EgressCheck
from hermes_agent.policy.network.egress import Resolver, guarded_client

Answer = Callable[[str, dict[str, str]], str]


class Site:
    """A small HTTP server on loopback that remembers what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.connections = 0
        self.port = 0
        self.open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._answer = answer

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open[asyncio.create_task(self._serve(reader, writer))] = writer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            path = line.split()[1].decode()
            headers = {}
            while header := (await reader.readline()).decode().strip():
                name, _, value = header.partition(": ")
                headers[name.lower()] = value
            answer = self._answer(path, headers)
            writer.write(answer.encode())
            await writer.drain()
            if "Connection: close" in answer:
                return writer.close()
        return writer.close()


@asynccontextmanager
async def site(
    answer: Answer, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Site]:
    served = Site(answer)
    server = await asyncio.start_server(served.accept, address, 0, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    async with server:
        yield served
    for writer in served.open.values():
        writer.transport.abort()
    await asyncio.gather(*served.open, return_exceptions=True)


def page(text: str, *headers: str, status: str = "200 OK") -> str:
    head = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n{head}\r\n{text}"


def hello(path: str, headers: dict[str, str]) -> str:
    return page(f"hello {headers['host']}")


def goes_to(url: str) -> Answer:
    return lambda _path, _headers: page("", f"Location: {url}", status="302 Found")


def names(**known: Sequence[str] | str) -> Resolver:
    async def look_up(name: str) -> Sequence[str]:
        found = known[name.replace(".", "_").replace("-", "_")]
        return [found] if isinstance(found, str) else found

    return look_up


def nobody(host: str, address: str, public: bool) -> bool:
    return public


def only(*hosts: str) -> EgressCheck:
    return lambda host, _address, public: public or host in hosts


async def test_an_allowed_name_is_reached_at_the_checked_address_under_its_own_name() -> None:
    asked = []

    def allow(host: str, address: str, public: bool) -> bool:
        asked.append((host, address, public))
        return True

    async with site(hello) as here:
        resolver = names(good_test="127.0.0.1")
        async with guarded_client(allow, resolver=resolver) as client:
            answer = await client.get(f"http://good.test:{here.port}/")
    assert answer.text == f"hello good.test:{here.port}"
    assert asked == [("good.test", "127.0.0.1", False)]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0",
        "a@127.0.0.1",
    ],
)
async def test_an_address_that_is_not_public_is_refused_and_nothing_is_sent(host: str) -> None:
    async with site(hello) as here, guarded_client(nobody, resolver=names()) as client:
        with pytest.raises(ToolError, match="loopback addresses are refused") as caught:
            await client.get(f"http://{host}:{here.port}/")
        assert here.connections == 0
    assert "a rule that allows the host" in caught.value.hint


async def test_a_refusal_names_the_host_and_where_it_leads() -> None:
    resolver = names(inside_test="10.1.2.3")
    async with guarded_client(nobody, resolver=resolver) as client:
        with pytest.raises(
            ToolError, match=r"'inside\.test', which resolves to 10\.1\.2\.3: private"
        ):
            await client.get("http://inside.test/")


async def test_a_name_with_one_private_address_among_public_ones_is_refused() -> None:
    resolver = names(mixed_test=["93.184.216.34", "127.0.0.1"])
    async with site(hello) as here, guarded_client(nobody, resolver=resolver) as client:
        with pytest.raises(ToolError, match=r"127\.0\.0\.1"):
            await client.get(f"http://mixed.test:{here.port}/")
        assert here.connections == 0


async def test_a_name_that_says_metadata_is_refused_whatever_it_resolves_to() -> None:
    resolver = names(metadata_google_internal="93.184.216.34")
    async with guarded_client(nobody, resolver=resolver) as client:
        with pytest.raises(ToolError, match="metadata addresses are refused"):
            await client.get("http://metadata.google.internal/computeMetadata/v1/")


async def test_a_name_that_changes_its_address_is_looked_up_once_for_each_connection() -> None:
    answers = [["127.0.0.1"], ["127.0.0.2"]]
    looked_up = []

    async def rebinding(name: str) -> Sequence[str]:
        looked_up.append(name)
        return answers[len(looked_up) - 1]

    def allow(host: str, address: str, public: bool) -> bool:
        return address == "127.0.0.1"

    def closing(path: str, headers: dict[str, str]) -> str:
        return page("first", "Connection: close")

    async with site(closing) as here, guarded_client(allow, resolver=rebinding) as client:
        url = f"http://turns.test:{here.port}/"
        assert (await client.get(url)).text == "first"
        assert looked_up == ["turns.test"]
        with pytest.raises(ToolError, match=r"resolves to 127\.0\.0\.2"):
            await client.get(url)
        assert here.connections == 1


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/latest", "http://bad.test/", "//bad.test/", "http://0x7f.1/"]
)
async def test_a_redirect_to_a_refused_address_is_refused(target: str) -> None:
    resolver = names(good_test="127.0.0.1", bad_test="10.0.0.1")
    async with (
        site(goes_to(target)) as here,
        guarded_client(only("good.test"), resolver=resolver, follow_redirects=True) as client,
    ):
        with pytest.raises(ToolError, match="addresses are refused"):
            await client.get(f"http://good.test:{here.port}/")
        assert here.connections == 1


@pytest.mark.parametrize("denied", ["bad.test", "93.184.216.34"])
async def test_a_redirect_to_a_public_host_that_a_rule_denies_is_refused(denied: str) -> None:
    def reach(host: str, address: str, public: bool) -> bool:
        return denied not in (host, address) if public else host == "good.test"

    resolver = names(good_test="127.0.0.1", bad_test="93.184.216.34")
    async with (
        site(goes_to("http://bad.test/")) as here,
        guarded_client(reach, resolver=resolver, follow_redirects=True) as client,
    ):
        with pytest.raises(ToolError, match=r"'bad\.test', which resolves to .*: a rule denies it"):
            await client.get(f"http://good.test:{here.port}/")
        assert here.connections == 1


async def test_a_redirect_to_an_allowed_host_is_followed() -> None:
    resolver = names(one_test="127.0.0.1", two_test="127.0.0.1")
    async with (
        site(hello) as there,
        site(goes_to(f"http://two.test:{there.port}/x")) as here,
        guarded_client(
            only("one.test", "two.test"), resolver=resolver, follow_redirects=True
        ) as client,
    ):
        answer = await client.get(f"http://one.test:{here.port}/")
        assert answer.text == f"hello two.test:{there.port}"


async def test_a_connection_is_not_used_again_for_another_name_at_the_same_address() -> None:
    resolver = names(one_test="127.0.0.1", two_test="127.0.0.1")
    async with (
        site(hello) as here,
        guarded_client(only("one.test"), resolver=resolver) as client,
    ):
        await client.get(f"http://one.test:{here.port}/")
        await client.get(f"http://one.test:{here.port}/")
        assert here.connections == 1
        with pytest.raises(ToolError, match=r"two\.test"):
            await client.get(f"http://two.test:{here.port}/")
        assert here.connections == 1


async def test_an_address_of_version_six_is_reached_when_allowed() -> None:
    resolver = names(six_test="::1")
    async with (
        site(hello, "::1") as here,
        guarded_client(only("six.test", "::1"), resolver=resolver) as client,
    ):
        assert (await client.get(f"http://six.test:{here.port}/")).status_code == 200
        assert (await client.get(f"http://[::1]:{here.port}/")).status_code == 200


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with site(hello) as here:
        resolver = names(two_test=["::1", "127.0.0.1"])
        async with guarded_client(only("two.test"), resolver=resolver) as client:
            assert (await client.get(f"http://two.test:{here.port}/")).status_code == 200


async def test_a_proxy_in_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(lambda _path, _headers: page("from the proxy")) as proxy, site(hello) as here:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        resolver = names(good_test="127.0.0.1")
        async with guarded_client(only("good.test"), resolver=resolver) as client:
            answer = await client.get(f"http://good.test:{here.port}/")
        assert answer.text.startswith("hello")
        assert proxy.connections == 0


@pytest.mark.parametrize("name", ["transport", "mounts", "proxy", "trust_env"])
def test_options_that_lead_around_the_guard_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        guarded_client(nobody, **{name: None})


async def test_a_name_that_nobody_knows_is_a_failed_connection() -> None:
    async def unknown(name: str) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    async with guarded_client(nobody, resolver=unknown) as client:
        with pytest.raises(httpx.ConnectError, match="cannot find"):
            await client.get("http://nowhere.test/")


async def test_a_lookup_that_hangs_ends_with_the_connect_timeout() -> None:
    async def hanging(name: str) -> Sequence[str]:
        return await asyncio.get_running_loop().create_future()

    async with guarded_client(nobody, resolver=hanging, timeout=0.01) as client:
        with pytest.raises(httpx.ConnectTimeout):
            await client.get("http://slow.test/")


async def test_the_system_knows_localhost_and_it_is_refused() -> None:
    async with guarded_client(nobody) as client:
        with pytest.raises(ToolError, match="loopback"):
            await client.get("http://localhost/")


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server that is `name`, and of a client that trusts it alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    file = folder / "site.pem"
    file.write_bytes(
        pem
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cadata=pem.decode())


async def test_tls_asks_for_the_name_and_checks_it(tmp_path: Path) -> None:
    server, trusted = certificate(tmp_path, "good.test")
    heard: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: heard.append(name)
    resolver = names(good_test="127.0.0.1", other_test="127.0.0.1")
    async with (
        site(hello, tls=server) as here,
        guarded_client(
            only("good.test", "other.test"), resolver=resolver, verify=trusted
        ) as client,
    ):
        assert (await client.get(f"https://good.test:{here.port}/")).status_code == 200
        with pytest.raises(httpx.ConnectError, match="mismatch"):
            await client.get(f"https://other.test:{here.port}/")
    assert heard == ["good.test", "other.test"]


async def test_a_redirect_from_https_to_http_is_refused(tmp_path: Path) -> None:
    server, trusted = certificate(tmp_path, "good.test")
    resolver = names(good_test="127.0.0.1")
    async with (
        site(hello) as plain,
        site(goes_to(f"http://good.test:{plain.port}/"), tls=server) as here,
        guarded_client(
            only("good.test"), resolver=resolver, verify=trusted, follow_redirects=True
        ) as client,
    ):
        with pytest.raises(
            ToolError, match=r"refused to follow a redirect from https to http://good\.test"
        ):
            await client.get(f"https://good.test:{here.port}/")
        assert plain.connections == 0
        # Without following, the answer is only looked at.
        request = client.get(f"https://good.test:{here.port}/", follow_redirects=False)
        assert (await request).status_code == 302


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_unix_socket_is_reached_only_where_it_is_allowed(
    tmp_path: Path, allowed: bool
) -> None:
    asked: list[str] = []

    def reach(host: str, _address: str, _public: bool) -> bool:
        asked.append(host)
        return allowed

    path = str(tmp_path / "engine.sock")
    served = Site(hello)
    async with (
        await asyncio.start_unix_server(served.accept, path),
        guarded_client(reach, resolver=names(), socket=path) as client,
    ):
        if allowed:
            assert (await client.get("http://localhost/")).is_success
        else:
            with pytest.raises(ToolError, match="not that of a source"):
                await client.get("http://localhost/")
    assert served.connections == int(allowed)
    assert asked == [f"unix://{path}"]
