"""`hermes ask --no-runtime`: the runtime's objects in this process, with the home locked."""

import asyncio
import logging
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from hermes_agent.cli.client.api import login_name
from hermes_agent.cli.client.questions import answer_or_show, drop_question, print_question
from hermes_agent.cli.client.stream import TERMINAL
from hermes_agent.cli.output.events import Printer
from hermes_agent.cli.talk.turn import collect
from hermes_agent.core import events as ev
from hermes_agent.core.errors import NotFound
from hermes_agent.core.messages import Media
from hermes_agent.core.records import SessionMessage
from hermes_agent.host.paths import find_home
from hermes_agent.runtime.runtime import Runtime

Event = dict[str, Any]


def ask_in_process(message: dict[str, Any], printer: Printer) -> Event:
    # Events tell what the runtime logs; without a handler it would be printed, too.
    logging.getLogger("hermes").addHandler(logging.NullHandler())
    return asyncio.run(_ask(message, printer))


async def _ask(message: dict[str, Any], printer: Printer) -> Event:
    runtime = Runtime(Path(find_home(os.environ)), os.environ)
    await runtime.start()
    try:
        return await _turn(runtime, message, printer)
    finally:
        await runtime.stop()


async def _turn(runtime: Runtime, message: dict[str, Any], printer: Printer) -> Event:
    if message["session"]:
        session = await runtime.context.store.session(message["session"])
    else:
        session = await runtime.sessions.open_session(
            workspace=message["workspace"],
            model=message["model"],
            policy=message["policy"],
            name=message["name"],
            terminals=message["terminals"],
            effort=message["effort"],
            use=message["tools"] or None,
        )
    after = await runtime.context.store.last_number(session.id)
    key = message["key"]
    _stop_on_control_c(runtime, session.id)
    files = msgspec.convert(message["files"], tuple[Media, ...])
    await runtime.sessions.submit(
        session, SessionMessage(key, message["text"], "cli", message["interactive"], files)
    )
    outcome: Event = {"session": session.id, "parked": []}
    asking = _Asking(runtime)
    ours = False
    async for recorded in runtime.sessions.events(session.id, after):
        event: Event = msgspec.to_builtins(recorded.event)
        printer.show(event)
        collect(event, outcome)
        match recorded.event:
            case ev.MessageTaken(key=taken):
                ours = ours or taken == key
            case ev.QuestionAsked() if message["interactive"]:
                asking.begin(event)
            case ev.QuestionAnswered():
                asking.end(event)
            case ev.CallParked():
                return {**outcome, "reason": "parked"}
            case ev.TurnFinished():
                asking.end(None)
                if ours or not recorded.number:  # without a number, it crashed
                    return outcome
    return outcome


def _stop_on_control_c(runtime: Runtime, session: str) -> None:
    """The first Ctrl-C stops the turn, a second one the process."""
    loop = asyncio.get_running_loop()

    stopping: set[asyncio.Task[bool]] = set()

    def stop() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stopping.add(loop.create_task(runtime.sessions.interrupt(session, "cli")))

    loop.add_signal_handler(signal.SIGINT, stop)


class _Asking:
    """The question on the terminal, if there is one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._question: Event | None = None
        self._answering: asyncio.Task[None] | None = None

    def begin(self, question: Event) -> None:
        self._question = question
        print_question(question)
        asyncio.get_running_loop().add_reader(TERMINAL, self._typed)

    def end(self, answered: Event | None) -> None:
        """It was answered, here or elsewhere, or is no longer open."""
        asked = self._question
        if asked is not None and (answered is None or answered["id"] == asked["id"]):
            self._close()
            drop_question(answered)

    def _close(self) -> None:
        self._question = None
        asyncio.get_running_loop().remove_reader(TERMINAL)

    def _typed(self) -> None:
        question = self._question
        assert question is not None
        typed = os.read(TERMINAL, 4096).decode(errors="replace").strip()
        if (answer := answer_or_show(question, typed)) is not None:
            self._close()
            self._answering = asyncio.create_task(self._answer(question, answer))

    async def _answer(self, question: Event, answer: str) -> None:
        with suppress(NotFound):  # answered elsewhere or expired; the turn continues
            await self._runtime.sessions.answer(question["id"], answer, login_name())
