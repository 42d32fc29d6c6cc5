"""A far program behind the pipes of a process that stands for it here."""

import asyncio

LETTING_GO_SECONDS = 2.0


class PipeStream:
    """It is gone when the process is."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout

    @property
    def over(self) -> bool:
        return self._process.returncode is not None

    async def write(self, data: bytes) -> None:
        if self.over or self._input.is_closing():
            raise ConnectionError("the program has ended")
        self._input.write(data)
        await self._input.drain()

    async def read(self) -> bytes:
        return await self._output.read(65536)

    async def close(self) -> None:
        self._input.close()
        try:
            async with asyncio.timeout(LETTING_GO_SECONDS):
                while await self._output.read(65536):
                    pass
                await self._process.wait()
        except TimeoutError:
            await self.cut()

    async def cut(self) -> None:
        """End what stands for the program here."""
        self._input.close()
        if not self.over:
            self._process.kill()
        await self._process.wait()
