"""The host's side of `keeper.sh`: hand commands in, hear when they end, read what they left."""

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hermes_agent.core.errors import HermesError, ToolError

SCRIPT = Path(__file__).with_name("keeper.sh")
PLAIN_NAMES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR")
START_SECONDS = 30.0
TOO_OLD = 3
"""What `keeper.sh` exits with under a bash before 5.0."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")


def scrubbed(environment: Mapping[str, str], keep: tuple[str, ...]) -> dict[str, str]:
    """What commands may see of the runtime's environment: no secret gets in unless named."""
    chosen = {
        name: value
        for name, value in environment.items()
        if name in PLAIN_NAMES or name in keep or name.startswith("LC_")
    }
    return {"PATH": os.defpath, **chosen, "TERM": "dumb"}


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def process_lives(pid: int, ticks: str) -> bool:
    """Whether that very process lives; a pid alone may belong to another by now."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    fields = stat.rpartition(b") ")[2].split()
    return fields[19].decode() == ticks and fields[0] not in (b"Z", b"X")


class Claim(NamedTuple):
    """Who took a command to run it, and when. `kind` is fg, bg, or void: nobody shall run it."""

    start: float
    kind: str
    pid: int
    ticks: str

    @property
    def held(self) -> bool:
        return process_lives(self.pid, self.ticks)


class Spool:
    """The folder as files. Everything here is quick and never waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, id: str, kind: str) -> Path:
        if not _ID.fullmatch(id):
            raise ToolError(
                f"{id!r} cannot be the id of a command",
                "ids are letters, digits, '-', '_' and '.', at most 200",
            )
        return self.folder / f"{id}.{kind}"

    def prepare(self) -> None:
        """Make the folder and note the boot it was made in, so that both outlast a power cut."""
        boot = self.folder / "boot"
        if boot.exists():
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with boot.open("w") as file:
            file.write(boot_id())
            file.flush()
            os.fsync(file.fileno())
        for folder in (self.folder, self.folder.parent):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def same_boot(self) -> bool:
        """Whether all that ran here did so since the machine last started. Files of a command
        are not forced to the disk, so after a reboot a missing one proves nothing."""
        text = self._text(self.folder / "boot")
        return text is None or text == boot_id()

    def put_text(self, id: str, text: str) -> None:
        path = self.file(id, "c")
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise ToolError("the command is not valid text", "remove lone surrogates") from None
        if b"\0" in data:
            raise ToolError("the command contains a NUL byte", "bash cannot take one")
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes() == data:
                return
        draft = self.file(id, "c.new")
        draft.write_bytes(data)
        draft.replace(path)

    def text(self, id: str) -> str | None:
        return self._text(self.file(id, "c"))

    def claim(self, id: str) -> Claim | None:
        text = self._text(self.file(id, "s"))
        if text is None:
            return None
        fields = text.split()
        if len(fields) < 4:  # being written just now, or cut off by a full disk
            return Claim(self.file(id, "s").stat().st_mtime, "fg", 0, "")
        return Claim(float(fields[0]), fields[1], int(fields[2]), fields[3])

    def void(self, id: str) -> bool:
        """Claim it so that nobody runs it any more. False: someone was quicker."""
        try:
            with self.file(id, "s").open("x") as file:
                file.write(f"{time.time()} void 0 0\n")
        except FileExistsError:
            return False
        return True

    def revive(self, id: str) -> None:
        """Take a void claim back: the command is wanted after all."""
        claim = self.claim(id)
        if claim is not None and claim.kind == "void":
            self.file(id, "s").unlink()

    def code(self, id: str) -> int | None:
        text = self._text(self.file(id, "r"))
        return int(text) if text else None

    def ended_at(self, id: str) -> float:
        return self.file(id, "r").stat().st_mtime

    def why(self, id: str) -> str | None:
        text = self._text(self.file(id, "k"))
        return text.strip() if text else None

    def background_ids(self) -> list[str]:
        return [path.name.removesuffix(".i") for path in self.folder.glob("*.i")]

    @staticmethod
    def _text(path: Path) -> str | None:
        try:
            return path.read_text("utf-8", "replace")
        except FileNotFoundError:
            return None


class _Link(NamedTuple):
    """The FIFOs of one life of the keeper."""

    pid: int
    ticks: str
    into: int
    out: int


class Keeper:
    """Starts the keeper of a spool, finds one that runs already, and talks to it."""

    def __init__(
        self, spool: Spool, workspace: str, idle: float, environment: Mapping[str, str]
    ) -> None:
        self._spool = spool
        self._workspace = workspace
        self._idle = idle
        self._environment = dict(environment)
        self._link: _Link | None = None
        self._waiting: dict[str, list[asyncio.Event]] = {}

    def alive(self) -> bool:
        """Whether the keeper we are linked to, or at least its shell, still lives."""
        link = self._link
        return link is not None and (process_lives(link.pid, link.ticks) or self._spine_lives())

    def attach(self) -> bool:
        """Link to a keeper that is there. False: there is none."""
        if self.alive():
            return True
        self.detach()
        try:
            self._link = self._find()
        except FileNotFoundError:  # a keeper that begins or ends just now
            return False
        if self._link is None:
            return False
        if self._waiting:
            asyncio.get_running_loop().add_reader(self._link.out, self._heard)
        return True

    async def ready(self) -> None:
        """Link to the keeper, starting one where there is none."""
        if self.attach():
            return
        await self.launch("keep", f"{self._idle:g}")
        deadline = time.monotonic() + START_SECONDS
        while not self.attach():
            if time.monotonic() > deadline:
                log = self._spool.folder / "log"
                raise HermesError("the shell did not start", f"look into {log}")
            await asyncio.sleep(0.002)

    async def launch(self, mode: str, *arguments: str) -> None:
        """Run a part of `keeper.sh` detached from this process: it lives on when we do not."""
        await asyncio.to_thread(self._call, mode, *arguments, detached=True)

    async def destroy(self) -> None:
        """Kill the keeper, its shell and everything that either ever started."""
        self.detach()
        await asyncio.to_thread(self._call, "destroy", detached=False)

    def hand_in(self, line: str) -> None:
        """Write one line to the shell. It may be lost with a dying keeper: hand it in again."""
        if self._link is not None:
            # A full FIFO holds this very line many times over.
            with contextlib.suppress(BlockingIOError):
                os.write(self._link.into, f"{line}\n".encode())

    async def wait(self, id: str, seconds: float) -> None:
        """Sleep until the shell says that this command has ended, or the time is over."""
        with self._listening(id) as heard:
            # It may have ended before we listened.
            if self._spool.code(id) is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(heard.wait(), seconds)

    def detach(self) -> None:
        if self._link is not None:
            link, self._link = self._link, None
            if self._waiting:
                asyncio.get_running_loop().remove_reader(link.out)
            os.close(link.into)
            os.close(link.out)

    def _call(self, mode: str, *arguments: str, detached: bool) -> None:
        bash = shutil.which("bash", path=self._environment["PATH"])
        if bash is None:
            raise HermesError("bash is not installed", "commands run in bash 5.0 or newer")
        if not Path(self._workspace).is_dir():
            raise HermesError(
                f"no folder at {self._workspace!r} to work in", "make it, or name another workspace"
            )
        self._spool.prepare()
        folder = self._spool.folder
        environment = dict(self._environment)
        if mode in ("keep", "job"):  # marks all that is ours; `destroy` looks for it
            environment["HERMES_SPOOL"] = str(folder)
        start = ("start",) if detached else ()
        with (folder / "log").open("ab") as log:
            done = subprocess.run(
                [bash, "--noprofile", "--norc", self._script(), *start, mode, folder, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._workspace,
                env=environment,
                start_new_session=True,
                check=False,
            )
        if done.returncode == TOO_OLD:
            raise HermesError(f"{bash} is too old", "commands run in bash 5.0 or newer")

    def _script(self) -> Path:
        """A copy in the spool: the keeper may outlive this version of the package."""
        script = self._spool.folder / "keeper.sh"
        wanted = SCRIPT.read_bytes()
        if not script.exists() or script.read_bytes() != wanted:
            draft = script.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
            draft.write_bytes(wanted)
            draft.replace(script)
        return script

    def _find(self) -> _Link | None:
        folder = self._spool.folder
        numbers = [
            int(path.suffix[1:]) for path in folder.glob("keeper.*") if path.suffix[1:].isdigit()
        ]
        if not numbers:
            return None
        words = (folder / f"keeper.{max(numbers)}").read_text().split()
        if words[2:] != ["ready"]:
            return None
        if not process_lives(int(words[0]), words[1]) and not self._spine_lives():
            return None
        # Both ways, so that neither side ever sees the other's end as the end of the file.
        mode = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        into = os.open(folder / "in", mode)
        try:
            out = os.open(folder / "out", mode)
        except FileNotFoundError:
            os.close(into)
            raise
        return _Link(int(words[0]), words[1], into, out)

    def _spine_lives(self) -> bool:
        try:
            words = (self._spool.folder / "spine").read_text().split()
        except FileNotFoundError:
            return False
        return len(words) == 2 and process_lives(int(words[0]), words[1])

    @contextlib.contextmanager
    def _listening(self, id: str) -> Iterator[asyncio.Event]:
        # Only while someone waits: an idle terminal is tied to no event loop.
        heard = asyncio.Event()
        if not self._waiting and self._link is not None:
            asyncio.get_running_loop().add_reader(self._link.out, self._heard)
        self._waiting.setdefault(id, []).append(heard)
        try:
            yield heard
        finally:
            self._waiting[id].remove(heard)
            if not self._waiting[id]:
                del self._waiting[id]
            if not self._waiting and self._link is not None:
                asyncio.get_running_loop().remove_reader(self._link.out)

    def _heard(self) -> None:
        if self._link is None:
            return
        with contextlib.suppress(BlockingIOError):
            for line in os.read(self._link.out, 65536).decode().splitlines():
                for heard in self._waiting.get(line.partition(" ")[0], ()):
                    heard.set()
