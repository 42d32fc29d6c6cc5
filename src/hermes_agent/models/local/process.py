"""The process of a local model, as the runtime sees it."""

import asyncio
import os
import re
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.models.local.grammar import refused_tool

LINE_BYTES = 1024 * 1024
END_SECONDS = 5.0
"""How long a process may take to end before it is killed."""
KEPT = re.compile(
    r"PATH|HOME|TMPDIR|LANG|LC_\w+|TZ|PYTHONPATH|LD_LIBRARY_PATH|(GGML|LLAMA|CUDA|HIP|ROCR)_\w+"
)
"""The environment variables that it gets: none of them holds a key."""


class _InputDetails(Struct, frozen=True):
    cached_tokens: int = 0


class Used(Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _InputDetails = _InputDetails()


class WorkerDone(Struct, frozen=True):
    finish: str
    usage: Used


class WorkerTrouble(Struct, frozen=True):
    message: str = ""
    type: str = ""
    code: int = 500


class WorkerLine(Struct, frozen=True):
    """A line from the process; see `local.worker`."""

    ready: bool = False
    failed: str = ""
    id: int = 0
    text: str = ""
    done: WorkerDone | None = None
    error: WorkerTrouble | None = None


_line = msgspec.json.Decoder(WorkerLine)


class Child:
    """One process. It lives until its standard input is closed, at the latest when we end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._left = False
        self._errors: deque[str] = deque(maxlen=20)
        self._hearing = asyncio.create_task(self._hear())
        self.ready = False
        self.refused: tuple[int, str] | None = None
        """The tool of the last request whose schema the library refused, and why."""

    @classmethod
    async def start(cls, path: Path, context: int, environ: Mapping[str, str]) -> "Child":
        threads = max(1, (os.cpu_count() or 1) // 2)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "hermes_agent.models.local.worker",
            str(path.absolute()), str(context), str(threads),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            env={name: value for name, value in environ.items() if KEPT.fullmatch(name)},
            start_new_session=True,  # no Ctrl-C from our terminal
        )  # fmt: skip
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def usable(self) -> bool:
        return not self._left and self._process.returncode is None

    async def ask(self, id: int, body: Mapping[str, Any]) -> None:
        """Send a request. If that fails, reading the answer reports it."""
        self.refused = None
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(ConnectionError):
            stdin.write(msgspec.json.encode({"id": id, "body": body}) + b"\n")
            await stdin.drain()

    def stop(self, id: int) -> None:
        """Cancel a request."""
        stdin = self._process.stdin
        assert stdin is not None
        if not stdin.is_closing():
            stdin.write(msgspec.json.encode({"stop": id}) + b"\n")

    async def receive(self, name: str, silence: float) -> WorkerLine:
        """The next line that it writes."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(silence):
                said = await stdout.readline()
        except TimeoutError:
            await self.end(0.0)
            raise ModelError("timeout", f"{name} did not respond for {silence:g} seconds") from None
        if not said.endswith(b"\n"):
            await self.end()
            raise ModelError(
                "broken_stream",
                f"the process of {name} ended{self._how()}",
                "the next call starts a new one",
            )
        return _line.decode(said)

    def leave(self) -> None:
        """Close its input, so that it ends by itself."""
        self._left = True
        stdin = self._process.stdin
        assert stdin is not None
        stdin.close()

    async def end(self, patience: float = END_SECONDS) -> None:
        self.leave()
        try:
            async with asyncio.timeout(patience):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await self._hearing

    def first_error(self) -> str:
        """The library's first error, or the last line that the process logged."""
        said = [line.partition(" E ")[2] for line in self._errors if " E " in line]
        said = said or list(self._errors)[-1:]
        return " ".join(said[0].split()) if said else ""

    def _how(self) -> str:
        code = self._process.returncode or 0
        why = self.first_error()
        return (f" by signal {-code}" if code < 0 else "") + (f": {why}" if why else "")

    async def _hear(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with suppress(ValueError):  # an overlong line
            async for line in stderr:
                text = line.decode(errors="replace").strip()
                self._errors.append(text)
                self.refused = refused_tool(text) or self.refused
