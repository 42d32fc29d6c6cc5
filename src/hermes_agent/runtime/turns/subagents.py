"""Subagents: sessions that work for a turn of another. They are opened and messaged by keys, so
that a parent that resumes after a crash finds them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import Usage
from hermes_agent.core.ports import Sessions
from hermes_agent.core.records import ChildLimits, Session, SessionMessage
from hermes_agent.core.tools import SubagentResult, SubagentTask
from hermes_agent.host.context import RuntimeContext

log = logging.getLogger("hermes.subagents")

SOURCE = "agent"
MANY = 1_000
"""More than the children of a session."""
LINE_CHARS = 120


@dataclass(eq=False, repr=False)
class SubagentManager:
    """`inherit` gives a child the tools of its parent's embedding program."""

    _context: RuntimeContext
    _sessions: Sessions
    _inherit: Callable[[Session, Session], Awaitable[None]]

    async def begin(self, parent: str, task: SubagentTask) -> str:
        above = await self._context.store.session(parent)
        cheap = self._context.settings.models.uses.cheap if task.cheap else ()
        child = await self._sessions.open_session(
            workspace=above.workspace,
            model=cheap[0] if cheap else above.model,
            policy=above.policy,
            source=above.source if above.source == "library" else SOURCE,
            key=f"child:{task.key}",
            once=True,
            terminals=above.terminals,
            effort=above.effort,
            use=task.tools,
            parent=above.id,
            share=ChildLimits(task.tokens, task.dollars, task.steps, task.bounds),
        )
        await self._inherit(above, child)
        await self.more(child.id, task.key, task.task, task.interactive)
        return child.id

    async def more(self, session: str, key: str, text: str, interactive: bool) -> None:
        child = await self._context.store.session(session)
        await self._sessions.submit(child, SessionMessage(key, text, SOURCE, interactive))

    async def end(
        self, session: str, message: str, report: Callable[[str], None]
    ) -> SubagentResult:
        child = await self._context.store.session(session)
        known = await self._context.store.last_number(session)
        usage, cost, priced = Usage(), 0.0, True
        async for recorded, taken in self._sessions.follow(session, message):
            event = recorded.event
            fresh = recorded.number > known or not recorded.number  # republished events have none
            match event:
                case ev.TurnFinished():
                    usage += event.usage
                    priced = priced and event.cost is not None
                    cost += event.cost or 0.0
                    if taken:
                        spent = cost if priced else None
                        report(f"{event.reason}: {_line(event.error or event.text)}")
                        return SubagentResult(
                            session, event.reason, event.text, event.error, usage, spent
                        )
                case (
                    ev.QuestionAsked() | ev.QuestionAnswered() | ev.CallParked() | ev.ParkDecided()
                ) if fresh:
                    # Publish it to the parent's listeners, too.
                    if isinstance(event, ev.QuestionAsked) and recorded.number:
                        event = replace(event, text=f"child {session} asks: {event.text}")
                    live = ev.Recorded(child.parent, 0, recorded.time, event)
                    self._context.bus.publish(live)
            if fresh and (line := _said(event)):
                report(line)
        # The runtime is stopping; the next one resumes from here.
        await asyncio.Event().wait()
        raise AssertionError

    async def cancel(self, session: str, why: str) -> None:
        await self._sessions.interrupt(session, why)

    async def end_children(self, parent: str) -> None:
        """Stop the subagents of a finished turn."""
        for child in await self._context.store.sessions(MANY, parent=parent):
            if child.state != "idle" and await self._works_for_parent(child.id):
                try:
                    await self.cancel(child.id, "its parent ended")
                except HermesError as error:
                    log.warning("cannot stop subagent %s: %s", child.id, error.message)

    async def end_orphans(self, busy: set[str]) -> None:
        """After a start, stop subagents whose parent had already finished."""
        for session in busy:
            child = await self._context.store.session(session)
            orphan = child.parent and child.parent not in busy and child.source != "library"
            if orphan and await self._works_for_parent(child.id):
                await self.cancel(child.id, "its parent ended")

    async def _works_for_parent(self, child: str) -> bool:
        """Whether its latest message came from its parent, not from a person."""
        for recorded in reversed(await self._context.store.events(child)):
            if isinstance(recorded.event, ev.MessageTaken):
                return recorded.event.source == SOURCE
        return True


def _said(event: ev.Event | ev.TransientEvent) -> str:
    match event:
        case ev.CallJudged(action=action, text=text) if action != "deny":
            return _line(text)
        case ev.CallJudged(text=text, reason=reason):
            return _line(f"refused: {text}: {reason}")
        case ev.QuestionAsked(text=text):
            return _line(text if text.startswith("child ") else f"asks: {text}")
        case ev.CallParked(tool=tool):
            return f"the outcome of {tool} is unknown: `hermes parked`"
        case ev.BudgetReached(what=what):
            return f"has used up its {what}"
        case _:
            return ""


def _line(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return first if len(first) <= LINE_CHARS else f"{first[: LINE_CHARS - 1]}…"
