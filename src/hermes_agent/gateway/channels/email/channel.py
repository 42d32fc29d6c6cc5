"""E-mail: IMAP tells when something is new and has it, SMTP takes what is sent. Nothing is deleted
but the mails by which we prove to ourselves that we hear."""

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
from hermes_agent.gateway.channels.email.threads import Threads, last_of
from hermes_agent.gateway.channels.email.trust import doubt
from hermes_agent.gateway.channels.email.writing import id_of, proof, written
from hermes_agent.gateway.channels.shared import MAX_BYTES, with_notes

log = logging.getLogger("hermes.gateway.email")

LARGEST = MAX_BYTES * 2
"""Of a mail that is fetched whole: files grow by a third on their way."""
DAY = 86_400.0
_AUTHSERV = re.compile(r"(?:\*(?:\.[\w-]+){2,}|[\w.-]+)")
NO = ("false", "no", "off", "0")


class EmailSettings(Struct, frozen=True):
    """The settings."""

    address: str
    user: str
    password: str
    imap: MailServer
    smtp: MailServer
    folder: str
    authservs: list[str] | None
    """None: whoever is in From is believed."""
    look_seconds: float
    proof_seconds: float
    proof_every: float


class MailboxCursor(Struct, frozen=True):
    """How far was read."""

    validity: int
    uid: int
    time: float
    """When."""

    def __str__(self) -> str:
        return f"{self.validity}:{self.uid}:{self.time:.0f}"


def make(settings: Settings, surroundings: ChannelContext) -> "Email":
    return Email(_facts(settings, surroundings.secret), surroundings)


def _facts(settings: Settings, secret: Callable[[str], str]) -> EmailSettings:
    def given(name: str, default: str = "") -> str:
        value = settings.get(name)
        return default if value is None or value == "" else str(value).strip()

    address = given("address").lower()
    if not ADDRESS.fullmatch(address):
        raise UsageError(
            f"channels.email.address is no address: {address!r}", "`hermes gateway setup email`"
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
        look_seconds=float(given("look_seconds", "240")),
        proof_seconds=float(given("proof_seconds", "25")),
        proof_every=float(given("proof_minutes", "60")) * 60,
    )


def _authservs(text: str) -> list[str]:
    names = text.replace(",", " ").lower().split()
    if not names:
        raise UsageError(
            "channels.email.authserv is missing: without it anybody could write in anybody's name",
            "look at the source of a mail in the agent's mailbox: it is the first word of "
            "Authentication-Results",
        )
    for name in names:
        if not _AUTHSERV.fullmatch(name):
            raise UsageError(
                f"channels.email.authserv: {name!r} may stand for anybody",
                "name your mail server: mx.example.org, or *.example.org for several",
            )
    return names


class Email:
    def __init__(self, facts: EmailSettings, around: ChannelContext) -> None:
        self._facts = facts
        self._around = around
        self._post = SmtpSender(facts.smtp, facts.user, facts.password, facts.address)
        self._threads = Threads()
        self._nudge = asyncio.Event()
        self._looked = asyncio.Condition()
        self._looks = 0
        self._waiting: dict[str, asyncio.Event] = {}
        self._proven: float | None = None

    # in

    async def run(self) -> None:
        async with self._mailbox() as imap:
            mark = await self._begin(imap, await imap.select(self._facts.folder))
            while True:
                self._nudge.clear()
                mark = await self._look(imap, mark)
                async with self._looked:
                    self._looks += 1
                    self._looked.notify_all()
                await imap.idle(self._facts.look_seconds, self._nudge)

    def _mailbox(self) -> AbstractAsyncContextManager[Imap]:
        return logged_in(self._facts.imap, self._facts.user, self._facts.password)

    async def _begin(self, imap: Imap, folder: MailFolder) -> MailboxCursor:
        """From where on is read: what came before we were here is not for us."""
        before = _mark(await self._around.mark())
        if before is not None and before.validity == folder.validity:
            return before
        uid = folder.next - 1
        if before is not None:
            log.warning("the mails of %s are numbered anew", self._facts.folder)
            date = format_datetime(datetime.fromtimestamp(before.time - DAY, UTC))
            recent = await imap.search("SINCE", "-".join(date.split()[1:4]))
            uid = recent[0] - 1 if recent else uid
        mark = MailboxCursor(folder.validity, uid, self._around.clock())
        await self._around.save_cursor(str(mark))
        return mark

    async def _look(self, imap: Imap, mark: MailboxCursor) -> MailboxCursor:
        """Take all that is new."""
        for uid, size in await imap.sizes(mark.uid):
            mark = MailboxCursor(mark.validity, uid, self._around.clock())
            await self._take(imap, uid, size, str(mark))
        return mark

    async def _take(self, imap: Imap, uid: int, size: int, mark: str) -> None:
        try:
            head = await asyncio.to_thread(head_of, await imap.fetch(uid, "HEADER") or b"")
            if self._is_proof(head):
                if waiting := self._waiting.get(head.proof):
                    waiting.set()
                await imap.delete(uid)
            elif why := self._passed_over(head):
                log.info("mail %d is passed over: %s", uid, why)
            else:
                body = await self._body(imap, uid, size, head)
                await self._around.receive(self._arrived(head, body), mark)
                self._threads.came(head)
                await imap.seen(uid)
                return
        except MalformedMail as error:
            log.warning("mail %d is malformed and passed over: %s", uid, error.message)
        await self._around.save_cursor(mark)

    async def _body(self, imap: Imap, uid: int, size: int, head: MailHeaders) -> Body:
        if size > LARGEST:
            return Body(notes=(f"(what it says is not read: it has {size} bytes)",))
        return await asyncio.to_thread(body_of, await imap.fetch(uid) or b"", head)

    def _passed_over(self, head: MailHeaders) -> str:
        """Why nobody may have written it who could talk to us."""
        if head.automatic:
            return head.automatic
        if head.sender == self._facts.address:
            return "it is from ourselves"
        if self._facts.authservs is None:
            return ""
        return doubt(head.results, self._facts.authservs, head.sender)

    def _arrived(self, head: MailHeaders, body: Body) -> InboundMessage:
        voice = tuple(one for one in body.files if one.type.startswith("audio/"))
        return InboundMessage(
            f"{head.sender}/{head.id}",  # others know the id of a mail: it is only theirs who wrote
            Chat("email", head.sender, self._threads.thread_of(head)),
            Person(head.sender, head.name),
            with_notes(_said(head, body), list(body.notes)),
            files=tuple(one for one in body.files if one not in voice),
            voice=voice,
            reply_to=head.references[-1] if head.references else "",
            time=head.time,
        )

    # out

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        to = outgoing.chat.chat
        if outgoing.edit:
            raise SendError("a mail that was sent cannot be changed", again=False)
        if not outgoing.text and not outgoing.files:
            raise SendError("there is nothing to send", again=False)
        if not ADDRESS.fullmatch(to):
            raise SendError(f"{to!r} is no address", again=False)
        id = id_of(key, self._facts.address)
        before = await self._threads.before(outgoing.chat.thread, self._last)
        mail = written(outgoing, id, self._facts.address, before, self._around.clock())
        try:
            await self._post.send(to, mail.as_bytes())
        except SendError as error:
            if error.channel:
                self._proven = None
            raise
        subject = str(mail["Subject"])
        self._threads.went(outgoing.chat.thread, id, before.subject if before else subject)
        return id

    async def _last(self, thread: str) -> MailHeaders | None:
        async with self._mailbox() as imap:
            return await last_of(imap, self._facts.folder, thread)

    async def typing(self, _chat: Chat) -> None:
        """There is no such thing."""

    # being alive

    async def probe(self) -> None:
        """Now and then a mail to ourselves has to come in; between, the mailbox has to answer."""
        now, before = self._around.clock(), self._proven
        self._proven = None
        try:
            async with asyncio.timeout(self._facts.proof_seconds):
                if before is None or now - before >= self._facts.proof_every:
                    await self._round_trip()
                    before = now
                else:
                    await self._next_look()
                self._proven = before
        except TimeoutError:
            raise HermesError("what is mailed to us does not come to us") from None

    async def _round_trip(self) -> None:
        word = self._sealed(secrets.token_hex(8))
        came = self._waiting[word] = asyncio.Event()
        try:
            address = self._facts.address
            mail = proof(word, id_of(word, address), address, self._around.clock())
            async with self._looked:  # what comes before the first look is not for us
                await self._looked.wait_for(lambda: self._looks > 0)
            await self._post.send(address, mail.as_bytes())
            await came.wait()
        finally:
            del self._waiting[word]

    async def _next_look(self) -> None:
        async with self._looked:
            before = self._looks
            self._nudge.set()
            await self._looked.wait_for(lambda: self._looks > before)

    def _sealed(self, word: str) -> str:
        """A word by which we know a proof of ours, from before a restart too."""
        seal = hmac.new(self._facts.password.encode(), word.encode(), hashlib.sha256)
        return f"{word}.{seal.hexdigest()[:32]}"

    def _is_proof(self, head: MailHeaders) -> bool:
        if not head.proof or head.sender != self._facts.address:
            return False
        return hmac.compare_digest(
            head.proof.encode(), self._sealed(head.proof.partition(".")[0]).encode()
        )

    async def close(self) -> None:
        """Each connection is closed by who opened it."""


def _mark(text: str) -> MailboxCursor | None:
    try:
        validity, uid, time = text.split(":")
        return MailboxCursor(int(validity), int(uid), float(time))
    except ValueError:
        if text:
            log.warning("what was read before is unknown: the mark %r cannot be read", text[:200])
        return None


def _said(head: MailHeaders, body: Body) -> str:
    """The text; of a mail that opens a conversation with its subject, but for commands and codes,
    which stand alone."""
    text, subject = body.text, head.subject
    if head.references or not subject:
        return text
    if text.startswith("/") or len(text.split()) == 1:
        return text
    return f"{subject}\n\n{text}".strip()
