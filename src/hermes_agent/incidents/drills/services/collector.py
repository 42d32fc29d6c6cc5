"""collector: sends new lines of log files to a server.

    python3 collector.py ENVFILE

WATCH (a pattern of files), EXCLUDE (names of files to leave out, with commas between), TARGET (the
server's address), LOG_FILE (what was sent, and what was not).
"""

import fnmatch
import glob
import os
import sys
import time
import urllib.request

BATCH = 400
MOST_CHARACTERS = 300


def read_env(path: str) -> dict[str, str]:
    found = {}
    with open(path) as file:
        for line in file:
            name, equals, value = line.strip().partition("=")
            if equals and not name.startswith("#"):
                found[name] = value
    return found


class Collector:
    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self.places = {path: os.path.getsize(path) for path in self.watched()}

    def watched(self) -> list[str]:
        left_out = [one.strip() for one in self.env.get("EXCLUDE", "").split(",")]
        return [
            path
            for path in sorted(glob.glob(self.env["WATCH"]))
            if not any(fnmatch.fnmatch(os.path.basename(path), one) for one in left_out)
        ]

    def log(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        try:
            with open(self.env["LOG_FILE"], "a") as file:
                file.write(f"{stamp} collector: {text[:MOST_CHARACTERS]}\n")
        except OSError as error:
            sys.stderr.write(f"cannot log: {error}\n")

    def fresh(self, path: str) -> list[str]:
        """Lines that came since the last look."""
        place = self.places.get(path, 0)
        if place > os.path.getsize(path):
            place = 0
        with open(path, "rb") as file:
            file.seek(place)
            lines = file.readlines()[:BATCH]
        whole = [line for line in lines if line.endswith(b"\n")]
        self.places[path] = place + sum(map(len, whole))
        return [line.decode("utf-8", "replace").rstrip("\n") for line in whole]

    def send(self, path: str, lines: list[str]) -> None:
        name = os.path.basename(path)
        key = f"{name.partition('.')[0]}-latest"
        url = f"{self.env['TARGET']}/api/records/{key}"
        request = urllib.request.Request(url, lines[-1].encode(), method="PUT")
        try:
            urllib.request.urlopen(request, timeout=2).read()
        except OSError as error:
            self.log(f"cannot send to {url}: {error}")
        for line in lines:
            self.log(f"{name}: read {len(line)} characters")
            self.log(f"{name}: sent {line}")

    def run(self) -> None:
        self.log(f"watching {len(self.places)} files of {self.env['WATCH']}")
        while True:
            for path in self.watched():
                if lines := self.fresh(path):
                    self.send(path, lines)
            time.sleep(0.1)


if __name__ == "__main__":
    Collector(read_env(sys.argv[1])).run()
