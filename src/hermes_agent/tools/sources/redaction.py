"""Takes secrets out of what a source shows: values of keys that sound like one, and passwords in
addresses. None of the expressions takes longer than the text is long. No group is repeated
possessively: Python 3.11.2, which is Debian's, then passes over what fits."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

HIDDEN = "(not shown)"
_KEY = re.compile(
    r"passw(or)?d|passphrase|pwd$|secret|token|credential|(api|access|private|encryption)[-_.]?key"
    r"|auth$|cookie|salt$|dsn$|connection[-_.]?string",
    re.IGNORECASE,
)
_NO_KEY = re.compile(r"(name|ref|path|file|kind|class|mount\w*|ttl|seconds|type)$", re.IGNORECASE)
_IMAGES = ("image", "Image", "imageID")
_ADDRESS = re.compile(r"(://[^/\s:@]*):[^/\s]+@")
_BLOCK = re.compile(
    r"-----BEGIN [^-]*PRIVATE KEY-----"
    r"(?:[^-]*+(?:-(?!----)[^-]*+)*-----END [^-]*+-----|[\w+/=\s]*+)"
)
_SQL = re.compile(
    r"(PASSWORD(?:[ \t]++FOR[ \t]++[^\s=]++[ \t]*+(?==))?[ \t=(]++E?"
    r"|\bIDENTIFIED(?:[ \t]++WITH[ \t]++\S++[ \t]++(?:BY|AS)|[ \t]++BY)[ \t]++"
    r"(?:(?:PASSWORD|VALUES)[ \t]++)?)"
    r"""(?:(?:'[^'\\\n]*+(?:\\.[^'\\\n]*+)*'?)+|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"?"""
    r"""|\\"[^\\\n]*+(?:\\[^"\n][^\\\n]*+)*(?:\\")?)""",
    re.IGNORECASE,
)
_VALUE = r"""(?:\\".*?(?:\\"|$)|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"?|'[^'\n]*'?|[^\s"'&;,]+)"""
_BELOW = r"^(?P<indent>[ \t]*)(?:- )?[\"']?(?P<key>[\w.-]+)[\"']?:[ \t]*[|>][+-]?\n"
_VARIABLE = (
    r"\bname[\"']?[ \t]?[:=][ \t]?[\"']?(?P<key>[\w.-]+)[\"']?,?\s{0,40}"
    r"[\"']?value[\"']?[ \t]?:[ \t]?"
)
_SETTING = (
    r"^[ \t]*(?:[+*>-][ \t]{0,8})?(?:\d{4}-\d\d-\d\dT\S+[ \t]+)?(?:export[ \t]+)?"
    r"[\"']?(?P<key>[\w.-]+)[\"']?[ \t]*[:=]"
    r"(?:[ \t]*+(?=\S)|\s*+(?![\w.\"'-]+:(?:\s|\Z)))"
)
_PAIRS = tuple(
    (re.compile(key, re.MULTILINE), re.compile(value, re.MULTILINE))
    for key, value in (
        (_BELOW, ""),  # a key of YAML whose value is the lines below it
        (_VARIABLE, _VALUE),  # of a container, by its name
        (_SETTING, r"(?![{\[|>]?[ \t]*$)\S.*"),  # on a line, also of a diff or a log
        (r"\\?[\"'](?P<key>[\w.-]{1,80})\\?[\"']\s?:\s?", _VALUE),  # JSON
        (r"(?<![\w.-])(?P<key>[\w.-]+)=", _VALUE),
        (r"(?<![\w.-])(?P<key>--[\w-]+)[ \t]+(?!-)", _VALUE),
    )
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
            else one if key in _IMAGES  # a colon stands before its version
            else without_secrets(one)
            for key, one in value.items()
        }  # fmt: skip
    if isinstance(value, Sequence):
        return [
            HIDDEN if isinstance(one, str) and _takes_secret(before) else without_secrets(one)
            for before, one in zip([None, *value], value, strict=False)
        ]
    return value


def _takes_secret(word: Any) -> bool:
    """Whether a word of a command is an option whose value is the next word."""
    return isinstance(word, str) and bool(re.fullmatch(r"--?[\w-]+", word)) and sounds_secret(word)


def text_without_secrets(text: str) -> str:
    text = _BLOCK.sub(HIDDEN, _ADDRESS.sub(rf"\1:{HIDDEN}@", text))
    for key, value in _PAIRS:
        text = _hidden(text, key, value)
    return _SQL.sub(rf"\1{HIDDEN}", text)


def _hidden(text: str, key: re.Pattern[str], value: re.Pattern[str]) -> str:
    parts, done = [], 0
    for found in key.finditer(text):
        if found.start() < done or not sounds_secret(found["key"]):
            continue
        if text.startswith(HIDDEN, found.end()):
            continue
        if "indent" in key.groupindex:
            value = re.compile(rf"(?:{found['indent']}[ \t]+.*\n?)+")
        if said := value.match(text, found.end()):
            parts += [text[done : found.end()], HIDDEN, "\n" * said[0].endswith("\n")]
            done = said.end()
    return "".join([*parts, text[done:]])
