"""The host's side of an untrusted program: what it sends is bounded and validated."""

import asyncio
import codecs
import contextlib
import io
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult, failed, failure
from hermes_agent.core.tools import Call, SandboxLimits
from hermes_agent.terminals.code_sandbox.guest import AT_ONCE, FRAME, FRAME_BYTES
from hermes_agent.terminals.sandbox.process import SandboxProcess

GRACE_SECONDS = 1.0
"""Between closing its connection to the host and its exit."""
SHORT_CHARS = FRAME_BYTES // 8
"""How much is passed on of an answer that is too large; a character may take six bytes."""


class ToolCallRequest(Struct, frozen=True, tag="call", tag_field="type"):
    id: Annotated[int, Meta(ge=0, lt=1 << 53)]
    tool: str
    arguments: dict[str, Any]


class Ended(Struct, frozen=True, tag="end", tag_field="type"):
    ok: bool
    value: Any = None
    trouble: str = ""
    limit: Literal["", "memory", "processes"] = ""


_decoder = msgspec.json.Decoder(ToolCallRequest | Ended)


class SandboxConnection:
    """One program's calls, output and end."""

    def __init__(
        self,
        program: SandboxProcess,
        tools: Sequence[str],
        call: Call | None,
        limits: SandboxLimits,
        output: Callable[[str], None] | None,
    ) -> None:
        self.ended: Ended | None = None
        self.code: int | None = None
        """The program's exit code, when it exited."""
        self.cut = False
        """It printed more than the limit."""
        self.refused = False
        """It made more calls than the limit."""
        self.stopped: tuple[str, str] = ("", "")
        """The limit it was stopped for, and why."""
        self._program = program
        self._tools = tuple(tools)
        self._call = call
        self._limits = limits
        self._output = output
        self._printed = io.StringIO()
        self._room = limits.output_bytes
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._over = asyncio.Event()
        self._clock: asyncio.Timeout | None = None
        self._left = 0.0
        """Seconds left when it began to wait for tools."""
        self._calls = 0
        self._out = 0
        """Calls in progress."""
        self._free = asyncio.Semaphore(AT_ONCE)
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._trouble: BaseException | None = None

    @property
    def output(self) -> str:
        return self._printed.getvalue()

    async def follow(self, job: Mapping[str, Any], watch: Coroutine[Any, Any, None]) -> None:
        """Send the program its job and return when it has ended, or must. Time spent waiting for
        tools does not count: they have their own limits, and people may be asked."""
        for part in (self._give(job), self._listen(), self._collect(), self._wait(), watch):
            self._begin(part)
        try:
            async with asyncio.timeout(self._limits.seconds) as self._clock:
                await self._over.wait()
        except TimeoutError:
            self.stop("time", f"it ran longer than {self._limits.seconds:g} s")
        finally:
            self._clock = None

    async def lasts(self, seconds: float) -> bool:
        """Whether it is still running after so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return True
        return False

    def stop(self, limit: str, what: str) -> None:
        if not self._over.is_set():
            self.stopped = (limit, what)
            self._over.set()

    async def settle(self) -> None:
        """When the sandbox is gone: read what it sent last and let calls in progress finish.
        Raises what went wrong on this side."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._trouble is not None:
            raise self._trouble

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._program.close()

    def _begin(self, part: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(part)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._trouble = self._trouble or error
            self._over.set()

    async def _give(self, job: Mapping[str, Any]) -> None:
        await self._write(msgspec.json.encode(job))

    async def _wait(self) -> None:
        with contextlib.suppress(ConnectionError):  # the sandbox died with it
            self.code = await self._program.code()
        self._over.set()

    async def _collect(self) -> None:
        while data := await self._program.err.some():
            self.cut = self.cut or len(data) > self._room
            if text := self._text.decode(data[: self._room]):
                self._printed.write(text)
                if self._output is not None:
                    self._output(text)
            self._room -= min(len(data), self._room)
            await asyncio.sleep(0)  # let others run, however much it prints

    async def _listen(self) -> None:
        heard = bytearray()
        while data := await self._program.out.some():
            heard += data
            while len(heard) >= FRAME.size:
                size = FRAME.unpack_from(heard)[0]
                if size > FRAME_BYTES:
                    return self._nonsense()
                if len(heard) < FRAME.size + size:
                    break
                frame = bytes(heard[FRAME.size : FRAME.size + size])
                del heard[: FRAME.size + size]
                if not await self._hear(frame):
                    return self._nonsense()
        if self.ended is None and await self.lasts(GRACE_SECONDS):
            self.stop("died", "it closed its connection to the runtime")
        return None

    def _nonsense(self) -> None:
        self.stop("died", "it sent the runtime an invalid message")

    async def _hear(self, frame: bytes) -> bool:
        """False for an invalid message."""
        try:
            message = _decoder.decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        if isinstance(message, Ended):
            self.ended = self.ended or message
        else:
            # Stop reading at the limit of concurrent calls, so that nothing piles up here.
            await self._free.acquire()
            if self._over.is_set():
                self._free.release()
            else:
                self._begin(self._serve(message))
        return True

    async def _serve(self, called: ToolCallRequest) -> None:
        try:
            result = await self._result(called)
            answer = {"id": called.id, "text": result.text, "ok": result.ok, "data": result.data}
            data = msgspec.json.encode(answer)
            if len(data) > FRAME_BYTES:
                text = f"{result.text[:SHORT_CHARS]}\n[cut: the result is too large]"
                data = msgspec.json.encode({**answer, "text": text, "data": {}})
            await self._write(data)
        finally:
            self._free.release()

    async def _result(self, called: ToolCallRequest) -> ToolResult:
        if called.tool not in self._tools or self._call is None:
            there = ", ".join(self._tools) or "none"
            return failure(f"no tool called {called.tool!r}", f"available: {there}", "changed")
        if self._calls >= self._limits.calls:
            self.refused = True
            return failure(f"more than {self._limits.calls} calls cannot be made", retry="never")
        self._calls += 1
        self._pause()
        try:
            return await self._call(called.tool, called.arguments)
        except ToolError as error:
            return failed(error)
        finally:
            self._resume()

    def _pause(self) -> None:
        self._out += 1
        if self._out == 1 and self._clock is not None and not self._clock.expired():
            self._left = (self._clock.when() or 0.0) - asyncio.get_running_loop().time()
            self._clock.reschedule(None)

    def _resume(self) -> None:
        self._out -= 1
        if self._out == 0 and self._clock is not None and not self._clock.expired():
            self._clock.reschedule(asyncio.get_running_loop().time() + self._left)

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            with contextlib.suppress(ConnectionError):  # it does not listen any more
                await self._program.into.all(FRAME.pack(len(data)) + data)
