"""What the fakes of sandbox services share: real processes with real files in a folder of their
own, and a server in a thread."""

import asyncio
import os
import shutil
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import uvicorn
from starlette.types import ASGIApp

from tests.support.patience import PATIENCE

T = TypeVar("T")


class Program:
    """A process in a box. What it writes is handed on as it comes, and kept."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.pid = process.pid
        self.out, self.err = bytearray(), bytearray()
        self.news = asyncio.Condition()
        self.code: int | None = None
        self.watch = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        stdout, stderr = self.process.stdout, self.process.stderr
        assert stdout is not None
        assert stderr is not None
        await asyncio.gather(self._read(stdout, self.out), self._read(stderr, self.err))
        code = await self.process.wait()
        async with self.news:
            self.code = code
            self.news.notify_all()

    async def _read(self, stream: asyncio.StreamReader, kept: bytearray) -> None:
        while piece := await stream.read(65536):
            async with self.news:
                kept += piece
                self.news.notify_all()

    async def wait(self, ready: Callable[[], bool]) -> None:
        async with self.news:
            await self.news.wait_for(ready)

    async def pieces(self, kept: bytearray, at: int) -> AsyncIterator[bytes]:
        """What it has written and writes yet, from a place on."""
        while True:
            known = at
            await self.wait(lambda: len(kept) > known or self.code is not None)  # noqa: B023
            if not (piece := bytes(kept[at : at + 65536])):
                return
            at += len(piece)
            yield piece

    async def end(self) -> int:
        await self.wait(lambda: self.code is not None)
        assert self.code is not None
        return self.code

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


class Box:
    """A sandbox: a home and a workspace on the disk, and the processes that carry its mark."""

    def __init__(self, id: str, folder: Path) -> None:
        self.id, self.folder = id, folder
        self.home, self.temporary = folder / "home", folder / "tmp"
        for part in (self.home, self.temporary, folder / "work"):
            part.mkdir(parents=True, exist_ok=True)
        self.path = os.environ["PATH"]
        self.programs: dict[int, Program] = {}

    async def start(self, *argv: str, stdin: bool) -> Program:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.home,
            env={
                "PATH": self.path,
                "HOME": str(self.home),
                "TMPDIR": str(self.temporary),
                "USER": "user",
                "LANG": "C.UTF-8",
                "FAKE_BOX": str(self.folder),  # ids are the same in every process of the tests
            },
            start_new_session=True,
        )
        program = self.programs[process.pid] = Program(process)
        return program

    def _marked(self) -> Iterator[int]:
        mark = f"FAKE_BOX={self.folder}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        yield int(entry.name)

    def signal(self, number: int) -> bool:
        """To all that runs in the box; whether anything does."""
        found = False
        for pid in self._marked():
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                found = True
        return found

    async def kill(self) -> None:
        """End all that runs there, also what is born meanwhile."""
        while self.signal(signal.SIGKILL):
            await asyncio.sleep(0.01)
        await asyncio.gather(*(program.watch for program in self.programs.values()))
        self.programs.clear()

    async def remove(self) -> None:
        await self.kill()
        shutil.rmtree(self.folder)


B = TypeVar("B", bound=Box)


class Service(Generic[B]):
    """A fake service: a thread with a loop of its own, on a port of this machine."""

    def __init__(self, disk: Path) -> None:
        self.disk = disk
        self.boxes: dict[str, B] = {}
        self.calls: list[str] = []
        """What was asked for, in order: the name of the request and the box."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def workspace(self, name: str) -> str:
        """Where a box of that name has room to work."""
        return str(self.disk / name / "work")

    @property
    def box(self) -> B:
        """The only one there is."""
        (box,) = self.boxes.values()
        return box

    def counted(self, what: str) -> int:
        return sum(call.split()[0] == what for call in self.calls)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the service's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def open(self) -> None:
        raise NotImplementedError

    async def shut(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        self.do(self.open())
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def clear(self) -> None:
        """As if nobody had ever asked for anything."""
        while self.boxes:
            await self.boxes.popitem()[1].remove()
        self.calls.clear()

    async def _end(self) -> None:
        await self.clear()
        await self.shut()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)  # closed connections are let go of in the rounds that follow
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()


class HttpService(Service[B]):
    """A service that speaks HTTP."""

    _server: uvicorn.Server
    _serving: asyncio.Task[None]
    url = ""

    def app(self) -> ASGIApp:
        raise NotImplementedError

    async def open(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(self.app(), log_level="critical", ws="none", lifespan="off")
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server._serve([listener]))
        while not self._server.started:
            await asyncio.sleep(0.005)

    async def shut(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self.cut()
        await self._serving

    def cut(self) -> None:
        """Drop all connections."""
        connections: Any = list(self._server.server_state.connections)
        for connection in connections:
            connection.transport.abort()
