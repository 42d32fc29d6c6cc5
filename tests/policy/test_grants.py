import pytest

from hermes_agent.core.effects import Effect
from hermes_agent.core.errors import HermesError
from hermes_agent.core.text.consent import rule_words
from hermes_agent.policy.files.parse import read_file
from hermes_agent.policy.grants import appended
from tests.support.policies import ALLOW_ALL_CALLS, action, effect_of, judge

RULES = f"""
{ALLOW_ALL_CALLS.replace("kind: call", "kind: call, tool: [terminal, write_file]")}
- {{id: restarts, match: {{program: kubectl, verb: rollout restart}}, then: ask}}
- {{id: deleting, match: {{program: rm}}, then: ask, exact: true}}
- {{id: reads, match: {{access: [read, delete]}}, then: allow}}
- {{id: never, match: {{program: mkfs}}, then: deny}}
"""


def act_of(action: object, *hosts: str, tool: str = "browser_act", **more: object) -> Effect:
    return effect_of(tool=tool, input={"action": action, **more}, hosts=hosts)


def sends(target: str, **more: object) -> Effect:
    given = {"target": target, **more}
    return effect_of(tool="send_message", input=given, parameters=("text", "target", "bcc"))


WRITES = effect_of(tool="write_file", input={"path": "a"}, paths=(("write", "a"),))


def grants(effect: Effect, **more: object) -> frozenset[str]:
    verdict = judge(RULES, effect, **more).verdict  # type: ignore[arg-type]
    assert verdict.action == "ask"
    return frozenset(verdict.grants)


@pytest.mark.parametrize(
    ("given", "covered", "others"),
    [
        (effect_of("kubectl rollout restart x"), [effect_of("kubectl rollout restart y --now")],
         [effect_of("kubectl delete y"), effect_of("sudo kubectl rollout restart x"),
          effect_of("kubectl rollout restart x", terminal="prod")]),
        (effect_of("rm a"), [effect_of("rm a")], [effect_of("rm b"), effect_of("rm -f a")]),
        (effect_of("bash a.sh"), [effect_of("bash a.sh")],
         [effect_of("bash b.sh"), effect_of("bash -c 'kubectl x'")]),
        (effect_of("./a"), [effect_of("./a")], [effect_of("./a b")]),
        (effect_of("$X a"), [effect_of("$X a")],
         [effect_of("$X b"), effect_of("$Y a"), effect_of("true; $X a")]),
        (WRITES, [WRITES], [effect_of(tool="write_file", paths=(("write", "b"),))]),
        (effect_of(tool="fetch", hosts=("a.org",)), [effect_of(tool="fetch", hosts=("a.org",))],
         [effect_of(tool="fetch", hosts=("b.org",)), effect_of(tool="other", hosts=("a.org",))]),
        (act_of("click", "a.org", ref="e1"), [act_of("click", "a.org", ref="e2")],
         [act_of("evaluate", "a.org"), act_of("click", "b.org"), act_of("click"),
          act_of("click", "a.org", "b.org"), act_of("click on a.org"),
          effect_of(tool="browser_act", hosts=("a.org",))]),
        (sends("telegram:1", text="a"), [sends("telegram:1", text="b")],
         [sends("telegram:2"), sends("telegram:1", bcc=["x"]), sends("all")]),
        (act_of({"do": "a"}), [act_of({"do": "a"})], [act_of({"do": "b"})]),
        (act_of("click", ""), [act_of("click", "")], [act_of("click", "", ref="e1")]),
    ],
)  # fmt: skip
def test_consent_for_the_session_covers_the_like_and_nothing_else(
    given: Effect, covered: list[Effect], others: list[Effect]
) -> None:
    granted = grants(given)
    assert [action(RULES, effect, granted=granted) for effect in covered] == ["allow"]
    assert {action(RULES, effect, granted=granted) for effect in others} == {"ask"}


def test_consent_for_a_path_does_not_follow_it_elsewhere() -> None:
    granted = grants(WRITES)
    assert action(RULES, WRITES, granted=granted, links={"a": "/etc/passwd"}) == "ask"


def test_consent_to_delete_is_none_to_read_or_to_follow_a_link() -> None:
    rules = RULES.replace(
        "- {id: reads, match: {access: [read, delete]}, then: allow}",
        "- {id: deletes, match: {access: delete}, then: ask, exact: true}\n"
        "- {id: secrets, match: {access: read, path: a}, then: ask}",
    )
    asked = judge(rules, effect_of("rm a")).verdict
    lasting = f"{asked.proposal}\n{rules}"
    assert action(lasting, effect_of("rm a")) == "allow"
    assert action(lasting, effect_of("cat a")) == "ask"
    assert action(lasting, effect_of("rm a"), links={"a": "/etc/passwd"}) == "ask"
    granted = frozenset(asked.grants)
    assert action(rules, effect_of("rm a"), granted=granted) == "allow"
    assert action(rules, effect_of("rm a"), granted=granted, links={"a": "/etc/x"}) == "ask"


def test_consent_does_not_override_a_deny() -> None:
    granted = grants(effect_of("rm a"))
    assert action(RULES, effect_of("rm a; mkfs x"), granted=granted) == "deny"


@pytest.mark.parametrize(
    "effect",
    [
        effect_of("kubectl rollout restart x"),
        effect_of("sudo kubectl rollout restart x"),
        effect_of("rm 'a*b[c]'"),
        effect_of("$X \"quoted\" 'words' # ünïcode"),
        effect_of("other -x; more"),
        effect_of("kubectl rollout restart x", terminal="prod*"),
        WRITES,
        effect_of(tool="write_file", paths=(("write", "/tmp/[x]*{y}"),)),
        effect_of(tool="fetch", hosts=("a.org", "b.org")),
        effect_of(tool="odd {tool}*"),
        act_of("click", "a.org", "10.0.0.1", "[::1]", "Ä.org."),
        act_of("odd {action}*", "public"),
        act_of({"do": ["a"]}),
        act_of("click", ""),
        sends("telegram:1"),
    ],
)  # fmt: skip
def test_the_proposed_rule_allows_what_was_asked_and_is_in_order(effect: Effect) -> None:
    proposal = judge(RULES, effect).verdict.proposal
    file, problems = read_file("new", "new.yaml", appended("", proposal))
    assert problems == ()
    assert file.rules
    assert action(proposal + RULES, effect) == "allow"


def test_the_proposed_rule_is_as_narrow_as_the_grant() -> None:
    proposal = judge(RULES, effect_of("rm a")).verdict.proposal + RULES
    for other in ("rm b", "sudo rm a", "kubectl rollout restart x"):
        assert action(proposal, effect_of(other)) == "ask"
    assert action(proposal, effect_of("rm a", terminal="prod")) == "ask"
    program = judge(RULES, effect_of("kubectl rollout restart x")).verdict.proposal + RULES
    assert action(program, effect_of("kubectl rollout restart y")) == "allow"
    assert action(program, effect_of("kubectl delete y")) == "ask"
    assert action(program, effect_of("sudo kubectl rollout restart y")) == "ask"
    assert action(program, effect_of("mkfs x")) == "deny"


def test_the_proposed_rule_for_a_tool_holds_its_action_and_its_hosts() -> None:
    """The hosts are allowed, so that the rule for the call alone decides."""
    rules = f"{RULES}\n- {{id: hosts, match: {{kind: host}}, then: allow}}"
    proposal = judge(rules, act_of("click", "a.org")).verdict.proposal + rules
    assert action(proposal, act_of("click", "a.org", ref="e2")) == "allow"
    for other in (
        act_of("evaluate", "a.org"), act_of("click", "b.org"), act_of("click", "a.org", "b.org"),
        act_of("click", "a.org", tool="other"),
    ):  # fmt: skip
        assert action(proposal, other) == "ask"


def test_the_proposed_rule_for_a_message_names_whom_it_reaches() -> None:
    proposal = judge(RULES, sends("telegram:1", text="a")).verdict.proposal
    assert action(proposal + RULES, sends("telegram:1", text="b")) == "allow"
    for other in (sends("telegram:2"), sends("all"), sends("telegram:1", bcc=["x"])):
        assert action(proposal + RULES, other) == "ask"
    ((words, _),) = rule_words(proposal)
    assert words == "any call of send_message without bcc with the target telegram:1"


def test_a_host_that_is_called_like_a_word_for_many_is_allowed_alone() -> None:
    proposal = judge(RULES, act_of("click", "public")).verdict.proposal + RULES
    assert action(proposal, act_of("click", "public")) == "allow"
    assert action(proposal, act_of("click", "a.org")) == "ask"


def test_a_host_that_is_none_has_no_proposal() -> None:
    assert judge(RULES, act_of("click", "a/b")).verdict.proposal == ""


@pytest.mark.parametrize(
    ("command", "others"),
    [
        ("ssh web-1 uptime", ["ssh web-2 uptime", "ssh web-1 reboot", "ssh web-1 uptime -p"]),
        ("docker run alpine ls", ["docker run alpine sh", "docker run -v /:/x alpine ls"]),
        ("kubectl exec pod -- rm /x", ["kubectl exec pod -- rm /y", "rm /x"]),
    ],
)
def test_the_proposed_rule_for_what_runs_elsewhere_is_for_the_very_command(
    command: str, others: list[str]
) -> None:
    rules = ALLOW_ALL_CALLS + "\n"
    proposal = judge(rules, effect_of(command)).verdict.proposal
    assert action(proposal + rules, effect_of(command)) == "allow"
    assert {action(proposal + rules, effect_of(other)) for other in others} == {"ask"}


def test_a_path_with_signs_of_the_shell_has_a_proposal_in_order() -> None:
    effect = effect_of(tool="write_file", paths=(("write", "/tmp/$x/{a,b}"),))
    proposal = judge(RULES, effect).verdict.proposal
    assert action(proposal + RULES, effect) == "allow"


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x80", "\x7f", "\uffff"])
def test_a_sign_that_yaml_reads_otherwise_is_kept(sign: str) -> None:
    effect = effect_of(f"rm 'a{sign}b'")
    rules = appended("", judge(RULES, effect).verdict.proposal).partition("rules:\n")[2] + RULES
    assert action(rules, effect) == "allow"
    assert action(rules, effect_of("rm 'a b'")) == "ask"


def test_a_text_that_yaml_cannot_hold_has_no_proposal() -> None:
    assert judge(RULES, effect_of("$X \udc80")).verdict.proposal == ""


def test_a_rule_is_put_at_the_end_of_a_file_as_the_others_stand() -> None:
    before = "version: 1\ntests:\n- {run: ls, expect: ask}\nrules:\n    - id: a\n      then: ask\n"
    after = appended(before, "- id: b\n  then: ask\n")
    assert after == f"{before}    - id: b\n      then: ask\n"
    assert [rule.id for rule in read_file("x", "x", after)[0].rules] == ["a", "b"]


def test_a_file_whose_rules_do_not_come_last_is_left_alone() -> None:
    with pytest.raises(HermesError, match="comes last"):
        appended("version: 1\nrules:\n  - {id: a, then: ask}\ntests: []\n", "- id: b\n")


def test_words_that_were_cut_short_are_not_taken_for_the_whole() -> None:
    first, second = (effect_of(f"$X {'a' * 600} {end}") for end in ("b", "c"))
    assert action(RULES, second, granted=grants(first)) == "ask"
    assert action(judge(RULES, first).verdict.proposal + RULES, second) == "ask"
    assert action(judge(RULES, first).verdict.proposal + RULES, first) == "allow"
