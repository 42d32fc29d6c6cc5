"""The terminal of this machine: a persistent shell that outlives the runtime, and its files."""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.core.effects import Confinement, OutsideCall, OutsideCalls
from hermes_agent.core.protocols import Clock, FileFacts, SearchMatch, ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.terminals.command_backend import CommandReport, CommandStatus, Why
from hermes_agent.terminals.local import files, globs
from hermes_agent.terminals.output import beyond, piece
from hermes_agent.terminals.persistent import PersistentTerminal
from hermes_agent.terminals.shell.daemon import ShellDaemon, scrubbed
from hermes_agent.terminals.shell.spool import KINDS, Spool

if TYPE_CHECKING:
    from hermes_agent.terminals.local.calls import CallServer
    from hermes_agent.terminals.local.view import Views

NEWS_SECONDS = 0.1
POLL_SECONDS = 0.5
"""How often a wait checks that the command, or its shell, still runs."""
SEND_SECONDS = 5.0


async def _nobody(_command: str, _folder: str) -> OutsideCall:
    return OutsideCall("it cannot be checked here")


NOTHING_OUTSIDE = OutsideCalls(frozenset(), _nobody)


_grep = files.grep


class LocalFiles:
    """Local files, in threads: a disk may be slow or remote."""

    _workspace: str

    async def read(self, path: str) -> bytes:
        return await asyncio.to_thread(files.read, self._workspace, path)

    async def write(self, path: str, data: bytes) -> None:
        await asyncio.to_thread(files.write, self._workspace, path, data)

    async def stat(self, path: str) -> FileFacts | None:
        return await asyncio.to_thread(files.stat, self._workspace, path)

    async def resolve(self, path: str) -> str:
        return await asyncio.to_thread(files.resolve, self._workspace, path)

    async def trace(self, paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        return await asyncio.to_thread(lambda: [globs.trace(path) for path in paths])

    async def find(self, path: str, pattern: str, limit: int) -> Sequence[FileFacts]:
        return await asyncio.to_thread(files.find, self._workspace, path, pattern, limit)

    async def grep(self, path: str, pattern: str, files: str, limit: int) -> Sequence[SearchMatch]:
        return await asyncio.to_thread(_grep, self._workspace, path, pattern, files, limit)


class LocalTerminal(LocalFiles, PersistentTerminal):
    """Commands run as the user who runs Hermes, with a scrubbed environment."""

    def __init__(
        self,
        workspace: str,
        spool: Path,
        settings: TerminalSettings,
        environment: Mapping[str, str] = os.environ,
        clock: Clock = time.time,
    ) -> None:
        self._workspace = str(Path(workspace).resolve())
        folder = Spool(spool.absolute())
        daemon = ShellDaemon(
            folder,
            self._workspace,
            settings.idle_seconds,
            scrubbed(environment, settings.keep_environment),
        )
        backend = LocalBackend(
            folder, daemon, self._workspace, settings.output_mb, clock, environment
        )
        super().__init__(backend, settings, clock)

    @property
    def workspace(self) -> str:
        return self._workspace


class LocalBackend:
    """The spool as local files."""

    def __init__(
        self,
        spool: Spool,
        daemon: ShellDaemon,
        workspace: str,
        output_mb: int,
        clock: Clock,
        environment: Mapping[str, str],
    ) -> None:
        self._environment = environment
        self._views: Views | None = None
        self._calls: CallServer | None = None
        self._outside: tuple[frozenset[str], dict[str, str]] | None = None
        self._spool = spool
        self._daemon = daemon
        self._workspace = workspace
        self._most = output_mb * 1_000_000
        self._clock = clock

    def path(self, id: str) -> str:
        return self._spool.path(id, "o")

    def pause(self, looks: int, *, news: bool) -> float:  # noqa: ARG002 - here a look costs nothing
        return NEWS_SECONDS if news else POLL_SECONDS

    async def begin(self, command: ShellCommand) -> CommandStatus:
        id, spool = command.id, self._spool
        spool.prepare()
        spool.revive(id)
        if spool.end(id) is None and command.confinement != "none":
            await self._confine(command)
        if spool.end(id) is None and spool.claim(id) is None:
            spool.check_room()
            if command.secrets:
                spool.put_secrets(id, command.secrets)
            spool.put_text(id, command.text)
            if command.background:
                await self._daemon.launch("job", id, str(self._most))
            else:
                await self._daemon.ready()
                self._daemon.submit(f"run {id}")
                return CommandStatus(known=True, daemon=True)
        return self._look(id)

    async def _confine(self, command: ShellCommand) -> None:
        from hermes_agent.terminals.local.calls import CallServer
        from hermes_agent.terminals.local.view import Views

        folder, outside = self._spool.folder, command.outside or NOTHING_OUTSIDE
        if self._calls is None or self._views is None:
            self._calls = CallServer(
                folder, self._workspace, self._daemon.environment, self._holders
            )
            self._views = Views(folder, self._workspace, self._environment, self._clock)
        if self._outside is None or self._outside[0] != outside.programs:
            found = await asyncio.to_thread(self._calls.prepare, outside)
            self._outside = (outside.programs, found)
        self._calls.serve(command.id if command.background else "", outside, self._outside[1])
        kind = command.confinement
        words, files = await asyncio.to_thread(self._views.get, kind, self._outside[1])
        if command.background:  # it has a shell of its own, and no business with the other
            look = f"{folder}/{kind}.look/"
            words = "\0".join(word for word in words.split("\0") if not word.startswith(look))
        self._spool.put_confinement(command.id, words, files)

    def _holders(self) -> dict[int, str]:
        """The shells whose commands may make calls; in the background, with the command's id."""
        spool = self._spool
        claims = ((id, spool.claim(id)) for id in spool.background_ids())
        shell = self._daemon.shell()
        found = {one.pid: id for id, one in claims if one and one.held}
        return found | ({shell: ""} if shell else {})

    async def look(self, id: str) -> CommandStatus:
        return self._look(id)

    async def wait(self, id: str, seconds: float) -> CommandStatus:
        await self._daemon.wait(id, seconds)
        return self._look(id)

    async def report(self, id: str, limit: int) -> CommandReport:
        return self._report(id, limit)

    async def news(self, id: str, places: Sequence[int]) -> Sequence[tuple[int, bytes]]:
        return [
            beyond(self._spool.path(id, kind), place)
            for kind, place in zip("oe", places, strict=True)
        ]

    async def background(self) -> Sequence[tuple[str, CommandReport]]:
        found = [(id, self._report(id, 0)) for id in self._spool.background_ids()]
        return [(id, report) for id, report in found if report.facts.kind]

    async def stop(self, id: str, why: Why) -> None:
        await self._daemon.launch("stop", id, why)

    async def send(self, id: str, data: bytes) -> bool:
        deadline = self._clock() + SEND_SECONDS
        descriptor = os.open(self._spool.path(id, "i"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while data:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(descriptor, data) :]
                    continue
                if self._clock() > deadline:
                    return False
                await asyncio.sleep(0.01)
        finally:
            os.close(descriptor)
        return True

    async def void(self, id: str) -> bool:
        self._spool.prepare()
        if not self._spool.void(id):
            return False
        self._spool.file(id, "v").unlink(missing_ok=True)
        return True

    async def remove(self, id: str) -> None:
        for kind in KINDS:
            self._spool.file(id, kind).unlink(missing_ok=True)

    async def trusted(self) -> bool:
        return self._spool.same_boot()

    async def where(self) -> str:
        return self._daemon.folder() or await asyncio.to_thread(self._daemon.last_folder)

    async def unconfined(self, _kind: Confinement) -> str:
        from hermes_agent.terminals.local.view import cannot_confine

        return await asyncio.to_thread(cannot_confine, self._environment)

    async def close(self) -> None:
        if self._calls is not None:
            await self._calls.close()
        if self._daemon.attach():
            self._daemon.submit("end -")
        self._daemon.detach()

    async def destroy(self) -> None:
        if self._calls is not None:
            await self._calls.close()
        if self._spool.folder.exists():
            await self._daemon.destroy()
            from hermes_agent.terminals.sandbox import limits

            await asyncio.to_thread(limits.leave, self._spool.folder)
            await asyncio.to_thread(shutil.rmtree, self._spool.folder)

    def _look(self, id: str) -> CommandStatus:
        spool = self._spool
        end, claim = spool.end(id), spool.claim(id)
        kind = claim.kind if claim is not None else ""
        start = claim.start if claim is not None else self._clock()
        if end is None:
            held = claim is not None and claim.held
            daemon = self._daemon.linked()
            in_hand = daemon and not held and spool.now() == id
            size = spool.size(id) if held else 0
            # Checked again: a process that has just ended left a result.
            end = spool.end(id)
            if end is None:
                return CommandStatus(
                    known=spool.has(id, "c"), kind=kind, start=start, held=held,
                    seconds=self._clock() - start, in_hand=in_hand, daemon=daemon,
                    begun=spool.has(id, "o"), size=size,
                )  # fmt: skip
        code, ended = end
        return CommandStatus(
            known=spool.has(id, "c"), code=code, kind=kind, start=start, seconds=ended - start,
            why=spool.why(id), begun=True,
        )  # fmt: skip

    def _report(self, id: str, limit: int) -> CommandReport:
        facts, spool = self._look(id), self._spool
        if facts.code is not None and spool.has(id, "v"):
            spool.file(id, "v").unlink(missing_ok=True)
        return CommandReport(
            facts,
            spool.text(id) or "",
            piece(spool.path(id, "o"), limit),
            piece(spool.path(id, "e"), limit),
        )
