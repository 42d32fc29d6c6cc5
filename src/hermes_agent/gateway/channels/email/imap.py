"""A small asynchronous IMAP client (RFC 3501, IDLE, UIDPLUS): reads one folder and waits for new
mail."""

import asyncio
import base64
import itertools
import re
import secrets
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.gateway.channel import CredentialsRejected
from hermes_agent.gateway.channels.email.servers import MailServer
from hermes_agent.gateway.channels.shared import said, together

SECONDS = 60.0
"""Timeout for one line or one chunk of a response."""
CLOSE_SECONDS = 2.0
MAX_LINE = 4_000_000
MAX_LITERAL = 64_000_000
CHUNK = 1_000_000
PASSING = ("UNAVAILABLE", "LIMIT", "INUSE", "SERVERBUG", "CONTACTADMIN")
"""Response codes of a refused login that do not mean a wrong password."""

_LITERAL = re.compile(rb"\{(\d+)\}\r\n\Z")
_CODE = re.compile(r"\[([A-Z-]+)")
_FETCH = re.compile(rb"\* \d+ FETCH ", re.IGNORECASE)
_UID = re.compile(rb"[( ]UID (\d+)", re.IGNORECASE)
_SIZE = re.compile(rb"[( ]RFC822\.SIZE (\d+)", re.IGNORECASE)
_QUOTED = re.compile(rb'BODY\[[^\]]*\] "((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_NEWS = re.compile(rb"\* \d+ EXISTS", re.IGNORECASE)


class ImapError(HermesError):
    """The server refuses a command."""


class ConnectionLost(HermesError):
    """The connection ended."""


class MailFolder(Struct, frozen=True):
    validity: int
    """UIDVALIDITY: changes when the mails are renumbered."""
    next: int
    """UIDNEXT: the number of the next mail."""


class ImapResponse(Struct, frozen=True):
    line: bytes
    literals: tuple[bytes, ...] = ()


@asynccontextmanager
async def logged_in(place: MailServer, user: str, password: str) -> AsyncIterator["Imap"]:
    imap = await _connected(place)
    try:
        await imap.begin(place)
        await imap.login(user, password)
        yield imap
    finally:
        await imap.close()


async def _connected(place: MailServer) -> "Imap":
    context = place.context() if place.safety == "tls" else None
    try:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection(
                place.host, place.port, ssl=context, limit=MAX_LINE
            )
    except TimeoutError:
        raise ConnectionLost(f"{place.host} is not responding") from None
    except OSError as error:
        raise ConnectionLost(f"cannot reach {place.host}: {error}") from None
    return Imap(reader, writer)


class Imap:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._tags = _tags()
        self._can: frozenset[str] = frozenset()
        self._news = False

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()

    # a session

    async def begin(self, place: MailServer) -> None:
        greeting = (await self._answer()).line
        if not greeting.upper().startswith((b"* OK", b"* PREAUTH")):
            raise ConnectionLost(f"{place.host} refused the connection: {_text(greeting)}")
        if place.safety == "starttls":
            await self._ask("STARTTLS")
            try:
                await self._writer.start_tls(place.context(), server_hostname=place.host)
            except OSError as error:
                raise ConnectionLost(f"STARTTLS with {place.host} failed: {error}") from None
            self._tags = _tags()  # responses sent before TLS do not count
        await self._read_capabilities()

    async def _read_capabilities(self) -> None:
        words = [
            word
            for answer in await self._ask("CAPABILITY")
            if answer.line.upper().startswith(b"* CAPABILITY")
            for word in _text(answer.line).upper().split()
        ]
        self._can = frozenset(words)

    async def login(self, user: str, password: str) -> None:
        if "LOGINDISABLED" in self._can and "AUTH=PLAIN" not in self._can:
            raise CredentialsRejected(
                "the mail server does not accept passwords on this connection", "use tls://"
            )
        try:
            if "AUTH=PLAIN" in self._can:
                word = base64.b64encode(f"\0{user}\0{password}".encode()).decode()
                at_once = "SASL-IR" in self._can
                text = f"AUTHENTICATE PLAIN {word}" if at_once else "AUTHENTICATE PLAIN"
                await self._ask(text, more="" if at_once else word)
            else:
                await self._ask(f"LOGIN {quoted(user)} {quoted(password)}")
        except ImapError as error:
            code = _CODE.search(error.message)
            if (code and code[1] in PASSING) or "too many" in error.message.lower():
                raise
            raise CredentialsRejected(
                "the mail server rejected the password",
                "set channels.email.password to the name of a secret that holds a valid one",
            ) from None
        await self._read_capabilities()

    async def select(self, folder: str) -> MailFolder:
        said = b" ".join(answer.line for answer in await self._ask(f"SELECT {quoted(folder)}"))
        validity = re.search(rb"\[UIDVALIDITY (\d+)", said, re.IGNORECASE)
        following = re.search(rb"\[UIDNEXT (\d+)", said, re.IGNORECASE)
        if validity is None or following is None:
            raise ImapError("the mail server sent no UIDVALIDITY or UIDNEXT")
        self._news = False
        return MailFolder(int(validity[1]), int(following[1]))

    async def sizes(self, after: int) -> list[tuple[int, int]]:
        """UID and size of every mail after a UID, in order."""
        self._news = False
        found = {}
        for answer in await self._ask(f"UID FETCH {after + 1}:* (UID RFC822.SIZE)"):
            uid, size = _UID.search(answer.line), _SIZE.search(answer.line)
            if _FETCH.match(answer.line) and uid and size and int(uid[1]) > after:
                found[int(uid[1])] = int(size[1])  # `n:*` always includes the last mail
        return sorted(found.items())

    async def fetch(self, uid: int, part: str = "") -> bytes | None:
        """A mail or a part such as HEADER, without marking it read; None if it is gone."""
        for answer in await self._ask(f"UID FETCH {uid} (UID BODY.PEEK[{part}])"):
            number = _UID.search(answer.line)
            if not _FETCH.match(answer.line) or number is None or int(number[1]) != uid:
                continue
            if answer.literals:
                return answer.literals[0]
            if said := _QUOTED.search(answer.line):
                return re.sub(rb"\\(.)", rb"\1", said[1])
        return None

    async def search(self, *words: str) -> list[int]:
        found = []
        for answer in await self._ask(" ".join(("UID SEARCH", *words))):
            if answer.line.upper().startswith(b"* SEARCH"):
                found += [int(word) for word in answer.line.split()[2:] if word.isdigit()]
        return sorted(found)

    async def seen(self, uid: int) -> None:
        await self._ask(rf"UID STORE {uid} +FLAGS.SILENT (\Seen)")

    async def delete(self, uid: int) -> None:
        """Without UIDPLUS, the mail stays and is only marked as deleted."""
        await self._ask(rf"UID STORE {uid} +FLAGS.SILENT (\Deleted \Seen)")
        if "UIDPLUS" in self._can:
            await self._ask(f"UID EXPUNGE {uid}")

    async def idle(self, seconds: float, nudge: asyncio.Event) -> None:
        """Waits until there may be new mail, `nudge` is set, or the time is over."""
        if self._news or nudge.is_set():
            return
        if "IDLE" not in self._can:
            await _wait(seconds, nudge.wait())
            return
        tag = await self._write("IDLE")
        while not (answer := await self._answer()).line.startswith(b"+"):
            if answer.line.startswith(tag):
                raise ImapError(f"the mail server refused IDLE: {_text(answer.line)}")
        await _wait(seconds, self._until_news(), nudge.wait())
        await self._send(b"DONE\r\n")
        await self._until(tag)

    async def _until_news(self) -> None:
        while not self._news:
            self._note(await self._line(None))

    # the wire

    async def _ask(self, text: str, more: str = "") -> list[ImapResponse]:
        """The responses to a command; `more` is sent when the server asks to continue."""
        tag = await self._write(text)
        return await self._until(tag, more)

    async def _write(self, text: str) -> bytes:
        tag = next(self._tags)
        await self._send(f"{tag} {text}\r\n".encode())
        return f"{tag} ".encode()

    async def _send(self, data: bytes) -> None:
        with _connection_errors():
            self._writer.write(data)
            async with asyncio.timeout(SECONDS):
                await self._writer.drain()

    async def _until(self, tag: bytes, more: str = "") -> list[ImapResponse]:
        answers: list[ImapResponse] = []
        while True:
            answer = await self._answer()
            line = answer.line
            if line.startswith(tag):
                if line[len(tag) :].upper().startswith(b"OK"):
                    return [*answers, answer]
                raise ImapError(f"the mail server answered: {_text(line[len(tag) :])}")
            if line.startswith(b"+"):
                await self._send(f"{more}\r\n".encode())
            elif line.upper().startswith(b"* BYE"):
                raise ConnectionLost(f"the mail server closed the connection: {_text(line)}")
            else:
                answers.append(answer)

    async def _answer(self) -> ImapResponse:
        """One response with its literals."""
        line, literals = await self._line(SECONDS), []
        while found := _LITERAL.search(line):
            length = int(found[1])
            if length > MAX_LITERAL:
                raise ConnectionLost(f"the mail server sent too much at once: {length} bytes")
            literals.append(await self._bytes(length))
            line = line[: found.start()] + b"~" + await self._line(SECONDS)
        self._note(line)
        return ImapResponse(line, tuple(literals))

    def _note(self, line: bytes) -> None:
        self._news = self._news or _NEWS.match(line) is not None

    async def _line(self, seconds: float | None) -> bytes:
        with _connection_errors():
            async with asyncio.timeout(seconds):
                return await self._reader.readuntil(b"\r\n")

    async def _bytes(self, length: int) -> bytes:
        chunks = []
        with _connection_errors():
            while length:
                async with asyncio.timeout(SECONDS):
                    chunks.append(await self._reader.readexactly(min(length, CHUNK)))
                length -= len(chunks[-1])
        return b"".join(chunks)


@contextmanager
def _connection_errors() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise ConnectionLost("the mail server is not responding") from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
        raise ConnectionLost(f"the connection to the mailbox was lost: {said(error)}") from None


def _tags() -> Iterator[str]:
    """Unguessable command tags."""
    word = secrets.token_hex(4)
    return (f"h{word}{number}" for number in itertools.count(1))


def quoted(text: str) -> str:
    """As a quoted string, which must be printable ASCII."""
    if not text.isascii() or not text.isprintable():
        raise ImapError("IMAP allows only printable ASCII here")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


async def _wait(seconds: float, *events: Coroutine[Any, Any, object]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await together(*events)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()[:300]
