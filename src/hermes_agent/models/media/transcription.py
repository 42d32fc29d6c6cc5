"""Transcribes voice memos, by a service or by a local model, which also takes over if the service
fails. The local model runs in its own process, which frees its memory and contains crashes."""

import asyncio
import logging
import sys

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.installation.extras import install_hint, lacking, needs
from hermes_agent.core.messages import Media
from hermes_agent.models.registry import ModelRegistry

log = logging.getLogger("hermes.models")

LOCAL = "local/"
TINY = f"{LOCAL}tiny"
"""English; its weights come with the package."""
SECONDS = 300.0
MAX_BYTES = 20_000_000


async def transcribe(chosen: str, models: ModelRegistry, memo: Media) -> str:
    """The words of a memo; empty if there are none."""
    if len(memo.data) > MAX_BYTES:
        raise HermesError(f"the memo is larger than {MAX_BYTES // 1_000_000} MB")
    if chosen == TINY:
        return await _transcribe_locally(memo)
    if chosen.startswith(LOCAL):
        raise UsageError(f"no model {chosen!r} for voice memos", f"gateway.voice: {TINY}")
    try:
        async with asyncio.timeout(SECONDS):
            return await models.media(chosen).transcribe(memo)
    except TimeoutError:
        trouble = HermesError(f"{chosen} took longer than {SECONDS:g} s to transcribe it")
    except HermesError as error:
        trouble = error
    log.warning("%s did not transcribe a voice memo: %s", chosen, trouble)
    if not is_installed():
        raise trouble
    return await _transcribe_locally(memo)


def is_installed() -> bool:
    return not lacking("voice")


async def _transcribe_locally(memo: Media) -> str:
    if not is_installed():
        raise UsageError(needs("`gateway.voice`", lacking("voice")), install_hint("voice"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hermes_agent.models.media.worker",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate(memo.data)
    except TimeoutError:
        raise HermesError(f"transcription took longer than {SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = err.decode(errors="replace").strip().splitlines()
        raise HermesError(said[-1][:200] if said else "the memo could not be read")
    return out.decode(errors="replace").strip()
