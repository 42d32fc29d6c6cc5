"""Carries new items on, over connections that it keeps. Usage: courier.py CONFIGURATION"""

import configparser
import signal
import socket
import struct
import sys
import time
from pathlib import Path


def connected(database: str, name: str) -> socket.socket:
    host, _, rest = database.partition(":")
    port, _, rest = rest.partition("/")
    base, _, user = rest.partition(" ")
    connection = socket.create_connection((host, int(port)), 5)
    pairs = {"user": user, "database": base, "application_name": name}
    body = b"".join(f"{key}\0{value}\0".encode() for key, value in pairs.items()) + b"\0"
    connection.sendall(struct.pack("!ii", len(body) + 8, 196608) + body)
    with connection.makefile("rb") as file:
        kind = b""
        while kind != b"Z":
            kind = file.read(1)
            said = file.read(int.from_bytes(file.read(4), "big") - 4) if kind else b"M closed\0"
            if kind in (b"E", b""):
                connection.close()
                raise OSError(said[said.index(b"M") + 1 :].partition(b"\0")[0].decode())
    return connection


def main(path: str) -> None:
    config = configparser.ConfigParser(interpolation=None)
    config.read_string(Path(path).read_text())
    settings = config["service"]
    kept: list[socket.socket] = []
    wanted = settings.getint("connections", 2)

    def reload(*_: object) -> None:
        nonlocal wanted
        wanted += settings.getint("connections", 2)
        say("INFO reload: opens its connections anew")

    signal.signal(signal.SIGHUP, reload)
    while True:
        if len(kept) < wanted:
            try:
                kept.append(connected(settings["database"], settings["name"]))
                say(f"INFO connection {len(kept)} is open")
            except OSError as error:
                say(f"WARNING database: {error}")
                time.sleep(0.5)
        else:
            time.sleep(1)


def say(text: str) -> None:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
