"""Stores attachments of inbound messages. What a model can see goes with the message; the rest is
saved in the session's folder and named."""

import asyncio
import os
import re
import tempfile
from hashlib import sha256
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import InboundMessage
from hermes_agent.core.messages import IMAGE_BYTES, Media
from hermes_agent.host.context import RuntimeContext
from hermes_agent.models.registry import ModelRegistry

FOLDER = "received"
_SEEN = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
"""Types that models are given directly, by their first bytes."""
MAX_BYTES = 20_000_000
HEARD = "(said in a voice memo, "
"""How the transcript of a memo begins in a message."""
_ODD = re.compile(r"[^\w.\- ]")


class AttachmentIntake:
    def __init__(self, context: RuntimeContext, models: ModelRegistry) -> None:
        self._context = context
        self._models = models

    async def store(self, arrived: InboundMessage, workspace: str) -> tuple[str, tuple[Media, ...]]:
        """Text to add to the message, and the files that go with it."""
        lines: list[str] = []
        shown: list[Media] = []
        for media in arrived.files:
            if (type := _type(media)) and len(media.data) <= _max_bytes(type):
                shown.append(Media(type, media.data, media.name))
            else:
                path = await _save(media, workspace)
                lines.append(f"(a file came with this message: {path}, {media.type})")
        lines += [await self._transcript(memo, workspace) for memo in arrived.voice]
        return "\n".join(lines), tuple(shown)

    async def _transcript(self, memo: Media, workspace: str) -> str:
        path = await _save(memo, workspace)
        if not self._context.settings.gateway.voice:
            return f"(a voice memo came with this message: {path}; not transcribed)"
        from hermes_agent.models.media.transcription import transcribe

        try:
            said = await transcribe(self._context.settings.gateway.voice, self._models, memo)
        except HermesError as error:
            return f"(a voice memo came with this message: {path}; not transcribed: {error})"
        return f"{HEARD}{path}:)\n{said}" if said else f"(a silent memo: {path})"


def _type(media: Media) -> str:
    if media.data[:4] == b"RIFF" and media.data[8:12] == b"WEBP":
        return "image/webp"
    return next((type for begin, type in _SEEN if media.data.startswith(begin)), "")


def _max_bytes(type: str) -> int:
    return IMAGE_BYTES if type.startswith("image/") else MAX_BYTES


async def _save(media: Media, workspace: str) -> str:
    return await asyncio.to_thread(_write, media, Path(workspace))


def _write(media: Media, workspace: Path) -> str:
    """The same file gets the same name, so that a message handled twice leaves one. The agent can
    write to the folder, so links are not followed."""
    name = plain_file(media.name)
    called = f"{sha256(media.data).hexdigest()[:8]}-{name}"
    folder = workspace / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        if folder.is_symlink():
            raise HermesError(f"{folder} is a link", "remove it")
        handle, draft = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(media.data)
        Path(draft).replace(folder / called)
    except OSError as error:
        raise HermesError(f"cannot save a file in {folder}: {error.strerror}") from None
    return f"{FOLDER}/{called}"


def plain_file(name: str) -> str:
    """The last part of a file name, without special characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = _ODD.sub("_", last).strip(" .")[-80:]
    return kept.strip(" .") or "file"
