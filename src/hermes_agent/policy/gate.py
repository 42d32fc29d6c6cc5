"""The gate: an effect is split into operations, each is decided, and the strictest counts."""

import shlex
from collections.abc import Callable, Sequence
from typing import get_args

import msgspec
from msgspec import Struct

from hermes_agent.core.effects import (
    HOLDING,
    ApprovalRequirement,
    Confinement,
    Effect,
    Resolve,
    Unconfined,
    Verdict,
    front_of,
)
from hermes_agent.core.errors import HermesError
from hermes_agent.policy import operations
from hermes_agent.policy.grants import key_of, proposal
from hermes_agent.policy.match import MatchContext
from hermes_agent.policy.operations import KnownFolders, ParsedEffect
from hermes_agent.policy.rewrite import Cannot, rewritten
from hermes_agent.policy.ruleset import Decision, RuleSet

_MAX_REASONS = 3
UNCONFINED = "unconfined"
"""The key of consent for a session to everything that would run confined."""


class Judged(Struct, frozen=True):
    """A verdict and the decisions behind it."""

    verdict: Verdict
    decisions: tuple[Decision, ...] = ()
    command: str | None = None
    """The command as rewritten by a rule."""


class RuleGate:
    """A gate over rules that are looked up for each effect, so that a changed file applies at once.
    `capabilities` are those of the agent; None: no limit."""

    def __init__(
        self,
        rules: Callable[[], RuleSet],
        homes: KnownFolders,
        capabilities: frozenset[str] | None = None,
        unconfined: Unconfined = lambda: None,
    ) -> None:
        self._unconfined = unconfined
        self._rules = rules
        self._homes = homes
        self._capabilities = capabilities

    def outside(self) -> frozenset[str]:
        return self._rules().outside

    async def judge(
        self, effect: Effect, resolve: Resolve, granted: frozenset[str] = frozenset()
    ) -> Verdict:
        return (await self.consider(effect, resolve, granted)).verdict

    async def consider(
        self,
        effect: Effect,
        resolve: Resolve,
        granted: frozenset[str] = frozenset(),
        *,
        whole: bool = False,
    ) -> Judged:
        """As `judge`, with the decision on each operation. `whole` evaluates every rule."""
        try:
            judged = await self._consider(effect, resolve, granted, whole)
            return _with_risks(self._enforceable(judged, effect, granted), effect)
        except HermesError as error:
            return _refused(error.message, "gate")
        except Exception as error:
            import logging

            logging.getLogger(__name__).exception("the gate failed on %s", effect.tool)
            return _refused(f"the gate failed: {type(error).__name__}: {error}", "gate")

    def _enforceable(self, judged: Judged, effect: Effect, granted: frozenset[str]) -> Judged:
        """What would be confined and cannot be asks on this machine, and elsewhere if a rule says
        so."""
        verdict = judged.verdict
        if verdict.confinement == "none":
            return judged
        if effect.terminal_kind == "local":
            why, key = self._unconfined(), UNCONFINED
            must = bool(why)
        else:
            why, key = self._unconfined_there(judged, effect), f"{UNCONFINED}@{effect.terminal}"
            must = False
        if why is None:
            return judged
        changed = msgspec.structs.replace(verdict, confinement="none")
        rule = next((name for one in judged.decisions for name in one.holds), "")
        if (must or rule) and key not in granted:
            reason = f"it would run confined, but {why or 'this machine cannot'}"
            changed = msgspec.structs.replace(
                changed, action="ask", reason=reason, rule=rule or verdict.rule, grants=(key,)
            )
        return msgspec.structs.replace(judged, verdict=changed)

    def _unconfined_there(self, judged: Judged, effect: Effect) -> str | None:
        """Why a terminal elsewhere cannot confine this; None if it can."""
        looks = judged.verdict.confinement == "read-only"
        if why := effect.unconfined if looks else effect.unconfined_workspace:
            return why
        outside = self.outside()
        for one in judged.decisions:
            around = one.by is not None and one.by.confine == "around"
            called = {one.act.program, *one.act.via} & outside
            if called or around:
                name = min(called, default=one.act.program or one.act.text)
                return f"{name} cannot run confined there"
        return None

    async def _consider(
        self, effect: Effect, resolve: Resolve, granted: frozenset[str], whole: bool
    ) -> Judged:
        lacking = sorted(set(effect.capabilities) - (self._capabilities or frozenset()))
        if self._capabilities is not None and lacking:
            return _refused(f"the agent lacks the capability {', '.join(lacking)}", "grant")
        rules = self._rules()
        read = await operations.read(effect, self._homes, resolve)
        facts = MatchContext(effect, read.roots)
        found = self._decided(rules, facts, read, granted, whole=whole)
        changes = [one for one in found if one.action == "rewrite"]
        if not changes or any(one.action == "deny" for one in found):
            verdict = _with_calls(_verdict(effect, read, found), found, rules.outside)
            return _bounded(Judged(verdict, tuple(found)), facts, read)
        try:
            changed = rewritten(
                effect, [(one.act, one.by.rewrite) for one in changes if one.by is not None]
            )
        except Cannot as cannot:
            asking = [_asks_instead(effect, one, str(cannot), granted) for one in found]
            return _bounded(Judged(_verdict(effect, read, asking), tuple(asking)), facts, read)
        read = await operations.read(changed, self._homes, resolve)
        facts = MatchContext(changed, read.roots)
        after = self._decided(rules, facts, read, granted, rewrites=False, whole=whole)
        verdict = _changed_verdict(changed, read, changes, after)
        verdict = _with_calls(verdict, after, rules.outside)
        return _bounded(Judged(verdict, tuple(after), changed.command), facts, read)

    def _decided(
        self, rules: RuleSet, facts: MatchContext, read: ParsedEffect, granted: frozenset[str],
        *, rewrites: bool = True, whole: bool,
    ) -> list[Decision]:  # fmt: skip
        """With the rules that hold only for a command held to read-only, if then it would be."""
        effect = facts.effect

        def decided(*, contained: bool) -> list[Decision]:
            found = [
                rules.decide(
                    facts, act, granted, rewrites=rewrites, contained=contained, whole=whole
                )
                for act in read.acts
            ]
            return _alone(effect, found, granted)

        here = effect.command is not None and effect.terminal_kind == "local"
        if here and not effect.strict and self._unconfined() is None:
            found = decided(contained=True)
            if _is_contained(effect, found, rules.outside):
                return found
        return decided(contained=False)


def _with_risks(judged: Judged, effect: Effect) -> Judged:
    if judged.verdict.action != "ask":
        return judged
    from hermes_agent.policy.risks import risks_of

    changed = effect
    if judged.verdict.input is not None:
        given = judged.verdict.input
        changed = msgspec.structs.replace(effect, input=given, command=judged.command)
    found = risks_of(changed, [one.act for one in judged.decisions])
    verdict = msgspec.structs.replace(judged.verdict, risks=found)
    return msgspec.structs.replace(judged, verdict=verdict)


def _bounded(judged: Judged, facts: MatchContext, read: ParsedEffect) -> Judged:
    """Active skills can only refuse what the rules allow."""
    verdict = judged.verdict
    if not facts.effect.bounds or verdict.action == "deny":
        return judged
    from hermes_agent.policy import skill_limits

    refused = skill_limits.refusal(facts, read.acts)
    if refused is None:
        return judged
    denied = Verdict("deny", refused.reason, refused.rule, audits=verdict.audits, seen=verdict.seen)
    return msgspec.structs.replace(judged, verdict=denied)


def _changed_verdict(
    effect: Effect, read: ParsedEffect, changes: Sequence[Decision], after: Sequence[Decision]
) -> Verdict:
    verdict = _verdict(effect, read, after)
    names = ", ".join(dict.fromkeys(one.rule for one in changes))
    return msgspec.structs.replace(
        verdict,
        input=effect.input,
        reason=f"{verdict.reason} (rewritten by {names})",
        audits=tuple(dict.fromkeys((*verdict.audits, *(n for one in changes for n in one.audits)))),
    )


def _refused(reason: str, rule: str) -> Judged:
    return Judged(Verdict("deny", reason, rule))


def _asks_instead(
    effect: Effect, decision: Decision, why: str, granted: frozenset[str]
) -> Decision:
    """A rewrite that cannot be done becomes a question."""
    if decision.action != "rewrite":
        return decision
    reason = f"{decision.rule} would change {operations.describe(decision.act)}, but {why}"
    return _question(effect, decision, reason, granted)


def _question(effect: Effect, decision: Decision, reason: str, granted: frozenset[str]) -> Decision:
    key = key_of(effect, decision.act, decision.by)
    return msgspec.structs.replace(
        decision,
        action="allow" if key in granted else "ask",
        reason=reason,
        key=key,
        granted=key in granted,
    )


def _verdict(effect: Effect, read: ParsedEffect, decisions: Sequence[Decision]) -> Verdict:
    """The strictest of the decisions; those that ask give their reasons together."""
    audits = tuple(dict.fromkeys(name for one in decisions for name in one.audits))
    denied = next((one for one in decisions if one.action == "deny"), None)
    if denied is not None:
        return Verdict("deny", denied.reason, denied.rule, audits=audits, seen=read.seen)
    asking = [one for one in decisions if one.action not in ("allow", "deny")]
    if not asking:
        # All allow; a program is the most informative.
        programs = [one for one in decisions if one.act.kind == "program"]
        shown = programs[0] if programs else decisions[-1]
        return Verdict(
            "allow", shown.reason, shown.rule, audits=audits, secrets=_secrets(decisions),
            seen=read.seen, confinement=_confinement(effect, decisions),
        )  # fmt: skip
    consent = _consent(asking)
    if consent is None:
        reason = "the rules that ask require different approvers: "
        return Verdict(
            "deny", reason + _reasons(asking), asking[0].rule, audits=audits, seen=read.seen
        )
    return Verdict(
        "ask", _reasons(asking), asking[0].rule, consent,
        audits=audits,
        secrets=_secrets(decisions),
        grants=tuple(dict.fromkeys(one.key for one in asking if one.key)),
        proposal=proposal(effect, [(one.act, one.by) for one in asking]),
        seen=read.seen,
    )  # fmt: skip


def _confinement(effect: Effect, decisions: Sequence[Decision]) -> Confinement:
    """The widest that a rule wants; none where a person or a rule agreed to the effect itself."""
    if effect.command is None:
        return "none"
    wanted: set[str] = {
        "none" if one.granted or one.by is None else one.by.confine
        for one in decisions
        # A shell changes its folder without any program; a call is what its parts are.
        if one.granted or (one.act.kind != "call" and one.act.program != "cd")
    }
    if "alone" in wanted:
        return "none"
    if wanted & {"around", "required"}:
        wanted = wanted - {"around", "required"} | {"read-only"}
    return next((widest for widest in get_args(Confinement) if widest in wanted), "none")


def _is_contained(effect: Effect, decisions: Sequence[Decision], outside: frozenset[str]) -> bool:
    """Whether what is allowed only in a read-only view would be there, and nowhere else."""
    unsure = [one.act for one in decisions if one.by is not None and one.by.confine == "required"]
    if not unsure:
        return True
    programs = frozenset(one.act.program for one in decisions)
    return (
        all(one.action == "allow" for one in decisions)
        and _confinement(effect, decisions) == "read-only"
        and not any(
            operations.is_elsewhere(act)
            # What no program is said to do may be done to any of them.
            or not outside.isdisjoint((act.program, *act.via) if act.program else programs)
            for act in unsure
        )
    )


def _with_calls(
    verdict: Verdict, decisions: Sequence[Decision], outside: frozenset[str]
) -> Verdict:
    if verdict.action != "allow":
        return verdict
    called: set[str] = set()
    for act in (one.act for one in decisions):
        names = outside.intersection((act.program, *act.via))
        called |= names
        # What it says may leave the machine.
        if any(front_of(name, act.arguments) not in HOLDING for name in names):
            called.add(shlex.join((act.program, *act.arguments)))
    understood = not any(one.by and one.by.confine == "required" for one in decisions)
    return msgspec.structs.replace(verdict, understood=understood, outside=frozenset(called))


def _alone(effect: Effect, decisions: list[Decision], granted: frozenset[str]) -> list[Decision]:
    """What runs as it is if the command is nothing else asks where there is more."""
    elsewhere = effect.terminal_kind != "local" and not any(one.holds for one in decisions)
    if effect.command is None or elsewhere:
        return decisions
    programs = [one.act.span for one in decisions if one.act.kind == "program"]
    if programs == [(0, len(effect.command))]:
        return decisions
    return [
        _question(
            effect, one, f"{operations.describe(one.act)} cannot be confined with the rest", granted
        )
        if one.action == "allow" and one.by is not None and one.by.confine == "alone"
        else one
        for one in decisions
    ]


def _reasons(asking: Sequence[Decision]) -> str:
    reasons = list(dict.fromkeys(one.reason for one in asking if not _is_implied(one, asking)))
    more = len(reasons) - _MAX_REASONS
    return "; ".join(reasons[:_MAX_REASONS]) + (f"; and {more} more" if more > 0 else "")


def _is_implied(decision: Decision, asking: Sequence[Decision]) -> bool:
    """Whether a program that asks for the same reason names the path."""
    act, rule = decision.act, decision.by
    return (
        act.kind == "path"
        and rule is not None
        and rule.reason != ""
        and all(place.real in ((), (place.named,)) for place in act.places)
        and any(
            one.act.kind == "program"
            and one.by is not None
            and one.by.reason.startswith(rule.reason)
            and {place.given for place in act.places} <= {place.given for place in one.act.places}
            for one in asking
        )
    )


def _consent(asking: Sequence[Decision]) -> ApprovalRequirement | None:
    """What satisfies all rules that ask; None when nothing could."""
    given = [one.by.consent for one in asking if one.by is not None]
    limited = [consent.by for consent in given if consent.by]
    by = (
        tuple(name for name in limited[0] if all(name in other for other in limited))
        if limited
        else ()
    )
    if limited and not by:
        return None
    times = [consent.seconds for consent in given if consent.seconds is not None]
    return ApprovalRequirement(
        by, max((consent.count for consent in given), default=1), min(times, default=None)
    )


def _secrets(decisions: Sequence[Decision]) -> tuple[str, ...]:
    """Everything a command runs sees its secrets, so every program needs a rule that grants them; a
    call without a command needs one itself."""
    running = [one for one in decisions if one.act.kind in ("program", "unknown")]
    running = running or [one for one in decisions if one.act.kind == "call"]
    names = [one.by.secrets if one.by is not None else () for one in running]
    return (
        tuple(name for name in names[0] if all(name in other for other in names)) if names else ()
    )
