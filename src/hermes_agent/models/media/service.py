"""Speech and pictures: `/audio/transcriptions`, `/audio/speech` and `/images/generations` of a
service with an OpenAI format."""

import asyncio
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import TypeVar

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import Media
from hermes_agent.models.routing.credential_pool import CredentialPool
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.errors import refusal
from hermes_agent.models.wires.http import HttpConnection, shown
from hermes_agent.models.wires.streaming import bearer, path_of

WIRES = ("openai-chat", "openai-responses")
TRIES = 3
MAX_PAUSE = 20.0
JSON = "application/json"
VOICE = "alloy"
"""The voice that every such service has."""
_ENDINGS = {
    "audio/ogg": "ogg", "audio/opus": "ogg", "audio/mpeg": "mp3", "audio/mp4": "m4a",
    "audio/x-m4a": "m4a", "audio/aac": "m4a", "audio/wav": "wav", "audio/x-wav": "wav",
    "audio/webm": "webm", "audio/flac": "flac",
}  # fmt: skip
"""Services recognise the audio format by the file name."""

Answer = TypeVar("Answer")
Sleep = Callable[[float], Awaitable[None]]


class _Heard(Struct, frozen=True):
    text: str


class _Picture(Struct, frozen=True):
    b64_json: str


class _Drawn(Struct, frozen=True):
    data: tuple[_Picture, ...]


class MediaModel:
    """One model of one service."""

    def __init__(
        self, endpoint: Endpoint, pool: CredentialPool, sleep: Sleep | None = None
    ) -> None:
        self._endpoint = endpoint
        self._pool = pool
        self._sleep = sleep or asyncio.sleep

    async def heard(self, memo: Media) -> str:
        """The transcript."""
        boundary = token_hex(16)
        form = _form(boundary, {"model": self._endpoint.model, "response_format": "json"}, memo)
        kind = f"multipart/form-data; boundary={boundary}"
        return await self._asked("/audio/transcriptions", form, kind, self._transcript)

    async def spoken(self, text: str) -> bytes:
        """The text as Opus in Ogg."""
        asked = {"model": self._endpoint.model, "input": text, "voice": VOICE}
        body = msgspec.json.encode({**asked, "response_format": "opus"})
        return await self._asked("/audio/speech", body, JSON, bytes)

    async def drawn(self, prompt: str, size: str) -> bytes:
        """A picture."""
        asked = {"model": self._endpoint.model, "prompt": prompt, "size": size, "n": 1}
        body = msgspec.json.encode(asked)
        return await self._asked("/images/generations", body, JSON, self._picture)

    def _transcript(self, said: bytes) -> str:
        try:
            return msgspec.json.decode(said, type=_Heard).text.strip()
        except msgspec.MsgspecError:
            raise self._garbage("/audio/transcriptions", "a transcript", said) from None

    def _picture(self, said: bytes) -> bytes:
        try:
            [picture] = msgspec.json.decode(said, type=_Drawn).data
            return b64decode(picture.b64_json)
        except (msgspec.MsgspecError, ValueError):
            raise self._garbage("/images/generations", "a picture", said) from None

    def _garbage(self, path: str, wanted: str, said: bytes) -> ModelError:
        where = f"{self._endpoint.url}{path_of(self._endpoint, path)}"
        return ModelError("garbage", f"{where} answered without {wanted}: {shown(said)}")

    async def _asked(
        self, path: str, body: bytes, kind: str, read: Callable[[bytes], Answer]
    ) -> Answer:
        """What the service answers. Retries transient errors."""
        wire = HttpConnection(
            self._endpoint.url, self._endpoint.service.headers, self._endpoint.silence
        )
        try:
            for attempt in range(1, TRIES + 1):
                try:
                    return read(await self._try(wire, path, body, kind))
                except ModelError as error:
                    pause = error.retry_after or float(attempt)
                    passing = error.passing and pause <= MAX_PAUSE
                    if attempt == TRIES or not passing:
                        raise
                    await self._sleep(pause)
            raise AssertionError
        finally:
            await wire.close()

    async def _try(self, wire: HttpConnection, path: str, body: bytes, kind: str) -> bytes:
        # A key without access to audio is not marked as bad: it may work for everything else.
        leased = await self._pool.lease(self._endpoint.name, anyway=True)
        credential = leased.credential if leased is not None else Credential()
        secret = credential.secret
        by_key = secret and self._endpoint.has("api_key_header")
        headers = {"api-key": secret} if by_key else bearer(credential)
        headers["content-type"] = kind
        hidden = [secret] if secret else []
        async with wire.post(path_of(self._endpoint, path), body, headers, hidden) as answer:
            said = await answer.read()
            if answer.status != 200:
                pause = answer.retry_after()
                raise refusal(self._endpoint, credential, answer.status, said, retry_after=pause)
            return said


def _form(boundary: str, fields: dict[str, str], memo: Media) -> bytes:
    line = f"--{boundary}\r\ncontent-disposition: form-data; name="
    parts = [f'{line}"{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    head = f'{line}"file"; filename="{_name(memo)}"\r\ncontent-type: {_type(memo)}\r\n\r\n'
    return b"".join([*parts, head.encode(), memo.data, f"\r\n--{boundary}--\r\n".encode()])


def _type(memo: Media) -> str:
    plain = memo.type.partition(";")[0].strip().lower()
    return plain if re.fullmatch(r"[\w.+-]+/[\w.+-]+", plain, re.ASCII) else "audio/ogg"


def _name(memo: Media) -> str:
    ending = _ENDINGS.get(_type(memo), "")
    own = re.sub(r"[^A-Za-z0-9.-]", "_", memo.name.rpartition("/")[2])[-60:].strip(".") or "memo"
    return own if "." in own or not ending else f"{own}.{ending}"
