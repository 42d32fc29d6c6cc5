"""Names of files that hold secrets or that other programs run. The gate asks before these are
touched, and a search leaves the secret ones out; both must mean the same files."""

import re
from itertools import pairwise
from pathlib import PurePosixPath

_SECRET_NAME = re.compile(
    r"""\.env(?!\.(?:example|sample|template|dist)$)(?:\..+)?
    |   .*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)
    |   id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?
    |   \.netrc | \.pgpass | \.npmrc | \.pypirc | \.git-credentials | \.htpasswd | \.vault-token
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube"})
_STARTUP_NAME = re.compile(
    r"""\.(?:bash|zsh|ksh|csh|tcsh)rc | \.bash_(?:profile|login|logout|aliases)
    |   \.z(?:shenv|profile|login|logout) | \.profile | \.login | \.envrc | \.inputrc
    |   config\.fish | \.gitconfig | \.vimrc | \.pythonrc
    """,
    re.VERBOSE | re.IGNORECASE,
)


def holds_secrets(path: str) -> bool:
    """By its name: an environment file, a private key, a credentials file."""
    parts = PurePosixPath(path).parts
    if any(part.lower() in _SECRET_FOLDERS for part in parts):
        return True
    return bool(parts) and _SECRET_NAME.fullmatch(parts[-1]) is not None


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
