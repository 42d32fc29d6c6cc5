"""binderd: papers over HTTP.

    binderd.py SETTINGS

    PUT /papers/KEY        file a paper
    GET /papers/KEY        read it
    PUT /uploads/ID/PART   a part of a big one
    POST /uploads/ID       all parts are there: file it as ID
    GET /server-status     can it file and read

Settings, one in each line: ServerName, Listen (host:port), StoreRoot, UploadRoot, ErrorLog,
MemoryLimit (megabytes).
"""

import http.server
import os
import resource
import shutil
import socketserver
import sys
import threading
import time
from pathlib import Path
from typing import Any


class Trouble(Exception):
    def __init__(self, text: str, status: int = 500) -> None:
        super().__init__(text)
        self.status = status


def settings(path: str) -> dict[str, str]:
    found = {}
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        name, _, value = line.strip().partition(" ")
        if not name or name.startswith("#"):
            continue
        if not value.strip():
            raise SystemExit(f"{path}: line {number}: {name} takes one argument")
        found[name] = value.strip()
    return found


class Binder:
    def __init__(self, own: dict[str, str]) -> None:
        self.own = own
        self.store = Path(own["StoreRoot"])
        self.errors = os.open(own["ErrorLog"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if most := int(own.get("MemoryLimit", "0")):
            resource.setrlimit(resource.RLIMIT_DATA, (most << 20, most << 20))

    def log(self, level: str, text: str) -> None:
        now = time.time()
        stamp = time.strftime("%a %b %d %H:%M:%S", time.gmtime(now))
        head = f"{stamp}.{int(now % 1 * 1e6):06} {time.strftime('%Y', time.gmtime(now))}"
        line = f"[{head}] [binder:{level}] [pid {os.getpid()}] {text}\n"
        try:
            os.write(self.errors, line.encode())
        except OSError:
            sys.stderr.write(line)
            sys.stderr.flush()

    def put(self, key: str, body: bytes) -> None:
        new = self.store / f".{key}.new"
        try:
            new.write_bytes(body)
            new.replace(self.store / key)
        except OSError as error:
            raise Trouble(f"({error.errno}){error.strerror}: could not file {new}") from None

    def get(self, key: str) -> bytes:
        try:
            return (self.store / key).read_bytes()
        except FileNotFoundError:
            raise Trouble("no such paper", 404) from None
        except OSError as error:
            raise Trouble(f"({error.errno}){error.strerror}: could not read {key}") from None

    def upload(self, name: str, part: str, body: bytes) -> None:
        folder = Path(self.own["UploadRoot"], name)
        try:
            if part:
                folder.mkdir(exist_ok=True)
                (folder / f"{part}.part").write_bytes(body)
                return
            whole = b"".join(one.read_bytes() for one in sorted(folder.iterdir()))
        except OSError as error:
            raise Trouble(f"({error.errno}){error.strerror}: upload {folder}") from None
        self.put(name, whole)
        shutil.rmtree(folder)

    def status(self) -> str:
        stamp = str(time.time_ns()).encode()
        self.put("status-probe", stamp)
        if self.get("status-probe") != stamp:
            raise Trouble("a paper was not as it was filed")
        return f"ServerName: {self.own['ServerName']}\nStatus: ready\n"

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        words = path.strip("/").split("/")
        if not all(word.replace("-", "").isalnum() for word in words):
            raise Trouble("bad request", 400)
        match (method, words):
            case ("GET", ["server-status"]):
                return 200, self.status().encode()
            case ("GET", ["papers", key]):
                return 200, self.get(key)
            case ("PUT", ["papers", key]):
                self.put(key, body)
                return 201, b"filed\n"
            case ("PUT", ["uploads", name, part]) if "UploadRoot" in self.own:
                self.upload(name, part, body)
                return 202, b"taken\n"
            case ("POST", ["uploads", name]) if "UploadRoot" in self.own:
                self.upload(name, "", body)
                return 201, b"filed\n"
        raise Trouble("no such page", 404)


class Asked(http.server.BaseHTTPRequestHandler):
    binder: Binder
    timeout = 20

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, text = self.binder.answer(self.command, self.path, body)
        except Trouble as trouble:
            status, text = trouble.status, f"Status: failing ({trouble})\n".encode()
            if status >= 500:
                self.binder.log("error", f"{self.command} {self.path}: {trouble}")
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = serve  # noqa: N815 - the library's names

    def log_message(self, format: str, *words: object) -> None:
        """Only what failed is written down."""


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError as error:
            Asked.binder.log("crit", f"({error.errno}){error.strerror}: accept")
            time.sleep(0.3)
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        Asked.binder.log("error", f"{client_address[0]}: {sys.exc_info()[1]!r}")


def run(kind: type[Binder] = Binder) -> None:
    own = settings(sys.argv[1])
    threading.stack_size(256 * 1024)
    Asked.binder = kind(own)
    host, _, port = own["Listen"].rpartition(":")
    try:
        server = Server((host, int(port)), Asked)
    except OSError as error:
        Asked.binder.log("crit", f"({error.errno}){error.strerror}: could not bind {own['Listen']}")
        raise SystemExit(1) from None
    Asked.binder.log("notice", f"binderd configured -- listening at {own['Listen']}")
    server.serve_forever()


if __name__ == "__main__":
    run()
