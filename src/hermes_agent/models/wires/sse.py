"""Server-sent events: bytes in, the `data` of each event out."""

from collections.abc import Iterator

from hermes_agent.core.errors import ModelError
from hermes_agent.models.wires.http import shown

_FIELDS = (b":", b"id:", b"retry:")


class EventReader:
    """Cuts a stream into its events; other fields and comments are passed over. Not by httpx's
    own lines: those also end at U+2028 and the like, which JSON text may hold."""

    def __init__(self, sender: str) -> None:
        self._sender = sender
        self._rest: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The events that are whole now that this piece is here. What stands around one is left:
        JSON does not mind."""
        lines = piece.split(b"\n")
        if self._rest:
            self._rest.append(lines[0])
            if len(lines) == 1:
                return
            lines[0] = b"".join(self._rest)
        self._rest = [last] if (last := lines.pop()) else []
        for line in lines:
            if line[:5] == b"data:":
                yield line[5:]
            elif line and line[:6] != b"event:" and not line.startswith(_FIELDS) and line.strip():
                raise ModelError("garbage", f"{self._sender} sent no event stream: {shown(line)}")

    def end(self) -> Iterator[bytes]:
        """There is no more: the last line counts without its end."""
        return self.feed(b"\n")
