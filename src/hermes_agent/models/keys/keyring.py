"""Keys in the operating system's keyring. Only this module imports the library."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from hermes_agent.core.errors import HermesError, ModelError, UsageError
from hermes_agent.core.installation.extras import install_hint
from hermes_agent.models.keys.validation import Learn, checked
from hermes_agent.models.wires.base import Credential

SERVICE = "hermes"


def installed() -> bool:
    return find_spec("keyring") is not None


class KeyringSource:
    """One keyring entry, read once and again after a refusal."""

    where = "the system's keyring"

    def __init__(self, service: str, user: str, learn: Learn) -> None:
        self.label = f"keyring:{service}/{user}"
        self._service, self._user, self._learn = service, user, learn
        self._kept: Credential | None = None

    async def credential(self) -> Credential:
        if self._kept is None:
            # The keyring may ask the user to unlock it: not on this thread.
            secret = await asyncio.to_thread(read, self._service, self._user)
            if secret is None:
                raise ModelError(
                    "auth",
                    f"the system's keyring has no entry {self._service}/{self._user}",
                    "put it there with `hermes model key`, or name another source in models.keys",
                )
            self._learn(self.label, secret)
            self._kept = Credential(checked(secret, self.label), label=self.label)
        return self._kept

    def refused(self) -> None:
        self._kept = None

    def present(self) -> bool | None:
        return None if self._kept is None else True


def read(service: str, user: str) -> str | None:
    with _opened(lambda message, hint: ModelError("auth", message, hint)) as keyring:
        found: str | None = keyring.get_password(service, user)
    return found


def write(service: str, user: str, secret: str) -> None:
    with _opened(UsageError) as keyring:
        keyring.set_password(service, user, secret)


def remove(service: str, user: str) -> None:
    """Remove an entry, if it is there."""
    with _opened(UsageError) as keyring:
        if keyring.get_password(service, user) is not None:
            keyring.delete_password(service, user)


@contextmanager
def _opened(failure: Callable[[str, str], HermesError]) -> Iterator[Any]:
    """The library, with its errors turned into a `failure`."""
    if not installed():
        raise failure(
            "the system's keyring cannot be used: its library is not installed",
            install_hint("keyring"),
        )
    import keyring
    from keyring.errors import KeyringError

    try:
        yield keyring
    except KeyringError as error:
        # Not the backend's message: it may quote the secret.
        raise failure(
            f"the system's keyring cannot be used ({type(error).__name__})",
            "unlock it, or keep the key in the `.env` of the home",
        ) from None
