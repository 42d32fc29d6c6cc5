"""Keeps entries by their names and gives them out over HTTP. Usage: trove.py [FILE] [--NAME VALUE]

What it is told comes from a file (JSON, TOML, or lines with a name and a value), from the
environment (TROVE_NAME) and from its arguments. PUT and GET /v1/KEY; GET /up puts one and gets it
again; GET /live only answers. Entries lie in `store`, or `backend` keeps them."""

import hashlib
import hmac
import http.server
import json
import os
import re
import socket
import ssl
import sys
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

LINE = re.compile(r"^\s*(?:export\s+)?([\w.-]+)\s*[=:]\s*(.*?)\s*$")


def told(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if words and not words[0].startswith("--"):
        found |= read(Path(words.pop(0)))
    for name, value in os.environ.items():
        if name.startswith("TROVE_"):
            found[name[6:].lower()] = value
    while words:
        name, _, value = words.pop(0)[2:].partition("=")
        found[name.replace("-", "_")] = value or words.pop(0)
    return found


def read(path: Path) -> dict[str, str]:
    text = path.read_text()
    if path.suffix in (".json", ".toml"):
        tree = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        return {name: str(value) for name, value in flat(tree).items()}
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(("#", "[", "---")):
            continue
        setting = LINE.match(line)
        if setting is None:
            raise ValueError(f"{path}: line {number}: cannot make sense of {line.strip()!r}")
        found[setting[1].rpartition(".")[2].lower()] = setting[2].strip("\"'")
    return found


def flat(tree: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= flat(value) if isinstance(value, dict) else {name: value}
    return found


class Log:
    def __init__(self, path: str, style: str) -> None:
        self.path, self.style = path, style

    def __call__(self, level: str, text: str) -> None:
        line = self.styled(level, text, time.time())
        if self.path in ("", "-"):
            print(line, flush=True)
            return
        with open(self.path, "a") as file:
            file.write(line + "\n")

    def styled(self, level: str, text: str, now: float) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        match self.style:
            case "json":
                return json.dumps({"time": stamp, "level": level, "message": text})
            case "logfmt":
                return f'time={stamp} level={level} msg="{text}"'
            case "syslog":
                stamp = time.strftime("%b %d %H:%M:%S", time.localtime(now))
                return f"{stamp} {socket.gethostname()} trove[{os.getpid()}]: <{level}> {text}"
            case "epoch":
                return f"{now:.3f} {level[:1].upper()} {text}"
            case _:
                stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now))
                return f"[{stamp}] [{level}] {text}"


class Bad(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Trove:
    def __init__(self, settings: dict[str, str]) -> None:
        self.store = settings.get("store", "")
        self.backend = settings.get("backend", "")
        if not self.store and not self.backend:
            raise ValueError("neither 'store' nor 'backend' is given")
        if self.store and not Path(self.store).is_dir():
            raise FileNotFoundError(f"store {self.store}: no such directory")
        self.timeout = float(settings.get("timeout", "2"))
        self.key = settings.get("shared_key", "")
        self.skew = float(settings.get("max_skew", "30"))
        self.ahead = float(settings.get("clock_offset", "0"))
        self.tls = None
        if authority := settings.get("backend_authority", ""):
            self.tls = ssl.create_default_context(cafile=authority)
            if own := settings.get("client_certificate", ""):
                self.tls.load_cert_chain(own, settings.get("client_key", own))

    def now(self) -> float:
        return time.time() + self.ahead

    def signed(self, moment: str) -> str:
        return hmac.new(self.key.encode(), moment.encode(), hashlib.sha256).hexdigest()

    def admit(self, token: str) -> None:
        """Whether whoever asks may, by what was signed with the time."""
        moment, _, signature = token.partition(".")
        if not hmac.compare_digest(signature, self.signed(moment)):
            raise Bad(401, "token: bad signature")
        off = int(moment) - self.now() if moment.isdigit() else 1e9
        if abs(off) > self.skew:
            word = "ahead of" if off > 0 else "behind"
            raise Bad(401, f"token rejected, issued {abs(off):.0f}s {word} our time")

    def get(self, key: str) -> bytes:
        if self.backend:
            return self.ask("GET", key, None)
        try:
            return Path(self.store, key).read_bytes()
        except FileNotFoundError:
            raise Bad(404, f"no entry {key}") from None

    def put(self, key: str, value: bytes) -> None:
        if self.backend:
            self.ask("PUT", key, value)
        else:
            Path(self.store, key).write_bytes(value)

    def ask(self, method: str, key: str, value: bytes | None) -> bytes:
        url = f"{self.backend.rstrip('/')}/v1/{key}"
        moment = str(int(self.now()))
        headers = {"X-Token": f"{moment}.{self.signed(moment)}"} if self.key else {}
        request = urllib.request.Request(url, value, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout, context=self.tls) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            said = f"{url} said {error.code}: {error.read().decode().strip()}"
            raise Bad(404 if error.code == 404 else 502, said) from None
        except OSError as error:
            raise Bad(502, f"{url}: {getattr(error, 'reason', error)}") from None


def handler(trove: Trove, log: Log) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.serve("GET")

        def do_PUT(self) -> None:
            self.serve("PUT")

        def serve(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, answer = 200, self.work(method, body)
            except Bad as error:
                status, answer = error.status, f"{error}\n".encode()
                if status != 404:
                    log("error", f"{method} {self.path} failed: {error}")
            except OSError as error:
                status, answer = 500, b"internal error\n"
                log("error", f"{method} {self.path} failed: {type(error).__name__}: {error}")
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def work(self, method: str, body: bytes) -> bytes:
            if self.path == "/live":
                return b"alive\n"
            if self.path == "/up":
                word = str(time.monotonic_ns()).encode()
                trove.put("up-check", word)
                if trove.get("up-check") != word:
                    raise Bad(500, "an entry is not what was put")
                return b"up\n"
            if not self.path.startswith("/v1/"):
                raise Bad(404, "no such path")
            if trove.key and not trove.backend:
                trove.admit(self.headers.get("X-Token", ""))
            if method == "PUT":
                trove.put(self.path[4:], body)
                return b"kept\n"
            return trove.get(self.path[4:])

        def log_message(self, format: str, *args: object) -> None:
            """Only trouble is logged."""

    return Handler


def main() -> None:
    settings = told(sys.argv[1:])
    log = Log(settings.get("log", "-"), settings.get("log_style", "plain"))
    try:
        host, _, port = settings["listen"].rpartition(":")
        server = http.server.ThreadingHTTPServer(
            (host or "127.0.0.1", int(port)), handler(Trove(settings), log)
        )
        if certificate := settings.get("tls_certificate", ""):
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate, settings.get("tls_key", certificate))
            if authority := settings.get("client_authority", ""):
                context.load_verify_locations(authority)
                context.verify_mode = ssl.CERT_REQUIRED
            server.socket = context.wrap_socket(server.socket, server_side=True)
    except (OSError, ValueError, KeyError) as error:
        log("critical", f"will not start: {type(error).__name__}: {error}")
        raise SystemExit(78) from None
    log("info", f"listening at {settings['listen']}")
    server.serve_forever()


if __name__ == "__main__":
    main()
