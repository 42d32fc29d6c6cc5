"""Memory, skills and recall of a runtime. Each part is made when it is first used."""

import logging
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.core import events as ev
from hermes_agent.core.settings.root import LearningSettings, MemorySettings
from hermes_agent.host.context import RuntimeContext
from hermes_agent.learning.budget import LearningBudget

if TYPE_CHECKING:
    from hermes_agent.learning.memory.memory import Memory
    from hermes_agent.learning.providers.http import Provider
    from hermes_agent.learning.recall.recall import Recall
    from hermes_agent.learning.skills.registry import SkillRegistry

log = logging.getLogger("hermes.learning")

SHIPPED = Path(__file__).parent.parent / "skills"
MAX_USES = 100_000
"""The most uses of skills that are counted."""
INDEXED = 5
"""Messages of a session that are indexed, beside its summary; after these, every fifth turn indexes
it again."""


class Knowledge:
    def __init__(self, context: RuntimeContext) -> None:
        self._context = context
        self._troubles: dict[str, str] = {}
        self._providers: dict[MemorySettings, Provider] = {}
        self.budget = LearningBudget(context.store.knowledge, lambda: self.settings, context.clock)

    @property
    def settings(self) -> LearningSettings:
        return self._context.settings.learning

    @property
    def trouble(self) -> str:
        """What does not work now, in sentences; shown by `hermes status`."""
        return "; ".join(self._troubles.values())

    @cached_property
    def memory(self) -> "Memory":
        from hermes_agent.learning.memory.memory import Memory

        def danger(text: str) -> str:
            from hermes_agent.learning.injection_scan.scan import (
                scan,  # rarely needed, slow to load
            )

            # Without the words themselves: the reason is shown in the prompt.
            found = scan(text, "memory")
            return f"it looks dangerous: {found[0].why}" if found else ""

        return Memory(
            self._context.home.path / "memories",
            self._context.store.knowledge,
            limits=lambda: self._context.settings.memory,
            scan=danger,
            redact=self._context.redact,
            clock=self._context.clock,
        )

    @cached_property
    def skills(self) -> "SkillRegistry":
        from hermes_agent.learning.skills.registry import SkillRegistry

        def danger(text: str) -> str:
            from hermes_agent.learning.injection_scan.scan import reason  # rarely needed

            return reason(text, "skill")

        return SkillRegistry(
            self._context.home.path / "skills",
            self._context.store.knowledge,
            shipped=SHIPPED,
            scan=danger,
            redact=self._context.redact,
            clock=self._context.clock,
            platform=os.uname().sysname.lower(),
        )

    @cached_property
    def recall(self) -> "Recall":
        from hermes_agent.learning.recall.recall import Recall

        return Recall(
            self._context.store.knowledge,
            self._context.store,
            settings=lambda: self.settings,
            clock=self._context.clock,
        )

    @property
    def provider(self) -> "Provider | None":
        """The external memory service, if the settings name one."""
        memory = self._context.settings.memory
        if not memory.provider:
            return None
        if memory not in self._providers:
            from hermes_agent.learning.providers.registry import open_provider

            self._providers[memory] = open_provider(
                memory, self._context.secret, self._context.clock
            )
        return self._providers[memory]

    async def sync(self) -> None:
        """Import skills changed by hand, and log what came of it."""
        for words in await self.skills.sync():
            log.warning("skills: %s", words)

    def report(self, part: str, trouble: str) -> None:
        """Record what is wrong with a part; empty when it works again."""
        if trouble and trouble != self._troubles.get(part):
            log.warning("%s", trouble)
        self._troubles.pop(part, None)
        if trouble:
            self._troubles[part] = trouble

    async def index(self, id: str) -> None:
        """Index a session for recall."""
        recorded = await self._context.store.events(id)
        said = [one.event.text for one in recorded if isinstance(one.event, ev.MessageTaken)]
        summaries = [one.event.summary for one in recorded if isinstance(one.event, ev.Summarised)]
        ends = [one.event.text for one in recorded if isinstance(one.event, ev.TurnFinished)]
        title = (await self._context.store.session(id)).title
        await self.recall.index_session(
            id, title, [*said[:INDEXED], *summaries[-1:]], ends[-1] if ends else ""
        )

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()
