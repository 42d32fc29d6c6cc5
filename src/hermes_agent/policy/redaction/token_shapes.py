"""Secrets that are recognised by their shape alone: the tokens of known services, private keys,
passwords in URLs."""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from hermes_agent.policy.redaction.known_values import Span

_BEGIN = rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----"
_END = rb"-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----"
_HEADERS = rb"(?:\s{1,40}(?:\d+\|)?[A-Z][A-Za-z-]{3,20}: [^\r\n]{1,80}){0,4}"
_REST = _HEADERS + rb"(?:(?:\s{1,40}(?:\d+\|)?|\\n)[A-Za-z0-9+/=]{40,})+"
"""What follows the beginning where the end was cut off: full lines, perhaps numbered."""

PRIVATE_KEY = re.compile(_BEGIN + b"(?:(?:[^-]|-(?!----)){0,20000}" + _END + b"|" + _REST + b")")
KEY_BEGIN = re.compile(_BEGIN.decode())
KEY_OPENS = re.compile(r"-----B(?:E(?:G(?:I(?:N[A-Z0-9 ]{0,40}-{0,4})?)?)?)?$|-{1,5}$")
KEY_END = re.compile(_END.decode())

# No possessive quantifiers: Python 3.11.2, which Debian 12 has, gets them wrong.
# Each begins with plain letters, which the regex engine finds many times faster than a choice, and
# checks what stands before them afterwards. Tokens made of letters must have a digit in them,
# because prose has none; the look ahead is bounded so that hostile text costs no more than other.
_DIGIT = rb"(?=[A-Za-z_-]{0,80}\d)"

_TOKENS: tuple[tuple[str, str, bytes], ...] = (
    ("sk-key", "sk-", _DIGIT + rb"[A-Za-z0-9_-]{20,}"),
    *(("github-token", f"gh{kind}_", rb"[A-Za-z0-9]{20,}") for kind in "pousr"),
    ("github-token", "github_pat_", rb"[A-Za-z0-9_]{20,}"),
    ("gitlab-token", "glpat-", rb"[A-Za-z0-9_-]{20,}"),
    ("gitlab-token", "gldt-", rb"[A-Za-z0-9_-]{20,}"),
    ("gitlab-token", "glrt-", rb"[A-Za-z0-9_-]{20,}"),
    ("aws-key", "AKIA", rb"[A-Z0-9]{16}\b"),
    ("aws-key", "ASIA", rb"[A-Z0-9]{16}\b"),
    ("google-key", "AIza", rb"[A-Za-z0-9_-]{35}"),
    ("google-key", "GOCSPX-", rb"[A-Za-z0-9_-]{20,}"),
    ("slack-token", "xox", rb"[abceoprs]-" + _DIGIT + rb"[A-Za-z0-9-]{11,}"),
    ("slack-token", "xapp-", _DIGIT + rb"[A-Za-z0-9-]{20,}"),
    ("stripe-key", "sk_live_", rb"[A-Za-z0-9]{16,}"),
    ("stripe-key", "sk_test_", rb"[A-Za-z0-9]{16,}"),
    ("stripe-key", "rk_live_", rb"[A-Za-z0-9]{16,}"),
    ("stripe-key", "whsec_", _DIGIT + rb"[A-Za-z0-9+/=]{24,}"),
    ("npm-token", "npm_", rb"[A-Za-z0-9]{36}\b"),
    ("pypi-token", "pypi-", rb"AgE[A-Za-z0-9_-]{40,}"),
    ("huggingface-token", "hf_", rb"[A-Za-z]{30,}\b|hf_" + _DIGIT + rb"[A-Za-z0-9]{30,}"),
    ("digitalocean-token", "dop_v1_", rb"[0-9a-f]{40,}"),
    ("twilio-key", "SK", rb"[0-9a-f]{32}\b"),
    ("shopify-token", "shpat_", rb"[0-9a-fA-F]{32}"),
    ("docker-token", "dckr_pat_", rb"[A-Za-z0-9_-]{20,}"),
    ("grafana-token", "glsa_", rb"[A-Za-z0-9_]{32,}"),
    ("groq-key", "gsk_", _DIGIT + rb"[A-Za-z0-9]{40,}"),
    ("nvidia-key", "nvapi-", _DIGIT + rb"[A-Za-z0-9_-]{40,}"),
    ("tailscale-key", "tskey-", _DIGIT + rb"[A-Za-z0-9-]{20,}"),
    ("atlassian-token", "ATATT3", rb"[A-Za-z0-9_=-]{40,}"),
    ("linear-key", "lin_api_", rb"[A-Za-z0-9]{30,}"),
    ("age-key", "AGE-SECRET-KEY-1", rb"[A-Z0-9]{58}"),
    ("web-token", "eyJ", rb"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
)
"""Tokens that stand within a run: their first letters are looked for in the runs only."""

_AFTER: tuple[tuple[str, str, bytes], ...] = (
    ("azure-key", "AccountKey=", rb"[A-Za-z0-9+/]{40,}={0,2}"),
    ("azure-key", "SharedAccessKey=", rb"[A-Za-z0-9+/]{40,}={0,2}"),
    ("azure-signature", "sig=", rb"[A-Za-z0-9%+/]{40,}={0,2}"),
)
"""The same, but the first part stays."""

_NO_BLANK = rb"((?!\[redacted:|(?:pass|passwd|password|pwd|pw|\w\w?)@)"

_OTHERS: tuple[tuple[str, bytes, bytes], ...] = (
    ("sendgrid-key", b"SG.", rb"SG\.[\w-]{22}\.[\w-]{43}"),
    ("vault-token", b"hvs.", rb"hvs\.[\w-]{24,}"),
    ("google-token", b"ya29.", rb"ya29\.[\w-]{30,}"),
    ("telegram-token", b":AA", rb"(?<=\d\d\d\d\d\d\d\d):AA[\w-]{33}(?![\w-])"),
    (
        "url-password",
        b"://",
        rb"://[^\s/@:\"'<>]{0,100}:" + _NO_BLANK + rb"[^\s/@\"'<>${}]{1,200})@",
    ),
    ("bearer-token", b"earer ", rb"earer ((?=[A-Za-z._~+/-]{0,80}\d)[\w.~+/-]{16,}=*)"),
    ("sshpass", b"sshpass -p", rb"sshpass -p ?[\"']?((?![$<?])[^\s\"']{3,200})"),
)
"""Name, what must be in the text, the shape; where it has a group, only that is secret."""

_DISCORD = re.compile(rb"[MNO][\w-]{23,27}\.[\w-]{6}\.(?=[A-Za-z_-]{0,40}\d)[\w-]{27,40}(?![\w.-])")


def _dense(name: str, start: str, rest: bytes) -> tuple[str, bytes, bytes]:
    begin = start.encode()
    free = b"" if len(begin) > 5 else b"(?<![A-Za-z0-9_-]" + b"." * len(begin) + b")"
    return name, begin, re.escape(begin) + free + b"(?:" + rest + b")"


_DENSE = [_dense(*token) for token in _TOKENS] + [
    (name, start.encode(), start.encode() + b"(" + rest + b")") for name, start, rest in _AFTER
]
# Compiled when its sign is first seen: most signs never are, and all of them take long to compile.
_compiled = cache(re.compile)


def matches(text: bytes, sign: bytes, shape: bytes) -> Iterator[re.Match[bytes]]:
    """Each place where the shape fits, found by the sign that it begins with."""
    at = text.find(sign)
    pattern = _compiled(shape) if at >= 0 else None
    while pattern and at >= 0:
        found = pattern.match(text, at)
        if found:
            yield found
        at = text.find(sign, found.end() if found else at + 1)


def spans(shadow: bytes, dense: bytes, runs: Sequence[tuple[int, int]]) -> Iterator[Span]:
    if b"PRIVATE KEY-----" in shadow:
        for found in PRIVATE_KEY.finditer(shadow):
            yield *found.span(), "private-key"
    for name, sign, shape in _DENSE:
        if sign in dense:
            for found in matches(shadow, sign, shape):
                yield *found.span(found.re.groups), name
    for name, sign, shape in _OTHERS:
        for found in matches(shadow, sign, shape):
            yield *found.span(found.re.groups), name
    for start, end in runs:
        if shadow[end : end + 1] == b"." and end - start >= 24:
            start = max(start, end - 28, shadow.rfind(b"=", start, end) + 1)
            if discord := _DISCORD.match(shadow, start):
                yield *discord.span(), "discord-token"
