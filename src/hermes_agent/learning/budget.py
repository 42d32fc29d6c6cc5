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

    def _name(self, unit: str, proof: str = "") -> str:
        day = datetime.fromtimestamp(self._clock(), UTC).date().isoformat()
        return f"learning {unit} {day}{proof and f' {proof}'}"

    async def add(self, tokens: int, dollars: float | None, proof: str = "") -> None:
        """Count a cost; that of a trial also for the proof of its skill."""
        for name in dict.fromkeys(("", proof)):
            await self._knowledge.count(self._name("tokens", name), tokens)
            if dollars:
                await self._knowledge.count(self._name("dollars", name), round(dollars * MICRO))

    async def tokens(self, proof: str = "") -> float:
        return await self._knowledge.count(self._name("tokens", proof))

    async def dollars(self, proof: str = "") -> float:
        return await self._knowledge.count(self._name("dollars", proof)) / MICRO

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

    async def proof_tokens(self) -> dict[str, int]:
        """The most tokens that one proof may use per day, that learning may, and those left."""
        limits = self._settings()
        return {
            "most_tokens": int(limits.day_tokens * limits.proof_share),
            "day_tokens": limits.day_tokens,
            "left_tokens": max(limits.day_tokens - int(await self.tokens()), 0),
        }

    async def left(self, proof: str) -> ChildLimits | None:
        """What the proof of a skill may still use today; None if nothing is left."""
        limits, share = self._settings(), self._settings().proof_share
        tokens = min(
            limits.day_tokens - int(await self.tokens()),
            int(limits.day_tokens * share) - int(await self.tokens(proof)),
        )
        dollars = min(
            limits.day_dollars - await self.dollars(),
            limits.day_dollars * share - await self.dollars(proof),
        )
        return ChildLimits(tokens, dollars) if tokens > 0 and dollars > 0 else None
