"""Why an effect would be allowed, asked about or refused, operation by operation."""

from typing import Any

from hermes_agent.core.effects import Front, Operation, PathAccess, front_of
from hermes_agent.policy.gate import Judged
from hermes_agent.policy.match import is_unnamed
from hermes_agent.policy.ruleset import ELEVATING, Decision


def report(judged: Judged) -> dict[str, Any]:
    """The verdict and its grounds, as a JSON document."""
    verdict = judged.verdict
    return {
        "verdict": verdict.action,
        "reason": verdict.reason,
        "rule": verdict.rule,
        "confinement": verdict.confinement,
        "outside": sorted(_outside(judged)) if verdict.confinement != "none" else [],
        "fronts": _outside(judged) if verdict.confinement != "none" else {},
        "command": judged.command,
        "audits": list(verdict.audits),
        "secrets": list(verdict.secrets),
        "consent": {
            "by": list(verdict.consent.by),
            "count": verdict.consent.count,
            "seconds": verdict.consent.seconds,
        },
        "acts": [_act(decision) for decision in judged.decisions],
        "proposal": verdict.proposal,
    }


def lines(judged: Judged) -> list[str]:
    """The same as text."""
    verdict = judged.verdict
    found = [f"{verdict.action}: {verdict.reason}", f"decided by {verdict.rule}"]
    if judged.command is not None:
        found.append(f"it would run: {judged.command}")
    if verdict.confinement != "none":
        found.append(f"it would run confined: {verdict.confinement}")
        if outside := _outside(judged):
            found.append(
                f"outside that confinement, checked again when called: {', '.join(outside)}"
            )
            held = (f"{name} by {front}" for name, front in outside.items() if front != "none")
            found.append(f"limited there: {', '.join(held) or 'by the rules alone'}")
    if verdict.secrets:
        found.append(f"it would get these secrets: {', '.join(verdict.secrets)}")
    for decision in judged.decisions:
        act = decision.act
        through = f" (through {' '.join(act.via)})" if act.via else ""
        found += ["", f"{act.kind}: {act.text}{through}"]
        found += [f"  {line}" for line in _places(act)]
        if act.reason:
            found.append(f"  not understood: {act.reason}")
        found += [
            f"  {'>' if rule is decision.by else ' '} {rule.action:<7} {rule.name}"
            for rule in decision.fitting
        ]
        if decision.by is None:
            found.append(f"  > {decision.action:<7} {decision.rule}: {decision.reason}")
    if verdict.proposal:
        found += ["", "a rule that would allow it:", *verdict.proposal.splitlines()]
    return found


def _outside(judged: Judged) -> dict[str, Front]:
    """The programs, and what else holds each: nothing if another one outside runs it."""
    around = (one.act for one in judged.decisions if one.by and one.by.confine == "around")
    programs = [act for act in around if act.kind == "program"]
    others = ELEVATING | {act.program for act in programs}
    fronts: dict[str, Front] = {}
    for act in sorted(programs, key=lambda act: (act.program, not others.isdisjoint(act.via))):
        unheld = not others.isdisjoint(act.via)
        fronts[act.program] = "none" if unheld else front_of(act.program, act.arguments)
    return fronts


def _act(decision: Decision) -> dict[str, Any]:
    act = decision.act
    return {
        "kind": act.kind,
        "text": act.text,
        "program": act.program,
        "verb": act.verb,
        "flags": list(act.flags),
        "options": [list(pair) for pair in act.options],
        "via": list(act.via),
        "paths": [_place(place) for place in act.places],
        "hosts": list(act.hosts),
        "unknown": act.reason,
        "verdict": decision.action,
        "rule": decision.rule,
        "reason": decision.reason,
        "fitting": [
            {"rule": rule.name, "then": rule.action, "where": rule.where}
            for rule in decision.fitting
        ],
    }


def _place(place: PathAccess) -> dict[str, Any]:
    return {
        "access": place.access, "given": place.given, "named": place.named,
        "real": list(place.real),
    }  # fmt: skip


def _places(act: Operation) -> list[str]:
    if act.kind != "path":
        return []
    return [
        f"{place.access} "
        + ("at an unknown place" if is_unnamed(place) else ", ".join(place.real[:3]))
        + (f" and {len(place.real) - 3} more" if len(place.real) > 3 else "")
        for place in act.places
    ]
