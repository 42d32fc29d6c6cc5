"""Amazon Bedrock's Converse, streaming: signed requests, answers in AWS's binary frames."""

import re
import time
from urllib.parse import quote

from hermes_agent.core.messages import Request
from hermes_agent.core.protocols import Clock
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.bedrock.request import request_body
from hermes_agent.models.wires.bedrock.signing import signed_headers
from hermes_agent.models.wires.bedrock.stream import BedrockAccumulator
from hermes_agent.models.wires.streaming import HttpWireClient, bearer, path_of

REGION_HEADER = "x-amz-region"
"""Names the region where the address does not: a proxy, a private address."""

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
    """Signed by a key of AWS's, or with a key of Bedrock's own."""
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
