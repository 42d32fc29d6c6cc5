"""A small web service: it keeps items in a folder and gives them back.

usage: server.py CONFIG

[service] port, bind, data, log, level, lock, workers, timeout, needs, certificate, key"""

import configparser
import contextlib
import json
import logging
import os
import pathlib
import signal
import ssl
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSION = "1.0.0"
log = logging.getLogger("service")


class Service:
    def __init__(self, path: str) -> None:
        parser = configparser.ConfigParser()
        with open(path) as file:
            parser.read_file(file)
        self.config = parser["service"]
        self.port = int(self.config["port"])
        self.data = pathlib.Path(self.config["data"])
        self.workers = self.config.getint("workers", 8)
        self.timeout = self.config.getfloat("timeout", 2.0)
        self.needs = self.config.get("needs", "").split()
        self.slots = threading.Semaphore(self.workers)
        self.busy = 0
        self.started = time.time()

    def take_lock(self) -> None:
        """Two of us at the same data would spoil it."""
        lock = self.config.get("lock", "")
        if not lock:
            return
        try:
            with open(lock, "x") as file:
                file.write(f"{os.getpid()}\n")
        except FileExistsError:
            held = pathlib.Path(lock).read_text().strip()
            raise SystemExit(f"cannot start: {lock} is held by process {held}") from None

    def leave_lock(self) -> None:
        if lock := self.config.get("lock", ""):
            pathlib.Path(lock).unlink(missing_ok=True)

    def put(self, key: str, value: bytes) -> None:
        path = self.data / key
        draft = self.data / f".{key}.new"
        draft.write_bytes(value)
        draft.rename(path)

    def get(self, key: str) -> bytes:
        return (self.data / key).read_bytes()

    def trouble(self) -> str:
        """Why this service cannot serve; empty when it can."""
        try:
            self.put("health", str(time.time()).encode())
            self.get("health")
        except OSError as error:
            return f"storage {error.filename}: {error.strerror}"
        for url in self.needs:
            try:
                with urllib.request.urlopen(url, timeout=self.timeout) as reply:
                    reply.read()
            except OSError as error:
                return f"dependency {url}: {getattr(error, 'reason', error)}"
        return ""

    def stats(self) -> dict[str, object]:
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "workers": self.workers,
            "busy": self.busy,
            "open_files": len(os.listdir("/proc/self/fd")),
            "started": self.started,
        }


class Handler(BaseHTTPRequestHandler):
    service: Service
    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_GET(self) -> None:
        self.within(self.look)

    def do_PUT(self) -> None:
        self.within(self.store)

    do_POST = do_PUT  # noqa: N815 its caller's spelling

    def within(self, work: Callable[[], None]) -> None:
        service = self.service
        if not service.slots.acquire(timeout=service.timeout):
            log.error("%s %s: all %d workers are busy", self.command, self.path, service.workers)
            self.answer(503, "all workers are busy")
            return
        service.busy += 1
        try:
            work()
        except OSError as error:
            log.error("%s %s: %s", self.command, self.path, error)
            with contextlib.suppress(OSError):
                self.answer(500, f"{error.strerror or error}")
        finally:
            service.busy -= 1
            service.slots.release()

    def look(self) -> None:
        if self.path == "/healthz":
            trouble = self.service.trouble()
            if trouble:
                log.error("health: %s", trouble)
            self.answer(503 if trouble else 200, trouble or "ok")
        elif self.path == "/version":
            self.answer(200, VERSION)
        elif self.path == "/stats":
            self.answer(200, json.dumps(self.service.stats()))
        elif self.path == "/items":
            names = sorted(name for name in os.listdir(self.service.data) if name[0] != ".")
            self.answer(200, "\n".join(names))
        elif (key := self.key()) and (self.service.data / key).is_file():
            self.answer(200, self.service.get(key).decode())
        else:
            self.answer(404, "not found")

    def store(self) -> None:
        value = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.key()
        if not key:
            self.answer(404, "not found")
            return
        self.service.put(key, value)
        self.answer(201, "kept")

    def key(self) -> str:
        head, _, key = self.path.rpartition("/")
        return key if head == "/items" and key.replace("-", "").isalnum() else ""

    def answer(self, status: int, text: str) -> None:
        data = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *words: object) -> None:
        log.debug(format, *words)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.error("a request from %s failed: %s", client_address[0], sys.exc_info()[1])


def main() -> None:
    service = Service(sys.argv[1])
    where = service.config.get("log", "")
    logging.basicConfig(
        level=service.config.get("level", "info").upper(),
        filename=where or None,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    service.take_lock()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        Handler.service = service
        server = Server((service.config.get("bind", "0.0.0.0"), service.port), Handler)
        if certificate := service.config.get("certificate", ""):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, service.config["key"])
            server.socket = context.wrap_socket(server.socket, server_side=True)
        log.info("version %s listens at port %d", VERSION, service.port)
        server.serve_forever()
    except OSError as error:
        log.error("cannot start: %s", error)
        raise SystemExit(f"cannot start: {error}") from None
    finally:
        service.leave_lock()


if __name__ == "__main__":
    main()
