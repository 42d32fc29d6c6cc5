"""The way into a tool: every call is judged, the judgement is written down, people are asked where
it says so, and only then is there a permit. Nothing else makes permits."""

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from hermes_agent.agent.conversation import ConversationState, PendingCall
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.human_input import HumanInput, Write
from hermes_agent.core import events as ev
from hermes_agent.core.effects import DEFAULT, Effect, JudgementInputs, Resolve, Verdict, paths_in
from hermes_agent.core.errors import NotFound
from hermes_agent.core.skills import SkillLimits
from hermes_agent.core.text.addresses import host_of
from hermes_agent.core.tools import EgressCheck, Permit, Tool
from hermes_agent.policy.path_resolvers import finish, on_disk

log = logging.getLogger("hermes.admission")

TEXT_CHARS = 500
"""How much of a call the judgement keeps for people."""
LEAVE = frozenset({"yes", "session", "always"})
"""Answers that allow a call."""
HOSTS = 1_000
"""Hosts of one call whose judgement is remembered."""


class CallDenied(Exception):
    """A call may not run. The text is for the model."""


def _shown(open_call: PendingCall) -> str:
    """A call as somebody consents to it: whole, and texts of several lines as such."""
    given = open_call.call.input()
    blocks = {key: text for key, text in given.items() if isinstance(text, str) and "\n" in text}
    if not blocks:
        return f"{open_call.call.name} {open_call.call.arguments}"
    rest = {key: value for key, value in given.items() if key not in blocks}
    lines = [f"{open_call.call.name} {msgspec.json.encode(rest).decode()}"]
    for key, text in blocks.items():
        # Marked: no line of it can pass for a line of the question.
        lines += [f"{key}:", *(f"| {line}" for line in text.split("\n"))]
    return "\n".join(lines)


async def _nowhere(paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
    return [(path,) for path in paths]


def _may_be_empty(tool: Tool, argument: str) -> bool:
    """Whether an empty path means none at all. Elsewhere it means the workspace."""
    known: Mapping[str, Any] = tool.spec.parameters.get("properties", {})
    return bool(known.get(argument, {}).get("default") == "")


class CallAuthorizer:
    """Judges the calls of one session."""

    def __init__(
        self,
        parts: TurnDependencies,
        conversation: ConversationState,
        people: HumanInput,
        write: Write,
    ) -> None:
        self._parts = parts
        self._conversation = conversation
        self._people = people
        self._write = write

    async def admit(self, open_call: PendingCall, tool: Tool, given: dict[str, object]) -> None:
        """Return when the call may run; `permit` gives leave then. Raises `CallDenied`."""
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
            await self._consent(open_call, judged)
            # People take their time: what the rules deny by now is denied.
            again = await self._judge(open_call, tool, given, only_deny=True)
            if again is not None:
                raise CallDenied(f"refused by policy: {again.reason}")
        for name in judged.secrets:
            self._parts.secret(name)  # one that is not there is said before anything runs

    def secrets(self, open_call: PendingCall, tool: Tool | None) -> dict[str, str]:
        """What a rule granted this call, by name, and the keys that a tool of ours works with."""
        granted = open_call.judged.secrets if open_call.judged else ()
        keys = tool.keys if tool is not None and tool.origin == "builtin" else ()
        values = {name: self._secret(name) for name in (*granted, *keys)}
        for name in granted:
            if values[name] is None:  # it went since the call was admitted
                log.warning("%s runs without its secret %s", open_call.effect, name)
        return {name: value for name, value in values.items() if value is not None}

    def _secret(self, name: str) -> str | None:
        try:
            return self._parts.secret(name)
        except NotFound:
            return None

    def reach(self, open_call: PendingCall, tool: Tool, terminal: str) -> EgressCheck:
        """Whether this call may connect to a host. One that is not public: a rule allows it, or
        somebody has agreed to a call that names it. A public one: no rule denies it, and what holds
        where there is no rule does not count, for pages lead to hosts that nobody has named."""
        judged = open_call.judged
        named = set(judged.facts.hosts) if judged else set()
        # As the call itself was judged: one that uses no terminal reaches out from here.
        place = terminal if tool.located else "local"
        kind = self._parts.places.get(terminal, "local") if tool.located else "local"
        where = self._parts.terminals[terminal].workspace if tool.located else self._parts.workspace

        def said(host: str, bounds: tuple[SkillLimits, ...]) -> Verdict:
            given = tool.arguments(open_call.call.target()[1])
            effect = Effect(
                id=open_call.effect,
                tool=tool.name,
                input=self.arguments(open_call, tool, given),
                session=self._conversation.session,
                workspace=where,
                terminal=place,
                terminal_kind=kind,
                capabilities=tuple(tool.capabilities),
                hosts=(host,),
                origin=tool.origin,
                bounds=bounds,
                actor=self._parts.actor,
                time=self._parts.clock(),
            )
            return finish(self._parts.gate.judge(effect, _nowhere, self._conversation.granted))

        @lru_cache(HOSTS)
        def denied(host: str, bounds: tuple[SkillLimits, ...]) -> bool:
            verdict = said(host, bounds)
            return verdict.action == "deny" and verdict.rule != DEFAULT

        def may(host: str, address: str, public: bool) -> bool:
            # Skills bound hosts by name: where an allowed one leads is for the rules.
            if denied(host, self._bounds) or denied(address, ()):
                return False
            if public:
                return True
            action = said(host, self._bounds).action
            return action == "allow" or (
                action == "ask" and host in named and self._agreed(open_call.effect)
            )

        return may

    def permit(self, open_call: PendingCall, tool: Tool, given: dict[str, object]) -> Permit:
        """Leave to run a call that the journal says was allowed."""
        judged = open_call.judged
        if judged is None or not (judged.action == "allow" or self._agreed(open_call.effect)):
            raise PermissionError(f"{tool.name} was not allowed")
        return Permit(open_call.effect, tool.name, self.arguments(open_call, tool, given))

    @staticmethod
    def arguments(
        open_call: PendingCall, tool: Tool, given: dict[str, object]
    ) -> dict[str, object]:
        """What the call runs with: as the model wrote it, or as a rule rewrote it."""
        judged = open_call.judged
        if judged is None or judged.input is None:
            return given
        return tool.arguments(judged.input)

    def _agreed(self, effect: str) -> bool:
        answered = self._conversation.answers.get(f"{effect}-ok")
        return answered is not None and answered.answer in LEAVE

    async def _judge(
        self,
        open_call: PendingCall,
        tool: Tool,
        given: dict[str, object],
        *,
        only_deny: bool = False,
    ) -> ev.CallJudged | None:
        """The gate's word, written down; with `only_deny` nothing else than a no counts."""
        effect, trace = await self._effect(open_call, tool, given)
        verdict = await self._parts.gate.judge(effect, trace, self._conversation.granted)
        if only_deny and verdict.action != "deny":
            return None
        judged = self._written(effect, verdict, open_call, tool)
        await self._write(judged)
        return judged

    async def _effect(
        self, open_call: PendingCall, tool: Tool, given: dict[str, object]
    ) -> tuple[Effect, Resolve]:
        """The call as the gate gets it, and who tells where its paths lead."""
        name, kind, workspace, folder = "local", "local", self._parts.workspace, ""
        trace: Resolve = on_disk
        if tool.located:
            name = self._parts.terminal_name(tool.place(open_call.call.target()[1]))
            kind = self._parts.places.get(name, "local")
            terminal = self._parts.terminals[name]
            # First, because a far terminal learns by it where its workspace is.
            folder = await terminal.where()
            workspace, trace = terminal.workspace, terminal.trace
        effect = Effect(
            id=open_call.effect,
            tool=tool.name,
            input=given,
            session=self._conversation.session,
            workspace=workspace,
            folder=folder if tool.command else "",
            terminal=name,
            terminal_kind=kind,
            capabilities=tuple(tool.capabilities),
            command=str(given[tool.command]) if tool.command else None,
            paths=tuple(
                (access, path)
                for key, access in tool.paths.items()
                for path in paths_in(given[key])
                if path or not _may_be_empty(tool, key)
            ),
            hosts=tuple(host_of(str(given[key])) for key in tool.hosts if given.get(key)),
            origin=tool.origin,
            bounds=self._bounds,
            actor=self._parts.actor,
            time=self._parts.clock(),
        )
        return effect, trace

    @property
    def _bounds(self) -> tuple[SkillLimits, ...]:
        """What the active skills allow, here and where this session was begun."""
        return (*self._parts.bounds, *self._conversation.bounds)

    def _written(
        self, effect: Effect, verdict: Verdict, open_call: PendingCall, tool: Tool
    ) -> ev.CallJudged:
        redact = self._parts.redact
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
        )

    async def _consent(self, open_call: PendingCall, judged: ev.CallJudged) -> None:
        # Whom a rule names can be reached without whoever sent the message.
        if not self._conversation.interactive and not judged.consent.by:
            raise CallDenied(
                f"refused: {judged.reason}, and nobody can be asked. "
                "Do without it, or tell the user what you would have done."
            )
        shown = _shown(open_call)
        if judged.input is not None:
            shown += f"\nrewritten to {msgspec.json.encode(judged.input).decode()}"
        alone = judged.consent.count == 1
        answer = await self._people.ask(
            ev.QuestionAsked(
                id=f"{open_call.effect}-ok",
                purpose="approval",
                text=self._parts.redact(f"{shown}\n{judged.reason}"),
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
            )
        )
        if answer not in LEAVE:
            raise CallDenied(
                "refused by the user" if answer else "refused: nobody answered in time"
            )
