"""Parses mails: first the headers, which decide whether the body is read. Any input is parsed or
raises `MalformedMail`."""

import hashlib
import re
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channels.email.quoting import own_words, text_of, unflowed
from hermes_agent.gateway.channels.shared import MAX_BYTES, clean

T = TypeVar("T")

MAX_IDS = 100
MAX_RESULTS = 20
MAX_PARTS = 1_000
MAX_CHARACTERS = 400_000
"""Limit for one text."""
MAX_HEADER = 4_000
SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature",
              "application/x-pkcs7-signature")  # fmt: skip
BULK = ("bulk", "list", "junk", "auto_reply")
LISTS = ("List-Id", "List-Post", "List-Unsubscribe")
ANSWERED_BY_PROGRAMS = ("X-Autoreply", "X-Autorespond", "X-Autoresponder")
DAEMONS = ("mailer-daemon", "postmaster")

_ADDRESS = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9.-]{1,255}"
ADDRESS = re.compile(_ADDRESS)
_FROM = re.compile(
    rf'\s*(?:(?P<name>"(?:[^"\\]|\\.)*"|[^<>@,;:"\\\[\]]*)\s*<\s*(?P<within>{_ADDRESS})\s*>'
    rf"|(?P<bare>{_ADDRESS}))\s*(?:\((?P<after>[^()<>@]*)\))?\s*"
)
"""Exactly one address: ambiguous ones are rejected."""
_ID = re.compile(r"<([^<>\s]{1,250})>")
_RE = re.compile(r"\s*(?:(?:re|aw|antw|sv|rif)\s*(?:\[\d+\])?\s*:\s*)+", re.IGNORECASE)


class MalformedMail(HermesError):
    """The mail cannot be parsed."""


class MailHeaders(Struct, frozen=True):
    id: str
    """The Message-ID in brackets, or a hash if there is none."""
    sender: str
    """In lower case."""
    name: str
    subject: str
    references: tuple[str, ...]
    """The mails before it, oldest first."""
    automatic: str
    """Why no person wrote it; empty if one may have."""
    results: tuple[str, ...]
    """Authentication-Results, from the top."""
    proof: str
    time: float

    @property
    def thread(self) -> str:
        return self.references[0] if self.references else self.id

    @property
    def bare_subject(self) -> str:
        return _RE.sub("", self.subject, count=1)


class Body(Struct, frozen=True):
    text: str = ""
    files: tuple[Media, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be read."""


def head_of(raw: bytes) -> MailHeaders:
    return _tried(lambda: _head(raw))


def body_of(raw: bytes, head: MailHeaders) -> Body:
    return _tried(lambda: _body(raw, head))


def _tried(reading: Callable[[], T]) -> T:
    try:
        return reading()
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError,
            MessageError, OverflowError) as error:  # fmt: skip
        raise MalformedMail(f"{type(error).__name__}: {str(error)[:100]}") from None


def _head(raw: bytes) -> MailHeaders:
    mail = message_from_bytes(raw, policy=policy.compat32)
    sender, name = _sender(mail)
    ids = _ID.findall(plain(mail.get("Message-ID")))
    results = mail.get_all("Authentication-Results") or []
    return MailHeaders(
        id=f"<{ids[0] if ids else hashlib.sha256(raw).hexdigest()}>",
        sender=sender,
        name=name,
        subject=decoded(mail.get("Subject")),
        references=_references(mail),
        automatic=_automatic(mail, sender),
        results=tuple(plain(one)[:MAX_HEADER] for one in results[:MAX_RESULTS]),
        proof=plain(mail.get("X-Hermes-Proof")),
        time=_time(mail),
    )


def plain(value: object) -> str:
    """A header in one line, with encoded words as they are."""
    text = "" if value is None else str(value)
    return clean(re.sub(r"\s*\r?\n\s*", " ", text).replace("\r", " ").replace("\0", "")).strip()


def decoded(value: object) -> str:
    """A header in one line, decoded."""
    text = plain(value)
    if "=?" not in text:
        return text
    try:
        parts = decode_header(text)
    except (ValueError, MessageError):
        return text
    words = [
        one if isinstance(one, str) else _decoded(one, charset or "utf-8") for one, charset in parts
    ]
    return plain("".join(words))


def _decoded(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def _sender(mail: Message) -> tuple[str, str]:
    said = mail.get_all("From") or []
    found = _FROM.fullmatch(plain(said[0])[: MAX_HEADER + 1]) if len(said) == 1 else None
    if found is None:
        raise ValueError("no single sender")
    name = found["name"] or found["after"] or ""
    if name.startswith('"'):
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    return (found["within"] or found["bare"]).lower(), decoded(name)


def _references(mail: Message) -> tuple[str, ...]:
    ids = _ID.findall(plain(mail.get("References")))
    ids += [one for one in _ID.findall(plain(mail.get("In-Reply-To")))[:1] if one not in ids]
    if len(ids) > MAX_IDS:
        ids = [ids[0], *ids[1 - MAX_IDS :]]
    return tuple(f"<{one}>" for one in ids if one.isascii())


def _automatic(mail: Message, sender: str) -> str:
    if plain(mail.get("Auto-Submitted")).partition(";")[0].strip().lower() not in ("", "no"):
        return "sent by a program"
    if plain(mail.get("Precedence")).lower() in BULK:
        return "bulk mail"
    if any(name in mail for name in LISTS):
        return "from a mailing list"
    if any(name in mail for name in ANSWERED_BY_PROGRAMS):
        return "an automatic reply"
    if plain(mail.get("Return-Path")) == "<>" or sender.partition("@")[0] in DAEMONS:
        return "a bounce"
    if mail.get_content_type() == "multipart/report":
        return "a report"
    return ""


def _time(mail: Message) -> float:
    try:
        return max(0.0, parsedate_to_datetime(plain(mail.get("Date"))).timestamp())
    except (ValueError, TypeError, LookupError, OverflowError):
        return 0.0


def _body(raw: bytes, head: MailHeaders) -> Body:
    texts: list[str] = []
    files: list[Media] = []
    notes: list[str] = []
    room, answers = MAX_BYTES, bool(head.references)
    mail = message_from_bytes(raw, policy=policy.compat32)
    for part in islice(_parts(mail), MAX_PARTS):
        kind = part.get_content_type()
        if kind in ("text/plain", "text/html") and not _is_file(part):
            said = _text(part)[:MAX_CHARACTERS]
            said = text_of(said, answers=answers) if kind == "text/html" else said
            texts += [said] if said.strip() else []
        elif kind not in SIGNATURES:
            media = _media(part, kind, len(files) + 1)
            if len(media.data) > room:
                notes.append(f"(a file {media.name!r} came with this but is too large)")
                continue
            room -= len(media.data)
            files.append(media)
    words = own_words("\n\n".join(texts), head.subject, answers=answers)
    return Body(clean(words.replace("\0", "")), tuple(files), tuple(notes))


def _parts(mail: Message) -> Iterator[Message]:
    """What holds something; of several forms of the same, the plainest that there is."""
    kind = mail.get_content_type()
    inner = mail.get_payload()
    if kind == "message/rfc822" or not isinstance(inner, list):
        yield mail
    elif kind == "multipart/alternative":
        forms = [list(_parts(one)) for one in inner if isinstance(one, Message)]
        yield from min(forms, key=_plainness, default=[])
    else:
        for one in inner:
            if isinstance(one, Message):
                yield from _parts(one)


def _plainness(form: list[Message]) -> int:
    kinds = [part.get_content_type() for part in form]
    if "text/plain" in kinds and any(
        _text(part).strip() for part in form if part.get_content_type() == "text/plain"
    ):
        return 0
    return 1 if "text/html" in kinds else 2


def _is_file(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or bool(part.get_filename())


def _text(part: Message) -> str:
    data = part.get_payload(decode=True)
    text = _decoded(data if isinstance(data, bytes) else b"", part.get_content_charset() or "utf-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    if str(part.get_param("format", "")).lower() == "flowed":
        return unflowed(text, delsp=str(part.get_param("delsp", "")).lower() == "yes")
    return text


def _media(part: Message, kind: str, number: int) -> Media:
    inner = part.get_payload()
    if kind == "message/rfc822" and isinstance(inner, list):
        data = b"".join(one.as_bytes() for one in inner if isinstance(one, Message))
        return Media(kind, data, decoded(part.get_filename()) or f"mail-{number}.eml")
    found = part.get_payload(decode=True)
    name = decoded(part.get_filename()).replace("/", "_").replace("\\", "_")
    return Media(kind, found if isinstance(found, bytes) else b"", name or f"part-{number}")
