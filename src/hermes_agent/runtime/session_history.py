"""Rewinds, branches, compares and summarises sessions, and shows what fills their context."""

import os
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.agent import compaction
from hermes_agent.agent.budgets import limits
from hermes_agent.agent.completions import Billed, Completions
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.agent.model_calls import BUDGETED_OUTPUT, CHARS_PER_TOKEN
from hermes_agent.agent.prompt import prompt_parts
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.incidents import INCIDENTS
from hermes_agent.core.jobs import JOBS
from hermes_agent.core.knowledge import TRIALS
from hermes_agent.core.messages import Media, Message, Reply, Usage
from hermes_agent.core.records import NewSession, Session
from hermes_agent.core.text.format import shortened
from hermes_agent.host.context import RuntimeContext
from hermes_agent.runtime.turns.scheduler import TurnScheduler

if TYPE_CHECKING:
    from hermes_agent.incidents.response.evidence import EvidenceCall

OWNERS = {JOBS: "a job", INCIDENTS: "an incident", TRIALS: "learning", "library": "a program"}
"""Whose sessions nobody else rewinds."""
LASTING_TOOLS = {"write_file", "patch", "browser_act", "memory", "write_skill", "delegate"}
"""Tools whose effects outlast the conversation, whatever they were asked to do."""
EFFECT_CHARS = 100
KEPT_LAST = 2
"""Messages at the end that a requested summary leaves alone."""


class LastingEffect(Struct, frozen=True):
    """Something that was done, and stays done when the conversation goes back."""

    number: int
    tool: str
    text: str
    ok: bool


class RewindReport(Struct, frozen=True):
    """The message that a rewind goes back to before."""

    session: str
    message: int
    text: str
    files: tuple[Media, ...]
    effects: tuple[LastingEffect, ...]
    """What was done since the message, and stays."""


class ComparedSession(Struct, frozen=True):
    """A session after the point where it parted from the other."""

    session: str
    title: str
    model: str
    messages: int
    calls: int
    effects: tuple[LastingEffect, ...]
    usage: Usage
    cost: float | None
    """Dollars, with its subagents, as far as prices are known."""
    seconds: float
    answer: str


class SessionComparison(Struct, frozen=True):
    shared: int
    """Messages that both have at the beginning."""
    parted: int
    """The number of the first event that differs."""
    last: str
    """The last message that they share."""
    sides: tuple[ComparedSession, ComparedSession]


class ContextPart(Struct, frozen=True):
    name: str
    origin: str
    tokens: int
    """Estimated."""


class ContextReport(Struct, frozen=True):
    model: str
    window: int
    compacts_at: int
    """The number of tokens from which the conversation is summarised."""
    used: int
    parts: tuple[ContextPart, ...]


class CompactionReport(Struct, frozen=True):
    messages: int
    """How many were summarised."""
    before: int
    after: int
    """Tokens of the conversation."""


@dataclass(eq=False, repr=False)
class SessionHistory:
    _context: RuntimeContext
    _turns: TurnScheduler
    _completions: Completions

    # rewinding

    async def rewind_report(
        self, session: Session, message: int = 0, back: int = 1
    ) -> RewindReport:
        """What a rewind to before a message, or before the last but `back - 1`, would do."""
        conversation = await self._turns.conversation(session.id)
        return await self._report(session, _chosen(session, conversation, message, back))

    async def rewind(
        self, session: Session, message: int = 0, back: int = 1, by: str = "", key: str = ""
    ) -> RewindReport:
        """Go back to before a message of the user, once per key. What was done since stays
        done."""
        if session.parent or session.source in OWNERS:
            owner = f"session {session.parent}" if session.parent else OWNERS[session.source]
            raise UsageError(
                f"session {session.id} works for {owner} and cannot be rewound",
                "only conversations with people can",
            )
        async with self._turns.at_rest(session) as conversation:
            for one in await self._context.store.events(session.id) if key else ():
                if isinstance(one.event, ev.Rewound) and one.event.key == key:
                    return await self._report(session, one.event.to)
            to = _chosen(session, conversation, message, back)
            report = await self._report(session, to)
            await self._turns.add_at_rest(session, ev.Rewound(to, by, key))
        return report

    async def _report(self, session: Session, to: int) -> RewindReport:
        recorded = await self._context.store.events(session.id)
        taken = recorded[to - 1].event
        assert isinstance(taken, ev.MessageTaken)
        effects = lasting_effects(recorded[to:], session.workspace)
        return RewindReport(session.id, to, taken.text, taken.files, tuple(effects))

    # branching

    async def branch(
        self, session: Session, message: int = 0, name: str = "", by: str = "",
        source: str = "cli", key: str = "",
    ) -> Session:  # fmt: skip
        """Open a session that shares the history up to before a message, or up to the end of the
        last finished turn."""
        if session.parent or session.source in (TRIALS, "library"):
            owner = f"session {session.parent}" if session.parent else OWNERS[session.source]
            raise UsageError(f"session {session.id} works for {owner}", "branch another session")
        recorded = await self._context.store.events(session.id)
        at = _branch_point(session, recorded, message)
        new = NewSession(
            session.workspace, session.policy, session.model, source, name, key,
            once=bool(key), terminals=session.terminals, effort=session.effort,
        )  # fmt: skip
        return await self._context.store.branch(session.id, at, new, by)

    # comparing

    async def compare(self, left: Session, right: Session) -> SessionComparison:
        if left.id == right.id:
            raise UsageError("both names refer to the same session", "name two sessions")
        one = await self._context.store.events(left.id)
        two = await self._context.store.events(right.id)
        same = [
            pair[0].event
            for pair in takewhile(
                lambda pair: pair[0].event == pair[1].event, zip(one, two, strict=False)
            )
        ]
        said = [event.text for event in same if isinstance(event, ev.MessageTaken | ev.Replied)]
        sides = _side(left, one[len(same) :]), _side(right, two[len(same) :])
        return SessionComparison(
            _count_messages(same), len(same) + 1, said[-1] if said else "", sides
        )

    # the context window

    async def context(self, session: Session) -> ContextReport:
        conversation = await self._turns.conversation(session.id)
        parts = tuple(context_parts(conversation))
        window = self._window(session)
        counted = conversation.context_tokens if conversation.session_usage.steps else 0
        return ContextReport(
            conversation.model, window, int(self._context.settings.loop.compact_at * window),
            counted or sum(part.tokens for part in parts), parts,
        )  # fmt: skip

    def _window(self, session: Session) -> int:
        main = self._completions.roles.route("main", session.model)
        assert main is not None
        return main.facts.context

    async def compact(self, session: Session) -> CompactionReport:
        """Summarise the middle of the conversation now."""
        async with self._turns.at_rest(session) as conversation:
            pass
        self._context.refresh_settings()
        loop = self._context.settings.loop
        settings = replace(loop, keep_last=min(loop.keep_last, KEPT_LAST))
        part = compaction.middle(conversation, settings, self._window(session))
        model = self._completions.roles.route("compaction", session.model)
        if part is None or model is None:
            raise UsageError(
                "the conversation is too short to be summarised",
                "it is summarised automatically when the context window fills up",
            )
        request = compaction.summary_request(conversation, part[1])
        request = replace(request, max_output=min(model.facts.max_output, BUDGETED_OUTPUT))
        done: CompactionReport | HermesError = HermesError("no summary was written", "try again")

        async def pay(billed: Billed) -> None:
            nonlocal done
            done = await self._replace_middle(session, conversation, part, billed) or done

        accounts = limits.accounts_outside_turns(
            self._context.settings, session.id,
            lambda: self._context.store.spent_by(session.id), self._completions.spent_today,
        )  # fmt: skip
        async with aclosing(
            self._completions.budgeted_stream("compaction", model, request, accounts, pay)
        ) as chunks:
            async for _ in chunks:
                pass
        if isinstance(done, HermesError):
            raise done
        return done

    async def _replace_middle(
        self, session: Session, before: ConversationState, part: tuple[int, int], billed: Billed
    ) -> CompactionReport | HermesError | None:
        """Journal a summary, unless the conversation has changed. It is charged anyway, so an
        error is returned."""
        # With `again`, it does not count as the end of a request of a turn that runs by now.
        usage, price = billed.usage, billed.cost
        cost = ev.CostCharged(billed.model, "compaction", usage, price, "not used", again=True)
        if not isinstance(billed, Reply) or not billed.text.strip():
            await self._turns.add(session, cost)
            return None
        summary = self._context.redact(billed.text)
        try:
            async with self._turns.at_rest(session) as now:
                if now.messages != before.messages:
                    raise UsageError("the conversation has continued meanwhile", "try again")
                compacted = ev.Compacted(*part, summary, usage, price, billed.model)
                await self._turns.add_at_rest(session, compacted)
        except UsageError as error:
            await self._turns.add(session, cost)
            return error
        after = await self._turns.conversation(session.id)
        return CompactionReport(part[1] - part[0], _tokens(now.messages), _tokens(after.messages))


def _chosen(session: Session, conversation: ConversationState, message: int, back: int) -> int:
    """The number of the message to go back to before."""
    points = sorted(conversation.rewind_points)
    if message:
        if message not in points:
            raise _no_message(session, message)
        return message
    if not 1 <= back <= len(points):
        raise UsageError(
            f"cannot go back {back} messages: the conversation has {len(points)}",
            f"`hermes sessions show {session.id}` shows them",
        )
    return points[-back]


def _branch_point(session: Session, recorded: Sequence[ev.Recorded], message: int) -> int:
    """How many events a branch shares; a turn that is running is left out."""
    if message:
        taken = recorded[message - 1].event if 0 < message <= len(recorded) else None
        if not isinstance(taken, ev.MessageTaken):
            raise _no_message(session, message)
        opens = isinstance(recorded[message - 2].event, ev.TurnStarted)
        return message - 2 if opens else message - 1
    turns = [one for one in recorded if isinstance(one.event, ev.TurnStarted | ev.TurnFinished)]
    running = bool(turns) and isinstance(turns[-1].event, ev.TurnStarted)
    at = turns[-1].number - 1 if running else len(recorded)
    if not any(isinstance(one.event, ev.MessageTaken) for one in recorded[:at]):
        raise UsageError(
            f"session {session.id} has no finished turn to share", "wait for one to finish"
        )
    return at


def _no_message(session: Session, message: int) -> UsageError:
    return UsageError(
        f"#{message} is not a user's message in this conversation",
        f"`hermes sessions show {session.id}` shows their numbers",
    )


def lasting_effects(recorded: Sequence[ev.Recorded], workspace: str) -> Iterator[LastingEffect]:
    """What the calls in these events did that stays done."""
    from hermes_agent.incidents.response.evidence import calls_of

    for call in calls_of(recorded):
        wrote = call.tool in LASTING_TOOLS
        if call.ok if wrote else call.did != "looked":
            text = _effect_text(call, workspace)
            yield LastingEffect(call.number, call.tool, text, call.ok)


def _effect_text(call: "EvidenceCall", workspace: str) -> str:
    if call.tool in ("write_file", "patch"):
        path = str(call.arguments.get("path", ""))
        return f"wrote {os.path.relpath(path, workspace) if path.startswith(workspace) else path}"
    if "command" in call.arguments:
        text = f"ran {call.arguments['command']}"
    else:
        values = [f"{key}={value!r}" for key, value in call.arguments.items()]
        text = " ".join([call.tool, *values])
    return shortened(text, EFFECT_CHARS)


def _count_messages(events: Sequence[ev.Event | ev.TransientEvent]) -> int:
    return sum(isinstance(one, ev.MessageTaken | ev.Replied) for one in events)


def _side(session: Session, recorded: Sequence[ev.Recorded]) -> ComparedSession:
    events = [one.event for one in recorded]
    billed = [
        one for one in events
        if isinstance(one, ev.Replied | ev.CostCharged | ev.Compacted | ev.CallFinished)
    ]  # fmt: skip
    ends = [one for one in events if isinstance(one, ev.TurnFinished)]
    return ComparedSession(
        session.id,
        session.name or session.title,
        session.model,
        _count_messages(events),
        sum(isinstance(one, ev.CallFinished) for one in events),
        tuple(lasting_effects(recorded, session.workspace)),
        sum((one.usage for one in billed), Usage()),
        sum(costs) if (costs := [one.cost for one in billed if one.cost]) else None,
        round(sum(one.seconds for one in ends), 3),
        ends[-1].text if ends else "",
    )


def context_parts(conversation: ConversationState) -> Iterator[ContextPart]:
    """What the next request consists of, in order."""
    for name, origin, text in prompt_parts(conversation.prompt):
        yield ContextPart(name, origin, _size(text))
    tools = conversation.prompt.tools
    yield ContextPart("tools", f"{len(tools)} schemas", _size(msgspec.json.encode(tools).decode()))
    for name, kind in (("messages", "user"), ("replies", "assistant"), ("tool results", "tool")):
        found = [one for one in conversation.messages if one.__struct_config__.tag == kind]
        if found:
            yield ContextPart(name, f"{len(found)} in the conversation", _tokens(found))


def _tokens(messages: Sequence[Message]) -> int:
    return sum(_size(msgspec.json.encode(one).decode()) for one in messages)


def _size(text: str) -> int:
    return len(text.encode()) // CHARS_PER_TOKEN
