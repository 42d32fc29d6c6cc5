"""Programs that make calls. One that is begun again after a death must take the same way as before:
what it had done by then was done, and is not done a second time in other words."""

import asyncio
from collections.abc import Callable

from hermes_agent.agent.conversation import ConversationState, PendingCall
from hermes_agent.core.messages import ToolCall
from hermes_agent.core.timeouts import awake

CALL_BYTES = 1_000_000
"""The most that the arguments of one call may have."""
PROGRAM_BYTES = 16_000_000
"""The most that those of all calls of a program may have together."""

ASTRAY = (
    "not made: the runtime died while this program ran, and now it takes another way than before; "
    "what it had done by then stays done"
)

WENT_ASTRAY = (
    "[the runtime died while this program ran. Begun again, it took another way than before and "
    "was let do nothing more; what it had done the first time stays done]"
)


class ReplayGuard:
    """A call that makes calls, while it runs. `earlier` are effects that it had begun before a
    death and that are not safe to repeat; `patience` is how many seconds it may take to ask for
    the next of them again."""

    def __init__(
        self,
        conversation: ConversationState,
        effect: str,
        earlier: set[str],
        at_once: int,
        patience: float,
    ) -> None:
        self._conversation = conversation
        self._effect = effect
        self._earlier = earlier
        self._patience = patience
        self._claimed: set[str] = set()
        """The calls that it has made, or made again."""
        self._moved = asyncio.Event()
        self._bytes = 0
        self.slots = asyncio.Semaphore(at_once)
        """Of its own: it holds a place among others while it waits for what it has called."""
        self.astray = False
        """It took another way than before."""

    def takes(self, size: int) -> bool:
        """Whether arguments of so many bytes are not too much."""
        self._bytes += size
        return size <= CALL_BYTES and self._bytes <= PROGRAM_BYTES

    def made_before(self, call: ToolCall) -> PendingCall | None:
        """The same call as it was made before a death; each counts once."""
        wanted = (call.name, call.arguments)
        for one in self._conversation.inner:
            mine = one.by == self._effect and one.effect not in self._claimed
            if mine and (one.call.name, one.call.arguments) == wanted:
                self._claimed.add(one.effect)
                self._moved.set()
                return one
        return None

    async def is_in_step(self) -> bool:
        """Whether all that it had done before has been asked for again. Several threads may take
        their time; one that has gone another way never comes."""
        while self._earlier - self._claimed and not self.astray:
            self._moved.clear()
            try:
                async with awake(self._patience):
                    await self._moved.wait()
            except TimeoutError:
                self.astray = True
        return not self.astray

    def next_effect(self) -> str:
        """The id of its next call. Counted before it is written: others may be made in the same
        moment."""
        known = {one.effect for one in self._conversation.inner if one.by == self._effect}
        effect = f"{self._effect}.{len(known | self._claimed) + 1}"
        self._claimed.add(effect)
        return effect


class ReplayGuards:
    def __init__(
        self,
        conversation: ConversationState,
        is_repeatable: Callable[[PendingCall], bool],
        at_once: int,
        patience: float,
    ) -> None:
        self._conversation = conversation
        self._is_repeatable = is_repeatable
        self._at_once = at_once
        self._patience = patience
        self._running: dict[str, ReplayGuard] = {}

    def of(self, effect: str) -> ReplayGuard:
        """The program that runs as this effect."""
        if effect not in self._running:
            earlier = {
                one.effect
                for one in self._conversation.inner
                if one.by == effect and one.intended is not None and not self._is_repeatable(one)
            }
            self._running[effect] = ReplayGuard(
                self._conversation, effect, earlier, self._at_once, self._patience
            )
        return self._running[effect]

    def ended(self, effect: str) -> bool:
        """It runs no more; whether it went astray."""
        program = self._running.pop(effect, None)
        return program is not None and program.astray
