"""Rules written in a test, and what they say to an effect; no disk but the links that are named."""

from collections.abc import Mapping
from textwrap import dedent, indent
from typing import Any

from hermes_agent.core.effects import Effect
from hermes_agent.policy.files.parse import read_file
from hermes_agent.policy.files.schema import PolicyProblem, PolicyRule
from hermes_agent.policy.gate import Judged, RuleGate
from hermes_agent.policy.path_resolvers import by_words, finish
from hermes_agent.policy.ruleset import RuleSet
from hermes_agent.policy.testing import HOMES, WORKSPACE

ALLOW_ALL_CALLS = "- {id: calls, match: {kind: call}, then: allow}"


def file_of(rules: str) -> str:
    """A policy file with these rules."""
    return f"version: 1\nrules:\n{indent(dedent(rules).strip(), '  ')}\n"


def rules_of(rules: str) -> tuple[PolicyRule, ...]:
    file, problems = read_file("mine", "mine.yaml", file_of(rules))
    assert problems == ()
    return file.rules


def problems_of(text: str) -> list[PolicyProblem]:
    return list(read_file("mine", "mine.yaml", dedent(text))[1])


def effect_of(run: str | None = None, **facts: Any) -> Effect:
    given: dict[str, Any] = {
        "id": "e", "tool": "terminal", "input": {}, "session": "s1", "workspace": WORKSPACE,
    }  # fmt: skip
    if run is not None:
        given |= {"command": run, "input": {"command": run}, "capabilities": ("process",)}
    return Effect(**(given | facts))


def judge(
    rules: str,
    effect: Effect,
    *,
    links: Mapping[str, str] | None = None,
    granted: frozenset[str] = frozenset(),
) -> Judged:
    ready = RuleSet(rules_of(rules))
    gate = RuleGate(lambda: ready, HOMES)
    return finish(gate.consider(effect, by_words(WORKSPACE, links or {}), granted))


def action(rules: str, effect: Effect, **more: Any) -> str:
    return judge(rules, effect, **more).verdict.action
