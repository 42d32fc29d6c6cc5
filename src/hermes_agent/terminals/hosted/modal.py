"""A sandbox at Modal through its SDK. Modal forgets the files of a sandbox that ends, so they are
kept as an image: when it rests, and every hour while it is used, since none lives longer than a
day."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import modal
from modal import exception as trouble
from modal.container_process import ContainerProcess
from modal.experimental import image_delete
from msgspec import structs

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import ModalPlace
from hermes_agent.terminals.hosted.base import (
    HostedTransport,
    SandboxRecord,
    StreamChannel,
    log,
    plain,
)
from hermes_agent.terminals.transport import ByteStream, ProcessResult, Transport

DAY = 24 * 60 * 60
"""The longest life of a sandbox at Modal."""
HOUR = 60 * 60.0
REACH = 15
"""Seconds to connect to the service; the SDK alone would try for a minute."""
CHUNK = 1024 * 1024


class ModalTransport(HostedTransport[modal.Sandbox]):
    service = "Modal"

    def __init__(
        self,
        place: ModalPlace,
        session: str,
        folder: Path,
        environ: Mapping[str, str],
        every: float = HOUR,
    ) -> None:
        super().__init__(session, folder, every)
        self._place = place
        self._keys = environ["MODAL_TOKEN_ID"], environ["MODAL_TOKEN_SECRET"]
        self._client: modal.Client | None = None

    async def _acquire(self) -> modal.Sandbox:
        record = self._records.read()
        sandbox = await self._recorded(record) or await self._by_name()
        if sandbox is None:
            if record.id:
                after = "as last saved" if record.image else "lost"
                log.warning("sandbox %s of Modal is gone; its files are %s", record.id, after)
            return self._record(record, await self._make(record))
        if record.id == sandbox.object_id and record.network == self._place.network:
            return sandbox
        if record.id == sandbox.object_id:
            # What it may reach is settled at its birth, so its files move to another.
            record = await self._save_and_end(sandbox)
            sandbox = await self._make(record)
        return self._record(record, sandbox)

    async def _recorded(self, record: SandboxRecord) -> modal.Sandbox | None:
        if not record.id:
            return None
        try:
            sandbox = await modal.Sandbox.from_id.aio(record.id, client=await self._service())
            return sandbox if await sandbox.poll.aio() is None else None
        except trouble.NotFoundError:
            return None

    async def _by_name(self) -> modal.Sandbox | None:
        try:
            return await modal.Sandbox.from_name.aio(
                self._place.app, self._name, client=await self._service()
            )
        except trouble.NotFoundError:
            return None

    async def _make(self, record: SandboxRecord) -> modal.Sandbox:
        """A new one; Modal refuses a second of the same name."""
        client, limits = await self._service(), self._place.limits
        app = await modal.App.lookup.aio(self._place.app, create_if_missing=True, client=client)
        image = modal.Image.debian_slim()
        if kept := record.image or self._place.image:
            image = modal.Image.from_id(kept, client=client)
        return await modal.Sandbox.create.aio(
            "sleep",
            "infinity",
            app=app,
            name=self._name,
            image=image,
            timeout=DAY,
            cpu=(min(0.25, limits.cpus), limits.cpus),
            memory=(min(256, limits.memory_mb), limits.memory_mb),
            block_network=not self._place.network,
            client=client,
        )

    def _record(self, record: SandboxRecord, sandbox: modal.Sandbox) -> modal.Sandbox:
        """Record a new sandbox."""
        self._records.write(
            SandboxRecord(sandbox.object_id, record.made + 1, record.image, self._place.network)
        )
        return sandbox

    async def _service(self) -> modal.Client:
        if self._client is None:
            try:
                async with asyncio.timeout(REACH):
                    self._client = await modal.Client.from_credentials.aio(*self._keys)
            except TimeoutError:
                raise ConnectionError("Modal does not answer") from None
        return self._client

    async def _keep(self, sandbox: modal.Sandbox) -> None:
        """Keep the files as an image now and then: Modal ends a sandbox after a day."""
        while True:
            await asyncio.sleep(self._every)
            async with self._lock:
                if self._sandbox is not sandbox:
                    return
                try:
                    with self._sdk_errors():
                        await self._snapshot(sandbox)
                except (HermesError, ConnectionError) as error:
                    log.warning("the files at Modal could not be saved: %s", error)

    async def _snapshot(self, sandbox: modal.Sandbox) -> SandboxRecord:
        """Save the files as an image, and record it before the old image is removed."""
        old = self._records.read()
        image = await sandbox.snapshot_filesystem.aio(timeout=300, ttl=None)
        record = structs.replace(old, image=image.object_id)
        self._records.write(record)
        if old.image:
            await self._discard(old.image)
        return record

    async def _discard(self, image: str) -> None:
        try:
            await image_delete.aio(image, client=await self._service())
        except trouble.NotFoundError:
            log.info("image %s of Modal was already removed", image)

    async def _save_and_end(self, sandbox: modal.Sandbox) -> SandboxRecord:
        """End a sandbox with its files saved. Its record goes before it ends: until then its name
        finds it."""
        record = structs.replace(await self._snapshot(sandbox), id="")
        self._records.write(record)
        await sandbox.terminate.aio(wait=True)
        return record

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        try:
            with self._sdk_errors():
                return await _run(self._current(), argv, stdin)
        except ConnectionError:
            await self._detach()  # so that `ready` looks again
            raise

    async def start(self, argv: Sequence[str]) -> ByteStream | None:
        with self._sdk_errors():
            process = await _begin(self._current(), argv)

        async def send(data: bytes) -> None:
            with self._sdk_errors():
                await _feed(process, data)

        async def end() -> None:
            with self._sdk_errors():
                process.stdin.write_eof()
                await process.stdin.drain.aio()

        return self._streams.add(StreamChannel(self._output(process), send, end))

    async def _output(self, process: ContainerProcess[bytes]) -> AsyncIterator[bytes]:
        with self._sdk_errors():
            async for piece in process.stdout:
                yield piece

    async def rest(self) -> None:
        async with self._lock:
            try:
                with self._sdk_errors():
                    if sandbox := self._sandbox or await self._recorded(self._records.read()):
                        await self._save_and_end(sandbox)
            except ConnectionError as error:
                log.warning("the sandbox at Modal keeps running for up to a day: %s", error)
            finally:
                await self._close_client()

    async def _detach(self) -> None:
        sandbox = self._sandbox
        await self._disconnect()
        if sandbox is not None:
            await sandbox.detach.aio()  # type: ignore[no-untyped-call]  # the stub has no types

    async def close(self) -> None:
        async with self._lock:  # an image that is being made replaces the old one first
            await self._close_client()

    async def _close_client(self) -> None:
        await self._detach()
        client, self._client = self._client, None
        if client is not None:
            await client.__aexit__(None, None, None)  # type: ignore[no-untyped-call]  # as above

    async def destroy(self) -> None:
        async with self._lock:
            record = self._records.read()
            with self._sdk_errors():
                while sandbox := await self._recorded(record) or await self._by_name():
                    await sandbox.terminate.aio(wait=True)
                if record.image:
                    await self._discard(record.image)
            self._records.remove()
            await self._close_client()

    @contextmanager
    def _sdk_errors(self) -> Iterator[None]:
        try:
            yield
        except trouble.Error as error:
            raise _translated(error) from error


async def _begin(sandbox: modal.Sandbox, argv: Sequence[str]) -> ContainerProcess[bytes]:
    """Bash starts it, so that a missing program is reported as everywhere."""
    return await sandbox.exec.aio("bash", "-c", 'exec "$@"', "hermes", *plain(argv), text=False)


async def _run(sandbox: modal.Sandbox, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
    process = await _begin(sandbox, argv)
    feeding = asyncio.create_task(_feed_all(process, stdin))
    try:
        out, err = await asyncio.gather(process.stdout.read.aio(), process.stderr.read.aio())
        return ProcessResult(await process.wait.aio(), out, err)
    finally:
        feeding.cancel()


async def _feed_all(process: ContainerProcess[bytes], data: bytes) -> None:
    try:
        await _feed(process, data)
        process.stdin.write_eof()
        await process.stdin.drain.aio()
    except trouble.Error as error:
        log.info("a program at Modal did not accept its input: %s", error)


async def _feed(process: ContainerProcess[bytes], data: bytes) -> None:
    for at in range(0, len(data), CHUNK):
        process.stdin.write(data[at : at + CHUNK])
        await process.stdin.drain.aio()


def _translated(error: trouble.Error) -> Exception:
    match error:
        case trouble.AuthError() | trouble.PermissionDeniedError():
            return HermesError(
                f"Modal refused the token: {error}", "check MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
            )
        case trouble.ResourceExhaustedError():
            return HermesError(f"Modal limits requests: {error}", "wait, or stop other sandboxes")
        case (
            trouble.ConnectionError() | trouble.ServiceError() | trouble.InternalError()
            | trouble.TimeoutError() | trouble.ClientClosed() | trouble.NotFoundError()
            | trouble.ConflictError() | trouble.SandboxTerminatedError()
        ):  # fmt: skip
            return ConnectionError(f"lost the connection to Modal: {error}")
    return HermesError(f"Modal: {error}", "`hermes terminals` shows what is set up")


def transport(
    place: ModalPlace, *, session: str, folder: Path, environ: Mapping[str, str], **_: object
) -> Transport:
    return ModalTransport(place, session, folder, environ)
