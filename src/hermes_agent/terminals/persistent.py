"""A terminal whose commands run under a shell daemon and outlive the runtime, on any machine."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Literal, TypeVar

from hermes_agent.core.effects import Confinement
from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import Clock, CommandState, ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.terminals.command_backend import (
    CommandBackend,
    CommandReport,
    CommandStatus,
    TerminalUnreachable,
    UnknownCommand,
    Why,
)
from hermes_agent.terminals.output import OutputTail, excerpt
from hermes_agent.terminals.shell.spool import check_command, check_id

CLAIM_SECONDS = POLL_SECONDS = 0.05
RETRY_SECONDS = 2.0
START_SECONDS = 30.0
START_LOOKS, STOP_LOOKS = 1000, 300
"""Polls, not seconds: while the machine was suspended nothing could happen."""
AWAY_SECONDS = (0.1, 5.0)
"""First and longest pause between attempts to reconnect."""
PAUSES = (0.05, 0.5)
"""Pauses before a repeatable request is repeated."""
RECOVER_SECONDS = 60.0
"""How long one recovery waits for an unreachable machine."""

T = TypeVar("T")


class _CommandWatch:
    """State of waiting for a foreground command."""

    def __init__(self, command: ShellCommand, limit: float, news: OutputTail | None) -> None:
        self.command = command
        self.limit = limit
        self.news = news
        # On the monotonic clock; only time before a restart is taken from the wall clock.
        self.handed = 0.0  # once the machine is there: making it may take longer than the limit
        self.began = 0.0
        self.told = 0.0
        self.looks = 0
        self.facts: CommandStatus | None = None
        self.cut: float | None = None
        """Since when the connection is lost."""
        self.doubted = False
        """Whether the connection was lost since the command was submitted."""

    def left(self, facts: CommandStatus) -> float:
        if facts.kind and not self.began:
            self.began = time.monotonic() - facts.seconds
        if not self.began:  # unclaimed: its own time has not begun
            return self.handed + max(self.limit, START_SECONDS) - time.monotonic()
        return self.began + self.limit - time.monotonic()


class PersistentTerminal:
    """All but the files, which subclasses add. Commands run in one bash held by a shell daemon; a
    new terminal on the same place finds them, their output and the state of the shell. A time
    limit binds foreground commands only, and counts from their true start."""

    def __init__(
        self,
        backend: CommandBackend,
        settings: TerminalSettings,
        clock: Clock,
        most: float | None = None,
    ) -> None:
        """`most`: seconds that no foreground command may exceed, whatever it asks for."""
        self._backend = backend
        self._most = most
        self._settings = settings
        self._clock = clock
        self._turn = asyncio.Lock()
        self._stopping: set[asyncio.Task[None]] = set()
        self._destroyed = False
        self._left = False

    async def run(
        self, command: ShellCommand, output: Callable[[str], None] | None = None
    ) -> CommandState:
        check_command(command)
        if command.background:
            async with self._stopped_when_cancelled(command.id):
                return await self._start(command)
        async with self._turn:
            await self._settle()
            async with self._stopped_when_cancelled(command.id):
                return await self._watch(command, output)

    async def recover(self, command: ShellCommand) -> CommandState | Literal["not-run"] | None:
        check_command(command)
        limit = min(RECOVER_SECONDS, self._limit(command))
        if command.background:
            return await self._patiently(lambda: self._judge(command), limit)
        async with self._turn:
            await self._settle()
            facts = await self._patiently(lambda: self._backend.look(command.id), limit)
            if facts.code is None and facts.daemon:
                async with self._stopped_when_cancelled(command.id):
                    state = await self._watch(command, None)
                return None if state.state == "lost" else state
            return await self._patiently(lambda: self._judge(command), limit)

    async def follow(
        self, id: str, *, wait: float = 0.0, output: Callable[[str], None] | None = None
    ) -> CommandState:
        facts = await self._known(id)
        deadline = self._clock() + wait
        news = None if output is None else OutputTail(output)
        if news is not None and wait > 0:
            report = await self._again(lambda: self._backend.report(id, 0))
            news.places = [report.stdout.size, report.stderr.size]
        looks = 0
        while facts.phase == "running" and (left := deadline - self._clock()) > 0:
            pause = min(left, self._backend.pause(looks, news=news is not None))
            facts = await self._again(partial(self._backend.wait, id, pause))
            looks += 1
            if news is not None:
                await self._again(lambda: self._pass_on(id, news))
        return await self._again(lambda: self._state(id))

    async def commands(self) -> Sequence[CommandState]:
        found = await self._again(self._backend.background)
        found = sorted(found, key=lambda one: one[1].facts.start, reverse=True)
        return [self._show(id, report, with_output=False) for id, report in found]

    async def stop(self, id: str) -> CommandState:
        facts = await self._known(id)
        if facts.phase == "running":
            await self._again(lambda: self._end(id, "stopped"))
        return await self._again(lambda: self._state(id))

    async def send(self, id: str, text: str) -> None:
        facts = await self._known(id)
        if facts.phase != "running" or facts.kind != "bg":
            raise ToolError(
                f"command {id} accepts no input", "only a running background command accepts input"
            )
        if not await self._backend.send(id, text.encode("utf-8", "replace")):
            raise ToolError(f"command {id} does not read its input")

    async def forget(self, id: str) -> None:
        """Remove the files of a command that has ended. Its id may then run again."""
        facts = await self._known(id)
        if facts.phase == "running":
            raise ToolError(f"command {id} is still running", "stop it first")
        await self._again(lambda: self._backend.remove(id))

    async def where(self) -> str:
        return await self._again(self._backend.where)

    async def unconfined(self, kind: Confinement = "read-only") -> str:
        return await self._again(lambda: self._backend.unconfined(kind))

    async def close(self) -> None:
        if not self._turn.locked():
            await self._backend.close()

    def leave(self) -> None:
        """The runtime stops: from now on a cancelled caller leaves its command running."""
        self._left = True

    async def destroy(self) -> None:
        """Kill everything started here and remove the spool; for a deleted session."""
        self._destroyed = True
        await self._backend.destroy()

    async def _watch(
        self, command: ShellCommand, output: Callable[[str], None] | None
    ) -> CommandState:
        """Submit a command, as often as it takes, and wait for its end or its limit. A lost
        connection is retried for as long as the command may run."""
        news = None if output is None else OutputTail(output)
        watch = _CommandWatch(command, self._limit(command), news)
        pause = AWAY_SECONDS[0]
        while True:
            try:
                waiting = await self._step(watch)
                if news is not None:
                    await self._pass_on(command.id, news)
                if not waiting:
                    return await self._state(command.id)
                watch.cut, pause = None, AWAY_SECONDS[0]
            except (ConnectionError, TerminalUnreachable) as error:
                if (
                    watch.facts is None
                    and not watch.doubted
                    and isinstance(error, TerminalUnreachable)
                ):
                    raise  # nothing has got there
                watch.facts, watch.doubted = None, True
                if watch.cut is None:
                    watch.cut = time.monotonic()
                    if output is not None:
                        output(
                            "\n[the connection was lost; the command keeps running; reconnecting]\n"
                        )
                elif time.monotonic() - watch.cut > watch.limit or self._destroyed:
                    return CommandState(command.id, command.text, "lost")
                await asyncio.sleep(pause)
                pause = min(2 * pause, AWAY_SECONDS[1])

    async def _step(self, watch: _CommandWatch) -> bool:
        """Poll a command once. False: there is nothing more to wait for."""
        id = watch.command.id
        facts = watch.facts
        if facts is None and watch.doubted:
            facts = await self._backend.look(id)
            if facts.code is None and not facts.kind and not await self._backend.trusted():
                return False
        if self._destroyed and not (facts and facts.kind):
            return False
        if facts is None or self._needs_submitting(watch, facts):
            facts = await self._backend.begin(watch.command)
            watch.told = time.monotonic()
            watch.handed = watch.handed or watch.told
        watch.facts = facts
        if facts.code is not None or (facts.kind and facts.phase == "lost"):
            return False
        left = watch.left(facts)
        flood = facts.size > self._settings.output_mb * 1_000_000
        if left <= 0 or flood:
            await self._end(id, "flood" if flood else "timeout")
            return False
        # Unclaimed, it may have been submitted to a daemon that was about to end.
        pause = self._backend.pause(watch.looks, news=watch.news is not None)
        watch.looks += 1 if facts.kind else 0
        watch.facts = await self._backend.wait(
            id, min(pause if facts.kind else CLAIM_SECONDS, left)
        )
        return watch.facts.code is None

    @staticmethod
    def _needs_submitting(watch: _CommandWatch, facts: CommandStatus) -> bool:
        if facts.kind or facts.code is not None:
            return False
        return not facts.daemon or time.monotonic() - watch.told > RETRY_SECONDS

    async def _start(self, command: ShellCommand) -> CommandState:
        """Start a background command in its own process and wait until it has begun."""
        facts: CommandStatus | None = None
        try:
            facts = await self._backend.begin(command)
            return await self._started(command, facts)
        except (ConnectionError, TerminalUnreachable) as error:
            if facts is None and isinstance(error, TerminalUnreachable):
                raise  # nothing has got there
            # How far it got is unknown.
            state = None
            with contextlib.suppress(ConnectionError, TerminalUnreachable):
                state = await self._patiently(lambda: self._restart(command), START_SECONDS)
            return state or CommandState(command.id, command.text, "lost", background=True)

    async def _restart(self, command: ShellCommand) -> CommandState | None:
        """After a lost connection: start it, unless it was started. None: unknown."""
        facts = await self._backend.look(command.id)
        if facts.code is None and not facts.kind:
            if not await self._backend.trusted():
                return None
            facts = await self._backend.begin(command)
        return await self._started(command, facts)

    async def _started(self, command: ShellCommand, facts: CommandStatus) -> CommandState:
        for looks in range(START_LOOKS):
            if facts.begun or facts.code is not None or (facts.kind and facts.phase == "lost"):
                break
            await asyncio.sleep(min(0.002 * 1.02**looks, POLL_SECONDS))
            facts = await self._backend.look(command.id)
        return await self._state(command.id)

    async def _end(self, id: str, why: Why) -> None:
        """Stop a command, by force if need be, and wait until it has ended."""
        await self._backend.stop(id, why)
        for _ in range(STOP_LOOKS):
            if self._destroyed or (await self._backend.wait(id, POLL_SECONDS)).code is not None:
                break

    @contextlib.asynccontextmanager
    async def _stopped_when_cancelled(self, id: str) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            if not self._left:
                # Cancelled twice, or slow, the wait ends but the stopping goes on; see `_settle`.
                stopping = asyncio.create_task(self._end_cancelled(id))
                self._stopping.add(stopping)
                stopping.add_done_callback(self._stopping.discard)
                for _ in range(STOP_LOOKS):
                    if (await asyncio.wait({stopping}, timeout=POLL_SECONDS))[0]:
                        break
            raise

    async def _end_cancelled(self, id: str) -> None:
        # An unreachable machine keeps the command; its state says so later.
        with contextlib.suppress(ConnectionError, TerminalUnreachable):
            facts = await self._again(lambda: self._backend.look(id))
            if facts.known and facts.code is None:
                await self._again(lambda: self._end(id, "stopped"))

    async def _settle(self) -> None:
        """Wait for earlier commands that are being stopped."""
        if self._stopping:
            await asyncio.wait(self._stopping)

    async def _again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Make a repeatable request, again when the connection was lost meanwhile."""
        for pause in PAUSES:
            with contextlib.suppress(ConnectionError):
                return await ask()
            await asyncio.sleep(pause)
        try:
            return await ask()
        except ConnectionError as error:
            raise TerminalUnreachable(f"the connection was lost: {error}", "try again") from error

    async def _patiently(self, ask: Callable[[], Awaitable[T]], limit: float) -> T:
        """Retry until the machine is reached, but not for ever."""
        began, pause = time.monotonic(), AWAY_SECONDS[0]
        while True:
            try:
                return await ask()
            except (ConnectionError, TerminalUnreachable):
                if time.monotonic() - began > limit:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, AWAY_SECONDS[1])

    async def _judge(self, command: ShellCommand) -> CommandState | Literal["not-run"] | None:
        """The outcome of a command by its files."""
        facts = await self._backend.look(command.id)
        if facts.code is not None or facts.held:
            return await self._state(command.id)
        if not facts.kind and await self._backend.trusted():
            # Voided, it can no longer be started by a request that an earlier runtime sent.
            if not await self._backend.void(command.id):
                return await self._judge(command)
            return "not-run"
        return "not-run" if facts.kind == "void" else None

    async def _known(self, id: str) -> CommandStatus:
        check_id(id)
        facts = await self._again(lambda: self._backend.look(id))
        if not facts.known:
            raise UnknownCommand(f"no command called {id!r}", "`process` lists them")
        return facts

    def _limit(self, command: ShellCommand) -> float:
        wanted = self._settings.timeout_seconds if command.timeout is None else command.timeout
        return wanted if self._most is None else min(wanted, self._most)

    async def _pass_on(self, id: str, news: OutputTail) -> None:
        for stream, (start, data) in enumerate(await self._backend.news(id, news.places)):
            news.take(stream, start, data)

    async def _state(self, id: str) -> CommandState:
        return self._show(id, await self._backend.report(id, self._settings.output_chars))

    def _show(self, id: str, report: CommandReport, *, with_output: bool = True) -> CommandState:
        facts, limit, path = report.facts, self._settings.output_chars, self._backend.path(id)
        error = path.removesuffix("o") + "e"
        stderr = excerpt(report.stderr, limit, error) if with_output else ""
        if facts.why == "flood" and with_output:
            stderr += f"\n[stopped: it wrote more than {self._settings.output_mb} MB]\n"
        return CommandState(
            id=id,
            text=report.text,
            state=facts.phase,
            code=facts.code,
            stdout=excerpt(report.stdout, limit, path) if with_output else "",
            stderr=stderr,
            stdout_size=report.stdout.size,
            stderr_size=report.stderr.size,
            seconds=max(0.0, facts.seconds),
            background=facts.kind == "bg",
            spool=path,
        )
