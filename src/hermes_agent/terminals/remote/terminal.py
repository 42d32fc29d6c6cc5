"""A terminal on another machine: the same shell daemon, reached through the remote agent."""

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes_agent.core.effects import Confinement
from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.protocols import Clock, ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.terminals.command_backend import CommandReport, CommandStatus, OutputExcerpt, Why
from hermes_agent.terminals.output import NEWS_BYTES, wanted
from hermes_agent.terminals.persistent import PersistentTerminal
from hermes_agent.terminals.remote.agent_client import (
    AgentAnswer,
    Handshake,
    RemoteAgentClient,
    unescape,
)
from hermes_agent.terminals.remote.files import RemoteFiles
from hermes_agent.terminals.transport import Transport

NEWS_SECONDS = (0.1, 1.0)
FALLBACK_POLL_SECONDS = (0.5, 5.0)
"""The first and the longest pause between two polls, where the agent pushes the end of commands."""
POLL_SECONDS = (0.02, 2.0)
"""The same where it does not."""
LINE_BYTES = 16_000
"""Longer texts are sent outside the stream, which bash reads byte by byte."""


class RemoteTerminal(RemoteFiles, PersistentTerminal):
    """Commands run on the machine that a transport reaches. `lasting`: that machine outlives the
    session; another is removed with everything on it."""

    def __init__(
        self,
        transport: Transport,
        *,
        session: str,
        workspace: str,
        folder: Path,
        settings: TerminalSettings,
        environment: Mapping[str, str],
        lasting: bool,
        clock: Clock = time.time,
        most: float | None = None,
    ) -> None:
        handshake = Handshake(
            workspace, settings.idle_seconds, settings.output_mb * 1_000_000, not lasting,
            environment,
        )  # fmt: skip
        backend = RemoteBackend(transport, session, handshake, folder / "spool", lasting=lasting)
        self._client = backend.client
        super().__init__(backend, settings, clock, most)

    @property
    def workspace(self) -> str:
        """As given until the machine was first reached; absolute from then on."""
        return self._client.workspace


class RemoteBackend:
    def __init__(
        self, transport: Transport, session: str, handshake: Handshake, note: Path, *, lasting: bool
    ) -> None:
        self._transport = transport
        self.client = RemoteAgentClient(transport, session, handshake, note, self._heard)
        self._lasting = lasting
        self._waiting: dict[str, list[asyncio.Future[CommandStatus]]] = {}
        self._told: dict[str, CommandReport] = {}
        """Short reports that came with news of an end, until they are asked for."""
        self._ended: dict[str, CommandStatus] = {}
        self._texts: dict[str, str] = {}
        """Commands begun and not reported yet."""
        self._destroyed = False
        self._probing = asyncio.Lock()

    def path(self, id: str) -> str:
        return f"{self.client.spool}/{id}.o"

    def pause(self, looks: int, *, news: bool) -> float:
        first, most = NEWS_SECONDS if news else FALLBACK_POLL_SECONDS
        if not self.client.pushes:
            first, most = POLL_SECONDS
        return min(most, first * 1.5 ** min(looks, 50))

    async def begin(self, command: ShellCommand) -> CommandStatus:
        if command.confinement != "none" and (why := await self.unconfined(command.confinement)):
            found = await self.look(command.id)
            if found.kind or found.code is not None:
                return found
            raise HermesError(f"it should run confined, but {why}", "run it with `changes`")
        return await self.submit(command)

    async def submit(self, command: ShellCommand) -> CommandStatus:
        id, text = command.id, command.text.encode()
        await self.client.reach()
        await self.client.adopt()
        self._texts[id] = command.text  # news of its end may come before the answer
        follows = len(text) <= LINE_BYTES
        if not follows:
            await self._bulk("text", id, str(len(text)), data=text)
        answer = await self._ask(
            "begin",
            id,
            "bg" if command.background else "fg",
            "1" if follows else "0",
            text if follows else b"",
            command.confinement,
            *(f"{name}={value}" for name, value in command.secrets.items()),
        )
        return _facts(answer.words)

    async def look(self, id: str) -> CommandStatus:
        if self._destroyed:
            return CommandStatus()
        return _facts((await self._ask("look", id)).words)

    async def wait(self, id: str, seconds: float) -> CommandStatus:
        if not self.client.pushes:
            await asyncio.sleep(seconds)
            return await self.look(id)
        told: asyncio.Future[CommandStatus] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(id, []).append(told)
        try:
            if id in self._ended:
                return self._ended[id]
            async with asyncio.timeout(seconds):
                return await told
        except TimeoutError:
            return await self.look(id)
        finally:
            self._waiting[id].remove(told)
            if not self._waiting[id]:
                del self._waiting[id]

    async def report(self, id: str, limit: int) -> CommandReport:
        if self._destroyed:
            return CommandReport(
                CommandStatus(), self._texts.get(id, ""), OutputExcerpt(), OutputExcerpt()
            )
        self._ended.pop(id, None)
        if id in self._told:
            self._texts.pop(id, None)
            return self._told.pop(id)
        answer = await self._ask("report", id, *map(str, wanted(limit)))
        self._texts.pop(id, None)
        blocks = iter(answer.blocks)
        text = next(blocks).decode("utf-8", "replace")
        out, out_cut, err, err_cut = map(int, answer.words[-4:])
        pieces = []
        for size, cut in ((out, out_cut), (err, err_cut)):
            head = next(blocks)
            pieces.append(
                OutputExcerpt(size, head, next(blocks)) if cut else OutputExcerpt(len(head), head)
            )
        return CommandReport(_facts(answer.words), text, *pieces)

    async def news(self, id: str, places: Sequence[int]) -> Sequence[tuple[int, bytes]]:
        if id in self._told:
            told = self._told[id]
            ends = (told.stdout.head, told.stderr.head)
            return [(place, end[place:]) for place, end in zip(places, ends, strict=True)]
        answer = await self._ask("news", id, *map(str, places), str(NEWS_BYTES))
        return list(zip(map(int, answer.words), answer.blocks, strict=True))

    async def background(self) -> Sequence[tuple[str, CommandReport]]:
        blocks = (await self._ask("background")).blocks
        found = []
        for line, text in zip(blocks[::2], blocks[1::2], strict=True):
            id, *words, out, err = line.decode().split()
            pieces = (OutputExcerpt(int(out)), OutputExcerpt(int(err)))
            found.append(
                (id, CommandReport(_facts(words), text.decode("utf-8", "replace"), *pieces))
            )
        return found

    async def stop(self, id: str, why: Why) -> None:
        await self._ask("stop", id, why)

    async def send(self, id: str, data: bytes) -> bool:
        try:
            for place in range(0, len(data), LINE_BYTES):
                part = base64.b64encode(data[place : place + LINE_BYTES])
                if (await self._ask("send", id, part)).words[0] != "sent":
                    return False
        except ConnectionError:
            raise ToolError(
                "the connection was lost; whether the input arrived is unknown",
                "check the command's output",
            ) from None
        return True

    async def void(self, id: str) -> bool:
        return (await self._ask("void", id)).words[0] == "void"

    async def remove(self, id: str) -> None:
        await self._ask("remove", id)

    async def trusted(self) -> bool:
        await self.client.reach()
        return self.client.trusted

    async def where(self) -> str:
        return (await self._ask("where")).blocks[0].decode("utf-8", "surrogateescape")

    async def unconfined(self, kind: Confinement) -> str:
        from hermes_agent.terminals.remote import view

        await self.client.reach()
        async with self._probing:
            if self.client.unconfined is None:
                self.client.unconfined = await view.probe(self.client, self._attempt)
            return self.client.unconfined[kind]

    async def _attempt(self, command: ShellCommand, looks: int) -> CommandReport:
        await self.remove(command.id)
        found = await self.submit(command)
        for _ in range(looks):
            if found.code is not None:
                break
            found = await self.wait(command.id, 0.1)
        else:
            await self.stop(command.id, "timeout")
        report = await self.report(command.id, 1000)
        await self.remove(command.id)
        return report

    async def close(self) -> None:
        if self.client.connected:
            try:
                going = any(one.facts.phase == "running" for _, one in await self.background())
                await self._ask("end")
            except (ConnectionError, HermesError):
                going = True  # unknown
            await self.client.disconnect()
            if not going:
                await self._transport.rest()
        await self._transport.close()

    async def destroy(self) -> None:
        self._destroyed = True
        try:
            if self._lasting:
                await self._destroy_there()
        finally:
            await self.client.drop()
            await self._transport.destroy()

    async def _destroy_there(self) -> None:
        try:
            await self._ask("destroy")
        except ConnectionError:  # the connection may have been lost long ago: try a new one
            await self._ask("destroy")

    async def _ask(self, verb: str, *arguments: str | bytes) -> AgentAnswer:
        return _good(await self.client.ask(verb, *arguments))

    async def _bulk(self, verb: str, *arguments: str | bytes, data: bytes) -> AgentAnswer:
        return _good(await self.client.bulk(verb, *arguments, data=data))

    def _heard(self, line: str, blocks: list[bytes]) -> None:
        id, *words = line.split()
        if id not in self._texts and id not in self._waiting:
            return
        facts = _facts(words)
        if facts.code is not None and id in self._texts:
            self._ended[id] = facts
            if len(blocks) == 2:
                out, err = (unescape(block[1:]) for block in blocks)
                pieces = (OutputExcerpt(len(out), out), OutputExcerpt(len(err), err))
                self._told[id] = CommandReport(facts, self._texts[id], *pieces)
        for told in self._waiting.get(id, ()):
            if not told.done():
                told.set_result(facts)


def _facts(words: Sequence[str]) -> CommandStatus:
    known, code, end, start, kind, held, why, hand, daemon, begun, size, now = words[:12]
    started = now if start == "-" else start
    return CommandStatus(
        known=known == "1",
        code=None if code == "-" else int(code),
        kind="" if kind == "-" else kind,
        start=float(started),
        seconds=float(now if end == "-" else end) - float(started),
        held=held == "1",
        why="" if why == "-" else why,
        in_hand=hand == "1",
        daemon=daemon == "1",
        begun=begun == "1",
        size=int(size),
    )


def _good(answer: AgentAnswer) -> AgentAnswer:
    said = answer.blocks[0].decode("utf-8", "replace") if answer.blocks else ""
    match answer.trouble:
        case "":
            return answer
        case "workspace":
            raise HermesError(
                f"no folder at {said!r} to work in", "create it there, or set another workspace"
            )
        case "shell":
            raise HermesError("the shell did not start", f"see {said} there")
        case "view":
            raise HermesError("the confined view is gone there", "try again")
        case "full":
            raise HermesError("nothing can be written there", "check whether its disk is full")
        case trouble:
            raise HermesError(f"the remote agent does not know {trouble}", "update Hermes")
