"""A small web service. usage: app.py CONFIGURATION

PUT /items/KEY and GET /items/KEY keep and give items; GET /ready writes one and reads it back.
Items are kept in a folder (`data`), in SQLite (`database`), by a worker (`queue`), or by another
service of this kind (`upstream`)."""

import _signal
import _thread
import os
import socket
import sys
import time

VERSION = "1.0.0"
SIGNED_SECONDS = 30.0
PAST, MAX_COUNT = 300, 800
"""Samples of half a MB: those of the last hours, and all that there is room for."""


class Trouble(Exception):
    """What the caller is told, with its status."""

    def __init__(self, text, status=503):
        super().__init__(text)
        self.status = status


class Config:
    def __init__(self, path):
        self.path = path
        with open(path) as file:
            self.values = self.parsed(file.read())
        if os.path.exists(f"{path}.local"):  # settings of this machine alone
            with open(f"{path}.local") as file:
                self.values |= self.parsed(file.read())
            print(f"{path}.local overrides {path}", flush=True)

    def parsed(self, text):
        if self.path.endswith(".json"):
            import json

            try:
                return {key: str(value) for key, value in json.loads(text).items()}
            except ValueError as error:
                raise SystemExit(f"{self.path}: not valid JSON: {error}") from None
        found = {}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line[0] in "#;[":
                continue
            key, value = setting(line.removeprefix("export "))
            if not key.isidentifier():
                raise SystemExit(f"{self.path}:{number}: syntax error: {line!r}")
            found[key.lower()] = value
        return found

    def text(self, key, default=None):
        value = self.values.get(key, default)
        if value is None:
            raise SystemExit(f"{self.path}: no setting {key!r}")
        return value

    def number(self, key, default=None):
        value = self.text(key, default)
        try:
            return float(value)
        except ValueError:
            raise SystemExit(f"{self.path}: {key} is {value!r}, which is not a number") from None


def setting(line):
    """`key = value`, `key: value` or `KEY=value`; no key where it is none of these."""
    at = min((line.find(sign) for sign in "=:" if sign in line), default=-1)
    return (line[:at].strip(), line[at + 1 :].strip().strip("\"'")) if at > 0 else ("", "")


class Folder:
    """A file for each item."""

    def __init__(self, config):
        self.folder = config.text("data")

    def get(self, key):
        try:
            with open(f"{self.folder}/{key}") as file:
                return file.read()
        except FileNotFoundError:
            raise Trouble(f"no item {key}", 404) from None
        except OSError as error:
            raise Trouble(f"cannot read: {error}") from None

    def put(self, key, value):
        try:
            with open(f"{self.folder}/.{key}.new", "w") as file:
                file.write(value)
            os.replace(f"{self.folder}/.{key}.new", f"{self.folder}/{key}")
        except OSError as error:
            raise Trouble(f"cannot write: {error}") from None


class Queue(Folder):
    """A worker takes what is put into a folder and leaves it in another."""

    def __init__(self, config):
        super().__init__(config)
        self.queue = config.text("queue")
        self.seconds = config.number("timeout", "2")

    def put(self, key, value):
        try:
            with open(f"{self.queue}/.{key}.new", "w") as file:
                file.write(value)
            os.replace(f"{self.queue}/.{key}.new", f"{self.queue}/{key}")
        except OSError as error:
            raise Trouble(f"cannot queue: {error}") from None
        deadline = time.monotonic() + self.seconds
        while os.path.exists(f"{self.queue}/{key}"):
            if time.monotonic() > deadline:
                waiting = len(os.listdir(self.queue))
                raise Trouble(f"{key} was not taken from {self.queue}: {waiting} are waiting")
            time.sleep(0.01)


class Table:
    """A table of SQLite."""

    def __init__(self, config):
        import sqlite3

        self.module = sqlite3
        self.path = config.text("database")
        self.seconds = config.number("lock_timeout", "1")
        self.run("create table if not exists items (key text primary key, value text)")

    def run(self, text, *values):
        try:
            database = self.module.connect(self.path, timeout=self.seconds)
            try:
                with database:
                    return database.execute(text, values).fetchall()
            finally:
                database.close()
        except self.module.Error as error:
            raise Trouble(f"{self.path}: {error}") from None

    def get(self, key):
        rows = self.run("select value from items where key = ?", key)
        if not rows:
            raise Trouble(f"no item {key}", 404)
        return rows[0][0]

    def put(self, key, value):
        self.run("insert or replace into items values (?, ?)", key, value)


class Upstream:
    """Another service keeps them."""

    def __init__(self, config):
        self.url = config.text("upstream")
        host, _, port = self.url.removeprefix("http://").partition(":")
        try:
            self.address = host, int(port)
        except ValueError:
            raise SystemExit(f"{config.path}: upstream is {self.url!r}: no port") from None
        self.timeout = config.number("timeout", "1")
        self.give_up_after = int(config.number("give_up_after", "0"))
        self.secret = secret_of(config)
        self.reuse = config.text("idle_close", "yes") == "yes"
        self.failures = 0
        self.left = []

    def get(self, key):
        return self.ask("GET", key, b"")

    def put(self, key, value):
        self.ask("PUT", key, value.encode())

    def ask(self, method, key, body):
        if self.give_up_after and self.failures >= self.give_up_after:
            raise Trouble(f"gave up on {self.url} after {self.failures} failures; restart to retry")
        now = f"{time.time():.3f}"
        signature = f"X-Time: {now}\r\nX-Signature: {signed(self.secret, now)}\r\n"
        head = f"{method} /items/{key} HTTP/1.0\r\nContent-Length: {len(body)}\r\n"
        try:
            server = socket.create_connection(self.address, self.timeout)
            if self.reuse:
                with server:
                    text = talk(server, (head + signature + "\r\n").encode() + body)
            else:  # each is kept for a next request that never asks for it
                self.left.append(server)
                text = talk(server, (head + signature + "\r\n").encode() + body, half=True)
        except OSError as error:
            self.failures += 1
            said = "timed out" if isinstance(error, TimeoutError) else error
            raise Trouble(f"{self.url}: {said}", 504) from None
        first, _, rest = text.partition("\r\n\r\n")
        status = int(first.split()[1]) if len(first.split()) > 1 else 0
        if status == 404:
            raise Trouble(rest.strip(), 404)
        if status != 200:
            self.failures += 1
            raise Trouble(f"{self.url}: {status} {rest.strip()}", 502)
        self.failures = 0
        return rest


def talk(server, data, half=False):
    server.sendall(data)
    if half:
        return server.recv(65536).decode()
    parts = []
    while part := server.recv(65536):
        parts.append(part)
    return b"".join(parts).decode()


def secret_of(config):
    path = config.text("secret", "")
    if not path:
        return ""
    with open(path) as file:
        return file.read().strip()


def signed(secret, text):
    if not secret:
        return ""
    import hashlib

    return hashlib.sha256(f"{secret}{text}".encode()).hexdigest()


class Service:
    def __init__(self, config):
        self.config = config
        self.name = config.text("name")
        self.port = int(config.number("port"))
        self.log_path = config.text("log", "")
        self.level = config.text("level", "info")
        self.delay = config.number("delay", "0")
        self.workers = int(config.number("workers", "8"))
        self.free, self.guard = self.workers, _thread.allocate_lock()
        self.secret = secret_of(config)
        self.checks = config.text("signed", "no") == "yes"
        self.history = []
        self.keep = int(config.number("history_limit", "8"))
        self.interval = config.number("interval", "0.05")
        self.keeper = self.made()

    def made(self):
        for key, kind in (("queue", Queue), ("upstream", Upstream), ("database", Table)):
            if self.config.text(key, ""):
                return kind(self.config)
        return Folder(self.config)

    def say(self, level, text):
        if level == "DEBUG" and self.level != "debug":
            return
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {level} {text}\n"
        try:
            if self.log_path:
                with open(self.log_path, "a") as file:
                    file.write(line)
                return
        except OSError as error:
            line = f"cannot write {self.log_path}: {error}\n"
        try:
            os.write(1, line.encode())
        except OSError:  # no room there either: the work goes on
            pass

    def sample(self):
        """Every so often, what was measured is kept, up to a bound; first that of the last hours."""
        self.history += [bytearray(os.urandom(4096) * 128) for _ in range(self.keep or PAST)]
        while True:
            time.sleep(self.interval)
            if self.level == "debug":
                state = " ".join(f"slot{n}=idle" for n in range(160))
                for _ in range(10):
                    self.say("DEBUG", f"pool state: {state}")
            try:
                self.history.append(bytearray(os.urandom(4096) * 128))
            except MemoryError:
                self.say("ERROR", "cannot keep a sample: out of memory (MemoryError)")
                time.sleep(1)
            while len(self.history) > (self.keep or MAX_COUNT):
                self.history.pop(0)

    def admit(self, headers):
        if not self.checks:
            return
        told = headers.get("x-time", "0")
        if headers.get("x-signature") != signed(self.secret, told):
            raise Trouble("bad signature", 401)
        apart = float(told) - time.time()
        if abs(apart) > SIGNED_SECONDS:
            raise Trouble(f"signature is {apart:+.0f} s off the clock of {self.name}", 401)

    def answer(self, method, path, headers, body):
        if path == "/healthz":
            return 200, "ok"
        if path == "/version":
            return 200, VERSION
        try:
            if self.delay:
                time.sleep(self.delay)
            if path == "/ready":
                self.keeper.put("ready", str(os.getpid()))
                self.keeper.get("ready")
                return 200, "ready"
            self.admit(headers)
            key = path.removeprefix("/items/")
            if key == path or not key.replace("-", "").replace("_", "").isalnum():
                raise Trouble("no such page", 404)
            if method == "PUT":
                self.keeper.put(key, body)
                return 200, "kept"
            return 200, self.keeper.get(key)
        except Trouble as trouble:
            if trouble.status != 404:
                self.say("ERROR", f"{method} {path}: {trouble}")
            return trouble.status, f"{trouble}\n"
        except MemoryError:
            self.say("ERROR", f"{method} {path}: out of memory (MemoryError)")
            return 500, "out of memory\n"

    def admitted(self):
        """Whether a worker was free within half a second."""
        deadline = time.monotonic() + 0.5
        while True:
            with self.guard:
                if self.free > 0:
                    self.free -= 1
                    return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)

    def serve(self, client):
        if not self.admitted():
            self.say("ERROR", f"all {self.workers} workers are busy")
            send(client, 503, f"all {self.workers} workers are busy\n")
            client.close()
            return
        try:
            with client:
                client.settimeout(60)
                if request := received(client):
                    send(client, *self.answer(*request))
        except OSError as error:
            self.say("ERROR", f"a request failed: {error}")
        finally:
            with self.guard:
                self.free += 1

    def listen(self):
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        address = self.config.text("bind", "127.0.0.1")
        try:
            server.bind((address, self.port))
        except OSError as error:
            raise SystemExit(f"cannot listen on {address}:{self.port}: {error.strerror}") from None
        server.listen(64)
        if certificate := self.config.text("certificate", ""):
            import ssl

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, self.config.text("key"))
            server = context.wrap_socket(server, server_side=True, do_handshake_on_connect=False)
        self.say("INFO", f"{self.name} {VERSION} listens on {address}:{self.port}")
        while True:
            try:
                client, _ = server.accept()
            except OSError as error:
                self.say("ERROR", f"cannot accept a connection: {error}")
                time.sleep(0.2)
                continue
            _thread.start_new_thread(self.serve, (client,))


def received(client):
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(65536)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("utf-8", "replace").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    while len(body) < int(headers.get("content-length", "0")):
        part = client.recv(65536)
        if not part:
            return None
        body += part
    method, path, *_ = first.split()
    return method, path, headers, body.decode("utf-8", "replace")


def send(client, status, text):
    data = text.encode()
    words = {200: "OK", 404: "Not Found"}.get(status, "Error")
    client.sendall(f"HTTP/1.0 {status} {words}\r\nContent-Length: {len(data)}\r\n\r\n".encode())
    client.sendall(data)


def take_lock(path):
    """Two of us at the same data would spoil it."""
    try:
        with open(path, "x") as file:
            file.write(f"{os.getpid()}\n")
    except FileExistsError:
        with open(path) as file:
            held = file.read().strip()
        raise SystemExit(f"cannot start: {path} is held by process {held}") from None


def main(path, kind=Service):
    config = Config(path)
    lock = config.text("lock", "")
    _signal.signal(_signal.SIGTERM, lambda *_: sys.exit(0))
    if lock:
        take_lock(lock)
    try:
        service = kind(config)
        with open(f"/run/{service.name}.pid", "w") as file:
            file.write(f"{os.getpid()}\n")
        _thread.start_new_thread(service.sample, ())
        service.listen()
    except SystemExit as end:
        if end.code:
            print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} CRITICAL {end.code}", flush=True)
        raise
    except OSError as error:
        raise SystemExit(f"cannot start: {error}") from None
    finally:
        if lock:
            os.unlink(lock)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except OSError as error:
        raise SystemExit(f"cannot start: {error}") from None
