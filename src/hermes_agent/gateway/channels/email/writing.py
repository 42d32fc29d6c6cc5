"""Writes mails, and keeps track of the conversations they belong to."""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import OutboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channels.email.imap import Imap, quoted
from hermes_agent.gateway.channels.email.reading import MailHeaders, head_of
from hermes_agent.gateway.channels.shared import clean, log

POLICY = policy.SMTP.clone(cte_type="7bit", max_line_length=78)
PROOF = "X-Hermes-Proof"
MAX_SUBJECT = 70
MAX_REFERENCES = 20
MAX_THREADS = 1_000
_TYPE = re.compile(r"([a-z0-9][a-z0-9.+-]*)/([a-z0-9][a-z0-9.+-]*)", re.IGNORECASE)
_MARKUP = re.compile(r"[*_`#>]+")


class MailThread(Struct):
    """What a reply needs to know of the mails before it."""

    subject: str
    references: tuple[str, ...]
    """Their ids, oldest first."""


class Threads:
    """Known conversations, in memory; others are looked up in the mailbox."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, MailThread] = OrderedDict()
        self._firsts: OrderedDict[str, str] = OrderedDict()

    def thread_of(self, head: MailHeaders) -> str:
        """The first mail of the conversation, also if the mail names only the one it replies to."""
        return self._firsts.get(head.thread, head.thread)

    def came(self, head: MailHeaders) -> None:
        before = (*head.references, head.id)
        self._keep(self.thread_of(head), MailThread(head.bare_subject, before))

    def went(self, thread: str, id: str, subject: str) -> None:
        before = self._known.get(thread)
        if before is None:
            self._keep(thread or id, MailThread(subject, (thread, id) if thread else (id,)))
        elif id not in before.references:
            self._keep(thread, replace(before, references=(*before.references, id)))

    def _keep(self, thread: str, conversation: MailThread) -> None:
        self._known[thread] = conversation
        self._known.move_to_end(thread)
        for id in conversation.references:
            self._firsts[id] = thread
            self._firsts.move_to_end(id)
        while len(self._known) > MAX_THREADS:
            self._known.popitem(last=False)
        while len(self._firsts) > MAX_THREADS * 10:
            self._firsts.popitem(last=False)

    async def before(
        self, thread: str, look: Callable[[str], Awaitable[MailHeaders | None]]
    ) -> MailThread | None:
        """The mails before a reply; None if we start the conversation."""
        if not thread:
            return None
        if thread not in self._known:
            try:
                found = await look(thread)
            except HermesError as error:  # a reply with fewer headers is better than none
                log.warning("a conversation was not found: %s", error.message)
                found = None
            if found is None:
                return MailThread("", (thread,))
            self.came(found)
        return self._known.get(thread) or MailThread("", (thread,))


async def last_of(imap: Imap, folder: str, thread: str) -> MailHeaders | None:
    """The last mail of a conversation in a folder."""
    await imap.select(folder)
    name = quoted(thread)
    uids = await imap.search("OR", "HEADER", "Message-ID", name, "HEADER", "References", name)
    raw = await imap.fetch(uids[-1], "HEADER") if uids else None
    return await asyncio.to_thread(head_of, raw) if raw else None


def id_of(key: str, address: str) -> str:
    """The Message-ID for a key: the same for every attempt."""
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
    mail["Subject"] = "Hermes: test mail"
    mail["Auto-Submitted"] = "auto-generated"
    mail[PROOF] = word
    mail.set_content("Hermes deletes this mail when it arrives.")
    return mail


def subject_of(text: str) -> str:
    """The subject of a conversation that we start: the first line."""
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
    """Without images, whose servers would learn who reads the mail."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    body = parser.enable(["strikethrough", "table"]).disable("image").render(text)
    return f'<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>\n{body}</body></html>\n'


def _attach(mail: EmailMessage, file: Media, number: int) -> None:
    found = _TYPE.fullmatch(file.type)
    main, sub = found.groups() if found else ("application", "octet-stream")
    if main.lower() in ("multipart", "message"):  # these cannot be attached unchanged
        main, sub = "application", "octet-stream"
    name = "".join(one for one in clean(file.name) if one.isprintable()) or f"file-{number}"
    mail.add_attachment(file.data, maintype=main, subtype=sub, filename=name)
