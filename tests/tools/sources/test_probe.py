"""Probes of real servers on this machine."""

import ssl
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import msgspec
import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.sources.probe import probe
from tests.support.recorded_wire import serving
from tests.support.sources import Observer, free_port


class _Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        moved = self.path == "/old"
        self.send_response(302 if moved else 503)
        self.send_header("Location", "/new") if moved else self.send_header("Retry-After", "30")
        self.end_headers()
        self.wfile.write(b"" if moved else b"the database is gone")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def shop() -> Iterator[str]:
    with serving(_Shop) as url:
        yield url


@pytest.fixture
def expiring(tmp_path: Path) -> Iterator[str]:
    """A server with a certificate that nobody signed, valid for three days."""
    make = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "3", "-subj", "/CN=shop",
        "-addext", "subjectAltName=DNS:localhost",
    ]  # fmt: skip
    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with serving(_Shop, context) as url:
        yield url


async def test_a_page_is_told_with_status_redirect_and_body(observer: Observer, shop: str) -> None:
    result = await observer.call(probe, target=f"{shop}/old")
    assert (result.data["ok"], result.data["status"]) == (False, 503)
    assert "/new" in result.text
    assert "retry-after" in result.text
    assert "the database is gone" in result.text


async def test_a_certificate_is_told_with_its_end_and_why_it_is_not_trusted(
    observer: Observer, expiring: str
) -> None:
    result = await observer.call(
        probe, target=expiring.replace("127.0.0.1", "localhost"), action="tls"
    )
    assert result.data["ok"] is False
    assert result.data["days"] in (2, 3)
    assert "self-signed" in result.text
    assert "CN" in result.text.replace("commonName", "CN")


async def test_a_closed_port_and_a_name_that_is_not_there_are_answers(observer: Observer) -> None:
    closed = await observer.call(probe, target=f"127.0.0.1:{free_port()}", action="port")
    assert closed.data["ok"] is False
    failed = await observer.call(probe, target=f"http://127.0.0.1:{free_port()}/")
    assert "failed after" in failed.text
    unknown = await observer.call(probe, target="shop.invalid", action="dns")
    assert "cannot find it" in unknown.text


async def test_an_address_that_is_refused_is_not_asked(observer: Observer, shop: str) -> None:
    def refuse(_host: str, _address: str, _public: bool) -> bool:
        return False

    context = msgspec.structs.replace(observer.context(), reach=refuse)
    with pytest.raises(ToolError, match="it is refused"):
        await probe._bare(context, shop, "port")
