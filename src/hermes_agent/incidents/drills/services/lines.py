"""A server of lines: SET KEY VALUE and GET KEY, each answered by one line. Usage: lines.py FILE,
where the file has a word and its value on each line: port, bind, maxclients, dump."""

import socketserver
import sys
import threading
import time
from pathlib import Path

KEPT: dict[str, str] = {}
OWN: dict[str, str] = {}
CLIENTS: list[str] = []
LOCK = threading.Lock()


class Client(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        most = int(OWN.get("maxclients", "100"))
        me = f"{self.client_address[0]}:{self.client_address[1]}"
        with LOCK:
            full = len(CLIENTS) >= most
            if not full:
                CLIENTS.append(me)
        if full:
            say(f"# refused {me}: max number of clients reached ({most})")
            self.wfile.write(b"-ERR max number of clients reached\n")
            return
        try:
            for line in self.rfile:
                self.wfile.write(answer(line.decode().strip()).encode() + b"\n")
        except OSError:
            say(f"- {me} went away")
        finally:
            with LOCK:
                CLIENTS.remove(me)


def answer(line: str) -> str:
    word, _, rest = line.partition(" ")
    if word == "SET":
        key, _, value = rest.partition(" ")
        with LOCK:
            KEPT[key] = value
            with Path(OWN["dump"]).open("a") as file:
                file.write(f"{key} {value}\n")
        return "+OK"
    if word == "GET":
        return f"+{KEPT[rest]}" if rest in KEPT else "-ERR no such key"
    if word == "CLIENTS":
        return "+" + " ".join(CLIENTS)
    return "-ERR unknown command"


def say(text: str) -> None:
    print(f"{time.strftime('%d %b %Y %H:%M:%S')} {text}", flush=True)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


def main() -> None:
    for line in Path(sys.argv[1]).read_text().splitlines():
        key, _, value = line.partition(" ")
        if value and not key.startswith("#"):
            OWN[key] = value.strip()
    dump = Path(OWN["dump"])
    for line in dump.read_text().splitlines() if dump.exists() else ():
        key, _, value = line.partition(" ")
        KEPT[key] = value
    with Server((OWN.get("bind", "127.0.0.1"), int(OWN["port"])), Client) as server:
        say(f"* ready to accept connections on {OWN['port']}")
        server.serve_forever()


if __name__ == "__main__":
    main()
