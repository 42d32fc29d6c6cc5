"""Selects a session's tools: built-in ones, those of a test, or those of an embedding program."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from hermes_agent.core.messages import Prompt, ToolSpec
from hermes_agent.core.records import Session
from hermes_agent.core.tools import Tool
from hermes_agent.host.context import RuntimeContext
from hermes_agent.runtime.tools import builtin
from hermes_agent.runtime.tools.programs import ProgramLink


class EmbeddedTools(NamedTuple):
    """What an embedding program gives a session: its own tools, the granted capabilities, and
    whether the built-in tools are available."""

    own: Mapping[str, Tool]
    granted: frozenset[str]
    builtin: bool
    link: ProgramLink | None = None
    """The way to a program in another process."""


class EmbeddedSessions:
    def __init__(self) -> None:
        self._tools: dict[str, EmbeddedTools] = {}

    def attach(self, session: str, tools: EmbeddedTools) -> None:
        self._tools[session] = tools

    def get(self, session: str) -> EmbeddedTools | None:
        return self._tools.get(session)

    def inherit(self, parent: str, child: str) -> bool:
        """Give a subagent its parent's embedded tools; False when there are none."""
        if parent in self._tools:
            self._tools[child] = self._tools[parent]
        return parent in self._tools

    def is_ours(self, session: Session) -> bool:
        """Whether its turns can run here: an embedded session needs its program."""
        known = self._tools.get(session.id)
        there = known is not None and (known.link is None or known.link.connected)
        return session.source != "library" or there

    def prune(self, busy: Collection[str]) -> None:
        """Forget programs that have ended, except those with a running turn."""
        self._tools = {
            session: known
            for session, known in self._tools.items()
            if known.link is None or known.link.connected or session in busy
        }

    def end(self) -> None:
        for known in self._tools.values():
            if known.link is not None:
                known.link.end()


class ToolSelection:
    """`tools` replace the built-in ones."""

    def __init__(
        self, context: RuntimeContext, tools: Sequence[Tool] | None, embedded: EmbeddedSessions
    ) -> None:
        self._context = context
        self._tools = None if tools is None else {tool.name: tool for tool in tools}
        self.embedded = embedded

    def specs(
        self, use: Sequence[str] | None, parent: str = "", embedded: EmbeddedTools | None = None
    ) -> tuple[ToolSpec, ...]:
        """The specs of a session's tools: those in `use`, or all. A subagent also has those of its
        parent's program."""
        embedded = embedded or self.embedded.get(parent)
        own, with_builtin = self._chosen(embedded)
        shown = self._builtin(use, parent) if with_builtin else ()
        mine = [tool.spec for name, tool in own.items() if use is None or name in use]
        return (*shown, *mine)

    def tools(self, session: str, prompt: Prompt) -> builtin.SessionTools:
        own, with_builtin = self._chosen(self.embedded.get(session))
        names = [spec.name for spec in prompt.tools]
        return builtin.SessionTools(names, own, builtin=with_builtin)

    def _chosen(self, embedded: EmbeddedTools | None) -> tuple[Mapping[str, Tool], bool]:
        if embedded is not None:
            return embedded.own, embedded.builtin
        return self._tools or {}, self._tools is None

    def _builtin(self, use: Sequence[str] | None, parent: str) -> tuple[ToolSpec, ...]:
        settings = self._context.settings
        if use is None:
            return builtin.specs(builtin.chosen(settings.tools.use), settings)
        # A subagent's are names of tools, never of toolsets; some names are both.
        return builtin.specs(use if parent else builtin.chosen(use), settings)
