"""Builds the context that a tool gets for one call."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from hermes_agent.agent.budgets.reservations import SplitBudget
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
"""Makes a call on behalf of another."""


@dataclass(eq=False, repr=False)
class ToolContextFactory:
    """Builds the contexts of one turn's calls, and publishes their output."""

    _deps: TurnDependencies
    _conversation: ConversationState
    _human_input: HumanInput
    _authorizer: CallAuthorizer
    _resolver: ToolResolver
    _split: SplitBudget
    _split_calls: set[str] = field(default_factory=set, init=False)
    """Calls that have received their budget for subagents."""
    _output: dict[str, RedactingStream] = field(default_factory=dict, init=False)
    """The output of running calls."""

    def context(self, open_call: PendingCall, inner: Inner) -> ToolContext:
        deps, effect = self._deps, open_call.effect
        attempt = open_call.intended.attempt if open_call.intended else 1
        key = effect if attempt == 1 else f"{effect}.{attempt}"  # a retry is a new effect
        tool = self._resolver.known(open_call)
        name = self._resolver.place(open_call, tool)
        reach = self._authorizer.reach(open_call, tool, name) if tool is not None else None
        ours = tool is not None and tool.origin in ("builtin", "written")
        return ToolContext(
            effect=key,
            session=self._conversation.session,
            terminal=deps.terminals[name],
            ask=self._ask_for(effect, key),
            output=partial(self._print, effect),
            secrets=self._authorizer.secrets(open_call, tool),
            redact=deps.redact,
            http=partial(deps.http, reach) if deps.http is not None and reach else None,
            reach=reach,
            clock=deps.clock,
            settings=deps.settings,
            place=name,
            workspace=deps.workspace,
            results=deps.results,
            judged=self._authorizer.judged_paths(open_call),
            call=partial(inner, open_call) if ours else None,
            services=replace(
                deps.services,
                tools=tuple(deps.tools),
                depth=deps.depth,
                interactive=self._conversation.interactive,
                bounds=(*deps.bounds, *self._conversation.bounds),
                model=self._conversation.model,
                split=self._split_for(effect),
            ),
            note=open_call.intended.note if open_call.intended else {},
            aside=bool(open_call.by),
            confinement=open_call.judged.confinement if open_call.judged else "none",
            outside=self._authorizer.outside(open_call, tool, name) if tool is not None else None,
        )

    def _split_for(self, effect: str) -> Callable[[int], AbstractAsyncContextManager[BudgetShare]]:
        def split(children: int) -> AbstractAsyncContextManager[BudgetShare]:
            waiting = sum(
                one.call.name == DELEGATE
                and not one.finished
                and one.effect not in self._split_calls
                for one in self._conversation.calls
            )
            self._split_calls.add(effect)
            return self._split(children, max(1, waiting))

        return split

    def _ask_for(
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
                text=self._deps.redact(text),
                effect=effect,
                choices=tuple(choices),
            )
            return await self._human_input.ask(question)

        return ask

    def _print(self, effect: str, text: str) -> None:
        stream = self._output.setdefault(effect, self._deps.redact.stream())
        self._show(effect, stream.feed(text))

    def end(self, effect: str) -> None:
        """Publish the rest of a call's output."""
        if (output := self._output.pop(effect, None)) is not None:
            self._show(effect, output.end())

    def _show(self, effect: str, text: str) -> None:
        if text:
            event = ev.OutputArrived(effect, text)
            self._deps.publish(
                ev.Recorded(self._conversation.session, 0, self._deps.clock(), event)
            )
