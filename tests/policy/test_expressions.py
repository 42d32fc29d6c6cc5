import subprocess
import sys

import pytest

from hermes_agent.core.effects import Actor
from hermes_agent.policy.patterns.expressions import NAMES, trouble
from tests.support.policies import ALLOW_ALL_CALLS, effect_of, judge


def when(expression: str, run: str = "kubectl delete pod a --force", **facts: object) -> str:
    rules = f"""
    - id: first
      match: {{kind: program}}
      when: {expression}
      then: deny
    {ALLOW_ALL_CALLS}
    - {{id: rest, match: {{kind: [program, path, host]}}, then: allow}}
    """
    verdict = judge(rules, effect_of(run, **facts)).verdict
    return f"{verdict.action} {verdict.rule}"


@pytest.mark.parametrize(
    "expression",
    [
        'effect.tool == "terminal"',
        'effect.input.command.startsWith("kubectl")',
        'effect.session == "s1" && effect.workspace == "/workspace"',
        'effect.folder == "/workspace"',
        'effect.terminal == "prod" && effect.place == "ssh"',
        'effect.actor == "job/nightly" && effect.source == "cron"',
        'effect.origin == "builtin"',
        'act.kind == "program" && act.program == "kubectl" && act.verb == "delete"',
        'act.arguments.exists(word, word == "pod")',
        '"--force" in act.flags',
        "size(act.via) == 0 && size(act.hosts) == 0 && size(act.paths) == 0",
        'act.text.matches("delete +pod")',
        "now.hour == 23 && now.weekday == 3",
        'now.timestamp < timestamp("1970-01-02T00:00:00Z")',
        'now.timestamp.getHours("Asia/Tokyo") == 8',
        "!has(effect.input.timeout) || effect.input.timeout > 30",
    ],
)
def test_an_expression_sees_the_effect_the_act_and_the_time(expression: str) -> None:
    facts = {
        "terminal": "prod", "terminal_kind": "ssh", "time": 23 * 3600.0,
        "actor": Actor("job", "nightly", "cron"),
    }  # fmt: skip
    assert when(f"'{expression}'", **facts) == "deny mine/first"


def test_an_expression_sees_where_paths_lead() -> None:
    expression = 'act.paths.exists(p, p.access == "read" && p.real == "/workspace/a")'
    assert when(f"'{expression}'", "cat a") == "deny mine/first"
    assert when(f"'{expression}'", "cat b").startswith("allow")


def test_an_expression_that_is_false_lets_the_next_rule_decide() -> None:
    assert when("'act.program == \"helm\"'") == "allow mine/rest"


@pytest.mark.parametrize(
    "expression",
    [
        "'effect.input.missing == 1'",
        "'1 / size(act.via) == 1'",
        "'act.text.matches(\"[\" + act.program)'",
    ],
)
def test_an_expression_without_an_answer_denies(expression: str) -> None:
    assert when(expression) == "deny mine/first"


def test_an_expression_that_never_ends_is_cut_off_and_denies() -> None:
    many = "effect.input.l.all(a, effect.input.l.all(b, effect.input.l.all(c, a + b + c >= 0)))"
    assert when(f"'{many}'", input={"command": "x", "l": list(range(300))}) == "deny mine/first"


@pytest.mark.parametrize(
    "value", ["\udc80", 2**70, float("nan"), [[1], {"a": (1, 2)}], {"a": {1: 2}}, b"x", object()]
)
def test_strange_arguments_do_not_break_an_expression(value: object) -> None:
    found = when("'\"x\" in effect.input'", input={"command": "x", "x": value})
    assert found.startswith("deny")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_known_and_a_mistyped_one_is_not(name: str) -> None:
    assert trouble(f"{name} == {name}") is None
    assert "undeclared" in str(trouble(f"{name}x == {name}x"))


def test_rules_without_expressions_do_not_import_the_library() -> None:
    program = """
import sys
from tests.support.policies import action, effect_of
assert action("- {id: a, match: {kind: [call, program]}, then: allow}", effect_of("ls")) == "allow"
print("cel_expr_python" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
