"""Whatever skills declare: bounds only ever refuse, and the gate always answers."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hermes_agent.core.effects import Effect, Verdict
from hermes_agent.core.skills import SkillLimits
from hermes_agent.policy.gate import RuleGate
from hermes_agent.policy.path_resolvers import by_words, finish
from hermes_agent.policy.ruleset import RuleSet
from hermes_agent.policy.testing import HOMES, WORKSPACE
from tests.support.policies import rules_of

QUICK = settings(max_examples=150, deadline=None, database=None)

READY = RuleSet(
    rules_of("""
    - {id: calls, match: {kind: call}, then: allow}
    - {id: no, match: {program: rm}, then: deny}
    - {id: odd, match: {program: curl}, then: {rewrite: {add: [--silent]}}}
    - {id: programs, match: {kind: [program, host], program: "*"}, then: allow}
    - {id: inside, match: {inside: workspace}, then: allow}
    - {id: whatever, match: {kind: unknown, unknown: true}, then: allow}
    """)
)

words = st.text(max_size=20)
commands = words | st.sampled_from(
    ["ls", "git status", "git push", "rm -rf x", "curl https://a.org", "cat docs/a", "cat /etc/x",
     "sh -c 'git log'", "sudo ls", "echo x > docs/y", "python3 x.py", "ssh web1 ls", "cat $X",
     "find . -exec git add {} ;", "cd docs && git log", "kubectl get pods"]
)  # fmt: skip
tools = words | st.sampled_from(
    ["terminal", "*", "read_file", "terminal(git:*)", "terminal(*)", "terminal(", "terminal(ls)"]
)
paths = words | st.sampled_from(["docs/**", "**", "/etc/*", "~/x", "[", "../x", "{workspace}/**"])
hosts = words | st.sampled_from(["a.org", "*", "*.org", "10.0.0.0/8", "https://a.org", "private"])


def tuples(of: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(of, max_size=3).map(tuple)


bounds = st.builds(
    SkillLimits, skill=words, tools=tuples(tools), paths=tuples(paths), hosts=tuples(hosts)
)
effects = st.builds(
    Effect,
    id=st.just("e"),
    tool=words | st.sampled_from(["terminal", "read_file", "process", "todo"]),
    input=st.dictionaries(words, words, max_size=2),
    session=st.just("s"),
    workspace=st.just(WORKSPACE),
    command=st.none() | commands,
    paths=st.lists(st.tuples(st.sampled_from(["read", "write", "delete"]), paths), max_size=2).map(
        tuple
    ),
    hosts=tuples(hosts),
    origin=st.sampled_from(["builtin", "program", "mcp", "written"]),
    terminal_kind=st.sampled_from(["local", "ssh"]),
)


def verdict_of(effect: Effect) -> Verdict:
    gate = RuleGate(lambda: READY, HOMES)
    return finish(gate.judge(effect, by_words(WORKSPACE, {"docs/link": "/etc"})))


@QUICK
@given(effects, st.lists(bounds, max_size=3))
def test_bounds_leave_a_verdict_as_it_is_or_refuse(
    effect: Effect, active: list[SkillLimits]
) -> None:
    free = verdict_of(effect)
    bounded = verdict_of(replace(effect, bounds=tuple(active)))
    if bounded != free:
        assert free.action != "deny"
        assert bounded.action == "deny"
        assert bounded.rule in {f"skill/{one.skill}" for one in active}
        assert not bounded.grants
        assert not bounded.secrets


@QUICK
@given(effects, st.lists(bounds, min_size=1, max_size=3))
def test_one_more_skill_never_allows_more(effect: Effect, active: list[SkillLimits]) -> None:
    fewer = verdict_of(replace(effect, bounds=tuple(active[1:])))
    more = verdict_of(replace(effect, bounds=tuple(active)))
    if fewer.action == "deny":
        assert more.action == "deny"


@QUICK
@given(effects, bounds)
def test_any_bounds_get_a_verdict(effect: Effect, one: SkillLimits) -> None:
    verdict = verdict_of(replace(effect, bounds=(one,)))
    assert verdict.rule != "gate"
    assert verdict.reason
