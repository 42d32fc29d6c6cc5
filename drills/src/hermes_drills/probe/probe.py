"""What is true of a box, seen from outside by programs that nobody in it can touch."""

import contextlib
import marshal
import os
import secrets
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes_drills.box.box import PYTHON, Box, Ran
from hermes_drills.errors import DrillError

HERE = Path(__file__).parent
LIMIT = 26
"""Where the figures begin in /proc/PID/limits."""
LIMITS = {
    "Max open files": "nofile", "Max address space": "as", "Max data size": "data",
    "Max processes": "nproc", "Max file size": "fsize",
}  # fmt: skip
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


class Reply(Struct, frozen=True):
    """`status` is 0 and `error` says why where nothing answered."""

    status: int
    body: bytes = b""
    seconds: float = 0.0
    error: str = ""

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class Stat(Struct, frozen=True):
    mode: int
    size: int
    mtime: float
    kind: str
    """`file`, `folder`, `link` or `other`."""
    link: str = ""


class Space(Struct, frozen=True):
    total: int
    free: int
    inodes: int
    inodes_free: int


class Process(Struct, frozen=True):
    pid: int
    """As this machine counts."""
    inner: int
    """As the box counts."""
    parent: int
    """As this machine counts."""
    name: str
    command: str
    cpu_seconds: float
    rss_kb: int
    state: str
    descriptors: int
    started: float
    """Seconds since the machine began."""


class Probe:
    """Made while the box is well and held until the end: whatever is done to the box's network
    names later, it looks where it looked before."""

    def __init__(self, box: Box) -> None:
        self._pid = box.pid
        self._pids = _namespace(self._pid)
        self._kept: dict[int, dict[str, str]] = {}
        self._looker = _Looker(self._pid)

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._looker.close()

    # --- what its users see

    def http(
        self,
        port: int,
        path: str = "/",
        method: str = "GET",
        body: bytes = b"",
        *,
        timeout: float = 2.0,
        address: str = "127.0.0.1",
        headers: Mapping[str, str] | None = None,
        ca: str | None = None,
        name: str = "localhost",
    ) -> Reply:
        """With `ca`, over TLS, and only that authority is believed."""
        said = self._looker.ask(
            "http", port=port, path=path, method=method, body=body, timeout=timeout,
            address=address, headers=dict(headers or {}), ca=ca, name=name,
        )  # fmt: skip
        return Reply(**said)

    def keeps(self, port: int, **how: Any) -> str:
        """Why a service of ours does not keep what it is given; empty when it does, and still has
        all that it was given before."""
        kept = self._kept.setdefault(port, {})
        key, value = secrets.token_hex(8), secrets.token_hex(16)
        put = self.http(port, f"/items/{key}", "PUT", value.encode(), **how)
        if put.status not in (200, 201, 204):
            return f"a write to port {port} failed: {put.error or f'{put.status} {put.text[:80]}'}"
        for known, wanted in {**kept, key: value}.items():
            got = self.http(port, f"/items/{known}", **how)
            if got.status != 200 or got.text.strip() != wanted:
                return f"port {port} lost stored data: {got.error or got.status}"
        if self.http(port, f"/items/{secrets.token_hex(8)}", **how).status != 404:
            return f"port {port} returns data that was never stored"
        kept[key] = value
        return ""

    def tcp(self, port: int, address: str = "127.0.0.1", timeout: float = 1.5) -> bool:
        return bool(self._looker.ask("tcp", port=port, address=address, timeout=timeout))

    def run(
        self,
        argv: Sequence[str],
        input: bytes = b"",
        timeout: float = 10.0,
        environment: Mapping[str, str] | None = None,
    ) -> Ran:
        """A program of this machine, in the box's network."""
        done = self._looker.ask(
            "run", argv=list(argv), input=input, timeout=timeout,
            environment=dict(environment or {}),
        )  # fmt: skip
        return Ran(**done)

    # --- its files

    def read(self, path: str) -> bytes | None:
        data: bytes | None = self._looker.ask("read", path=path)
        return data

    def text(self, path: str) -> str:
        """Empty where there is no such file."""
        return (self.read(path) or b"").decode("utf-8", "replace")

    def stat(self, path: str) -> Stat | None:
        """Of the file itself, not of what it links to."""
        facts = self._looker.ask("stat", path=path)
        return None if facts is None else Stat(**facts)

    def names(self, path: str) -> list[str]:
        return [str(name) for name in self._looker.ask("names", path=path)]

    def sha256(self, path: str) -> str:
        """Empty where there is no such file."""
        return str(self._looker.ask("sha256", path=path))

    def tree(self, path: str) -> dict[str, str]:
        """All files below a folder and their hashes."""
        found: dict[str, str] = {}
        for name in self.names(path):
            inner = f"{path.rstrip('/')}/{name}"
            facts = self.stat(inner)
            if facts and facts.kind == "folder":
                found |= self.tree(inner)
            elif facts and facts.kind == "file":
                found[inner] = self.sha256(inner)
        return found

    def space(self, path: str) -> Space:
        return Space(*self._looker.ask("space", path=path))

    # --- its processes

    def processes(self) -> list[Process]:
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and _namespace(int(folder.name)) == self._pids:
                with contextlib.suppress(OSError, IndexError, ValueError):  # it has just ended
                    found.append(_process(int(folder.name)))
        return sorted(found, key=lambda process: process.inner)

    def cpu(self, seconds: float = 0.5) -> float:
        """The share of one processor that the box uses."""
        before = {process.pid: process.cpu_seconds for process in self.processes()}
        began = time.monotonic()
        time.sleep(seconds)
        after = self.processes()
        used = sum(one.cpu_seconds - before.get(one.pid, 0.0) for one in after)
        return used / (time.monotonic() - began)

    def limits(self, pid: int) -> dict[str, tuple[int, int]]:
        """Soft and hard limits of a process, -1 for none; empty where it has just ended."""
        found, text = {}, ""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            text = Path(f"/proc/{pid}/limits").read_text()
        for line in text.splitlines():
            if line[:LIMIT].strip() in LIMITS:
                soft, hard = (
                    -1 if one == "unlimited" else int(one) for one in line[LIMIT:].split()[:2]
                )
                found[LIMITS[line[:LIMIT].strip()]] = soft, hard
        return found


class _Looker:
    """The process that has joined the box's network."""

    def __init__(self, pid: int) -> None:
        self._process = subprocess.Popen(
            [PYTHON, "-I", "-S", str(HERE / "program.py"), str(pid)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", start_new_session=True,
        )  # fmt: skip
        self._answer()

    def ask(self, op: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(marshal.dumps({"op": op, **arguments}))
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        try:
            return marshal.load(self._process.stdout)
        except EOFError:
            raise DrillError(
                "the box cannot be inspected from outside", "run the drill again"
            ) from None

    def close(self) -> None:
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()
        self._process.kill()
        self._process.wait()


def _namespace(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:  # gone, or somebody else's
        return 0


def _process(pid: int) -> Process:
    folder = Path(f"/proc/{pid}")
    name, _, rest = folder.joinpath("stat").read_text(errors="replace").rpartition(")")
    fields = rest.split()
    status = folder.joinpath("status").read_text(errors="replace")
    inner = status.partition("NSpid:")[2].splitlines()[0].split()[-1]
    words = folder.joinpath("cmdline").read_bytes().split(b"\0")
    return Process(
        pid=pid,
        inner=int(inner),
        parent=int(fields[1]),
        name=name.partition("(")[2],
        command=b" ".join(words).decode("utf-8", "replace").strip(),
        cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS,
        rss_kb=int(fields[21]) * PAGE_KB,
        state=fields[0],
        descriptors=len(list((folder / "fd").iterdir())),
        started=int(fields[19]) / TICKS,
    )
