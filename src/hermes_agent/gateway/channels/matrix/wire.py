"""A small client of the Matrix client-server API."""

from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import CredentialsRejected, SendError
from hermes_agent.gateway.channels.shared import (
    MAX_BYTES,
    MAX_WAIT,
    AttachmentUnavailable,
    retry_after,
    said,
)

CLIENT = "/_matrix/client/v3"
SECONDS = 30.0
OURS = "enter a new token with `hermes gateway setup matrix`"


class MatrixError(HermesError):
    """An error response of the homeserver."""

    def __init__(self, status: int, code: str, message: str, after: float | None) -> None:
        super().__init__(f"the homeserver says {status} {code}: {message}")
        self.status = status
        self.code = code
        self.after = after


class HomeserverUnreachable(HermesError):
    """No response; `sent` if the request may have arrived."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class MatrixClient:
    def __init__(self, address: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.AsyncClient(base_url=address, headers=headers, timeout=SECONDS)

    async def close(self) -> None:
        await self._client.aclose()

    async def call(self, method: str, path: str, *parts: str, **options: Any) -> dict[str, Any]:
        """One request; `parts` fill the braces in the path."""
        url = CLIENT + path.format(*(quote(part, safe="") for part in parts))
        answer = await self._request(method, url, **options)
        try:
            found = msgspec.json.decode(answer.content)
        except msgspec.MsgspecError:
            raise MatrixError(answer.status_code, "", "not JSON", None) from None
        return found if isinstance(found, dict) else {}

    async def _request(self, method: str, url: str, **options: Any) -> httpx.Response:
        try:
            answer = await self._client.request(method, url, **options)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise HomeserverUnreachable(
                f"cannot reach the homeserver: {said(error)}", sent=False
            ) from None
        except httpx.HTTPError as error:
            raise HomeserverUnreachable(
                f"the homeserver is not responding: {said(error)}", sent=True
            ) from None
        if answer.status_code >= 400:
            raise _error(answer)
        return answer

    async def upload(self, file: Media) -> str:
        """Returns the `mxc://…` address. Uploading again creates another file."""
        answer = await self._request(
            "POST", "/_matrix/media/v3/upload", params={"filename": file.name or "file"},
            content=file.data, headers={"Content-Type": file.type},
        )  # fmt: skip
        return str(msgspec.json.decode(answer.content)["content_uri"])

    async def download(self, address: str, name: str, kind: str) -> Media:
        server, _, id = address.removeprefix("mxc://").partition("/")
        if not address.startswith("mxc://") or not server or not id:
            raise AttachmentUnavailable("malformed address")
        place = f"{quote(server, safe='')}/{quote(id, safe='')}"
        url = f"/_matrix/client/v1/media/download/{place}"
        data = bytearray()
        try:
            async with self._client.stream("GET", url) as answer:
                if answer.status_code != 200:
                    passing = answer.status_code >= 500 or answer.status_code == 429
                    raise AttachmentUnavailable(f"status {answer.status_code}", passing=passing)
                async for piece in answer.aiter_bytes():
                    data += piece
                    if len(data) > MAX_BYTES:
                        raise AttachmentUnavailable("too large")
        except httpx.HTTPError as error:
            raise AttachmentUnavailable(said(error), passing=True) from None
        return Media(kind or "application/octet-stream", bytes(data), name)


def refusal(error: HermesError) -> HermesError:
    """The error for the gateway when receiving fails."""
    if isinstance(error, MatrixError) and error.code in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"):
        return CredentialsRejected("the homeserver rejected the token", OURS)
    return error


def send_error(error: HermesError) -> SendError:
    """Never doubtful: the homeserver ignores a repeated transaction id."""
    if isinstance(error, HomeserverUnreachable):
        return SendError(error.message, channel=not error.sent)
    assert isinstance(error, MatrixError)
    if error.code in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"):
        return SendError("the homeserver rejected the token", OURS, channel=True)
    if error.status == 429:
        return SendError(error.message, after=error.after)
    return SendError(error.message, again=error.status >= 500)


def _error(answer: httpx.Response) -> MatrixError:
    try:
        body = msgspec.json.decode(answer.content)
    except msgspec.MsgspecError:
        body = {}
    body = body if isinstance(body, dict) else {}
    after = None
    if answer.status_code == 429:
        wait = body.get("retry_after_ms")
        in_body = wait / 1000 if isinstance(wait, int) and wait > 0 else 5.0
        after = retry_after(answer.headers, min(in_body, MAX_WAIT))
    code, text = str(body.get("errcode", "")), str(body.get("error", ""))[:200]
    return MatrixError(answer.status_code, code, text, after)
