"""A shelf of documents over HTTP, as people build it who never saw our other services.

    docshelf.py [FILE] [--KEY=VALUE ...]

    PUT /docs/KEY   put it there        GET /docs/KEY   read it        GET /up   is it there

Settings come from a file (JSON, TOML, `key: value`, `key = value`), from flags, and from variables
that begin with SHELF_. Only the last part of a name counts: `http.port` is `port`.
"""

import http.server
import json
import os
import re
import socketserver
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

ALIKE = {
    "listen_port": "port", "http_port": "port", "data_dir": "data", "storage_path": "data",
    "root": "data", "log_file": "log", "logfile": "log", "log_path": "log", "log_level": "level",
    "verbosity": "level", "style": "log_style",
}  # fmt: skip
LEVELS = ("debug", "info", "warn", "error")


def flat(value: Any, found: dict[str, str]) -> dict[str, str]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            flat(inner, found)
        else:
            found[key.lower().replace("-", "_")] = str(inner)
    return found


def read(path: str) -> dict[str, str]:
    text = Path(path).read_text()
    if path.endswith(".json"):
        return flat(json.loads(text), {})
    if path.endswith(".toml"):
        return flat(tomllib.loads(text), {})
    pairs = re.findall(r"^[ \t]*(?:export )?([\w.-]+)[ \t]*[=:][ \t]*([^\n#]+)", text, re.MULTILINE)
    return {key.rpartition(".")[2].lower(): value.strip("\"' ") for key, value in pairs}


def settings() -> dict[str, str]:
    found: dict[str, str] = {}
    for word in sys.argv[1:]:
        if word.startswith("--"):
            key, _, value = word[2:].partition("=")
            found[key.replace("-", "_")] = value
        else:
            found |= read(word)
    found |= {
        name.removeprefix("SHELF_").lower(): value
        for name, value in os.environ.items()
        if name.startswith("SHELF_")
    }
    plain = {key.removeprefix("shelf_"): value for key, value in found.items()}
    return {ALIKE.get(key, key): value for key, value in plain.items()}


class Shelf(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self) -> None:
        self.own = settings()
        self.data = Path(self.own["data"])
        self.routes: dict[tuple[str, str], Callable[[str, bytes], tuple[int, bytes]]] = {
            ("PUT", "docs"): self.put,
            ("GET", "docs"): self.get,
            ("GET", "up"): lambda key, body: (200, b"up\n"),
        }
        super().__init__(("127.0.0.1", int(self.own["port"])), Asked)
        self.say("info", f"serving {self.data} at {self.own['port']}")

    def say(self, level: str, text: str) -> None:
        if LEVELS.index(level) < LEVELS.index(self.own.get("level", "info")):
            return
        line = told(self.own.get("log_style", "plain"), level, text)
        path = self.own.get("log", "")
        try:
            if path:
                with open(path, "a") as file:
                    file.write(line)
                return
        except OSError as error:
            line = f"{path}: {error.strerror}\n{line}"
        sys.stdout.write(line)
        sys.stdout.flush()

    def put(self, key: str, body: bytes) -> tuple[int, bytes]:
        new = self.data / f".{key}~"
        try:
            new.write_bytes(body)
            os.replace(new, self.data / key)
        finally:
            new.unlink(missing_ok=True)
        return 201, b"put\n"

    def get(self, key: str, body: bytes) -> tuple[int, bytes]:
        return 200, (self.data / key).read_bytes()

    def handle_error(self, request: object, client_address: object) -> None:
        self.say("warn", f"client went away: {sys.exc_info()[1]!r}")


def told(style: str, level: str, text: str) -> str:
    now = time.time()
    if style == "json":
        return json.dumps({"time": round(now, 3), "severity": level, "message": text}) + "\n"
    if style == "logfmt":
        return f't={time.strftime("%FT%TZ", time.gmtime(now))} lvl={level} msg="{text}"\n'
    if style == "syslog":
        return f"{time.strftime('%b %e %T')} box shelf[{os.getpid()}]: {level[0].upper()} {text}\n"
    if style == "epoch":
        return f"{now:.3f} [{level}] {text}\n"
    return f"{level}: {text}\n"


class Asked(http.server.BaseHTTPRequestHandler):
    server: Shelf
    timeout = 30

    def work(self) -> None:
        kind, _, key = self.path.strip("/").partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        do = self.server.routes.get((self.command, kind))
        try:
            if do is None or "/" in key or key.startswith("."):
                raise FileNotFoundError
            status, text = do(key, body)
        except FileNotFoundError:
            status, text = 404, b"nothing there\n"
        except (OSError, MemoryError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            status, text = 503, f"{reason}\n".encode()
            self.server.say("error", f"{self.command.lower()} {key}: {reason}")
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = work  # noqa: N815 - the names are the library's

    def log_message(self, format: str, *args: Any) -> None:
        self.server.say("debug", f"{self.client_address[0]} {format % args}")


def serve(kind: type[Shelf]) -> None:
    threading.stack_size(256 * 1024)
    kind().serve_forever()


if __name__ == "__main__":
    serve(Shelf)
