"""A web service like app.py that keeps its items in PostgreSQL. usage: postgres.py CONFIGURATION"""

import os  # noqa: F401 to find app.py
import re
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
        words = "user", user, "database", database, "application_name", name, "options", options
        body = "\0".join([*words, "", ""]).encode()
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
                rows.append(body[6:].decode())  # there is one column
            elif kind == b"Z":
                if refused:
                    raise refused
                return rows


class Table:
    """A table of PostgreSQL, with a connection for each query."""

    def __init__(self, config):
        self.dsn, self.name = config.text("dsn"), config.text("name")
        self.seconds = config.number("lock_timeout", "0.7")
        found = re.fullmatch(r"postgres://(\w+)@([^:/]+):(\d+)/(\w+)", self.dsn)
        if found is None:
            raise SystemExit(f"{config.path}: dsn is {self.dsn!r}, which is not one")
        self.place = (found[2], int(found[3])), found[1], found[4]

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
        return rows[0]

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
