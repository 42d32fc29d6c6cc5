"""A web service like app.py that keeps its items in PostgreSQL. usage: postgres.py CONFIGURATION"""

import os  # noqa: F401 to find app.py
import socket
import struct
import sys

from app import Service, Trouble, main


class Refused(Exception):
    """PostgreSQL said no, in its own words."""


class Connection:
    """To PostgreSQL, without a password, one query after another."""

    def __init__(self, address, user, database, name, seconds):
        self.socket = socket.create_connection(address, seconds + 2)
        self.file = self.socket.makefile("rb")
        options = f"-c statement_timeout={seconds * 1000:.0f}"
        pairs = {"user": user, "database": database, "application_name": name, "options": options}
        body = b"".join(f"{key}\0{value}\0".encode() for key, value in pairs.items()) + b"\0"
        self.socket.sendall(struct.pack("!ii", len(body) + 8, 196608) + body)
        self.answer()

    def query(self, text):
        body = text.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!i", len(body) + 4) + body)
        return self.answer()

    def answer(self):
        rows, refused = [], None
        while True:
            head = self.file.read(5)
            if len(head) < 5:
                raise refused or Refused("the server closed the connection")
            body = self.file.read(struct.unpack("!i", head[1:])[0] - 4)
            kind = head[:1]
            if kind == b"E":
                fields = {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}
                refused = Refused(f"{fields[b'S']}: {fields[b'M']}")
            elif kind == b"D":
                rows.append(row(body))
            elif kind == b"Z":
                if refused:
                    raise refused
                return rows


def row(body):
    values, at = [], 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        (size,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        values.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return values


class Table:
    """A table of PostgreSQL, with a connection for each query."""

    def __init__(self, config):
        self.dsn, self.name = config.text("dsn"), config.text("name")
        self.seconds = config.number("lock_timeout", "0.7")
        try:
            user, _, rest = self.dsn.removeprefix("postgres://").partition("@")
            where, _, base = rest.partition("/")
            host, _, port = where.partition(":")
            self.place = (host, int(port)), user, base
        except ValueError:
            raise SystemExit(f"{config.path}: dsn is {self.dsn!r}: no port") from None

    def run(self, text):
        try:
            connection = Connection(*self.place, self.name, self.seconds)
            with connection.socket, connection.file:
                return connection.query(text)
        except (Refused, OSError) as error:
            raise Trouble(f"{self.dsn}: {error}") from None

    def get(self, key):
        rows = self.run(f"select value from items where key = '{key}'")
        if not rows:
            raise Trouble(f"no item {key}", 404)
        return rows[0][0]

    def put(self, key, value):
        quoted = value.replace("'", "''")
        self.run(f"insert into items values ('{key}', '{quoted}') "
                 "on conflict (key) do update set value = excluded.value")  # fmt: skip


class Ledger(Service):
    def made(self):
        return Table(self.config)


if __name__ == "__main__":
    try:
        main(sys.argv[1], Ledger)
    except OSError as error:
        raise SystemExit(f"cannot start: {error}") from None
