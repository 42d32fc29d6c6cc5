"""What a terminal keeps of the output of commands, without secrets."""

import asyncio
from collections.abc import Callable

from hermes_agent.core.protocols import Terminal

ENDED = frozenset({"exited", "timeout", "stopped"})
REDACTED_BYTES = 16_000_000
"""More output than this is removed instead: to look for secrets in it would take seconds."""


async def redact_output(
    terminal: Terminal, spool: str, sizes: tuple[int, int], redact: Callable[[str], str]
) -> None:
    """Take secrets out of what is kept of an ended command's output."""
    for kind, size in zip("oe", sizes, strict=True):
        path = spool.removesuffix("o") + kind
        output, redacted = "", f"[{size:,} bytes of output were too much to save]\n"
        if size <= REDACTED_BYTES:
            output = (await terminal.read(path)).decode("utf-8", "replace")
            redacted = await asyncio.to_thread(redact, output)
        if redacted != output:
            await terminal.write(path, redacted.encode())
