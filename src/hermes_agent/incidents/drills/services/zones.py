"""Answers questions for names out of a zone file as BIND has it.

    zones.py ADDRESS ORIGIN FILE

The file is read at the start and on a hangup. Names that do not end with a dot are of the origin.
"""

import signal
import socket
import struct
import sys
from pathlib import Path

A, CNAME = 1, 5


def full(name: str, origin: str) -> str:
    if name == "@":
        return origin
    return name[:-1].lower() if name.endswith(".") else f"{name}.{origin}".lower()


class Zone:
    def __init__(self, origin: str, path: str) -> None:
        self.origin, self.path = origin, path
        self.addresses: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.load()

    def load(self, *_: object) -> None:
        """Every record is on one line; the name is left out where it is that of the line before."""
        addresses, aliases, last = {}, {}, self.origin
        for line in Path(self.path).read_text().splitlines():
            text = line.split(";")[0]
            words = [word for word in text.split() if word != "IN"]
            if not words or words[0].startswith("$"):
                continue
            if not text[0].isspace():
                last = full(words.pop(0), self.origin)
            kind, value = words[0], words[-1]
            if kind == "A":
                addresses[last] = value
            elif kind == "CNAME":
                aliases[last] = full(value, self.origin)
        self.addresses, self.aliases = addresses, aliases
        say(f"zone {self.origin}: loaded {len(addresses)} A, {len(aliases)} CNAME")

    def answer(self, packet: bytes) -> bytes:
        name, kind, end = question(packet)
        records = b""
        count = 0
        known = name in self.aliases or name in self.addresses
        while name in self.aliases and count < 8:
            target = self.aliases[name]
            records += record(name, CNAME, encoded(target))
            name, count = target, count + 1
        if kind == A and name in self.addresses:
            records += record(name, A, socket.inet_aton(self.addresses[name]))
            count += 1
        if name not in self.addresses:
            say(f"query for {name}: NXDOMAIN")
        flags = 0x8580 if known and name in self.addresses else 0x8583
        head = packet[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0)
        return head + packet[12:end] + records


def question(packet: bytes) -> tuple[str, int, int]:
    """Its name, its kind, and where it ends."""
    labels: list[str] = []
    at = 12
    while packet[at]:
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode("ascii", "replace"))
        at += packet[at] + 1
    return ".".join(labels).lower(), int.from_bytes(packet[at + 1 : at + 3], "big"), at + 5


def encoded(name: str) -> bytes:
    return b"".join(bytes([len(one)]) + one.encode() for one in name.split(".")) + b"\0"


def record(name: str, kind: int, data: bytes) -> bytes:
    return encoded(name) + struct.pack("!HHIH", kind, 1, 30, len(data)) + data


def say(text: str) -> None:
    print(text, flush=True)


def main(address: str, origin: str, path: str) -> None:
    zone = Zone(origin, path)
    signal.signal(signal.SIGHUP, zone.load)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    while True:
        packet, sender = server.recvfrom(512)
        try:
            server.sendto(zone.answer(packet), sender)
        except (IndexError, struct.error, OSError) as error:
            say(f"bad question: {error}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
