"""What a tool is lent for one call."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from hermes_agent.agent.budgets.split import SplitBudget
from hermes_agent.agent.conversation import ConversationState, PendingCall
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.human_input import HumanInput
from hermes_agent.agent.tools.authorization import CallAuthorizer
from hermes_agent.agent.tools.resolver import ToolResolver
from hermes_agent.core import events as ev
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import DELEGATE, BudgetShare, ToolContext
from hermes_agent.policy.redaction.stream import RedactingStream

Inner = Callable[[PendingCall, str, Mapping[str, Any]], Awaitable[ToolResult]]
"""Makes a call as a part of another."""


class ToolContextFactory:
    """Makes the contexts of one turn's calls, and shows what they print."""

    def __init__(
        self,
        parts: TurnDependencies,
        conversation: ConversationState,
        people: HumanInput,
        admission: CallAuthorizer,
        finder: ToolResolver,
        split: SplitBudget,
    ) -> None:
        self._parts = parts
        self._conversation = conversation
        self._people = people
        self._admission = admission
        self._finder = finder
        self._split = split
        self._carved: set[str] = set()
        """Calls that have had their part of the budget for children."""
        self._output: dict[str, RedactingStream] = {}
        """What calls print while they run, on its way to whoever watches."""

    def context(self, open_call: PendingCall, inner: Inner) -> ToolContext:
        parts, effect = self._parts, open_call.effect
        attempt = open_call.intended.attempt if open_call.intended else 1
        key = effect if attempt == 1 else f"{effect}.{attempt}"  # a retry is a new effect
        tool = self._finder.known(open_call)
        name = self._finder.place(open_call, tool)
        reach = self._admission.reach(open_call, tool, name) if tool is not None else None
        ours = tool is not None and tool.origin in ("builtin", "written")
        return ToolContext(
            effect=key,
            session=self._conversation.session,
            terminal=parts.terminals[name],
            ask=self._asker(effect, key),
            output=partial(self._print, effect),
            secrets=self._admission.secrets(open_call, tool),
            http=partial(parts.http, reach) if parts.http is not None and reach else None,
            reach=reach,
            settings=parts.settings,
            workspace=parts.workspace,
            results=parts.results,
            call=partial(inner, open_call) if ours else None,
            lent=replace(
                parts.lent,
                tools=tuple(parts.tools),
                depth=parts.depth,
                interactive=self._conversation.interactive,
                bounds=(*parts.bounds, *self._conversation.bounds),
                model=self._conversation.model,
                split=self._carver(effect),
            ),
            note=open_call.intended.note if open_call.intended else {},
            aside=bool(open_call.by),
        )

    def _carver(self, effect: str) -> Callable[[int], AbstractAsyncContextManager[BudgetShare]]:
        def split(children: int) -> AbstractAsyncContextManager[BudgetShare]:
            waiting = sum(
                one.call.name == DELEGATE and not one.finished and one.effect not in self._carved
                for one in self._conversation.calls
            )
            self._carved.add(effect)
            return self._split(children, max(1, waiting))

        return split

    def _asker(
        self, effect: str, key: str
    ) -> Callable[[str, Sequence[str]], Awaitable[str | None]]:
        asked = 0

        async def ask(text: str, choices: Sequence[str]) -> str | None:
            nonlocal asked
            asked += 1
            if not self._conversation.interactive:
                return None
            question = ev.QuestionAsked(
                id=f"{key}-q{asked}",
                purpose="question",
                text=self._parts.redact(text),
                effect=effect,
                choices=tuple(choices),
            )
            return await self._people.ask(question)

        return ask

    def _print(self, effect: str, text: str) -> None:
        stream = self._output.setdefault(effect, self._parts.redact.stream())
        self._show(effect, stream.feed(text))

    def end(self, effect: str) -> None:
        """The call prints no more."""
        if (output := self._output.pop(effect, None)) is not None:
            self._show(effect, output.end())

    def _show(self, effect: str, text: str) -> None:
        if text:
            event = ev.OutputArrived(effect, text)
            self._parts.publish(
                ev.Recorded(self._conversation.session, 0, self._parts.clock(), event)
            )
