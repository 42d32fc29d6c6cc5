"""HTTP as every wire format uses it: one client, server-sent events, failures with a name."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING

from hermes_agent.core.errors import ModelError, ModelTrouble

if TYPE_CHECKING:
    import ssl

    import httpx

CONNECT_SECONDS = 20.0
SHOWN_CHARS = 300
"""The most of a service's own words that goes into an error."""

_FIELD = re.compile(rb"(data|event|id|retry)?:")


@cache
def _load_httpx() -> None:
    """Import httpx without its command-line client, which loads rich and click where they are
    installed: half of the time and memory of the import, for a function nobody calls here."""
    if "httpx" not in sys.modules:
        sys.modules["httpx._main"] = None  # type: ignore[assignment]  # makes its import fail
        import httpx  # noqa: F401

        del sys.modules["httpx._main"]


@cache
def _tls_context() -> "ssl.SSLContext":
    # Reading the certificates takes tens of milliseconds: once for the process.
    import httpx

    return httpx.create_ssl_context()


class Wire:
    """A service at a URL. `secret` goes out in the headers and never into an error."""

    def __init__(self, url: str, headers: Mapping[str, str], secret: str, silence: float) -> None:
        self._url = url.rstrip("/")
        self._headers = dict(headers)
        self._secret = secret
        self._silence = silence
        self._client: httpx.AsyncClient | None = None

    @property
    def shown_url(self) -> str:
        return re.sub(r"//[^/@]*@", "//", self._url)

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator["Answer"]:
        _load_httpx()
        import httpx

        try:
            async with self._open().stream(
                "POST", self._url + path, content=body, headers=dict(headers)
            ) as response:
                yield Answer(self, response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.trouble(error) from None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def error(
        self, kind: ModelTrouble, message: str, hint: str = "", retry_after: float | None = None
    ) -> ModelError:
        """An error whose words do not hold the secret."""
        return ModelError(kind, self._clean(message), self._clean(hint), retry_after)

    def trouble(self, error: Exception) -> ModelError:
        """What went wrong below HTTP."""
        import httpx

        said = f": {error}" if str(error) else ""
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.ProxyError():
                return self.error(
                    "unreachable",
                    f"cannot reach {self.shown_url}{said}",
                    f"check the network and that a service listens at {self.shown_url}",
                )
            case httpx.TimeoutException():
                return self.error(
                    "timeout", f"{self.shown_url} sent nothing for {self._silence:g} seconds"
                )
            case httpx.DecodingError():
                return self.error("garbage", f"{self.shown_url} sent damaged data{said}")
            case httpx.UnsupportedProtocol() | httpx.InvalidURL() | httpx.LocalProtocolError():
                return self.error(
                    "bad_request",
                    f"{self.shown_url} cannot be asked{said}",
                    "check the service's address",
                )
            case _:
                return self.error(
                    "broken_stream", f"the connection to {self.shown_url} broke{said}"
                )

    def _open(self) -> "httpx.AsyncClient":
        if self._client is None:
            _load_httpx()
            import httpx

            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(
                    self._silence, connect=min(self._silence, CONNECT_SECONDS), pool=None
                ),
                # As many calls at once as there are sessions; none waits for another.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
                # Plain HTTP needs no certificates and never turns into TLS: no redirects.
                verify=_tls_context() if self._url.startswith("https:") else False,
            )
        return self._client

    def _clean(self, text: str) -> str:
        return text.replace(self._secret, "[key]") if self._secret else text


class Answer:
    """A response that is being read."""

    def __init__(self, wire: Wire, response: "httpx.Response") -> None:
        self._wire = wire
        self._response = response
        self.status = response.status_code

    def is_json(self) -> bool:
        return "json" in self._response.headers.get("content-type", "")

    async def read(self) -> bytes:
        return await self._response.aread()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The `data` of each server-sent event; other fields and comments are passed over."""
        import httpx

        try:
            async for line in self._lines():
                if line.startswith(b"data:"):
                    yield line[5:].strip()
                elif line.strip() and not _FIELD.match(line):
                    raise self._wire.error(
                        "garbage", f"{self._wire.shown_url} sent no event stream: {shown(line)}"
                    )
        except httpx.HTTPError as error:
            raise self._wire.trouble(error) from None

    async def _lines(self) -> AsyncIterator[bytes]:
        # Not httpx's own lines: those also end at U+2028 and the like, which JSON text may hold.
        rest = b""
        async for piece in self._response.aiter_bytes():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line
        if rest:
            yield rest

    def retry_after(self) -> float | None:
        """Seconds the service asks to be left alone, whichever way it says so."""
        from email.utils import parsedate_to_datetime

        headers = self._response.headers
        try:
            if milliseconds := headers.get("retry-after-ms"):
                return max(0.0, float(milliseconds) / 1000)
            said = headers.get("retry-after", "").strip()
            if re.fullmatch(r"[0-9.]+", said):
                return float(said)
            # A date is measured by the service's own clock, which may not be ours.
            until = parsedate_to_datetime(said) - parsedate_to_datetime(headers.get("date", ""))
        except (ValueError, TypeError):
            return None
        return max(0.0, until.total_seconds())


def shown(body: bytes) -> str:
    """The beginning of what a service sent, as one line of plain text."""
    text = re.sub(
        r"(?is)<(script|style).*?</\1>|<[^>]*>", " ", body[:4096].decode(errors="replace")
    )
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else line[:SHOWN_CHARS] + "…"


async def within(seconds: float, events: AsyncIterator[bytes]) -> list[bytes]:
    """What still arrives in so many seconds; no failure, since nothing more is needed."""
    arrived: list[bytes] = []
    try:
        async with asyncio.timeout(seconds):
            async for data in events:
                arrived.append(data)  # noqa: PERF401  what came before the trouble counts
    except (TimeoutError, ModelError):
        pass
    return arrived
