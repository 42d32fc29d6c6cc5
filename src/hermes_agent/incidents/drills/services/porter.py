"""Hands values on over HTTP: PUT /v/KEY, GET /v/KEY, GET /live, and GET /status, which writes one
and reads it. Usage: porter.py FILE, porter.py --key=value ..., or settings as PORTER_KEY.

Where values are kept is one address: a folder, http://, kv://, postgres:// or sqlite:."""

import json
import os
import queue
import socket
import sqlite3
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from hermes_agent.incidents.drills.services.items import Connection, Refused

Settings = dict[str, str]


class Absent(Exception):
    """There is no such value."""


class Shelf(Protocol):
    def get(self, key: str) -> str: ...

    def put(self, key: str, value: str) -> None: ...


class Files:
    def __init__(self, place: str, own: Settings) -> None:
        self.folder = Path(place)

    def get(self, key: str) -> str:
        try:
            return (self.folder / key).read_text()
        except FileNotFoundError:
            raise Absent(key) from None

    def put(self, key: str, value: str) -> None:
        (self.folder / key).write_text(value)


class Web:
    """Another one like this. After so many failures in a row, the breaker opens for good."""

    def __init__(self, place: str, own: Settings) -> None:
        self.place, self.failures = place.rstrip("/"), 0
        self.seconds, self.most = float(own.get("timeout", 1)), int(own.get("breaker", 0))

    def get(self, key: str) -> str:
        return self.ask("GET", key, None)

    def put(self, key: str, value: str) -> None:
        self.ask("PUT", key, value.encode())

    def ask(self, method: str, key: str, body: bytes | None) -> str:
        if self.most and self.failures >= self.most:
            raise OSError(f"circuit breaker for {self.place} is open, request rejected")
        self.failures += 1
        request = urllib.request.Request(f"{self.place}/v/{key}", body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.seconds) as answer:
                text: str = answer.read().decode()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                self.failures = 0
                raise Absent(key) from None
            raise OSError(f"upstream {self.place} responded {error.code}") from None
        except urllib.error.URLError as error:
            raise OSError(f"upstream {self.place} failed: {error.reason}") from None
        self.failures = 0
        return text


class Pool:
    """Connections that are shared; each is opened when it is first wanted."""

    def __init__(self, own: Settings) -> None:
        self.free: queue.Queue[Any] = queue.Queue()
        self.size, self.wait = int(own.get("pool", 4)), float(own.get("pool_wait", 1))
        for _ in range(self.size):
            self.free.put(None)

    def take(self) -> Any:
        try:
            return self.free.get(timeout=self.wait)
        except queue.Empty:
            raise OSError(
                f"timeout waiting for connection from pool (size={self.size}, waited {self.wait} s)"
            ) from None


class Lines:
    """A server of lines, over connections that are kept; a lost one is not opened again where
    `reconnect` says so."""

    def __init__(self, place: str, own: Settings) -> None:
        self.place, self.pool = place, Pool(own)
        self.to = (urlsplit(place).hostname or "", urlsplit(place).port or 0)
        self.sticky = own.get("reconnect", "yes") == "no"
        self.hold = float(own.get("hold", 0))

    def get(self, key: str) -> str:
        return self.ask(f"GET {key}")

    def put(self, key: str, value: str) -> None:
        self.ask(f"SET {key} {value}")

    def ask(self, text: str) -> str:
        link = self.pool.take()
        try:
            link = link or socket.create_connection(self.to, 2).makefile("rw")
            time.sleep(self.hold)
            link.write(text + "\n")
            link.flush()
            said: str = link.readline().strip() or "connection closed by peer"
        except OSError as error:
            said = str(error)
        well, absent = said.startswith("+"), said == "-ERR no such key"
        self.pool.free.put(link if well or absent or self.sticky else None)
        if absent:
            raise Absent(text)
        if not well:
            raise OSError(f"{self.place}: {said}")
        return said[1:]


class Lite:
    def __init__(self, place: str, own: Settings) -> None:
        self.path, self.table = place, own.get("table", "kept")

    def get(self, key: str) -> str:
        found = self.ask(f"select v from {self.table} where k = ?", (key,))
        if not found:
            raise Absent(key)
        return str(found[0][0])

    def put(self, key: str, value: str) -> None:
        self.ask(f"insert or replace into {self.table} values (?, ?)", (key, value))

    def ask(self, text: str, values: tuple[str, ...]) -> list[Any]:
        base = sqlite3.connect(self.path, timeout=0.5)
        try:
            with base:
                return base.execute(text, values).fetchall()
        finally:
            base.close()


class Postgres:
    def __init__(self, place: str, own: Settings) -> None:
        self.place, self.own, self.pool = urlsplit(place), own, Pool(own)
        self.before = own.get("before", "")

    def get(self, key: str) -> str:
        rows = self.ask(f"select v from {self.own['table']} where k = '{key}'")
        if not rows:
            raise Absent(key)
        return str(rows[0][0])

    def put(self, key: str, value: str) -> None:
        self.ask(
            f"{self.before}insert into {self.own['table']} values ('{key}', '{value}') "
            "on conflict (k) do update set v = excluded.v"
        )

    def ask(self, text: str) -> Any:
        link = self.pool.take()
        try:
            link = link or self.connect()
            return link.query(text)
        except (Refused, OSError) as error:
            if link is not None:
                link.close()
            link = None
            raise OSError(f"query failed: {error}") from None
        finally:
            self.pool.free.put(link)

    def connect(self) -> Connection:
        to = self.place
        link = Connection(
            to.hostname or "", to.port or 5432, to.path[1:], to.username or "", self.own["name"]
        )
        link.query(f"set statement_timeout = {self.own.get('statement_timeout', 900)}")
        return link


KINDS: dict[str, Any] = {
    "http": Web, "kv": Lines, "sqlite": Lite, "postgres": Postgres, "postgresql": Postgres,
}  # fmt: skip


def shelf(own: Settings) -> Shelf:
    place = own["backend"]
    kind = place.partition(":")[0]
    found: Shelf = KINDS.get(kind, Files)(place.removeprefix("sqlite:"), own)
    return found


class Cached:
    """Asks a quick one first. What that does not have, and all where it is gone, the other has."""

    def __init__(self, quick: Shelf, own: Shelf) -> None:
        self.quick, self.own = quick, own

    def get(self, key: str) -> str:
        try:
            return self.quick.get(key)
        except OSError as error:
            say("warn", f"cache lookup failed, falling back to origin: {error}")
        except Absent:
            pass
        return self.own.get(key)

    def put(self, key: str, value: str) -> None:
        try:
            self.quick.put(key, value)
        except OSError as error:
            say("warn", f"cache write failed: {error}")
            self.own.put(key, value)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    keeper: Shelf
    pause = 0.0

    def do_GET(self) -> None:
        if self.path == "/live":
            self.answer(200, "alive")
            return
        self.attempt(self.keeper.get)

    def do_PUT(self) -> None:
        value = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()

        def put(key: str) -> str:
            self.keeper.put(key, value)
            return "stored"

        self.attempt(put)

    def attempt(self, work: Any) -> None:
        try:
            time.sleep(self.pause)
            if self.path == "/status":
                stamp = str(time.time_ns())
                self.keeper.put("status", stamp)
                self.keeper.get("status")
                self.answer(200, "UP")
                return
            self.answer(200, str(work(self.path.removeprefix("/v/"))))
        except Absent as error:
            self.answer(404, f"no value {error}")
        except (OSError, sqlite3.Error, ValueError) as error:
            say("error", f"{self.command} {self.path} failed: {error}")
            self.answer(503, str(error))

    def answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Only what fails is worth a line."""


STYLE: Settings = {}


def say(level: str, text: str) -> None:
    """A line of the log, as this house writes them."""
    now, name = time.time(), STYLE.get("name", "porter")
    local = time.gmtime(now)
    line = {
        "json": json.dumps({"ts": round(now, 3), "level": level, "logger": name, "msg": text}),
        "logfmt": f"time={time.strftime('%Y-%m-%dT%H:%M:%SZ', local)} level={level} app={name} "
        f"msg={json.dumps(text)}",
        "syslog": f"{time.strftime('%b %e %H:%M:%S', local)} {socket.gethostname()} "
        f"{name}[{os.getpid()}]: {text}",
        "python": f"{time.strftime('%Y-%m-%d %H:%M:%S', local)},{int(now % 1 * 1000):03} "
        f"{level.upper():8} [{threading.current_thread().name}] {name}: {text}",
        "go": f"{time.strftime('%Y/%m/%d %H:%M:%S', local)} {name}: {text}",
    }.get(STYLE.get("style", ""), text)
    path = STYLE.get("log_file", "")
    if path:
        with Path(path).open("a") as file:
            file.write(line + "\n")
    else:
        print(line, flush=True)


def settings(words: list[str]) -> Settings:
    """From a file by its ending, from flags, or from the environment; names of groups go."""
    found = {
        key.removeprefix("PORTER_").lower(): value
        for key, value in os.environ.items()
        if key.startswith("PORTER_")
    }
    for word in words:
        if word.startswith("--"):
            key, _, value = word[2:].partition("=")
            found[key.replace("-", "_")] = value
        elif word.endswith(".json"):
            found |= flat(json.loads(Path(word).read_text()))
        else:
            for line in Path(word).read_text().splitlines():
                key, mark, value = line.partition(":" if word.endswith((".yml", ".yaml")) else "=")
                if mark and value.strip() and not key.strip().startswith("#"):
                    found[key.strip().rpartition(".")[2].lower()] = value.strip().strip("\"'")
    return found


def flat(value: Any) -> Settings:
    found: Settings = {}
    for key, one in value.items():
        found |= flat(one) if isinstance(one, dict) else {key: str(one)}
    return found


def main() -> None:
    own = settings(sys.argv[1:])
    STYLE.update(own)
    Handler.keeper = shelf(own)
    if own.get("cache"):
        Handler.keeper = Cached(shelf({**own, "backend": own["cache"]}), Handler.keeper)
    Handler.pause = float(own.get("delay", 0))
    ThreadingHTTPServer.request_queue_size = 64
    host, _, port = own["listen"].rpartition(":")
    server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), Handler)
    server.daemon_threads = True
    say("info", f"started, serving on {own['listen']}")
    server.serve_forever()


if __name__ == "__main__":
    main()
