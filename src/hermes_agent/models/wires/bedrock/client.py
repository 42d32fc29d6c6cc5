"""Amazon Bedrock's Converse, streaming: answers come in AWS's binary frames; requests are signed
(version 4), so that the secret itself never travels."""

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from hermes_agent.core.messages import Request
from hermes_agent.core.protocols import Clock
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.bedrock.request import request_body
from hermes_agent.models.wires.bedrock.stream import BedrockAccumulator
from hermes_agent.models.wires.streaming import HttpWireClient, bearer, path_of

REGION_HEADER = "x-amz-region"
"""Names the region if the address does not, as with a proxy."""

_REGION = re.compile(r"\bbedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")


def open_client(endpoint: Endpoint, clock: Clock = time.time) -> HttpWireClient:
    path = path_to(endpoint)

    def asked(request: Request, credential: Credential) -> tuple[bytes, dict[str, str]]:
        body = request_body(endpoint, request)
        return body, headers_of(endpoint, path, body, credential, clock())

    headers = {"accept": "application/vnd.amazon.eventstream"} | endpoint.service.headers
    return HttpWireClient(endpoint, path, headers, asked, BedrockAccumulator)


def path_to(endpoint: Endpoint) -> str:
    return path_of(endpoint, f"/model/{quote(endpoint.model, safe='')}/converse-stream")


def headers_of(
    endpoint: Endpoint, path: str, body: bytes, credential: Credential, now: float
) -> dict[str, str]:
    """Signed with AWS credentials, or with a Bedrock API key."""
    headers = {"content-type": "application/json"}
    if not credential.id:
        return headers | bearer(credential)
    return signed_headers(
        endpoint.url.rstrip("/") + path,
        body,
        headers,
        credential,
        region=_region(endpoint),
        service="bedrock",
        now=now,
    )


def _region(endpoint: Endpoint) -> str:
    named = _REGION.search(endpoint.url)
    return named[1] if named else endpoint.service.headers.get(REGION_HEADER, "us-east-1")


_ALGORITHM = "AWS4-HMAC-SHA256"
_PORTS = {"http": 80, "https": 443}


def signed_headers(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    credential: Credential,
    *,
    region: str,
    service: str,
    now: float,
    method: str = "POST",
) -> dict[str, str]:
    """The headers with the signature. All of them are signed, and so is the host, which the client
    adds. The URL must be byte for byte the one that is sent."""
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {name.lower(): value for name, value in headers.items()} | {"x-amz-date": moment}
    if credential.session:
        signed["x-amz-security-token"] = credential.session
    told = {name: " ".join(value.split()) for name, value in signed.items()}
    told["host"] = _host(url)
    names = ";".join(sorted(told))
    parts = urlsplit(url)
    canonical = "\n".join(
        (
            method,
            quote(_plain_path(parts.path), safe="/~"),
            _sorted_query(parts.query),
            *(f"{name}:{told[name]}" for name in sorted(told)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{credential.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"{_ALGORITHM}\n{moment}\n{scope}\n{digest}"
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return signed | {
        "authorization": f"{_ALGORITHM} Credential={credential.id}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    }


def _host(url: str) -> str:
    """The host header as the client sends it: lower case, with a non-default port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port is not None and parts.port != _PORTS.get(parts.scheme):
        host = f"{host}:{parts.port}"
    return host


def _plain_path(path: str) -> str:
    """The path without `.`, `..` and doubled slashes."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return "/" + "/".join(kept) + ("/" if path.endswith("/") and kept else "")


def _sorted_query(query: str) -> str:
    pairs = sorted(pair.partition("=")[::2] for pair in query.split("&")) if query else ()
    return "&".join(f"{name}={value}" for name, value in pairs)
