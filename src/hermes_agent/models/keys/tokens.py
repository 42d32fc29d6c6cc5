"""Login tokens, stored in the home. Only one process renews a token at a time."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from hermes_agent.core.errors import ModelError
from hermes_agent.core.files import credentials_file, private_folder, try_lock, write_private
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.services import DeviceLogin
from hermes_agent.models.keys.login import Token, over, post_by_http, renew
from hermes_agent.models.keys.validation import Learn, checked
from hermes_agent.models.wires.base import Credential

EARLY_SECONDS = 120.0
"""Renew a token this long before it expires: a reply may stream for a while."""
_LOCK_SECONDS = 90.0
_LOCK_PAUSE = 0.05


def stored_token(home: Path, name: str) -> Token | None:
    path = credentials_file(home, name, "json")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Token)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        raise ModelError(
            "auth", f"the saved login {str(path)!r} is damaged", f"hermes model login {name}"
        ) from None
    except OSError as error:
        raise ModelError("auth", f"cannot read {str(path)!r}: {error.strerror}") from None


def save_token(home: Path, name: str, token: Token) -> None:
    path = credentials_file(home, name, "json")
    private_folder(path.parent)
    write_private(path, msgspec.json.encode(token))


def forget_token(home: Path, name: str) -> bool:
    """Delete the token; returns whether there was one."""
    path = credentials_file(home, name, "json")
    there = path.exists()
    path.unlink(missing_ok=True)
    credentials_file(home, name, "lock").unlink(missing_ok=True)
    return there


@asynccontextmanager
async def renewing(home: Path, name: str) -> AsyncIterator[None]:
    """Hold the renewal lock of this home."""
    path = credentials_file(home, name, "lock")
    private_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        await _lock(handle, name)
        yield
    finally:
        os.close(handle)  # releases the lock


async def _lock(handle: int, name: str) -> None:
    try:
        async with asyncio.timeout(_LOCK_SECONDS):
            while not try_lock(handle):
                # Not in a thread: one that waits for a lock cannot be cancelled.
                await asyncio.sleep(_LOCK_PAUSE)
    except TimeoutError:
        raise ModelError(
            "timeout", f"another process has been renewing the login of {name} for too long"
        ) from None


class LoginSource:
    """The token of a login, renewed before it expires and after a refusal."""

    where = "the home"

    def __init__(
        self, name: str, login: DeviceLogin, home: Path, learn: Learn, clock: Clock
    ) -> None:
        self.label = f"the login of {name}"
        self._name, self._login, self._home = name, login, home
        self._learn, self._clock = learn, clock
        self._renewal: asyncio.Task[Token] | None = None
        self._given = ""
        self._refused = ""
        self._spent = ""
        """A refresh token that was refused; using it again is pointless."""

    async def credential(self) -> Credential:
        token = self._read()
        if not self._good(token):
            if self._renewal is None or self._renewal.done():
                self._renewal = asyncio.create_task(self._renew())
                self._renewal.add_done_callback(_seen)
            # The caller may be cancelled, a renewal may not: once the service has issued the new
            # token, the old one is invalid.
            token = await asyncio.shield(self._renewal)
        self._given = token.access
        return Credential(checked(token.access, self.label), id=token.account, label=self.label)

    def refused(self) -> None:
        self._refused = self._given

    def present(self) -> bool:
        return credentials_file(self._home, self._name, "json").exists()

    def _read(self) -> Token:
        token = stored_token(self._home, self._name)
        if token is None:
            raise ModelError(
                "auth", f"not logged in with {self._name}", f"hermes model login {self._name}"
            )
        self._learned(token)
        return token

    def _learned(self, token: Token) -> None:
        for secret in (token.access, token.refresh):
            if secret:
                self._learn(self.label, secret)

    def _good(self, token: Token) -> bool:
        if token.access == self._refused:
            return False
        return not token.expires or self._clock() < token.expires - EARLY_SECONDS

    async def _renew(self) -> Token:
        async with renewing(self._home, self._name):
            token = self._read()  # another process may have renewed it meanwhile
            return token if self._good(token) else await self._renewed(token)

    async def _renewed(self, token: Token) -> Token:
        if not token.refresh or token.refresh == self._spent:
            raise over(self._name)
        try:
            new = await renew(self._name, self._login, token, post_by_http, self._clock)
        except ModelError as error:
            if not error.passing:
                self._spent = token.refresh
            elif token.access != self._refused and self._clock() < token.expires:
                return token  # still valid; the next call tries again
            raise
        self._learned(new)
        save_token(self._home, self._name, new)
        return new


def _seen(renewal: asyncio.Task[Token]) -> None:
    """Mark an exception as retrieved, even if no caller waits any more."""
    if not renewal.cancelled():
        renewal.exception()
