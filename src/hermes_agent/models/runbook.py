"""A runbook in place of a model: the turn is an ordinary one, but its replies cost nothing. The
next reply is a pure function of the messages, so a resumed turn continues where it was. When
something differs from the runbook, the real model takes over, with all of it in its context."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from itertools import count, zip_longest

from msgspec import Struct

from hermes_agent.core.command_results import SHOWN_CHARS, CommandOutcome, difference, seen
from hermes_agent.core.messages import (
    AssistantMessage,
    Chunk,
    Delta,
    Message,
    ModelFacts,
    Rates,
    Reply,
    Request,
    Stop,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.core.protocols import Model
from hermes_agent.core.skills import Check, Expectation, Runbook, RunStep

OPENING = (
    "This runbook is being worked through automatically. If you read this, something differed: "
    "find out what, go on from where it stopped, and do not repeat steps that are done."
)
"""The beginning of the message that starts a runbook. Not its end, where recalled memories are
appended."""
TERMINAL = "terminal"
FREE = ModelFacts(context=10_000_000, rates=(Rates(0.0, 0.0),))
RUNBOOK_MODEL = "runbook/"
"""Prefix of the model name of a runbook's replies."""
STOPPED = "stopped: "
NOT_FOR_THIS = "this runbook is not for this case: "
"""Prefixes of unsuccessful reports."""

_CALL = "runbook-"


class _Move(Struct, frozen=True):
    """One command of a runbook, and its reason."""

    why: str
    check: Check | RunStep

    @property
    def text(self) -> str:
        return f"{self.why}\nexpected: {_expected(self.check.expect)}"

    def call(self, id: str) -> ToolCall:
        limit = {} if self.check.timeout is None else {"timeout": self.check.timeout}
        return ToolCall.of(id, TERMINAL, command=self.check.run, **limit)


class _Differs(Exception):
    """Something differs from the runbook."""


class RunbookModel:
    """Follows a runbook as a model would, and hands over to `inner` when something differs."""

    def __init__(self, runbook: Runbook, skill: str, inner: Model | None) -> None:
        self._runbook = runbook
        self._skill = skill
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name if self._inner is not None else f"{RUNBOOK_MODEL}{self._skill}"

    @property
    def facts(self) -> ModelFacts:
        return self._inner.facts if self._inner is not None else FREE

    @property
    def ways(self) -> Mapping[str, ModelFacts]:
        return self._inner.ways if self._inner is not None else {self.name: FREE}

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        inner = self._inner
        reply: Reply | None = None
        try:
            reply = self._reply(request.messages)
        except _Differs as differs:
            if inner is None:
                reply = self._said(f"{STOPPED}{differs}\nno model is set up to take over")
        if reply is not None:
            yield Delta(reply.text)
            yield reply
        elif inner is not None:
            stream = inner.stream(request)
            try:
                async for chunk in stream:
                    yield chunk
            finally:
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()

    async def close(self) -> None:
        if self._inner is not None:
            await self._inner.close()

    def _said(self, text: str, *calls: ToolCall) -> Reply:
        stop: Stop = "calls" if calls else "end"
        name = f"{RUNBOOK_MODEL}{self._skill}"
        return Reply(text, calls, stop=stop, model=name, cost=0.0)

    def _reply(self, messages: Sequence[Message]) -> Reply:
        """The next reply of the runbook. Raises `_Differs` when it does not apply any more."""
        since = _since_it_began(messages)
        work = _worked_through(self._runbook, self._skill)
        move = next(work)
        for replied, result in zip_longest(since[::2], since[1::2]):
            try:
                move = work.send(seen(_result_of(move, replied, result)))
            except StopIteration as end:
                return self._said(end.value)
        return self._said(move.text, move.call(_new_id(messages)))


def _new_id(messages: Sequence[Message]) -> str:
    """An unused call id."""
    known = {call.id for one in messages if isinstance(one, AssistantMessage) for call in one.calls}
    return next(id for number in count(1) if (id := f"{_CALL}{number}") not in known)


def _since_it_began(messages: Sequence[Message]) -> list[AssistantMessage | ToolMessage]:
    """Replies and results since the message that started the runbook."""
    start = max(
        (at for at, one in enumerate(messages) if isinstance(one, UserMessage) and _begins(one)),
        default=None,
    )
    if start is None:
        raise _Differs("the message that began the runbook is no longer there")
    since: list[AssistantMessage | ToolMessage] = []
    for one in messages[start + 1 :]:
        if isinstance(one, UserMessage):
            raise _Differs(f"somebody said: {one.text[:SHOWN_CHARS]}")
        since.append(one)
    return since


def _begins(message: UserMessage) -> bool:
    return message.text.startswith(OPENING)


def _result_of(move: _Move, replied: Message | None, result: Message | None) -> ToolMessage:
    """The result, if the reply made exactly this move's call. Its text may differ: secrets in it
    are redacted."""
    if isinstance(replied, AssistantMessage) and isinstance(result, ToolMessage):
        for call in replied.calls:
            given = (call.id.startswith(_CALL), call.name, call.arguments)
            if given == (True, TERMINAL, move.call(call.id).arguments):
                return result
    raise _Differs("somebody else took over from here")


def _worked_through(book: Runbook, skill: str) -> Generator[_Move, CommandOutcome, str]:
    """Yields the commands in order, is sent their outcomes, and returns the report."""
    if book.verify and (report := (yield from _is_done_already(book, skill))):
        return report
    for number, check in enumerate(book.when, 1):
        why = f"is {skill} for this case? check {number} of {len(book.when)}"
        found = yield _Move(why, check)
        if found.exit is None:
            raise _Differs(_told(why, check, found))
        if difference(check.expect, found):
            return (
                f"{NOT_FOR_THIS}ran `{check.run}`, saw {found.shown}; "
                f"it is for {_expected(check.expect)}"
            )
    done: list[str] = []
    for number, step in enumerate(book.steps, 1):
        why = f"step {number} of {len(book.steps)}: {step.name or step.run}"
        found = yield from _must(why, step, done)
        if step.verify is not None:
            found = yield from _must(f"{why}: did it work?", step.verify, done)
        done.append(f"{number}. {step.name or step.run}: {found.shown}")
    for number, check in enumerate(book.verify, 1):
        why = f"did {skill} work? check {number} of {len(book.verify)}"
        found = yield from _must(why, check, done)
        done.append(f"verified: `{check.run}`: {found.shown}")
    return "\n".join((f"done: {skill}", *done))


def _is_done_already(book: Runbook, skill: str) -> Generator[_Move, CommandOutcome, str]:
    """The report if there is nothing to do, else ""."""
    checked = []
    for number, check in enumerate(book.verify, 1):
        why = f"has {skill} anything to do? check {number} of {len(book.verify)}"
        found = yield _Move(f"{why}; if all is as expected there is nothing to do", check)
        if found.exit is None:
            raise _Differs(_told(why, check, found))
        if difference(check.expect, found):
            return ""
        checked.append(f"`{check.run}`: {found.shown}")
    return "\n".join(("nothing to do: all is as it should be", *checked))


def _must(
    why: str, check: Check | RunStep, done: Sequence[str]
) -> Generator[_Move, CommandOutcome, CommandOutcome]:
    found = yield _Move(why, check)
    if difference(check.expect, found):
        raise _Differs("\n".join((_told(why, check, found), *done)))
    return found


def _told(why: str, check: Check | RunStep, found: CommandOutcome) -> str:
    differs = difference(check.expect, found)
    return f"{why}\nran `{check.run}`, expected {_expected(check.expect)}; {differs}"


def _expected(expect: Expectation) -> str:
    parts = ["any exit code" if expect.exit is None else f"exit {expect.exit}"]
    parts += [f"output with {expect.output!r}"] if expect.output else []
    parts += [f"output without {expect.no_output!r}"] if expect.no_output else []
    return ", ".join(parts)
