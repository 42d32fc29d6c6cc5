"""Reads documents in a separate process: one that hangs, bloats or crashes its reader affects
nothing else, and the readers' libraries are not loaded here."""

import asyncio
import os
import re
import sys
import time
from contextlib import suppress
from importlib import import_module

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import Retry, ToolError
from hermes_agent.tools.web.documents.extract import Extracted, declared, extract
from hermes_agent.tools.web.documents.types import HEAD, kind_of

SECONDS = 30.0
"""How long reading may take; at half time the reader returns what it has."""
MEMORY = 1_500_000_000
"""Bytes of address space for it."""
_KEPT = re.compile(r"PATH|HOME|TMPDIR|LANG|LC_\w+|TZ|PYTHONPATH|LD_LIBRARY_PATH")
"""Variables that are passed on: none of them holds a key."""


class _Order(Struct, frozen=True):
    reader: str
    arguments: tuple[str | int | float, ...]
    seconds: float


class _Answer(Struct, frozen=True, omit_defaults=True):
    made: Extracted | None = None
    error: str = ""
    hint: str = ""
    retry: Retry = ""


async def extract_apart(data: bytes, type: str, name: str, seconds: float = SECONDS) -> Extracted:
    """As `extract`, in another process."""
    if kind_of(type, name, data[:HEAD]) == "text" and _plain(data, type):
        return extract(data, type, name)
    return await read_apart("documents.extract:extract", data, name, type, name, seconds=seconds)


async def read_apart(
    reader: str, data: bytes, name: str, *arguments: str | int | float, seconds: float = SECONDS
) -> Extracted:
    """What a reader makes of `data`, in another process. It is `module:function` of this package's
    parent; it gets the arguments, and at last whether it has read enough."""
    order = msgspec.json.encode(_Order(reader, arguments, seconds))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "hermes_agent.tools.web.documents.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)},
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate(order + b"\n" + data)
    except TimeoutError:
        raise ToolError(
            f"{name!r} took longer than {seconds:.0f} s to read", retry="never"
        ) from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode or not said:
        raise ToolError(
            f"{name!r} cannot be read: its reader crashed", "it may be too large", "never"
        )
    answer = msgspec.json.decode(said, type=_Answer)
    if answer.made is None:
        raise ToolError(answer.error, answer.hint, answer.retry)
    return answer.made


def _plain(data: bytes, type: str) -> bool:
    """Whether this is text that needs no library to be understood."""
    if declared(data, type):
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _serve() -> None:
    """In the other process: an order on the first line, then the document."""
    import resource

    line = sys.stdin.buffer.readline()
    order = msgspec.json.decode(line, type=_Order)
    limit = int(order.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    half = time.monotonic() + order.seconds / 2
    try:
        module, _, function = order.reader.partition(":")
        read = getattr(import_module(f"hermes_agent.tools.web.{module}"), function)
        data = sys.stdin.buffer.read()
        answer = _Answer(read(data, *order.arguments, lambda: time.monotonic() > half))
    except ToolError as error:
        answer = _Answer(None, error.message, error.hint, error.retry)
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    _serve()
