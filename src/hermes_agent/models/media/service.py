"""Speech and pictures: `/audio/transcriptions`, `/audio/speech` and `/images/generations` of a
service with an OpenAI format."""

import asyncio
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import Media
from hermes_agent.models.routing.credential_pool import CredentialPool
from hermes_agent.models.shared import UNKNOWN
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


class _Transcript(Struct, frozen=True):
    text: str


class _Picture(Struct, frozen=True):
    b64_json: str


class _Pictures(Struct, frozen=True):
    data: tuple[_Picture, ...]


@dataclass(frozen=True)
class _Call(Generic[Answer]):
    path: str
    body: bytes
    kind: str
    """The type of the body."""
    read: Callable[[bytes], Answer]
    """A `ValueError` if the answer is not what was `wanted`."""
    wanted: str
    once: bool = False
    """Whether it is asked for once where nobody knows what became of it: it may have its price."""


class MediaModel:
    """One model of one service."""

    def __init__(
        self, endpoint: Endpoint, pool: CredentialPool, sleep: Sleep | None = None
    ) -> None:
        self._endpoint = endpoint
        self._pool = pool
        self._sleep = sleep or asyncio.sleep

    async def transcribe(self, memo: Media) -> str:
        """The transcript."""
        boundary = token_hex(16)
        form = _form(boundary, {"model": self._endpoint.model, "response_format": "json"}, memo)
        kind = f"multipart/form-data; boundary={boundary}"
        call = _Call("/audio/transcriptions", form, kind, _transcript, "a transcript")
        return await self._request(call)

    async def speak(self, text: str) -> bytes:
        """The text as Opus in Ogg."""
        asked = {"model": self._endpoint.model, "input": text, "voice": VOICE}
        body = msgspec.json.encode({**asked, "response_format": "opus"})
        return await self._request(_Call("/audio/speech", body, JSON, bytes, "sound"))

    async def draw(self, prompt: str, size: str) -> bytes:
        """A picture."""
        asked = {"model": self._endpoint.model, "prompt": prompt, "n": 1}
        if size != "auto":  # the default; not all know the word
            asked["size"] = size
        if "dall-e" in self._endpoint.model:  # answers with an address; newer ones refuse this
            asked["response_format"] = "b64_json"
        body = msgspec.json.encode(asked)
        call = _Call("/images/generations", body, JSON, _picture, "a picture", once=True)
        return await self._request(call)

    async def _request(self, call: _Call[Answer]) -> Answer:
        """What the service answers. Retries transient errors."""
        wire = HttpConnection(
            self._endpoint.url, self._endpoint.service.headers, self._endpoint.silence
        )
        try:
            for attempt in range(1, TRIES + 1):
                try:
                    return await self._try(wire, call)
                except ModelError as error:
                    pause = error.retry_after or float(attempt)
                    passing = error.passing and pause <= MAX_PAUSE
                    passing = passing and not (call.once and error.kind in UNKNOWN)
                    if attempt == TRIES or not passing:
                        raise
                    await self._sleep(pause)
            raise AssertionError
        finally:
            await wire.close()

    async def _try(self, wire: HttpConnection, call: _Call[Answer]) -> Answer:
        # A key without access to audio is not marked as bad: it may work for everything else.
        leased = await self._pool.lease(self._endpoint.name, anyway=True)
        credential = leased.credential if leased is not None else Credential()
        secret = credential.secret
        by_key = secret and self._endpoint.has("api_key_header")
        headers = {"api-key": secret} if by_key else bearer(credential)
        headers["content-type"] = call.kind
        hidden = [secret] if secret else []
        path = path_of(self._endpoint, call.path)
        async with wire.post(path, call.body, headers, hidden) as answer:
            said = await answer.read()
            if answer.status != 200:
                pause = answer.retry_after()
                raise refusal(self._endpoint, credential, answer.status, said, retry_after=pause)
            try:
                return call.read(said)
            except ValueError:
                where = f"{wire.shown_url}{path}"
                what = f"{where} answered without {call.wanted}: {shown(said)}"
                raise ModelError("garbage", what) from None


def _transcript(said: bytes) -> str:
    return msgspec.json.decode(said, type=_Transcript).text.strip()


def _picture(said: bytes) -> bytes:
    [picture] = msgspec.json.decode(said, type=_Pictures).data
    return b64decode(picture.b64_json)


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
