"""parcels: an API for parcels, set up by a file of properties.

    parcels.py application.properties

    PUT /parcels/KEY, GET /parcels/KEY
    GET /feed                wait for news
    GET /accounts/NAME       whether an account is active
    GET /actuator/health     UP, or DOWN and why

server.address, server.port, logging.file.name, and where parcels are: parcels.dir, or
parcels.remote.url (parcels.remote.timeout-ms), or spring.datasource.url (spring.datasource.table,
spring.datasource.hikari.maximum-pool-size, spring.datasource.statement-timeout-ms).
directory.hosts: who is asked for accounts, the first that answers (directory.timeout-ms).
"""

import http.client
import json
import os
import queue
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hermes_agent.incidents.drills.services.pgline import DatabaseError, Line

FEED_SECONDS = 3600.0


class Trouble(Exception):
    def __init__(self, text: str, status: int = 503) -> None:
        super().__init__(text)
        self.status = status


class Depot:
    """Parcels as files."""

    def __init__(self, own: dict[str, str]) -> None:
        self.folder = Path(own["parcels.dir"])

    def put(self, key: str, text: str) -> None:
        try:
            (self.folder / key).write_text(text)
        except OSError as error:
            raise Trouble(f"{type(error).__name__}: {error}", 500) from None

    def get(self, key: str) -> str:
        try:
            return (self.folder / key).read_text()
        except FileNotFoundError:
            raise Trouble("no such parcel", 404) from None


class Remote:
    """Parcels that another has."""

    def __init__(self, own: dict[str, str]) -> None:
        self.url = own["parcels.remote.url"]
        self.seconds = int(own.get("parcels.remote.timeout-ms", "1500")) / 1000

    def put(self, key: str, text: str) -> None:
        self.call(key, text.encode())

    def get(self, key: str) -> str:
        return self.call(key, None)

    def call(self, key: str, body: bytes | None) -> str:
        method = "GET" if body is None else "PUT"
        request = urllib.request.Request(f"{self.url}/parcels/{key}", body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.seconds) as reply:
                return str(reply.read().decode())
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace").strip()[:160]
            raise Trouble(text, 404 if error.code == 404 else 502) from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise Trouble(f'I/O error on {method} request for "{self.url}": {reason}') from None


class Rows:
    """Parcels in PostgreSQL."""

    def __init__(self, own: dict[str, str]) -> None:
        self.url = (
            own["spring.datasource.url"].removeprefix("jdbc:").replace("postgresql", "postgres")
        )
        self.name = own["spring.application.name"]
        self.table = own["spring.datasource.table"]
        self.patience = own.get("spring.datasource.statement-timeout-ms", "900")
        self.pool: queue.Queue[Line | None] = queue.Queue()
        for _ in range(int(own.get("spring.datasource.hikari.maximum-pool-size", "3"))):
            self.pool.put(None)

    def ask(self, sql: str) -> list[tuple[str, ...]]:
        try:
            line = self.pool.get(timeout=1.5)
        except queue.Empty:
            raise Trouble(
                "HikariPool-1 - Connection is not available, request timed out after 1500ms."
            ) from None
        try:
            if line is None:
                line = Line(self.url, self.name)
                line.query(f"set statement_timeout = {self.patience}")
            return line.query(sql)
        except DatabaseError as error:
            if line is not None:
                line.close()
            line = None
            raise Trouble(f"PSQLException: {error}") from None
        finally:
            self.pool.put(line)

    def put(self, key: str, text: str) -> None:
        text = text.replace("'", "''")
        self.ask(
            f"insert into {self.table} (key, body) values ('{key}', '{text}') "
            "on conflict (key) do update set body = excluded.body"
        )

    def get(self, key: str) -> str:
        rows = self.ask(f"select body from {self.table} where key = '{key}'")
        if not rows:
            raise Trouble("no such parcel", 404)
        return rows[0][0]


class App:
    def __init__(self, own: dict[str, str]) -> None:
        self.own = own
        self.store: Depot | Remote | Rows
        if "spring.datasource.url" in own:
            self.store = Rows(own)
        else:
            self.store = Remote(own) if "parcels.remote.url" in own else Depot(own)

    def log(self, level: str, logger: str, text: str) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now))
        thread = threading.current_thread().name[-12:]
        line = f"{stamp}.{int(now * 1000) % 1000:03} {level:>5} {os.getpid()} --- [{thread:>12}] "
        with open(self.own["logging.file.name"], "a") as file:
            file.write(f"{line}{logger:<28} : {text}\n")

    def admit(self) -> None:
        """The first of the directory's hosts that answers knows the account."""
        hosts = [one.strip() for one in self.own.get("directory.hosts", "").split(",") if one]
        seconds = int(self.own.get("directory.timeout-ms", "5000")) / 1000
        for host in hosts:
            asked = http.client.HTTPConnection(host, timeout=seconds)
            try:
                asked.request("GET", f"/accounts/{self.own['spring.application.name']}")
                if asked.getresponse().status == 200:
                    return
            except OSError as error:
                self.log("WARN", "c.h.auth.DirectoryClient", f"{host}: {error}, trying the next")
            finally:
                asked.close()
        if hosts:
            raise Trouble("no directory host answered")

    def health(self) -> str:
        self.admit()
        self.store.put("health", str(time.time()))
        self.store.get("health")
        return json.dumps({"status": "UP"})

    def answer(self, method: str, path: str, body: str) -> str:
        if path == "/actuator/health":
            return self.health()
        if path == "/feed":
            time.sleep(FEED_SECONDS)
            return ""
        head, _, key = path.rpartition("/")
        if head == "/accounts":
            return "active"
        if head != "/parcels" or not key.replace("-", "").isalnum():
            raise Trouble("no such page", 404)
        self.admit()
        if method == "GET":
            return self.store.get(key)
        self.store.put(key, body)
        return "stored"


class Handler(BaseHTTPRequestHandler):
    app: App

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        try:
            status, text = 200, self.app.answer(self.command, self.path, body)
        except Trouble as trouble:
            status, text = trouble.status, json.dumps({"status": "DOWN", "error": str(trouble)})
            if status != 404:
                what = f"{self.command} {self.path} failed: {trouble}"
                self.app.log("ERROR", "c.h.parcels.ParcelController", what)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_PUT = serve  # noqa: N815 - the library's names

    def log_message(self, format: str, *words: object) -> None:
        """Only what failed is logged."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked has gone."""


def properties(path: str) -> dict[str, str]:
    lines = [line.strip() for line in Path(path).read_text().splitlines()]
    pairs = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
    return {key.strip(): value.strip() for key, _, value in pairs}


def main(path: str, kind: type[App] = App) -> None:
    own = properties(path)
    Handler.app = kind(own)
    server = Server((own.get("server.address", "127.0.0.1"), int(own["server.port"])), Handler)
    Handler.app.log("INFO", "c.h.parcels.Application", f"Started on port {own['server.port']}")
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
