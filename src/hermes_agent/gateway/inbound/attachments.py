"""Files and voice memos that come with messages: what a model can see goes with the message, the
rest is put into the session's folder and named."""

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
"""What models are handed as it is, by how it begins."""
MAX_BYTES = 20_000_000
_ODD = re.compile(r"[^\w.\- ]")


class AttachmentIntake:
    def __init__(self, context: RuntimeContext, models: ModelRegistry) -> None:
        self._context = context
        self._models = models

    async def taken(self, arrived: InboundMessage, workspace: str) -> tuple[str, tuple[Media, ...]]:
        """What the message says beside its text, and the files that go with it."""
        lines: list[str] = []
        shown: list[Media] = []
        for media in arrived.files:
            if (type := _type(media)) and len(media.data) <= _most(type):
                shown.append(Media(type, media.data, media.name))
            else:
                path = await _put(media, workspace)
                lines.append(f"(a file came with this message: {path}, {media.type})")
        lines += [await self._heard(memo, workspace) for memo in arrived.voice]
        return "\n".join(lines), tuple(shown)

    async def _heard(self, memo: Media, workspace: str) -> str:
        path = await _put(memo, workspace)
        if not self._context.settings.gateway.voice:
            return f"(a voice memo came with this message: {path}; it was not transcribed)"
        from hermes_agent.gateway.inbound.transcription import transcribe

        try:
            said = await transcribe(self._context.settings.gateway.voice, self._models, memo)
        except HermesError as error:
            return f"(a voice memo came with this message: {path}; it was not heard: {error})"
        return f"(said in a voice memo, {path}:)\n{said}" if said else f"(a silent memo: {path})"


def _type(media: Media) -> str:
    if media.data[:4] == b"RIFF" and media.data[8:12] == b"WEBP":
        return "image/webp"
    return next((type for begin, type in _SEEN if media.data.startswith(begin)), "")


def _most(type: str) -> int:
    return IMAGE_BYTES if type.startswith("image/") else MAX_BYTES


async def _put(media: Media, workspace: str) -> str:
    return await asyncio.to_thread(_write, media, Path(workspace))


def _write(media: Media, workspace: Path) -> str:
    """The same file has the same name: a message that is handled twice leaves one. The folder is
    one of the agent's: links in it are not followed."""
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
        raise HermesError(f"a file could not be kept in {folder}: {error.strerror}") from None
    return f"{FOLDER}/{called}"


def plain_file(name: str) -> str:
    """The last part of a file's name, with nothing in it that means something elsewhere."""
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = _ODD.sub("_", last).strip(" .")[-80:]
    return kept.strip(" .") or "file"
