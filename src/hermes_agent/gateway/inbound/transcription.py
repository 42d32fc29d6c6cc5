"""Voice memos as text: by a model on this machine, or by a service. The one here works in a process
of its own: what it needs is given back when it is done, and a memo that breaks it breaks nothing
else. Where a service fails, it takes over, if it is installed."""

import asyncio
import logging
import sys
from importlib.util import find_spec

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.messages import Media
from hermes_agent.models.registry import ModelRegistry

log = logging.getLogger("hermes.gateway")

LOCAL = "local/"
TINY = f"{LOCAL}tiny"
"""English; its weights come with the package."""
PACKAGES = ("moonshine_voice", "soundfile")
SECONDS = 300.0
MAX_BYTES = 20_000_000


async def transcribe(chosen: str, models: ModelRegistry, memo: Media) -> str:
    """What is said in it; empty when nothing is."""
    if len(memo.data) > MAX_BYTES:
        raise HermesError(f"the memo has more than {MAX_BYTES // 1_000_000} MB")
    if chosen == TINY:
        return await _heard_here(memo)
    if chosen.startswith(LOCAL):
        raise UsageError(f"no model {chosen!r} for voice memos", f"gateway.voice: {TINY}")
    try:
        async with asyncio.timeout(SECONDS):
            return await models.speech(chosen).heard(memo)
    except TimeoutError:
        trouble = HermesError(f"{chosen} took longer than {SECONDS:g} s to hear it")
    except HermesError as error:
        trouble = error
    log.warning("a voice memo was not heard by %s: %s", chosen, trouble)
    if not is_installed():
        raise trouble
    return await _heard_here(memo)


def is_installed() -> bool:
    return all(find_spec(package) is not None for package in PACKAGES)


async def _heard_here(memo: Media) -> str:
    if not is_installed():
        raise UsageError("voice memos need a package", "pip install 'hermes-agent[voice]'")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hermes_agent.gateway.inbound.worker",
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
