"""Records over HTTP, kept in one SQLite file.

    PUT /api/records/KEY   keep a text
    GET /api/records/KEY   give it back
    GET /api/records       the keys
    PUT /api/tasks/KEY     hand in a task for the worker
    GET /api/tasks/KEY     what came of it
    GET /health            can it write and read

Settings are variables of the environment: PORT, HOST, DATABASE, LOG_FILE (standard output without
it; opened anew on a hangup), SPOOL (folder of the tasks), MIGRATION_WAIT (seconds).
"""

import json
import os
import signal
import sqlite3
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TextIO

VERSION = "3.2.0"
MIGRATIONS = (
    "create table if not exists records (key text primary key, body text not null, changed real)",
    "create index if not exists by_change on records (changed)",
)


class Log:
    def __init__(self, path: str) -> None:
        self.path = path
        self.file: TextIO = sys.stdout
        self.open()

    def open(self, *_: object) -> None:
        if self.path:
            self.file = open(self.path, "a", buffering=1)  # noqa: SIM115 open as long as we are

    def say(self, level: str, text: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S +0000", time.gmtime())
        self.file.write(f"[{stamp}] [{os.getpid()}] [{level}] {text}\n")
        self.file.flush()


class Store:
    def __init__(self, path: str) -> None:
        self.path = path

    def run(self, sql: str, *values: object) -> list[Any]:
        base = sqlite3.connect(self.path, timeout=1.0)
        try:
            with base:
                return base.execute(sql, values).fetchall()
        finally:
            base.close()

    def migrate(self, log: Log, wait: float) -> None:
        """One at a time: whoever migrates says so in the table, and takes it back afterwards."""
        self.run(
            "create table if not exists schema_lock "
            "(id integer primary key, locked integer, locked_by text, locked_at text)"
        )
        self.run("insert or ignore into schema_lock values (1, 0, null, null)")
        me, now = f"{os.uname().nodename}/{os.getpid()}", time.strftime("%Y-%m-%d %H:%M:%S")
        take = "update schema_lock set locked = 1, locked_by = ?, locked_at = ? where locked = 0"
        until = time.monotonic() + wait
        while not self.run(f"{take} returning id", me, now):
            held = self.run("select locked_by || ' since ' || locked_at from schema_lock")
            log.say("WARNING", f"migrations are locked by {held[0][0]}, waiting")
            if time.monotonic() > until:
                log.say("CRITICAL", "could not acquire the migration lock (schema_lock), giving up")
                raise SystemExit("could not acquire the migration lock")
            time.sleep(1.0)
        for step in MIGRATIONS:
            self.run(step)
        self.run("update schema_lock set locked = 0, locked_by = null, locked_at = null")

    def put(self, key: str, body: str) -> None:
        self.run(
            "insert or replace into records (key, body, changed) values (?, ?, ?)",
            key, body, time.time(),
        )  # fmt: skip

    def get(self, key: str) -> str | None:
        found = self.run("select body from records where key = ?", key)
        return str(found[0][0]) if found else None

    def keys(self) -> list[str]:
        return [row[0] for row in self.run("select key from records order by key")]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    store: Store
    log: Log
    spool: Path

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.log.say("WARNING", f"client went away: {sys.exc_info()[1]}")


class Request(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 20

    def work(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode("utf-8", "replace")
        try:
            status, text = self.routed(body)
        except Exception:  # noqa: BLE001 as frameworks do: logged, and a 500
            self.server.log.say(
                "ERROR", f"Error handling request {self.path}\n{traceback.format_exc().rstrip()}"
            )
            status, text = 500, "Internal Server Error"
        data = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = work  # noqa: N815 the names are the library's

    def routed(self, body: str) -> tuple[int, str]:
        parts = self.path.partition("?")[0].strip("/").split("/")
        store = self.server.store
        match (self.command, parts):
            case ("GET", ["health"]):
                store.put("health", str(time.time()))
                about = {"status": "ok", "version": VERSION, "records": len(store.keys())}
                return 200, json.dumps(about)
            case ("GET", ["api", "records"]):
                return 200, json.dumps(store.keys())
            case ("GET", ["api", "records", key]):
                found = store.get(key)
                return (404, "Not Found") if found is None else (200, found)
            case ("PUT", ["api", "records", key]):
                store.put(key, body)
                return 201, "Created"
            case ("PUT", ["api", "tasks", key]):
                draft = self.server.spool / "inbox" / f".{key}"
                draft.write_text(body)
                draft.rename(draft.with_name(f"{key}.json"))
                return 202, "Accepted"
            case ("GET", ["api", "tasks", key]):
                done = self.server.spool / "done" / f"{key}.json"
                return (200, done.read_text()) if done.exists() else (404, "Not Found")
        return 404, "Not Found"

    def log_message(self, format: str, *words: Any) -> None:
        pass


def main() -> None:
    log = Log(os.environ.get("LOG_FILE", ""))
    signal.signal(signal.SIGHUP, log.open)
    host, port = os.environ.get("HOST", "127.0.0.1"), int(os.environ["PORT"])
    log.say("INFO", f"Starting records {VERSION}, database {os.environ['DATABASE']}")
    store = Store(os.environ["DATABASE"])
    store.migrate(log, float(os.environ.get("MIGRATION_WAIT", "120")))
    threading.stack_size(256 * 1024)
    try:
        server = Server((host, port), Request)
    except OSError as error:
        log.say("ERROR", f"Connection in use: {(host, port)}: {error.strerror}")
        raise SystemExit(1) from None
    server.store, server.log = store, log
    server.spool = Path(os.environ.get("SPOOL", "/nonexistent"))
    log.say("INFO", f"Listening at: http://{host}:{port} ({os.getpid()})")
    server.serve_forever()


if __name__ == "__main__":
    main()
