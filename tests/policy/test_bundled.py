"""The bundled policies against commands as people, and those with bad intentions, write them."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from hermes_agent.core.effects import Actor, Verdict, outside_calls
from hermes_agent.core.text.secret_files import SECRET_FILES, SECRET_KEYS
from hermes_agent.incidents.response.copies import copy_script
from hermes_agent.incidents.response.facts import survey_script
from hermes_agent.incidents.response.stability import request_script, sample_script
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.gate import UNCONFINED, RuleGate
from hermes_agent.policy.path_resolvers import by_words, finish, on_disk
from hermes_agent.policy.testing import HOMES, TERMINAL, WORKSPACE, make_effect
from hermes_agent.terminals.local.globs import trace

CASES = Path(__file__).parent / "cases"
POLICIES = Policies(Path("/nowhere"), HOMES)
ASKING = ("careful", "operate", "observe")
MAX_QUESTIONS = 0.02
"""The share of harmless commands that may ask."""


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.load(
        (CASES / f"{name}.yaml").read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    return found


def judge(
    profile: str, run: str, kind: str = "local", source: str = "cli", *, strict: bool = False
) -> Verdict:
    effect = make_effect(
        "terminal", {"command": run}, {"terminal": TERMINAL}, workspace=WORKSPACE, place=kind,
        actor=Actor("user", "", source),
    )  # fmt: skip
    effect = replace(effect, strict=strict)
    return finish(POLICIES.gate(profile).judge(effect, by_words(WORKSPACE, {})))


def commands(name: str) -> list[str]:
    return [case["run"] for case in cases(name)]


EVASIONS = cases("evasions")
BLIND = [{**case, "profiles": ["careful", "observe"]} for case in cases("evasions-blind")]
"""Under operate, many may change the workspace."""
HARMLESS = commands("harmless")
DESTRUCTIVE = commands("destructive")
REFUSED = [case["run"] for case in EVASIONS if case.get("expect") == "deny"]
EVERYWHERE = [run for run in REFUSED if "hermes" not in run and not run.startswith("cd ~")]
"""Not those about the home of Hermes, which is on this machine alone."""
LONG = {
    "a long list": "true" + " && true" * 5_000 + " && rm -rf build",
    "a long word": f"echo {'a' * 90_000}; rm -rf build",
    "a long text": f"echo '{'a' * 200_000}'; rm -rf build",
    "many brackets": "( " * 5_000 + "rm -rf build" + " )" * 5_000,
    "many quotes": "bash -c " * 200 + "'rm -rf build'",
    "many variables": "".join(f"v{n}=$v{n - 1}r; " for n in range(1, 400)) + "$v399 -rf build",
    "many braces": "{r,}{m,}" * 40 + " -rf build",
}


def test_there_are_enough_cases() -> None:
    assert len(EVASIONS) >= 150
    assert len(HARMLESS) >= 400
    assert len(DESTRUCTIVE) >= 150
    for runs in ([case["run"] for case in EVASIONS], HARMLESS, DESTRUCTIVE):
        assert len(set(runs)) == len(runs)


def test_no_profile_lets_a_file_of_the_table_be_read() -> None:
    rows = (*SECRET_FILES, *SECRET_KEYS)
    assert len(rows) > 200
    for row in rows:
        named = row if row.startswith(("/", "~")) else f"~/{row}"
        path = shlex.quote(named.replace("/**", "/x").replace("[!b]", "x").replace("*", "x"))
        path = path.replace("'~/", "~/'")
        for profile in ("careful", "sandbox"):
            assert judge(profile, f"cat {path}").action == "deny", row
        assert judge("careful", f"stat {path}").action == "allow", row


def is_loose(verdict: Verdict) -> bool:
    """Allowed, and not because the kernel holds it to looking."""
    held = (verdict.understood, verdict.confinement) == (False, "read-only")
    return verdict.action == "allow" and not held


def test_no_evasion_is_allowed_but_where_it_can_only_look() -> None:
    cases = [(one, case["run"]) for case in EVASIONS for one in case.get("profiles", ASKING)]
    assert [case for case in cases if is_loose(judge(*case))] == []


def test_no_evasion_is_allowed_where_all_must_be_understood() -> None:
    cases = [case["run"] for case in EVASIONS if "careful" in case.get("profiles", ASKING)]
    verdicts = {run: judge("careful", run, strict=True) for run in cases}
    assert [run for run, verdict in verdicts.items() if verdict.action == "allow"] == []


@pytest.mark.parametrize(
    ("command", "call", "expected"),
    [
        ("python3 x.py", "kubectl get pods", "only call programs that the command names"),
        ("python3 x.py", "sudo cat /var/log/syslog", "only call programs"),
        ("kubectl get pods -o json | python3 x.py", "kubectl get nodes", ""),
        ("kubectl get pods -o json | python3 x.py", "kubectl delete node x", "it deletes"),
        ("kubectl get pods -o json | python3 x.py", "KUBECONFIG=x kubectl get nodes", "no rule"),
        ("kubectl get pods -o json | python3 x.py", "docker ps", "only call programs"),
        ("kubectl get pods | wc -l", "docker ps", ""),
        ("python3 x.py; ping -c1 9.9.9.9", "ping -c1 9.9.9.9", ""),
        ("python3 x.py; timeout 9 ping -c1 9.9.9.9", "ping -c1 9.9.9.9", ""),
        ("python3 x.py; ping -c1 9.9.9.9", "ping -c1 115.101.99.114", "the same words"),
        ("python3 x.py; ping -c1 9.9.9.9", "ping -c1 -s 115 9.9.9.9", "the same words"),
        ("python3 x.py; curl http://10.0.0.9/", "curl 'http://10.0.0.9/?d=data'", "the same words"),
        ("python3 x.py; aws s3 ls", "aws s3 ls s3://other/data", "the same words"),
        ("python3 x.py; sudo -n lsof -i", "sudo -n lsof -p 1", "the same words"),
        ("python3 x.py; docker exec c ls", "docker exec c ping 9.9.9.9", "only call programs"),
    ],
)
def test_what_is_not_understood_calls_only_what_it_names(
    command: str, call: str, expected: str
) -> None:
    effect = make_effect(
        "terminal", {"command": command}, {"terminal": TERMINAL}, workspace=WORKSPACE
    )
    calls = outside_calls(POLICIES.gate("careful"), effect, by_words(WORKSPACE, {}))

    async def refused() -> str:
        return (await calls.judge(call, WORKSPACE)).refusal

    refusal = finish(refused())
    assert expected in refusal if expected else refusal == ""


@pytest.mark.parametrize("why", ["no bubblewrap", ""])
def test_what_is_not_understood_asks_where_no_view_can_be_made(why: str) -> None:
    rules = POLICIES.rules("careful")
    gate = RuleGate(lambda: rules, HOMES, unconfined=lambda: why)
    for run in ("python3 -c 1", "./x", 'cat "$f"'):
        effect = make_effect(
            "terminal", {"command": run}, {"terminal": TERMINAL}, workspace=WORKSPACE
        )
        granted = frozenset({UNCONFINED})
        verdict = finish(gate.judge(effect, by_words(WORKSPACE, {}), granted))
        assert verdict.action == "ask"


@pytest.mark.parametrize("run", LONG.values(), ids=LONG.keys())
def test_nothing_is_hidden_by_sheer_length(run: str) -> None:
    assert [profile for profile in ASKING if is_loose(judge(profile, run))] == []


@pytest.mark.parametrize("kind", ["local", "sandbox", "ssh"])
def test_the_unforgivable_is_refused_in_every_profile(kind: str) -> None:
    runs = EVERYWHERE if kind == "ssh" else REFUSED
    cases = [(profile, run, kind) for run in runs for profile in (*ASKING, "sandbox")]
    assert [case for case in cases if judge(*case).action != "deny"] == []


def test_nothing_destructive_is_allowed() -> None:
    for profile in ("careful", "operate"):
        assert [run for run in DESTRUCTIVE if judge(profile, run).action == "allow"] == []
    assert [run for run in DESTRUCTIVE if judge("observe", run).action != "deny"] == []


def test_nothing_harmless_is_refused() -> None:
    assert [run for run in HARMLESS if judge("careful", run).action == "deny"] == []


@pytest.mark.parametrize("kind", ["local", "ssh", "kubernetes", "container"])
def test_hardly_any_harmless_command_asks(kind: str) -> None:
    verdicts = {run: judge("careful", run, kind) for run in HARMLESS}
    asking = {run: verdict for run, verdict in verdicts.items() if verdict.action != "allow"}
    print(f"\n{len(asking)} of {len(HARMLESS)} ask on {kind}:")
    for run, verdict in asking.items():
        print(f"  {run}\n    {verdict.reason}")
    assert len(asking) <= MAX_QUESTIONS * len(HARMLESS)


def test_what_is_harmless_is_so_for_those_who_operate_and_observe() -> None:
    allowed = [run for run in HARMLESS if judge("careful", run).action == "allow"]
    assert [run for run in allowed if judge("observe", run).action != "allow"] == []
    asking = {
        run: verdict for run in allowed if (verdict := judge("operate", run)).action != "allow"
    }
    assert {run.split()[0] for run in asking} <= {"ansible", "terraform", "tofu"} | {
        f"ansible-{name}" for name in ("inventory", "playbook")
    }
    assert {verdict.rule for verdict in asking.values()} == {
        "operate/plugins-of-the-workspace", "operate/providers-of-the-workspace",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("hook", "asking"),
    [
        (".git/hooks/pre-commit", {"git commit -m x", "git -C sub commit", "cd sub; git commit"}),
        (".husky/post-checkout", {"git switch main", "git checkout -b new"}),
        (
            ".git/hooks/reference-transaction",
            {
                "git add -A",
                "git fetch",
                "git commit -m x",
                "git stash push",
                "git tag v1",
                "git branch new",
                "git restore --staged .",
                "git notes add -m x",
            },
        ),
        (".git/hooks/pre-commit.sample", set()),
    ],
)
def test_git_asks_where_hooks_would_run(tmp_path: Path, hook: str, asking: set[str]) -> None:
    never = {"git -c core.hooksPath=/dev/null commit -m x", "git status", "git branch -a"}

    def judged(run: str) -> Verdict:
        effect = make_effect(
            "terminal", {"command": run}, {"terminal": TERMINAL}, workspace=str(tmp_path)
        )
        return finish(POLICIES.gate("operate").judge(effect, on_disk))

    (tmp_path / "sub").mkdir()
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    assert {judged(run).action for run in never} == {"allow"}
    before = {run: judged(run).rule for run in asking}
    (tmp_path / hook).parent.mkdir(exist_ok=True)
    (tmp_path / hook).touch()
    assert {judged(run).action for run in never} == {"allow"}
    assert "operate/hooks" not in before.values()
    for run in asking:
        assert judged(run).action == "ask"
        assert "hooksPath=/dev/null" in judged(run).reason


@pytest.mark.parametrize("name", ["sub", "x[1]", "x\\y", "x*", "a?b", "[[.a.]]", "\\"])
def test_a_repository_inside_asks_whatever_its_folder_is_called(tmp_path: Path, name: str) -> None:
    async def resolve(paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        return [trace(path) for path in paths]

    (tmp_path / name / ".git").mkdir(parents=True)
    for run in (f"git -C {shlex.quote(name)} add .", f"cd {shlex.quote(name)} && git add ."):
        effect = make_effect(
            "terminal", {"command": run}, {"terminal": TERMINAL}, workspace=str(tmp_path)
        )
        verdict = finish(POLICIES.gate("operate").judge(effect, resolve))
        assert (verdict.action, verdict.rule) == ("ask", "looking/nested-repositories")
        assert finish(POLICIES.gate("operate").judge(effect, on_disk)).action == "ask"


def test_what_no_rule_covers_is_refused_where_the_profile_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    rule = "rules: [{id: one, match: {program: one}, then: allow}]"
    (folder / "mine.yaml").write_text(f"version: 1\nprofile: mine\nextends: observe\n{rule}\n")
    (folder / "soft.yaml").write_text(
        f"version: 1\nprofile: soft\nextends: observe\notherwise: ask\n{rule}\n"
    )
    policies = Policies.of_home(tmp_path, tmp_path)
    assert [policies.load().otherwise(name) for name in ("mine", "soft", "careful")] == [
        "deny", "ask", "ask",
    ]  # fmt: skip


def test_only_a_profile_can_say_what_becomes_of_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "mine.yaml").write_text("version: 1\notherwise: deny\nrules: []\n")
    (problem,) = Policies.of_home(tmp_path, tmp_path).load().problems
    assert "only a profile" in problem.message


@pytest.mark.parametrize("profile", ASKING)
def test_what_the_runtime_looks_at_in_an_incident_asks_nobody(profile: str) -> None:
    survey, sample = survey_script(["shop", "store"]), sample_script({})
    assert judge(profile, survey).action == "allow"
    assert judge(profile, sample).action == "allow"
    ask = request_script([8080, 8443])
    assert judge(profile, ask, source="incident-watch").action == "allow"


@pytest.mark.parametrize("profile", ["careful", "operate"])
def test_copies_of_an_incident_are_made_without_a_question_by_nobody_else(profile: str) -> None:
    keep = copy_script("inc-1", 1, ["/etc/shop/shop.env"])
    assert judge(profile, keep, source="incident-copies").action == "allow"
    assert judge(profile, keep).action == "ask"
    elsewhere = keep.replace("/var/tmp/hermes-copies", "/etc/cron.d")
    assert judge(profile, elsewhere, source="incident-copies").action == "ask"


def test_skills_that_ship_may_read_what_they_find() -> None:
    run = 'for f in $(find /etc -name "*.conf"); do grep -n listen "$f"; done'
    assert judge("careful", run, "ssh", source="shipped-skill").action == "allow"
    assert judge("careful", run, "ssh").action == "ask"
