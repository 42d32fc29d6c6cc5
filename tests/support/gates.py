"""Gates that say one thing, for tests of what follows from it."""

from collections.abc import Callable

from hermes_agent.core.effects import Effect, Resolve, Verdict


class Says:
    """Gives the same verdict, or what a function makes of the effect, and keeps what it saw."""

    def __init__(self, verdict: Verdict | Callable[[Effect], Verdict]) -> None:
        self._verdict = verdict
        self.seen: list[Effect] = []
        self.granted: list[frozenset[str]] = []

    def outside(self) -> frozenset[str]:
        return frozenset()

    async def judge(
        self, effect: Effect, resolve: Resolve, granted: frozenset[str] = frozenset()
    ) -> Verdict:
        self.seen.append(effect)
        self.granted.append(granted)
        return self._verdict(effect) if callable(self._verdict) else self._verdict
