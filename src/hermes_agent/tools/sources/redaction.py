"""Takes secrets out of what a source shows: values of keys that sound like one, and passwords in
addresses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

HIDDEN = "(not shown)"
_KEY = re.compile(
    r"passw(or)?d|passphrase|pwd$|secret|token|credential|(api|access|private|encryption)[-_.]?key"
    r"|auth$|cookie|salt$|dsn$|connection[-_.]?string",
    re.IGNORECASE,
)
_NO_KEY = re.compile(r"(name|ref|path|file|kind|class|mount\w*|ttl|seconds|type)$", re.IGNORECASE)
# Anybody may write a log line: none of these takes longer than the text is long.
_ADDRESS = re.compile(r"(://[^/\s:@]*+):[^/\s@]++@")
_LINE = re.compile(
    r"^([^\S\n]*+(?:export[^\S\n]++)?[\"']?([\w.-]++)[\"']?[^\S\n]*+[:=]\s*+)"
    r"(?=\S)(?![{\[|>]?[^\S\n]*$).*$",
    re.MULTILINE,
)
_BLOCK = re.compile(
    r"-----BEGIN [^-]*PRIVATE KEY-----"
    r"(?:(?:[^-]++|-(?!----))*+-----END [^-]*+-----|[\w+/=\s]*+)"
)


def sounds_secret(key: str) -> bool:
    return bool(_KEY.search(key)) and not _NO_KEY.search(key)


def without_secrets(value: Any) -> Any:
    """A tree of JSON, without the values of its keys that sound secret."""
    if isinstance(value, str):
        return text_without_secrets(value)
    if isinstance(value, Mapping):
        if isinstance(value.get("value"), str) and sounds_secret(str(value.get("name", ""))):
            value = {**value, "value": HIDDEN}  # as the variables of a container are written
        return {
            key: HIDDEN if isinstance(one, str) and one and sounds_secret(key)
            else without_secrets(one)
            for key, one in value.items()
        }  # fmt: skip
    if isinstance(value, Sequence):
        return [without_secrets(one) for one in value]
    return value


def text_without_secrets(text: str) -> str:
    text = _BLOCK.sub(HIDDEN, _ADDRESS.sub(rf"\1:{HIDDEN}@", text))
    return _LINE.sub(lambda one: one[1] + HIDDEN if sounds_secret(one[2]) else one[0], text)


def variables_without_secrets(variables: Iterable[str]) -> list[str]:
    """Of `NAME=value`."""
    return [text_without_secrets(one) for one in variables]
