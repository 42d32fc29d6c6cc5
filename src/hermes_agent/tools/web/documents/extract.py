"""The text of a document of any kind. A document may be built to break its reader: `worker.py` runs
this in its own process."""

import codecs
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from msgspec import Struct

from hermes_agent.core.errors import ToolError
from hermes_agent.core.installation.extras import install_hint
from hermes_agent.tools.web.documents.types import HEAD, kind_of

TEXT_CHARS = 2_000_000

Enough = Callable[[], bool]
"""Whether to stop; what was read so far is returned."""

_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_PLAIN = re.compile(
    r"ascii|big5\w*|cp\d+|euc_\w+|gb\w+|hz|iso2022_\w+|iso8859-\d+|johab|koi8-\w|mac-\w+"
    r"|shift_jis\w*|tis-620|utf-(8|16|32)(-[bl]e)?"
)
"""Charsets of texts; Python's other codecs fail in other ways."""
_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_WIDER = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030",
    "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
"""What is meant by these, in Python's names."""


class Extracted(Struct, frozen=True):
    text: str
    title: str = ""
    notes: tuple[str, ...] = ()
    """What was left out, and why."""
    count: int = 0
    """How many entries are shown, of what has entries."""


def never() -> bool:
    return False


def extract(data: bytes, type: str, name: str, enough: Enough = never) -> Extracted:
    """The text of an HTML page, a PDF, an Office document or a text. `type` is its Content-Type,
    `name` its address or path. What cannot be read is a `ToolError`."""
    kind = kind_of(type, name, data[:HEAD])
    if kind in {"", "image"}:
        raise ToolError(f"{name!r} is not a document with text", retry="changed")
    if kind == "text":
        return _bounded(Extracted(decoded(data, type)))
    reader = import_module(f"hermes_agent.tools.web.documents.{kind}")
    source = (decoded(data, type, data[:HEAD]), name) if kind == "html" else (data, enough)
    try:
        made: Extracted = reader.read(*source)
    except ToolError:
        raise
    except Exception as error:  # a broken document may raise anything in its reader
        what = f"{error.__class__.__name__}: {error}"[:200]
        raise ToolError(f"{name!r} is damaged: {what}", retry="changed") from error
    return _bounded(made)


def _bounded(made: Extracted) -> Extracted:
    if len(made.text) <= TEXT_CHARS:
        return made
    note = f"its text is longer than {TEXT_CHARS} characters; the rest was left out"
    return Extracted(made.text[:TEXT_CHARS], made.title, (*made.notes, note))


def library(name: str) -> Any:
    """A module of the extra `web`; raises `ToolError` with how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ToolError(
            f"this needs the library {error.name!r}, which is not installed",
            install_hint("web"),
            retry="never",
        ) from error


def declared(data: bytes, type: str, head: bytes = b"") -> str:
    """The charset that a text declares: by a byte order mark, the header, or in its head."""
    for mark, codec in _MARKS.items():
        if data.startswith(mark):
            return codec
    for place in (type.encode(), head):
        found = _CHARSET.search(place)
        if found is None:
            continue
        try:
            named = codecs.lookup(found[1].decode())
        except LookupError:
            continue
        if _PLAIN.fullmatch(named.name):
            return _WIDER.get(named.name, named.name)
    return ""


def decoded(data: bytes, type: str, head: bytes = b"") -> str:
    """The text, in whatever charset it is."""
    codec = declared(data, type, head)
    if not codec:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            if error.start >= len(data) - 4:  # cut off in the middle of a character
                return data.decode(errors="ignore")
        best = library("charset_normalizer").from_bytes(data[:50_000]).best()
        codec = best.encoding if best is not None else "cp1252"
    return data.decode(codec, errors="replace").removeprefix("\ufeff")
