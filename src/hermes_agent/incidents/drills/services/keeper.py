"""A small service that keeps items: a file for each, and a line in the journal for each write.

    keeper.py FILE.conf

    PUT /items/KEY   keep what is sent
    GET /items/KEY   give it back
    GET /items       the names
    GET /healthz     is it there

Settings, in the section [service]: name, port, data (folder), journal (file), log (file; otherwise
standard output), level (debug, info, warning, error), slots (requests at a time).
"""

import configparser
import http.server
import os
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_agent.incidents.drills.services.common import Answering, line, settings

LEVELS = ("debug", "info", "warning", "error")
Answer = tuple[int, bytes]


class Service(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, own: configparser.SectionProxy) -> None:
        self.own = own
        self.data = Path(own["data"])
        self.slots = threading.BoundedSemaphore(own.getint("slots", 32))
        self.routes: dict[tuple[str, str], Callable[[str, bytes], Answer]] = {
            ("PUT", "items"): self.keep,
            ("GET", "items"): self.give,
            ("GET", "healthz"): self.health,
        }
        super().__init__((own.get("bind", "127.0.0.1"), int(own["port"])), Request)
        self.log("info", f"{own['name']} listens on port {own['port']}, data in {self.data}")

    def log(self, level: str, text: str) -> None:
        if LEVELS.index(level) < LEVELS.index(self.own.get("level", "info")):
            return
        told = line(f"{level.upper()} {text}")
        if "log" not in self.own:
            sys.stdout.write(told)
            sys.stdout.flush()
            return
        try:
            with open(self.own["log"], "a") as file:
                file.write(told)
        except OSError as error:
            sys.stderr.write(f"cannot write {self.own['log']}: {error.strerror}: {told}")
            sys.stderr.flush()

    def keep(self, key: str, body: bytes) -> Answer:
        new = self.data / f".{key}.new"
        try:
            new.write_bytes(body)
            os.replace(new, self.data / key)
        finally:
            new.unlink(missing_ok=True)
        if "journal" in self.own:
            with open(self.own["journal"], "a") as file:
                file.write(f"{time.strftime('%H:%M:%S')} put {key} {len(body)}\n")
        return 201, b"kept\n"

    def give(self, key: str, body: bytes) -> Answer:
        if not key:
            return 200, "".join(f"{name}\n" for name in sorted(os.listdir(self.data))).encode()
        return 200, (self.data / key).read_bytes()

    def health(self, key: str, body: bytes) -> Answer:
        return 200, f"ok {self.own['name']}\n".encode()

    def handle_error(self, request: object, client_address: object) -> None:
        self.log("error", f"a request broke off: {sys.exc_info()[1]!r}")


class Request(Answering):
    server: Service
    timeout = 30

    def work(self) -> None:
        """Find who does it, and do it in a slot; trouble is logged and answered with 500."""
        kind, _, key = self.path.strip("/").partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        do = self.server.routes.get((self.command, kind))
        if do is None or "/" in key or key.startswith("."):
            self.answer(404, b"no such page\n")
        elif not self.server.slots.acquire(blocking=False):
            self.server.log("warning", f"{self.command} {self.path}: all slots are taken")
            self.answer(503, b"busy: all slots are taken\n")
        else:
            try:
                status, text = do(key, body)
            except FileNotFoundError:
                status, text = 404, b"no such item\n"
            except (OSError, MemoryError) as error:
                status, text = 500, f"{type(error).__name__}: {error}\n".encode()
                self.server.log("error", f"{self.command} {self.path}: {text.decode().strip()}")
            finally:
                self.server.slots.release()
            self.answer(status, text)

    do_GET = do_PUT = do_POST = do_DELETE = work  # noqa: N815 - the names are the library's

    def log_message(self, format: str, *args: Any) -> None:
        self.server.log("debug", f"{self.client_address[0]} {format % args}")


def serve(kind: type[Service]) -> None:
    threading.stack_size(256 * 1024)
    kind(settings(sys.argv[1])).serve_forever()


if __name__ == "__main__":
    serve(Service)
