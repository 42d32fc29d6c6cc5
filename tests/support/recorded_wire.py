"""Answers of real servers, recorded once and given again over loopback."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from tests.support.quick_http import QuickHTTPServer

Recorded = Mapping[str, Any]
"""What was asked (`GET /path?query`), and the status with the body: JSON or text."""
Respond = Callable[[str, str, bytes, Mapping[str, str]], tuple[int, Any]]
"""The status and body for a method, a target, a body and headers."""


def key_of(method: str, target: str) -> str:
    parts = urlsplit(target)
    query = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    return f"{method} {unquote(parts.path)}" + (f"?{query}" if query else "")


def replay(recorded: Recorded) -> Respond:
    def respond(
        method: str, target: str, _body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        key = key_of(method, target)
        kind = headers.get("accept", "")
        for one in (
            f"{key} as {word}"
            for word in ("Table", "PartialObjectMetadataList")
            if f"as={word}" in kind
        ):
            if one in recorded:
                return tuple(recorded[one])
        return tuple(recorded.get(key, (404, {"message": f"nothing is recorded for {key}"})))

    return respond


def of_file(path: Path) -> Recorded:
    found: Recorded = json.loads(path.read_text())
    return found


@contextmanager
def answering(respond: Respond, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server on loopback; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, said = respond(self.command, self.path, body, headers)
            text = said if isinstance(said, str) else json.dumps(said)
            location = (
                said.get("location") if isinstance(said, dict) and 300 <= status < 400 else ""
            )
            data = text.encode()
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - its names

        def log_message(self, *_: Any) -> None: ...

    with serving(Handler, tls) as url:
        yield url


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """The same, for a handler of one's own."""
    server = QuickHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
