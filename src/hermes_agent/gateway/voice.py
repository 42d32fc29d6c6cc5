"""Voice memos as text, by a model on this machine. It works in a process of its own: what it needs
is given back when it is done, and a memo that breaks it breaks nothing else."""

import asyncio
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.messages import Media

if TYPE_CHECKING:
    from hermes_agent.runtime.runtime import Runtime

TINY = "local/tiny"
"""English; its weights come with the package."""
PACKAGES = ("moonshine_voice", "soundfile")
SECONDS = 300.0
MOST_BYTES = 20_000_000


async def transcribe(runtime: "Runtime", memo: Media) -> str:
    """What is said in it; empty when nothing is."""
    chosen = runtime.settings.gateway.voice
    if chosen != TINY:
        raise UsageError(f"no model {chosen!r} for voice memos", f"gateway.voice: {TINY}")
    if any(find_spec(package) is None for package in PACKAGES):
        raise UsageError("voice memos need a package", "pip install 'hermes-agent[voice]'")
    if len(memo.data) > MOST_BYTES:
        raise HermesError(f"the memo has more than {MOST_BYTES // 1_000_000} MB")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hermes_agent.gateway.hearing",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate(memo.data)
    except TimeoutError:
        raise HermesError(f"it took longer than {SECONDS:g} s to be heard") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = err.decode(errors="replace").strip().splitlines()
        raise HermesError(said[-1][:200] if said else "the memo could not be read")
    return out.decode(errors="replace").strip()
