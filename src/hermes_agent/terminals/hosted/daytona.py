"""A sandbox at Daytona through its SDK. It is stopped with its files while unused, also when Hermes
dies: the service stops an idle one.

Daytona runs shell text and gives back one text for output and errors, so a call goes through a
small script: input comes from an uploaded file, output and errors go to files, and what they hold
comes back in base64 or, when it is large, as files."""

import asyncio
import base64
import shlex
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from daytona import (
    AsyncDaytona,
    AsyncSandbox,
    CreateSandboxFromSnapshotParams,
    DaytonaAuthenticationError,
    DaytonaBadRequestError,
    DaytonaConfig,
    DaytonaConflictError,
    DaytonaConnectionError,
    DaytonaError,
    DaytonaForbiddenError,
    DaytonaNotFoundError,
    DaytonaRateLimitError,
    DaytonaTimeoutError,
)
from daytona_api_client_async import SandboxState

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import DaytonaPlace
from hermes_agent.terminals.hosted.base import (
    HostedTransport,
    SandboxRecord,
    log,
    plain,
)
from hermes_agent.terminals.transport import ByteStream, ProcessResult, Transport

API = "https://app.daytona.io/api"
IDLE = 15
"""Minutes until the service stops an idle sandbox."""
BIRTH = 300
"""Seconds that creating or starting one may take; from the archive it takes long."""
CALL = 60 * 60
"""Seconds that a call may take; the service's default is six minutes."""
INLINE = 512 * 1024
"""Bytes of output that come back with the answer."""

SCRIPT = """
mark=$1 input=$2 most=$3; shift 3
folder=$(mktemp -d) || exit
if [ "$input" ]; then exec <"$input"; rm -f "$input"; else exec </dev/null; fi
"$@" >"$folder/out" 2>"$folder/err"; code=$?
out=$(wc -c <"$folder/out") err=$(wc -c <"$folder/err")
echo; echo "$mark" $code $out $err "$folder"
if [ $((out + err)) -le "$most" ]; then
  base64 <"$folder/out"; echo "$mark"; base64 <"$folder/err"; rm -rf "$folder"
fi
"""

GONE = (SandboxState.DESTROYED, SandboxState.DESTROYING)
BROKEN = (SandboxState.ERROR, SandboxState.BUILD_FAILED)
RISING = (
    SandboxState.CREATING, SandboxState.STARTING, SandboxState.RESTORING, SandboxState.RESUMING,
    SandboxState.PENDING_BUILD, SandboxState.BUILDING_SNAPSHOT, SandboxState.PULLING_SNAPSHOT,
)  # fmt: skip


class DaytonaTransport(HostedTransport[AsyncSandbox]):
    service = "Daytona"

    def __init__(
        self,
        place: DaytonaPlace,
        session: str,
        folder: Path,
        environ: Mapping[str, str],
        every: float = IDLE * 60 / 3,
    ) -> None:
        super().__init__(session, folder, every)
        self._place = place
        self._config = DaytonaConfig(
            api_key=environ["DAYTONA_API_KEY"],
            api_url=environ.get("DAYTONA_API_URL") or API,
            target=environ.get("DAYTONA_TARGET"),
        )
        self._client: AsyncDaytona | None = None

    async def _acquire(self) -> AsyncSandbox:
        record = self._records.read()
        sandbox = await self._found(record.id) or await self._found(self._name)
        if sandbox is None:
            if record.id:
                log.warning(
                    "sandbox %s of Daytona is gone with its files; creating another", record.id
                )
            sandbox = await self._make()
        else:
            await _wake(sandbox)
        if bool(sandbox.network_block_all) == self._place.network:
            await sandbox.update_network_settings(network_block_all=not self._place.network)
        if sandbox.id != record.id:
            self._record(sandbox)
        return sandbox

    async def _found(self, name: str) -> AsyncSandbox | None:
        if not name:
            return None
        try:
            sandbox = await self._service().get(name)
        except DaytonaNotFoundError:
            return None
        return None if sandbox.state in GONE else sandbox

    async def _make(self) -> AsyncSandbox:
        """A new one; Daytona refuses a second of the same name."""
        wanted = CreateSandboxFromSnapshotParams(
            name=self._name,
            snapshot=self._place.snapshot or None,
            labels={"hermes-session": self._name},
            auto_stop_interval=IDLE,
            network_block_all=not self._place.network,
        )
        return await self._service().create(wanted, timeout=BIRTH)

    def _record(self, sandbox: AsyncSandbox) -> None:
        """Record a new sandbox."""
        limits = self._place.limits
        if sandbox.cpu > limits.cpus or sandbox.memory * 1024 > limits.memory_mb:
            log.warning(
                "the snapshot gives sandbox %s of Daytona %s cores and %s GB, beyond its limits",
                sandbox.id, sandbox.cpu, sandbox.memory,
            )  # fmt: skip
        self._records.write(SandboxRecord(sandbox.id))

    def _service(self) -> AsyncDaytona:
        if self._client is None:
            self._client = AsyncDaytona(self._config)
        return self._client

    async def _keep(self, sandbox: AsyncSandbox) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                with self._sdk_errors():
                    await sandbox.refresh_activity()
            except (HermesError, ConnectionError) as error:
                log.warning("sandbox %s may be stopped soon: %s", sandbox.id, error)

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        try:
            with self._sdk_errors():
                return await _call(self._current(), argv, stdin)
        except ConnectionError:
            await self._disconnect()  # so that `ready` looks again
            raise

    async def start(self, argv: Sequence[str]) -> ByteStream | None:  # noqa: ARG002 - no way to any
        return None

    async def rest(self) -> None:
        async with self._lock:
            try:
                with self._sdk_errors():
                    sandbox = self._sandbox or await self._found(self._records.read().id)
                    if sandbox is not None and sandbox.state == SandboxState.STARTED:
                        await sandbox.stop(timeout=BIRTH)
            except ConnectionError as error:
                log.warning(
                    "could not stop the sandbox at Daytona, which soon stops on its own: %s", error
                )
            finally:
                await self.close()

    async def close(self) -> None:
        await self._disconnect()
        client, self._client = self._client, None
        if client is not None:
            await client.close()  # type: ignore[no-untyped-call]  # the SDK left its type out

    async def destroy(self) -> None:
        async with self._lock:
            record = self._records.read()
            with self._sdk_errors():
                while sandbox := await self._found(record.id) or await self._found(self._name):
                    await sandbox.delete(timeout=BIRTH, wait=True)
            self._records.remove()
            await self.close()

    @contextmanager
    def _sdk_errors(self) -> Iterator[None]:
        try:
            yield
        except DaytonaError as error:
            raise _translated(error) from error


async def _wake(sandbox: AsyncSandbox) -> None:
    if sandbox.state in BROKEN:
        raise HermesError(
            f"sandbox {sandbox.id} of Daytona is broken: {sandbox.error_reason}",
            "repair or remove it in Daytona's dashboard",
        )
    if sandbox.state in RISING:
        await sandbox.wait_for_sandbox_start(timeout=BIRTH)
    if sandbox.state == SandboxState.STOPPING:
        await sandbox.wait_for_sandbox_stop(timeout=BIRTH)
    if sandbox.state != SandboxState.STARTED:
        await sandbox.start(timeout=BIRTH)


async def _call(sandbox: AsyncSandbox, argv: Sequence[str], stdin: bytes) -> ProcessResult:
    try:
        return await _run(sandbox, argv, stdin)
    except DaytonaBadRequestError as error:
        # The service also answers this when the sandbox was stopped meanwhile.
        await sandbox.refresh_data()
        if sandbox.state != SandboxState.STARTED:
            state = sandbox.state.value if sandbox.state else "gone"
            raise ConnectionError(f"sandbox {sandbox.id} of Daytona is {state}") from error
        raise


async def _run(sandbox: AsyncSandbox, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
    mark = uuid.uuid4().hex
    file = ""
    if stdin:
        file = f"/tmp/hermes-{mark}"  # noqa: S108 - nobody else is in there
        await sandbox.fs.upload_file(stdin, file)
    line = ("bash", "-c", SCRIPT, "hermes", mark, file, str(INLINE), *plain(argv))
    answer = await sandbox.process.exec(shlex.join(line), timeout=CALL)
    _, found, told = answer.result.partition(f"\n{mark} ")
    if not found:
        raise HermesError(
            f"Daytona: a program could not be started: {answer.result.strip()}",
            "the snapshot must have bash, base64 and mktemp",
        )
    head, _, rest = told.partition("\n")
    code, out, err, folder = head.split(" ", 3)
    if int(out) + int(err) <= INLINE:
        out_text, _, err_text = rest.partition(mark)
        return ProcessResult(int(code), base64.b64decode(out_text), base64.b64decode(err_text))
    files = sandbox.fs
    done = ProcessResult(
        int(code),
        await files.download_file(f"{folder}/out") if int(out) else b"",
        await files.download_file(f"{folder}/err") if int(err) else b"",
    )
    await files.delete_file(folder, recursive=True)
    return done


def _translated(error: DaytonaError) -> Exception:
    match error:
        case DaytonaAuthenticationError() | DaytonaForbiddenError():
            return HermesError(f"Daytona refused the key: {error}", "check DAYTONA_API_KEY")
        case DaytonaRateLimitError():
            return HermesError(f"Daytona limits requests: {error}", "wait, or stop other sandboxes")
        case DaytonaConnectionError() | DaytonaTimeoutError() | DaytonaNotFoundError():
            return ConnectionError(f"lost the connection to Daytona: {error}")
        case DaytonaConflictError():
            return ConnectionError(f"Daytona is busy with the sandbox: {error}")
    if error.status_code is not None and error.status_code >= 500:
        return ConnectionError(f"Daytona failed: {error}")
    return HermesError(f"Daytona: {error}", "`hermes terminals` shows what is set up")


def transport(
    place: DaytonaPlace, *, session: str, folder: Path, environ: Mapping[str, str], **_: object
) -> Transport:
    return DaytonaTransport(place, session, folder, environ)
