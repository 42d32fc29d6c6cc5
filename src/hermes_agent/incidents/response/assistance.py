"""What the runtime does for a session that works on an incident: facts of services, which skills
are for the case now, and copies of what will change."""

from collections.abc import Mapping, Sequence
from functools import partial

from hermes_agent.core.command_results import CommandOutcome
from hermes_agent.core.errors import ToolError
from hermes_agent.core.incidents import Diagnosis, Incident, TimelineEntry
from hermes_agent.incidents.backend import COPIES, SHIPPED, WATCHING, IncidentBackend
from hermes_agent.incidents.response.candidates import dependency_chain
from hermes_agent.incidents.response.context import findings
from hermes_agent.incidents.response.copies import (
    KEPT,
    copies_made,
    copy_script,
    stored_copies,
    undo_script,
)
from hermes_agent.incidents.response.facts import ServiceFacts, service_facts
from hermes_agent.incidents.response.prompts import block, skills_data, skills_text
from hermes_agent.incidents.response.stability import StabilityWatch, not_lasting
from hermes_agent.incidents.response.timeline import Line
from hermes_agent.learning.skills.template import argument_words


class Assistance:
    """`known`: facts that were found out earlier, by service."""

    def __init__(
        self, world: IncidentBackend, id: str, session: str, known: dict[str, ServiceFacts]
    ) -> None:
        self._world = world
        self._id = id
        self._session = session
        self._known = known

    async def values(self, arguments: str) -> Mapping[str, str]:
        """What placeholders stand for in a skill that is opened with these arguments."""
        words = argument_words(arguments)
        named = [word.partition("=")[2] for word in words if word.startswith("service=")]
        incident = await self._world.incidents.incident(self._id)
        service = [*named, *words, incident.service][0]
        if service not in self._known:
            self._known.update(await service_facts([service], self._look))
        return self._known.get(service, ServiceFacts(service)).values

    async def describe(self, service: str) -> str:
        """How a service, and what it needs, runs now."""
        service = service or (await self._world.incidents.incident(self._id)).service
        found = await service_facts([service], self._look)
        if service not in found:
            raise ToolError(f"not a service name: {service!r}", retry="changed")
        self._known.update(found)
        own = found[service]
        return "\n".join([own.line, *(found[name].line for name in own.needs)])

    async def signs(self) -> str:
        """Which skills are for the case as it is now."""
        incident = await self._world.incidents.incident(self._id)
        shipped = partial(self._world.look, self._session, source=SHIPPED)
        found = await findings(self._world, incident, self._look, shipped)
        self._known.update(found.facts)
        return f"{skills_text(found)}\n\n{block(skills_data(found))}"

    async def keep(
        self, entries: Sequence[TimelineEntry], paths: Sequence[str]
    ) -> tuple[str, Line]:
        """Copy paths aside; what is said, and the timeline's entry."""
        number = 1 + sum(KEPT in entry.data for entry in entries)
        script = copy_script(self._id, number, paths)
        seen = await self._world.look(self._session, script, None, source=COPIES)
        made, failed = copies_made(self._id, number, paths, seen.output)
        if not made:
            raise ToolError(f"no copy could be kept: {seen.shown}", "change nothing there")
        text = f"copies kept of {', '.join(one.path for one in made)}"
        said = [f"{text}; `undo` puts them back", *(f"no copy of {path}" for path in failed)]
        data = {KEPT: [{"path": x.path, "copy": x.copy, "absent": x.absent} for x in made]}
        return "\n".join(said), ("note", text, data)

    async def not_lasting(self, incident: Incident, diagnosis: Diagnosis) -> list[str]:
        """Why what holds now will not last, in lines; none where nothing speaks against it."""
        names = [incident.service, *incident.related, diagnosis.component]
        if not self._known:
            self._known.update(await service_facts(filter(None, names), self._look))
        chain = dependency_chain(names, await self._world.topology(incident), self._known)
        watched = {name: self._known[name] for name in chain if name in self._known}
        quotes = [one.quote for one in diagnosis.evidence]
        return await not_lasting(
            StabilityWatch(
                incident.checks, watched, diagnosis.category, quotes, self._look,
                partial(self._world.look, self._session, source=WATCHING),
                self._world.sleep,
            )
        )  # fmt: skip

    def undo_script(self, entries: Sequence[TimelineEntry]) -> str:
        if not (copies := stored_copies(entries)):
            raise ToolError("no copies are kept that could be put back", retry="never")
        return undo_script(copies)

    async def _look(self, command: str, timeout: float | None) -> CommandOutcome:  # noqa: ASYNC109
        return await self._world.look(self._session, command, timeout)
