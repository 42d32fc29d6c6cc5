"""The rules in force, and their decision on one operation."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from hermes_agent.core.effects import DEFAULT, Operation
from hermes_agent.policy.files.schema import PolicyRule, RuleAction
from hermes_agent.policy.grants import key_of
from hermes_agent.policy.match import (
    EffectTest,
    MatchContext,
    Test,
    act_tests,
    could_fit,
    effect_tests,
)
from hermes_agent.policy.operations import describe
from hermes_agent.policy.patterns import expressions

_MAX_INDEXED = 4096
ELEVATING = frozenset({"sudo", "doas", "su", "runuser", "nsenter"})
"""Wrappers that work only outside of a view."""


class Decision(Struct, frozen=True):
    """The decision on one operation, and why."""

    act: Operation
    action: RuleAction
    reason: str
    rule: str = DEFAULT
    by: PolicyRule | None = None
    """The rule that decided; None where none did or one failed."""
    key: str = ""
    """The key of consent for the session, where it asks."""
    granted: bool = False
    """It asked, and consent had been given."""
    audits: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    """Rules that want what would be confined to be confined indeed."""
    fitting: tuple[PolicyRule, ...] = ()
    """All rules that fit, in their order."""


class _Ready(Struct, frozen=True):
    rule: PolicyRule
    name: str
    effect_tests: tuple[EffectTest, ...]
    act_tests: tuple[Test, ...]


class RuleSet:
    """Rules in order. The first that matches decides; a deny wins wherever it stands. `otherwise`
    applies where none matches."""

    def __init__(
        self, rules: Iterable[PolicyRule], otherwise: Literal["ask", "deny"] = "ask"
    ) -> None:
        self.rules = tuple(rules)
        self._otherwise: Literal["ask", "deny"] = otherwise
        self._ready = tuple(
            (
                could_fit(rule),
                _Ready(rule, rule.name, effect_tests(rule.match), act_tests(rule)),
            )
            for rule in self.rules
        )
        self._index: dict[tuple[str, str, str], tuple[_Ready, ...]] = {}

    @cached_property
    def outside(self) -> frozenset[str]:
        """The names of programs that run outside of the view in which the rest only looks."""
        around = [rule.match for rule in self.rules if rule.confine == "around"]
        named = {name for match in around for name in match.program or ()}
        texts = {text for match in around if match.program is None for text in match.text or ()}
        found = named | {text.partition(" ")[0] for text in texts}
        return frozenset(found | ELEVATING) if found else frozenset()

    def decide(
        self,
        facts: MatchContext,
        act: Operation,
        granted: frozenset[str] = frozenset(),
        *,
        rewrites: bool = True,
        contained: bool = False,
        whole: bool = False,
    ) -> Decision:
        """`contained`: the command would be held to read-only. `whole` evaluates every rule, to
        show all that match."""
        chosen: PolicyRule | None = None
        denied: PolicyRule | None = None
        noted: dict[str, list[str]] = {"audit": [], "confine": []}
        fitting: list[PolicyRule] = []
        names: dict[str, Any] = {}
        for ready in self._candidates(act.kind, facts.effect.tool, act.program):
            rule = ready.rule
            settled = chosen is not None and rule.action not in ("deny", *noted)
            if (settled and not whole) or (rule.action == "rewrite" and not rewrites):
                continue
            if rule.confine == "required" and not contained:
                continue
            try:
                if not _fits(ready, facts, act, names):
                    continue
            except expressions.ExpressionFailed as failed:
                if settled:
                    continue  # it would not have been evaluated
                reason = f"the rule {rule.name} failed ({rule.where}): {failed}"
                return Decision(act, "deny", reason, rule.name, fitting=(*fitting, rule))
            fitting.append(rule)
            if rule.action in noted:
                noted[rule.action].append(rule.name)
            elif rule.action == "deny":
                denied = denied or rule
            else:
                chosen = chosen or rule
        grounds = tuple(noted["audit"]), tuple(noted["confine"]), tuple(fitting)
        return _decision(facts, act, denied or chosen, self._otherwise, granted, grounds)

    def _candidates(self, kind: str, tool: str, program: str) -> tuple[_Ready, ...]:
        where = (kind, tool, program)
        found = self._index.get(where)
        if found is None:
            if len(self._index) >= _MAX_INDEXED:
                self._index.clear()
            found = tuple(ready for could, ready in self._ready if could(*where))
            self._index[where] = found
        return found


def _fits(ready: _Ready, facts: MatchContext, act: Operation, names: dict[str, Any]) -> bool:
    if ready.effect_tests:
        held = facts.held.get(ready.name)
        if held is None:
            held = facts.held[ready.name] = all(test(facts) for test in ready.effect_tests)
        if not held:
            return False
    for test in ready.act_tests:
        if not test(facts, act):
            return False
    if not ready.rule.when:
        return True
    if not names:
        names.update(expressions.names_for(facts, act))
    return expressions.holds(ready.rule.when, names)


def _decision(
    facts: MatchContext,
    act: Operation,
    rule: PolicyRule | None,
    otherwise: Literal["ask", "deny"],
    granted: frozenset[str],
    grounds: tuple[tuple[str, ...], tuple[str, ...], tuple[PolicyRule, ...]],
) -> Decision:
    action: RuleAction = rule.action if rule is not None else otherwise
    name = rule.name if rule is not None else DEFAULT
    key = ""
    if action == "ask":
        key = key_of(facts.effect, act, rule)
        if key in granted:
            reason = "it was allowed for this session"
            return Decision(act, "allow", reason, name, rule, key, True, *grounds)
    return Decision(act, action, _reason(act, rule), name, rule, key, False, *grounds)


def _reason(act: Operation, rule: PolicyRule | None) -> str:
    if rule is None:
        why = f": {act.reason}" if act.reason else ""
        return f"no rule covers {describe(act)}{why}"
    if rule.action == "allow":
        return rule.reason or f"{rule.name} allows it"
    why = rule.reason or f"{rule.name} says {rule.action}"
    return f"{why}: {describe(act)}"
