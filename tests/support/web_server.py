"""A web for tests: a site on this machine, services behind their real names, and calls to the web
tools through the guarded client."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs

import httpx
import msgspec

from hermes_agent.core.effects import Permit
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Tool, ToolContext, ToolServices
from hermes_agent.policy.network.egress import guarded_client
from tests.support.calls import Caller, Kept
from tests.support.model_server import ModelServer, Raw, Received


def page(content: bytes | str, type: str = "text/html; charset=utf-8", **headers: str) -> Raw:
    body = content.encode() if isinstance(content, str) else content
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw([body], 200, {"content-type": type, "content-length": str(len(body)), **named})


def answer(status: int, content: str = "", **headers: str) -> Raw:
    return replace(page(content, "text/html", **headers), status=status)


class Site(ModelServer):
    """Pages by path; a path that begins with a host stands for that host's."""

    def __init__(self) -> None:
        super().__init__(self._page)
        self.pages: dict[str, Raw] = {}

    def _page(self, received: Received) -> Raw:
        host = received.headers["host"]
        known = [self.pages.get(received.path), self.pages.get(host + received.path)]
        return next((raw for raw in known if raw is not None), answer(404, "no such page"))

    def asked(self) -> list[str]:
        """Hosts and paths, in order."""
        return [f"{each.headers['host']}{each.path}" for each in self.requests]


def sent(received: Received) -> dict[str, Any]:
    """The parameters of a request, however it carries them."""
    if received.headers.get("content-type") == "application/json":
        return received.json
    given = received.query or received.body.decode()
    return {name: values[0] for name, values in parse_qs(given, keep_blank_values=True).items()}


@dataclass
class Surfer:
    """Calls web tools in one session."""

    here: Caller
    site: Site
    settings: Settings = Settings()
    secrets: Mapping[str, str] = field(default_factory=dict)
    private: bool = True
    """Whether addresses of this machine may be reached."""
    reachable: tuple[str, ...] = ()
    """Those that may all the same."""
    keep: Kept | None = field(default_factory=Kept)
    """What the session holds open."""

    def context(self) -> ToolContext:
        async def lead_here(request: httpx.Request) -> None:
            """Every https address is our site: the name stays in the Host header."""
            if request.url.scheme == "https":
                port = httpx.URL(self.site.root).port
                request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=port)

        def client(**options: Any) -> httpx.AsyncClient:
            hooks = {"request": [lead_here]}
            return guarded_client(self._allowed, event_hooks=hooks, **options)

        return msgspec.structs.replace(
            self.here.context("call"),
            http=client,
            services=ToolServices(resources=self.keep),
            settings=self.settings,
            secrets=self.secrets,
        )

    def _allowed(self, _host: str, address: str, public: bool) -> bool:
        return public or self.private or address in self.reachable

    async def call(self, tool: Tool, **given: Any) -> ToolResult:
        arguments = tool.arguments(given)
        permit = Permit("call", tool.name, arguments)
        result = await tool.run(permit, self.context(), arguments)
        assert isinstance(result, ToolResult)
        return result


def pdf(*pages: str) -> bytes:
    """A PDF with one line of text on each page, written by hand."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects) + 2} "
            "0 R /Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    listed = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    objects[1] = listed.encode()
    made, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    made += (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(made)}\n%%EOF\n"
    ).encode()
    return bytes(made)


def as_json(content: Any) -> Raw:
    return page(json.dumps(content), "application/json")
