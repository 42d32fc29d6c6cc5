"""Asks a service for an item, over and over. Usage: caller.py CONFIGURATION"""

import configparser
import sys
import threading
import time
import urllib.request
from pathlib import Path


def call(url: str, pause: float) -> None:
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                answer.read()
        except OSError as error:
            print(time.strftime("%Y-%m-%d %H:%M:%S"), f"WARNING {url}: {error}", flush=True)
            time.sleep(1)
        time.sleep(pause)


def main(path: str) -> None:
    config = configparser.ConfigParser(interpolation=None)
    config.read_string(Path(path).read_text())
    settings = config["service"]
    asked = settings["url"], settings.getfloat("pause", 1.0)
    for _ in range(settings.getint("threads", 1)):
        threading.Thread(target=call, args=asked, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
