"""Authorizes tool calls: each is judged, the judgement is journaled, people are asked where it says
so, and only then is there a permit. Nothing else makes permits."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes_agent.agent.conversation import ConversationState, PendingCall
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.human_input import HumanInput, Write
from hermes_agent.core import events as ev
from hermes_agent.core.effects import (
    DEFAULT,
    UNPROBED,
    Effect,
    JudgementInputs,
    OutsideCalls,
    Permit,
    Resolve,
    Verdict,
    outside_calls,
    paths_in,
)
from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.core.skills import SkillLimits
from hermes_agent.core.text.addresses import host_of
from hermes_agent.core.tools import EgressCheck, Tool
from hermes_agent.policy.path_resolvers import finish, on_disk

log = logging.getLogger("hermes.authorization")

TEXT_CHARS = 500
"""How much of a call the judgement shows."""
ALLOWING_ANSWERS = frozenset({"yes", "session", "always"})
"""Answers that allow a call."""
HOSTS = 1_000
"""How many hosts' judgements are cached per call."""


class CallDenied(Exception):
    """A call may not run. The text is for the model."""


def _where(facts: JudgementInputs) -> str:
    on = facts.terminal if facts.place != "local" else ""
    words = [*(("in", facts.folder) if facts.folder else ()), *(("on", on) if on else ())]
    return " ".join(words) if facts.runs else ""


def _shown(open_call: PendingCall) -> str:
    """The whole call as a person sees it, with multi-line texts as lines."""
    given = open_call.call.input()
    blocks = {
        key: text
        for key, text in given.items()
        if isinstance(text, str) and "\n" in text and key.isidentifier()
    }
    if not blocks:
        return f"{open_call.call.name} {open_call.call.arguments}"
    rest = {key: value for key, value in given.items() if key not in blocks}
    lines = [f"{open_call.call.name} {msgspec.json.encode(rest).decode()}"]
    for key, text in blocks.items():
        # Prefixed, so that no line of it looks like part of the question.
        lines += [f"{key}:", *(f"| {line}" for line in text.split("\n"))]
    return "\n".join(lines)


async def _nowhere(paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
    return [(path,) for path in paths]


def relayed_permit(effect: str, tool: Tool, given: dict[str, Any]) -> Permit:
    """In a program: the permit for a call that the runtime it is connected to has authorized."""
    return Permit(effect, tool.name, given)


def _may_be_empty(tool: Tool, argument: str) -> bool:
    """Whether an empty path means no path; otherwise it means the workspace."""
    known: Mapping[str, Any] = tool.spec.parameters.get("properties", {})
    return bool(known.get(argument, {}).get("default") == "")


@dataclass(eq=False, repr=False)
class CallAuthorizer:
    """Judges the calls of one session."""

    _deps: TurnDependencies
    _conversation: ConversationState
    _human_input: HumanInput
    _write: Write

    async def authorize(self, open_call: PendingCall, tool: Tool, given: dict[str, object]) -> None:
        """Return when the call may run; `permit` then gives its permit. Raises `CallDenied`."""
        if "[redacted:" in open_call.call.arguments:
            raise CallDenied(
                "refused: the call contains a secret that was redacted. Do without it, "
                "or ask the user for a rule that grants the secret to this tool by name."
            )
        judged = open_call.judged or await self._judge(open_call, tool, given)
        assert judged is not None
        if judged.action == "deny":
            raise CallDenied(f"refused by policy: {judged.reason}")
        if judged.action == "ask":
            await self._consent(open_call, judged, tool, given)
            # The rules may have changed while people were asked.
            again = await self._judge(open_call, tool, given, only_deny=True)
            if again is not None:
                raise CallDenied(f"refused by policy: {again.reason}")
        for name in judged.secrets:
            self._deps.secret(name)  # fails before anything runs when it is missing

    def secrets(self, open_call: PendingCall, tool: Tool | None) -> dict[str, str]:
        """The secrets that a rule granted this call, and the keys of a built-in tool, by name."""
        granted = open_call.judged.secrets if open_call.judged else ()
        keys: tuple[str, ...] = ()
        if tool is not None and tool.origin == "builtin":
            keys = (*tool.keys, *(name for one in self._sources(tool) for name in one.secrets))
        values = {name: self._secret(name) for name in (*granted, *keys)}
        for name in granted:
            if values[name] is None:  # removed since the call was authorized
                log.warning("%s runs without its secret %s", open_call.effect, name)
        return {name: value for name, value in values.items() if value is not None}

    def _sources(self, tool: Tool) -> Sequence[SourceSettings]:
        """The sources of the settings that a built-in tool connects to."""
        known = self._deps.settings.sources.values()
        ours = tool.origin == "builtin"
        return [one for one in known if ours and one.enabled and one.kind in tool.sources]

    def _secret(self, name: str) -> str | None:
        try:
            return self._deps.secret(name)
        except NotFound:
            return None

    def reach(self, open_call: PendingCall, tool: Tool, terminal: str) -> EgressCheck:
        """Returns a check of which hosts this call may connect to. A private host needs a rule that
        allows it, approval of a call that names it, or a source of the settings. A public host must
        not be denied by a rule; the default does not count, because pages link to hosts that nobody
        has named."""
        judged = open_call.judged
        sources = {one.destination for one in self._sources(tool)} - {""}
        named = set(judged.facts.hosts) if judged else set()
        # As the call itself was judged: without a terminal it connects from here.
        place = terminal if tool.located else "local"
        kind = self._deps.places.get(terminal, "local") if tool.located else "local"
        where = self._deps.terminals[terminal].workspace if tool.located else self._deps.workspace

        def judge(host: str, bounds: tuple[SkillLimits, ...]) -> Verdict:
            given = tool.arguments(open_call.call.target()[1])
            arguments = self.arguments(open_call, tool, given)
            effect = replace(
                self._base_effect(open_call, tool, arguments, place, kind, where),
                hosts=(host,),
                bounds=bounds,
            )
            return finish(self._deps.gate.judge(effect, _nowhere, self._conversation.granted))

        @lru_cache(HOSTS)
        def denied(host: str, bounds: tuple[SkillLimits, ...]) -> bool:
            verdict = judge(host, bounds)
            return verdict.action == "deny" and verdict.rule != DEFAULT

        def may(host: str, address: str, public: bool) -> bool:
            # Skills limit hosts by name; only rules limit addresses.
            if denied(host, self._bounds) or denied(address, ()):
                return False
            if public or host in sources:
                return True
            action = judge(host, self._bounds).action
            return action == "allow" or (
                action == "ask" and host in named and self._agreed(open_call.effect)
            )

        return may

    def outside(self, open_call: PendingCall, tool: Tool, terminal: str) -> OutsideCalls | None:
        """What a confined command may call outside of its view."""
        if open_call.judged is None or open_call.judged.confinement == "none":
            return None
        deps, place = self._deps, self._deps.terminals[terminal]
        given = tool.arguments(open_call.call.target()[1])
        effect = self._base_effect(
            open_call, tool, self.arguments(open_call, tool, given), terminal,
            deps.places.get(terminal, "local"), place.workspace,
        )  # fmt: skip
        return outside_calls(deps.gate, effect, place.trace, self._conversation.granted)

    def permit(self, open_call: PendingCall, tool: Tool, given: dict[str, object]) -> Permit:
        """The permit for a call that was allowed according to the journal."""
        judged = open_call.judged
        if judged is None or not (judged.action == "allow" or self._agreed(open_call.effect)):
            raise PermissionError(f"{tool.name} was not allowed")
        return Permit(open_call.effect, tool.name, self.arguments(open_call, tool, given))

    @staticmethod
    def arguments(
        open_call: PendingCall, tool: Tool, given: dict[str, object]
    ) -> dict[str, object]:
        """The arguments as the model wrote them, or as a rule rewrote them."""
        judged = open_call.judged
        if judged is None or judged.input is None:
            return given
        return tool.arguments(judged.input)

    @staticmethod
    def judged_paths(open_call: PendingCall) -> tuple[str, ...]:
        """Where the call's paths led when it was judged. Nothing if one could not be followed, as
        that of another user's home: then people have agreed to its name."""
        facts = open_call.judged.facts if open_call.judged else JudgementInputs()
        for _, given in facts.paths:
            if given[:1] == "~" and not any(name.endswith(given[1:]) for name, _ in facts.seen):
                return ()
        return tuple(real for _, led in facts.seen for real in led)

    def _agreed(self, effect: str) -> bool:
        answered = self._conversation.answers.get(f"{effect}-ok")
        return answered is not None and answered.answer in ALLOWING_ANSWERS

    async def _judge(
        self,
        open_call: PendingCall,
        tool: Tool,
        given: dict[str, object],
        *,
        only_deny: bool = False,
    ) -> ev.CallJudged | None:
        """Journal and return the gate's verdict; with `only_deny`, only a denial."""
        effect, trace = await self._effect(open_call, tool, given)
        verdict = await self._deps.gate.judge(effect, trace, self._conversation.granted)
        if only_deny and verdict.action != "deny":
            return None
        judged = self._written(effect, verdict, open_call, tool)
        await self._write(judged)
        return judged

    async def _effect(
        self, open_call: PendingCall, tool: Tool, given: dict[str, object]
    ) -> tuple[Effect, Resolve]:
        """The call as the gate sees it, and the resolver for its paths."""
        name, kind, workspace, folder = "local", "local", self._deps.workspace, ""
        unconfined = unconfined_workspace = UNPROBED
        trace: Resolve = on_disk
        if tool.located:
            name = self._deps.terminal_name(tool.place(open_call.call.target()[1]))
            kind = self._deps.places.get(name, "local")
            terminal = self._deps.terminals[name]
            # First: a remote terminal learns its workspace this way.
            folder = await terminal.where()
            if tool.command and kind != "local":
                unconfined = await terminal.unconfined()
                unconfined_workspace = await terminal.unconfined("workspace")
            workspace, trace = terminal.workspace, terminal.trace
        effect = replace(
            self._base_effect(open_call, tool, given, name, kind, workspace),
            folder=folder if tool.command else "",
            command=str(given[tool.command]) if tool.command else None,
            paths=tuple(
                (access, path)
                for key, access in tool.paths.items()
                for path in paths_in(given[key])
                if path or not _may_be_empty(tool, key)
            ),
            hosts=tuple(host_of(str(given[key])) for key in tool.hosts if given.get(key)),
            unconfined=unconfined,
            unconfined_workspace=unconfined_workspace,
        )
        return effect, trace

    def _base_effect(
        self,
        open_call: PendingCall,
        tool: Tool,
        arguments: dict[str, object],
        terminal: str,
        kind: str,
        workspace: str,
    ) -> Effect:
        return Effect(
            id=open_call.effect,
            tool=tool.name,
            input=arguments,
            session=self._conversation.session,
            workspace=workspace,
            terminal=terminal,
            terminal_kind=kind,
            capabilities=tuple(tool.capabilities),
            origin=tool.origin,
            bounds=self._bounds,
            actor=self._deps.actor,
            time=self._deps.clock(),
            parameters=tuple(tool.spec.parameters.get("properties", ())),
        )

    @property
    def _bounds(self) -> tuple[SkillLimits, ...]:
        """The limits of the active skills, here and in the parent session."""
        return (*self._deps.bounds, *self._conversation.bounds)

    def _written(
        self, effect: Effect, verdict: Verdict, open_call: PendingCall, tool: Tool
    ) -> ev.CallJudged:
        redact = self._deps.redact
        return ev.CallJudged(
            effect=effect.id,
            tool=tool.name,
            action=verdict.action,
            reason=redact(verdict.reason),
            rule=verdict.rule,
            text=redact(f"{tool.name} {open_call.call.arguments}")[:TEXT_CHARS],
            facts=JudgementInputs(
                folder=effect.folder,
                terminal=effect.terminal,
                place=effect.terminal_kind,
                workspace=effect.workspace,
                runs=tool.command,
                capabilities=effect.capabilities,
                paths=effect.paths,
                hosts=effect.hosts,
                origin=tool.origin,
                bounds=effect.bounds,
                unconfined=effect.unconfined,
                unconfined_workspace=effect.unconfined_workspace,
                actor=effect.actor,
                seen=verdict.seen,
                granted=tuple(sorted(self._conversation.granted)),
            ),
            consent=verdict.consent,
            input=None if verdict.input is None else msgspec.to_builtins(verdict.input),
            audits=verdict.audits,
            secrets=verdict.secrets,
            grants=verdict.grants,
            proposal=verdict.proposal,
            confinement=verdict.confinement,
            risks=tuple(replace(risk, text=redact(risk.text)) for risk in verdict.risks),
        )

    async def _preview(self, open_call: PendingCall, tool: Tool, given: dict[str, object]) -> str:
        """What would happen to an existing file; empty where that cannot be told."""
        if tool.preview is None or open_call.judged is None:
            return ""
        terminal = self._deps.terminals[open_call.judged.facts.terminal]
        try:
            return await tool.preview(terminal, **self.arguments(open_call, tool, given))
        except (HermesError, OSError, UnicodeError) as error:
            log.debug("no preview of %s: %s", open_call.effect, error)
            return ""

    async def _consent(
        self, open_call: PendingCall, judged: ev.CallJudged, tool: Tool, given: dict[str, object]
    ) -> None:
        # Approvers that a rule names are reachable even when the sender is not.
        if not self._conversation.interactive and not judged.consent.by:
            raise CallDenied(
                f"refused: {judged.reason}, and nobody is available to approve it. "
                "Do without it, or tell the user what you would have done."
            )
        shown = _shown(open_call)
        if judged.input is not None:
            shown += f"\nrewritten to {msgspec.json.encode(judged.input).decode()}"
        alone = judged.consent.count == 1
        answer = await self._human_input.ask(
            ev.QuestionAsked(
                id=f"{open_call.effect}-ok",
                purpose="approval",
                text=self._deps.redact(f"{shown}\n{judged.reason}"),
                effect=open_call.effect,
                choices=(
                    "yes",
                    "no",
                    *(("session",) if judged.grants and alone else ()),
                    *(("always",) if judged.proposal and alone else ()),
                ),
                consent=judged.consent,
                grants=judged.grants,
                proposal=judged.proposal,
                reason=judged.reason,
                change=self._deps.redact(await self._preview(open_call, tool, given)),
                risks=judged.risks,
                where=self._deps.redact(_where(judged.facts)),
            )
        )
        if answer not in ALLOWING_ANSWERS:
            raise CallDenied(
                "refused by the user" if answer else "refused: nobody answered in time"
            )
