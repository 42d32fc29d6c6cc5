"""OAuth login to a server; tokens are stored in a file that only the user may read.

The SDK implements the protocol. It does not remember across processes when a token expires and
where it is renewed, so both are stored here and given back to it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from msgspec import Struct
from msgspec.structs import replace
from pydantic import AnyUrl

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.files import private_folder, write_private
from hermes_agent.core.protocols import Clock

EARLY_SECONDS = 30.0
"""A token is renewed this long before it expires."""
PATIENCE_SECONDS = 600.0
"""How long the login in the browser may take."""
_REFUSED = 1.0
"""Expiry of a refused token: long ago."""
_PAGE = b"<!doctype html><title>Hermes</title><p>You are logged in. Close this page."


class StoredTokens(Struct, frozen=True):
    """As JSON of the SDK's own models."""

    url: str
    tokens: str = ""
    ends: float = 0.0
    """When the access token expires; 0 when unknown."""
    client: str = ""
    server: str = ""
    resource: str = ""


class Tokens:
    """The SDK's storage for one server."""

    def __init__(
        self,
        path: Path,
        url: str,
        clock: Clock,
        learn: Callable[[str, str], None] = lambda _label, _secret: None,
    ) -> None:
        self._path = path
        self._url = url
        self._clock = clock
        self._learn = learn
        self.provider: OAuthClientProvider | None = None

    def read(self) -> StoredTokens:
        """What is stored for this URL; a token is sent nowhere else."""
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=StoredTokens)
        except FileNotFoundError:
            return StoredTokens(self._url)
        except msgspec.MsgspecError:
            raise HermesError(f"{self._path} is damaged", f"remove {self._path}") from None
        return kept if kept.url == self._url else StoredTokens(self._url)

    async def get_tokens(self) -> OAuthToken | None:
        kept = self.read()
        if not kept.tokens:
            return None
        token = OAuthToken.model_validate_json(kept.tokens)
        self._tell(token)
        if kept.ends and self._clock() > kept.ends - EARLY_SECONDS and token.refresh_token:
            token.access_token = ""  # makes the SDK renew it first
        return token

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tell(tokens)
        ends = self._clock() + tokens.expires_in if tokens.expires_in else 0.0
        assert self.provider is not None
        context = self.provider.context
        self._write(
            replace(
                self.read(),
                tokens=tokens.model_dump_json(exclude_none=True),
                ends=ends,
                server=_json(context.oauth_metadata),
                resource=_json(context.protected_resource_metadata),
            )
        )

    def _tell(self, tokens: OAuthToken) -> None:
        for secret in (tokens.access_token, tokens.refresh_token):
            if secret:
                self._learn("mcp token", secret)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        client = self.read().client
        return OAuthClientInformationFull.model_validate_json(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write(replace(self.read(), client=client_info.model_dump_json(exclude_none=True)))

    def expire(self) -> bool:
        """The access token was refused: renew it before the next use. False when it cannot be
        renewed, or has just been."""
        kept = self.read()
        token = OAuthToken.model_validate_json(kept.tokens) if kept.tokens else None
        if token is None or not token.refresh_token or kept.ends == _REFUSED:
            return False
        self._write(replace(kept, ends=_REFUSED))
        return True

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    def _write(self, kept: StoredTokens) -> None:
        private_folder(self._path.parent)
        write_private(self._path, msgspec.json.encode(kept))


def _json(model: OAuthMetadata | ProtectedResourceMetadata | None) -> str:
    return model.model_dump_json(exclude_none=True) if model is not None else ""


def authorization(
    tokens: Tokens,
    url: str,
    redirect: str = "http://127.0.0.1/callback",
    show: Callable[[str], Awaitable[None]] | None = None,
    answered: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
) -> OAuthClientProvider:
    """Adds the token to requests and renews it. Without `show` no login is started."""
    about = OAuthClientMetadata(
        client_name="Hermes",
        redirect_uris=[AnyUrl(redirect)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",  # noqa: S106 - the name of a method
    )
    provider = OAuthClientProvider(url, about, tokens, show, answered)
    tokens.provider = provider
    kept = tokens.read()
    if kept.server:
        provider.context.oauth_metadata = OAuthMetadata.model_validate_json(kept.server)
    if kept.resource:
        provider.context.protected_resource_metadata = (
            ProtectedResourceMetadata.model_validate_json(kept.resource)
        )
    return provider


class Loopback:
    """The local page that the login redirects to. Where the browser runs elsewhere, the URL it ends
    at can be pasted instead."""

    def __init__(self) -> None:
        self._arrived: asyncio.Future[AuthorizationCodeResult] = (
            asyncio.get_running_loop().create_future()
        )
        self._server: asyncio.Server | None = None

    async def open(self) -> str:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/callback"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def wait(self) -> AuthorizationCodeResult:
        return await asyncio.wait_for(self._arrived, PATIENCE_SECONDS)

    def paste(self, address: str) -> bool:
        """Take the URL that the browser ended at; False when it is not a redirect of the login."""
        found = parse_qs(urlsplit(address.strip()).query)
        given = {name: values[0] for name, values in found.items()}
        if self._arrived.done() or not ("code" in given or "error" in given):
            return False
        if "error" in given:
            said = given.get("error_description", given["error"])[:200]
            self._arrived.set_exception(UsageError(f"the login was refused: {said}"))
        else:
            self._arrived.set_result(
                AuthorizationCodeResult(
                    code=given["code"], state=given.get("state"), iss=given.get("iss")
                )
            )
        return True

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await reader.readline()).decode("latin-1").split()
            known = len(line) > 1 and line[1].startswith("/callback?") and self.paste(line[1])
            status, page = ("200 OK", _PAGE) if known else ("404 Not Found", b"")
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\n"
                f"content-length: {len(page)}\r\nconnection: close\r\n\r\n".encode()
                + page
            )
            await writer.drain()
        except (ConnectionError, ValueError):
            return  # a closed connection, or an endless line
        finally:
            writer.close()
