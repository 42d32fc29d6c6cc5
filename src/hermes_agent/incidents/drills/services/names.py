"""Answers questions for names. Usage: names.py ADDRESS ZONE

A line of the zone file is a name and an address. It is read at each question."""

import socket
import struct
import sys
from pathlib import Path


def records(path: str) -> dict[str, str]:
    lines = (line.split("#")[0].split() for line in Path(path).read_text().splitlines())
    return {words[0].lower().rstrip("."): words[1] for words in lines if len(words) == 2}


def question(packet: bytes) -> tuple[str, int, int]:
    """Its name, its kind, and where it ends."""
    labels: list[str] = []
    at = 12
    while packet[at]:
        size = packet[at]
        labels.append(packet[at + 1 : at + 1 + size].decode("ascii", "replace"))
        at += size + 1
    return ".".join(labels).lower(), int.from_bytes(packet[at + 1 : at + 3], "big"), at + 5


def answer(packet: bytes, zone: dict[str, str]) -> tuple[str, bytes]:
    """The name where there is no such, and the reply."""
    name, kind, end = question(packet)
    address = zone.get(name, "")
    found = bool(address) and kind == 1
    flags = 0x8580 if address else 0x8583
    reply = packet[:2] + struct.pack("!HHHHH", flags, 1, int(found), 0, 0) + packet[12:end]
    if found:
        reply += b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 5, 4) + socket.inet_aton(address)
    return "" if address else name, reply


def main(address: str, path: str) -> None:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    say(f"{len(records(path))} names of {path} on {address}:53")
    while True:
        packet, sender = server.recvfrom(512)
        try:
            missing, reply = answer(packet, records(path))
        except (IndexError, struct.error, OSError) as error:
            say(f"cannot answer: {error}")
            continue
        if missing:
            say(f"no such name: {missing}")
        server.sendto(reply, sender)


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
