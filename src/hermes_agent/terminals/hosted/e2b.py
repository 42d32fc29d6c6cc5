"""A sandbox at E2B through its SDK. It is paused with its memory while unused, also when Hermes
dies: the service pauses it when its time runs out, and connecting wakes it."""

import asyncio
import hashlib
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import httpx
from connectrpc.errors import ConnectError
from e2b import (
    AsyncSandbox,
    AuthenticationException,
    GuestUnresponsiveException,
    NotFoundException,
    RateLimitException,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    ServiceBusyException,
    TimeoutException,
)
from e2b.connection_config import (
    KEEPALIVE_PING_HEADER,
    KEEPALIVE_PING_INTERVAL_SEC,
    ApiParams,
)
from e2b.envd.client_async import as_stream, create_rpc_client
from e2b.envd.process.process_connect import ProcessClient
from e2b.envd.process.process_pb import (
    CloseStdinRequest,
    ProcessConfig,
    ProcessEvent,
    ProcessInput,
    ProcessSelector,
    SendInputRequest,
    StartRequest,
)
from e2b.envd.rpc import handle_rpc_exception
from msgspec import structs
from protobuf import Oneof

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import E2bPlace
from hermes_agent.terminals.hosted.base import (
    HostedTransport,
    SandboxRecord,
    StreamChannel,
    log,
    plain,
)
from hermes_agent.terminals.transport import ByteStream, ProcessResult, Transport

LIFE = 900
"""Seconds until the service pauses a sandbox that is not kept awake."""
PIPE = 32_000
"""Input that fits into a pipe, so that a program that does not read blocks nobody."""
CHUNK = 256 * 1024
LABEL = "hermes-session"
PAUSES = (0.01, 0.1, 0.5)
"""Pauses before a repeatable request is repeated."""
RUN = 'exec "$@"'

T = TypeVar("T")
Event = ProcessEvent.StartEvent | ProcessEvent.DataEvent | ProcessEvent.EndEvent
SDK_ERRORS = (
    SandboxException, AuthenticationException, ServiceBusyException, httpx.TransportError
)  # fmt: skip


class E2bTransport(HostedTransport[AsyncSandbox]):
    service = "E2B"

    def __init__(
        self,
        place: E2bPlace,
        session: str,
        folder: Path,
        environ: Mapping[str, str],
        every: float = LIFE / 3,
    ) -> None:
        super().__init__(session, folder, every)
        self._place = place
        self._options = _options(environ)

    async def _acquire(self) -> AsyncSandbox:
        record = self._records.read()
        if record.id:
            try:
                return await self._wake(record)
            except SandboxNotFoundException:
                log.warning("sandbox %s of E2B is gone with its files; creating another", record.id)
        for known in await _retry(self._known):
            if known != record.id:
                sandbox = await self._connect(known)
                await self._set_network(sandbox)
                return self._record(record, sandbox)
        return self._record(record, await self._make(record))

    async def _wake(self, record: SandboxRecord) -> AsyncSandbox:
        sandbox = await _retry(lambda: self._connect(record.id))
        if record.network != self._place.network:
            await self._set_network(sandbox)
            self._records.write(structs.replace(record, network=self._place.network))
        return sandbox

    async def _connect(self, id: str) -> AsyncSandbox:
        try:
            return await AsyncSandbox.connect(id, timeout=LIFE, **self._options)
        except GuestUnresponsiveException:
            log.warning("sandbox %s of E2B resumed with its files but without its processes", id)
            return await AsyncSandbox.connect(id, timeout=LIFE, on_resume="reboot", **self._options)

    async def _known(self) -> Sequence[str]:
        """The ids of sandboxes with the session's name, awake or paused."""
        query = SandboxQuery(metadata={LABEL: self._name})
        pages, found = AsyncSandbox.list(query, **self._options), list[str]()
        while pages.has_next:
            found += [sandbox.sandbox_id for sandbox in await pages.next_items()]
        return found

    async def _set_network(self, sandbox: AsyncSandbox) -> None:
        await sandbox.update_network({"allow_internet_access": self._place.network})

    async def _make(self, record: SandboxRecord) -> AsyncSandbox:
        key = hashlib.sha256(f"{self._name}/{record.made}".encode()).hexdigest()
        return await AsyncSandbox.create(
            self._place.template,
            timeout=LIFE,
            metadata={LABEL: self._name},
            allow_internet_access=self._place.network,
            lifecycle={"on_timeout": "pause", "auto_resume": False},
            idempotency_key=key,
            **self._options,
        )

    def _record(self, record: SandboxRecord, sandbox: AsyncSandbox) -> AsyncSandbox:
        """Record a new sandbox."""
        self._records.write(
            SandboxRecord(sandbox.sandbox_id, record.made + 1, network=self._place.network)
        )
        return sandbox

    async def _keep(self, sandbox: AsyncSandbox) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                with self._sdk_errors():
                    await sandbox.set_timeout(LIFE)
            except (HermesError, ConnectionError) as error:
                log.warning("sandbox %s may be paused soon: %s", sandbox.sandbox_id, error)

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        try:
            with self._sdk_errors():
                return await self._run(self._current(), argv, stdin)
        except ConnectionError:
            await self.close()  # so that `ready` looks again
            raise

    async def _run(
        self, sandbox: AsyncSandbox, argv: Sequence[str], stdin: bytes = b""
    ) -> ProcessResult:
        """Run a program to its end. Large input is passed as a file."""
        script, piped = RUN, bool(stdin)
        if len(stdin) > PIPE:
            file = f"/tmp/hermes-{uuid.uuid4().hex}"  # noqa: S108 - nobody else is in there
            await sandbox.files.write(file, stdin)
            script, piped = f"exec <{file} && rm -f {file} && {RUN}", False
        rpc = _client(sandbox)
        out, err = bytearray(), bytearray()
        async with aclosing(_events(rpc, script, argv, stdin=piped)) as events:
            async for event in events:
                match event:
                    case ProcessEvent.StartEvent() if piped:
                        await _send_all(rpc, event.pid, stdin)
                    case ProcessEvent.DataEvent(output=output) if output is not None:
                        (err if output.field == "stderr" else out).extend(output.value)
                    case ProcessEvent.EndEvent():
                        return ProcessResult(event.exit_code, bytes(out), bytes(err))
        raise ConnectionError("E2B closed the stream before the program had ended")

    async def start(self, argv: Sequence[str]) -> ByteStream | None:
        rpc = _client(self._current())
        events = _events(rpc, RUN, argv, stdin=True)
        with self._sdk_errors():
            began = await anext(events, None)
        if not isinstance(began, ProcessEvent.StartEvent):
            raise ConnectionError("E2B did not start the program")
        pid = began.pid

        async def send(data: bytes) -> None:
            with self._sdk_errors():
                await _send(rpc, pid, data)

        async def end() -> None:
            with self._sdk_errors():
                await _end_input(rpc, pid)

        return self._streams.add(StreamChannel(self._output(events), send, end))

    async def _output(self, events: AsyncGenerator[Event, None]) -> AsyncIterator[bytes]:
        with self._sdk_errors():
            async with aclosing(events):
                async for event in events:
                    match event:
                        case ProcessEvent.DataEvent(output=output) if output is not None:
                            if output.field == "stdout":
                                yield output.value
                        case ProcessEvent.EndEvent():
                            return

    async def rest(self) -> None:
        async with self._lock:
            await self.close()
            id = self._records.read().id
            if not id:
                return
            try:
                with self._sdk_errors():
                    await AsyncSandbox.pause(id, **self._options)
            except ConnectionError as error:
                # Its time is bounded: the service pauses it by itself, if it is still there.
                log.warning("sandbox %s was not paused: %s", id, error)

    async def close(self) -> None:
        await self._disconnect()

    async def destroy(self) -> None:
        async with self._lock:
            await self.close()
            record = self._records.read()
            with self._sdk_errors():
                for id in {*await self._known(), *filter(None, (record.id,))}:
                    await AsyncSandbox.kill(id, **self._options)
            self._records.remove()

    @contextmanager
    def _sdk_errors(self) -> Iterator[None]:
        try:
            yield
        except ConnectError as error:
            raise _translated(handle_rpc_exception(error)) from error
        except SDK_ERRORS as error:
            raise _translated(error) from error


def _options(environ: Mapping[str, str]) -> ApiParams:
    """Address and key of the service, from the environment."""
    options = ApiParams(api_key=environ["E2B_API_KEY"], debug=False)
    if domain := environ.get("E2B_DOMAIN"):
        options["domain"] = domain
    if url := environ.get("E2B_API_URL"):
        options["api_url"] = url
    if url := environ.get("E2B_SANDBOX_URL"):
        options["sandbox_url"] = url
    return options


def _client(sandbox: AsyncSandbox) -> ProcessClient:
    """The SDK's client of the sandbox's processes. `sandbox.commands` is built on it, but takes
    shell text and decodes the output, which damages bytes."""
    return create_rpc_client(ProcessClient, sandbox.envd_api_url, sandbox.connection_config)


async def _events(
    rpc: ProcessClient, script: str, argv: Sequence[str], *, stdin: bool
) -> AsyncGenerator[Event, None]:
    """The events of a program. A login shell starts it, as everywhere at E2B."""
    config = ProcessConfig(cmd="/bin/bash", args=["-l", "-c", script, "hermes", *plain(argv)])
    headers = {KEEPALIVE_PING_HEADER: str(KEEPALIVE_PING_INTERVAL_SEC)}
    stream = rpc.start(StartRequest(process=config, stdin=stdin), headers=headers)
    async with aclosing(as_stream(stream)) as responses:
        async for response in responses:
            if response.event is not None and response.event.event is not None:
                value = response.event.event.value
                if not isinstance(value, ProcessEvent.KeepAlive):
                    yield value


def _selected(pid: int) -> ProcessSelector:
    field: Literal["pid"] = "pid"
    return ProcessSelector(selector=Oneof(field, pid))


async def _send(rpc: ProcessClient, pid: int, data: bytes) -> None:
    field: Literal["stdin"] = "stdin"
    for at in range(0, len(data), CHUNK):
        piece = ProcessInput(input=Oneof(field, data[at : at + CHUNK]))
        await rpc.send_input(SendInputRequest(process=_selected(pid), input=piece))


async def _send_all(rpc: ProcessClient, pid: int, data: bytes) -> None:
    try:
        await _send(rpc, pid, data)
        await _end_input(rpc, pid)
    except ConnectError as error:
        # It may have ended without reading; if the way is cut, its events break off as well.
        log.info("a program at E2B did not accept its input: %s", error)


async def _end_input(rpc: ProcessClient, pid: int) -> None:
    await rpc.close_stdin(CloseStdinRequest(process=_selected(pid)))


async def _retry(ask: Callable[[], Awaitable[T]]) -> T:
    """Repeat a repeatable request: the SDK keeps several connections, and some may be dead."""
    for pause in PAUSES:
        try:
            return await ask()
        except httpx.TransportError as error:
            log.info("retrying E2B over another connection: %s", error)
            await asyncio.sleep(pause)
    return await ask()


def _translated(error: BaseException) -> BaseException:
    match error:
        case AuthenticationException():
            return HermesError(f"E2B refused the key: {error}", "check E2B_API_KEY")
        case RateLimitException():
            return HermesError(f"E2B limits requests: {error}", "wait, or stop other sandboxes")
        case ServiceBusyException():
            return HermesError(f"E2B has no capacity: {error}", "try again later")
        case TimeoutException() | httpx.TransportError() | ConnectError() | NotFoundException():
            return ConnectionError(f"lost the connection to E2B: {error}")
        case SandboxException():
            return HermesError(f"E2B: {error}", "`hermes terminals` shows what is set up")
    return error


def transport(
    place: E2bPlace, *, session: str, folder: Path, environ: Mapping[str, str], **_: object
) -> Transport:
    return E2bTransport(place, session, folder, environ)
