"""Finds the keys of a service: the sources that the settings name, or the usual places."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.files import credentials_file
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.keys.validation import KeyOrigin, Learn, SourceRow, checked, described
from hermes_agent.models.wires.base import Credential

__all__ = ["KeyOrigin", "SourceRow", "described", "sources"]

BEDROCK_TOKEN = "AWS_BEARER_TOKEN_BEDROCK"  # noqa: S105  the variable's name


def sources(
    name: str,
    service: ModelService,
    written: Sequence[str],
    environ: Mapping[str, str],
    home: Path,
    learn: Learn,
    clock: Clock,
) -> tuple[KeyOrigin, ...]:
    """The sources that `written` (`models.keys` of this service) names; if it is empty, the first
    of the usual places that has a key. Runs no command and opens no keyring yet."""
    finder = _SourceFinder(name, service, environ, home, learn, clock)
    if written:
        entries = dict.fromkeys(written)  # without duplicates
        return tuple(finder.named(entry, number) for number, entry in enumerate(entries, 1))
    found = finder.usual()
    return () if found is None else (found,)


class EnvSource:
    """An environment variable, as it was when the process started."""

    where = "the environment"

    def __init__(self, variable: str, environ: Mapping[str, str], learn: Learn) -> None:
        self.label = variable
        self._secret = environ.get(variable, "")
        if self._secret.strip():
            learn(variable, self._secret)

    async def credential(self) -> Credential:
        if not self.present():
            raise ModelError(
                "auth",
                f"the variable {self.label} is not set",
                f"write {self.label}=… into the `.env` of the home, or export it",
            )
        return Credential(checked(self._secret, self.label), label=self.label)

    def refused(self) -> None:
        """Nothing to do: a variable does not change."""

    def present(self) -> bool:
        return bool(self._secret.strip())


class _SourceFinder:
    """Makes the key sources of one service."""

    def __init__(
        self,
        name: str,
        service: ModelService,
        environ: Mapping[str, str],
        home: Path,
        learn: Learn,
        clock: Clock,
    ) -> None:
        self._name, self._service, self._environ = name, service, environ
        self._home, self._learn, self._clock = home, learn, clock

    def named(self, entry: str, number: int) -> KeyOrigin:
        kind, _, rest = entry.strip().partition(":")
        rest = rest.strip()
        if kind == "env" and rest:
            return EnvSource(rest, self._environ, self._learn)
        if kind == "keyring" and rest:
            return self._keyring(*_entry_of(rest))
        if kind == "command" and rest:
            from hermes_agent.models.keys.command import CommandSource

            label = f"command {number} of {self._name}"
            return CommandSource(label, rest, self._environ, self._home, self._learn, self._clock)
        if kind == "login" and not rest:
            return self._login()
        # The entry is not shown: it may be the key itself.
        raise UsageError(
            f"entry {number} of models.keys.{self._name} is not a valid key source",
            "use env:NAME, keyring:NAME, command:… or login",
        )

    def usual(self) -> KeyOrigin | None:
        bedrock = self._service.wire == "bedrock"
        # AWS's other variables are not bearer tokens.
        for variable in (BEDROCK_TOKEN,) if bedrock else self._service.key_variables:
            if self._environ.get(variable, "").strip():
                return EnvSource(variable, self._environ, self._learn)
        if self._kept("json") and self._service.login is not None:
            return self._login()
        if bedrock:
            from hermes_agent.models.keys.aws import aws_source

            if found := aws_source(self._environ, self._learn, self._clock):
                return found
        if self._kept("keyring"):
            from hermes_agent.models.keys.keyring import SERVICE, installed

            if installed():
                return self._keyring(SERVICE, self._name)
        return None

    def _kept(self, kind: str) -> bool:
        return credentials_file(self._home, self._name, kind).exists()

    def _keyring(self, service: str, user: str) -> KeyOrigin:
        from hermes_agent.models.keys.keyring import KeyringSource

        return KeyringSource(service, user, self._learn)

    def _login(self) -> KeyOrigin:
        from hermes_agent.models.keys.tokens import LoginSource

        login = self._service.login
        if login is None:
            raise UsageError(
                f"{self._name} does not support logging in with a code",
                f"name another source in models.keys.{self._name}, or describe its login in "
                f"models.services.{self._name}.login",
            )
        return LoginSource(self._name, login, self._home, self._learn, self._clock)


def _entry_of(written: str) -> tuple[str, str]:
    """Service and user of a keyring entry."""
    from hermes_agent.models.keys.keyring import SERVICE

    service, slash, user = written.partition("/")
    return (service, user) if slash and service and user else (SERVICE, written)
