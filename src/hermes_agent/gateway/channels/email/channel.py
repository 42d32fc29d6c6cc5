"""E-mail: receives by IMAP and sends by SMTP. Deletes nothing but its own test mails."""

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from email.utils import format_datetime

from msgspec import Struct

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.gateway import Chat, InboundMessage, OutboundMessage, Person
from hermes_agent.gateway.channel import ChannelContext, SendError, Settings
from hermes_agent.gateway.channels.email.imap import Imap, MailFolder, logged_in
from hermes_agent.gateway.channels.email.reading import (
    ADDRESS,
    Body,
    MailHeaders,
    MalformedMail,
    body_of,
    head_of,
)
from hermes_agent.gateway.channels.email.servers import MailServer, place_of
from hermes_agent.gateway.channels.email.smtp import SmtpSender
from hermes_agent.gateway.channels.email.trust import doubt
from hermes_agent.gateway.channels.email.writing import Threads, id_of, last_of, proof, written
from hermes_agent.gateway.channels.shared import (
    MAX_BYTES,
    ProbeWords,
    with_notes,
    without_voice,
)

log = logging.getLogger("hermes.gateway.email")

MAX_MAIL_BYTES = MAX_BYTES * 2
"""Limit for fetching a whole mail: files grow by a third in transit."""
DAY = 86_400.0
_AUTHSERV = re.compile(r"(?:\*(?:\.[\w-]+){2,}|[\w.-]+)")
NO = ("false", "no", "off", "0")


class EmailSettings(Struct, frozen=True):
    address: str
    user: str
    password: str
    imap: MailServer
    smtp: MailServer
    folder: str
    authservs: list[str] | None
    """None: From is trusted."""
    poll_seconds: float
    probe_seconds: float
    probe_every: float


class MailboxCursor(Struct, frozen=True):
    validity: int
    uid: int
    time: float

    def __str__(self) -> str:
        return f"{self.validity}:{self.uid}:{self.time:.0f}"


def _parse(settings: Settings, secret: Callable[[str], str]) -> EmailSettings:
    def given(name: str, default: str = "") -> str:
        value = settings.get(name)
        return default if value is None or value == "" else str(value).strip()

    address = given("address").lower()
    if not ADDRESS.fullmatch(address):
        raise UsageError(
            f"channels.email.address is not a valid address: {address!r}",
            "`hermes gateway setup email`",
        )
    is_open = given("authenticated", "true").lower() in NO
    return EmailSettings(
        address=address,
        user=given("user", address),
        password=secret(given("password")),
        imap=place_of("channels.email.imap", given("imap"), 993),
        smtp=place_of("channels.email.smtp", given("smtp"), 465),
        folder=given("folder", "INBOX"),
        authservs=None if is_open else _authservs(given("authserv")),
        poll_seconds=float(given("look_seconds", "240")),
        probe_seconds=float(given("proof_seconds", "25")),
        probe_every=float(given("proof_minutes", "60")) * 60,
    )


def _authservs(text: str) -> list[str]:
    names = text.replace(",", " ").lower().split()
    if not names:
        raise UsageError(
            "channels.email.authserv is missing: without it senders can be forged",
            "look at the source of a mail in the agent's mailbox: it is the first word of "
            "Authentication-Results",
        )
    for name in names:
        if not _AUTHSERV.fullmatch(name):
            raise UsageError(
                f"channels.email.authserv: {name!r} matches any server",
                "name your mail server: mx.example.org, or *.example.org for several",
            )
    return names


class Email:
    def __init__(self, settings: Settings, context: ChannelContext) -> None:
        self._settings = given = _parse(settings, context.secret)
        self._context = context
        self._smtp = SmtpSender(given.smtp, given.user, given.password, given.address)
        self._threads = Threads()
        self._nudge = asyncio.Event()
        self._polled = asyncio.Condition()
        self._polls = 0
        self._probes = ProbeWords()
        self._proven: float | None = None

    # in

    async def run(self) -> None:
        async with self._mailbox() as imap:
            mark = await self._start_cursor(imap, await imap.select(self._settings.folder))
            while True:
                self._nudge.clear()
                mark = await self._poll(imap, mark)
                async with self._polled:
                    self._polls += 1
                    self._polled.notify_all()
                await imap.idle(self._settings.poll_seconds, self._nudge)

    def _mailbox(self) -> AbstractAsyncContextManager[Imap]:
        return logged_in(self._settings.imap, self._settings.user, self._settings.password)

    async def _start_cursor(self, imap: Imap, folder: MailFolder) -> MailboxCursor:
        """Where reading starts; mail from before the first start is ignored."""
        before = _mark(await self._context.mark())
        if before is not None and before.validity == folder.validity:
            return before
        uid = folder.next - 1
        if before is not None:
            log.warning("the mails of %s were renumbered", self._settings.folder)
            date = format_datetime(datetime.fromtimestamp(before.time - DAY, UTC))
            recent = await imap.search("SINCE", "-".join(date.split()[1:4]))
            uid = recent[0] - 1 if recent else uid
        mark = MailboxCursor(folder.validity, uid, self._context.clock())
        await self._context.save_cursor(str(mark))
        return mark

    async def _poll(self, imap: Imap, mark: MailboxCursor) -> MailboxCursor:
        for uid, size in await imap.sizes(mark.uid):
            mark = MailboxCursor(mark.validity, uid, self._context.clock())
            await self._take(imap, uid, size, str(mark))
        return mark

    async def _take(self, imap: Imap, uid: int, size: int, mark: str) -> None:
        try:
            head = await asyncio.to_thread(head_of, await imap.fetch(uid, "HEADER") or b"")
            if self._is_probe(head):
                self._probes.came(head.proof)
                await imap.delete(uid)
            elif why := self._skip_reason(head):
                log.info("skipping mail %d: %s", uid, why)
            else:
                body = await self._body(imap, uid, size, head)
                await self._context.receive(self._arrived(head, body), mark)
                self._threads.came(head)
                await imap.seen(uid)
                return
        except MalformedMail as error:
            log.warning("skipping the malformed mail %d: %s", uid, error.message)
        await self._context.save_cursor(mark)

    async def _body(self, imap: Imap, uid: int, size: int, head: MailHeaders) -> Body:
        if size > MAX_MAIL_BYTES:
            return Body(notes=(f"(the body was not read: it has {size} bytes)",))
        return await asyncio.to_thread(body_of, await imap.fetch(uid) or b"", head)

    def _skip_reason(self, head: MailHeaders) -> str:
        if head.automatic:
            return head.automatic
        if head.sender == self._settings.address:
            return "from ourselves"
        if self._settings.authservs is None:
            return ""
        return doubt(head.results, self._settings.authservs, head.sender)

    def _arrived(self, head: MailHeaders, body: Body) -> InboundMessage:
        files, voice = without_voice(body.files)
        return InboundMessage(
            f"{head.sender}/{head.id}",  # others may know the id of a mail and reuse it
            Chat("email", head.sender, self._threads.thread_of(head)),
            Person(head.sender, head.name),
            with_notes(_full_text(head, body), body.notes),
            files=files,
            voice=voice,
            reply_to=head.references[-1] if head.references else "",
            time=head.time,
        )

    # out

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        to = outgoing.chat.chat
        if outgoing.edit:
            raise SendError("a sent mail cannot be edited", again=False)
        if not outgoing.text and not outgoing.files:
            raise SendError("there is nothing to send", again=False)
        if not ADDRESS.fullmatch(to):
            raise SendError(f"not a valid address: {to!r}", again=False)
        id = id_of(key, self._settings.address)
        before = await self._threads.before(outgoing.chat.thread, self._last)
        mail = written(outgoing, id, self._settings.address, before, self._context.clock())
        try:
            await self._smtp.send(to, mail.as_bytes())
        except SendError as error:
            if error.channel:
                self._proven = None
            raise
        subject = str(mail["Subject"])
        self._threads.went(outgoing.chat.thread, id, before.subject if before else subject)
        return id

    async def _last(self, thread: str) -> MailHeaders | None:
        async with self._mailbox() as imap:
            return await last_of(imap, self._settings.folder, thread)

    async def typing(self, _chat: Chat) -> None:
        """E-mail has none."""

    # probing

    async def probe(self) -> None:
        """Now and then a mail to ourselves must arrive; in between, the mailbox must answer."""
        now, before = self._context.clock(), self._proven
        self._proven = None
        try:
            async with asyncio.timeout(self._settings.probe_seconds):
                if before is None or now - before >= self._settings.probe_every:
                    await self._round_trip()
                    before = now
                else:
                    await self._next_poll()
                self._proven = before
        except TimeoutError:
            raise HermesError("test mails do not arrive") from None

    async def _round_trip(self) -> None:
        word, address = self._sealed(secrets.token_hex(8)), self._settings.address
        mail = proof(word, id_of(word, address), address, self._context.clock())
        async with self._probes.expect(word, None, ""):
            async with self._polled:  # mail from before the first poll is ignored
                await self._polled.wait_for(lambda: self._polls > 0)
            await self._smtp.send(address, mail.as_bytes())

    async def _next_poll(self) -> None:
        async with self._polled:
            before = self._polls
            self._nudge.set()
            await self._polled.wait_for(lambda: self._polls > before)

    def _sealed(self, word: str) -> str:
        """A word that identifies our own test mails, also after a restart."""
        seal = hmac.new(self._settings.password.encode(), word.encode(), hashlib.sha256)
        return f"{word}.{seal.hexdigest()[:32]}"

    def _is_probe(self, head: MailHeaders) -> bool:
        if not head.proof or head.sender != self._settings.address:
            return False
        return hmac.compare_digest(
            head.proof.encode(), self._sealed(head.proof.partition(".")[0]).encode()
        )

    async def close(self) -> None:
        """Connections are closed where they are opened."""


def _mark(text: str) -> MailboxCursor | None:
    try:
        validity, uid, time = text.split(":")
        return MailboxCursor(int(validity), int(uid), float(time))
    except ValueError:
        if text:
            log.warning("the cursor %r is malformed; reading from the start", text[:200])
        return None


def _full_text(head: MailHeaders, body: Body) -> str:
    """The text, with the subject if the mail starts a conversation and is not just a command or a
    code."""
    text, subject = body.text, head.subject
    if head.references or not subject:
        return text
    if text.startswith("/") or len(text.split()) == 1:
        return text
    return f"{subject}\n\n{text}".strip()


make = Email
