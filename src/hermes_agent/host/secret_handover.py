"""Hands secrets to a new runtime outside its environment: every process of the same user can read
that in `/proc/PID/environ`, for as long as the runtime lives."""

import os
import sys
from collections.abc import Mapping, MutableMapping

from hermes_agent.core.errors import UsageError
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.policy.secrets import is_secret

VARIABLE = "HERMES_SECRETS_FD"
"""Names the open file with the variables that were set apart."""

_NEEDED_TO_START = ("PYTHON", "LD_", "LC_", "HERMES_HOME")


def set_apart(environ: Mapping[str, str]) -> tuple[dict[str, str], int | None]:
    """The environment without what is or holds a secret, and an open file, in memory, with the
    rest; None if there is none. The caller closes it once the new process has it."""
    redact = Redactor({})
    apart = {
        name: value
        for name, value in environ.items()
        if is_secret(name, value)
        or (redact(value) != value and name != "PATH" and not name.startswith(_NEEDED_TO_START))
    }
    plain = {name: value for name, value in environ.items() if name not in apart}
    if not apart:
        return plain, None
    file = os.memfd_create("secrets")
    with os.fdopen(file, "wb", closefd=False) as writing:
        writing.write(b"\0".join(os.fsencode(f"{name}={value}") for name, value in apart.items()))
    os.lseek(file, 0, os.SEEK_SET)
    return {**plain, VARIABLE: str(file)}, file


def receive(environ: MutableMapping[str, str]) -> dict[str, str]:
    """The environment with what was set apart. Secrets by name stay out of `environ`, so that no
    child process inherits them; the rest, such as a proxy with a password, is put back for the
    libraries that look for it there, which `/proc` does not show."""
    try:
        with os.fdopen(int(environ.pop(VARIABLE)), "rb") as file:
            entries = [os.fsdecode(entry).partition("=") for entry in file.read().split(b"\0")]
    except (ValueError, OSError):
        raise UsageError(f"{VARIABLE} names no open file", f"unset {VARIABLE}") from None
    apart = {name: value for name, _, value in entries}
    environ.update({name: value for name, value in apart.items() if not is_secret(name, value)})
    return {**environ, **apart}


def own_environment(environ: MutableMapping[str, str]) -> dict[str, str]:
    """What a runtime works with. Started with secrets in its environment, this process executes
    itself again without them."""
    if VARIABLE in environ:
        return receive(environ)
    plain, file = set_apart(environ)
    if file is not None:
        os.set_inheritable(file, True)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], plain)  # noqa: S606
    return plain
