"""A service that keeps items, as keeper.py, and lets clients watch them.

    POST   /watch/KEY   keep the item open, and tell when it changes
    DELETE /watch/KEY   enough of it
    GET    /fetch/KEY   what the service behind us has

Further settings: behind (host:port of the service behind us).
"""

import socket
import time
from collections import defaultdict
from configparser import SectionProxy
from typing import IO, Any

from hermes_agent.incidents.drills.services.keeper import Answer, Service, serve


class Watching(Service):
    def __init__(self, own: SectionProxy) -> None:
        super().__init__(own)
        self.watched: dict[str, list[IO[bytes]]] = defaultdict(list)
        self.lines: list[socket.socket] = []
        self.routes["POST", "watch"] = self.watch
        self.routes["DELETE", "watch"] = self.forget
        self.routes["GET", "fetch"] = self.fetch

    def watch(self, key: str, body: bytes) -> Answer:
        self.watched[key].append(open(self.data / key, "rb"))  # noqa: SIM115 - until `forget`
        return 202, b"watching\n"

    def forget(self, key: str, body: bytes) -> Answer:
        for file in self.watched.pop(key, []):
            file.close()
        return 200, b"forgotten\n"

    def fetch(self, key: str, body: bytes) -> Answer:
        host, _, port = self.own["behind"].partition(":")
        line = socket.create_connection((host, int(port)), timeout=2)
        self.lines.append(line)
        line.sendall(f"GET /items/{key} HTTP/1.0\r\n\r\n".encode())
        head, _, text = b"".join(iter(lambda: line.recv(65536), b"")).partition(b"\r\n\r\n")
        if b" 200 " not in head:
            return 404, b"the other side has no such item\n"
        self.lines.remove(line)
        line.close()
        return 200, text

    def get_request(self) -> Any:
        try:
            return super().get_request()
        except OSError as error:
            self.log("error", f"accept: {error}")
            time.sleep(0.2)  # the client is still there; do not spin
            raise


if __name__ == "__main__":
    serve(Watching)
