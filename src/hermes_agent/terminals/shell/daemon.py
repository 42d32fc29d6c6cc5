"""The host's side of `daemon.sh`: start it, submit commands, learn when they end."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hermes_agent.core.errors import HermesError
from hermes_agent.terminals.shell.spool import PRIVATE, Spool, process_lives

SCRIPT = Path(__file__).with_name("daemon.sh")
PLAIN_NAMES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "HERMES_HOME",
)  # fmt: skip
START_LOOKS, AGAIN_LOOKS = 1000, 150
"""Between two there are at most 50 ms."""
TOO_OLD = 3
"""What `daemon.sh` exits with under a bash before 5.0."""


def scrubbed(environment: Mapping[str, str], keep: tuple[str, ...]) -> dict[str, str]:
    """What commands see of the runtime's environment: no secret unless it is named."""
    chosen = {
        name: value
        for name, value in environment.items()
        if name in PLAIN_NAMES or name in keep or name.startswith("LC_")
    }
    return {"PATH": os.defpath, **chosen, "TERM": "dumb"}


def find_bash(environment: Mapping[str, str]) -> str | None:
    return shutil.which("bash", path=environment.get("PATH", os.defpath))


class _Link(NamedTuple):
    """The FIFOs of one run of the daemon."""

    pid: int
    ticks: str
    into: int
    out: int


class ShellDaemon:
    """Starts the daemon of a spool, or finds a running one, and talks to it."""

    def __init__(
        self, spool: Spool, workspace: str, idle: float, environment: Mapping[str, str]
    ) -> None:
        self._spool = spool
        self._workspace = workspace
        self._idle = idle
        self.environment = dict(environment)
        self._link: _Link | None = None
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    def alive(self) -> bool:
        """Whether the daemon we are linked to, or at least its shell, still lives."""
        link = self._link
        return link is not None and (
            process_lives(link.pid, link.ticks) or self.shell() is not None
        )

    def linked(self) -> bool:
        """Whether a daemon lives; looks for one when we are not linked."""
        return self.alive() if self._link is not None else self.attach()

    def folder(self) -> str:
        """The shell's working directory; empty when there is no shell."""
        pid = self.shell()
        if pid is None:
            return ""
        try:
            return os.readlink(f"/proc/{pid}/cwd").removesuffix(" (deleted)")  # noqa: PTH115
        except FileNotFoundError:  # it has ended just now
            return ""

    def last_folder(self) -> str:
        """The working directory of a restarted shell. This blocks."""
        if not self._spool.folder.exists():
            return self._workspace
        done = self._call("where", self._workspace, detached=False)
        return os.fsdecode(done.stdout) or self._workspace

    def attach(self) -> bool:
        """Link to a running daemon. False: there is none."""
        if self.alive():
            return True
        self.detach()
        try:
            self._link = self._find()
        except FileNotFoundError:  # a daemon that is just starting or ending
            return False
        if self._link is None:
            return False
        if self._waiting:
            asyncio.get_running_loop().add_reader(self._link.out, self._heard)
        return True

    async def ready(self) -> None:
        """Link to the daemon, starting one if there is none."""
        for looks in range(START_LOOKS):
            if self.attach():
                return
            if looks % AGAIN_LOOKS == 0:  # one that nobody connected to in time has ended
                await self.launch("keep", f"{max(self._idle, 0.05):.3f}")
            else:
                await asyncio.sleep(min(0.002 * 1.02**looks, 0.05))
        raise HermesError("the shell did not start", f"see {self._spool.folder / 'log'}")

    async def launch(self, mode: str, *arguments: str) -> None:
        """Run a part of `daemon.sh` detached from this process: it lives on when we do not."""
        await asyncio.to_thread(self._call, mode, *arguments, detached=True)

    async def destroy(self) -> None:
        """Kill the daemon, its shell and everything that either ever started."""
        self.detach()
        await asyncio.to_thread(self._call, "destroy", detached=False)

    def submit(self, line: str) -> None:
        """Write one line to the shell. It may be lost with a dying daemon: submit it again."""
        if self._link is not None:
            # A full FIFO holds this very line many times over.
            with contextlib.suppress(BlockingIOError):
                os.write(self._link.into, f"{line}\n".encode())

    async def wait(self, id: str, seconds: float) -> None:
        """Sleep until the shell reports the end of this command, or the time is over."""
        with self._listening(id) as heard:
            # It may have ended before we listened.
            if self._spool.end(id) is None:
                timer = heard.get_loop().call_later(seconds, _settle, heard)
                try:
                    await heard
                finally:
                    timer.cancel()

    def detach(self) -> None:
        if self._link is not None:
            link, self._link = self._link, None
            if self._waiting:
                asyncio.get_running_loop().remove_reader(link.out)
            os.close(link.into)
            os.close(link.out)

    def _call(
        self, mode: str, *arguments: str, detached: bool
    ) -> subprocess.CompletedProcess[bytes]:
        bash = find_bash(self.environment)
        if bash is None:
            raise HermesError("bash is not installed", "commands need bash 5.0 or newer")
        shell = mode in ("keep", "job")
        if shell and not Path(self._workspace).is_dir():
            raise HermesError(
                f"no folder at {self._workspace!r} to work in",
                "create it, or set another workspace",
            )
        self._spool.prepare()
        folder = self._spool.folder
        environment = dict(self.environment)
        if shell:  # marks our processes; `destroy` looks for it
            environment["HERMES_SPOOL"] = str(folder)
        start = ("start",) if detached else ()
        with (folder / "log").open("ab") as log:
            done = subprocess.run(
                [bash, "--noprofile", "--norc", self._script(), *start, mode, folder, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log if detached else subprocess.PIPE,
                stderr=log,
                cwd=self._workspace if shell else folder,
                env=environment,
                start_new_session=True,
                check=False,
            )
        if done.returncode == TOO_OLD:
            raise HermesError(f"{bash} is too old", "commands need bash 5.0 or newer")
        return done

    def _script(self) -> Path:
        """A copy in the spool: the daemon may outlive this version of the package."""
        script = self._spool.folder / "script.sh"
        wanted = SCRIPT.read_bytes()
        if not script.exists() or script.read_bytes() != wanted:
            draft = script.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
            draft.write_bytes(wanted)
            draft.replace(script)
        return script

    def _find(self) -> _Link | None:
        folder = self._spool.folder
        numbers = [
            int(path.suffix[1:]) for path in folder.glob("daemon.*") if path.suffix[1:].isdigit()
        ]
        if not numbers:
            return None
        words = (folder / f"daemon.{max(numbers)}").read_text().split()
        if words[2:] != ["ready"]:
            return None
        if not process_lives(int(words[0]), words[1]) and self.shell() is None:
            return None
        # Both ways, so that neither side ever sees the other's end as the end of the file.
        mode = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        into = os.open(folder / PRIVATE / "in", mode)
        try:
            out = os.open(folder / PRIVATE / "out", mode)
        except FileNotFoundError:
            os.close(into)
            raise
        return _Link(int(words[0]), words[1], into, out)

    def shell(self) -> int | None:
        """The pid of the shell, when it lives."""
        try:
            words = (self._spool.folder / "spine").read_text().split()
        except FileNotFoundError:
            return None
        lives = len(words) == 2 and process_lives(int(words[0]), words[1])
        return int(words[0]) if lives else None

    @contextlib.contextmanager
    def _listening(self, id: str) -> Iterator[asyncio.Future[None]]:
        # Only while someone waits: an idle terminal is tied to no event loop.
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[None] = loop.create_future()
        if not self._waiting and self._link is not None:
            loop.add_reader(self._link.out, self._heard)
        self._waiting.setdefault(id, []).append(heard)
        try:
            yield heard
        finally:
            self._waiting[id].remove(heard)
            if not self._waiting[id]:
                del self._waiting[id]
            if not self._waiting and self._link is not None:
                loop.remove_reader(self._link.out)

    def _heard(self) -> None:
        if self._link is None:
            return
        with contextlib.suppress(BlockingIOError):
            for line in os.read(self._link.out, 65536).decode().splitlines():
                for heard in self._waiting.get(line.partition(" ")[0], ()):
                    _settle(heard)


def _settle(heard: asyncio.Future[None]) -> None:
    if not heard.done():
        heard.set_result(None)
