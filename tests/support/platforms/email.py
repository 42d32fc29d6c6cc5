"""Real mail servers (Dovecot and OpenSMTPD), with a proxy before each that makes trouble: it holds
back what the mailbox says, refuses what is sent, or spoils the password on its way."""

import asyncio
import imaplib
import json
import re
import secrets
import smtplib
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import formatdate
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from hermes_agent.core.gateway import Chat
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import WebhookReceiver
from tests.support.mailserver import HERE, PASSWORD, PEOPLE, MailServer, mailserver
from tests.support.patience import PATIENCE
from tests.support.platforms import Shown, Switch, Trouble, Where

AUTHSERV = f"mail.{HERE}"
LIMIT = 10_000_000
SPOILT = b64encode(b"\0nobody\0wrong")

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Proxy:
    """A door on this machine whose connections can be cut."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._come, "127.0.0.1", 0, limit=LIMIT)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            await _closed(writer)
            self._tasks.discard(task)

    async def cut(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self.cut()
            await self._server.wait_closed()


class EmailPlatform:
    name = "email"
    switches: frozenset[Switch] = frozenset((
        "deaf", "cut", "limited", "broken", "twice", "malformed", "expired", "forgets-chat",
    ))  # fmt: skip
    listen = ""
    channel: WebhookReceiver | None = None

    def __init__(self) -> None:
        self.trouble = Trouble(after=60.0)
        word = secrets.token_hex(4)
        self.me = f"hermes-{word}@{HERE}"
        self.person = f"ada-{word}@{PEOPLE}"
        self._roots = {"private": f"<private-{word}@{PEOPLE}>", "thread": f"<other-{word}@{HERE}>"}
        self._imap, self._smtp = Proxy(self._mailbox), Proxy(self._post)
        self._accepted: list[str] = []
        self._last = b""
        self.server: MailServer

    async def start(self, _folder: Path) -> None:
        self.server = await asyncio.to_thread(mailserver)
        await self._imap.start()
        await self._smtp.start()

    async def stop(self) -> None:
        await self._imap.stop()
        await self._smtp.stop()

    async def cut(self) -> None:
        await self._imap.cut()
        await self._smtp.cut()

    def settings(self) -> Mapping[str, Any]:
        return {
            "address": self.me,
            "password": "email-password",
            "imap": f"plain://127.0.0.1:{self._imap.port}",
            "smtp": f"plain://127.0.0.1:{self._smtp.port}",
            "authserv": AUTHSERV,
            "look_seconds": 0.1,
            "proof_seconds": 3,
        }

    def secrets(self) -> Mapping[str, str]:
        return {"email-password": PASSWORD}

    def chat(self, where: Where = "private") -> Chat:
        return Chat("email", self.person, self._roots.get(where, self._roots["private"]))

    # people

    def mail(self, text: str, **headers: str) -> EmailMessage:
        """A mail of the person to the agent, which their mail server vouches for."""
        mail = EmailMessage(policy=policy.SMTP)
        given = {
            "Authentication-Results": f"{AUTHSERV}; dmarc=pass header.from={PEOPLE}",
            "From": f"Ada Lovelace <{self.person}>",
            "To": self.me,
            "Subject": "a topic",
            "Message-ID": f"<{secrets.token_hex(8)}@{PEOPLE}>",
            "Date": formatdate(time.time()),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        for name, value in given.items():
            if value:
                mail[name] = value
        mail.set_content(text)
        return mail

    async def say(
        self,
        text: str,
        *,
        where: Where = "private",
        addressed: bool = False,
        reply_to: str = "",
        files: Sequence[Media] = (),
        voice: Media | None = None,
    ) -> str:
        root = self.chat(where).thread
        chain = f"{root} {reply_to}".strip()
        answered = reply_to or root
        mail = self.mail(text, Subject="Re: a topic", References=chain, In_Reply_To=answered)
        for file in (*files, *([voice] if voice else [])):
            main, _, sub = file.type.partition("/")
            mail.add_attachment(file.data, maintype=main, subtype=sub, filename=file.name)
        await self.post(mail.as_bytes())
        return f"{self.person}/{mail['Message-ID']}"

    async def post(self, raw: bytes, sender: str | None = None) -> None:
        """Mail it, and wait until it is in the mailbox under a number of its own."""
        self._last = raw
        await asyncio.to_thread(self._deliver, raw, self.person if sender is None else sender)

    def _deliver(self, raw: bytes, sender: str) -> None:
        id = str(message_from_bytes(raw)["Message-ID"]).encode()
        with smtplib.SMTP("127.0.0.1", self.server.ports.delivery, "localhost") as way:
            way.sendmail(sender, [self.me], raw)
        _until(lambda: any(id in there for there in self._mails(self.me)))
        self._number()

    def _number(self) -> None:
        with imaplib.IMAP4("127.0.0.1", self.server.ports.imap) as mailbox:
            mailbox.login(self.me, PASSWORD)
            mailbox.status("INBOX", "(UIDNEXT)")

    def _mails(self, address: str) -> list[bytes]:
        found = []
        for path in sorted(self.server.maildir(address).glob("[nc][eu][wr]/*")):
            with suppress(FileNotFoundError):  # it moves when it is noticed
                found.append(path.read_bytes())
        return found

    def acknowledged(self, id: str) -> bool:
        """Whether it is marked as read."""
        for path in self.server.maildir(self.me).glob("cur/*"):
            with suppress(FileNotFoundError):
                if id.partition("/")[2].encode() in path.read_bytes():
                    return "S" in path.name.partition(":2,")[2]
        return False

    async def again(self) -> None:
        await self.drop(self._last)

    async def bring(self, rubbish: Any) -> None:
        raw = json.dumps(rubbish).encode()
        if isinstance(rubbish, dict) and isinstance(rubbish.get("headers"), dict):
            lines = [f"{name}: {value}" for name, value in rubbish["headers"].items()]
            text = "\r\n".join([*lines, "", str(rubbish.get("body"))])
            raw = text.encode("utf-8", "replace")
        await self.drop(raw)

    async def drop(self, raw: bytes) -> None:
        """As it is, past every server."""
        await asyncio.to_thread(self.server.drop, self.me, raw, secrets.token_hex(4))

    def sound(self) -> Any:
        body = (
            "--x\r\nContent-Type: text/html; charset=iso-8859-1\r\n"
            "Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>a=E4</p>\r\n"
            '--x\r\nContent-Type: image/png\r\nContent-Disposition: attachment; filename="a"\r\n'
            "Content-Transfer-Encoding: base64\r\n\r\nAAAA\r\n--x--\r\n"
        )
        headers = {
            "Authentication-Results": f"{AUTHSERV}; dmarc=pass header.from={PEOPLE}",
            "From": f'"A. L." <{self.person}>', "Message-ID": "<z@people.test>",
            "Subject": "=?utf-8?q?a=C3=A4?=", "References": "<y@people.test>", "Date": "x",
            "Content-Type": 'multipart/mixed; boundary="x"', "MIME-Version": "1.0",
        }  # fmt: skip
        return {"headers": headers, "body": body}

    async def change(self, _id: str, _text: str) -> None:
        raise AssertionError("a mail cannot be changed")

    async def press(self, shown: Shown, button: str) -> None:
        raise AssertionError(f"there is no button {button!r} on {shown.id}")

    def seen_typing(self) -> Sequence[Chat]:
        return ()

    # what the person has got

    def sent(self) -> Sequence[Shown]:
        _until(lambda: len(self._mails(self.person)) >= len(self._accepted))
        shown = [_shown(raw, self.person) for raw in self._mails(self.person)]
        return sorted(shown, key=lambda one: self._accepted.index(one.id))

    # the proxies

    async def _mailbox(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self.server.ports.imap, limit=LIMIT)
        both = [
            asyncio.ensure_future(self._told(there[0], writer)),
            asyncio.ensure_future(self._asked(reader, there[1])),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there[1].close()
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _told(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await there.read(65_536):
            while self.trouble.deaf:
                await asyncio.sleep(0.02)
            writer.write(data)
            await writer.drain()

    async def _asked(self, reader: asyncio.StreamReader, there: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if self.trouble.expired:
                line = re.sub(rb"(AUTHENTICATE PLAIN) \S+", rb"\1 " + SPOILT, line)
            there.write(line)
            await there.drain()

    async def _post(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self.server.ports.submission
        there, back = await asyncio.open_connection("127.0.0.1", port, limit=LIMIT)
        to = ""
        try:
            writer.write(await _reply(there))
            while line := await reader.readline():
                word = line[:4].upper()
                if word == b"MAIL" and (refusal := self._refusal()):
                    writer.write(refusal)
                    continue
                if word == b"RCPT":
                    to = line.partition(b"<")[2].partition(b">")[0].decode()
                back.write(self._spoilt(line))
                reply = await _reply(there)
                if word == b"DATA" and reply.startswith(b"354"):
                    writer.write(reply)
                    data = await reader.readuntil(b"\r\n.\r\n")
                    back.write(data)
                    reply = await _reply(there)
                    if reply.startswith(b"250") and to == self.person:
                        self._accepted.append(str(message_from_bytes(data)["Message-ID"]))
                writer.write(reply)
        finally:
            await _closed(back)

    def _refusal(self) -> bytes:
        if self.trouble.limited:
            self.trouble.limited -= 1
            return b"450 4.7.1 you send too much, as told\r\n"
        if self.trouble.broken:
            self.trouble.broken -= 1
            return b"451 4.3.0 broken, as told\r\n"
        return b""

    def _spoilt(self, line: bytes) -> bytes:
        if self.trouble.expired:
            line = re.sub(rb"AUTH (PLAIN|LOGIN) \S+", b"AUTH PLAIN " + SPOILT, line)
        if self.trouble.forgets_chat:
            line = re.sub(rb"RCPT TO:<[^>]*>", b"RCPT TO:<nobody@gone.test>", line)
        return line


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _reply(there: asyncio.StreamReader) -> bytes:
    lines = [await there.readline()]
    while lines[-1][3:4] == b"-":
        lines.append(await there.readline())
    return b"".join(lines)


def _until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < deadline, "a mail is not delivered"
        time.sleep(0.005)


def _shown(raw: bytes, person: str) -> Shown:
    mail = message_from_bytes(raw, policy=policy.default)
    assert isinstance(mail, EmailMessage)
    html, plain = mail.get_body(("html",)), mail.get_body(("plain",))
    assert html is not None
    assert plain is not None
    files = tuple(
        Media(part.get_content_type(), part.get_payload(decode=True), part.get_filename() or "")
        for part in mail.iter_attachments()
    )
    thread = str(mail["References"] or "").partition(" ")[0]
    answers = str(mail["In-Reply-To"] or "")
    answered = "" if answers == thread else f"{person}/{answers}"
    return Shown(
        str(mail["Message-ID"]), Chat("email", person, thread), _read(html.get_content()),
        plain.get_content().rstrip("\n"), files, (), answered,
    )  # fmt: skip


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _read(html: str) -> str:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return "".join(reader.words).strip()
