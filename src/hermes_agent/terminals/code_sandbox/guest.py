"""The program inside a code sandbox: runs untrusted Python and passes its tool calls to the host.
Standard input and output are the connection to the host and are moved to other descriptors; what
the code prints goes to standard error. Run as a script by a bare Python: it imports only the
standard library."""

import builtins
import contextlib
import fcntl
import io
import json
import linecache
import os
import random
import resource
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

FRAME = struct.Struct("<I")
FRAME_BYTES = 4 << 20
TROUBLE_CHARS = 20_000
"""How much of the end of a traceback is reported."""
AT_ONCE = 16
"""Concurrent tool calls."""
OUT_OF_THE_WAY = 100
STACK_BYTES = 2 << 20
"""Of a thread. The usual eight megabytes would count as used memory."""
SPARE_MB = 32
"""Memory for reporting that there was none left."""
NAME = "<code>"


class Result(str):  # noqa: SLOT000 - a string cannot have slots that hold something
    """The text of a tool's result, with `ok` and `data`."""

    ok: bool
    data: dict[str, Any]

    def __new__(cls, text: str, ok: bool, data: dict[str, Any]) -> "Result":
        made = super().__new__(cls, text)
        made.ok = ok
        made.data = data
        return made


class ToolFailed(Exception):
    """A tool call failed; `result` is what it returned."""

    def __init__(self, tool: str, result: Result) -> None:
        super().__init__(f"{tool}: {result}")
        self.result = result


class HostConnection:
    """The connection to the host. Any thread may call."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._last = 0
        self._listening = False
        self._gone = ""
        os.register_at_fork(after_in_child=self._forget)

    def receive(self) -> dict[str, Any]:
        (size,) = FRAME.unpack(self._read(FRAME.size))
        message: dict[str, Any] = json.loads(self._read(size))
        return message

    def send(self, message: Mapping[str, Any]) -> None:
        """Raises `ValueError` for what JSON cannot carry, or what is too large."""
        body = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        if len(body) > FRAME_BYTES:
            raise ValueError(f"{len(body)} bytes are too many: the limit is {FRAME_BYTES}")
        view = memoryview(FRAME.pack(len(body)) + body)
        with self._sending:
            while view:
                view = view[os.write(self._sink, view) :]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Result:
        with self._changed:
            if self._gone:
                raise RuntimeError(self._gone)
            if not self._listening:
                threading.Thread(target=self._listen, daemon=True).start()
                self._listening = True
            self._last += 1
            number = self._last
        self.send({"type": "call", "id": number, "tool": tool, "arguments": arguments})
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers or self._gone)
            if number not in self._answers:
                raise RuntimeError(self._gone)
            answer = self._answers.pop(number)
        return Result(answer["text"], answer["ok"], answer["data"])

    def _listen(self) -> None:
        try:
            while True:
                answer = self.receive()
                with self._changed:
                    self._answers[answer["id"]] = answer
                    self._changed.notify_all()
        except (OSError, EOFError):
            with self._changed:
                self._gone = "the connection to the runtime is closed"
                self._changed.notify_all()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = os.read(self._source, size - len(data))
            if not more:
                raise EOFError
            data += more
        return bytes(data)

    def _forget(self) -> None:
        """Runs in a forked process: only its parent talks to the host."""
        for file in (self._source, self._sink):
            with contextlib.suppress(OSError):
                os.close(file)
        self._source = self._sink = -1
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._gone = "a forked process cannot call tools"


class ToolFunction:
    """A tool as a function, with named arguments; `check=False` returns a failure as a result."""

    def __init__(self, host: HostConnection, name: str) -> None:
        self.__name__ = name
        self._host = host

    def __call__(self, *positional: object, check: bool = True, **arguments: Any) -> Result:
        if positional:
            raise TypeError(f"{self.__name__} takes its arguments by name: {self.__name__}(name=…)")
        result = self._host.call(self.__name__, arguments)
        if check and not result.ok:
            raise ToolFailed(self.__name__, result)
        return result

    def __repr__(self) -> str:
        return f"<tool {self.__name__}>"


def parallel(
    calls: Iterable[tuple[Callable[..., Any], Mapping[str, Any]]], check: bool = True
) -> list[Any]:
    """Make calls at the same time, each a function and its arguments; results in their order.
    All are made, whether or not one fails."""
    from concurrent.futures import ThreadPoolExecutor

    wanted = list(calls)
    with ThreadPoolExecutor(max(1, min(len(wanted), AT_ONCE))) as pool:
        made = [pool.submit(function, **arguments) for function, arguments in wanted]
    results: list[Any] = []
    for future in made:
        try:
            results.append(future.result())
        except ToolFailed as failed:
            if check:
                raise
            results.append(failed.result)
    return results


def offer(host: HostConnection, names: Iterable[str]) -> dict[str, Any]:
    """The module `hermes`; gives the names that the code has from the start."""
    module = ModuleType("hermes", "The tools of the agent, as functions.")
    functions: dict[str, Any] = {name: ToolFunction(host, name) for name in names}

    def missing(name: str) -> Any:
        there = ", ".join(functions) or "none"
        raise AttributeError(f"no tool called {name!r}; available: {there}")

    module.__dict__.update(functions, Result=Result, ToolFailed=ToolFailed, parallel=parallel)
    module.__dict__["__getattr__"] = missing
    for offered in (Result, ToolFailed, parallel):
        offered.__module__ = "hermes"
    sys.modules["hermes"] = module
    return {**functions, "hermes": module}


def perform(job: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Run the code, and the function if one is named. Returns how it ended."""
    function = job["function"]
    module = ModuleType("tool" if function else "__main__")
    sys.modules[module.__name__] = module
    module.__dict__.update(given)
    source = job["source"]
    linecache.cache[NAME] = (len(source), None, source.splitlines(keepends=True), NAME)
    try:
        exec(compile(source, NAME, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
        return {"ok": True, "value": run(module, function, job["arguments"]) if function else None}
    except SystemExit as left:
        if left.code is None or left.code == 0:
            return {"ok": True}
        return {"ok": False, "trouble": f"it exited with {left.code!r}"[:TROUBLE_CHARS]}
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is told
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        return {"ok": False, "trouble": story(error), "limit": limit_behind(error)}


def run(module: ModuleType, function: str, arguments: Mapping[str, Any]) -> Any:
    called = getattr(module, function, None)
    if called is None:
        raise NameError(f"the code has no function called {function!r}")
    value = called(**arguments)
    if hasattr(value, "__await__"):
        import asyncio

        value = asyncio.run(value)
    try:
        if len(json.dumps(value, allow_nan=False)) > FRAME_BYTES // 2:
            raise ValueError("it is too large")
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"what {function} returned cannot be sent as JSON: {error}") from None
    return value


def story(error: BaseException) -> str:
    """The traceback, without the frames of this file."""
    import traceback

    whole = traceback.TracebackException.from_exception(error)
    waiting: list[traceback.TracebackException | None] = [whole]
    while waiting:
        if part := waiting.pop():
            part.stack[:] = [frame for frame in part.stack if frame.filename != __file__]
            waiting += [part.__cause__, part.__context__, *(part.exceptions or ())]
    return "".join(whole.format())[-TROUBLE_CHARS:]


def limit_behind(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "memory"
    full = isinstance(error, RuntimeError) and "can't start new thread" in str(error)
    return "processes" if full or isinstance(error, BlockingIOError) else ""


def confine(memory_mb: int, scratch_mb: int) -> None:
    """Limits of each process, beside those for all of them together."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mb << 20, memory_mb + SPARE_MB << 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (scratch_mb << 20, scratch_mb << 20))
    threading.stack_size(STACK_BYTES)


def main() -> None:
    source, sink = (fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) for file in (0, 1))
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    host = HostConnection(source, sink)
    job = host.receive()
    sys.path += job["packages"]
    sys.argv = [NAME]
    random.seed(job["seed"])  # run again after a crash, it makes the same choices
    builtins.__dict__.update(exit=sys.exit, quit=sys.exit)
    confine(job["memory_mb"], job["scratch_mb"])
    ended = perform(job, offer(host, job["tools"]))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the code may have closed it
            stream.flush()
    with contextlib.suppress(OSError):  # or the way to the host
        host.send({"type": "end", **ended})


if __name__ == "__main__":
    main()
