"""Programs on the far side of a process here: `apptainer exec`, `nsenter` and alike."""

import asyncio

from hermes_agent.terminals.transport import ProcessResult

RELEASE_SECONDS = 2.0


async def run_to_end(
    process: asyncio.subprocess.Process, stdin: bytes, *, kill: bool = True
) -> ProcessResult:
    """Feed a process and collect what it says. When cancelled, it is killed or waited for."""
    try:
        stdout, stderr = await process.communicate(stdin)
    except asyncio.CancelledError:
        if kill:
            process.kill()
        await process.wait()
        raise
    code = process.returncode or 0
    return ProcessResult(code if code >= 0 else 128 - code, stdout, stderr)


class PipeStream:
    """The standard input and output of a process. It ends with the process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    async def write(self, data: bytes) -> None:
        if self.ended or self._input.is_closing():
            raise ConnectionError("the program has ended")
        self._input.write(data)
        await self._input.drain()

    async def read(self) -> bytes:
        return await self._output.read(65536)

    async def close(self) -> None:
        self._input.close()
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                while await self._output.read(65536):
                    pass
                await self._process.wait()
        except TimeoutError:
            await self.cut()

    async def cut(self) -> None:
        """End the process here."""
        self._input.close()
        if not self.ended:
            self._process.kill()
        await self._process.wait()
