"""A client for the runtime's HTTP API over its Unix socket."""

import json
import socket
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from hermes_drills.errors import DrillError, UsageError

ANSWER_SECONDS = 60.0
RESTARTS = 5
"""How often a runtime that died is started again for one request."""


class RuntimeGone(DrillError):
    """No runtime answers."""


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("hermes", timeout=ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Runtime:
    """The runtime of one home. `start` starts it, and returns once it answers."""

    def __init__(self, home: Path, sockets: Sequence[str], start: Callable[[], None]) -> None:
        self.home = home
        self._sockets = sockets
        self.start = start

    def get(self, path: str, **query: object) -> Any:
        return self._insist("GET", f"{path}?{urlencode(query)}" if query else path)

    def post(self, path: str, body: object) -> Any:
        return self._insist("POST", path, body)

    def is_up(self) -> bool:
        try:
            self.ask("GET", "/v1/status")
        except RuntimeGone:
            return False
        return True

    def _insist(self, method: str, target: str, body: object = None) -> Any:
        for _ in range(RESTARTS):
            try:
                return self.ask(method, target, body)
            except RuntimeGone:
                self.start()
        return self.ask(method, target, body)

    def ask(self, method: str, target: str, body: object = None) -> Any:
        """One request; `RuntimeGone` where nobody answers it."""
        sent = None if body is None else json.dumps(body).encode()
        for path in self._sockets:
            connection = _UnixConnection(path)
            try:
                connection.request(method, target, sent, {"content-type": "application/json"})
                answer = connection.getresponse()
                return _checked(answer.status, answer.read())
            except (FileNotFoundError, ConnectionRefusedError):
                continue
            except (OSError, HTTPException) as error:
                raise RuntimeGone(f"lost the connection to the runtime: {error}") from None
            finally:
                connection.close()
        raise RuntimeGone(f"no runtime is running for {self.home}", "`hermes up` starts it")


def _checked(status: int, body: bytes) -> Any:
    try:
        told = json.loads(body)
    except ValueError:
        raise RuntimeGone("the runtime closed the connection in the middle of a response") from None
    if status < 400:
        return told
    kind = UsageError if status == 400 else DrillError
    raise kind(told.get("error", f"the runtime answered {status}"), told.get("hint", ""))
