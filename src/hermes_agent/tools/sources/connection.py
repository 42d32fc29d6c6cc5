"""Connects to a source of the settings: finds it by name, asks it over HTTP, reads JSON."""

import asyncio
import json
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

import httpx
from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import OutcomeUnknown, Retry, ToolError
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.sources import SECRET_REFERENCE, SourceKind, SourceSettings
from hermes_agent.core.text.format import shortened
from hermes_agent.core.text.terminal import clean
from hermes_agent.core.tools import EgressCheck, ToolContext
from hermes_agent.tools.sources.registry import TYPES
from hermes_agent.tools.web.client import BoundedBody

ANSWER_BYTES = 20_000_000
COMPRESSED = {"Accept-Encoding": "gzip, deflate"}
TROUBLE_CHARS = 300
GATEWAY = (502, 503, 504)
"""Answers of what stands before a server, which may have done what was asked."""
ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading an answer raises that does not have the expected form."""
Asked = TypeVar("Asked")


class Unanswered(ToolError):
    """A request was sent and its answer did not come, or not from the server itself: nobody can
    tell whether it took effect."""


class Source(Struct, frozen=True):
    """A source of the settings, with what it takes to reach it."""

    name: str
    settings: SourceSettings
    http: Callable[..., Any]
    """Makes a guarded `httpx.AsyncClient`."""
    reach: EgressCheck
    secrets: Mapping[str, str]
    clock: Clock

    async def get(self, path: str, params: Mapping[str, Any] | None = None, **more: Any) -> Any:
        return await self.fetch("GET", path, params=params, **more)

    async def fetch(self, method: str, path: str, **request: Any) -> Any:
        """The answer's JSON. `path` is appended to the source's address; `request` has httpx's own
        options."""
        return self.read(await self.text(method, path, **request))

    def read(self, text: str | bytes) -> Any:
        """The JSON of an answer; None if it is empty."""
        try:
            return json.loads(text) if text.strip() else None
        except (ValueError, RecursionError):
            said = text.decode(errors="replace") if isinstance(text, bytes) else text
            what = f"{self.label} did not answer with JSON: {quoted(said)}"
            raise Unanswered(what, retry="changed") from None

    async def text(self, method: str, path: str, **request: Any) -> str:
        answer, data = await self.reply(method, path, **request)
        text = data.decode(errors="replace")
        self.refuse(answer, text)
        return text

    async def reply(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        auth: tuple[str, str] | None = None,
        verify: ssl.SSLContext | None = None,
        **request: Any,
    ) -> tuple[httpx.Response, bytes]:
        """The answer, whatever its status, and its content."""
        settings, label, where = self.settings, self.label, {}
        if not settings.url:
            raise ToolError(f"{label} has no address", self._example, "never")
        self.parts()
        url, seconds = settings.url.rstrip("/") + path, settings.timeout_seconds
        if url.startswith("unix://"):
            url, where = f"http://localhost{path}", {"socket": settings.url[7:]}
        if settings.user:
            auth = (settings.user, self.secret(settings.password))
        sent = {**self._headers(), **headers}
        trust = (verify or tls(settings.ca_file)) if url.startswith("https:") else False
        try:
            async with (
                asyncio.timeout(seconds),
                self.http(timeout=seconds, verify=trust, follow_redirects=False, **where) as client,
                client.stream(method, url, headers=sent, auth=auth, **request) as answer,
            ):
                return answer, await body_of(answer, self.label)
        except (TimeoutError, httpx.TimeoutException):
            raise Unanswered(f"{label} took longer than {seconds:.0f} s", retry="same") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise self.invalid(error) from None
        except (httpx.LocalProtocolError, UnicodeError):  # what it says has the header in it
            what = f"a header for {label} has characters that HTTP does not allow"
            raise ToolError(what, "check its headers and secrets", "never") from None
        except (httpx.HTTPError, ssl.SSLError) as error:  # TLS 1.3 refuses logins late
            what = f"cannot reach {label}: {str(error) or type(error).__name__}"
            hint = (
                f"does it run? `hermes config set sources.{self.name}.url URL` changes its address"
            )
            unsent = isinstance(error, httpx.ConnectError | httpx.ProxyError)
            raise (ToolError if unsent else Unanswered)(what, hint, "same") from None

    def at(self, url: str) -> "Source":
        """The same with another address."""
        return replace(self, settings=replace(self.settings, url=url))

    def invalid(self, why: object) -> ToolError:
        return ToolError(f"{self.label} has an invalid address: {why}", self._example, "never")

    @property
    def _example(self) -> str:
        return f"`hermes config set sources.{self.name}.url {TYPES[self.settings.kind].example}`"

    def secret(self, reference: str) -> str:
        """Replace each `secret:NAME` of a text; `ToolError` if one is not set."""

        def value(found: re.Match[str]) -> str:
            if (known := self.secrets.get(found[1])) is None:
                what = f"the secret {found[1]} of {self.label} is not set"
                raise ToolError(what, f"set {found[1]} in the home's .env", "never")
            return known

        return SECRET_REFERENCE.sub(value, reference)

    def check_reach(self) -> None:
        """For what does not go over HTTP: refuse a host that a rule denies."""
        host = self.settings.destination
        if host and not self.reach(host, host, False):
            raise ToolError(f"a rule denies connections to {host!r}", retry="never")

    def parts(self) -> SplitResult:
        """Of the address, for what does not go over HTTP."""
        try:
            found = urlsplit(self.settings.url)
            _ = found.port
        except ValueError as error:
            raise self.invalid(error) from None
        return found

    @property
    def label(self) -> str:
        return f"{self.name} ({self.settings.destination or self.settings.kind})"

    def _headers(self) -> dict[str, str]:
        headers = {name: self.secret(value) for name, value in self.settings.headers.items()}
        if self.settings.token:
            headers["Authorization"] = f"Bearer {self.secret(self.settings.token)}"
        return {"Accept": "application/json", **COMPRESSED, **headers}

    def refuse(self, answer: httpx.Response, text: str) -> None:
        status = answer.status_code
        if answer.is_success:
            return
        if status in (401, 403):
            hint = f"check its token or password: `hermes sources test {self.name}`"
            raise ToolError(f"{self.label} refuses access ({status})", hint, "never")
        if answer.is_redirect:
            what = f"{self.label} redirects to {quoted(answer.headers.get('location', ''))}"
            raise ToolError(what, "set that as its url", "never")
        what = quoted(text or answer.reason_phrase)
        retry: Retry = "same" if status in (429, *GATEWAY) else "changed"
        kind = Unanswered if status in GATEWAY else ToolError
        raise kind(f"{self.label} answers {status}: {what}", retry=retry)


def segment(name: str) -> str:
    """A name as one part of a path. Servers decode `%2F` before they take a path apart, so what
    could be read as several parts is refused."""
    if name in ("", ".", "..") or not {"/", "%", "\\"}.isdisjoint(name):
        raise ToolError(f"not a valid name: {name!r}", retry="changed")
    return quote(name, safe="")


async def body_of(answer: httpx.Response, whose: str) -> bytes:
    """The content of a streamed answer, if it is not too large."""
    body = BoundedBody(answer.headers.get("content-encoding", ""), ANSWER_BYTES)
    async for piece in answer.aiter_raw():
        body.add(piece)
        if body.cut:
            raise ToolError(
                f"{whose} answers with more than {ANSWER_BYTES // 1_000_000} MB",
                "ask for less: a shorter time or fewer series", "changed",
            )  # fmt: skip
    return bytes(body.data)


def quoted(text: str) -> str:
    """What a server said, on one line, as a message of ours can hold it: the quotation marks show
    whose words they are."""
    return json.dumps(clean(shortened(text, TROUBLE_CHARS)), ensure_ascii=False)


@cache
def tls(ca_file: str) -> ssl.SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ToolError(f"cannot read the certificates in {ca_file!r}: {error}") from None
    return context


def configured(context: ToolContext, kinds: Sequence[SourceKind]) -> list[Source]:
    """The enabled sources of these kinds."""
    if context.http is None or context.reach is None:
        raise ToolError("the network is not available here", retry="never")
    return [
        Source(name, one, context.http, context.reach, context.secrets, context.clock)
        for name, one in context.settings.sources.items()
        if one.enabled and one.kind in kinds
    ]


def pick(context: ToolContext, name: str, *kinds: SourceKind) -> Source:
    """The named source, or the only one of these kinds."""
    found = configured(context, kinds)
    kind = " or ".join(kinds)
    if not found:
        hint = f"the user can add one: `hermes sources add {kinds[0]} URL`"
        raise ToolError(f"no source of the kind {kind} is set up", hint, "never")
    names = ", ".join(one.name for one in found)
    if not name and len(found) > 1:
        raise ToolError("several sources: which one?", f"`source` is one of: {names}", "changed")
    for one in found:
        if not name or one.name == name:
            return one
    raise ToolError(f"no source called {name!r}", f"of the kind {kind}: {names}", "changed")


def required(value: str, name: str, hint: str) -> str:
    """An argument that may not be empty."""
    if not value.strip():
        raise ToolError(f"`{name}` is empty", hint, "changed")
    return value


async def attempted(answer: Awaitable[Asked]) -> Asked | ToolError:
    """What is awaited, or why it cannot be had, where that is no reason to give up."""
    try:
        return await answer
    except ToolError as error:
        return error


async def settled(error: ToolError, look: Callable[[], Awaitable[Asked | None]]) -> Asked:
    """What an effect made although its answer did not come. One that is not found may still be on
    its way."""
    if not isinstance(error, Unanswered):
        raise error
    found = await attempted(look())
    if found is None or isinstance(found, ToolError):
        raise OutcomeUnknown(error.message) from None
    return found
