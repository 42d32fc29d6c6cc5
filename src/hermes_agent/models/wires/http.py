"""HTTP for all wire formats: connections, limits, and errors as `ModelError`."""

import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

from hermes_agent.core.errors import ModelError
from hermes_agent.core.text.addresses import host_of
from hermes_agent.core.timeouts import awake
from hermes_agent.core.version import __version__
from hermes_agent.models.shared import sensible_pause

if TYPE_CHECKING:
    import ssl

    import httpx

CONNECT_SECONDS = 20.0
SHOWN_CHARS = 300
"""How much of a service's own message goes into an error."""

KNOWN_CHARS = 8
"""A secret is recognised by so many of its first characters."""

MAX_BYTES = 64_000_000
"""No model answers with more than this."""

_NOT_WANTED = ("httpx._main", "httpcore._async.http2", "httpcore._sync.http2")
"""Parts of httpx that load rich, click and h2 where they are installed: more than half of the time
and memory of the import. Whoever speaks HTTP/2 imports those modules later, and gets them."""


@cache
def _load_httpx() -> None:
    """Import httpx without the parts that we do not use."""
    kept_out = [name for name in _NOT_WANTED if name not in sys.modules]
    for name in kept_out:
        sys.modules[name] = None  # type: ignore[assignment]  # makes its import fail
    import httpcore  # noqa: F401
    import httpx  # noqa: F401

    for name in kept_out:
        del sys.modules[name]


@cache
def _tls_context() -> "ssl.SSLContext":
    # Reading the certificates takes tens of milliseconds: once for the process.
    import httpx

    return httpx.create_ssl_context()


class HttpConnection:
    """A service at a URL: one client, connection pool and TLS context for all calls and keys. The
    secret of a call goes into its headers and never into an error."""

    def __init__(
        self, url: str, headers: Mapping[str, str], silence: float, first: float = 0.0
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {"user-agent": f"hermes-runtime/{__version__}", **headers}
        self._silence = silence
        self._first = first or silence
        """How long to wait for the beginning of an answer, which may take longer than what follows:
        a server loads its model, or the model thinks."""
        self._client: httpx.AsyncClient | None = None

    @property
    def shown_url(self) -> str:
        return re.sub(r"//[^/@]*@", "//", self._url)

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str], secrets: Sequence[str] = ()
    ) -> AbstractAsyncContextManager["HttpResponse"]:
        """Send a request; whatever goes wrong below HTTP is a `ModelError`. No error that leaves
        here holds one of the `secrets`, not even one that the caller raises."""
        return self._send("POST", path, body, headers, secrets)

    def get(
        self, path: str, headers: Mapping[str, str], secrets: Sequence[str] = ()
    ) -> AbstractAsyncContextManager["HttpResponse"]:
        return self._send("GET", path, None, headers, secrets)

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        secrets: Sequence[str],
    ) -> AsyncIterator["HttpResponse"]:
        _load_httpx()
        import httpx

        try:
            async with self._open().stream(
                method, self._url + path, content=body, headers=dict(headers)
            ) as response:
                response.request.extensions["timeout"]["read"] = self._silence
                yield HttpResponse(self, response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise cleaned(self.trouble(error, self._first), secrets) from None
        except ModelError as error:
            raise cleaned(error, secrets) from None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def trouble(self, error: Exception, silence: float = 0.0) -> ModelError:
        """What went wrong below HTTP. `silence`: the seconds that were waited."""
        import httpx

        text = re.sub(r"\[Errno \d+\] ", "", str(error))
        if text.startswith("[Errno -"):  # of the resolver
            text = f"no address for {host_of(self._url)}: no network or name server?"
        said = f": {text}" if text else ""
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.ProxyError():
                return ModelError(
                    "unreachable",
                    f"cannot reach {self.shown_url}{said}",
                    f"check the network and that a service listens at {self.shown_url}",
                )
            case httpx.TimeoutException():
                waited = silence or self._silence
                return ModelError(
                    "timeout", f"{self.shown_url} sent nothing for {waited:g} seconds"
                )
            case httpx.DecodingError():
                return ModelError("garbage", f"{self.shown_url} sent damaged data{said}")
            case httpx.UnsupportedProtocol() | httpx.InvalidURL() | httpx.LocalProtocolError():
                return ModelError(
                    "bad_request",
                    f"cannot send a request to {self.shown_url}{said}",
                    "check the service's address",
                )
            case _:
                return ModelError(
                    "broken_stream", f"the connection to {self.shown_url} was lost{said}"
                )

    def _open(self) -> "httpx.AsyncClient":
        if self._client is None:
            _load_httpx()
            import httpx

            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(
                    self._silence,
                    connect=min(self._first, CONNECT_SECONDS),
                    read=self._first,
                    pool=None,
                ),
                # As many calls at once as there are sessions; none waits for another. How long a
                # connection is kept is for `clients` to say, which closes it.
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=20, keepalive_expiry=None
                ),
                # Plain HTTP needs no certificates and never turns into TLS: no redirects.
                verify=_tls_context() if self._url.startswith("https:") else False,
            )
        return self._client


def cleaned(error: ModelError, secrets: Sequence[str]) -> ModelError:
    """The error in words that hold none of the secrets, nor the beginning of one."""

    def clean(text: str) -> str:
        # The longest first: one may be the beginning of another.
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = _without(text, secret)
        return text

    said = ModelError(
        error.kind,
        clean(error.message),
        clean(error.hint),
        error.retry_after,
        input=error.input,
        output=error.output,
    )
    said.turned_away = error.turned_away
    return said


def _without(text: str, secret: str) -> str:
    """A service's words are cut somewhere, and a secret in them with it: what begins like the
    secret goes as far as it goes on like it."""
    kept: list[str] = []
    start = secret[:KNOWN_CHARS]
    at = text.find(start)
    while at >= 0:
        kept += text[:at], "[key]"
        rest = text[at:]
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(rest, secret, strict=False))
        text = rest[sum(1 for _ in alike) :]
        at = text.find(start)
    return "".join((*kept, text))


class HttpResponse:
    """A response that is being read."""

    def __init__(self, wire: HttpConnection, response: "httpx.Response") -> None:
        self._wire = wire
        self._response = response
        self.status = response.status_code

    def header(self, name: str) -> str:
        said: str = self._response.headers.get(name, "")
        return said

    def is_json(self) -> bool:
        return "json" in self._response.headers.get("content-type", "")

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives. One that never ends is no answer."""
        import httpx

        left = MAX_BYTES
        try:
            async for piece in self._arriving():
                left -= len(piece)
                if left < 0:
                    raise self._endless()
                yield piece
        except httpx.HTTPError as error:
            raise self._wire.trouble(error) from None

    def _arriving(self) -> AsyncIterator[bytes]:
        packed = "content-encoding" in self._response.headers
        return self._response.aiter_bytes() if packed else self._response.aiter_raw()

    def _endless(self) -> ModelError:
        most = MAX_BYTES // 1_000_000
        return ModelError("garbage", f"{self._wire.shown_url} sent more than {most} MB")

    def retry_after(self) -> float | None:
        """Seconds the service asks to be left alone, whichever way it says so."""
        from email.utils import parsedate_to_datetime

        headers = self._response.headers
        try:
            if milliseconds := headers.get("retry-after-ms"):
                return sensible_pause(float(milliseconds) / 1000)
            said = headers.get("retry-after", "").strip()
            if re.fullmatch(r"[0-9.]+", said):
                return sensible_pause(float(said))
            # A date is measured by the service's own clock, which may not be ours.
            until = parsedate_to_datetime(said) - parsedate_to_datetime(headers.get("date", ""))
        except (ValueError, TypeError, OverflowError):
            return None
        return sensible_pause(max(0.0, until.total_seconds()))


def shown(body: bytes) -> str:
    """The beginning of what a service sent, as one line of plain text."""
    text = re.sub(
        r"(?is)<(script|style).*?</\1>|<[^>]*>", " ", body[:4096].decode(errors="replace")
    )
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else line[:SHOWN_CHARS] + "…"


async def within(seconds: float, pieces: AsyncIterator[bytes]) -> list[bytes]:
    """What still arrives in so many seconds; no failure, since nothing more is needed."""
    arrived: list[bytes] = []
    try:
        async with awake(seconds):
            async for piece in pieces:
                arrived.append(piece)  # noqa: PERF401  what came before the trouble counts
    except (TimeoutError, ModelError):
        pass
    return arrived
