"""Containers of Docker, Podman or any engine with Docker's API: one for each session, confined,
stopped when idle, its files in volumes."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.settings.terminals import ContainerPlace
from hermes_agent.terminals.container.address import START, locate
from hermes_agent.terminals.container.engine import ContainerEngine
from hermes_agent.terminals.container.spec import SEED, ContainerSpec, owner
from hermes_agent.terminals.container.stream import ExecStream, attach
from hermes_agent.terminals.transport import ByteStream, ProcessResult, Transport

FIRST_LOOK = 0.005
MAX_POLL = 0.2
FED = (
    'n=$1; shift; head -c "$n" | { (exec "$@"); code=$?; cat >/dev/null; exit "$code"; }'
)  # fmt: skip
"""Ends a program's input after so many bytes: not every engine can close one direction alone. What
the program does not read is drained, because Docker holds on to a stream that is full."""
TROUBLED = 126
"""From here on an exit code may be the engine's own: not started, or killed with its container."""


class ContainerTransport:
    def __init__(self, spec: ContainerSpec, environ: Mapping[str, str]) -> None:
        self._spec = spec
        self._environ = environ
        self._engine: ContainerEngine | None = None
        self._connecting = asyncio.Lock()
        self._waking = asyncio.Lock()
        self._streams: set[ExecStream] = set()

    async def ready(self) -> None:
        async with self._waking:
            with _as_hermes_error():
                woken = await asyncio.to_thread(self._wake, await self._connected())
                if woken and self._spec.place.mount:
                    await self._check_writable()

    def _wake(self, engine: ContainerEngine) -> bool:
        """True when it did not run before."""
        spec, name = self._spec, self._spec.name
        status = engine.status(name, spec.labels)
        if status == "running":
            return False
        if status == "paused":
            engine.unpause(name)
            return False
        if status in ("dead", "removing"):
            engine.remove(name)
            status = ""
        if not status:
            self._make(engine)
        if status in ("", "created"):  # until it has run once, nobody knows how far this came
            self._give_volumes(engine)
        engine.start(name)
        return True

    def _make(self, engine: ContainerEngine) -> None:
        spec = self._spec
        if spec.place.mount:
            _check_mount(engine, spec.source)
        if not engine.has_image(spec.place.image):
            engine.pull(spec.place.image)
        for volume in spec.volumes.values():
            engine.make_volume(volume, spec.labels)
        engine.create(spec.options())

    def _give_volumes(self, engine: ContainerEngine) -> None:
        """Set the owner of new volumes, which are root's, through a container that never runs."""
        spec, user = self._spec, self._spec.place.user
        options = spec.seed_options()
        seed = str(options["name"])
        engine.remove(seed)  # left by a crash
        engine.create(options)
        numbers = user.replace(":", "", 1).isdecimal() and ":" in user
        files = ("/etc/passwd", "/etc/group")
        passwd, group = (b"" if numbers else engine.file(seed, path) for path in files)
        engine.give(seed, SEED, spec.volumes.values(), owner(user, passwd, group))
        engine.remove(seed)

    async def _check_writable(self) -> None:
        spec = self._spec
        if (await self.call(["test", "-w", spec.folder])).code:
            await self.rest()  # so that the next attempt checks again
            facts = Path(spec.source).stat()
            raise HermesError(
                f"user {spec.place.user} of the container cannot write to {spec.source!r}",
                f"set `user: {facts.st_uid}:{facts.st_gid}`, its owner, or remove `mount`",
            )

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        if stdin:
            argv = ("bash", "-c", FED, "bash", str(len(stdin)), *argv)
        id, stream = await self._exec(argv, stdin=bool(stdin), stderr=True)
        try:
            stdout, stderr = await stream.collect(stdin)
        finally:
            await stream.close()
        return ProcessResult(await self._code(id), stdout, stderr)

    async def start(self, argv: Sequence[str]) -> ByteStream | None:
        _, stream = await self._exec(argv, stdin=True, stderr=False)
        return stream

    async def _exec(
        self, argv: Sequence[str], *, stdin: bool, stderr: bool
    ) -> tuple[str, ExecStream]:
        engine = await self._connected()
        id = await asyncio.to_thread(
            engine.new_exec, self._spec.name, argv, stdin=stdin, stderr=stderr
        )
        path = f"/v{engine.version}/exec/{id}/start"
        try:
            stream = await attach(engine.address, path, self._streams.discard)
        except OSError as error:
            raise ConnectionError(str(error)) from None
        self._streams.add(stream)
        return id, stream

    async def _code(self, id: str) -> int:
        engine = await self._connected()
        pause = FIRST_LOOK
        while (code := await asyncio.to_thread(engine.exec_code, id)) is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_POLL)
        if code >= TROUBLED:
            status = await asyncio.to_thread(engine.status, self._spec.name)
            if status != "running":
                raise ConnectionError("the container has stopped")
        return code

    async def rest(self) -> None:
        engine = await self._connected()
        with _as_hermes_error():
            await asyncio.to_thread(engine.stop, self._spec.name)

    async def close(self) -> None:
        for stream in tuple(self._streams):
            await stream.close()
        async with self._connecting:
            engine, self._engine = self._engine, None
        if engine:
            await asyncio.to_thread(engine.close)

    async def destroy(self) -> None:
        engine = await self._connected()
        with _as_hermes_error():
            await asyncio.to_thread(engine.sweep, self._spec.label)
        await self.close()

    async def _connected(self) -> ContainerEngine:
        async with self._connecting:
            if self._engine is None:
                self._engine = await asyncio.to_thread(
                    _connect, self._spec.place.engine, self._environ
                )
            return self._engine


@contextmanager
def _as_hermes_error() -> Iterator[None]:
    """Turns a lost engine into a `HermesError` with a hint."""
    try:
        yield
    except ConnectionError as error:
        raise HermesError(str(error), START) from None


def transport(
    place: ContainerPlace, *, session: str, workspace: str, environ: Mapping[str, str], **_: object
) -> Transport:
    return ContainerTransport(ContainerSpec(place, session, workspace), environ)


async def check(place: ContainerPlace | None, environ: Mapping[str, str]) -> str:
    """Empty when containers can be used now, else what is missing."""
    try:
        with _as_hermes_error():
            return await asyncio.to_thread(_check, place, environ)
    except HermesError as error:
        return "; ".join(filter(None, (error.message, error.hint)))


def _check(place: ContainerPlace | None, environ: Mapping[str, str]) -> str:
    engine = _connect(place.engine if place else "", environ)
    try:
        if place is None or engine.has_image(place.image):
            return ""
        return (
            f"the image {place.image!r} is missing and will be pulled on first use; pull it now "
            f"(docker pull {place.image}) or load it from a file (docker load, docker import)"
        )
    finally:
        engine.close()


def _connect(named: str, environ: Mapping[str, str]) -> ContainerEngine:
    return ContainerEngine(locate(named, environ))


def _check_mount(engine: ContainerEngine, workspace: str) -> None:
    """Refuse a folder that the engine cannot see, or that holds the engine's socket."""
    if not engine.address.near:
        raise UsageError(
            "an engine on another machine cannot mount a folder of this one",
            "remove `mount`, or use an engine on this machine",
        )
    folder = Path(workspace).resolve()
    if Path(engine.address.path).resolve().is_relative_to(folder):
        raise UsageError(
            f"the workspace {str(folder)!r} contains the engine's socket and cannot be mounted",
            "work in a subfolder",
        )
