"""Instances of Apptainer (or Singularity): one for each session, with its own workspace, home and
/tmp. These folders are on this machine and outlive the instance."""

import asyncio
import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import ApptainerPlace
from hermes_agent.terminals.local.files import remove_tree
from hermes_agent.terminals.remote.pipe import PipeStream, run_to_end
from hermes_agent.terminals.shell.spool import process_lives, started_at
from hermes_agent.terminals.transport import ByteStream, OpenStreams, ProcessResult, Transport

HOME = "/home/hermes"
ORDINARY = 1000
"""The user of commands where Hermes runs as root: root of the host could write /proc/sys from
inside, whatever capabilities it lacks."""
KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS", "APPTAINER_CONFIGDIR", "APPTAINER_CACHEDIR", "APPTAINER_TMPDIR",
    "SINGULARITY_CACHEDIR", "SINGULARITY_TMPDIR",
)  # fmt: skip
"""All variables that the program sees; others could weaken the instance."""
AS_IT_IS = 'exec "$@"'
"""For sh, whose exit codes tell a missing program from one that failed."""


def transport(
    place: ApptainerPlace, *, session: str, folder: Path, environ: Mapping[str, str], **_: object
) -> Transport:
    return ApptainerTransport(place, session, folder, environ)


async def check(place: ApptainerPlace | None, environ: Mapping[str, str]) -> str:
    """What is missing, as a sentence; empty when nothing is."""
    programs = (place.program,) if place else ("apptainer", "singularity")
    for choice in (programs, ("flock",)):
        if not any(shutil.which(program, path=environ.get("PATH")) for program in choice):
            return ": ".join(_missing(choice[0]))
    if place and not _image(place, environ).is_file():
        return f"no image at {place.image!r}: make one with `{place.program} build {place.image} …`"
    return ""


def _missing(program: str) -> tuple[str, str]:
    if program == "flock":
        return "'flock' is not installed", "install util-linux"
    return (
        f"{program!r} is not installed",
        "install Apptainer, or set the terminal's `program` to its path",
    )


def _image(place: ApptainerPlace, environ: Mapping[str, str]) -> Path:
    if place.image.startswith("~/") and "HOME" in environ:
        return Path(environ["HOME"], place.image[2:])
    return Path(place.image).absolute()


class _Instance(Struct, frozen=True):
    """A line of `instance list`."""

    instance: str
    pid: int
    logErrPath: str = ""  # noqa: N815 the program's own spelling
    logOutPath: str = ""  # noqa: N815


class _Listing(Struct, frozen=True):
    instances: tuple[_Instance, ...] = ()


class ApptainerTransport:
    def __init__(
        self,
        place: ApptainerPlace,
        session: str,
        folder: Path,
        environ: Mapping[str, str],
    ) -> None:
        self._place = place
        self._folder = folder
        self._lock = folder / "apptainer.lock"
        self._environ = {name: environ[name] for name in KEPT if name in environ}
        self._image = _image(place, environ)
        self._root = os.geteuid() == 0
        self._name = _name(session)
        self._seen: tuple[int, str] | None = None
        self._making = asyncio.Lock()
        self._streams: OpenStreams[PipeStream] = OpenStreams()

    async def ready(self) -> None:
        if self._alive():
            return
        async with self._making:
            if not await self._find():
                await self._make()

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        self._require_alive()
        done = await self._run(*self._exec(["sh", "-c", AS_IT_IS, "sh", *argv]), stdin=stdin)
        if done.code:
            self._require_alive()  # else it may have ended with its instance
        return done

    async def start(self, argv: Sequence[str]) -> ByteStream:
        self._require_alive()
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        return self._streams.add(PipeStream(await self._spawn(self._exec(argv), pipe, nowhere)))

    async def rest(self) -> None:
        """An idle instance costs nothing, so it stays."""

    async def close(self) -> None:
        await self._streams.cut()

    async def destroy(self) -> None:
        await self.close()
        async with self._making:
            found = await self._find(alone=True)
            if found:
                await self._run("instance", "stop", "--signal", "KILL", self._name)
                if await self._find():
                    raise HermesError(
                        f"the instance {self._name} cannot be stopped",
                        f"stop it by hand: {self._place.program} instance stop {self._name}",
                    )
                for log in (found.logErrPath, found.logOutPath):
                    if log:
                        Path(log).unlink(missing_ok=True)
            for path, _ in self._binds():
                await asyncio.to_thread(remove_tree, path)
            self._lock.unlink(missing_ok=True)

    def _alive(self) -> bool:
        """Whether the instance seen last still runs, without asking the program."""
        return self._seen is not None and process_lives(*self._seen)

    def _require_alive(self) -> None:
        if not self._alive():
            raise ConnectionError(f"the instance {self._name} is not running")

    async def _find(self, alone: bool = False) -> _Instance | None:
        listed = await self._run("instance", "list", "--json", self._name, alone=alone)
        if listed.code:
            raise _trouble(f"{self._place.program} cannot list its instances", listed)
        for found in msgspec.json.decode(listed.stdout, type=_Listing).instances:
            if found.instance == self._name and (started := started_at(found.pid)):
                self._seen = (found.pid, started)
                return found
        self._seen = None
        return None

    async def _make(self) -> None:
        if not self._image.is_file():
            raise HermesError(
                f"no image at {str(self._image)!r}",
                f"build one: {self._place.program} build {self._image} docker://debian:stable",
            )
        binds = []
        for path, inside in self._binds():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._root:
                os.chown(path, ORDINARY, ORDINARY)
            binds += ["--home" if inside == HOME else "--bind", f"{path}:{inside}"]
        begun = await self._run(
            "instance", "start", "--containall", "--no-mount", "bind-paths", *binds,
            *self._confined(), str(self._image), self._name, alone=True,
        )  # fmt: skip
        # A process that was killed meanwhile may have begun it; that instance is as good.
        if not await self._find():
            raise _trouble(f"no instance of {str(self._image)!r} could be started", begun)

    def _binds(self) -> tuple[tuple[Path, str], ...]:
        return (
            (self._folder / "workspace", self._place.workspace),
            (self._folder / "home", HOME),
            (self._folder / "tmp", "/tmp"),  # noqa: S108 inside the instance
        )

    def _confined(self) -> tuple[str, ...]:
        cut_off = () if self._place.network else ("--net", "--network", "none")
        return ("--no-privs", "--no-eval", *cut_off, *self._place.options)

    def _exec(self, argv: Sequence[str]) -> tuple[str, ...]:
        who = ("--security", f"uid:{ORDINARY},gid:{ORDINARY}") if self._root else ()
        return (
            "exec", "--cleanenv", "--pwd", self._place.workspace, "--no-privs", "--no-eval", *who,
            *self._place.options, f"instance://{self._name}", *argv,
        )  # fmt: skip

    async def _run(self, *arguments: str, stdin: bytes = b"", alone: bool = False) -> ProcessResult:
        pipe = asyncio.subprocess.PIPE
        process = await self._spawn(arguments, pipe, pipe, alone=alone)
        return await run_to_end(process, stdin, kill=not alone)  # half a start cannot be undone

    async def _spawn(
        self, arguments: Sequence[str], stdin: int, stderr: int, *, alone: bool = False
    ) -> asyncio.subprocess.Process:
        words = [self._place.program, "--silent", *arguments]
        if alone:
            # Two starts at once leave an instance that the program knows nothing of. The lock is
            # held by a process of its own, so that it outlives us if we are killed.
            self._lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            words = ["flock", "--close", str(self._lock), *words]
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                stdin=stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                env=self._environ,
                start_new_session=True,  # an interrupt at Hermes' terminal is not meant for it
            )
        except FileNotFoundError:
            raise HermesError(*_missing(words[0])) from None


def _name(session: str) -> str:
    if re.fullmatch(r"[a-zA-Z0-9_-]{1,48}", session):
        return f"hermes-{session}"
    return f"hermes-{hashlib.sha256(session.encode()).hexdigest()[:32]}"


def _trouble(what: str, done: ProcessResult) -> HermesError:
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    said = [line.partition(":")[2].strip() for line in lines if line.startswith(("FATAL", "ERROR"))]
    return HermesError(
        f"{what}: {said[-1] if said else f'exit code {done.code}'}",
        "check the terminal's `image`, `program` and `options`",
    )
