"""One HTTP/1.0 request to the runtime over its Unix socket. Importing `http.client` would take a
third of the time a whole command may take."""

import socket

MAX_HEADERS = 100


class MalformedResponse(OSError):
    """The answer is not HTTP."""


class HttpClientConnection:
    """Connects when constructed; good for one request."""

    def __init__(self, path: str, timeout: float | None) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rb")

    def ask(self, method: str, target: str, body: bytes | None = None) -> int:
        """Send the request and return the status; the body can be read from then on."""
        head = f"{method} {target} HTTP/1.0\r\nhost: hermes\r\n"
        if body is not None:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        try:
            self._socket.sendall(head.encode() + b"\r\n" + (body or b""))
        except BrokenPipeError:
            pass  # it may have answered already, with the reason for closing
        words = self._file.readline().split()
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise MalformedResponse("the runtime closed it")
        for _ in range(MAX_HEADERS):
            if self._file.readline() in (b"\r\n", b""):
                return int(words[1])
        raise MalformedResponse("too many headers")

    def read(self) -> bytes:
        return self._file.read()

    def readline(self) -> bytes:
        return self._file.readline()

    def disconnect(self) -> None:
        """Call from another thread: a pending read returns end of file."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended already

    def close(self) -> None:
        self._file.close()
        self._socket.close()
