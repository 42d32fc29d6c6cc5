"""The terminal of this machine: a persistent shell that outlives the runtime, and its files."""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import Clock, Command, CommandState, FileFacts, Match
from hermes_agent.core.settings import TerminalSettings
from hermes_agent.terminals import files
from hermes_agent.terminals.files import grep as grep_files
from hermes_agent.terminals.keeper import Keeper, scrubbed
from hermes_agent.terminals.output import News, excerpt
from hermes_agent.terminals.spool import Spool

NEWS_SECONDS = 0.1
LOOK_SECONDS = 0.5
"""How often a wait looks for itself whether the command, or its shell, is still there."""
CLAIM_SECONDS = 0.05
AGAIN_SECONDS = 2.0
STOP_SECONDS = 15.0
START_SECONDS = 30.0
SEND_SECONDS = 5.0

Phase = Literal["running", "exited", "timeout", "stopped", "lost"]


class LocalTerminal:
    """Commands run in one bash held by a keeper in `spool`; a new terminal on the same spool
    finds them, their output and the state of the shell. A time limit binds foreground commands
    only, and counts from their true start."""

    def __init__(
        self,
        workspace: str,
        spool: Path,
        settings: TerminalSettings,
        environment: Mapping[str, str] = os.environ,
        clock: Clock = time.time,
    ) -> None:
        self._workspace = str(Path(workspace).resolve())
        self._spool = Spool(spool.absolute())
        self._settings = settings
        self._keeper = Keeper(
            self._spool,
            self._workspace,
            settings.idle_seconds,
            scrubbed(environment, settings.keep_environment),
        )
        self._clock = clock
        self._turn = asyncio.Lock()
        self._stopping: set[asyncio.Task[None]] = set()
        self._destroyed = False
        self._left = False

    @property
    def workspace(self) -> str:
        return self._workspace

    async def run(
        self, command: Command, output: Callable[[str], None] | None = None
    ) -> CommandState:
        if command.background:
            async with self._stopped_when_cancelled(command.id):
                return await self._start(command)
        async with self._turn:
            await self._settle()
            self._spool.prepare()
            self._spool.revive(command.id)
            async with self._stopped_when_cancelled(command.id):
                return await self._watch(command, output)

    async def recover(self, command: Command) -> CommandState | Literal["not-run"] | None:
        if command.background:
            return self._judge(command)
        async with self._turn:
            await self._settle()
            if self._spool.code(command.id) is None and self._keeper.attach():
                self._spool.revive(command.id)
                async with self._stopped_when_cancelled(command.id):
                    state = await self._watch(command, None)
                return None if state.state == "lost" else state
            return self._judge(command)

    async def follow(
        self, id: str, *, wait: float = 0.0, output: Callable[[str], None] | None = None
    ) -> CommandState:
        self._known(id)
        deadline = self._clock() + wait
        news = self._news(id, output)
        if news is not None:
            news.skip()
        self._keeper.attach()
        while self._phase(id) == "running" and (left := deadline - self._clock()) > 0:
            await self._keeper.wait(id, min(left, self._pause(news)))
            if news is not None:
                news.pass_on()
        return self._state(id)

    async def commands(self) -> Sequence[CommandState]:
        self._keeper.attach()
        claims = [(self._spool.claim(id), id) for id in self._spool.background_ids()]
        started = [(claim.start, id) for claim, id in claims if claim is not None]
        return [self._state(id, with_output=False) for _, id in sorted(started, reverse=True)]

    async def stop(self, id: str) -> CommandState:
        self._known(id)
        self._keeper.attach()
        if self._phase(id) == "running":
            await self._end(id, "stopped")
        return self._state(id)

    async def send(self, id: str, text: str) -> None:
        self._known(id)
        path = self._spool.file(id, "i")
        if self._phase(id) != "running" or not path.is_fifo():
            raise ToolError(
                f"command {id} takes no input", "only a background command that runs takes it"
            )
        deadline = self._clock() + SEND_SECONDS
        data = text.encode("utf-8", "replace")
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while data:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(descriptor, data) :]
                    continue
                if self._clock() > deadline:
                    raise ToolError(f"command {id} does not read its input")
                await asyncio.sleep(0.01)
        finally:
            os.close(descriptor)

    async def read(self, path: str) -> bytes:
        return await asyncio.to_thread(files.read, self._workspace, path)

    async def write(self, path: str, data: bytes) -> None:
        await asyncio.to_thread(files.write, self._workspace, path, data)

    async def stat(self, path: str) -> FileFacts | None:
        return await asyncio.to_thread(files.stat, self._workspace, path)

    async def resolve(self, path: str) -> str:
        return await asyncio.to_thread(files.resolve, self._workspace, path)

    async def find(self, path: str, pattern: str, limit: int) -> Sequence[FileFacts]:
        return await asyncio.to_thread(files.find, self._workspace, path, pattern, limit)

    async def grep(self, path: str, pattern: str, files: str, limit: int) -> Sequence[Match]:
        return await asyncio.to_thread(grep_files, self._workspace, path, pattern, files, limit)

    async def close(self) -> None:
        if not self._turn.locked() and self._keeper.attach():
            self._keeper.hand_in("end -")
        if not self._turn.locked():
            self._keeper.detach()

    def leave(self) -> None:
        """This process goes: what runs is left to its keeper, whoever is cancelled from now on."""
        self._left = True

    async def destroy(self) -> None:
        """Kill all that was started here and remove the spool; for a session that is deleted."""
        self._destroyed = True
        if self._spool.folder.exists():
            await self._keeper.destroy()
            await asyncio.to_thread(shutil.rmtree, self._spool.folder)

    async def forget(self, id: str) -> None:
        """Remove what is kept of a command that has ended. Its id may then run once more."""
        self._known(id)
        if self._phase(id) == "running":
            raise ToolError(f"command {id} is still running", "stop it first")
        for kind in ("c", "o", "e", "i", "k", "r", "s"):
            self._spool.file(id, kind).unlink(missing_ok=True)

    async def _watch(self, command: Command, output: Callable[[str], None] | None) -> CommandState:
        """Hand a command in, as often as it takes, and wait for its end or its limit."""
        id, told = command.id, -AGAIN_SECONDS
        # Counted by a clock that nobody sets; only what passed before a restart is the wall's.
        handed, began = time.monotonic(), 0.0
        news = self._news(id, output)
        limit = self._settings.timeout_seconds if command.timeout is None else command.timeout
        while self._spool.code(id) is None:
            claim = self._spool.claim(id)
            if claim is None:
                if self._destroyed:
                    break
                if not self._keeper.alive() or time.monotonic() - told > AGAIN_SECONDS:
                    self._spool.put_text(id, command.text)
                    await self._keeper.ready()
                    self._keeper.hand_in(f"run {id}")
                    told = time.monotonic()
            elif self._phase(id) == "lost":
                break
            # Not claimed yet, it may have been handed to a keeper that was about to end.
            pause = CLAIM_SECONDS if claim is None else self._pause(news)
            if claim is not None and not began:
                began = time.monotonic() - max(0.0, self._clock() - claim.start)
            left = (began or handed) + limit - time.monotonic()
            if left <= 0:
                await self._end(id, "timeout")
                break
            await self._keeper.wait(id, min(pause, left))
            if news is not None:
                news.pass_on()
        if news is not None:
            news.pass_on()
        return self._state(id)

    async def _start(self, command: Command) -> CommandState:
        """Start a background command, in a process of its own, and wait until it has begun."""
        id = command.id
        self._spool.prepare()
        self._spool.revive(id)
        if self._spool.claim(id) is None:
            self._spool.put_text(id, command.text)
            await self._keeper.launch("job", id)
        deadline = self._clock() + START_SECONDS
        output = self._spool.file(id, "o")
        while not output.exists() and self._spool.code(id) is None:
            if self._clock() > deadline or (self._spool.claim(id) and self._phase(id) == "lost"):
                break
            await asyncio.sleep(0.002)
        return self._state(id)

    async def _end(self, id: str, why: Literal["timeout", "stopped"]) -> None:
        """Stop a command the hard way if need be, and wait until that is done."""
        await self._keeper.launch("stop", id, why)
        deadline = self._clock() + STOP_SECONDS
        while self._spool.code(id) is None and self._clock() < deadline and not self._destroyed:
            await self._keeper.wait(id, 0.05)

    @contextlib.asynccontextmanager
    async def _stopped_when_cancelled(self, id: str) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            if not self._left and self._spool.text(id) is not None and self._spool.code(id) is None:
                # Cancelled twice, the wait ends but the stopping goes on; see `_settle`.
                stopping = asyncio.create_task(self._end(id, "stopped"))
                self._stopping.add(stopping)
                stopping.add_done_callback(self._stopping.discard)
                await asyncio.shield(stopping)
            raise

    async def _settle(self) -> None:
        """Let earlier commands end that are being stopped."""
        if self._stopping:
            await asyncio.wait(self._stopping)

    def _judge(self, command: Command) -> CommandState | Literal["not-run"] | None:
        """What the files tell of a command."""
        id, spool = command.id, self._spool
        claim = spool.claim(id)
        if spool.code(id) is not None or (claim is not None and claim.held):
            return self._state(id)
        if claim is None and spool.same_boot():
            # Voided, it cannot be started any more by what an earlier runtime left on the way.
            spool.prepare()
            if not spool.void(id):
                return self._judge(command)
            return "not-run"
        return "not-run" if claim is not None and claim.kind == "void" else None

    def _known(self, id: str) -> None:
        if self._spool.text(id) is None:
            raise ToolError(f"no command called {id!r}", "`process` lists those that there are")

    def _phase(self, id: str) -> Phase:
        spool = self._spool
        if spool.code(id) is None:
            claim = spool.claim(id)
            lives = claim is not None and claim.held
            if not lives and (claim is None or spool.now() == id):
                lives = self._keeper.alive()
            # Asked again: who has just ended has left a result.
            if spool.code(id) is None:
                return "running" if lives else "lost"
        match spool.why(id):
            case "timeout":
                return "timeout"
            case "stopped":
                return "stopped"
            case _:
                return "exited"

    def _state(self, id: str, *, with_output: bool = True) -> CommandState:
        spool = self._spool
        phase, claim, code = self._phase(id), spool.claim(id), spool.code(id)
        limit = self._settings.output_chars if with_output else 0
        stdout, stdout_size = excerpt(spool.path(id, "o"), limit)
        stderr, stderr_size = excerpt(spool.path(id, "e"), limit)
        start = claim.start if claim else self._clock()
        end = self._clock() if code is None else spool.ended_at(id)
        return CommandState(
            id=id,
            text=spool.text(id) or "",
            state=phase,
            code=code,
            stdout=stdout if with_output else "",
            stderr=stderr if with_output else "",
            stdout_size=stdout_size,
            stderr_size=stderr_size,
            seconds=max(0.0, end - start),
            background=claim is not None and claim.kind == "bg",
            spool=spool.path(id, "o"),
        )

    def _news(self, id: str, output: Callable[[str], None] | None) -> News | None:
        if output is None:
            return None
        return News((self._spool.file(id, "o"), self._spool.file(id, "e")), output)

    @staticmethod
    def _pause(news: News | None) -> float:
        return LOOK_SECONDS if news is None else NEWS_SECONDS
