"""The host's side of `agent.sh`: one stream to a remote spool, or single calls without one."""

import asyncio
import base64
import contextlib
import hashlib
import re
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from hermes_agent.core.effects import Confinement
from hermes_agent.core.errors import HermesError
from hermes_agent.core.files import write_durably
from hermes_agent.terminals.command_backend import TerminalUnreachable
from hermes_agent.terminals.shell.daemon import SCRIPT as DAEMON
from hermes_agent.terminals.transport import ByteStream, ProcessResult, Transport

SCRIPTS = {"daemon.sh": DAEMON, "agent.sh": Path(__file__).with_name("agent.sh")}
ANSWER_SECONDS = 90.0
"""After this long without an answer the connection counts as lost."""
BASH = ("bash", "--noprofile", "--norc")
TOO_OLD = 3

_PLACE = r"""
if ((BASH_VERSINFO[0] < 5)); then exit 3; fi
umask 077
for top in "$HOME/.cache/hermes" "/tmp/hermes-$UID"; do
  [[ $top == /* ]] && mkdir -p -- "$top/$1" 2>/dev/null || continue
  [[ -O $top && ! -L $top && -w $top/$1 ]] && chmod 700 -- "$top" "$top/$1" || continue
  printf '%s\0' "$top/$1" "$(uname -m)" "$(command -v bwrap)"
  for file in "${@:2}"; do [[ -s $top/$1/$file ]] && printf '%s\0' "$file"; done
  exit 0
done
exit 4
"""
_PUT = r"""
umask 077
cat >"$1.$$" && [[ $(wc -c <"$1.$$") -eq $2 ]] && mv -f -- "$1.$$" "$1"
"""
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%=")
_BYTES = [bytes([n]) if n in _SAFE else b"\\x%02x" % n for n in range(256)]
_ESCAPES = re.compile(rb"\\(n|t|x21|\\)")
_SIGNS = {b"n": b"\n", b"t": b"\t", b"x21": b"!", b"\\": b"\\"}


class AgentAnswer(NamedTuple):
    words: list[str]
    blocks: list[bytes]

    @property
    def trouble(self) -> str:
        """Why it was not done; empty when it was."""
        return self.words[1] if self.words[:1] == ["no"] else ""


class Handshake(NamedTuple):
    """The first message to the agent: whom it serves."""

    workspace: str
    idle: float
    most: int
    """Bytes of output after which a background command is stopped."""
    make: bool
    """Whether a missing workspace is created."""
    environment: Mapping[str, str]


def word(text: str | bytes) -> bytes:
    """An argument as the agent reads it."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return b"=" + b"".join(map(_BYTES.__getitem__, data))


def parse(lines: list[bytes]) -> AgentAnswer:
    blocks: list[bytes] = []
    inside: list[bytes] | None = None
    for line in lines[1:]:
        if inside is not None:
            if line == b">":
                blocks.append(base64.b64decode(b"".join(inside)))
                inside = None
            else:
                inside.append(line)
        elif line == b"<":
            inside = []
        else:
            blocks.append(unescape(line[1:]))
    return AgentAnswer(lines[0].decode("utf-8", "surrogateescape").split(), blocks)


def unescape(data: bytes) -> bytes:
    return _ESCAPES.sub(lambda found: _SIGNS[found[1]], data)


class RemoteAgentClient:
    """Sends requests to the remote agent. Connects by itself, and again after a lost connection."""

    def __init__(
        self,
        transport: Transport,
        session: str,
        handshake: Handshake,
        note: Path,
        heard: Callable[[str, list[bytes]], None],
    ) -> None:
        self._transport = transport
        self._session = session
        self._handshake = handshake
        self._note = note
        self._heard = heard
        self._connecting = asyncio.Lock()
        self._line: _Line | None = None
        self._argv: list[str] = []
        self._up = False
        self.spool = ""
        """Set when the machine was first reached."""
        self.workspace = handshake.workspace
        self.machine = self.bubblewrap = ""
        """What `uname -m` says there, and where bubblewrap is; empty if it is not."""
        self.unconfined: Mapping[Confinement, str] | None = None
        """Why commands cannot be confined there; None: not tried over this connection."""
        self.trusted = True
        """Whether it is the same spool as before, since the same boot."""
        self._lost = False
        self._strange = False
        """Whether a home that was restored from a backup since used it: its commands may have the
        same ids as ours."""
        self._mark = ""

    @property
    def pushes(self) -> bool:
        """Whether the agent reports the end of commands, so that polling is not needed."""
        return self._line is not None

    @property
    def connected(self) -> bool:
        return self._up

    async def reach(self) -> None:
        """Connect, unless we are. Raises `TerminalUnreachable`."""
        await self._connect()

    async def ask(self, verb: str, *arguments: str | bytes) -> AgentAnswer:
        """Raises `TerminalUnreachable` when the request was not sent, and `ConnectionError` when
        its outcome is unknown."""
        await self._connect()
        request = b" ".join([verb.encode(), *map(word, arguments)]) + b"\n"
        line = self._line
        if line is None:
            return await self._single(request)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await line.ask(request)
        except TimeoutError:
            await self.drop()
            raise ConnectionError("no answer") from None

    async def bulk(self, verb: str, *arguments: str | bytes, data: bytes = b"") -> AgentAnswer:
        """Send a request outside the stream, with any amount of data."""
        await self._connect()
        request = b" ".join([verb.encode(), *map(word, arguments)]) + b"\n"
        return await self._single(request + data)

    async def script(self, text: str, *arguments: str, data: bytes = b"") -> bytes:
        """Run a script there; returns its output."""
        await self._connect()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                done = await self._transport.call([*BASH, "-c", text, "hermes", *arguments], data)
        except TimeoutError:
            raise HermesError("a script did not finish there in time") from None
        if done.code:
            raise HermesError(f"a script failed there: {_last_line(done)}")
        return done.stdout

    async def drop(self) -> None:
        """Close the stream and the connection."""
        await self.disconnect()
        await self._transport.close()

    async def disconnect(self) -> None:
        line, self._line, self._up = self._line, None, False
        if line is not None:
            await line.close()

    async def _connect(self) -> None:
        async with self._connecting:
            if self._up and (self._line is None or self._line.open):
                return
            await self.disconnect()
            try:
                await self._transport.ready()
                spool = await self._place()
                daemon, client = (f"{spool}/{_named(script)}" for script in SCRIPTS)
                self._argv = [*BASH, client, spool, daemon]
                channel = await self._transport.start([*self._argv, "listen"])
                self._line = None if channel is None else _Line(channel, self._heard)
                await self._shake_hands()
            except HermesError as error:
                raise TerminalUnreachable(error.message, error.hint) from error
            except (ConnectionError, TimeoutError) as error:
                raise TerminalUnreachable(
                    f"the connection was lost immediately: {error}"
                ) from error
            self.spool, self._up, self.unconfined = spool, True, None

    async def _place(self) -> str:
        """Find or create the spool, and copy missing scripts into it."""
        names = [_named(script) for script in SCRIPTS]
        done = await self._transport.call([*BASH, "-c", _PLACE, "hermes", self._session, *names])
        if done.code in (TOO_OLD, 126, 127):
            what = "too old" if done.code == TOO_OLD else "not installed"
            raise HermesError(f"bash is {what} there", "commands need bash 5.0 or newer")
        if done.code == 4:
            raise HermesError(
                "neither ~/.cache nor /tmp is writable there", "make one of them writable"
            )
        said = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
        spool, self.machine, self.bubblewrap, *have = said or ("", "", "")
        if done.code or not spool:
            raise HermesError(f"no folder for commands could be created there: {_last_line(done)}")
        for script, name in zip(SCRIPTS, names, strict=True):
            if name not in have:
                data = _script(script)
                put = [*BASH, "-c", _PUT, "hermes", f"{spool}/{name}", str(len(data))]
                done = await self._transport.call(put, data)
                if done.code:
                    raise HermesError(f"{name} could not be copied there: {_last_line(done)}")
        return spool

    async def _shake_hands(self) -> None:
        if self._line is None:
            answer = _answers(await self._transport.call(self._argv, self._hello()))[0]
        else:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._line.ask(self._hello())
        self._mark, same, used = answer.words[1:4]
        self._strange = used == "1"
        if self._strange or self._expected() not in ("", self._mark):
            self._lost = True
        self.trusted = same == "1" and not self._lost
        self.workspace = answer.blocks[0].decode("utf-8", "surrogateescape")

    async def adopt(self) -> None:
        """Record on disk which spool is ours before a command is put into it: should another take
        its place one day, a command missing from that one may have run in this one."""
        if self._strange:
            await self.ask("clear")
            self._strange = False
        if self._expected() != self._mark:
            self._note.parent.mkdir(parents=True, exist_ok=True)
            write_durably(self._note, self._mark.encode())

    def _expected(self) -> str:
        return self._note.read_text() if self._note.exists() else ""

    def _hello(self) -> bytes:
        handshake = self._handshake
        words = [
            handshake.workspace,
            f"{max(handshake.idle, 0.05):.3f}",
            str(handshake.most),
            self._expected(),
            "1" if handshake.make else "0",
            *(f"{name}={value}" for name, value in handshake.environment.items()),
        ]
        return b" ".join([b"hello", *map(word, words)]) + b"\n"

    async def _single(self, request: bytes) -> AgentAnswer:
        try:
            done = await self._transport.call(self._argv, self._hello() + request)
            answers = _answers(done)
            if len(answers) < 2:
                raise ConnectionError(f"no answer: {_last_line(done)}")
        except ConnectionError:
            self._up = self._line is not None  # without a stream nobody else notices
            raise
        return answers[1]


class _Line:
    """Requests and answers over a stream, in order, with news of ended commands between."""

    def __init__(self, channel: ByteStream, heard: Callable[[str, list[bytes]], None]) -> None:
        self._channel = channel
        self._heard = heard
        self._waiting: deque[asyncio.Future[AgentAnswer]] = deque()
        self._lines: list[bytes] = []
        self._sending: set[asyncio.Task[None]] = set()
        self.open = True
        self._reading = asyncio.create_task(self._read())

    async def ask(self, request: bytes) -> AgentAnswer:
        if not self.open:
            raise ConnectionError("the channel is closed")
        answer: asyncio.Future[AgentAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        # Sent completely even when the caller is cancelled: a request that was never sent would
        # shift the answers to all later ones.
        sending = asyncio.create_task(self._send(request))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        await asyncio.shield(sending)
        return await answer

    async def _send(self, request: bytes) -> None:
        try:
            await self._channel.write(request)
        except ConnectionError:
            self._end()

    async def close(self) -> None:
        self._end()
        for task in (self._reading, *self._sending):
            task.cancel()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await task
        with contextlib.suppress(ConnectionError):
            await self._channel.close()

    def _end(self) -> None:
        self.open = False
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(ConnectionError("the connection was lost"))

    async def _read(self) -> None:
        rest = b""
        try:
            while part := await self._channel.read():
                rest = self._take(rest + part)
        except ConnectionError:
            pass
        finally:
            self._end()

    def _take(self, data: bytes) -> bytes:
        """Process what has arrived; returns what is not complete yet."""
        while (begin := data.find(b"!")) >= 0:
            end = data.find(b"!", begin + 1)
            if end < 0:
                break
            first, *blocks = data[begin + 1 : end].split(b"\t")
            self._heard(first.decode(), blocks)
            data = data[:begin] + data[end + 1 :]
        # Incomplete news stays with what is before it.
        whole = data.rfind(b"\n", 0, len(data) if begin < 0 else begin)
        for line in data[: whole + 1].split(b"\n")[:-1]:
            if line != b".":
                self._lines.append(line)
                continue
            lines, self._lines = self._lines, []
            if self._waiting and not (answer := self._waiting.popleft()).done():
                answer.set_result(parse(lines))
        return data[whole + 1 :]


def _answers(done: ProcessResult) -> list[AgentAnswer]:
    found: list[AgentAnswer] = []
    lines: list[bytes] = []
    for line in done.stdout.split(b"\n"):
        if line == b".":
            found.append(parse(lines))
            lines = []
        else:
            lines.append(line)
    if not found:
        raise ConnectionError(f"no answer: {_last_line(done)}")
    return found


def _last_line(done: ProcessResult) -> str:
    text = done.stderr.decode("utf-8", "replace").strip()
    return text.splitlines()[-1] if text else f"exit code {done.code}"


def _script(name: str) -> bytes:
    return SCRIPTS[name].read_bytes()


def _named(name: str) -> str:
    """The name holds a hash of the content: versions do not overwrite each other."""
    stem, _, kind = name.partition(".")
    return f"{stem}-{hashlib.sha256(_script(name)).hexdigest()[:16]}.{kind}"
