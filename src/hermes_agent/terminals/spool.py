"""What is known of commands lies in files; this reads and writes them. `keeper.sh` names them."""

import os
import re
import threading
import time
from pathlib import Path
from typing import NamedTuple

from hermes_agent.core.errors import ToolError

UNNAMED_SECONDS = 5.0
_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def process_lives(pid: int, ticks: str) -> bool:
    """Whether that very process lives; a pid alone may belong to another by now."""
    try:
        stat = _bytes(f"/proc/{pid}/stat")
    except ProcessLookupError:
        return False
    if not stat:
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
        """Whether the process that runs it lives; given a moment where it is not named yet."""
        if not self.ticks:
            return time.time() - self.start < UNNAMED_SECONDS
        return process_lives(self.pid, self.ticks)


def _bytes(path: str) -> bytes | None:
    """A small file whole, or None. Every command reads a dozen of them, hence no layers."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        data = os.read(descriptor, 65536)
        while part := os.read(descriptor, 1_000_000) if len(data) >= 65536 else b"":
            data += part
        return data
    finally:
        os.close(descriptor)


CLAIM_LOOKS = 50
"""How often to look at a claim that is not whole before it counts as cut off."""


class Spool:
    """The folder as files. Everything here is quick."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._start = f"{folder}/"

    def path(self, id: str, kind: str) -> str:
        if not _ID.fullmatch(id):
            raise ToolError(
                f"{id!r} cannot be the id of a command",
                "ids are letters, digits, '-', '_' and '.', at most 200",
            )
        return f"{self._start}{id}.{kind}"

    def file(self, id: str, kind: str) -> Path:
        return Path(self.path(id, kind))

    def prepare(self) -> None:
        """Make the folder and note the boot it was made in, so that both outlast a power cut."""
        boot = self.folder / "boot"
        if boot.exists():
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.folder / f"boot.{os.getpid()}.{threading.get_ident()}"
        with draft.open("w") as file:
            file.write(boot_id())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(boot)  # whoever dies in between leaves no half of it
        for folder in (self.folder, self.folder.parent):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def same_boot(self) -> bool:
        """Whether all that ran here did so since the machine last started. Files of a command
        are not forced to the disk, so after a reboot a missing one proves nothing."""
        data = _bytes(f"{self._start}boot")
        return data is None or data.decode() == boot_id()

    def put_text(self, id: str, text: str) -> None:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise ToolError("the command is not valid text", "remove lone surrogates") from None
        if b"\0" in data:
            raise ToolError("the command contains a NUL byte", "bash cannot take one")
        path = self.file(id, "c")
        try:
            with path.open("xb", buffering=0) as file:
                file.write(data)
        except FileExistsError:
            # Whole already, or cut off when its writer died; a shell may be reading it.
            if path.read_bytes() != data:
                draft = self.file(id, "c.new")
                draft.write_bytes(data)
                draft.replace(path)

    def text(self, id: str) -> str | None:
        data = _bytes(self.path(id, "c"))
        return None if data is None else data.decode("utf-8", "replace")

    def claim(self, id: str) -> Claim | None:
        for _ in range(CLAIM_LOOKS):
            data = _bytes(self.path(id, "s"))
            if data is None:
                return None
            fields = data.decode().split()
            if len(fields) >= 4:
                break
            time.sleep(0.001)  # being written just now: made and filled by one `printf`
        else:  # cut off by a full disk, or its writer died
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
        data = _bytes(self.path(id, "r"))
        return int(data) if data else None

    def ended_at(self, id: str) -> float:
        return self.file(id, "r").stat().st_mtime

    def why(self, id: str) -> str | None:
        data = _bytes(self.path(id, "k"))
        return data.decode().strip() if data else None

    def now(self) -> str:
        """The command that the shell has in hand, or had last."""
        data = _bytes(f"{self._start}now") or b""
        return data.partition(b"\n")[0].decode()

    def background_ids(self) -> list[str]:
        return [path.name.removesuffix(".i") for path in self.folder.glob("*.i")]
