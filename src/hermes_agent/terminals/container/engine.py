"""A container engine through the Docker SDK. Everything here blocks and is called in a thread."""

import io
import json
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.tls import TLSConfig
from docker.utils import parse_repository_tag

from hermes_agent.core.errors import HermesError
from hermes_agent.terminals.container.address import Address

ANY_VERSION = "1.41"
"""For the request that asks which versions the engine speaks."""
REQUEST_SECONDS = 120
STOP_SECONDS = 5
POLL_SECONDS = 0.05
CONFLICT = 409


class ContainerGone(ConnectionError):
    """The engine answers, but the container is gone; it can be created again."""


class ContainerEngine:
    """Containers, volumes and images by name. `ConnectionError`: the engine does not answer."""

    def __init__(self, address: Address) -> None:
        self.address = address
        with self._answering():
            asking = _client(address, ANY_VERSION)
            try:
                self.version = str(asking.api.version(api_version=False)["ApiVersion"])
            finally:
                asking.close()
            self._client = _client(address, self.version)

    def close(self) -> None:
        self._client.close()

    def has_image(self, image: str) -> bool:
        with self._answering():
            try:
                self._client.images.get(image)
            except ImageNotFound:
                return False
            return True

    def pull(self, image: str) -> None:
        trouble = ""
        with self._answering():
            try:
                name, tag = parse_repository_tag(image)
                said = self._client.api.pull(name, tag or "latest")
                lines = (json.loads(line) for line in said.splitlines() if line.strip())
                trouble = next((line["error"] for line in lines if "error" in line), "")
            except APIError as error:
                trouble = _text(error)
        if trouble or not self.has_image(image):
            reason = f": {trouble}" if trouble else ""
            raise HermesError(
                f"the image {image!r} is missing and cannot be pulled{reason}",
                f"check its name; pull it (docker pull {image}) or load it from a file "
                f"(docker load, docker import FILE {image})",
            )

    def status(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """created, running, paused, exited, …; empty when there is no such container. One without
        the labels is not ours and is refused."""
        with self._answering():
            try:
                found = self._client.api.inspect_container(name)
            except NotFound:
                return ""
        if labels and not labels.items() <= (found["Config"].get("Labels") or {}).items():
            raise _foreign("container", name)
        return str(found["State"]["Status"])

    def create(self, options: Mapping[str, Any]) -> None:
        """Create a container; an existing one of that name is used as it is."""
        with self._answering():
            try:
                self._client.containers.create(**options)
            except APIError as error:
                if error.status_code != CONFLICT:
                    raise HermesError(f"the container cannot be created: {_text(error)}") from None

    def make_volume(self, name: str, labels: Mapping[str, str]) -> None:
        with self._answering():
            made = self._client.volumes.create(name, labels=dict(labels))
        if not labels.items() <= (made.attrs.get("Labels") or {}).items():
            raise _foreign("volume", name)

    def give(
        self, container: str, folder: str, names: Iterable[str], owner: tuple[int, int]
    ) -> None:
        """Change the owner of what is in a folder of a container, and so of volumes. The engine
        unpacks an archive: nothing of the image runs as root, not even for this."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name in names:
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o700
                entry.uid, entry.gid = owner
                tar.addfile(entry)
        with self._answering():
            self._client.api.put_archive(container, folder, archive.getvalue())

    def file(self, name: str, path: str) -> bytes:
        """A small file of a container; empty when it does not exist."""
        with self._answering():
            try:
                pieces, _ = self._client.api.get_archive(name, path)
            except NotFound:
                return b""
            packed = io.BytesIO(b"".join(pieces))
        with tarfile.open(fileobj=packed) as tar:
            first = tar.next()
            inside = tar.extractfile(first) if first else None
            return inside.read() if inside else b""

    def start(self, name: str) -> None:
        with self._answering():
            try:
                self._client.api.start(name)
            except APIError as error:
                raise HermesError(
                    f"the container cannot be started: {_text(error)}",
                    "the image must have bash 5 and basic programs (sleep, head, cat)",
                ) from None

    def unpause(self, name: str) -> None:
        with self._answering():
            self._client.api.unpause(name)

    def stop(self, name: str) -> None:
        """Stop it; it and its volumes stay."""
        with self._answering():
            try:
                self._client.api.stop(name, timeout=STOP_SECONDS)
            except NotFound:
                return

    def remove(self, name: str) -> None:
        with self._answering():
            try:
                self._client.api.remove_container(name, v=True, force=True)
            except NotFound:
                return
            except APIError as error:
                if error.status_code != CONFLICT:
                    raise
        while self.status(name) == "removing":  # by another process: wait until it is done
            time.sleep(POLL_SECONDS)

    def sweep(self, label: str) -> None:
        """Remove all containers and volumes with a label, whatever their state."""
        with self._answering():
            filters = {"label": label}
            for one in self._client.api.containers(all=True, filters=filters):
                self.remove(one["Id"])
            for volume in self._client.api.volumes(filters=filters)["Volumes"] or ():
                try:
                    self._client.api.remove_volume(volume["Name"])
                except NotFound:
                    continue

    def new_exec(self, name: str, argv: Sequence[str], *, stdin: bool, stderr: bool) -> str:
        """Prepare a program to start; returns its id."""
        with self._answering():
            try:
                made = self._client.api.exec_create(name, list(argv), stdin=stdin, stderr=stderr)
            except APIError as error:
                if self.status(name) != "running":
                    raise ContainerGone("the container is not running") from None
                raise HermesError(f"the program cannot be started: {_text(error)}") from None
        return str(made["Id"])

    def exec_code(self, id: str) -> int | None:
        """Exit code of a program; None while it runs. The engine forgets it with its container."""
        with self._answering():
            try:
                found = self._client.api.exec_inspect(id)
            except NotFound:
                raise ContainerGone("the container is gone") from None
        return None if found["Running"] else found["ExitCode"]

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            if self.address.near:  # the SDK leaves its socket open when nobody listens
                self.address.try_out()
            yield
        except APIError as error:
            raise HermesError(f"the container engine refused: {_text(error)}") from None
        except ContainerGone:
            raise
        except (DockerException, OSError) as error:  # the SDK's transport raises both
            raise ConnectionError(f"the container engine does not answer: {error}") from None


def _client(address: Address, version: str) -> docker.DockerClient:
    tls: TLSConfig | bool = False
    if address.certificates:
        folder = address.certificates
        pair = (str(folder / "cert.pem"), str(folder / "key.pem"))
        tls = TLSConfig(client_cert=pair, ca_cert=str(folder / "ca.pem"), verify=True)
    made = docker.DockerClient(
        base_url=address.url, version=version, timeout=REQUEST_SECONDS, tls=tls
    )
    # Otherwise proxies and certificates of this process's environment would override the address.
    made.api.trust_env = False
    return made


def _text(error: APIError) -> str:
    return str(error.explanation or error).strip()


def _foreign(kind: str, name: str) -> HermesError:
    return HermesError(
        f"a {kind} called {name!r} exists that Hermes did not create",
        "remove or rename it",
    )
