"""The host's ends of a program's pipes, without blocking."""

import asyncio
import os

WHOLE_PIPE = 1 << 20
"""The most that a pipe holds, however it is set."""


class _End:
    def __init__(self, file: int) -> None:
        os.set_blocking(file, False)
        self._file: int | None = file
        self._waiting: asyncio.Future[None] | None = None

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            if self._waiting is not None:
                self._forget(file, self._waiting.get_loop())
                _settle(self._waiting)
            os.close(file)

    def _watch(self, file: int, ready: asyncio.Future[None]) -> None:
        raise NotImplementedError

    def _forget(self, file: int, loop: asyncio.AbstractEventLoop) -> None:
        raise NotImplementedError

    async def _wait(self, file: int) -> None:
        loop = asyncio.get_running_loop()
        ready = self._waiting = loop.create_future()
        self._watch(file, ready)
        try:
            await ready
        finally:
            self._waiting = None
            if self._file is not None and not loop.is_closed():
                self._forget(file, loop)


class ReadEnd(_End):
    def __init__(self, file: int) -> None:
        super().__init__(file)
        self._ended = False

    async def some(self) -> bytes:
        """What there is as soon as there is any; b"" at the end, or once closed."""
        while self._file is not None:
            try:
                return os.read(self._file, 65536)
            except BlockingIOError:
                if self._ended:
                    break
                await self._wait(self._file)
        return b""

    def end(self) -> None:
        """The program has ended, though something that it started may hold the pipe."""
        self._ended = True
        if self._waiting is not None:
            _settle(self._waiting)

    def rest(self) -> bytes:
        """What lies in the pipe now."""
        try:
            return os.read(self._file, WHOLE_PIPE) if self._file is not None else b""
        except BlockingIOError:
            return b""

    def _watch(self, file: int, ready: asyncio.Future[None]) -> None:
        ready.get_loop().add_reader(file, _settle, ready)

    def _forget(self, file: int, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(file)


class WriteEnd(_End):
    async def all(self, data: bytes) -> None:
        """Raises `ConnectionError` when nobody reads any more."""
        view = memoryview(data)
        while view:
            if self._file is None:
                raise ConnectionResetError("the program was let go")
            try:
                view = view[os.write(self._file, view) :]
            except BlockingIOError:
                await self._wait(self._file)

    def _watch(self, file: int, ready: asyncio.Future[None]) -> None:
        ready.get_loop().add_writer(file, _settle, ready)

    def _forget(self, file: int, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_writer(file)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
