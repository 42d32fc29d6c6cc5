"""clerk: records over HTTP.

    clerk.py SETTINGS.env

    PUT /api/records/KEY, GET /api/records/KEY
    GET /up        writes a record and reads it: OK, or 503 and why
    GET /summary   what SUMMARY_SQL comes to

APP_NAME, LISTEN (host:port), LOG_FILE, WEB_CONCURRENCY (processes), and where records are:
DATA_DIR, or BACKEND_URL (BACKEND_TIMEOUT), or DATABASE_URL (DATABASE_TABLE, DATABASE_POOL for each
process, DATABASE_TIMEOUT_MS, DATABASE_PREWARM). TRACE_DIR: a trace of each request goes there.
AFTER_SAVE: a program that is started with the key of each record that was saved.
"""

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Protocol

from hermes_agent.incidents.drills.services.pgline import DatabaseError, Line, Row

RECORDS = "/api/records/"


class Problem(Exception):
    def __init__(self, text: str, status: int = 503) -> None:
        super().__init__(text)
        self.status = status


class Records(Protocol):
    def load(self, key: str) -> str: ...

    def save(self, key: str, text: str) -> None: ...


class Files:
    def __init__(self, env: dict[str, str]) -> None:
        self.folder = Path(env["DATA_DIR"])

    def load(self, key: str) -> str:
        try:
            return (self.folder / key).read_text()
        except FileNotFoundError:
            raise Problem("not found", 404) from None
        except OSError as error:
            raise Problem(str(error), 500) from None

    def save(self, key: str, text: str) -> None:
        try:
            (self.folder / key).write_text(text)
        except OSError as error:
            raise Problem(str(error), 500) from None


class Backend:
    def __init__(self, env: dict[str, str]) -> None:
        self.url = env["BACKEND_URL"].rstrip("/")
        self.seconds = float(env.get("BACKEND_TIMEOUT", "1.5"))

    def load(self, key: str) -> str:
        return self._call("GET", key, None)

    def save(self, key: str, text: str) -> None:
        self._call("PUT", key, text.encode())

    def _call(self, method: str, key: str, body: bytes | None) -> str:
        request = urllib.request.Request(self.url + RECORDS + key, body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.seconds) as reply:
                return str(reply.read().decode())
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise Problem("not found", 404) from None
            text = error.read().decode("utf-8", "replace").strip()[:200]
            raise Problem(f"backend {self.url} returned {error.code}: {text}", 502) from None
        except OSError as error:
            raise Problem(f"backend {self.url}: {error}", 504) from None


class Rows:
    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self.table = env.get("DATABASE_TABLE", "records")
        self.pool: queue.Queue[Line | None] = queue.Queue()
        for _ in range(int(env.get("DATABASE_POOL", "2"))):
            self.pool.put(None)
        if env.get("DATABASE_PREWARM") == "true":
            self.prewarm()

    def prewarm(self) -> None:
        """One must be had; the others are opened as soon as they can be had, and kept."""
        self.pool.get()
        self.pool.put(self.connect())
        threading.Thread(target=self.keep_warm, daemon=True).start()

    def keep_warm(self) -> None:
        while True:
            time.sleep(0.2)
            with contextlib.suppress(queue.Empty, DatabaseError):
                if (line := self.pool.get_nowait()) is None:
                    self.fill()
                else:
                    self.pool.put(line)

    def fill(self) -> None:
        line = None
        try:
            line = self.connect()
        finally:
            self.pool.put(line)

    def connect(self) -> Line:
        line = Line(self.env["DATABASE_URL"], self.env["APP_NAME"])
        line.query(f"set statement_timeout = {self.env.get('DATABASE_TIMEOUT_MS', '1200')}")
        return line

    def query(self, sql: str) -> list[Row]:
        try:
            line = self.pool.get(timeout=1.5)
        except queue.Empty:
            raise Problem("could not obtain a database connection within 1.5 seconds") from None
        try:
            line = line or self.connect()
            return line.query(sql)
        except DatabaseError as error:
            if line:
                line.close()
            line = None
            raise Problem(f"database error: {error}") from None
        finally:
            self.pool.put(line)

    def load(self, key: str) -> str:
        rows = self.query(f"select body from {self.table} where key = '{key}'")
        if not rows:
            raise Problem("not found", 404)
        return rows[0][0]

    def save(self, key: str, text: str) -> None:
        text = text.replace("'", "''")
        self.query(
            f"insert into {self.table} (key, body) values ('{key}', '{text}') "
            "on conflict (key) do update set body = excluded.body"
        )


class App:
    def __init__(self, env: dict[str, str], log: IO[str]) -> None:
        self.env, self.log = env, log
        self.traces: list[IO[str]] = []
        self.helpers: list[subprocess.Popen[bytes]] = []
        self.records: Records
        if "DATABASE_URL" in env:
            self.records = Rows(env)
        else:
            self.records = Backend(env) if "BACKEND_URL" in env else Files(env)

    def say(self, level: str, text: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S +0000", time.gmtime())
        self.log.write(f"[{stamp}] [{os.getpid()}] [{level}] {text}\n")
        self.log.flush()

    def trace(self, what: str) -> None:
        """Traces are written out when the app stops."""
        if folder := self.env.get("TRACE_DIR"):
            try:
                self.traces.append((Path(folder) / f"{time.time_ns()}.trace").open("w"))
            except OSError as error:
                raise Problem(f"[Errno {error.errno}] {error.strerror}", 500) from None
            self.traces[-1].write(f"{what}\n")

    def saved(self, key: str) -> None:
        if not (program := self.env.get("AFTER_SAVE")):
            return
        for helper in [one for one in self.helpers if one.poll() is not None]:
            helper.communicate()
            self.helpers.remove(helper)
        try:
            helper = subprocess.Popen(
                [program, key],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise Problem(f"after save: [Errno {error.errno}] {error.strerror}", 500) from None
        self.helpers.append(helper)

    def load(self, key: str) -> str:
        self.trace(f"load {key}")
        return self.records.load(key)

    def save(self, key: str, text: str) -> str:
        self.trace(f"save {key}")
        self.records.save(key, text)
        self.saved(key)
        return "saved\n"

    def up(self) -> str:
        now = str(time.time_ns())
        self.save("up-check", now)
        self.load("up-check")
        return "OK\n"

    def summary(self) -> str:
        if not isinstance(self.records, Rows) or "SUMMARY_SQL" not in self.env:
            raise Problem("not found", 404)
        rows = self.records.query(self.env["SUMMARY_SQL"])
        return "".join(f"{' '.join(row)}\n" for row in rows)


class Handler(BaseHTTPRequestHandler):
    app: App

    def do_GET(self) -> None:
        if self.path == "/up":
            self.reply(self.app.up)
        elif self.path == "/summary":
            self.reply(self.app.summary)
        else:
            self.reply(lambda: self.app.load(self.key()))

    def do_PUT(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.reply(lambda: self.app.save(self.key(), text))

    def key(self) -> str:
        key = self.path.removeprefix(RECORDS)
        if key == self.path or not key.replace("-", "").isalnum():
            raise Problem("not found", 404)
        return key

    def reply(self, work: Callable[[], str]) -> None:
        try:
            status, text = 200, work()
        except Problem as problem:
            status, text = problem.status, f"{problem}\n"
            if status != 404:
                self.app.say("ERROR", f"{self.command} {self.path}: {problem}")
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """nginx has the access log."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def get_request(self) -> tuple[object, object]:  # type: ignore[override]  # it is as typed there
        try:
            return super().get_request()
        except OSError as error:
            Handler.app.say("ERROR", f"accept: {error}")
            time.sleep(0.3)
            raise


def dotenv(path: str) -> dict[str, str]:
    lines = [line.strip() for line in Path(path).read_text().splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def arbitrate(workers: int) -> None:
    """Returns in each worker, and never in the process that watches over them."""
    for _ in range(workers):
        if not os.fork():
            return
    while True:
        pid, _ = os.wait()
        print(f"worker (pid:{pid}) exited, booting another", file=sys.stderr, flush=True)
        time.sleep(2)
        if not os.fork():
            return


def main(path: str) -> None:
    env = dotenv(path)
    log = open(env["LOG_FILE"], "a") if env.get("LOG_FILE") else sys.stderr  # noqa: SIM115
    host, _, port = env["LISTEN"].rpartition(":")
    server = Server((host, int(port)), Handler)
    if (workers := int(env.get("WEB_CONCURRENCY", "1"))) > 1:
        arbitrate(workers)
    try:
        Handler.app = App(env, log)
    except DatabaseError as error:
        print(f"boot failed: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
    Handler.app.say("INFO", f"{env['APP_NAME']} listening on {env['LISTEN']}")
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
