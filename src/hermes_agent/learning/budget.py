"""What learning has used of its own daily budget."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from hermes_agent.agent.budgets.limits import LEARNING
from hermes_agent.agent.budgets.reservations import Budget
from hermes_agent.core.protocols import Clock
from hermes_agent.core.records import ChildLimits
from hermes_agent.core.settings.root import LearningSettings
from hermes_agent.store.knowledge.store import KnowledgeStore

MICRO = 1_000_000
"""Dollars are stored in millionths."""


class LearningBudget:
    def __init__(
        self, knowledge: KnowledgeStore, settings: Callable[[], LearningSettings], clock: Clock
    ) -> None:
        self._knowledge = knowledge
        self._settings = settings
        self._clock = clock

    def _name(self, unit: str) -> str:
        day = datetime.fromtimestamp(self._clock(), UTC).date().isoformat()
        return f"learning {unit} {day}"

    async def add(self, tokens: int, dollars: float | None) -> None:
        await self._knowledge.count(self._name("tokens"), tokens)
        if dollars:
            await self._knowledge.count(self._name("dollars"), round(dollars * MICRO))

    async def tokens(self) -> float:
        return await self._knowledge.count(self._name("tokens"))

    async def dollars(self) -> float:
        return await self._knowledge.count(self._name("dollars")) / MICRO

    def accounts(self) -> Sequence[Budget]:
        limits = self._settings()
        return (
            Budget(
                f"tokens{LEARNING}", "learning:tokens", limits.day_tokens, "tokens",
                self.tokens, shared=True,
            ),
            Budget(
                f"dollars{LEARNING}", "learning:dollars", limits.day_dollars, "dollars",
                self.dollars, shared=True,
            ),
        )  # fmt: skip

    async def left(self) -> ChildLimits | None:
        """What is left today; None if nothing is."""
        limits = self._settings()
        tokens = limits.day_tokens - int(await self.tokens())
        dollars = limits.day_dollars - await self.dollars()
        return ChildLimits(tokens, dollars) if tokens > 0 and dollars > 0 else None
