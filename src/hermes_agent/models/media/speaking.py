"""Speaks answers: by a service, or by espeak-ng on this machine."""

import asyncio
import io
import re

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.installation.extras import install_hint, lacking, needs
from hermes_agent.core.messages import Media
from hermes_agent.models.registry import ModelRegistry

LOCAL = "local/"
PROGRAM = "espeak-ng"
SECONDS = 120.0
MAX_CHARS = 1_500
"""How much of an answer is spoken; the text has all of it."""
RATE = 24_000
"""Samples per second; Opus knows few rates."""
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_UNSPOKEN = re.compile(r"https?://\S+|[*_`#>|~]+")


async def speak(chosen: str, models: ModelRegistry, text: str) -> Media | None:
    """The text as a voice message; None if nothing in it can be spoken."""
    words = plain_words(text)
    if not words:
        return None
    try:
        async with asyncio.timeout(SECONDS):
            if chosen.startswith(LOCAL):
                data = await _speak_here(chosen.removeprefix(LOCAL), words)
            else:
                data = await models.media(chosen).speak(words)
    except TimeoutError:
        raise HermesError(f"{chosen} took longer than {SECONDS:g} s to speak an answer") from None
    return Media("audio/ogg", data, "answer.ogg")


def plain_words(text: str) -> str:
    """What is spoken of Markdown: no code, marks or addresses."""
    words = _UNSPOKEN.sub("", _LINK.sub(r"\1", _CODE.sub("", text)))
    spoken = " ".join(words.split())
    if len(spoken) <= MAX_CHARS:
        return spoken
    cut = spoken[:MAX_CHARS]
    return cut[: cut.rfind(". ") + 1] or cut


async def _speak_here(voice: str, words: str) -> bytes:
    if lacking("voice"):
        raise UsageError(needs("`gateway.speak`", lacking("voice")), install_hint("voice"))
    try:
        process = await asyncio.create_subprocess_exec(
            PROGRAM, "-v", voice, "--stdin", "--stdout", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except FileNotFoundError:
        raise UsageError(
            f"`gateway.speak` needs {PROGRAM}, which is not installed", f"apt-get install {PROGRAM}"
        ) from None
    try:
        sound, said = await process.communicate(words.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0 or not sound:
        trouble = said.decode(errors="replace").strip().partition("\n")[0]
        raise HermesError(f"{PROGRAM} did not speak: {trouble}", f"`{PROGRAM} --voices` lists them")
    return await asyncio.to_thread(_as_opus, sound)


def _as_opus(sound: bytes) -> bytes:
    import numpy as np
    import soundfile

    # A program that writes to a pipe cannot know the length that belongs in the header.
    samples, rate = soundfile.read(io.BytesIO(sound), dtype="float32")
    times = np.arange(0, len(samples), rate / RATE)
    resampled = np.interp(times, np.arange(len(samples)), samples)
    memo = io.BytesIO()
    soundfile.write(memo, resampled, RATE, format="OGG", subtype="OPUS")
    return memo.getvalue()
