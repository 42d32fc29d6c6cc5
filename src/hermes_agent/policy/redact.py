"""Take secrets out of a text before it is written down or shown to a model.

This finds the values of secret environment variables as they are, and keys of well-known shape.
A secret that was encoded or split is not recognised: keeping secrets from commands in the first
place is what protects them."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

SHORTEST = 8
"""Shorter values are too likely to be ordinary words."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?)?KEYS?$|TOKENS?$|SECRETS?$|PASSW(?:OR)?D$|PASSPHRASE$|CREDENTIALS?$|APIKEY$",
    re.IGNORECASE,
)

# Tokens made of letters must have a digit in them: prose has none.
_SHAPES: Mapping[str, str] = {
    "private_key": (
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----"
        r"(?:[\s\S]{0,20000}?-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----"
        r"|(?:(?:\s+(?:\d+\|)?|\\n)[A-Za-z0-9+/=]{40,})+)"
    ),
    "sk_key": r"\bsk-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}",
    "github_token": r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    "gitlab_token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "aws_key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "google_key": r"\bAIza[A-Za-z0-9_-]{35}",
    "slack_token": r"\bxox[abeprs]-(?=[A-Za-z-]*\d)[A-Za-z0-9-]{10,}",
    "stripe_key": r"\b[rs]k_live_[A-Za-z0-9]{16,}",
    "web_token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "bearer_token": r"(?<=(?i:bearer) )(?=[A-Za-z._~+/-]*\d)[A-Za-z0-9._~+/-]{16,}=*",
}


class Redactor:
    """Replaces each secret in a text with `[redacted:NAME]`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._names = _known(environ)
        # The longest first: one value may begin with another.
        values = sorted(self._names, key=len, reverse=True)
        parts = [f"(?P<{name}>{shape})" for name, shape in _SHAPES.items()]
        if values:
            parts.insert(0, "(?P<known>" + "|".join(re.escape(value) for value in values) + ")")
        self._pattern = re.compile("|".join(parts))

    def __call__(self, text: str) -> str:
        return self._pattern.sub(self._replacement, text)

    def deep(self, value: Any) -> Any:
        """The same JSON-like value with every text in it redacted, the keys of objects too."""
        match value:
            case str():
                return self(value)
            case dict():
                return {self.deep(key): self.deep(inner) for key, inner in value.items()}
            case list() | tuple():
                return [self.deep(inner) for inner in value]
        return value

    def _replacement(self, found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        name = self._names[found[0]] if kind == "known" else kind.replace("_", "-")
        return f"[redacted:{name}]"


def _known(environ: Mapping[str, str]) -> dict[str, str]:
    """Secret values and the variables they come from, also as JSON would write them."""
    names: dict[str, str] = {}
    for name, value in sorted(environ.items()):
        path = name.upper().endswith("CREDENTIALS") and value.startswith(("/", "~"))
        if len(value.strip()) < SHORTEST or path or not _SECRET_NAME.search(name):
            continue
        names.setdefault(value.strip(), name)
        names.setdefault(msgspec.json.encode(value.strip()).decode()[1:-1], name)
    return names
