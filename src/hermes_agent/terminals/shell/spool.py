"""Reads and writes the files of commands. `daemon.sh` describes them."""

import errno
import os
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hermes_agent.core.errors import ToolError
from hermes_agent.core.files import sync_folder
from hermes_agent.core.protocols import ShellCommand

UNNAMED_SECONDS = 5.0
LEAST_ROOM = 65536
"""Bytes that must be free before a command starts, so that its end can be recorded."""
KINDS = ("c", "o", "e", "f", "i", "k", "r", "s", "v")
PRIVATE = "private"
"""The folder with what confined commands do not see: FIFOs and secrets."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_id(id: str) -> None:
    if not _ID.fullmatch(id):
        raise ToolError(
            f"{id!r} is not a valid command id",
            "ids are letters, digits, '-', '_' and '.', at most 200",
        )


def check_command(command: ShellCommand) -> None:
    """Refuse what a shell cannot take."""
    check_id(command.id)
    try:
        command.text.encode()
    except UnicodeEncodeError:
        raise ToolError("the command is not valid text", "remove lone surrogates") from None
    if "\0" in command.text:
        raise ToolError("the command contains a NUL byte", "bash does not accept one")
    for name, value in command.secrets.items():
        if not _NAME.fullmatch(name) or name.startswith("__hermes") or "\0" in value:
            raise ToolError(
                f"{name!r} is not a valid variable name", "names are letters, digits and '_'"
            )


def encode_variables(secrets: dict[str, str]) -> bytes:
    """Variables as the shell reads them: NAME=VALUE, each ended by a NUL."""
    lines = (f"{name}={value}\0" for name, value in secrets.items())
    return "".join(lines).encode("utf-8", "surrogateescape")


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def started_at(pid: int) -> str:
    """When a process began, which tells it from a later one with the same pid; "" if it is gone."""
    try:
        stat = _bytes(f"/proc/{pid}/stat")
    except ProcessLookupError:
        return ""
    fields = (stat or b"").rpartition(b") ")[2].split()
    return fields[19].decode() if fields and fields[0] not in (b"Z", b"X") else ""


def process_lives(pid: int, ticks: str) -> bool:
    """Whether that very process lives; a pid alone may belong to another by now."""
    return bool(ticks) and started_at(pid) == ticks


class Claim(NamedTuple):
    """Who claimed a command, and when. `kind` is fg, bg, or void: it must not run."""

    start: float
    kind: str
    pid: int
    ticks: str

    @property
    def held(self) -> bool:
        """Whether the process that runs it lives; true for a moment while it is not named yet."""
        if not self.ticks:
            return time.time() - self.start < UNNAMED_SECONDS
        return process_lives(self.pid, self.ticks)


def _bytes(path: str) -> bytes | None:
    """A whole small file, or None. Fast: every command reads a dozen of them."""
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


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - as above
    except FileNotFoundError:
        return None


CLAIM_LOOKS = 50
"""How often to reread an incomplete claim before it counts as cut off."""


class Spool:
    """The folder with the files of commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._start = f"{folder}/"

    def path(self, id: str, kind: str) -> str:
        return f"{self._start}{PRIVATE + '/' if kind in 'iv' else ''}{id}.{kind}"

    def file(self, id: str, kind: str) -> Path:
        return Path(self.path(id, kind))

    def prepare(self) -> None:
        """Create the folder and record the boot id durably."""
        boot, private = self.folder / "boot", self.folder / PRIVATE
        if private.is_dir() and boot.exists():
            return
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        if boot.exists():
            return
        draft = self.folder / f"boot.{os.getpid()}.{threading.get_ident()}"
        with draft.open("w") as file:
            file.write(boot_id())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(boot)  # a crash leaves no half of it
        sync_folder(self.folder)
        sync_folder(self.folder.parent)

    def check_room(self) -> None:
        """Refuse to start a command when the disk is full."""
        disk = os.statvfs(self.folder)
        blocks = disk.f_bavail if os.geteuid() else disk.f_bfree
        if blocks * disk.f_frsize < LEAST_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))

    def same_boot(self) -> bool:
        """Whether everything here ran since the last boot. A command's files are not synced to
        disk, so after a reboot a missing one proves nothing."""
        data = _bytes(f"{self._start}boot")
        return data is None or data.decode() == boot_id()

    def put_text(self, id: str, text: str) -> None:
        data, path = text.encode(), self.file(id, "c")
        try:
            with path.open("xb", buffering=0) as file:
                file.write(data)
        except FileExistsError:
            # Complete, or cut off when its writer died; a shell may be reading it.
            if path.read_bytes() != data:
                draft = self.file(id, "c.new")
                draft.write_bytes(data)
                draft.replace(path)

    def put_secrets(self, id: str, secrets: dict[str, str]) -> None:
        """Write the secrets of a command; its shell removes the file before it runs it."""
        path = self.path(id, "v")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(encode_variables(secrets))

    def put_confinement(self, id: str, before: str, files: Mapping[str, bytes]) -> None:
        """Have a command run in a view: behind these words, which get these files."""
        for name, data in files.items():
            if _bytes(f"{self._start}{name}") != data:
                draft = self.folder / f"{name}.{os.getpid()}.{threading.get_ident()}"
                draft.write_bytes(data)
                draft.replace(self.folder / name)
        self.file(id, "f").write_text(before, "utf-8")

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
        """Claim it so that it never runs. False: it was already claimed."""
        try:
            with self.file(id, "s").open("x") as file:
                file.write(f"{time.time()} void 0 0\n")
        except FileExistsError:
            return False
        return True

    def revive(self, id: str) -> None:
        """Withdraw a void claim: the command is to run after all."""
        claim = self.claim(id)
        if claim is not None and claim.kind == "void":
            self.file(id, "s").unlink()

    def end(self, id: str) -> tuple[int, float] | None:
        """The exit code and the time."""
        data = _bytes(self.path(id, "r"))
        if not data:
            return None
        words = data.split()
        if len(words) > 1:
            return int(words[0]), float(words[1])
        return int(words[0]), self.file(id, "r").stat().st_mtime  # by an earlier daemon

    def size(self, id: str) -> int:
        """Bytes of output so far."""
        return sum(_size(self.path(id, kind)) or 0 for kind in ("o", "e"))

    def has(self, id: str, kind: str) -> bool:
        return _size(self.path(id, kind)) is not None

    def why(self, id: str) -> str:
        data = _bytes(self.path(id, "k"))
        return data.decode().strip() if data else ""

    def now(self) -> str:
        """The command that the shell runs, or ran last."""
        data = _bytes(f"{self._start}now") or b""
        return data.partition(b"\n")[0].decode()

    def background_ids(self) -> list[str]:
        return [path.name.removesuffix(".i") for path in (self.folder / PRIVATE).glob("*.i")]
