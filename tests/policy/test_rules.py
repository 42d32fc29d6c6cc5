import logging
from pathlib import Path

import pytest

from hermes_agent.core.protocols import Effect, Verdict
from hermes_agent.policy.profiles import open_gate
from hermes_agent.policy.rules import Rule, strictest

EFFECT = Effect("e", "some_tool", {}, "s", "/nowhere")


def says(action: str, reason: str = "because") -> Rule:
    verdicts = {
        "allow": Verdict("allow", reason),
        "ask": Verdict("ask", reason),
        "deny": Verdict("deny", reason),
    }
    return lambda _effect: verdicts.get(action)


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        (("allow",), "allow"),
        (("allow", "ask"), "ask"),
        (("ask", "allow"), "ask"),
        (("allow", "deny", "ask"), "deny"),
        (("nothing", "allow"), "allow"),
        (("nothing",), "ask"),
        ((), "ask"),
    ],
)
def test_the_strictest_verdict_counts(rules: tuple[str, ...], action: str) -> None:
    assert strictest(*(says(rule) for rule in rules)).judge(EFFECT).action == action


def test_the_first_of_equal_verdicts_gives_the_reason() -> None:
    gate = strictest(says("ask", "first"), says("ask", "second"))
    assert gate.judge(EFFECT).reason == "first"


def test_what_no_rule_covers_asks_and_says_so() -> None:
    verdict = strictest().judge(EFFECT)
    assert verdict == Verdict("ask", "no rule covers some_tool", "default")


def test_a_rule_that_raises_refuses_and_is_seen_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(effect: Effect) -> Verdict | None:
        raise KeyError(effect.tool)

    with caplog.at_level(logging.ERROR):
        verdict = strictest(says("allow"), broken).judge(EFFECT)
    assert (verdict.action, verdict.rule) == ("deny", "broken")
    assert "some_tool" in verdict.reason
    assert "broken failed" in caplog.text


def test_a_path_that_is_none_refuses(tmp_path: Path) -> None:
    effect = Effect("e", "read_file", {}, "s", str(tmp_path), ("filesystem",), (("read", "a\0b"),))
    assert open_gate("sandbox", home=tmp_path / "home").judge(effect).action == "deny"
