import pytest

from hermes_agent.core.effects import Operation
from hermes_agent.policy.files.schema import Rewrite
from hermes_agent.policy.rewrite import Cannot, rewritten
from tests.support.policies import ALLOW_ALL_CALLS, effect_of, judge

DRY = f"""
{ALLOW_ALL_CALLS}
- id: dry
  match: {{program: kubectl, verb: delete, no_flag: --dry-run}}
  then: {{rewrite: {{add: ["--dry-run=client"], remove: ["--force"]}}}}
- {{id: rest, match: {{program: [kubectl, ls]}}, then: allow}}
"""


@pytest.mark.parametrize(
    ("text", "rewrite", "became"),
    [
        ("kubectl delete pod x", Rewrite(("--dry-run",)), "kubectl delete pod x --dry-run"),
        ("kubectl exec p -- ls", Rewrite(("-v",)), "kubectl exec p -v -- ls"),
        ("rm -f 'a b' \"c d\"", Rewrite(("x y",)), "rm -f 'a b' \"c d\" 'x y'"),
        ("rm --force a --force", Rewrite((), ("--force",)), "rm a"),
        ("rm '--force' a", Rewrite((), ("--force",)), "rm a"),
        ("rm -- --force", Rewrite((), ("--force",)), "rm -- --force"),
        ("rm --grace=0 a", Rewrite(("-i",), ("--grace=*",)), "rm a -i"),
        ("rm a\\ b *.txt", Rewrite(("-i",)), "rm a\\ b *.txt -i"),
    ],
)
def test_the_words_of_a_program_are_changed_and_the_others_stay(
    text: str, rewrite: Rewrite, became: str
) -> None:
    effect = effect_of(f"ls; {text}; ls")
    act = Operation("program", text, program=text.partition(" ")[0], span=(4, 4 + len(text)))
    changed = rewritten(effect, [(act, rewrite)])
    assert changed.command == f"ls; {became}; ls"
    assert changed.input == {"command": f"ls; {became}; ls"}


@pytest.mark.parametrize(
    "text", ["rm $X", "rm `x`", 'rm "$X"', "rm a > b", "rm a # b", "rm $(x)", "rm 'a", "  "]
)
def test_words_that_are_more_than_plain_text_are_not_changed(text: str) -> None:
    act = Operation("program", text, program="rm", span=(0, len(text)))
    with pytest.raises(Cannot):
        rewritten(effect_of(text), [(act, Rewrite(("-i",)))])


def test_two_programs_of_one_command_are_both_changed() -> None:
    judged = judge(DRY, effect_of("kubectl delete pod a && kubectl delete pod b --force"))
    assert judged.command == (
        "kubectl delete pod a --dry-run=client && kubectl delete pod b --dry-run=client"
    )
    assert judged.verdict.action == "allow"
    assert judged.verdict.input == {"command": judged.command}
    assert "rewritten by mine/dry" in judged.verdict.reason


def test_what_was_rewritten_is_judged_again() -> None:
    rules = DRY.replace("[kubectl, ls]", "[ls]")
    verdict = judge(rules, effect_of("kubectl delete pod a")).verdict
    assert verdict.action == "ask"
    assert verdict.input == {"command": "kubectl delete pod a --dry-run=client"}
    denying = f"{DRY}- {{id: no, match: {{flag: --dry-run}}, then: deny}}"
    assert judge(denying, effect_of("kubectl delete pod a")).verdict.action == "deny"


def test_a_deny_goes_before_a_rewrite() -> None:
    rules = f"{DRY}- {{id: no, match: {{program: kubectl, verb: delete}}, then: deny}}"
    verdict = judge(rules, effect_of("kubectl delete pod a")).verdict
    assert (verdict.action, verdict.input) == ("deny", None)


def test_a_program_that_does_not_stand_in_the_text_asks_instead() -> None:
    verdict = judge(DRY, effect_of("sudo sh -c 'kubectl delete pod a'")).verdict
    assert verdict.action == "ask"
    assert verdict.input is None
    assert "mine/dry would change" in verdict.reason


def test_arguments_of_a_tool_are_set() -> None:
    rules = """
    - {id: short, match: {tool: fetch}, then: {rewrite: {set: {timeout: 30}}}}
    - {id: rest, match: {tool: fetch}, then: allow}
    """
    effect = effect_of(tool="fetch", input={"url": "x", "timeout": 900})
    verdict = judge(rules, effect).verdict
    assert (verdict.action, verdict.input) == ("allow", {"url": "x", "timeout": 30})


def test_an_argument_that_was_judged_is_not_replaced() -> None:
    rules = """
    - {id: other, match: {tool: write_file}, then: {rewrite: {set: {path: /etc/passwd}}}}
    - {id: rest, match: {tool: write_file}, then: allow}
    """
    effect = effect_of(tool="write_file", input={"path": "a"}, paths=(("write", "a"),))
    verdict = judge(rules, effect).verdict
    assert (verdict.action, verdict.input) == ("ask", None)
    assert "cannot be set" in verdict.reason
