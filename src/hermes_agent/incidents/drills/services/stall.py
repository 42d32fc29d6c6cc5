"""A small service that keeps items, of another house than the others: it is told what to do by
flags, variables or a file of whatever kind, and writes its log as it is told.

    stall.py [--config FILE] [--KEY VALUE]... [--KEY=VALUE]...

    PUT /items/KEY   keep what is sent
    GET /items/KEY   give it back
    GET /healthz     is it there

Settings, by the last part of their names: port, bind, data (a folder, or a file that ends in .db),
log (file; otherwise standard output), style (json, logfmt, syslog, glog), pid_file, lock_dir, key
(a file with a secret), needed (variables). Variables: STALL_ and the name."""

import http.server
import json
import os
import signal
import socket
import socketserver
import sqlite3
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

KNOWN = ("port", "bind", "data", "log", "style", "pid_file", "lock_dir", "key", "needed", "name")


def settings(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in os.environ.items():
        if name.startswith("STALL_"):
            found[name[6:].lower()] = value
    given = iter(words)
    for word in given:
        name, equals, value = word.removeprefix("--").replace("-", "_").partition("=")
        value = word.partition("=")[2] if equals else next(given, "")
        if not word.startswith("--") or name not in ("config", *KNOWN):
            raise SystemExit(f"stall: unrecognized argument: {word}")
        found.update(of_file(value) if name == "config" else {name: value})
    return found


def of_file(path: str) -> dict[str, str]:
    text = Path(path).read_text()
    if path.endswith(".json"):
        return flat(json.loads(text))
    if path.endswith(".toml"):
        return flat(tomllib.loads(text))
    found = {}
    for line in text.splitlines():
        mark = ":" if path.endswith((".yaml", ".yml")) else "="
        name, _, value = line.partition(mark)
        if not line.lstrip().startswith(("#", "[", ";")) and value.strip():
            found[name.strip().lower().rpartition(".")[2]] = value.strip().strip("'\"")
    return found


def flat(value: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name, inner in value.items():
        found.update(flat(inner) if isinstance(inner, dict) else {name.lower(): str(inner)})
    return found


class Absent(Exception):
    """No such item."""


class Stall(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, own: dict[str, str]) -> None:
        self.own = own
        self.data = own["data"]
        self.alone()
        for name in own.get("needed", "").split():
            os.environ[name]
        if "key" in own and os.stat(own["key"]).st_mode & 0o077:
            mode = os.stat(own["key"]).st_mode & 0o777
            self.log("fatal", f"permissions {mode:04o} for '{own['key']}' are too open", exit=1)
            raise SystemExit(1)
        if self.data.endswith(".db"):
            with self.base() as base:
                base.execute("CREATE TABLE IF NOT EXISTS items (key TEXT PRIMARY KEY, body BLOB)")
        super().__init__((own.get("bind", "127.0.0.1"), int(own["port"])), Request)
        self.log("info", "ready", port=own["port"])

    def alone(self) -> None:
        """There is one of it; whoever comes second goes."""
        held = self.own.get("pid_file", "")
        if held and os.path.exists(held):
            self.log("fatal", f"pid file {held} found, is another one running?")
            raise SystemExit(1)
        if "lock_dir" in self.own:
            try:
                os.mkdir(self.own["lock_dir"])
            except FileExistsError:
                self.log("error", "another instance has the lock", lock=self.own["lock_dir"])
                raise SystemExit(75) from None
        if held:
            Path(held).write_text(f"{os.getpid()}\n")

    def left(self) -> None:
        if "lock_dir" in self.own:
            os.rmdir(self.own["lock_dir"])
        if "pid_file" in self.own:
            os.unlink(self.own["pid_file"])

    def base(self) -> sqlite3.Connection:
        return sqlite3.connect(self.data, timeout=1.0)

    def log(self, level: str, text: str, **more: object) -> None:
        told = worded(self.own.get("style", ""), self.own.get("name", "stall"), level, text, more)
        if "log" not in self.own:
            print(told, flush=True)
            return
        with open(self.own["log"], "a") as file:
            file.write(told + "\n")

    def keep(self, key: str, body: bytes) -> tuple[int, bytes]:
        if self.data.endswith(".db"):
            with self.base() as base:
                base.execute("INSERT OR REPLACE INTO items VALUES (?, ?)", (key, body))
        else:
            new = Path(self.data, f".{key}.new")
            new.write_bytes(body)
            new.replace(Path(self.data, key))
        return 201, b"kept\n"

    def give(self, key: str) -> tuple[int, bytes]:
        if not self.data.endswith(".db"):
            if not Path(self.data, key).exists() and os.listdir(self.data) is not None:
                raise Absent
            return 200, Path(self.data, key).read_bytes()
        with self.base() as base:
            row = base.execute("SELECT body FROM items WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise Absent
        return 200, row[0]


def worded(style: str, name: str, level: str, text: str, more: dict[str, object]) -> str:
    now = time.time()
    match style:
        case "json":
            return json.dumps({"ts": round(now, 3), "level": level, "msg": text, **more})
        case "logfmt":
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
            rest = "".join(f" {key}={value}" for key, value in more.items())
            return f'time={stamp} level={level} msg="{text}"{rest}'
        case "glog":
            stamp = time.strftime("%m%d %H:%M:%S", time.gmtime(now))
            rest = "".join(f" {value}" for value in more.values())
            return f"{level[0].upper()}{stamp}.{int(now % 1 * 1e6):06} {os.getpid()}] {text}{rest}"
    rest = "".join(f" ({key} {value})" for key, value in more.items())
    stamp = time.strftime("%b %d %H:%M:%S", time.gmtime(now))
    return f"{stamp} {socket.gethostname()} {name}[{os.getpid()}]: {level}: {text}{rest}"


class Request(http.server.BaseHTTPRequestHandler):
    server: Stall
    timeout = 30

    def work(self) -> None:
        kind, _, key = self.path.strip("/").partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if kind == "healthz":
                status, text = 200, f"ok {self.server.own.get('name', '')}\n".encode()
            elif kind != "items" or "/" in key or key.startswith("."):
                status, text = 404, b"no such page\n"
            elif self.command == "PUT":
                status, text = self.server.keep(key, body)
            else:
                status, text = self.server.give(key)
        except Absent:
            status, text = 404, b"no such item\n"
        except (OSError, sqlite3.Error) as error:
            self.server.log("error", f"{self.command} failed: {error}", key=key)
            status, text = 500, b"internal error\n"
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = work  # noqa: N815 - the names are the library's

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is said of those that went well."""


def ended(*_: object) -> None:
    raise SystemExit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, ended)
    stall = Stall(settings(sys.argv[1:]))
    try:
        stall.serve_forever()
    finally:
        stall.left()


if __name__ == "__main__":
    main()
