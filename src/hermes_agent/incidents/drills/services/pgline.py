"""A line to PostgreSQL: simple queries, one after the other, no password."""

import socket
import struct
from urllib.parse import urlsplit

Row = tuple[str, ...]


class DatabaseError(Exception):
    """What the server said."""


class Line:
    """`url` is postgres://user@host:port/base."""

    def __init__(self, url: str, application: str, patience: float = 5.0) -> None:
        where = urlsplit(url)
        target = (where.hostname or "127.0.0.1", where.port or 5432)
        try:
            self._wire = socket.create_connection(target, patience)
        except OSError as error:
            raise DatabaseError(
                f"connection to server at {target[0]}, port {target[1]} failed: {error.strerror}"
            ) from None
        self._wire.settimeout(None)
        self._answers = self._wire.makefile("rb")
        told = f"user\0{where.username}\0database\0{where.path[1:]}\0application_name\0"
        body = f"{told}{application}\0\0".encode()
        self._wire.sendall(struct.pack("!ii", len(body) + 8, 3 << 16) + body)
        try:
            self._read()
        except DatabaseError:
            self.close()
            raise

    def query(self, sql: str) -> list[Row]:
        body = sql.encode() + b"\0"
        try:
            self._wire.sendall(b"Q" + struct.pack("!i", len(body) + 4) + body)
            return self._read()
        except OSError as error:
            raise DatabaseError(f"server closed the connection unexpectedly: {error}") from None

    def close(self) -> None:
        self._answers.close()
        self._wire.close()

    def _read(self) -> list[Row]:
        rows: list[Row] = []
        trouble = ""
        while True:
            kind = self._answers.read(1)
            if not kind:
                raise DatabaseError(trouble or "server closed the connection unexpectedly")
            (size,) = struct.unpack("!i", self._answers.read(4))
            body = self._answers.read(size - 4)
            if kind == b"E":
                said = {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}
                trouble = f"{said[b'S']}:  {said[b'M']}"
            elif kind == b"D":
                rows.append(_row(body))
            elif kind == b"Z":
                if trouble:
                    raise DatabaseError(trouble)
                return rows


def _row(body: bytes) -> Row:
    values = []
    rest = body[2:]
    while rest:
        (size,) = struct.unpack("!i", rest[:4])
        values.append(rest[4 : 4 + max(size, 0)].decode())
        rest = rest[4 + max(size, 0) :]
    return tuple(values)
