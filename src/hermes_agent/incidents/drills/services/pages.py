"""A service that keeps items, as keeper.py, and makes pages of them.

    GET  /pages/KEY   the item as a page
    POST /import      take over the feed, when its writer has said END

Further settings: memory (megabytes that it may take), recent (pages that are kept for whoever asks
again; 0 keeps all), feed (file), renderer (address of the service that makes the pages for us).
"""

import resource
import threading
import time
import urllib.error
import urllib.request
from configparser import SectionProxy
from pathlib import Path

from hermes_agent.incidents.drills.services.keeper import Answer, Service, serve

PAGE = 2 << 20


class Pages(Service):
    def __init__(self, own: SectionProxy) -> None:
        super().__init__(own)
        self.recent: list[bytes] = []
        self.staged: list[bytes] = []
        self.routes["GET", "pages"] = self.page
        self.routes["POST", "pages"] = self.render
        self.routes["POST", "import"] = self.take_over
        limit = int(own["memory"]) << 20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def page(self, key: str, body: bytes) -> Answer:
        item = (self.data / key).read_bytes()
        if "renderer" not in self.own:
            return self.render(key, item)
        request = urllib.request.Request(f"{self.own['renderer']}/pages/{key}", item, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                return 200, answer.read()
        except (urllib.error.URLError, OSError) as error:
            self.log("error", f"renderer {self.own['renderer']}: {error}")
            return 502, f"renderer: {error}\n".encode()

    def render(self, key: str, body: bytes) -> Answer:
        page = bytes(bytearray(body.ljust(PAGE)))
        self.recent.append(page)
        most = self.own.getint("recent")
        if most and len(self.recent) > most:
            del self.recent[: len(self.recent) - most]
        return 200, page[: len(body)]

    def take_over(self, key: str, body: bytes) -> Answer:
        threading.Thread(target=self.stage, daemon=True).start()
        return 202, b"import begun\n"

    def stage(self) -> None:
        """Read the feed until its END is there; its writer may be still at it."""
        feed = Path(self.own["feed"])
        ended = False
        while not ended:
            try:
                self.staged.append(feed.read_bytes())
                ended = self.staged[-1].endswith(b"END\n")
            except MemoryError:
                self.log("error", f"import of {feed}: MemoryError, {len(self.staged)} parts staged")
                time.sleep(1)
            time.sleep(0.005)
        self.staged.clear()


if __name__ == "__main__":
    serve(Pages)
