import logging
from collections.abc import Sequence

import pytest

from hermes_agent.core.effects import ApprovalRequirement, Effect, Verdict
from hermes_agent.core.errors import ToolError
from hermes_agent.policy.gate import RuleGate
from hermes_agent.policy.operations import recorded
from hermes_agent.policy.path_resolvers import finish
from hermes_agent.policy.ruleset import RuleSet
from hermes_agent.policy.testing import HOMES
from tests.support.policies import ALLOW_ALL_CALLS, action, effect_of, judge, rules_of

LOOKING = f"""
{ALLOW_ALL_CALLS}
- {{id: looking, match: {{program: [ls, cat, echo]}}, then: allow}}
- {{id: inside, match: {{access: read, inside: workspace}}, then: allow}}
"""


def gate_of(rules: str) -> RuleGate:
    ready = RuleSet(rules_of(rules))
    return RuleGate(lambda: ready, HOMES)


def test_what_no_rule_covers_asks_and_says_so() -> None:
    verdict = judge("- {id: a, match: {tool: other}, then: allow}", effect_of(tool="fetch")).verdict
    assert (verdict.action, verdict.rule) == ("ask", "default")
    assert verdict.reason == "no rule covers the tool fetch"


def test_an_effect_is_allowed_when_all_its_acts_are() -> None:
    verdict = judge(LOOKING, effect_of("ls; cat a")).verdict
    assert (verdict.action, verdict.reason) == ("allow", "mine/looking allows it")


def test_the_strictest_act_decides_for_the_whole() -> None:
    rules = f"{LOOKING}- {{id: no-rm, match: {{program: rm}}, then: deny, reason: rm is not used}}"
    assert action(rules, effect_of("ls; touch x")) == "ask"
    verdict = judge(rules, effect_of("ls; touch x; rm y")).verdict
    assert (verdict.action, verdict.rule) == ("deny", "mine/no-rm")
    assert verdict.reason == "rm is not used: `rm y`"


def test_a_deny_wins_wherever_it_stands_and_else_the_first_rule() -> None:
    ask, allow = (
        "{id: a, match: {program: ls}, then: ask}",
        "{id: b, match: {program: ls}, then: allow}",
    )
    deny = "{id: c, match: {program: ls}, then: deny}"
    calls = ALLOW_ALL_CALLS
    assert action(f"{calls}\n- {ask}\n- {allow}", effect_of("ls")) == "ask"
    assert action(f"{calls}\n- {allow}\n- {ask}", effect_of("ls")) == "allow"
    assert action(f"{calls}\n- {allow}\n- {ask}\n- {deny}", effect_of("ls")) == "deny"


def test_the_reasons_of_all_that_asks_are_told() -> None:
    verdict = judge(ALLOW_ALL_CALLS, effect_of("aa; bb; cc; dd; ee")).verdict
    assert verdict.reason == (
        "no rule covers `aa`: an unknown program; no rule covers `bb`: an unknown program; "
        "no rule covers `cc`; and 2 more"
    )


def test_a_reason_that_the_program_gives_is_not_repeated_for_its_paths() -> None:
    rules = f"""
{ALLOW_ALL_CALLS}
- {{id: paths, match: {{access: delete}}, then: ask, reason: it deletes files}}
- {{id: rm, match: {{program: rm}}, then: ask, reason: it deletes files or more}}
"""
    for links, more in (
        ({}, ""),
        ({"b": "/etc"}, "; it deletes files: deleting 'b' (resolves to /etc)"),
    ):
        verdict = judge(rules, effect_of("rm -r b"), links=links).verdict
        assert verdict.reason == f"it deletes files or more: `rm -r b`{more}"


def test_a_path_that_leads_elsewhere_is_told_in_the_reason() -> None:
    effect = effect_of(tool="read_file", paths=(("read", "notes"),))
    verdict = judge(LOOKING, effect, links={"notes": "/etc/shadow"}).verdict
    assert verdict.reason == "no rule covers reading 'notes' (resolves to /etc/shadow)"
    assert ("/workspace/notes", ("/etc/shadow",)) in verdict.seen


@pytest.mark.parametrize(
    ("path", "links", "expected"),
    [
        ("a", {}, "allow"),
        ("a/../b", {}, "allow"),
        ("../x", {}, "ask"),
        ("/etc/passwd", {}, "ask"),
        ("~/x", {}, "ask"),
        ("~other/x", {}, "ask"),
        ("a", {"a": "/etc"}, "ask"),
        ("a/../passwd", {"a": "/etc/ssh"}, "ask"),
        ("a b/../passwd", {"a b": "/etc/ssh"}, "ask"),
        ("/elsewhere/a", {"/elsewhere": "/workspace"}, "allow"),
        ("a", {"/workspace": "/data/w"}, "allow"),
        ("a\0b", {}, "ask"),
        ("x" * 5000, {}, "ask"),
    ],
)
def test_a_path_of_a_tool_is_judged_where_it_leads(
    path: str, links: dict[str, str], expected: str
) -> None:
    effect = effect_of(tool="read_file", input={"path": path}, paths=(("read", path),))
    assert action(LOOKING, effect, links=links) == expected


def test_a_path_of_a_command_that_climbs_out_of_a_folder_asks() -> None:
    assert action(LOOKING, effect_of("cat a/passwd")) == "allow"
    assert action(LOOKING, effect_of("cat a/../passwd"), links={"a": "/etc/ssh"}) == "ask"


def test_paths_of_other_machines_do_not_begin_at_this_home() -> None:
    rules = f"{ALLOW_ALL_CALLS}\n- {{id: home, match: {{path: ~/**}}, then: allow}}"
    effect = effect_of(tool="read_file", paths=(("read", "~/x"),))
    assert action(rules, effect) == "allow"
    elsewhere = effect_of(tool="read_file", paths=(("read", "~/x"),), terminal_kind="ssh")
    assert action(rules, elsewhere) == "ask"
    absolute = effect_of(
        tool="read_file", paths=(("read", f"{HOMES.user}/x"),), terminal_kind="ssh"
    )
    assert action(rules, absolute) == "ask"


def test_a_path_on_another_machine_is_not_inside_the_workspace() -> None:
    rules = f"""
    {ALLOW_ALL_CALLS}
    - {{id: programs, match: {{kind: [program, host]}}, then: allow}}
    - {{id: inside, match: {{inside: workspace}}, then: allow}}
    - {{id: no, match: {{path: /etc/shadow}}, then: deny}}
    """
    assert action(rules, effect_of("cat /workspace/a")) == "allow"
    assert action(rules, effect_of("ssh web cat /workspace/a")) == "ask"
    assert action(rules, effect_of("ssh web cat /etc/shadow")) == "deny"


def test_a_host_of_a_tool_is_an_act_of_its_own() -> None:
    rules = f"{ALLOW_ALL_CALLS}\n- {{id: web, match: {{host: '*.example.com'}}, then: allow}}"
    assert action(rules, effect_of(tool="fetch", hosts=("a.example.com",))) == "allow"
    assert action(rules, effect_of(tool="fetch", hosts=("a.example.com", "b.org"))) == "ask"


def test_an_audit_rule_only_marks() -> None:
    rules = f"{LOOKING}- {{id: note, match: {{program: ls}}, then: audit}}"
    verdict = judge(rules, effect_of("ls")).verdict
    assert (verdict.action, verdict.audits) == ("allow", ("mine/note",))
    assert judge(rules, effect_of("echo x")).verdict.audits == ()


def test_a_rule_that_fails_denies_and_names_its_line() -> None:
    rules = f"{LOOKING}- {{id: odd, match: {{program: ls}}, when: effect.input.x == 1, then: ask}}"
    assert action(rules, effect_of("ls")) == "allow"  # the first rule that fits has decided
    first = f"- {{id: odd, match: {{program: ls}}, when: effect.input.x == 1, then: ask}}{LOOKING}"
    verdict = judge(first, effect_of("ls")).verdict
    assert verdict.action == "deny"
    assert "mine/odd failed (mine.yaml:3)" in verdict.reason
    assert action(first, effect_of("echo x")) == "allow"


def test_consent_is_what_satisfies_every_rule_that_asks() -> None:
    rules = f"""
    {ALLOW_ALL_CALLS}
    - {{id: a, match: {{program: aa}}, then: {{ask: {{by: [alice, bob], within: 1h}}}}}}
    - {{id: b, match: {{program: bb}}, then: {{ask: {{by: [bob, carol], count: 2, within: 5m}}}}}}
    - {{id: c, match: {{program: cc}}, then: {{ask: {{by: dave}}}}}}
    """
    assert judge(rules, effect_of("aa; bb; dd")).verdict.consent == ApprovalRequirement(
        ("bob",), 2, 300.0
    )
    assert judge(rules, effect_of("dd")).verdict.consent == ApprovalRequirement()
    verdict = judge(rules, effect_of("aa; cc")).verdict
    assert verdict.action == "deny"
    assert "different approvers" in verdict.reason


def test_a_secret_is_granted_when_everything_that_runs_may_have_it() -> None:
    rules = f"""{LOOKING}
- {{id: k, match: {{program: [kubectl, grep]}}, then: allow, secrets: [KUBE_TOKEN]}}
"""
    assert judge(rules, effect_of("kubectl get pods")).verdict.secrets == ("KUBE_TOKEN",)
    assert judge(rules, effect_of("kubectl get pods | grep x")).verdict.secrets == ("KUBE_TOKEN",)
    assert judge(rules, effect_of("kubectl get pods; echo x")).verdict.secrets == ()
    assert judge(rules, effect_of("echo x")).verdict.secrets == ()


def test_a_secret_of_a_call_is_granted_by_the_rule_that_allows_it() -> None:
    rules = "- {id: f, match: {tool: fetch}, then: allow, secrets: [API_KEY]}"
    assert judge(rules, effect_of(tool="fetch")).verdict.secrets == ("API_KEY",)
    assert judge(rules, effect_of(tool="other")).verdict.secrets == ()


def test_a_capability_the_agent_lacks_is_refused() -> None:
    rules = RuleSet(rules_of(LOOKING))
    gate = RuleGate(lambda: rules, HOMES, frozenset({"filesystem"}))
    verdict = finish(gate.judge(effect_of("ls"), recorded(())))
    assert (verdict.action, verdict.rule) == ("deny", "grant")
    assert "process" in verdict.reason


def test_a_recorded_effect_can_be_judged_again_by_other_rules() -> None:
    effect = effect_of("cat notes")
    seen = judge(LOOKING, effect, links={"notes": "/etc/shadow"}).verdict.seen
    assert finish(gate_of(LOOKING).judge(effect, recorded(seen))).action == "ask"
    stricter = f"{LOOKING}- {{id: no, match: {{path: /etc/shadow}}, then: deny}}"
    assert finish(gate_of(stricter).judge(effect, recorded(seen))).action == "deny"


def test_all_paths_are_looked_up_at_once() -> None:
    asked: list[Sequence[str]] = []

    async def resolve(paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        asked.append(paths)
        return [(path,) for path in paths]

    finish(gate_of(LOOKING).judge(effect_of("cat a b; ls c"), resolve))
    (paths,) = asked
    assert {"/workspace/a", "/workspace/b", "/workspace/c"} <= set(paths)


def test_places_that_cannot_be_looked_up_are_refused() -> None:
    async def unreachable(_paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        raise ToolError("the terminal does not answer")

    verdict = finish(gate_of(LOOKING).judge(effect_of("ls"), unreachable))
    assert verdict == Verdict("deny", "the terminal does not answer", "gate")


def test_a_failure_of_the_gate_refuses_and_is_seen_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def short(_paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        return []

    with caplog.at_level(logging.ERROR):
        verdict = finish(gate_of(LOOKING).judge(effect_of("cat a"), short))
    assert verdict.action == "deny"
    assert "the gate failed on terminal" in caplog.text


def test_a_place_that_nobody_has_seen_is_not_allowed() -> None:
    async def blind(paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        return [() for _path in paths]

    assert finish(gate_of(LOOKING).judge(effect_of("cat a"), blind)).action == "ask"


def test_an_explanation_says_the_same_as_the_verdict() -> None:
    rules = f"{LOOKING}- {{id: odd, match: {{program: ls}}, when: effect.input.x == 1, then: ask}}"
    gate = gate_of(rules)
    judged = finish(gate.consider(effect_of("ls"), recorded(()), whole=True))
    assert judged.verdict == finish(gate.judge(effect_of("ls"), recorded(())))


CONFINED = f"""
{ALLOW_ALL_CALLS}
- {{id: looking, match: {{program: [ls, cat, cd]}}, then: allow, confine: read-only}}
- {{id: reading, match: {{access: read, inside: workspace}}, then: allow, confine: read-only}}
- {{id: making, match: {{program: touch}}, then: allow, confine: workspace}}
- {{id: written, match: {{access: write, inside: workspace}}, then: allow, confine: workspace}}
- {{id: service, match: {{program: docker}}, then: allow}}
- {{id: around, match: {{program: [ss, curl]}}, then: allow, confine: around}}
- {{id: by-text, match: {{text: ["mount", "ip a*"]}}, then: allow, confine: around}}
- {{id: alone, match: {{program: lsof}}, then: allow, confine: alone}}
"""


@pytest.mark.parametrize(
    ("command", "confinement"),
    [
        ("ls; cat a", "read-only"),
        ("cd sub && ls", "read-only"),
        ("ls; touch a", "workspace"),
        ("ls; docker ps", "none"),
        ("ss | cat", "read-only"),
        ("ss; touch a", "workspace"),
        ("lsof -p 1", "none"),
        ("cd sub", "none"),
        ("x=1", "none"),
    ],
)
def test_the_rules_that_allow_a_command_say_where_it_runs(command: str, confinement: str) -> None:
    verdict = judge(CONFINED, effect_of(command)).verdict
    assert (verdict.action, verdict.confinement) == ("allow", confinement)
    elsewhere = judge(CONFINED, effect_of(command, terminal_kind="ssh")).verdict
    assert elsewhere.confinement == "none"


@pytest.mark.parametrize(
    ("command", "confinement", "verdict"),
    [
        ("ls; cat a", "read-only", "allow"),
        ("cd sub && ls", "read-only", "allow"),
        ("ls; docker ps", "none", "allow"),
        ("ls; touch a", "workspace", "allow"),
        ("ss; touch a", "none", "ask"),
        ("ss | cat", "none", "ask"),
        ("mount | cat", "none", "ask"),
        ("lsof -p 1 | cat", "none", "ask"),
        ("lsof -p 1", "none", "allow"),
    ],
)
def test_elsewhere_what_needs_no_service_is_confined_and_a_rule_can_insist(
    command: str, confinement: str, verdict: str
) -> None:
    there = effect_of(
        command, terminal="web1", terminal_kind="ssh", unconfined="", unconfined_workspace=""
    )
    found = judge(CONFINED, there).verdict
    assert (found.action, found.confinement) == ("allow", confinement)
    must = CONFINED + "- {id: must, match: {place: ssh}, then: confine}\n"
    found = judge(must, there).verdict
    assert (found.action, found.confinement) == (verdict, confinement)
    if verdict == "ask":
        granted = frozenset(found.grants)
        assert judge(must, there, granted=granted).verdict.action == "allow"


def test_where_the_kernel_cannot_a_rule_that_insists_asks_for_that_place_alone() -> None:
    must = CONFINED + "- {id: must, match: {place: ssh}, then: confine}\n"
    there = effect_of("ls", terminal="web1", terminal_kind="ssh", unconfined="no bubblewrap")
    assert judge(CONFINED, there).verdict.action == "allow"
    asked = judge(must, there).verdict
    assert (asked.action, asked.rule) == ("ask", "mine/must")
    assert asked.reason == "it would run confined, but no bubblewrap"
    granted = frozenset(asked.grants)
    assert judge(must, there, granted=granted).verdict.action == "allow"
    other = effect_of("ls", terminal="web2", terminal_kind="ssh", unconfined="no bubblewrap")
    assert judge(must, other, granted=granted).verdict.action == "ask"
    assert judge(must, effect_of("docker ps", terminal_kind="ssh")).verdict.action == "allow"


def test_where_the_kernel_can_hold_looks_alone_changes_are_up_to_the_rules() -> None:
    def there(command: str) -> Effect:
        return effect_of(
            command, terminal_kind="ssh", unconfined="", unconfined_workspace="it is a home"
        )

    must = CONFINED + "- {id: must, match: {place: ssh}, then: confine}\n"
    assert judge(must, there("ls")).verdict.confinement == "read-only"
    found = judge(CONFINED, there("touch a")).verdict
    assert (found.action, found.confinement) == ("allow", "none")
    asked = judge(must, there("touch a")).verdict
    assert asked.reason == "it would run confined, but it is a home"


def test_what_cannot_be_confined_asks_unless_it_is_alone() -> None:
    asked = judge(CONFINED, effect_of("lsof -p 1 | cat")).verdict
    assert (asked.action, asked.confinement) == ("ask", "none")
    assert "cannot be confined with the rest" in asked.reason
    granted = frozenset(asked.grants)
    assert judge(CONFINED, effect_of("lsof -p 1 | cat"), granted=granted).verdict.action == "allow"


def test_programs_around_which_a_command_is_confined_are_known() -> None:
    named = {"ss", "curl", "mount", "ip"}
    outside = RuleSet(rules_of(CONFINED)).outside
    assert named <= outside
    assert "sudo" in outside - named
    assert (
        RuleSet(rules_of("- {id: one, match: {program: ls}, then: allow}")).outside == frozenset()
    )


def test_what_a_person_agreed_to_runs_where_it_belongs() -> None:
    asked = judge(CONFINED, effect_of("ls; rm a"))
    granted = frozenset(asked.verdict.grants)
    verdict = judge(CONFINED, effect_of("ls; rm a"), granted=granted).verdict
    assert (verdict.action, verdict.confinement) == ("allow", "none")


def test_what_cannot_be_confined_asks_once_unless_the_rules_are_trusted_alone() -> None:
    ready = RuleSet(rules_of(CONFINED))

    def judged(command: str, must: bool, granted: frozenset[str] = frozenset()) -> Verdict:
        gate = RuleGate(lambda: ready, HOMES, None, lambda: "no bubblewrap" if must else "")
        return finish(gate.judge(effect_of(command), recorded(()), granted))

    asked = judged("ls", True)
    assert (asked.action, asked.confinement) == ("ask", "none")
    assert "no bubblewrap" in asked.reason
    for allowed in (
        judged("cat a; ls", True, frozenset(asked.grants)),
        judged("ls", False),
        judged("docker ps", True),
    ):
        assert (allowed.action, allowed.confinement) == ("allow", "none")
