"""A machine reached by SSH: one persistent connection, known host keys only."""

import asyncio
import contextlib
import importlib.util
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from hermes_agent.core.errors import HermesError
from hermes_agent.core.installation.extras import install_hint
from hermes_agent.core.settings.terminals import SshPlace
from hermes_agent.terminals.transport import ByteStream, ProcessResult

if TYPE_CHECKING:
    import asyncssh

CONNECT_SECONDS = 20.0
KEEPALIVE_SECONDS = 15.0
"""Between keepalives; after three without an answer the connection is closed."""
CLOSE_SECONDS = 2.0
MAX_LOGINS = 6
"""Concurrent logins to one machine: servers refuse some from ten on (MaxStartups)."""

_login_slots: "WeakValueDictionary[tuple[int, str, int], asyncio.Semaphore]" = WeakValueDictionary()


def _login_slot(host: str, port: int) -> asyncio.Semaphore:
    """A semaphore belongs to one event loop, so the key names it."""
    key = id(asyncio.get_running_loop()), host, port
    return _login_slots.setdefault(key, asyncio.Semaphore(MAX_LOGINS))


def transport(place: SshPlace, *, environ: Mapping[str, str], **_: object) -> "SshTransport":
    return SshTransport(place, environ)


async def check(place: SshPlace | None, environ: Mapping[str, str]) -> str:
    if importlib.util.find_spec("asyncssh") is None:
        return f"asyncssh is not installed: {install_hint('ssh')}"
    if place is None:
        return ""
    way = SshTransport(place, environ)
    try:
        await way.ready()
    except HermesError as error:
        return f"{error.message}: {error.hint}"
    finally:
        await way.close()
    return ""


class SshTransport:
    def __init__(self, place: SshPlace, environ: Mapping[str, str]) -> None:
        self._place = place
        self._home = Path(environ.get("HOME", "~")).expanduser()
        self._agent = environ.get("SSH_AUTH_SOCK", "")
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connecting = asyncio.Lock()

    async def ready(self) -> None:
        async with self._connecting:
            if self._connection is None or self._connection.is_closed():
                self._connection = None
                given = self._given()
                options = self._options(given)
                async with _login_slot(self._place.host, options.port):
                    self._connection = await _connect(self._place, options, given)

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        import asyncssh

        process = await self._run(argv, asyncssh.PIPE)
        try:
            await _feed(process, stdin)
            stdout, stderr = await process.communicate()
        except asyncssh.Error as error:
            raise ConnectionError(str(error)) from error
        finally:
            process.close()
        if process.exit_status is None:
            raise ConnectionError("the connection was lost")
        return ProcessResult(_code(process), bytes(stdout or b""), bytes(stderr or b""))

    async def start(self, argv: Sequence[str]) -> ByteStream | None:
        import asyncssh

        return _SshChannel(await self._run(argv, asyncssh.DEVNULL))

    async def rest(self) -> None:
        """A shared machine does not hibernate."""

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await connection.wait_closed()
            except TimeoutError:
                connection.abort()

    async def destroy(self) -> None:
        await self.close()

    async def _run(self, argv: Sequence[str], stderr: int) -> "asyncssh.SSHClientProcess[bytes]":
        import asyncssh

        if self._connection is None:
            await self.ready()
        assert self._connection is not None
        try:
            return await self._connection.create_process(
                shlex.join(argv), encoding=None, stderr=stderr
            )
        except (asyncssh.Error, OSError) as error:
            raise ConnectionError(str(error)) from error

    def _given(self) -> dict[str, object]:
        """Options of the settings beside host and port; the SSH config has the rest."""
        place = self._place
        config = Path(place.config).expanduser() if place.config else self._home / ".ssh/config"
        given: dict[str, object] = {
            "config": [str(config)] if config.is_file() else None,
            "connect_timeout": 0,  # `_connect` has one for both
            "login_timeout": 0,
            "keepalive_interval": KEEPALIVE_SECONDS,
        }
        if place.config and not config.is_file():
            raise HermesError(f"no SSH config at {place.config!r}", "fix `config`")
        if place.key:
            key = Path(place.key).expanduser()
            if not key.is_file():
                raise HermesError(f"no key at {place.key!r}", "fix `key`")
            given["client_keys"] = [str(key)]
        if place.known_hosts:
            known = Path(place.known_hosts).expanduser()
            given["known_hosts"] = str(known) if known.is_file() else b""
        if place.user:
            given["username"] = place.user
        if self._agent:
            given["agent_path"] = self._agent
        return given

    def _options(self, given: dict[str, object]) -> "asyncssh.SSHClientConnectionOptions":
        """The options together with the SSH config."""
        import asyncssh

        place = self._place
        try:
            options = asyncssh.SSHClientConnectionOptions(
                host=place.host, port=place.port or (), **given
            )
        except asyncssh.ConfigParseError as error:
            raise HermesError(f"the SSH config is wrong: {error}", "fix it") from None
        except (asyncssh.KeyImportError, ValueError, OSError) as error:
            raise HermesError(
                f"the key for {place.host} cannot be used: {error}",
                "a key with a passphrase must be in the agent: ssh-add",
            ) from None
        if options.known_hosts is None:
            raise HermesError(
                f"the SSH config turns off host key checks for {place.host}",
                "set `known_hosts` to a file of known host keys",
            )
        return options


class _SshChannel:
    def __init__(self, process: "asyncssh.SSHClientProcess[bytes]") -> None:
        self._process = process

    async def write(self, data: bytes) -> None:
        import asyncssh

        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (asyncssh.Error, OSError) as error:
            raise ConnectionError(str(error)) from error
        if self._process.is_closing():
            raise ConnectionError("the channel is closed")

    async def read(self) -> bytes:
        import asyncssh

        try:
            return bytes(await self._process.stdout.read(65536))
        except (asyncssh.Error, OSError):
            return b""

    async def close(self) -> None:
        with contextlib.suppress(OSError):
            self._process.stdin.write_eof()


async def _connect(
    place: SshPlace, options: "asyncssh.SSHClientConnectionOptions", given: dict[str, object]
) -> "asyncssh.SSHClientConnection":
    import asyncssh

    name = place.host
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncssh.connect(place.host, place.port or (), **given)
    except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
        file = place.known_hosts or "~/.ssh/known_hosts"
        port = f"-p {options.port} " if options.port != 22 else ""
        raise HermesError(
            f"the host key of {name} is unknown or has changed: {error}",
            f"compare it with the machine's own; then ssh-keyscan {port}{options.host} >> {file}",
        ) from error
    except asyncssh.PermissionDenied as error:
        raise HermesError(
            f"{name} refuses {options.username!r}: {error.reason}",
            "set `user` and `key`, or add the key to the agent: ssh-add",
        ) from error
    except (asyncssh.Error, OSError, TimeoutError) as error:
        reason = str(error) or "no answer"
        raise HermesError(
            f"{name} cannot be reached: {reason}", f"try: ssh -p {options.port} {options.host}"
        ) from error


async def _feed(process: "asyncssh.SSHClientProcess[bytes]", data: bytes) -> None:
    # A program may end without reading all of it.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(data)
        process.stdin.write_eof()


def _code(process: "asyncssh.SSHClientProcess[bytes]") -> int:
    if process.exit_signal is not None:
        number = getattr(signal, f"SIG{process.exit_signal[0]}", signal.SIGKILL)
        return 128 + int(number)
    return process.exit_status or 0
