"""Runs untrusted Python, each time in a new sandbox that dies with this process at the latest.
Where no sandbox can be made, nothing runs."""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import Limits, SandboxPlace
from hermes_agent.core.tools import Call, SandboxLimits, SandboxResult
from hermes_agent.terminals.code_sandbox.guest import TROUBLE_CHARS
from hermes_agent.terminals.code_sandbox.protocol import SandboxConnection
from hermes_agent.terminals.sandbox import limits as limits_of
from hermes_agent.terminals.sandbox.landlock import below
from hermes_agent.terminals.sandbox.launch import LIBRARY, PYTHON, find_way
from hermes_agent.terminals.sandbox.mounts import IsolatedSandbox, Rules
from hermes_agent.terminals.sandbox.sandbox import Sandbox

OWN_MB = 64
"""Memory for the sandbox itself, and for reporting that there is none left."""
OWN_PROCESSES = 2
SCRATCH_SHARE = 4
"""A program may fill one part in so many of its memory with files."""
POLL_SECONDS = 0.1
LOCK_PAUSE, LOCK_LOOKS = 0.02, 50
"""How long another process may clean up before a program runs: one second."""
START = ("/usr/bin/env", "PYTHONHASHSEED=0", PYTHON, "-P", "-s", "-S")
"""Python isolated as with `-I`, but with a hash seed: sets keep their order when a program runs
again. The sandbox has no other variables of Python."""
PROGRAM = Path(__file__).with_name("guest.py")
SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    "/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types",
    "/etc/nsswitch.conf", "/etc/passwd", "/etc/protocols", "/etc/services", "/etc/ssl/certs",
    "/etc/timezone",
)  # fmt: skip
MAX_FILES = 10_000
TOO_LARGE = 1 << 62


@dataclass(frozen=True)
class _Box:
    """A sandbox for one run."""

    sandbox: Sandbox
    folder: Path
    scratch_mb: int
    on_disk: bool
    """Its files are on disk, so their size must be watched."""


class CodeSandboxRunner:
    """Makes sandboxes in a folder of its own."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = Path(os.path.realpath(folder))
        self._environ = environ
        self._tidied = False
        self._tidying = asyncio.Lock()

    async def run(
        self,
        name: str,
        source: str,
        *,
        function: str = "",
        arguments: Mapping[str, Any] | None = None,
        tools: Sequence[str] = (),
        call: Call | None = None,
        limits: SandboxLimits | None = None,
        output: Callable[[str], None] | None = None,
    ) -> SandboxResult:
        limits = limits or SandboxLimits()
        began = time.monotonic()
        job = {
            "seed": name,
            "source": source,
            "function": function,
            "arguments": dict(arguments or {}),
            "tools": list(tools),
            "packages": _packages(),
            "memory_mb": limits.memory_mb,
        }
        talk: SandboxConnection | None = None
        try:
            async with self._box(name, limits) as box:
                program = await box.sandbox.begin([*START, str(PROGRAM)])
                talk = SandboxConnection(program, tools, call, limits, output)
                watch = _watch(box, talk, limits)
                await talk.follow({**job, "scratch_mb": box.scratch_mb}, watch)
                reached = limits_of.reached(box.folder)
            await talk.settle()
        finally:
            if talk is not None:
                await talk.close()
        return _worked(talk, limits, reached, time.monotonic() - began)

    async def tidy(self) -> None:
        """Remove what a killed process left behind. Others may be running."""
        for lock in self._folder.glob("*.lock"):
            with contextlib.suppress(FileNotFoundError), lock.open("rb") as file:
                if _locked(lock, file):
                    folder = lock.with_suffix("")
                    await self._remove(Sandbox(SandboxPlace(), "/", folder, self._environ), folder)

    @contextlib.asynccontextmanager
    async def _box(self, name: str, limits: SandboxLimits) -> AsyncIterator[_Box]:
        """A new sandbox. It is made and removed completely even when the caller is cancelled."""
        way = await asyncio.to_thread(find_way, self._environ)
        async with self._tidying:  # it holds the locks of others for a while
            if not self._tidied:
                await self.tidy()
                self._tidied = True
        folder = self._folder / hashlib.sha256(name.encode()).hexdigest()[:24]
        scratch = folder / "tmp"
        scratch_mb = max(1, limits.memory_mb // SCRATCH_SHARE)
        self._folder.mkdir(parents=True, exist_ok=True)
        with await _lock(folder.with_suffix(".lock")):
            scratch.mkdir(parents=True, exist_ok=True)
            leash, held = os.pipe()
            cell = _cell(scratch_mb, leash)
            sandbox = Sandbox(_place(limits), str(scratch), folder, self._environ, cell)
            making = asyncio.ensure_future(sandbox.ready())
            try:
                await asyncio.shield(making)
                yield _Box(sandbox, folder, scratch_mb, on_disk=not way)
            finally:
                ending = asyncio.ensure_future(self._end(sandbox, folder, making, (leash, held)))
                await asyncio.shield(ending)

    async def _end(
        self, sandbox: Sandbox, folder: Path, making: asyncio.Future[None], files: tuple[int, int]
    ) -> None:
        await asyncio.gather(making, return_exceptions=True)
        for file in files:
            os.close(file)
        await self._remove(sandbox, folder)

    async def _remove(self, sandbox: Sandbox, folder: Path) -> None:
        await sandbox.destroy()
        if folder.is_dir():
            folder.rmdir()
        folder.with_suffix(".lock").unlink(missing_ok=True)


def _packages() -> list[str]:
    """Folders with the packages of this Python."""
    named = (entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages"))
    return [entry for entry in named if Path(entry).is_dir()]


def _cell(scratch_mb: int, leash: int) -> IsolatedSandbox:
    """Untrusted code sees the system's programs and libraries, and the Python that runs Hermes with
    its packages. All else is hidden."""
    names = [Path(name) for name in (*SYSTEM, *_packages())]
    names += [LIBRARY, PROGRAM]
    names = [name for name in names if name.exists()]
    rules: Rules = {Path("/"): "hide"}
    return IsolatedSandbox(
        rules | {name.resolve(): "read" for name in names}, tuple(names), scratch_mb, leash
    )


def _place(limits: SandboxLimits) -> SandboxPlace:
    return SandboxPlace(
        limits=Limits(
            memory_mb=limits.memory_mb + OWN_MB, processes=limits.processes + OWN_PROCESSES
        )
    )


async def _lock(path: Path) -> BinaryIO:
    """The locked file. Another process that cleans up holds it only for a moment."""
    for _ in range(LOCK_LOOKS):
        file = path.open("wb")
        if _locked(path, file):
            return file
        file.close()
        await asyncio.sleep(LOCK_PAUSE)
    raise HermesError(
        "the same program is already running in another process",
        f"wait until it ends, or stop the process that has {path} open",
    )


def _locked(path: Path, file: BinaryIO) -> bool:
    """Lock an open file, unless another process has, or has removed it meanwhile."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except (BlockingIOError, FileNotFoundError):
        return False


async def _watch(box: _Box, talk: SandboxConnection, limits: SandboxLimits) -> None:
    """Enforce the limits that nothing else does: memory of all processes together where there are
    no control groups, and disk space where files are not in memory."""
    door = 0
    while await talk.lasts(POLL_SECONDS):
        door = door or await asyncio.to_thread(box.sandbox.door)
        most = limits.memory_mb + OWN_MB << 20
        killed = "memory" in limits_of.reached(box.folder)  # one of them: it is over
        if killed or await asyncio.to_thread(_memory, door) > most:
            talk.stop("memory", _words("memory", limits))
        size = await asyncio.to_thread(_size, box.folder / "tmp") if box.on_disk else 0
        if size > box.scratch_mb << 20:
            talk.stop("disk", f"it stored more than {box.scratch_mb} MB of files")


def _memory(door: int) -> int:
    """Bytes mapped by the processes of a sandbox; shared memory counts once."""
    found = 0
    for pid in below(door):
        with contextlib.suppress(OSError):  # it has ended
            try:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                found += sum(int(line.split()[1]) << 10 for line in lines if line[:4] == "Pss:")
            except PermissionError:  # it hides; then nothing of it is taken for shared
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                found += pages * resource.getpagesize()
    return found


def _size(folder: Path) -> int:
    """Bytes of its files; too many files to count are too large."""
    size = count = 0
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
        except (FileNotFoundError, PermissionError):  # gone again, or closed: that is no size
            continue
        except OSError:  # so deep that it has no name any more
            return TOO_LARGE
        if count > MAX_FILES:
            return TOO_LARGE
    return size


def _words(limit: str, limits: SandboxLimits) -> str:
    return {
        "memory": f"it needed more than {limits.memory_mb} MB of memory",
        "processes": f"it started more than {limits.processes} processes",
        "calls": f"it made more than {limits.calls} calls",
        "output": f"it printed more than {limits.output_bytes} bytes",
    }.get(limit, "")


def _worked(
    talk: SandboxConnection, limits: SandboxLimits, reached: frozenset[str], seconds: float
) -> SandboxResult:
    limit, trouble = talk.stopped
    ok = False
    if limit:
        pass
    elif talk.ended is None:
        limit = "memory" if "memory" in reached else "died"
        code = "" if talk.code is None else f" (exit code {talk.code})"
        trouble = _words(limit, limits) or f"it died without a message{code}"
    elif talk.ended.ok:
        ok = True
        limit = "output" if talk.cut else ""
    else:
        hit = reached | ({"calls"} if talk.refused else set()) | ({"output"} if talk.cut else set())
        counted = [name for name in ("memory", "processes", "calls", "output") if name in hit]
        limit = talk.ended.limit or next(iter(counted), "")
        said = [_words(limit, limits)] if limit else []
        trouble = "\n".join([*said, talk.ended.trouble[-TROUBLE_CHARS:].rstrip()])
    output = talk.output
    if talk.cut:
        output += f"\n[the rest was dropped: {_words('output', limits)}]"
    value = talk.ended.value if ok and talk.ended else None
    return SandboxResult(output, ok, value, trouble, limit, seconds)
