"""gauged: levels of rivers, kept in a file of SQLite.

gauged.py --bind HOST:PORT --db FILE --log FILE [--wal]

PUT /levels/KEY, GET /levels/KEY
GET /livez       a level is written and read
"""

import argparse
import contextlib
import os
import socket
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Levels:
    def __init__(self, path: str, wal: bool) -> None:
        self.path = path
        with contextlib.closing(self.opened()) as base:
            if wal:
                base.execute("pragma journal_mode = wal")
            base.execute("create table if not exists levels (gauge text primary key, told text)")

    def opened(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=1.0, isolation_level=None)

    def put(self, key: str, text: str) -> None:
        with contextlib.closing(self.opened()) as base:
            base.execute("insert or replace into levels values (?, ?)", (key, text))

    def get(self, key: str) -> str | None:
        with contextlib.closing(self.opened()) as base:
            rows = base.execute("select told from levels where gauge = ?", (key,)).fetchall()
        return str(rows[0][0]) if rows else None


class Handler(BaseHTTPRequestHandler):
    levels: Levels
    log: str

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        try:
            status, text = self.answer(body)
        except sqlite3.Error as error:
            status, text = 500, "500 see the log\n"
            tell(self.log, "err", f"{self.command} {self.path}: sqlite: {error}")
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def answer(self, body: str) -> tuple[int, str]:
        if self.path == "/livez":
            self.levels.put("livez", str(time.time_ns()))
            return 200, f"alive {self.levels.get('livez')}\n"
        head, _, key = self.path.rpartition("/")
        if head != "/levels" or not key:
            return 404, "no such page\n"
        if self.command == "PUT":
            self.levels.put(key, body)
            return 201, "noted\n"
        found = self.levels.get(key)
        return (404, "no such gauge\n") if found is None else (200, found)

    do_GET = do_PUT = serve  # noqa: N815 - the library's names

    def log_message(self, format: str, *words: object) -> None:
        """Only what failed is logged."""


def tell(path: str, level: str, text: str) -> None:
    stamp = time.strftime("%b %d %H:%M:%S", time.gmtime())
    line = f"{stamp} {socket.gethostname()} gauged[{os.getpid()}]: <{level}> {text}\n"
    try:
        with open(path, "a") as file:
            file.write(line)
    except OSError:
        sys.stderr.write(line)
        sys.stderr.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--bind", "--db", "--log"):
        parser.add_argument(name, required=True)
    parser.add_argument("--wal", action="store_true")
    told = parser.parse_args()
    Handler.levels, Handler.log = Levels(told.db, told.wal), told.log
    host, _, port = told.bind.rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), Handler)
    server.daemon_threads = True
    tell(told.log, "info", f"listening at {told.bind}, levels in {told.db}")
    server.serve_forever()


if __name__ == "__main__":
    main()
