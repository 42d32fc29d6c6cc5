"""Keeps items, and gives them out over HTTP. Usage: items.py CONFIGURATION

PUT /items/KEY and GET /items/KEY; GET /ready writes one and reads it; GET /healthz only answers.
Items are kept in a folder, in a table of PostgreSQL, or by another service like this one."""

import configparser
import hashlib
import hmac
import queue
import socket
import struct
import sys
import threading
import time
import urllib.error
import urllib.request
from email.message import Message
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

from hermes_agent.incidents.drills.services.common import Answering, line, settings

Rows = list[tuple[str | None, ...]]


class Trouble(Exception):
    """What the caller is told, with its status."""

    def __init__(self, text: str, status: int = 503) -> None:
        super().__init__(text)
        self.status = status


class Keeper(Protocol):
    def get(self, key: str) -> str: ...

    def put(self, key: str, value: str) -> None: ...


class Folder:
    """A file for each item."""

    def __init__(self, settings: configparser.SectionProxy) -> None:
        self.folder = Path(settings["data"])

    def get(self, key: str) -> str:
        try:
            return (self.folder / key).read_text()
        except FileNotFoundError:
            raise Trouble(f"no item {key}", 404) from None
        except OSError as error:
            raise Trouble(f"cannot read: {error}") from None

    def put(self, key: str, value: str) -> None:
        try:
            (self.folder / key).write_text(value)
        except OSError as error:
            raise Trouble(f"cannot write: {error}") from None


class Upstream:
    """Another service keeps them."""

    def __init__(self, settings: configparser.SectionProxy) -> None:
        self.url = settings["upstream"]
        self.timeout = settings.getfloat("timeout", 1.0)
        self.give_up_after = settings.getint("give_up_after", 0)
        self.secret = settings.get("secret", "")
        self.failures = 0

    def get(self, key: str) -> str:
        return self.ask("GET", key, None)

    def put(self, key: str, value: str) -> None:
        self.ask("PUT", key, value.encode())

    def ask(self, method: str, key: str, body: bytes | None) -> str:
        if self.give_up_after and self.failures >= self.give_up_after:
            raise Trouble(f"gave up on {self.url} after {self.failures} failures; restart to retry")
        url = f"{self.url}/items/{key}"
        request = urllib.request.Request(url, body, self.signature(), method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                text: str = answer.read().decode()
        except urllib.error.HTTPError as error:
            said = f"{url}: {error.code} {error.read().decode().strip()}"
            if error.code == 404:
                raise Trouble(said, 404) from None
            self.failures += 1
            raise Trouble(said, 502) from None
        except OSError as error:
            self.failures += 1
            raise Trouble(f"{url}: {error}", 504) from None
        self.failures = 0
        return text

    def signature(self) -> dict[str, str]:
        if not self.secret:
            return {}
        now = str(time.time())
        return {"X-Time": now, "X-Signature": signed(self.secret, now)}


class Refused(Exception):
    """PostgreSQL said no, in its own words."""


class Connection:
    """To PostgreSQL, without a password, one query after another."""

    def __init__(self, host: str, port: int, database: str, user: str, name: str) -> None:
        self.socket = socket.create_connection((host, port), 5)
        self.file = self.socket.makefile("rb")
        pairs = {"user": user, "database": database, "application_name": name}
        body = b"".join(f"{k}\0{v}\0".encode() for k, v in pairs.items()) + b"\0"
        self.socket.sendall(struct.pack("!ii", len(body) + 8, 196608) + body)
        self.answer()

    def query(self, text: str) -> Rows:
        body = text.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!i", len(body) + 4) + body)
        return self.answer()

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def answer(self) -> Rows:
        rows: Rows = []
        refused: Refused | None = None
        while True:
            head = self.file.read(5)
            if len(head) < 5:
                raise refused or Refused("the server closed the connection")
            body = self.file.read(struct.unpack("!i", head[1:])[0] - 4)
            if head[:1] == b"E":
                fields = {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}
                refused = Refused(f"{fields[b'S']}: {fields[b'M']}")
            elif head[:1] == b"D":
                rows.append(row(body))
            elif head[:1] == b"Z":
                if refused:
                    raise refused
                return rows


def row(body: bytes) -> tuple[str | None, ...]:
    values: list[str | None] = []
    at = 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        (size,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        values.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return tuple(values)


class Table:
    """A table, behind a pool of connections that are opened when first wanted."""

    def __init__(self, settings: configparser.SectionProxy) -> None:
        self.settings = settings
        self.pool: queue.Queue[Connection | None] = queue.Queue()
        for _ in range(settings.getint("pool", 4)):
            self.pool.put(None)

    def get(self, key: str) -> str:
        rows = self.ask(f"select value from {self.settings['table']} where key = '{key}'")
        if not rows:
            raise Trouble(f"no item {key}", 404)
        return rows[0][0] or ""

    def put(self, key: str, value: str) -> None:
        value = value.replace("'", "''")
        self.ask(
            f"insert into {self.settings['table']} values ('{key}', '{value}') "
            "on conflict (key) do update set value = excluded.value"
        )

    def ask(self, text: str) -> Rows:
        try:
            connection = self.pool.get(timeout=1)
        except queue.Empty:
            raise Trouble("no free connection in the pool after 1 s") from None
        try:
            connection = connection or self.connect()
            return connection.query(text)
        except (Refused, OSError) as error:
            if connection:
                connection.close()
            connection = None
            raise Trouble(f"database: {error}") from None
        finally:
            self.pool.put(connection)

    def connect(self) -> Connection:
        host, _, rest = self.settings["database"].partition(":")
        port, _, rest = rest.partition("/")
        database, _, user = rest.partition(" ")
        connection = Connection(host, int(port), database, user, self.settings["name"])
        connection.query(f"set statement_timeout = {self.settings.getint('timeout_ms', 1000)}")
        return connection


def signed(secret: str, text: str) -> str:
    try:
        key = Path(secret).read_bytes()
    except OSError as error:
        raise Trouble(f"cannot read the secret: {error}") from None
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Service:
    def __init__(self, settings: configparser.SectionProxy) -> None:
        self.settings = settings
        self.keeper: Keeper
        if "upstream" in settings:
            self.keeper = Upstream(settings)
        elif "database" in settings:
            self.keeper = Table(settings)
        else:
            self.keeper = Folder(settings)
        self.workers = threading.Semaphore(settings.getint("workers", 16))

    def admit(self, headers: Message) -> None:
        """Refuse what is not signed, or was signed at another time than now."""
        if not self.settings.getboolean("signed_only", False):
            return
        stamp = headers.get("X-Time", "0")
        off = float(stamp) - time.time()
        if abs(off) > self.settings.getfloat("tolerance", 30):
            raise Trouble(f"the request was signed {off:+.0f} s from now", 401)
        right = signed(self.settings["secret"], stamp)
        if not hmac.compare_digest(right, headers.get("X-Signature", "")):
            raise Trouble("the signature is wrong", 401)

    def get(self, key: str) -> str:
        with self.workers:
            time.sleep(self.settings.getint("pause_ms", 0) / 1000)
            return self.keeper.get(key)

    def put(self, key: str, value: str) -> str:
        with self.workers:
            time.sleep(self.settings.getint("pause_ms", 0) / 1000)
            self.keeper.put(key, value)
            return "kept\n"

    def ready(self) -> str:
        stamp = str(time.time_ns()) * 100  # as large as items are
        self.put("ready", stamp)
        if self.get("ready") != stamp:
            raise Trouble("what was read is not what was written", 500)
        return "ready\n"

    def log(self, text: str) -> None:
        path = self.settings.get("log", "")
        if not path:
            print(line(text), end="", flush=True)
            return
        with Path(path).open("a") as file:
            file.write(line(text))


class Handler(Answering):
    protocol_version = "HTTP/1.1"
    service: Service

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self.answer(200, b"ok\n")
        elif self.path == "/ready":
            self.attempt(lambda _: self.service.ready())
        else:
            self.attempt(self.service.get)

    def do_PUT(self) -> None:
        value = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.attempt(lambda key: self.service.put(key, value))

    def attempt(self, work: "Work") -> None:
        key = self.path.removeprefix("/items/")
        try:
            if self.path != "/ready":
                self.service.admit(self.headers)
                if key == self.path or not key.replace("-", "").replace("_", "").isalnum():
                    raise Trouble("no such page", 404)
            self.answer(200, work(key).encode())
        except Trouble as trouble:
            if trouble.status != 404:
                self.service.log(f"ERROR {self.command} {self.path}: {trouble}")
            self.answer(trouble.status, f"{trouble}\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Only errors are worth a line."""


class Work(Protocol):
    def __call__(self, key: str, /) -> str: ...


def main(path: str) -> None:
    own = settings(path)
    service = Handler.service = Service(own)
    ThreadingHTTPServer.request_queue_size = 64
    address = own.get("bind", "127.0.0.1"), int(own["port"])
    server = ThreadingHTTPServer(address, Handler)
    server.daemon_threads = True
    service.log(f"INFO {own['name']} listens on {address[0]}:{address[1]}")
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
