"""Secrets that are recognised by the name in front of them: `password=…`, `"token": "…"`,
`--api-key …`, `Authorization: …`, in whatever format the line is written."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from hermes_agent.policy.redaction.entropy import entropy, wordy
from hermes_agent.policy.redaction.known_values import Span
from hermes_agent.policy.redaction.token_shapes import matches

# All of these run over the text in lower case and begin with plain letters (see redact_shapes).
# A name ends with its word: `token_count` and `password_file` are no secrets.
_PAIR = rb"(?:,|\r?\n)\s{0,40}\\?[\"']?value\\?[\"']?[ \t]?[:=][ \t]{0,8}"
"""Between `name: DB_PASSWORD` and what follows `value:` after it."""
_JOIN = (
    rb"\d{0,2}(?P<named>\\?[\"'])?"
    rb"(?P<join>[ \t]{0,8}(?:=>|:=|=|:)[ \t]{0,8}|(?P<pair>" + _PAIR + rb")|[ \t]{1,4}|>)"
)
_OPEN = rb"(?P<quote>\\?[\"'])?"


class _Word(NamedTuple):
    """A word that names secrets."""

    name: str
    sign: bytes
    pattern: bytes
    strong: bool = False
    """It says password: what follows need not look random."""
    after: re.Pattern[bytes] | None = None
    """What must stand before it, where the word alone says too little."""


def _word(
    name: str, sign: bytes, rest: bytes, after: bytes = b"", *, strong: bool = False
) -> _Word:
    before = re.compile(b"(?:" + after + b")$") if after else None
    return _Word(name, sign, sign + rest + _JOIN + _OPEN, strong, before)


_WORDS = (
    _word("password", b"passw", rb"(?:or)?d", strong=True),
    _word("password", b"passphrase", rb"", strong=True),
    _word("password", b"_pass", rb"", strong=True),
    _word("password", b"pwd", rb"", strong=True),
    _word("secret", b"secret", rb"(?:[_-]?(?:key|access[_-]?key|token|value|key[_-]?base))?"),
    _word("token", b"token", rb""),
    _word("key", b"key", rb"", rb"(?:api|access|private|account|encryption|signing|auth)[_-]?"),
    _word("credential", b"credential", rb"s?"),
    _word("credential", b"auth", rb"", rb"_|(?:^|[\s{,])\\?[\"']"),
)

_QUOTED = {
    b'"': re.compile(rb"[^\"\\\r\n]{0,256}(?:\\[^\r\n][^\"\\\r\n]{0,64}){0,8}"),
    b"'": re.compile(rb"[^'\\\r\n]{0,256}(?:\\[^\r\n][^'\\\r\n]{0,64}){0,8}"),
    b'\\"': re.compile(rb"[^\"\\\r\n]{0,256}"),
    b"\\'": re.compile(rb"[^'\\\r\n]{0,256}"),
}
_CLOSELY = 64
"""How much of a value is looked at to tell whether it is a secret."""
_BARE = re.compile(rb"[^\s\"'`,;&|<>(){}\[\]\\]{1,256}")
_SHELL = re.compile(rb"[^\s\"'`<>\\]{1,256}")
_OPTION = re.compile(rb"--[a-z0-9-]{0,30}$")
_VARIABLE = re.compile(rb"(?:^|[\s\"';])[A-Z][A-Z0-9_]{0,60}$")

_HEADER = (
    rb"authorization(?:\\?[\"'])?[ \t]{0,4}[:=][ \t]{0,4}(?:\\?[\"'])?"
    rb"(?:(?:bearer|basic|token|digest|negotiate|apikey|aws4-hmac-sha256)[ \t]+)?"
)
_HEADER_VALUE = re.compile(rb"[^\s\"'\\<>{}$\[]{8,4096}(?:[ \t]?,[ \t]?[^\s\"'\\]{1,512}){0,9}")
_COOKIE = rb"cookie(?:\\?[\"'])?[ \t]{0,4}:[ \t]{0,4}(?:\\?[\"'])?"
_COOKIE_PAIR = re.compile(
    rb"[ \t]{0,4}([^\s=;,\"']{1,128})=([^\s;,\"'\\]{0,4096})(?:;|(?=[\s\"'\\])|$)"
)
_COOKIE_FACTS = frozenset({b"path", b"domain", b"expires", b"max-age", b"samesite", b"version"})

_USER = rb"[\"']?[^\s:\"'$]{1,64}:([^\s\"'$]{3,200})"
_OPTIONS = (
    (b"curl", b" -u", rb" -u ?" + _USER),
    (b"curl", b"-user", rb"-user[ =]" + _USER),
    (b"mysql", b" -p", rb" -p[\"']?([^\s\"'$-][^\s\"']{2,100})"),
)
"""Options that mean a password in one program, and something else in others."""

_DUMMIES = frozenset(
    b"password passwd secret token string integer number boolean optional required hidden example "
    b"changeme change-me placeholder default none null true false undefined disabled enabled "
    b"unknown redacted removed masked omitted prompt plaintext bearer basic".split()
)
_TYPES = re.compile(
    rb"(?:u?int|float|bytes?|utf|base|sha|md|str|char|string|binary)_?\d{1,3}", re.IGNORECASE
)
_HEX = re.compile(rb"[0-9a-fA-F]{16,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DIGIT = re.compile(rb"[0-9]")
_LETTER = re.compile(rb"[A-Za-z]")
_NUMBER = re.compile(rb"[\d.,]{1,5}")
_TOKEN = re.compile(rb"[\w+/=.~:%!@#^*?-]+")
_CODE = re.compile(
    rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Z_][A-Z0-9_]*_[A-Z0-9_]*|\w+@[\w.]+"
    rb"|[a-z]{2,}(?:[-_.](?:[a-z]+\d{0,2}|\d{1,2}))+"
)
"""What is an attribute, a constant, an address, or a name such as `app-tls-2`."""
_WORDS_ONLY = re.compile(rb"[A-Za-z_][A-Za-z_.\- ]*")


_BLANKS = (b"$", b"<", b"{", b"%s", b"%(", b"***", b"/", b"./", b"~/", b"../", b"@")
"""How variables, templates, blanks and paths begin."""


class Setting(NamedTuple):
    """A name with a value, as it stands in the text."""

    start: int
    end: int
    name: str
    secret: bool


def spans(shadow: bytes, lower: bytes) -> Iterator[Span]:
    for found in settings(shadow, lower):
        if found.secret:
            yield found.start, found.end, found.name


def settings(shadow: bytes, lower: bytes) -> Iterator[Setting]:
    """Every value that follows a name of secrets, and whether it looks like one."""
    for word in _WORDS:
        yield from _named(shadow, lower, word)
    yield from _headers(shadow, lower)
    yield from _cookies(shadow, lower)
    for program, sign, pattern in _OPTIONS:
        if program in lower:
            for found in matches(shadow, sign, pattern):
                line = lower[max(0, found.start() - 200) : found.start()]
                if program in line[line.rfind(b"\n") + 1 :]:
                    yield Setting(*found.span(1), "password", True)


def _named(shadow: bytes, lower: bytes, word: _Word) -> Iterator[Setting]:
    at = 0
    for found in matches(lower, word.sign, word.pattern):
        before = shadow[max(0, found.start() - 64) : found.start()]
        if found.start() < at or (word.after and not word.after.search(before.lower())):
            continue
        join = found["join"]
        if join.startswith((b"= ", b"=\t")):  # `password= next=` has no value
            continue
        if not join.strip() and not _OPTION.search(before.lower()):
            continue
        name = before + shadow[found.start() : found.start() + 1]
        upper = _VARIABLE.search(name) is not None
        shell = upper and join == b"=" and not found["named"]
        kind = _QUOTED[found["quote"]] if found["quote"] else _SHELL if shell else _BARE
        value = kind.match(shadow, found.end())
        if value is None or (join == b">" and not shadow.startswith(b"</", value.end())):
            continue
        after = shadow[value.end() : value.end() + 1]
        line = join.startswith(b":") and not found["quote"] and after in (b"", b"\n", b"\r")
        variable = shell or (upper and bool(line or found["pair"]))
        data = bool(found["quote"] and found["named"]) or variable or join == b">"
        trimmed = value[0].rstrip(b".,;:")
        quoted = bool(found["quote"])
        looks = _Looks(trimmed[:_CLOSELY], word.strong, data, variable, join, quoted, after)
        secret = looks.secret
        if secret or (len(value[0]) > _CLOSELY and not found["quote"]):
            at = value.end()
        yield Setting(value.start(), value.start() + len(trimmed), word.name, secret)


class _Looks(NamedTuple):
    """Whether a value after a name looks like a secret, or like code, a word or a blank."""

    value: bytes
    strong: bool
    """The name says password, not merely token or key."""
    data: bool
    """It is written as data is (JSON, environment), not as code may be."""
    variable: bool
    """It is that of a variable of the environment."""
    join: bytes
    quoted: bool
    after: bytes

    @property
    def secret(self) -> bool:
        value = self.value
        if len(value) < (4 if self.strong else 8) or len(set(value)) < 3:
            return False
        if value.startswith(_BLANKS) or (not self.join.strip() and value.startswith(b"-")):
            return False
        if b"[redacted:" in value or b"://" in value or b"${" in value or b"{{" in value:
            return False
        if not self.quoted and (self.after in (b"(", b"[", b"{") or b"..." in value):
            return False
        if value.lower() in _DUMMIES or _TYPES.fullmatch(value):
            return False
        if _WORDS_ONLY.fullmatch(value):
            return self._word_is_secret()
        if self.strong and (self.quoted or self.join != b":"):
            return self._odd_enough()
        return _is_noise(value)

    def _odd_enough(self) -> bool:
        """A password: something beside letters, and not code or a sentence."""
        value = self.value
        if b" " in value and not _DIGIT.search(value):
            return False
        if _CODE.fullmatch(value) or _NUMBER.fullmatch(value):
            return self.data and value.isdigit()
        return value.isascii()

    def _word_is_secret(self) -> bool:
        """Letters alone are a password where they make no words, or where only a value can
        stand."""
        value = self.value
        if self.variable and self.strong:
            return not value.isupper() and not value.lower().startswith(b"your")
        if not value.isalpha() or len(value) < 6:
            return False
        if not value.islower():
            data = self.strong or self.quoted or self.data
            return data and not value.isupper() and len(value) >= 10 and wordy(value) < 0.3
        if self.variable and len(value) >= 16:
            return True
        if any(word in value for word in (b"pass", b"pwd", b"secret", b"token", b"key", b"user")):
            return False
        bare = (
            self.join == b"=" and not self.quoted and self.after in (b"", b"\n", b"\r", b" ", b"&")
        )
        return (self.strong and (self.data or bare)) or (self.data and len(value) >= 16)


def _is_noise(value: bytes) -> bool:
    """A token: letters and digits that make no words."""
    if b" " in value or not _DIGIT.search(value):
        return False
    if _HEX.fullmatch(value):
        return True
    if not _LETTER.search(value) or not _TOKEN.fullmatch(value) or _CODE.fullmatch(value):
        return False
    return wordy(value) < 0.5 and entropy(value) > 2.7


def _headers(shadow: bytes, lower: bytes) -> Iterator[Setting]:
    for found in matches(lower, b"authorization", _HEADER):
        value = _HEADER_VALUE.match(shadow, found.end())
        if value is not None:
            words = _WORDS_ONLY.fullmatch(value[0]) is not None and wordy(value[0]) > 0.4
            secret = not words and b"[redacted:" not in value[0]
            yield Setting(*value.span(), "authorization", secret)


def _cookies(shadow: bytes, lower: bytes) -> Iterator[Setting]:
    at = 0
    for found in matches(lower, b"cookie", _COOKIE):
        pair = _COOKIE_PAIR.match(shadow, found.end()) if found.start() >= at else None
        while pair is not None:
            at = pair.end()
            secret = pair[1].lower() not in _COOKIE_FACTS and len(pair[2]) >= 4
            yield Setting(*pair.span(2), "cookie", secret and b"[redacted:" not in pair[2])
            pair = _COOKIE_PAIR.match(shadow, at)
