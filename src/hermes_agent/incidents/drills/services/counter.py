"""counter: takes orders over HTTP and keeps them in a journal.

    counter.py /path/to/counter.conf

    PUT /orders/NUMBER   take an order
    GET /orders/NUMBER   look it up
    GET /health          open, or closed and why

Directives: listen HOST:PORT, journal FILE, logfile FILE, daemonize yes|no.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KNOWN = {"listen": "", "journal": "", "logfile": "", "daemonize": "no"}


def read_conf(path: str) -> dict[str, str]:
    found = dict(KNOWN)
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, value = line.strip().partition(" ")
        if name not in KNOWN or not value.strip():
            sys.exit(
                f"*** FATAL CONFIG FILE ERROR ***\nReading the configuration file, at line "
                f"{number}\n>>> '{line}'\nBad directive or wrong number of arguments"
            )
        found[name] = value.strip()
    return found


class Counter:
    def __init__(self, conf: dict[str, str]) -> None:
        self.conf = conf
        self.journal = Path(conf["journal"])
        self.lock = Path(f"{self.journal}.lck")
        self.orders: dict[str, str] = {}
        self.turn = threading.Lock()

    def say(self, mark: str, text: str) -> None:
        now = time.time()
        stamp = time.strftime("%d %b %Y %H:%M:%S", time.gmtime(now))
        line = f"{os.getpid()}:C {stamp}.{int(now * 1000) % 1000:03} {mark} {text}\n"
        if not self.conf["logfile"]:
            sys.stdout.write(line)
            sys.stdout.flush()
            return
        with open(self.conf["logfile"], "a") as file:
            file.write(line)

    def fail(self, text: str) -> None:
        self.say("#", text)
        sys.exit(f"Fatal: {text}")

    def claim(self) -> None:
        """The journal is for one process, on one machine."""
        if self.lock.exists():
            owner = self.lock.read_text().strip()
            pid, _, host = owner.partition("@")
            if host != socket.gethostname() or (pid.isdecimal() and is_alive(int(pid))):
                self.fail(f"Journal {self.journal} is in use by {owner} ({self.lock})")
            self.say("*", f"{owner} did not close the journal, taking it over")
        self.lock.write_text(f"{os.getpid()}@{socket.gethostname()}\n")

    def load(self) -> None:
        if self.journal.exists():
            for line in self.journal.read_text().splitlines():
                entry = json.loads(line)
                self.orders[entry["order"]] = entry["text"]
        self.say("*", f"{len(self.orders)} orders loaded from {self.journal}")

    def take(self, number: str, text: str) -> None:
        with self.turn:
            with self.journal.open("a") as file:
                file.write(json.dumps({"order": number, "text": text}) + "\n")
            self.orders[number] = text

    def close(self, *_: object) -> None:
        self.say("#", "Received SIGTERM, closing the journal")
        self.lock.unlink(missing_ok=True)
        self.say("#", "Counter is closed, bye bye")
        os._exit(0)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Handler(BaseHTTPRequestHandler):
    counter: Counter

    def answer(self, status: int, told: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(told.encode())))
        self.end_headers()
        self.wfile.write(told.encode())

    def do_GET(self) -> None:
        if self.path == "/health":
            try:
                self.counter.take("health", str(time.time_ns()))
            except OSError as error:
                self.answer(503, json.dumps({"state": "closed", "reason": str(error)}) + "\n")
                return
            count = len(self.counter.orders)
            self.answer(200, json.dumps({"state": "open", "orders": count}) + "\n")
            return
        found = self.counter.orders.get(self.path.removeprefix("/orders/"))
        self.answer(404 if found is None else 200, found or "no such order\n")

    def do_PUT(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        try:
            self.counter.take(self.path.removeprefix("/orders/"), text)
        except OSError as error:
            self.counter.say("#", f"Order refused: {error}")
            self.answer(500, f"order refused: {error}\n")
            return
        self.answer(201, "taken\n")

    def log_message(self, format: str, *words: object) -> None:
        """Visits are not logged."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def daemonize() -> None:
    if os.fork():
        os._exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)


def main(path: str, kind: type[Counter] = Counter, asked: type[Handler] = Handler) -> None:
    conf = read_conf(path)
    counter = Handler.counter = kind(conf)
    if conf["daemonize"] == "yes":
        daemonize()
    counter.say("*", f"Counter is starting, configuration {path}")
    host, _, port = conf["listen"].rpartition(":")
    try:
        server = Server((host, int(port)), asked)
    except OSError as error:
        counter.fail(f"Could not create listening socket {conf['listen']}: bind: {error.strerror}")
        return
    counter.claim()
    signal.signal(signal.SIGTERM, counter.close)
    counter.load()
    counter.say("*", "Ready to take orders")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
