"""Reports the end of background commands: to the session's journal, from where the model and the
chat learn of it, and to those whom a message was promised. Each once, also over a restart."""

import asyncio
import logging

from hermes_agent.core.command_results import ended, ended_notice, ended_text
from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.events import CommandEnded, MessageTaken
from hermes_agent.core.gateway import chat_of
from hermes_agent.core.protocols import CommandState
from hermes_agent.core.records import BackgroundCommand, Session, SessionMessage
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import OutboundMessages
from hermes_agent.host.terminal_pool import TerminalPool
from hermes_agent.runtime.sessions import SessionService
from hermes_agent.runtime.turns.scheduler import TurnScheduler
from hermes_agent.terminals.command_backend import UnknownCommand

log = logging.getLogger("hermes.commands")

SOURCE = "command"
"""The source of the message that wakes a model."""
WAKES = 20
"""How often commands may wake a session before somebody writes to it: a model that starts the next
command whenever it is woken would spend money for ever."""
FOLLOW_SECONDS = 60.0
ASKING_SECONDS = 0.1
RETRY_SECONDS = (2.0, 60.0)
"""First and longest pause between tries to reach a terminal."""


class BackgroundCommands:
    def __init__(
        self,
        context: RuntimeContext,
        turns: TurnScheduler,
        sessions: SessionService,
        terminals: TerminalPool,
        outbound: OutboundMessages,
    ) -> None:
        self._context = context
        self._turns = turns
        self._sessions = sessions
        self._terminals = terminals
        self._outbound = outbound
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def watch(self) -> None:
        """Watch those that nobody watches yet."""
        if self._context.store.health.state != "well":
            return
        for command in await self._context.store.background_commands():
            if command.id not in self._tasks:
                task = asyncio.create_task(self._report(command), name=f"command {command.id}")
                self._tasks[command.id] = task
                task.add_done_callback(self._forget)

    def _forget(self, done: asyncio.Task[None]) -> None:
        self._tasks = {id: task for id, task in self._tasks.items() if task is not done}

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _report(self, command: BackgroundCommand) -> None:
        try:
            session = await self._context.store.session(command.session)
            root = await self._context.store.root_session(session.id)
            if command.ended is None:
                await self._journal_end(command, session, root)
            await self._tell(command.id, root)
        except NotFound as gone:  # the session was deleted meanwhile
            log.info("command %s: %s", command.id, gone.message)
        except HermesError as trouble:  # the next look tries again
            log.warning("the end of %s is not reported yet: %s", command.id, trouble.message)
        except Exception:
            log.exception("the end of %s is not reported yet", command.id)

    async def _journal_end(
        self, command: BackgroundCommand, session: Session, root: Session
    ) -> None:
        state = await self._end_of(command, session)
        while self._turns.is_asking(session.id, command.id):
            await asyncio.sleep(ASKING_SECONDS)
        now = await self._command(command.id)
        wake = now.wake and not now.known and self._sessions.can_run(root)
        if wake and await self._woken_alone(root):
            log.warning("session %s was woken %d times in a row; not again", root.id, WAKES)
            wake = False
        event = ended(state, command.terminal, self._context.redact, wake=wake, known=now.known)
        await self._turns.add(root, event)

    async def _woken_alone(self, root: Session) -> bool:
        """Whether commands have sent all of the last messages."""
        events = [one.event for one in await self._context.store.events(root.id)]
        sources = [one.source for one in events if isinstance(one, MessageTaken)][-WAKES:]
        return len(sources) == WAKES and set(sources) == {SOURCE}

    async def _end_of(self, command: BackgroundCommand, session: Session) -> CommandState:
        pause, longest = RETRY_SECONDS
        while True:
            try:
                terminal = self._terminals.terminals(session)[command.terminal]
                state = await terminal.follow(command.id, wait=FOLLOW_SECONDS)
                if state.state != "running":
                    return state
                pause = RETRY_SECONDS[0]
                continue
            except UnknownCommand:
                return CommandState(command.id, "", "lost")
            except HermesError as trouble:
                log.info("command %s: %s", command.id, trouble.message)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _tell(self, id: str, root: Session) -> None:
        """Tell those who asked for it. Repeating this repeats nothing."""
        reported = False
        while not reported:
            command = await self._command(id)
            assert command.ended is not None
            binding = await self._context.store.gateway.binding_of(root.id)
            told = "" if binding is None or command.ended.known else binding.chat.target
            for message in command.messages:
                # The chat of the session gets the outcome as a notice of its own.
                outcome = "" if message.target == told else ended_text(command.ended)
                if text := f"{message.text}\n\n{outcome}".strip():
                    chats = [chat_of(message.target)]
                    await self._outbound.send(message.key, chats, text, kind="notice")
            if command.wake:
                while not self._sessions.can_run(root):  # its program is gone, and may come back
                    await asyncio.sleep(RETRY_SECONDS[0])
                await self._wake(root, command.ended)
            reported = await self._context.store.command_reported(id, command.messages)

    async def _command(self, id: str) -> BackgroundCommand:
        found = await self._context.store.background_commands(id=id)
        if not found:
            raise NotFound(f"no background command {id!r} that is to be reported")
        return found[0]

    async def _wake(self, root: Session, event: CommandEnded) -> None:
        interactive = (await self._turns.conversation(root.id)).interactive
        message = SessionMessage(f"ended:{event.effect}", ended_notice(event), SOURCE, interactive)
        await self._sessions.submit(root, message)
