"""Skills for people and programs: listed, described, checked and run."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from hermes_agent.core.errors import UsageError
from hermes_agent.core.ports import Sessions
from hermes_agent.core.records import SessionMessage
from hermes_agent.host.context import RuntimeContext
from hermes_agent.learning.knowledge import Knowledge
from hermes_agent.learning.skills.folder import RUNBOOK

SOURCE = "runbook"
EVERY = 100_000
"""The most uses that are counted."""


class SkillsApi:
    def __init__(self, context: RuntimeContext, sessions: Sessions, knowledge: Knowledge) -> None:
        self._context = context
        self._sessions = sessions
        self._knowledge = knowledge

    async def listed(self) -> list[dict[str, Any]]:
        knowledge = self._context.store.knowledge
        await self._knowledge.sync()
        uses = Counter(one.skill for one in await knowledge.uses(limit=EVERY) if one.opened)
        scans = self._knowledge.skills.known()
        return [
            {
                "name": record.name,
                "description": known.facts.description if (known := scans.get(record.name)) else "",
                "category": known.facts.category if known else "",
                "state": record.state,
                "version": record.version,
                "by": record.by,
                "model": record.model,
                "reason": record.reason,
                "uses": uses[record.name],
                "runbook": bool(known and known.runbook),
                "broken": known.broken if known else "",
            }
            for record in await knowledge.skills()
        ]

    async def described(self, name: str) -> dict[str, Any]:
        page = await self._knowledge.skills.facts(name)
        main = next((path for path in page.files if path.lower() == "skill.md"), "")
        return {
            "record": page.record,
            "text": page.files[main].decode(errors="replace") if main else "",
            "files": sorted(page.files),
            "bounds": page.text.bounds,
            "parameters": page.text.parameters,
            "problems": page.problems,
            "versions": page.versions,
            "runbook": RUNBOOK in page.files,
            "cases": len(await self._context.store.knowledge.cases(name)),
            "folder": page.folder,
        }

    async def problems(self, name: str, files: Mapping[str, str]) -> Sequence[Any]:
        if not files:
            return (await self._knowledge.skills.facts(name)).problems
        from hermes_agent.learning.skills.file import problems

        return problems({path: text.encode() for path, text in files.items()}, name)

    async def run(
        self,
        name: str,
        arguments: str,
        *,
        workspace: str,
        terminals: Sequence[str] = (),
        policy: str = "",
        anyway: bool = False,
        interactive: bool = False,
        source: str = SOURCE,
    ) -> dict[str, Any]:
        """Run a skill's runbook, without a model as long as its expectations hold; the session and
        the key of the message. Jobs and signals call it too."""
        from hermes_agent.models.runbook import OPENING

        found = await self._knowledge.skills.open(name, arguments, run=True)
        record = await self._context.store.knowledge.skill(name)
        if record.state == "candidate" and not anyway:
            raise UsageError(
                f"the skill {name!r} is a candidate: it is not proven yet",
                f"`hermes skills prove {name}` tries it; --anyway runs it all the same",
            )
        session = await self._sessions.open_session(
            workspace=workspace, policy=policy, terminals=terminals, source=source,
            needs_model=False,
        )  # fmt: skip
        after = await self._context.store.last_number(session.id)
        key = secrets.token_hex(8)
        opened = replace(found.opened, text=found.text)
        inbound = SessionMessage(key, OPENING, source, interactive, skills=(opened,))
        await self._sessions.submit(session, inbound)
        return {"session": session.id, "key": key, "after": after}
