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

_BEGIN = r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----"
_END = r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----"
_REST = r"(?:(?:\s{1,40}(?:\d+\|)?|\\n)[A-Za-z0-9+/=]{40,})+"
"""What follows the beginning where the end was cut off: full lines, perhaps numbered."""

# No possessive quantifiers: Python 3.11.2, which Debian 12 has, gets them wrong.
# Each begins with plain letters, which the regex engine finds many times faster than a choice, and
# checks what stands before them afterwards. Tokens made of letters must have a digit in them,
# because prose has none; the look ahead is bounded so that hostile text costs no more than other.
_SHAPES: tuple[tuple[str, str], ...] = (
    ("private-key", _BEGIN + r"(?:(?:[^-]|-(?!----)){0,20000}" + _END + "|" + _REST + ")"),
    ("sk-key", r"sk-(?<!\wsk-)(?=[A-Za-z_-]{0,80}\d)[A-Za-z0-9_-]{20,}"),
    ("github-token", r"gh[pousr]_(?<!\w....)[A-Za-z0-9]{20,}"),
    ("github-token", r"github_pat_[A-Za-z0-9_]{20,}"),
    ("gitlab-token", r"glpat-[A-Za-z0-9_-]{20,}"),
    ("aws-key", r"AKIA(?<!\wAKIA)[A-Z0-9]{16}\b"),
    ("aws-key", r"ASIA(?<!\wASIA)[A-Z0-9]{16}\b"),
    ("google-key", r"AIza[A-Za-z0-9_-]{35}"),
    ("slack-token", r"xox[abeprs]-(?=[A-Za-z-]{0,80}\d)[A-Za-z0-9-]{10,}"),
    ("stripe-key", r"sk_live_[A-Za-z0-9]{16,}"),
    ("stripe-key", r"rk_live_[A-Za-z0-9]{16,}"),
    ("web-token", r"eyJ(?<![\w-]eyJ)[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    ("bearer-token", r"((?i:earer) )(?=[A-Za-z._~+/-]{0,80}\d)[A-Za-z0-9._~+/-]{16,}=*"),
)


class Redactor:
    """Replaces each secret in a text with `[redacted:NAME]`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._names = _known(environ)
        # The longest first: one value may begin with another.
        values = sorted(self._names, key=len, reverse=True)
        self._known = re.compile("|".join(re.escape(value) for value in values))
        self._shapes = [(re.compile(shape), f"[redacted:{name}]") for name, shape in _SHAPES]

    def __call__(self, text: str) -> str:
        if self._names:
            text = self._known.sub(lambda found: f"[redacted:{self._names[found[0]]}]", text)
        for shape, instead in self._shapes:
            text = shape.sub(rf"\g<1>{instead}" if shape.groups else instead, text)
        return text

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
