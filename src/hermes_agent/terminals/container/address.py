"""Finds where a container engine listens and checks that it answers."""

import asyncio
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hermes_agent.core.errors import HermesError, UsageError

START = (
    "start Docker (systemctl start docker) or Podman (systemctl --user start podman.socket), "
    "or set `engine` to its socket"
)
PERMIT = (
    "join the group that owns it (sudo usermod -aG docker $USER) and log in again, or use Podman "
    "without root (systemctl --user start podman.socket)"
)
TRY_SECONDS = 10.0


@dataclass(frozen=True)
class Address:
    """A local socket, or a host and port, with certificates where it speaks TLS."""

    url: str
    path: str = ""
    host: str = ""
    port: int = 0
    certificates: Path | None = None

    @property
    def near(self) -> bool:
        """Whether the engine sees the files of this machine."""
        return bool(self.path)

    def try_out(self) -> None:
        """Connect once; raises the system's `OSError`."""
        if self.path:
            with socket.socket(socket.AF_UNIX) as way:
                way.connect(self.path)
        else:
            socket.create_connection((self.host, self.port), TRY_SECONDS).close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.path:
            return await asyncio.open_unix_connection(self.path)
        return await asyncio.open_connection(self.host, self.port, ssl=self._context())

    def _context(self) -> ssl.SSLContext | None:
        if self.certificates is None:
            return None
        context = ssl.create_default_context(cafile=self.certificates / "ca.pem")
        context.load_cert_chain(self.certificates / "cert.pem", self.certificates / "key.pem")
        return context


def locate(engine: str, environ: Mapping[str, str]) -> Address:
    """The engine that the settings name, else DOCKER_HOST, else the first of the usual places
    that answers."""
    named = engine or environ.get("DOCKER_HOST", "")
    if named:
        address = parse(named, environ)
        try:
            address.try_out()
        except OSError as error:
            raise _absent(address, error) from None
        return address
    forbidden: Address | None = None
    for path in _usual(environ):
        address = Address(f"unix://{path}", path)
        try:
            address.try_out()
        except PermissionError:
            forbidden = forbidden or address
        except OSError:
            continue
        else:
            return address
    if forbidden:
        raise _absent(forbidden, PermissionError())
    raise HermesError("no container engine is running", START)


def parse(url: str, environ: Mapping[str, str]) -> Address:
    parts = urlsplit(url)
    if parts.scheme in ("unix", "http+unix") and parts.path:
        return Address(f"unix://{parts.path}", parts.path)
    if parts.scheme == "tcp" and parts.hostname:
        folder = environ.get("DOCKER_CERT_PATH", "")
        if not folder and environ.get("DOCKER_TLS_VERIFY"):
            folder = str(Path(environ.get("HOME", "~")).expanduser() / ".docker")
        certificates = Path(folder) if folder else None
        port = parts.port or (2376 if certificates else 2375)
        return Address(f"tcp://{parts.hostname}:{port}", "", parts.hostname, port, certificates)
    raise UsageError(
        f"the engine {url!r} cannot be used",
        "give a socket (unix:///run/docker.sock) or a host and port (tcp://host:2376); for an "
        "engine behind SSH, forward its socket",
    )


def _usual(environ: Mapping[str, str]) -> Iterator[str]:
    yield "/var/run/docker.sock"
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield f"{runtime}/docker.sock"
        yield f"{runtime}/podman/podman.sock"
    yield "/run/podman/podman.sock"
    if home := environ.get("HOME"):
        yield f"{home}/.docker/run/docker.sock"
        yield f"{home}/.docker/desktop/docker.sock"


def _absent(address: Address, error: OSError) -> HermesError:
    if isinstance(error, PermissionError):
        return HermesError(
            f"this user may not access the container engine at {address.url}", PERMIT
        )
    return HermesError(f"no container engine answers at {address.url}: {error}", START)
