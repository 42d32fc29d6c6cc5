"""records: a small API over a SQLite file, served by a few worker processes.

    python3 app.py ENVFILE

    PUT /api/records/KEY   save a record
    GET /api/records/KEY   read it
    GET /up                OK, or what is wrong

ENVFILE holds NAME=value lines: PORT, DATABASE, JOURNAL_MODE, LOG_FILE, LOG_LEVEL, WORKERS,
MAX_REQUESTS (a worker is replaced after so many; 0: never), WORKER_MEMORY_MB, REQUEST_LOG,
AUTH_URL (who gives out tickets), AUTH_SECRET, AUTH_LEEWAY (seconds).
"""

import contextlib
import hashlib
import hmac
import http.server
import json
import os
import resource
import signal
import socket
import sqlite3
import sys
import time
import urllib.request
from types import FrameType
from typing import Any

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class Refused(Exception):
    def __init__(self, text: str, status: int = 503) -> None:
        super().__init__(text)
        self.status = status


def read_env(path: str) -> dict[str, str]:
    found = {}
    with open(path) as file:
        for number, line in enumerate(file, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            name, equals, value = text.removeprefix("export ").partition("=")
            if not equals:
                raise SystemExit(f"{path}:{number}: expected NAME=value, got {text!r}")
            found[name.strip()] = value.strip().strip("\"'")
    return found


def sign(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


class App:
    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self.threshold = LEVELS.index(env.get("LOG_LEVEL", "info").upper())
        self.served = 0
        with contextlib.closing(self.connect()) as base:
            if mode := env.get("JOURNAL_MODE", ""):
                base.execute(f"pragma journal_mode={mode}")
            base.execute("create table if not exists records (key text primary key, value blob)")

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.env["DATABASE"], timeout=1.5, isolation_level=None)

    def log(self, level: str, text: str) -> None:
        if LEVELS.index(level) < self.threshold:
            return
        stamp = time.strftime("%Y-%m-%d %H:%M:%S +0000", time.gmtime())
        line = f"[{stamp}] [{os.getpid()}] [{level}] {text}\n"
        try:
            with open(self.env["LOG_FILE"], "a") as file:
                file.write(line)
        except OSError:
            sys.stderr.write(line)
            sys.stderr.flush()

    def save(self, key: str, value: bytes) -> None:
        with contextlib.closing(self.connect()) as base:
            base.execute("insert or replace into records values (?, ?)", (key, value))

    def load(self, key: str) -> bytes:
        with contextlib.closing(self.connect()) as base:
            row = base.execute("select value from records where key = ?", (key,)).fetchone()
        if row is None:
            raise Refused(f"no record {key}", 404)
        value = row[0]
        return value.encode() if isinstance(value, str) else bytes(value)

    def admit(self) -> None:
        """Every visit takes a ticket from whoever gives them out."""
        if not (url := self.env.get("AUTH_URL", "")):
            return
        try:
            with urllib.request.urlopen(f"{url}/tickets", timeout=1.5) as reply:
                ticket = json.loads(reply.read())
        except OSError as error:
            raise Refused(f"auth {url}: {getattr(error, 'reason', error)}") from None
        begin, end = int(ticket["iat"]), int(ticket["exp"])
        if not hmac.compare_digest(sign(self.env["AUTH_SECRET"], f"{begin}.{end}"), ticket["sig"]):
            raise Refused("ticket has a bad signature", 401)
        leeway, now = int(self.env.get("AUTH_LEEWAY", "30")), int(time.time())
        if now < begin - leeway:
            raise Refused(f"ticket is not yet valid (iat={begin})", 401)
        if now > end + leeway:
            raise Refused(f"ticket has expired (exp={end})", 401)

    def ticket(self) -> bytes:
        """Where this is the one that gives out tickets."""
        begin = int(time.time())
        end = begin + int(self.env.get("TICKET_SECONDS", "300"))
        sig = sign(self.env["AUTH_SECRET"], f"{begin}.{end}")
        return json.dumps({"iat": begin, "exp": end, "sig": sig}).encode()

    def up(self) -> bytes:
        stamp = str(time.time_ns()).encode()
        self.save("up-check", stamp)
        self.load("up-check")
        return b"OK\n"

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if path == "/tickets" and "TICKET_SECONDS" in self.env:
            return 200, self.ticket()
        self.admit()
        if path == "/up":
            return 200, self.up()
        head, _, key = path.partition("?")[0].rpartition("/")
        if head != "/api/records" or not key.replace("-", "").isalnum():
            raise Refused("not found", 404)
        if method == "GET":
            return 200, self.load(key)
        self.save(key, body)
        return 201, b"saved\n"


class Handler(http.server.BaseHTTPRequestHandler):
    app: App
    timeout = 4

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        app = self.app
        app.served += 1
        try:
            status, text = app.answer(self.command, self.path, body)
        except Refused as error:
            status, text = error.status, f"DOWN: {error}\n".encode()
        except (sqlite3.Error, OSError, ValueError) as error:
            status, text = 500, f"DOWN: {type(error).__name__}: {error}\n".encode()
        except MemoryError:
            status, text = 500, b"DOWN: MemoryError\n"
        if status >= 400 and status != 404:
            app.log("ERROR", f"{self.command} {self.path} {status} {text.decode().strip()}")
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = serve  # noqa: N815 - the library's names

    def log_message(self, format: str, *words: object) -> None:
        self.app.log("DEBUG", format % words)


class Listener(http.server.HTTPServer):
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked has gone."""


def work(app: App, server: Listener) -> None:
    """One worker, until it is replaced."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if most := int(app.env.get("WORKER_MEMORY_MB", "0")):
        resource.setrlimit(resource.RLIMIT_AS, (most << 20, most << 20))
    limit = int(app.env.get("MAX_REQUESTS", "0"))
    while not limit or app.served < limit:
        server.handle_request()
    app.log("INFO", f"worker exiting after {app.served} requests (pid: {os.getpid()})")


def spawn(app: App, server: Listener) -> int:
    child = os.fork()
    if child == 0:
        try:
            work(app, server)
        finally:
            os._exit(0)
    app.log("INFO", f"booting worker with pid: {child}")
    return child


def main(kind: type[App] = App) -> None:
    app = kind(read_env(sys.argv[1]))
    Handler.app = app
    try:
        server = Listener((app.env.get("HOST", "127.0.0.1"), int(app.env["PORT"])), Handler)
    except OSError as error:
        app.log("CRITICAL", f"cannot listen on port {app.env['PORT']}: {error}")
        raise SystemExit(1) from None
    app.log("INFO", f"listening on port {app.env['PORT']} at {socket.gethostname()}")
    children = {spawn(app, server) for _ in range(int(app.env.get("WORKERS", "2")))}

    def end(number: int, frame: FrameType | None) -> None:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        gone, _ = os.wait()
        children.discard(gone)
        children.add(spawn(app, server))


if __name__ == "__main__":
    main()
