"""depotd: a store for notes.

    depotd.py SETTINGS.toml [--verbose]

    PUT /v1/notes/KEY    store a note
    GET /v1/notes/KEY    fetch it
    GET /status          can it store and fetch, and is what it depends on there

Settings: listen ("host:port" or "unix:/path"), store (folder), logfile, slots, backend (URL of
another depot that has the notes), backend_timeout, state (JSON file), hook (program that is run on
each note), token (file), requires (names of environment variables).
"""

import argparse
import http.server
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


class Failure(Exception):
    def __init__(self, reason: str, code: int = 503) -> None:
        super().__init__(reason)
        self.code = code


class Depot:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.slots = threading.BoundedSemaphore(settings.get("slots", 24))
        self.counter = 0
        if missing := [name for name in settings.get("requires", ()) if name not in os.environ]:
            raise SystemExit(f"fatal: environment variable {missing[0]} is not set")
        if path := settings.get("state"):
            self.counter = self.load(path)

    def load(self, path: str) -> int:
        try:
            return int(json.loads(Path(path).read_text())["counter"])
        except FileNotFoundError:
            return 0
        except (ValueError, KeyError, TypeError) as error:
            self.log("fatal", f"state file {path} is damaged: {error}")
            raise SystemExit(f"fatal: state file {path} is damaged: {error}") from None

    def log(self, level: str, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        line = f'ts={stamp}Z level={level} msg="{text}"\n'
        where = self.settings.get("logfile", "")
        if not where:
            sys.stdout.write(line)
            sys.stdout.flush()
            return
        try:
            with open(where, "a") as file:
                file.write(line)
        except OSError as error:
            sys.stderr.write(f"cannot log to {where}: {error.strerror}\n{line}")

    def put(self, key: str, body: bytes) -> None:
        if "backend" in self.settings:
            self.forward("PUT", key, body)
            return
        if hook := self.settings.get("hook"):
            body = self.hooked(hook, body)
        try:
            path = Path(self.settings["store"]) / key
            path.with_suffix(".part").write_bytes(body)
            path.with_suffix(".part").replace(path)
        except OSError as error:
            place = error.filename or self.settings["store"]
            raise Failure(f"store {place}: {error.strerror}", 500) from None
        self.counter += 1
        if state := self.settings.get("state"):
            draft = Path(f"{state}.draft")
            draft.write_text(json.dumps({"counter": self.counter}))
            draft.replace(state)

    def hooked(self, hook: str, body: bytes) -> bytes:
        try:
            done = subprocess.run([hook], input=body, capture_output=True, timeout=5, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(f"hook: {error}", 500) from None
        if done.returncode:
            raise Failure(f"hook {hook}: {done.stderr.decode(errors='replace').strip()}", 500)
        return done.stdout

    def get(self, key: str) -> bytes:
        if "backend" in self.settings:
            return self.forward("GET", key, None)
        try:
            return (Path(self.settings["store"]) / key).read_bytes()
        except FileNotFoundError:
            raise Failure(f"no note {key}", 404) from None
        except OSError as error:
            raise Failure(f"store {error.filename}: {error.strerror}", 500) from None

    def forward(self, method: str, key: str, body: bytes | None) -> bytes:
        url = f"{self.settings['backend']}/v1/notes/{key}"
        request = urllib.request.Request(url, body, method=method)
        try:
            wait = self.settings.get("backend_timeout", 1.5)
            with urllib.request.urlopen(request, timeout=wait) as answer:
                found: bytes = answer.read()
                return found
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace").strip()
            code = 404 if error.code == 404 else 502
            raise Failure(f"backend {url}: {error.code} {text[:200]}", code) from None
        except OSError as error:
            raise Failure(f"backend {url}: {getattr(error, 'reason', error)}", 504) from None

    def status(self) -> None:
        stamp = str(time.time_ns()).encode() * 20
        self.put("status-probe", stamp)
        if self.get("status-probe") != stamp:
            raise Failure("a note came back altered", 500)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20
    depot: Depot

    def respond(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.depot.slots.acquire(timeout=0.5):
            self.depot.log("error", f"{self.command} {self.path}: all slots are in use")
            self.respond(503, b'{"status": "fail", "reason": "all slots are in use"}\n')
            return
        try:
            self.respond(*self.result(body))
        except Failure as failure:
            if failure.code != 404:
                self.depot.log("error", f"{self.command} {self.path}: {failure}")
            told = json.dumps({"status": "fail", "reason": str(failure)})
            self.respond(failure.code, f"{told}\n".encode())
        finally:
            self.depot.slots.release()

    do_GET = do_PUT = do_POST = serve  # noqa: N815 - the library's names

    def result(self, body: bytes) -> tuple[int, bytes]:
        if self.path == "/status":
            self.depot.status()
            return 200, b'{"status": "pass"}\n'
        head, _, key = self.path.rpartition("/")
        if head != "/v1/notes" or not key.replace("-", "").isalnum():
            raise Failure("no such page", 404)
        if self.command == "GET":
            return 200, self.depot.get(key)
        self.depot.put(key, body)
        return 201, b'{"status": "stored"}\n'

    def log_message(self, format: str, *words: object) -> None:
        """Only failures are logged."""


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64


class LocalServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


def listen(address: str) -> socketserver.BaseServer:
    kind, _, rest = address.partition(":")
    if kind == "unix":
        Path(rest).unlink(missing_ok=True)
        return LocalServer(rest, Handler)
    return Server((kind, int(rest)), Handler)


def run(depot: type[Depot] = Depot) -> None:
    parser = argparse.ArgumentParser(prog="depotd")
    parser.add_argument("settings")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    with open(options.settings, "rb") as file:
        try:
            settings = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise SystemExit(f"fatal: {options.settings}: {error}") from None
    Handler.depot = depot(settings)
    try:
        server = listen(settings["listen"])
    except OSError as error:
        Handler.depot.log("fatal", f"cannot listen at {settings['listen']}: {error}")
        raise SystemExit(f"fatal: cannot listen at {settings['listen']}: {error}") from None
    Handler.depot.log("info", f"listening at {settings['listen']} on {socket.gethostname()}")
    server.serve_forever()


if __name__ == "__main__":
    run()
