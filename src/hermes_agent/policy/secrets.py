"""Secrets by name, from the environment and from `.env` in the home. A rule grants one to a tool;
nothing else reads them."""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from hermes_agent.core.errors import NotFound, UsageError

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?)?KEYS?$|TOKENS?$|SECRETS?$|PASSW(?:OR)?D$|PASSPHRASE$|CREDENTIALS?$|APIKEY$",
    re.IGNORECASE,
)
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?""")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def is_secret(name: str, value: str) -> bool:
    """Whether an environment variable holds a secret, by its name."""
    path = name.upper().endswith("CREDENTIALS") and value.startswith(("/", "~"))
    return bool(value.strip()) and not path and _SECRET_NAME.search(name) is not None


class Secrets:
    """Every secret-named variable of the environment, and everything in `<home>/.env`. Where both
    have a name, the environment counts."""

    def __init__(self, environ: Mapping[str, str], home: Path) -> None:
        self._file = home / ".env"
        named = {name: value for name, value in environ.items() if is_secret(name, value)}
        self._values = {**_read(self._file), **named}

    def beside(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment with what the file adds to it."""
        return {**self._values, **environ}

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._values))

    def get(self, name: str) -> str:
        try:
            return self._values[name]
        except KeyError:
            _read(self._file)  # raises when the file exists and cannot be read
            raise NotFound(
                f"no secret called {name!r}", f"add {name}=… to {str(self._file)!r}"
            ) from None


def _read(file: Path) -> dict[str, str]:
    try:
        # One descriptor for both, so that what is checked is what is read.
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            if mode & 0o077:
                raise UsageError(
                    f"others can read the secrets in {str(file)!r} (mode {mode:04o})",
                    f"chmod 600 {file}",
                )
            text = opened.read().decode()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise UsageError(f"{str(file)!r} is not UTF-8: {error.reason}") from None
    except OSError as error:
        raise UsageError(f"cannot read {str(file)!r}: {error.strerror}") from None
    return parse(text, str(file))


def parse(text: str, source: str) -> dict[str, str]:
    """Lines `NAME=value`, perhaps with `export`, quotes and comments. Values stay as they are:
    nothing in them is expanded."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            # The line itself is not shown: it may be half a secret.
            raise UsageError(
                f"line {number} of {source!r} is not NAME=value",
                "put a value of several lines in double quotes, with \\n for each newline",
            )
        values[found[1]] = _value(found[2], number, source)
    return values


def _value(written: str, number: int, source: str) -> str:
    if not written.startswith(('"', "'")):
        return re.split(r"\s#", written, maxsplit=1)[0].strip()
    quoted = _QUOTED.fullmatch(written)
    if quoted is None:
        raise UsageError(
            f"line {number} of {source!r} has an unclosed quote",
            "put a value of several lines in double quotes, with \\n for each newline",
        )
    if quoted[2] is not None:
        return quoted[2]
    return re.sub(r"\\(.)", lambda mark: _ESCAPES.get(mark[1], mark[1]), quoted[1])
