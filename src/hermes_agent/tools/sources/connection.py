"""Connects to a source of the settings: finds it by name, asks it over HTTP, reads JSON."""

import asyncio
import json
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from hermes_agent.core.errors import Retry, ToolError
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.sources import SourceKind, SourceSettings
from hermes_agent.core.text.format import shortened
from hermes_agent.core.text.terminal import clean
from hermes_agent.core.tools import EgressCheck, ToolContext
from hermes_agent.tools.web.client import BoundedBody

ANSWER_BYTES = 20_000_000
TROUBLE_CHARS = 300
ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading an answer raises that does not have the expected form."""
_SECRET = re.compile(r"secret:([A-Za-z_]\w*)")


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
        text = await self.text(method, path, **request)
        try:
            return json.loads(text) if text.strip() else None
        except (ValueError, RecursionError):
            raise ToolError(
                f"{self.label} did not answer with JSON: {quoted(text)}", retry="changed"
            ) from None

    async def text(self, method: str, path: str, **request: Any) -> str:
        answer, data = await self.reply(method, path, **request)
        text = data.decode(errors="replace")
        self.refuse(answer, text)
        return text

    async def reply(self, method: str, path: str, **request: Any) -> tuple[httpx.Response, bytes]:
        """The answer, whatever its status, and its content."""
        url, where = self.settings.url.rstrip("/") + path, {}
        if self.settings.url.startswith("unix://"):
            url, where = f"http://localhost{path}", {"socket": self.settings.url[7:]}
        seconds = self.settings.timeout_seconds
        headers = {**self._headers(), **request.pop("headers", {})}
        auth = (
            (self.settings.user, self.secret(self.settings.password))
            if self.settings.user
            else None
        )
        self.port()
        own = request.pop("verify", None)
        verify = (own or tls(self.settings.ca_file)) if url.startswith("https:") else False
        try:
            async with (
                asyncio.timeout(seconds),
                self.http(
                    timeout=seconds, verify=verify, follow_redirects=False, **where
                ) as client,
                client.stream(method, url, headers=headers, auth=auth, **request) as answer,
            ):
                body = BoundedBody(answer.headers.get("content-encoding", ""), ANSWER_BYTES)
                async for piece in answer.aiter_raw():
                    body.add(piece)
                    if body.cut:
                        raise ToolError(
                            f"{self.label} answers with more than {ANSWER_BYTES // 1_000_000} MB",
                            "ask for less: a shorter time or fewer series", "changed",
                        )  # fmt: skip
        except (TimeoutError, httpx.TimeoutException):
            raise ToolError(
                f"{self.label} took longer than {seconds:.0f} s", retry="same"
            ) from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise self.invalid(error) from None
        except (httpx.LocalProtocolError, UnicodeError):  # what it says has the header in it
            what = f"a header for {self.label} has characters that HTTP does not allow"
            raise ToolError(what, "check its headers and secrets", "never") from None
        except (httpx.HTTPError, ssl.SSLError) as error:  # TLS 1.3 refuses logins late
            what = str(error) or error.__class__.__name__
            hint = (
                f"does it run? `hermes config set sources.{self.name}.url URL` changes its address"
            )
            raise ToolError(f"cannot reach {self.label}: {what}", hint, "same") from None
        return answer, bytes(body.data)

    def port(self) -> int | None:
        """The port of its address; `ToolError` if that is not one."""
        try:
            return urlsplit(self.settings.url).port
        except ValueError as error:
            raise self.invalid(error) from None

    def invalid(self, why: object) -> ToolError:
        hint = f"`hermes config set sources.{self.name}.url URL`"
        return ToolError(f"{self.label} has an invalid address: {why}", hint, "never")

    def secret(self, reference: str) -> str:
        """Replace each `secret:NAME` of a text; `ToolError` if one is not set."""

        def value(found: re.Match[str]) -> str:
            if (known := self.secrets.get(found[1])) is None:
                raise ToolError(
                    f"the secret {found[1]} of {self.label} is not set",
                    f"set {found[1]} in the home's .env",
                    "never",
                )
            return known

        return _SECRET.sub(value, reference)

    def check_reach(self, address: str = "") -> None:
        """For what does not go over HTTP: refuse a host that a rule denies."""
        host = self.settings.destination
        if host and not self.reach(host, address or host, False):
            raise ToolError(f"a rule denies connections to {host!r}", retry="never")

    @property
    def label(self) -> str:
        return f"{self.name} ({self.settings.destination or self.settings.kind})"

    def _headers(self) -> dict[str, str]:
        headers = {name: self.secret(value) for name, value in self.settings.headers.items()}
        if self.settings.token:
            headers["Authorization"] = f"Bearer {self.secret(self.settings.token)}"
        return {"Accept": "application/json", "Accept-Encoding": "gzip, deflate", **headers}

    def refuse(self, answer: httpx.Response, text: str) -> None:
        status = answer.status_code
        if answer.is_success:
            return
        if status in (401, 403):
            hint = f"check its token or password: `hermes sources test {self.name}`"
            raise ToolError(f"{self.label} refuses access ({status})", hint, "never")
        if answer.is_redirect:
            where = answer.headers.get("location", "")
            raise ToolError(
                f"{self.label} redirects to {quoted(where)}", "set that as its url", "never"
            )
        what = quoted(text or answer.reason_phrase)
        retry: Retry = "same" if status in (429, 502, 503, 504) else "changed"
        raise ToolError(f"{self.label} answers {status}: {what}", retry=retry)


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
