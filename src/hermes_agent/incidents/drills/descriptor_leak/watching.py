"""A service that keeps items, as keeper.py, and lets clients watch them.

    POST   /watch/KEY   keep the item open, and tell when it changes
    DELETE /watch/KEY   enough of it
    GET    /fetch/KEY   what the service behind us has

Further settings: behind (host:port of the service behind us).
"""

import http.client
import time
from collections import defaultdict
from configparser import SectionProxy
from typing import IO, Any

from hermes_agent.incidents.drills.parts.programs.keeper import Answer, Service, serve


class Watching(Service):
    def __init__(self, own: SectionProxy) -> None:
        super().__init__(own)
        self.watched: dict[str, list[IO[bytes]]] = defaultdict(list)
        self.lines: list[http.client.HTTPConnection] = []
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
        line = http.client.HTTPConnection(self.own["behind"], timeout=2)
        line.connect()
        self.lines.append(line)
        line.request("GET", f"/items/{key}", headers={"Connection": "keep-alive"})
        answer = line.getresponse()
        text = answer.read()
        if answer.status == 200:
            self.lines.remove(line)
            line.close()
        return answer.status, text

    def get_request(self) -> Any:
        try:
            return super().get_request()
        except OSError as error:
            self.log("error", f"accept: {error}")
            time.sleep(0.2)  # the client is still there; do not spin
            raise


if __name__ == "__main__":
    serve(Watching)
