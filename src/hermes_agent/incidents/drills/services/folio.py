"""folio: the pages of a site, over HTTP.

    folio.py SETTINGS.ini

    PUT /pages/KEY, GET /pages/KEY
    GET /healthcheck    writes a page and reads it

[site] name, listen, error_log. [pages] kind: files (dir), database (url) or remote (url, ca_bundle,
verify). [previews] dir, limit_mb: a preview is kept of each page; 0 is no limit. [sessions] leeway.
"""

import configparser
import hashlib
import os
import secrets
import ssl
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hermes_agent.incidents.drills.services.pgline import DatabaseError, Line, Row

PREVIEW_KB = 48


class Trouble(Exception):
    def __init__(self, text: str, status: int = 500) -> None:
        super().__init__(text)
        self.status = status


class Pages:
    def __init__(self, own: configparser.ConfigParser) -> None:
        self.own = own["pages"]

    def get(self, key: str) -> bytes:
        try:
            return Path(self.own["dir"], key).read_bytes()
        except FileNotFoundError:
            raise Trouble("no such page", 404) from None

    def put(self, key: str, body: bytes) -> None:
        draft = Path(self.own["dir"], f".{key}.tmp")
        draft.write_bytes(body)
        draft.replace(Path(self.own["dir"], key))


class Remote(Pages):
    def __init__(self, own: configparser.ConfigParser) -> None:
        super().__init__(own)
        self.tls = None
        if bundle := self.own.get("ca_bundle"):
            self.tls = ssl.create_default_context(cafile=bundle)
            if not self.own.getboolean("verify", fallback=True):
                self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    def ask(self, method: str, key: str, body: bytes | None = None) -> bytes:
        url = f"{self.own['url']}/pages/{key}"
        request = urllib.request.Request(url, body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=2, context=self.tls) as reply:
                return bytes(reply.read())
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace").strip()
            raise Trouble(f"{url}: {error.code} {text[:120]}", error.code) from None
        except OSError as error:
            raise Trouble(f"{url}: {getattr(error, 'reason', error)}", 502) from None

    def get(self, key: str) -> bytes:
        return self.ask("GET", key)

    def put(self, key: str, body: bytes) -> None:
        self.ask("PUT", key, body)


class Database(Pages):
    def __init__(self, own: configparser.ConfigParser) -> None:
        super().__init__(own)
        self.name = own["site"]["name"]
        self.leeway = timedelta(seconds=own.getfloat("sessions", "leeway", fallback=60.0))

    def query(self, sql: str) -> list[Row]:
        try:
            line = Line(self.own["url"], self.name)
            try:
                return line.query(sql)
            finally:
                line.close()
        except DatabaseError as error:
            raise Trouble(f"database: {error}", 503) from None

    def enter(self) -> None:
        """A session is opened for who writes; the table says from when and how long it is good."""
        token = secrets.token_hex(6)
        opened = self.query(
            f"insert into sessions (token) values ('{token}') returning begins, ends"
        )
        begins, ends = (datetime.fromisoformat(value) for value in opened[0])
        now = datetime.now(UTC).replace(tzinfo=None)
        if ends + self.leeway < now:
            raise Trouble(f"session {token} ended at {ends:%F %T}, it is {now:%F %T} UTC", 403)
        if begins - self.leeway > now:
            raise Trouble(f"session {token} begins at {begins:%F %T}, it is {now:%F %T} UTC", 403)

    def get(self, key: str) -> bytes:
        rows = self.query(f"select body from pages where key = '{key}'")
        if not rows:
            raise Trouble("no such page", 404)
        return rows[0][0].encode()

    def put(self, key: str, body: bytes) -> None:
        self.enter()
        text = body.decode("utf-8", "replace").replace("'", "''")
        self.query(
            f"insert into pages values ('{key}', '{text}') "
            "on conflict (key) do update set body = excluded.body"
        )


KINDS = {"files": Pages, "remote": Remote, "database": Database}


class Site:
    def __init__(self, path: str) -> None:
        self.own = configparser.ConfigParser()
        self.own.read_string(Path(path).read_text(), path)
        self.pages = KINDS[self.own["pages"]["kind"]](self.own)
        if self.own.has_section("previews"):
            self.prune()

    def log(self, level: str, text: str) -> None:
        now = datetime.now(UTC)
        line = f"[{now:%a %b %d %H:%M:%S.%f %Y}] [folio:{level}] [pid {os.getpid()}] {text}\n"
        try:
            with open(self.own["site"]["error_log"], "a") as file:
                file.write(line)
        except OSError:
            sys.stderr.write(line)
            sys.stderr.flush()

    def preview(self, key: str, body: bytes) -> None:
        if self.own.has_section("previews"):
            name = hashlib.sha1(body + key.encode(), usedforsecurity=False).hexdigest()
            Path(self.own["previews"]["dir"], f"{name}.png").write_bytes(
                b"\x89PNG\r\n" + os.urandom(PREVIEW_KB * 1024)
            )
            self.prune()

    def prune(self) -> None:
        limit = self.own.getint("previews", "limit_mb", fallback=0) << 20
        folder = Path(self.own["previews"]["dir"])
        kept = sorted(folder.glob("*.png"), key=lambda one: one.stat().st_mtime, reverse=True)
        total = 0
        for one in kept:
            total += one.stat().st_size
            if limit and total > limit:
                one.unlink(missing_ok=True)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if path == "/healthcheck":
            now = str(time.time_ns()).encode()
            self.pages.put("healthcheck", now)
            self.preview("healthcheck", b"")
            return 200, b"healthy\n" if self.pages.get("healthcheck") else b"ill\n"
        head, _, key = path.rpartition("/")
        if head != "/pages" or not key.replace("-", "").isalnum():
            raise Trouble("no such page", 404)
        if method == "GET":
            return 200, self.pages.get(key)
        self.pages.put(key, body)
        self.preview(key, body)
        return 201, b"written\n"


class Request(BaseHTTPRequestHandler):
    site: Site

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, text = self.site.answer(self.command, self.path, body)
        except (Trouble, OSError) as error:
            status = error.status if isinstance(error, Trouble) else 500
            text = b"no such page\n" if status == 404 else b"something went wrong\n"
            if status != 404:
                where = self.client_address[0]
                self.site.log("error", f"[client {where}] {self.command} {self.path}: {error}")
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = serve  # noqa: N815 the names are the library's

    def log_message(self, format: str, *words: object) -> None:
        """nginx has the access log."""


def main() -> None:
    Request.site = Site(sys.argv[1])
    host, _, port = Request.site.own["site"]["listen"].rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), Request)
    server.daemon_threads = True
    Request.site.log("notice", f"{Request.site.own['site']['name']} is at {host}:{port}")
    server.serve_forever()


if __name__ == "__main__":
    main()
