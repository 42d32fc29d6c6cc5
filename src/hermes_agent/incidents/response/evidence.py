"""Evidence: finds quotes in what a session and its children saw. What the model wrote itself is no
evidence, however it comes back."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes_agent.core import events as ev
from hermes_agent.core.errors import ToolError
from hermes_agent.core.incidents import Evidence, WatchedCheck
from hermes_agent.core.messages import ToolCall
from hermes_agent.core.text.format import shortened
from hermes_agent.incidents.response.side_effects import Did, did
from hermes_agent.store.journal.store import Journal

LEAST, MAX_COUNT = 12, 300
"""Characters of a quote."""
NOT_SEEN = frozenset(
    {"incident", "todo", "memory", "write_skill", "recall", "skill", "delegate", "execute_code",
     "ask_user", "write_file", "patch", "find_tools", "make_tool"}
)  # fmt: skip
"""Tools that return words of the model or of a person, not output of the systems."""
CHILDREN = 1_000


class EvidenceCall(Struct, frozen=True):
    """A finished call, with its place in the journal."""

    session: str
    effect: str
    number: int
    """Of the event that has its outcome."""
    time: float
    tool: str
    arguments: Mapping[str, Any]
    text: str
    ok: bool
    undo: str = ""
    began: float = 0.0
    did: Did = "looked"
    """What it did to the systems; a refused call only looked."""

    @property
    def shown(self) -> str:
        """The call on one line, for people."""
        given = self.arguments.get("command") or self.arguments.get("path")
        words = " ".join(str(given or "").split())
        return f"{self.tool}: {words}" if words else self.tool


class IncidentTranscript(Struct, frozen=True):
    """All calls of a session and its children, in the order they ended."""

    session: str
    calls: tuple[EvidenceCall, ...]
    results: Path
    """Where results too large for the model are kept whole, in a folder for each session."""

    @property
    def changes(self) -> tuple[EvidenceCall, ...]:
        return tuple(call for call in self.calls if call.did == "changed")

    @property
    def only_looked(self) -> bool:
        return all(call.did == "looked" for call in self.calls)

    async def find(self, quote: str) -> Evidence:
        """The call that returned the quote; a `ToolError` if none did."""
        text, shown = squeezed(quote), shortened(quote, 60)
        if not LEAST <= len(text) <= MAX_COUNT:
            raise ToolError(
                f"the quote {shown!r} has {len(text)} characters; it needs {LEAST} to {MAX_COUNT}",
                "quote one whole line of what a tool returned",
                "changed",
            )
        written = False
        for call in self.calls:
            if call.tool in NOT_SEEN or not await self._holds(call, text):
                continue
            if self._wrote(text, call.time):
                written = True
                continue
            session = call.session if call.session != self.session else ""
            return Evidence(call.effect, quote.strip(), session)
        if written:
            raise ToolError(
                f"the quote {shown!r} is what you wrote yourself before it was seen",
                "quote what the system said: the whole line, not the words you looked for",
                "changed",
            )
        raise ToolError(
            f"the quote {shown!r} is in no result of this session or of its children",
            "copy it word for word from what a tool returned; look first if you have not",
            "changed",
        )

    async def find_all(self, quotes: Sequence[str]) -> tuple[Evidence, ...]:
        return tuple([await self.find(quote) for quote in quotes])

    async def _holds(self, call: EvidenceCall, text: str) -> bool:
        if text in squeezed(call.text):
            return True
        whole = self.results / call.session / f"{call.effect}.txt"
        if not await asyncio.to_thread(whole.is_file):
            return False
        return text in squeezed(
            (await asyncio.to_thread(whole.read_bytes)).decode(errors="replace")
        )

    def _wrote(self, text: str, before: float) -> bool:
        return any(
            text in squeezed(str(value))
            for call in self.calls
            if call.tool != "incident" and call.began <= before
            for value in call.arguments.values()
        )


async def transcript(
    journal: Journal, session: str, results: Path, checks: Sequence[WatchedCheck] = ()
) -> IncidentTranscript:
    """`checks`: the incident's own; running one counts as looking."""
    runs = [check.check.run for check in checks]
    calls: list[EvidenceCall] = []
    waiting = [session]
    while waiting:
        one = waiting.pop()
        calls += calls_of(await journal.events(one), runs)
        waiting += [child.id for child in await journal.sessions(CHILDREN, parent=one)]
    return IncidentTranscript(session, tuple(sorted(calls, key=lambda call: call.time)), results)


def calls_of(
    events: Sequence[ev.Recorded], checks: Sequence[str] = (), *, effect: str = ""
) -> list[EvidenceCall]:
    """The finished calls of a session, or the one of an effect."""
    asked: dict[str, Mapping[str, Any]] = {}
    began: dict[str, float] = {}
    inputs: dict[str, Mapping[str, Any]] = {}
    done: list[EvidenceCall] = []
    for recorded in events:
        match recorded.event:
            case ev.Replied(calls=calls):
                asked |= {call.id: _given(call) for call in calls}
            case ev.CallMade(effect=made, call=call):
                asked[made] = _given(call)
            case ev.CallJudged(effect=judged, input=changed) if changed is not None:
                inputs[judged] = changed
            case ev.CallIntended(effect=intended):
                began[intended] = recorded.time
            case ev.CallFinished() as end if effect in ("", end.effect):
                given = inputs.get(end.effect) or asked.get(end.effect)
                given = given or asked.get(end.call_id, {})
                done.append(
                    EvidenceCall(
                        recorded.session, end.effect, recorded.number, recorded.time, end.tool,
                        given, end.text, end.ok, end.inverse, began.get(end.effect, recorded.time),
                        did(end.tool, given, checks) if end.effect in began else "looked",
                    )
                )  # fmt: skip
    return done


def _given(call: ToolCall) -> Mapping[str, Any]:
    try:
        return call.target()[1]
    except ToolError:  # no JSON: it was refused
        return {}


def squeezed(text: str) -> str:
    """With single blanks: quotes break lines anew."""
    return " ".join(text.split())
