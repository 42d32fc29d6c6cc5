"""The inside of a drill's box: namespaces that the drill makes and removes."""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import NamespaceSettings
from hermes_agent.terminals.remote.pipe import PipeStream, run_to_end
from hermes_agent.terminals.sandbox import limits
from hermes_agent.terminals.shell.spool import process_lives
from hermes_agent.terminals.transport import ByteStream, OpenStreams, ProcessResult, Transport

ENVIRONMENT = {
    "PATH": "/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "LANG": "C.UTF-8",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
}
"""The environment of programs in a box."""
JOIN = 'for n in $(seq "$1"); do shift; echo $$ >"$1/cgroup.procs"; done; shift; exec "$@"'
"""Joins the box's control groups, so that programs count towards its limits."""
INSIDE = ("--mount", "--net", "--uts", "--ipc", "--pid", "--user")


def first_process(place: NamespaceSettings) -> int:
    """Process 1 of the box, by its number here. Raises `HermesError` where the box is gone."""
    try:
        pid, started = (Path(place.folder) / "pid").read_text().split()
    except (OSError, ValueError):
        pid, started = "0", ""
    if not process_lives(int(pid), started) or not _is_inside(int(pid)):
        raise HermesError("the box is gone", "`hermes drill run` creates another")
    return int(pid)


def _is_inside(pid: int) -> bool:
    """Whether its namespaces exist: a dying process leaves them before it is gone."""
    try:
        Path(f"/proc/{pid}/ns/ipc").readlink()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return True


def door(place: NamespaceSettings) -> list[str]:
    """The start of a command line that runs in the box, as its root."""
    pid = first_process(place)
    enter = [*_joining(place), "nsenter", "--target", str(pid), *INSIDE, "--root", "--wd"]
    if _user_namespace("self") == _user_namespace(str(pid)):  # a machine that systemd booted
        return [*(word for word in enter if word != "--user"), "--"]
    holder = _parent(pid)
    if _user_namespace("self") == _user_namespace(str(holder)):
        return [*enter, "--setuid", "0", "--setgid", "0", "--"]
    # Between ours and the box's lies the namespace that its process namespace belongs to.
    outer = ["nsenter", "--target", str(holder), "--user", "--preserve-credentials", "--"]
    return [*outer, *enter, "--preserve-credentials", "--"]


def _joining(place: NamespaceSettings) -> list[str]:
    groups = [group for group in limits.groups(Path(place.folder)) if Path(group).is_dir()]
    return ["sh", "-c", JOIN, "sh", str(len(groups)), *groups] if groups else []


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


def _user_namespace(process: str) -> int:
    return Path(f"/proc/{process}/ns/user").stat().st_ino


def transport(place: NamespaceSettings, *, environ: Mapping[str, str], **_: object) -> Transport:
    return NamespaceTransport(place, environ)


async def check(place: NamespaceSettings | None, environ: Mapping[str, str]) -> str:
    """What is missing, as a sentence; empty when nothing is."""
    for program in ("nsenter", "unshare"):
        if shutil.which(program, path=environ.get("PATH")) is None:
            return f"{program!r} is not installed: install util-linux"
    try:
        return "" if place is None or first_process(place) else "the box is gone"
    except HermesError as error:
        return error.message


class NamespaceTransport:
    def __init__(self, place: NamespaceSettings, environ: Mapping[str, str]) -> None:
        self._place = place
        self._path = environ.get("PATH") or os.defpath
        self._streams: OpenStreams[PipeStream] = OpenStreams()

    async def ready(self) -> None:
        first_process(self._place)

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        done = await run_to_end(await self._spawn(argv, asyncio.subprocess.PIPE), stdin)
        if done.code:
            self._require_alive()  # else it may have ended with its box
        return done

    async def start(self, argv: Sequence[str]) -> ByteStream:
        return self._streams.add(PipeStream(await self._spawn(argv, asyncio.subprocess.DEVNULL)))

    async def rest(self) -> None:
        """A box keeps running: its programs work."""

    async def close(self) -> None:
        await self._streams.cut()

    async def destroy(self) -> None:
        """The drill that made the box removes it."""
        await self.close()

    def _require_alive(self) -> int:
        try:
            return first_process(self._place)
        except HermesError as error:
            raise ConnectionError(error.message) from None

    async def _spawn(self, argv: Sequence[str], stderr: int) -> asyncio.subprocess.Process:
        self._require_alive()
        # The programs of this machine that open the door are found on its path, not the box's.
        opening = shutil.which("nsenter", path=self._path)
        if opening is None:
            raise HermesError("'nsenter' is not installed", "install util-linux")
        words = [opening if word == "nsenter" else word for word in door(self._place)]
        return await asyncio.create_subprocess_exec(
            *words,
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,  # an interrupt at Hermes' terminal is not meant for it
        )
