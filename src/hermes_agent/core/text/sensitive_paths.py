"""Names of files that hold secrets or that other programs run. The gate asks before these are
touched, and a search leaves the secret ones out; both must mean the same files."""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import PurePosixPath

from hermes_agent.core.text.secret_files import SECRET_FILES, SECRET_KEYS, SECRET_NAMES

_SECRET_NAME = re.compile(
    r"""\.env(?!\.(?:example|sample|template|dist)$)(?:\..+)?
    |   .*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)
    |   id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?
    |   \.netrc | \.pgpass | \.npmrc | \.pypirc | \.git-credentials | \.htpasswd | \.vault-token
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube"})
_PART = re.compile(r"/\*\*$|\*|\[![a-z]\]|.")
_LEADS = {
    "~/.": r"(?:~|/root|/home/[^/]+|/Users/[^/]+)/\.", "/": "/", ".": r"(?:.*/)?\.",
    "": "(?:.*/)?",
}  # fmt: skip
_PARTS = {"/**": "(?:/.*)?", "*": "[^/]*"}


def expression(rows: Iterable[str]) -> str:
    """A regular expression for the paths that rows of the table of secret files mean."""
    below: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        # The dot is taken out of the alternatives: most names of a path have none.
        start = next((start for start in _LEADS if row.startswith(start)), "")
        parts = (part[0] for part in _PART.finditer(row.removeprefix(start)))
        below[start].append("".join(map(_translated, parts)))
    return "|".join(f"{_LEADS[start]}(?:{'|'.join(made)})" for start, made in below.items())


def _translated(part: str) -> str:
    if part.startswith("[!"):
        return part.replace("!", "^")
    return _PARTS.get(part) or re.escape(part)


_EXAMPLE = re.compile(
    r".*\.(?:example|sample|template|dist)|.*\.(?:pyc?|pyi|rb|go|js|ts|rs|c|h|so)"
)
"""Those of `.env`, and code: a library may have a module called `secrets`."""
_STARTUP_NAME = re.compile(
    r"""\.(?:bash|zsh|ksh|csh|tcsh)rc | \.bash_(?:profile|login|logout|aliases)
    |   \.z(?:shenv|profile|login|logout) | \.profile | \.login | \.envrc | \.inputrc
    |   config\.fish | \.gitconfig | \.vimrc | \.pythonrc
    """,
    re.VERBOSE | re.IGNORECASE,
)


# Made at the first use: the tables take tens of milliseconds to compile.
@cache
def _well_known() -> re.Pattern[str]:
    return re.compile(expression((*SECRET_FILES, *SECRET_KEYS)))


@cache
def _asked_about() -> re.Pattern[str]:
    return re.compile(expression(SECRET_NAMES))


@cache
def _names_in_lines() -> re.Pattern[str]:
    rows = (*SECRET_FILES, *SECRET_KEYS, *SECRET_NAMES)
    names = {row.removesuffix("/**").rpartition("/")[2].lower() for row in rows}
    known = (
        "".join(_translated(part[0]) for part in _PART.finditer(name)).replace("[^/]", r"[^/\n]")
        for name in sorted(names)
    )
    return re.compile(
        rf"^(?:{'|'.join((_SECRET_NAME.pattern, *known))})$",
        re.VERBOSE | re.IGNORECASE | re.MULTILINE,
    )


def holds_secrets(path: str) -> bool:
    """By its name: an environment file, a private key, a file of the table."""
    parts = PurePosixPath(path).parts
    if any(part.lower() in _SECRET_FOLDERS for part in parts):
        return True
    if bool(parts) and _SECRET_NAME.fullmatch(parts[-1]):
        return True
    return _well_known().fullmatch(str(PurePosixPath(path))) is not None


def may_hold_secrets(path: str) -> bool:
    """The same, or one of the names that are asked about."""
    asked = _asked_about().fullmatch(path) is not None and not _EXAMPLE.fullmatch(path)
    return asked or holds_secrets(path)


def is_example(path: str) -> bool:
    return _EXAMPLE.fullmatch(path) is not None


def sounding_secret(names: Iterable[str]) -> list[str]:
    """The names that a file with secrets may have somewhere: a quick test of many."""
    plain: list[str] = []
    odd: list[str] = []
    for name in names:
        (odd if "\n" in name else plain).append(name)
    return odd + [match[0] for match in _names_in_lines().finditer("\n".join(plain))]


def is_run_by_others(path: str) -> bool:
    """By its name: a shell's start-up file, a git hook or git's settings, a systemd or desktop
    start. What is written there runs later, outside the gate."""
    parts = tuple(part.lower() for part in PurePosixPath(path).parts)
    pairs = tuple(pairwise(parts))
    if (".git", "hooks") in pairs or (".git", "config") in pairs:
        return True
    if (".config", "autostart") in pairs or ("systemd", "user") in pairs:
        return True
    return bool(parts) and _STARTUP_NAME.fullmatch(parts[-1]) is not None
