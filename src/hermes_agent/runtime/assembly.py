"""Puts together what a session's turn is handed."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hermes_agent.agent.budget import with_share
from hermes_agent.agent.parts import Parts
from hermes_agent.agent.purse import Purse
from hermes_agent.core.effects import Actor
from hermes_agent.core.messages import ToolSpec
from hermes_agent.core.records import Session
from hermes_agent.core.tools import Tool
from hermes_agent.runtime import toolbox
from hermes_agent.runtime.family import Family
from hermes_agent.runtime.gates import Gates
from hermes_agent.runtime.lenders import Lenders
from hermes_agent.runtime.shelf import Shelf
from hermes_agent.runtime.uses import Uses

if TYPE_CHECKING:
    from hermes_agent.runtime.runtime import Runtime


class Assembly:
    """`tools` are those of every session, where they are not the built-in ones."""

    def __init__(
        self,
        runtime: "Runtime",
        tools: Sequence[Tool] | None,
        shelf: Shelf,
        gates: Gates,
        uses: Uses,
        purse: Purse,
        lenders: Lenders,
        family: Family,
        secret: Callable[[str], str],
    ) -> None:
        self._runtime = runtime
        self._tools = None if tools is None else {tool.name: tool for tool in tools}
        self._shelf = shelf
        self._gates = gates
        self._uses = uses
        self._purse = purse
        self._lenders = lenders
        self._family = family
        self._secret = secret
        self._lent: dict[str, tuple[tuple[Tool, ...], frozenset[str]]] = {}

    def lend(self, session: str, tools: Sequence[Tool], granted: frozenset[str]) -> None:
        self._lent[session] = (tuple(tools), granted)

    def is_lent(self, session: str) -> bool:
        return session in self._lent

    def inherit(self, parent: str, child: str) -> bool:
        """Give a child what its parent's program lent; False when there is no program."""
        if parent in self._lent:
            self._lent[child] = self._lent[parent]
        return parent in self._lent

    def specs(self, use: Sequence[str] | None, parent: str = "") -> tuple[ToolSpec, ...]:
        """What the model is shown of the tools that a session uses: these, or all there are. The
        child of a program's session has them of the program."""
        own = self._tools
        if parent in self._lent:
            own = {tool.name: tool for tool in self._lent[parent][0]}
        if own is not None:
            return tuple(tool.spec for name, tool in own.items() if use is None or name in use)
        if use is None:
            return toolbox.specs(toolbox.chosen(self._runtime.settings.tools.use))
        # A child's are names of tools, never of toolsets: some are both.
        return toolbox.specs(use if parent else toolbox.chosen(use))

    async def parts(self, session: Session) -> Parts:
        runtime = self._runtime
        tools, granted = self._lent.get(session.id, (None, None))
        own = self._tools if tools is None else {tool.name: tool for tool in tools}
        prompt = await runtime.store.prompt(session.prompt)
        self._gates.expect(session.policy)
        return Parts(
            journal=runtime.store,
            route=self._uses.route,
            tools=toolbox.Toolbox([spec.name for spec in prompt.tools], own),
            gate=self._gates.gate(session.policy, granted),
            terminals=self._shelf.terminals(session),
            settings=with_share(runtime.settings, session),
            publish=runtime.bus.publish,
            redact=runtime.redact,
            results=runtime.home.results / session.id,
            clock=runtime.clock,
            purse=self._purse,
            actor=_actor(session),
            workspace=session.workspace,
            places=self._shelf.kinds(session),
            secret=self._secret,
            http=_client,
            lent=self._lenders.lent(session, self._family),
            depth=session.depth,
        )


def _actor(session: Session) -> Actor:
    if session.parent:
        return Actor("agent", session.parent, session.source)
    return Actor("program" if session.source == "library" else "user", "", session.source)


def _client(allow: Callable[[str, str], bool], **options: Any) -> Any:
    """Imported when a tool first wants it: most never do."""
    from hermes_agent.policy.egress import guarded_client

    return guarded_client(allow, **options)
