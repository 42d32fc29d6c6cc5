"""`python -m bench.replay FOLDER CERTIFICATE`: a server that answers `/NAME/…` with the bytes of
the file NAME, all at once, so that whoever reads them is what is measured. Without a certificate
(an empty word) it speaks plain HTTP. Prints its port."""

import asyncio
import ssl
import sys
from pathlib import Path

CONNECTIONS = "connections"
"""A file in the folder that grows by a byte with every connection."""


class Replay(asyncio.Protocol):
    def __init__(self, answers: dict[bytes, bytes], connections: Path) -> None:
        self._answers, self._connections = answers, connections
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        with self._connections.open("ab") as file:
            file.write(b".")

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        if len(body) < length:
            return
        self._received = body[length:]
        self._transport.write(self._answers[head.split(b"/", 2)[1]])


async def serve(folder: Path, certificate: str) -> None:
    files = (path for path in folder.iterdir() if path.suffix == "")
    answers = {path.name.encode(): path.read_bytes() for path in files}
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    server = await asyncio.get_running_loop().create_server(
        lambda: Replay(answers, folder / CONNECTIONS), "127.0.0.1", 0, ssl=context, backlog=512
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
