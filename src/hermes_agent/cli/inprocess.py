"""`hermes ask --no-runtime`: the same objects in this process, with the home locked."""

import asyncio
import os
import uuid
from pathlib import Path
from typing import Any

import msgspec

from hermes_agent.cli.ask import collect, put_question
from hermes_agent.cli.show import Printer
from hermes_agent.core import events as ev
from hermes_agent.core.records import Inbound
from hermes_agent.runtime.places import find_home
from hermes_agent.runtime.runtime import Runtime

Event = dict[str, Any]


def ask_in_process(message: dict[str, Any], printer: Printer) -> Event:
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
        session = await runtime.store.session(message["session"])
    else:
        session = await runtime.open_session(
            workspace=message["workspace"],
            model=message["model"],
            policy=message["policy"],
            name=message["name"],
        )
    after = await runtime.store.last_number(session.id)
    key = uuid.uuid4().hex
    await runtime.submit(session, Inbound(key, message["text"], "cli", message["interactive"]))
    outcome: Event = {"session": session.id, "parked": []}
    ours = False
    async for recorded in runtime.events(session.id, after):
        event: Event = msgspec.to_builtins(recorded.event)
        printer.show(event)
        collect(event, outcome)
        match recorded.event:
            case ev.MessageTaken(key=taken):
                ours = ours or taken == key
            case ev.Asked() if message["interactive"]:
                chosen = await asyncio.to_thread(put_question, event)
                await runtime.answer(event["id"], chosen, "cli")
            case ev.CallParked():
                return {**outcome, "reason": "parked"}
            case ev.TurnFinished() if ours:
                return outcome
    return outcome
