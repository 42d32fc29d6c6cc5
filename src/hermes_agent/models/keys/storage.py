"""Stores keys where `keys.sources` finds them, and removes them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.files import credentials_file, private_folder, write_private
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.keys.tokens import forget_token
from hermes_agent.models.keys.validation import checked

Where = Literal["env-file", "keyring"]


def store_key(name: str, service: ModelService, secret: str, where: Where, home: Path) -> str:
    """Store the key of a service; returns where, for people."""
    try:
        checked(secret, "your input")
    except ModelError as error:
        raise UsageError(error.message, error.hint) from None
    marker = credentials_file(home, name, "keyring")
    if where == "keyring":
        from hermes_agent.models.keys.keyring import SERVICE, write

        write(SERVICE, name, secret)
        # Without this marker the keyring, which may prompt the user, is not opened.
        private_folder(marker.parent)
        write_private(marker, b"")
        return f"the system's keyring, as {SERVICE}/{name}"
    if not service.key_variables:
        raise UsageError(
            f"no variable is known for the key of {name}",
            f"name one in models.services.{name}.key_variables, or use the keyring",
        )
    return store_secret(service.key_variables[0], secret, home)


def store_secret(variable: str, secret: str, home: Path) -> str:
    """Store a secret in `.env`; returns where, for people."""
    if not secret.isprintable():
        raise UsageError("a secret is one line of printable characters")
    file = _env_file(home)
    _write_lines(file, [*_without(_lines(file), (variable,)), f"{variable}={_quoted(secret)}"])
    return f"{variable} in {str(file)!r}"


def forget_key(name: str, service: ModelService, home: Path) -> tuple[str, ...]:
    """Remove the keys of a service: its variables in `.env`, its keyring entry and its login.
    Returns what was there, for people."""
    gone: list[str] = []
    file = _env_file(home)
    lines = _lines(file)
    rest = _without(lines, service.key_variables)
    if rest != lines:
        _write_lines(file, rest)
        gone.append(f"the key in {str(file)!r}")
    marker = credentials_file(home, name, "keyring")
    if marker.exists():
        from hermes_agent.models.keys.keyring import SERVICE, remove

        remove(SERVICE, name)
        marker.unlink()
        gone.append("the key in the system's keyring")
    if forget_token(home, name):
        gone.append("the login")
    return tuple(gone)


def _env_file(home: Path) -> Path:
    return (home / ".env").resolve()  # a link stays a link


def _lines(file: Path) -> list[str]:
    try:
        # Surrogates, so that a line that is not UTF-8 is kept as it is.
        text = file.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read {str(file)!r}: {error.strerror}") from None
    return text.removesuffix("\n").split("\n") if text else []


def _without(lines: Sequence[str], variables: Sequence[str]) -> list[str]:
    """The lines that do not set any of the variables."""
    sets = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=")
    return [line for line in lines if not ((m := sets.match(line)) and m[1] in variables)]


def _write_lines(file: Path, lines: Sequence[str]) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in lines)
    try:
        write_private(file, text.encode(errors="surrogateescape"))
    except OSError as error:
        raise UsageError(f"cannot write {str(file)!r}: {error.strerror}") from None


def _quoted(secret: str) -> str:
    """Quoted so that reading `.env` returns it unchanged."""
    if not secret.startswith(('"', "'")) and " " not in secret:
        return secret
    return '"' + secret.replace("\\", "\\\\").replace('"', '\\"') + '"'
