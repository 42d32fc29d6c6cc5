"""What is to be sent, as a mail."""

import hashlib
import re
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime

from msgspec import Struct

from hermes_agent.core.gateway import OutboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channels.shared import clean

POLICY = policy.SMTP.clone(cte_type="7bit", max_line_length=78)
PROOF = "X-Hermes-Proof"
MAX_SUBJECT = 70
MAX_REFERENCES = 20
_TYPE = re.compile(r"([a-z0-9][a-z0-9.+-]*)/([a-z0-9][a-z0-9.+-]*)", re.IGNORECASE)
_MARKUP = re.compile(r"[*_`#>]+")


class MailThread(Struct):
    """What an answer has to know of the mails before it."""

    subject: str
    references: tuple[str, ...]
    """All of them, the first first."""


def id_of(key: str, address: str) -> str:
    """The Message-ID of what is sent under a key: the same for every attempt."""
    word = hashlib.sha256(f"{address}\0{key}".encode()).hexdigest()[:40]
    return f"<{word}@{address.rpartition('@')[2]}>"


def written(
    outgoing: OutboundMessage, id: str, address: str, before: MailThread | None, now: float
) -> EmailMessage:
    text = clean(outgoing.text).replace("\0", "")
    answers = before is not None and bool(before.references)
    mail = _headed(address, outgoing.chat.chat, id, now)
    mail["Subject"] = _answering(before.subject) if before else subject_of(text)
    mail["Auto-Submitted"] = "auto-replied" if answers else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    if before is not None and answers:
        asked = "<" + outgoing.reply_to.partition("<")[2]
        last = asked if asked in before.references else ""
        first, *others = before.references
        chain = [first, *others[-MAX_REFERENCES:]]
        mail["In-Reply-To"] = last or chain[-1]
        mail["References"] = " ".join(chain)
    mail.set_content(text)
    mail.add_alternative(_html(text), subtype="html")
    for number, file in enumerate(outgoing.files, 1):
        _attach(mail, file, number)
    return mail


def proof(word: str, id: str, address: str, now: float) -> EmailMessage:
    mail = _headed(address, address, id, now)
    mail["Subject"] = "Hermes proves that it hears"
    mail["Auto-Submitted"] = "auto-generated"
    mail[PROOF] = word
    mail.set_content("It deletes this mail when it comes back.")
    return mail


def subject_of(text: str) -> str:
    """For a conversation that we open: what is said first."""
    lines = [_MARKUP.sub("", line).strip() for line in text.splitlines()]
    first = next((line for line in lines if line), "") or "A message from Hermes"
    first = "".join(one if one.isprintable() else " " for one in first)
    return first if len(first) <= MAX_SUBJECT else first[: MAX_SUBJECT - 1] + "…"


def _answering(subject: str) -> str:
    plain = "".join(one if one.isprintable() else " " for one in subject)[:500]
    return f"Re: {plain}".rstrip()


def _headed(address: str, to: str, id: str, now: float) -> EmailMessage:
    mail = EmailMessage(policy=POLICY)
    mail["From"] = address
    mail["To"] = to
    mail["Date"] = format_datetime(datetime.fromtimestamp(now, UTC))
    mail["Message-ID"] = id
    return mail


def _html(text: str) -> str:
    """No pictures from elsewhere: looking at one tells whoever keeps it."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    body = parser.enable(["strikethrough", "table"]).disable("image").render(text)
    return f'<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>\n{body}</body></html>\n'


def _attach(mail: EmailMessage, file: Media, number: int) -> None:
    found = _TYPE.fullmatch(file.type)
    main, sub = found.groups() if found else ("application", "octet-stream")
    if main.lower() in ("multipart", "message"):  # they cannot be carried byte for byte
        main, sub = "application", "octet-stream"
    name = "".join(one for one in clean(file.name) if one.isprintable()) or f"file-{number}"
    mail.add_attachment(file.data, maintype=main, subtype=sub, filename=name)
