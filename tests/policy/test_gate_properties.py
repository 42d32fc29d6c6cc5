"""Whatever comes in, the gate answers, and nothing is allowed by a mistake."""

from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_agent.core.effects import Actor, Effect
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.files.parse import read_file
from hermes_agent.policy.gate import RuleGate
from hermes_agent.policy.operations import KnownFolders, recorded
from hermes_agent.policy.path_resolvers import finish
from hermes_agent.policy.ruleset import RuleSet
from tests.support.policies import file_of, rules_of

HOMES = KnownFolders("/home/u", "/home/u/.hermes")
QUICK = settings(
    max_examples=100,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

words = st.text(max_size=30) | st.sampled_from(
    ["/", "..", "~", "~/x", "*", "a/../b", "{workspace}", "rm -rf /", "$X", "localhost", "\udc80"]
)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
effects = st.builds(
    Effect,
    id=words,
    tool=words | st.sampled_from(["terminal", "read_file"]),
    input=st.dictionaries(words, json, max_size=3),
    session=words,
    workspace=st.sampled_from(["/w", "/", "", "relative", "/w/../x", "/\udc80"]),
    folder=st.sampled_from(["", "/w/sub", "x"]),
    terminal=words,
    terminal_kind=st.sampled_from(["local", "sandbox", "ssh", "odd"]),
    capabilities=st.lists(words, max_size=2).map(tuple),
    command=st.none() | words,
    paths=st.lists(st.tuples(st.sampled_from(["read", "write", "delete"]), words), max_size=3).map(
        tuple
    ),
    hosts=st.lists(words, max_size=2).map(tuple),
    origin=st.sampled_from(["builtin", "program", "mcp", "written"]),
    actor=st.builds(Actor, name=words, source=words),
    time=st.floats(0, 4e9),
)

MANY = """
- {id: a, match: {tool: t*, path: ["src/**", "{home}/x", "**/y"]}, then: allow}
- {id: b, match: {host: [private, "*.org", 10.0.0.0/8]}, then: ask}
- {id: c, match: {program: rm, flag: -r}, then: {ask: {count: 2}}, exact: true}
- {id: d, match: {time: {hours: "22:00-06:00", zone: Europe/Berlin}}, then: audit}
- {id: e, match: {tool: "*"}, when: 'effect.input.size() > 2 && act.text.contains("x")', then: deny}
- {id: f, match: {program: "*"}, then: {rewrite: {add: [--x], set: {y: 1}}}}
- {id: g, match: {inside: workspace, access: read}, then: allow}
- {id: h, match: {holds: "{hermes}"}, then: deny}
"""
RULES = rules_of(MANY)
READY = RuleSet(RULES)
NOT_ALLOWING = RuleSet(rule for rule in RULES if rule.action != "allow")
NO = rules_of("- {id: no, match: {origin: builtin}, then: deny}")


@QUICK
@given(effects)
def test_any_effect_gets_a_verdict(effect: Effect) -> None:
    verdict = finish(RuleGate(lambda: READY, HOMES).judge(effect, recorded(())))
    assert verdict.action in ("allow", "ask", "deny")
    assert verdict.reason
    assert not verdict.reason.startswith("the gate failed")


@QUICK
@given(effects)
def test_without_a_rule_that_allows_nothing_is_allowed(effect: Effect) -> None:
    assert (
        finish(RuleGate(lambda: NOT_ALLOWING, HOMES).judge(effect, recorded(()))).action != "allow"
    )


@QUICK
@given(effects, st.permutations(RULES))
def test_a_deny_holds_in_whatever_order_the_rules_stand(effect: Effect, order: list[Any]) -> None:
    def verdict(rules: Any) -> str:
        ready = RuleSet([*rules, *NO])
        return finish(RuleGate(lambda: ready, HOMES).judge(effect, recorded(()))).action

    if effect.origin == "builtin":
        assert verdict(order) == "deny"
        assert verdict(reversed(order)) == "deny"


@QUICK
@given(effects)
def test_consent_for_the_session_never_changes_a_deny(effect: Effect) -> None:
    gate = RuleGate(lambda: READY, HOMES)
    before = finish(gate.judge(effect, recorded(())))
    after = finish(gate.judge(effect, recorded(()), frozenset(before.grants)))
    assert after.action == ("deny" if before.action == "deny" else "allow")


@QUICK
@given(st.text() | st.text(alphabet="[]{}:,-&*!|>'\"%@`#? \n\tab1~", max_size=200))
def test_any_text_as_a_file_is_told_wrong(text: str) -> None:
    _file, problems = read_file("x", "x.yaml", text)
    assert problems
    assert all(problem.line >= 1 and problem.column >= 1 for problem in problems)


@QUICK
@given(st.text(max_size=60), effects)
def test_a_file_that_was_damaged_denies_or_is_a_file_still(
    tmp_path: Path, noise: str, effect: Effect
) -> None:
    folder = tmp_path / "policies"
    folder.mkdir(exist_ok=True)
    text = file_of("- {id: ls, match: {program: ls}, then: ask}") + noise
    (folder / "mine.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    policies = Policies.of_home(tmp_path, Path("/home/u"))
    problems = policies.load().problems
    verdict = finish(policies.gate("careful").judge(effect, recorded(())))
    if problems:
        assert verdict.action == "deny"
        assert f"{problems[0].path}:{problems[0].line}:" in verdict.reason


@QUICK
@given(st.recursive(words, lambda inner: st.lists(inner, max_size=3)
       | st.dictionaries(st.sampled_from(["id", "match", "then", "when", "tool", "path", "time",
       "ask", "rewrite", "set", "input", "host", "rules", "version", "tests", "run"]), inner,
       max_size=4), max_leaves=12))  # fmt: skip
def test_any_shape_of_yaml_is_told_wrong(shape: Any) -> None:
    text = yaml.safe_dump({"version": 1, "rules": [shape], "tests": [shape]}, allow_unicode=True)
    _file, problems = read_file("x", "x.yaml", text)
    assert problems
