"""Replays programs that make calls. A program that runs again after a crash must repeat its calls:
effects that already happened are not done again in another form."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hermes_agent.agent.conversation import ConversationState, PendingCall
from hermes_agent.core.messages import ToolCall
from hermes_agent.core.timeouts import awake
from hermes_agent.core.tools import RecoveryResult, ToolContext

CALL_BYTES = 1_000_000
"""The largest arguments of one call."""
PROGRAM_BYTES = 16_000_000
"""The largest arguments of all calls of a program together."""

DIVERGED = (
    "not made: the runtime died while this program ran, and on the second run it behaved "
    "differently; what it had already done is not undone"
)

DIVERGED_NOTE = (
    "[the runtime died while this program ran. On the second run it behaved "
    "differently and was stopped; what it did the first time is not undone]"
)


async def run_again(
    _context: ToolContext, _note: dict[str, Any], /, **_arguments: Any
) -> RecoveryResult:
    """Recovers a tool whose only effects are its calls or subagents: those are in the journal, and
    those that had finished return their recorded results."""
    return "again"


class ReplayGuard:
    """A running program. `earlier` are unrepeatable effects that it started before a crash;
    `timeout_seconds` is how long it may take to ask for the next of them again."""

    def __init__(
        self,
        conversation: ConversationState,
        effect: str,
        earlier: set[str],
        at_once: int,
        timeout_seconds: float,
    ) -> None:
        self._conversation = conversation
        self._effect = effect
        self._earlier = earlier
        self._timeout_seconds = timeout_seconds
        self._claimed: set[str] = set()
        """The calls that it has made or repeated."""
        self._progressed = asyncio.Event()
        self._bytes = 0
        self.slots = asyncio.Semaphore(at_once)
        """Its own: while it waits for its calls, it occupies a slot of the executor."""
        self.diverged = False
        """Whether it did not repeat its earlier calls."""

    def accepts(self, size: int) -> bool:
        """Count the bytes of a call's arguments; False when they are too many."""
        self._bytes += size
        return size <= CALL_BYTES and self._bytes <= PROGRAM_BYTES

    def earlier_call(self, call: ToolCall) -> PendingCall | None:
        """The same call from before the crash; each is returned once."""
        wanted = (call.name, call.arguments)
        for one in self._conversation.inner:
            mine = one.by == self._effect and one.effect not in self._claimed
            if mine and (one.call.name, one.call.arguments) == wanted:
                self._claimed.add(one.effect)
                self._progressed.set()
                return one
        return None

    async def has_caught_up(self) -> bool:
        """Wait until all earlier effects have been repeated; False when they are not, in time."""
        while self._earlier - self._claimed and not self.diverged:
            self._progressed.clear()
            try:
                async with awake(self._timeout_seconds):
                    await self._progressed.wait()
            except TimeoutError:
                self.diverged = True
        return not self.diverged

    def next_effect(self) -> str:
        """The id of its next call, claimed at once: calls may be concurrent."""
        known = {one.effect for one in self._conversation.inner if one.by == self._effect}
        effect = f"{self._effect}.{len(known | self._claimed) + 1}"
        self._claimed.add(effect)
        return effect


@dataclass(eq=False, repr=False)
class ReplayGuards:
    _conversation: ConversationState
    _is_repeatable: Callable[[PendingCall], bool]
    _at_once: int
    _timeout_seconds: float
    _running: dict[str, ReplayGuard] = field(default_factory=dict, init=False)

    def of(self, effect: str) -> ReplayGuard:
        """The guard of the program that runs as this effect."""
        if effect not in self._running:
            earlier = {
                one.effect
                for one in self._conversation.inner
                if one.by == effect and one.intended is not None and not self._is_repeatable(one)
            }
            self._running[effect] = ReplayGuard(
                self._conversation, effect, earlier, self._at_once, self._timeout_seconds
            )
        return self._running[effect]

    def end(self, effect: str) -> bool:
        """Remove a finished program's guard; True when it diverged."""
        guard = self._running.pop(effect, None)
        return guard is not None and guard.diverged
