"""Asks a service from outside, as its users do: HTTP, TLS, DNS, a port."""

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal

from hermes_agent.core.errors import ToolError
from hermes_agent.core.installation.extras import install_hint, is_missing
from hermes_agent.core.text.addresses import address_of, classify, host_of
from hermes_agent.core.text.format import shortened
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.results import answer, table
from hermes_agent.tools.web.client import BoundedBody

SECONDS = 10.0
BODY_BYTES = 20_000
REDIRECTS = 10
REQUEST = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
HEADERS = (
    "server", "content-type", "location", "retry-after", "cache-control", "via", "x-request-id",
    "www-authenticate", "age",
)  # fmt: skip
RECORDS = ("A", "AAAA", "CNAME", "MX", "NS", "TXT", "SOA", "CAA")


@tool(capabilities=("network",), repeatable=True, hosts=("target",))
async def probe(
    context: ToolContext,
    target: str,
    action: Literal["http", "tls", "dns", "port"] = "http",
) -> ToolResult:
    """Ask a service as its users do. http: status, time, redirects, start of the body; tls: its
    certificate and whether it is trusted; dns: addresses and records; port: whether HOST:PORT
    answers."""
    if context.http is None or context.reach is None:
        raise ToolError("the network is not available here", retry="never")
    host = host_of(target)
    url = target if "://" in target else f"https://{target}"
    if not host or host != host_of(url):
        raise ToolError(
            f"no host in {target!r}", "such as https://shop.example or db:5432", "changed"
        )
    asked: dict[str, Callable[[], Awaitable[ToolResult]]] = {
        "http": lambda: _http(context, url),
        "tls": lambda: _tls(context, host, _port(target, 443)),
        "dns": lambda: _dns(host),
        "port": lambda: _open(context, host, _port(target, 0)),
    }
    try:
        async with asyncio.timeout(SECONDS * 2):
            return await asked[action]()
    except UnicodeError:
        what = f"not a valid host name: {shortened(host, 100)!r}"
        raise ToolError(what, retry="changed") from None
    except TimeoutError:
        raise ToolError(f"{host} did not answer within {SECONDS * 2:.0f} s", retry="same") from None


def _port(target: str, default: int) -> int:
    found = re.search(r"(?:^|[^:\]]|\]):(\d{1,5})(?:/|$)", target.partition("://")[2] or target)
    port = int(found[1]) if found else default
    if not 0 < port < 65_536:
        raise ToolError(f"no port in {target!r}", "write HOST:PORT", "changed")
    return port


async def _addresses(context: ToolContext, host: str) -> list[str]:
    """Where a host leads to, each allowed; resolved once: what is checked is what is asked."""
    literal = address_of(host)
    loop = asyncio.get_running_loop()
    try:
        found = [str(literal)] if literal else [
            str(one[4][0]) for one in await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        ]  # fmt: skip
    except OSError as error:
        raise ToolError(f"cannot find {host!r}: {error.strerror}", "action dns says more") from None
    assert context.reach is not None
    for address in found:
        if not context.reach(host, address, classify(address) == "public"):
            raise ToolError(
                f"cannot connect to {host!r} ({address}): it is refused",
                f"to permit it, add a rule that allows the host {host!r}", "never",
            )  # fmt: skip
    return list(dict.fromkeys(found))


async def _http(context: ToolContext, url: str) -> ToolResult:
    import httpx

    _port(url, 443)
    assert context.http is not None
    began = time.perf_counter()
    rows: list[tuple[str, object]] = []
    try:
        async with context.http(timeout=SECONDS) as client:
            got = await client.send(client.build_request("GET", url, headers=REQUEST), stream=True)
            for _ in range(REDIRECTS):
                there = got.next_request
                # The gate has judged this host; another one is for another call.
                if there is None or host_of(str(there.url)) != host_of(url):
                    break
                await got.aclose()
                got = await client.send(there, stream=True)
            first = time.perf_counter() - began
            body = BoundedBody(got.headers.get("content-encoding", ""), BODY_BYTES)
            async for piece in got.aiter_raw():
                body.add(piece)
                if body.cut:
                    break
            await got.aclose()
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        seconds = time.perf_counter() - began
        what = str(error) or type(error).__name__
        return answer("probe", f"{url} failed after {seconds:.2f} s: {what}", {"ok": False})
    rows += [("status", f"{got.status_code} {got.reason_phrase}"), ("first byte", f"{first:.3f} s")]
    rows += [("redirected to", str(got.url))] if str(got.url) != url else []
    rows += [(name, got.headers[name]) for name in HEADERS if name in got.headers]
    text = f"{table(('', url), rows)}\n\n{shortened(body.data.decode(errors='replace'), 600)}"
    return answer("probe", text, {"ok": got.is_success, "status": got.status_code})


async def _tls(context: ToolContext, host: str, port: int) -> ToolResult:
    address = (await _addresses(context, host))[0]
    trust = await _handshake(address, port, host, ssl.create_default_context())
    why = ""
    if isinstance(trust, str):
        why, anything = trust, ssl.create_default_context()
        anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE
        trust = await _handshake(address, port, host, anything)
        if isinstance(trust, str):
            return answer("probe", f"no TLS with {host}:{port}: {trust}", {"ok": False})
    version, cipher, data = trust
    facts, days = _certificate(data, context.clock())
    rows = [
        ("trusted", f"no: {why}" if why else "yes"),
        ("protocol", f"{version}, {cipher}"),
        *facts,
    ]
    return answer("probe", table(("", f"{host}:{port}"), rows), {"ok": not why, "days": days})


async def _handshake(
    address: str, port: int, host: str, context: ssl.SSLContext
) -> tuple[str, str, bytes] | str:
    """Protocol, cipher and certificate, or why there was none."""
    try:
        async with asyncio.timeout(SECONDS):
            _, writer = await asyncio.open_connection(
                address, port, ssl=context, server_hostname=host
            )
    except (OSError, TimeoutError) as error:
        return getattr(error, "verify_message", "") or str(error) or "no answer"
    found = writer.get_extra_info("ssl_object")
    writer.close()
    return found.version(), found.cipher()[0], found.getpeercert(binary_form=True)


def _certificate(data: bytes, now: float) -> tuple[list[tuple[str, object]], int]:
    """Facts of a certificate, and how many days it is still valid."""
    # The standard library decodes only trusted certificates, except with this function of its own.
    import tempfile
    from pathlib import Path

    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(ssl.DER_cert_to_PEM_cert(data))
        file.flush()
        decoded: dict[str, Any] = ssl._ssl._test_decode_cert(Path(file.name))  # type: ignore[attr-defined]
    ends = ssl.cert_time_to_seconds(decoded["notAfter"])
    starts = ssl.cert_time_to_seconds(decoded["notBefore"])
    days = int((ends - now) // 86_400)
    names = ", ".join(value for _, value in decoded.get("subjectAltName", ()))
    left = f"expired {int((now - ends) // 86_400)} days ago" if ends < now else f"{days} days"
    return [
        ("subject", _name(decoded["subject"])),
        ("names", names),
        ("issuer", _name(decoded["issuer"])),
        ("valid from", f"{datetime.fromtimestamp(starts, UTC):%Y-%m-%d}"),
        ("valid until", f"{datetime.fromtimestamp(ends, UTC):%Y-%m-%d %H:%M UTC}, {left}"),
    ], days


def _name(parts: Any) -> str:
    return ", ".join(f"{key}={value}" for part in parts for key, value in part)


async def _dns(host: str) -> ToolResult:
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    rows: list[tuple[str, object]] = []
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        rows.append(("this machine", ", ".join(dict.fromkeys(str(one[4][0]) for one in found))))
    except OSError as error:
        rows.append(("this machine", f"cannot find it: {error.strerror}"))
    rows.append(("took", f"{time.perf_counter() - began:.3f} s"))
    if is_missing("dns"):
        note = f"records need dnspython: {install_hint('sources')}"
        return answer("probe", table(("", host), rows), {}, (note,))
    import dns.asyncresolver
    import dns.exception

    resolver = dns.asyncresolver.Resolver()
    resolver.lifetime = SECONDS

    async def ask(kind: str) -> tuple[str, str] | None:
        try:
            reply = await resolver.resolve(host, kind, raise_on_no_answer=False)
        except dns.exception.DNSException as error:
            return (kind, shortened(str(error), 150)) if kind == "A" else None
        values = [str(one) for one in reply.rrset or ()]
        ttl = f" (TTL {reply.rrset.ttl} s)" if reply.rrset else ""
        return (kind, f"{', '.join(values)}{ttl}") if values else None

    rows += [one for one in await asyncio.gather(*map(ask, RECORDS)) if one is not None]
    rows.append(("asked", ", ".join(str(one) for one in resolver.nameservers)))
    return answer("probe", table(("", host), rows))


async def _open(context: ToolContext, host: str, port: int) -> ToolResult:
    rows, good = [], False
    for address in await _addresses(context, host):
        began = time.perf_counter()
        try:
            async with asyncio.timeout(SECONDS / 2):
                reader, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError) as error:
            rows.append((address, "closed", str(error) or "no answer"))
            continue
        good, greeting = True, b""
        took = time.perf_counter() - began
        try:
            async with asyncio.timeout(0.5):
                greeting = await reader.read(200)
        except (OSError, TimeoutError):
            pass  # most services wait for their client
        writer.close()
        rows.append((address, f"open, {took * 1000:.1f} ms", greeting.decode(errors="replace")))
    text = table(("address", f"port {port}", "says"), rows)
    return answer("probe", f"{host}\n{text}", {"ok": good})
