"""Built-in tools that are not in the prompt: the model finds them with `find_tools`."""

from collections.abc import Callable, Sequence

from hermes_agent.core.settings.root import Settings
from hermes_agent.core.tools import Tool, ToolListing
from hermes_agent.runtime.tools.builtin import TABLE, BuiltinToolFacts, facts, load


class SearchableTools:
    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    def about(self) -> str:
        names = [name for name, row in TABLE.items() if not row.in_prompt]
        sources = self._settings().sources.items()
        known = [f"{name} ({one.kind})" for name, one in sorted(sources) if one.enabled]
        lines = [f"More built-in tools, called with use_tool: {', '.join(names)}."]
        lines += [f"Production sources: {', '.join(known)}."] if known else []
        return " ".join(lines)

    async def search(self, query: str) -> Sequence[ToolListing]:
        words = query.lower().split()
        return [
            ToolListing(one.name, _about(one), trouble=bool(one.missing))
            for one in self._facts()
            if all(word in f"{one.name} {one.toolset} {one.description}".lower() for word in words)
        ]

    async def find(self, name: str) -> Tool | None:
        return load(name) if name in {one.name for one in self._facts()} else None

    def _facts(self) -> list[BuiltinToolFacts]:
        return [one for one in facts(self._settings()) if not TABLE[one.name].in_prompt]


def _about(one: BuiltinToolFacts) -> str:
    if one.missing:
        return f"needs {one.missing}"
    given = ", ".join(one.parameters["properties"])
    return f"{' '.join(one.description.split())} Arguments: {given}."
